//! The tutorial, `docs/guide/tutorial-*.md`, as a reader works through it: sources, commands and
//! what these print come out of the Markdown, and nothing else does.
//!
//! * A listing is the file that its first line names in a comment.
//! * In a block of `console`, a line that begins with `$ ` is a command. It succeeds, unless it
//!   ends with the comment `# exit code N`. The lines below it are what it prints, to both outputs.
//! * `…` is any words of a line, alone on a line for any lines. All else has to be there:
//!   words as they are, whole numbers below 100, signs and units too. Blanks are as wide as a table
//!   makes them. Larger numbers and those with a decimal point differ by a fifth at most, because
//!   compilers and versions of QEMU differ; figures near 0 by 2.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use common::{root, story};

/// What a quote leaves out.
const GAP: &str = "…";

/// A whole number from here on is a measured one.
const MEASURED: f64 = 100.0;

#[derive(Debug, PartialEq)]
enum Step<'a> {
    Write(&'a str, String),
    Run(&'a str, Vec<&'a str>),
}

/// What a chapter has its reader do, in order.
fn steps(chapter: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let mut lines = chapter.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if language == "console" {
            steps.extend(commands(&block));
        } else {
            steps.push(Step::Write(file_name(&block), block.join("\n") + "\n"));
        }
    }
    steps
}

/// The commands of a block, each with the lines that follow it.
fn commands<'a>(block: &[&'a str]) -> Vec<Step<'a>> {
    let mut commands = Vec::new();
    for line in block {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push(Step::Run(command, Vec::new())),
            (None, Some(Step::Run(_, quoted))) => quoted.push(*line),
            _ => panic!("a block of console that does not begin with a command: {line}"),
        }
    }
    commands
}

/// The file that a listing's first line names.
fn file_name<'a>(listing: &[&'a str]) -> &'a str {
    let first = listing.first().copied().unwrap_or("");
    let named = first.strip_prefix("// ").or(first.strip_prefix("# "));
    named
        .filter(|name| !name.contains([' ', '/']))
        .unwrap_or_else(|| panic!("the first line of a listing does not name its file: {first}"))
}

/// Is `printed` what is quoted, where `same` compares what is not left out?
fn matches(quoted: &[&str], printed: &[&str], same: fn(&str, &str) -> bool) -> bool {
    match quoted.split_first() {
        None => printed.is_empty(),
        Some((&GAP, rest)) => {
            (0..=printed.len()).any(|left_out| matches(rest, &printed[left_out..], same))
        }
        Some((first, rest)) => printed
            .split_first()
            .is_some_and(|(printed, others)| same(first, printed) && matches(rest, others, same)),
    }
}

fn same_line(quoted: &str, printed: &str) -> bool {
    let quoted: Vec<&str> = quoted.split_whitespace().collect();
    let printed: Vec<&str> = printed.split_whitespace().collect();
    matches(&quoted, &printed, same_word)
}

fn same_word(quoted: &str, printed: &str) -> bool {
    if quoted == printed {
        return true;
    }
    let (Some(quoted), Some(printed)) = (figure(quoted), figure(printed)) else {
        return false;
    };
    let least = if quoted.is_whole { 0.0 } else { 2.0 };
    quoted.around == printed.around
        && quoted.is_whole == printed.is_whole
        && (!quoted.is_whole || quoted.value >= MEASURED)
        && (quoted.value - printed.value).abs() <= (quoted.value / 5.0).max(least)
}

/// A number within a word.
struct Figure<'a> {
    value: f64,
    is_whole: bool,
    /// Sign and unit.
    around: (&'a str, &'a str),
}

fn figure(word: &str) -> Option<Figure<'_>> {
    let begin = word.find(|c: char| c.is_ascii_digit())?;
    let end = word.rfind(|c: char| c.is_ascii_digit())? + 1;
    let number = &word[begin..end];
    Some(Figure {
        value: number.replace(',', "").parse().ok()?,
        is_whole: !number.contains('.'),
        around: (&word[..begin], &word[end..]),
    })
}

/// The exit code that a command says it has.
fn exit_code(command: &str) -> i32 {
    let stated = command.rsplit_once("# exit code ");
    stated.map_or(0, |(_, code)| code.parse().unwrap())
}

fn run(folder: &Path, command: &str, quoted: &[&str]) {
    let built = Path::new(env!("CARGO_BIN_EXE_linemate")).parent().unwrap();
    let path = env::join_paths(
        [built.to_owned()]
            .into_iter()
            .chain(env::split_paths(&env::var_os("PATH").unwrap())),
    );
    let output = Command::new("bash")
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .env("PATH", path.unwrap())
        .current_dir(folder)
        .output()
        .unwrap();
    let told = story(&output);
    assert_eq!(
        output.status.code(),
        Some(exit_code(command)),
        "$ {command}\n{told}"
    );
    let printed = String::from_utf8(output.stdout).unwrap();
    let printed: Vec<&str> = printed.lines().collect();
    assert!(
        matches(quoted, &printed, same_line),
        "$ {command}\n{told}\nis not what is quoted:\n{}",
        quoted.join("\n")
    );
}

/// Works through a chapter in a folder of its own; gives how many commands it has.
fn work_through(name: &str) -> usize {
    let chapter = fs::read_to_string(root().join("docs/guide").join(name)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let steps = steps(&chapter);
    for step in &steps {
        match step {
            Step::Write(name, text) => fs::write(folder.path().join(name), text).unwrap(),
            Step::Run(command, quoted) => run(folder.path(), command, quoted),
        }
    }
    steps
        .iter()
        .filter(|step| matches!(step, Step::Run(..)))
        .count()
}

#[test]
fn a_kernel_struct() {
    assert!(work_through("tutorial-kernel.md") >= 5);
}

#[test]
fn a_cpp_server() {
    assert!(work_through("tutorial-cpp.md") >= 8);
}

#[test]
fn a_rust_pool() {
    assert!(work_through("tutorial-rust.md") >= 8);
}

#[test]
fn no_other_chapter_is_there() {
    let files = fs::read_dir(root().join("docs/guide")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut chapters: Vec<String> = names.filter(|name| name.starts_with("tutorial")).collect();
    chapters.sort();
    assert_eq!(
        chapters,
        ["tutorial-cpp.md", "tutorial-kernel.md", "tutorial-rust.md"]
    );
}

#[test]
fn a_chapters_listings_and_commands_are_its_steps() {
    let chapter = "Text\n```c\n// a.c\nint a;\n```\n```console\n$ cc a.c\n$ ./a\nno\n…\n```\n";
    let expected = [
        Step::Write("a.c", "// a.c\nint a;\n".to_owned()),
        Step::Run("cc a.c", vec![]),
        Step::Run("./a", vec!["no", "…"]),
    ];
    assert_eq!(steps(chapter), expected);
}

#[test]
fn a_quote_is_what_is_printed() {
    let printed = [
        "store cost 28,827,209 cycles, -33.9 ± 0.1 %",
        "of 64 bytes",
        "end",
    ];
    for quoted in [
        &printed[..],
        &[
            "store cost 25,000,000 cycles, -30.1 ± 1.0 %",
            "of 64 bytes",
            "end",
        ],
        &["store … ± 0.1 %", "…", "end"],
        &["… -33.9 …", "of   64 bytes", "…"],
        &["…"],
    ] {
        assert!(matches(quoted, &printed, same_line), "{quoted:?}");
    }
    for quoted in [
        &printed[1..],
        &printed[..2],
        &["shop … ± 0.1 %", "…"],
        &["… +33.9 …", "…"],
        &["… 33.9 …", "…"],
        &["… -48.9 …", "…"],
        &["… 20,000,000 …", "…"],
        &["…", "of 65 bytes", "…"],
        &["…", "of 64.0 bytes", "…"],
        &["…", "of 64", "…"],
        &["…", "end", "of 64 bytes", "…"],
        &[],
    ] {
        assert!(!matches(quoted, &printed, same_line), "{quoted:?}");
    }
}
