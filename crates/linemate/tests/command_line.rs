//! What every verb's options accept and refuse: walks the grammar, so that a new option is
//! included.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::any::TypeId;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use clap::error::ErrorKind;
use clap::{Arg, Command};
use common::{linemate, linemate_in, story};

/// Calls `look` with every option and argument of every verb that takes a value, and the words
/// before it.
fn walk(command: &Command, words: &[String], look: &mut dyn FnMut(&[String], &Arg)) {
    for verb in command
        .get_subcommands()
        .filter(|verb| verb.get_name() != "help")
    {
        let words = [words, &[verb.get_name().to_owned()]].concat();
        let takes = |arg: &&Arg| arg.get_action().takes_values();
        verb.get_arguments()
            .filter(takes)
            .for_each(|arg| look(&words, arg));
        walk(verb, &words, look);
    }
}

/// The error for this value of an option; `None` if it is accepted, whatever else the command
/// lacks.
fn refused(words: &[String], arg: &Arg, value: &str) -> Option<String> {
    let option = format!("--{}={value}", arg.get_long().unwrap());
    let line = words.iter().cloned().chain([option]);
    let parsed =
        linemate::command().try_get_matches_from(["linemate".to_owned()].into_iter().chain(line));
    let error = parsed.err()?;
    let taken = matches!(
        error.kind(),
        ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict
    );
    (!taken).then(|| error.to_string().lines().next().unwrap().to_owned())
}

/// Whether a user takes the option for a number.
fn is_number(arg: &Arg) -> bool {
    let kind = arg.get_value_parser().type_id();
    let numbers = [
        TypeId::of::<u8>(),
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<u128>(),
        TypeId::of::<usize>(),
        TypeId::of::<i8>(),
        TypeId::of::<i16>(),
        TypeId::of::<i32>(),
        TypeId::of::<i64>(),
        TypeId::of::<isize>(),
        TypeId::of::<f32>(),
        TypeId::of::<f64>(),
    ];
    let names = arg.get_value_names().unwrap_or_default();
    let is_named = names.iter().any(|name| {
        ["N", "N|qemu", "N,N,...", "BYTES", "SECONDS", "SIZE"].contains(&name.as_str())
    });
    is_named || numbers.iter().any(|number| kind == *number)
}

/// One more or one less than a number of any size.
fn next_to(number: &str, by: i128) -> String {
    let number = linemate_text::parse_size(number).unwrap();
    (i128::from(number) + by).to_string()
}

#[test]
fn every_number_has_bounds_that_its_help_and_its_error_say() {
    let mut seen = Vec::new();
    walk(&linemate::command(), &[], &mut |words, arg| {
        if !is_number(arg) {
            return;
        }
        let what = format!(
            "{} --{}",
            words.join(" "),
            arg.get_long().expect("numbers are options")
        );
        let refused = |value: &str| refused(words, arg, value);
        let most = "9".repeat(40);
        let error = refused(&most).unwrap_or_else(|| panic!("{what} takes {most}"));
        let help = arg.get_long_help().or(arg.get_help()).unwrap().to_string();
        seen.push(arg.get_long().unwrap().to_owned());
        if arg.get_long() == Some("line") {
            assert_eq!(
                error,
                format!("error: --line = {most}: must be 64 or 128"),
                "{what}"
            );
            assert!(help.contains("64 or 128"), "{what}: {help}");
            let ends = ["63", "65", "127", "129", "0", "-64", "6.4e1", ""];
            assert!(ends.iter().all(|value| refused(value).is_some()), "{what}");
            assert!(
                ["64", "128"].iter().all(|value| refused(value).is_none()),
                "{what}"
            );
            return;
        }
        let start = format!("error: --{} = {most}: must be ", arg.get_long().unwrap());
        let bounds = error
            .strip_prefix(&start)
            .unwrap_or_else(|| panic!("{what}: {error}"));
        let word = arg
            .get_long()
            .filter(|name| *name == "turn")
            .map(|_| "qemu");
        let range = match word {
            Some(word) => bounds.strip_suffix(&format!(", or {word}")),
            None => Some(bounds),
        };
        let (least, most) = range
            .and_then(|range| range.split_once(" to "))
            .unwrap_or_else(|| panic!("{what}: {error}"));
        let said = range.into_iter().chain(word);
        for said in said {
            assert!(
                help.contains(said),
                "{what}: no {said:?} in its help: {help}"
            );
        }
        assert_eq!(word.and_then(refused), None, "{what}");
        for taken in [least, most] {
            assert_eq!(refused(taken), None, "{what}");
        }
        for beyond in [
            &next_to(least, -1),
            &next_to(most, 1),
            "-1",
            "1e1",
            "0x8",
            "eight",
            "",
            " 8",
        ] {
            let error = refused(beyond).unwrap_or_else(|| panic!("{what} takes {beyond:?}"));
            assert_eq!(
                error,
                format!(
                    "error: --{} = {beyond}: must be {bounds}",
                    arg.get_long().unwrap()
                )
            );
        }
    });
    // The walk reaches all verbs.
    for option in [
        "interleavings",
        "timeout",
        "memory",
        "series",
        "max-growth",
        "seed",
        "guest-seed",
        "cpus",
        "top",
        "line",
    ] {
        assert!(seen.iter().any(|name| name == option), "{option}");
    }
}

#[test]
fn every_path_says_what_a_verb_does_with_it() {
    let kinds = [
        "FILE", "EDITFILE", "FOLDER", "TREE", "IMAGE", "SCRIPT", "RULES", "A", "B", "FILES",
    ];
    let path = TypeId::of::<std::path::PathBuf>();
    let os = TypeId::of::<std::ffi::OsString>();
    let text = TypeId::of::<String>();
    walk(&linemate::command(), &[], &mut |words, arg| {
        let kind = arg.get_value_parser().type_id();
        let what = format!("{} {}", words.join(" "), arg.get_id());
        assert!(
            kind != path && kind != os,
            "{what}: a path that is neither an input nor an output: see files.rs"
        );
        let names = arg.get_value_names().unwrap_or_default();
        let is_path = names.iter().any(|name| kinds.contains(&name.as_str()));
        assert!(
            !(is_path && kind == text),
            "{what}: a path that is a text: see files.rs"
        );
    });
}

/// The options of all verbs that name an output: `-` is none.
fn outputs() -> Vec<String> {
    let mut found = Vec::new();
    walk(&linemate::command(), &[], &mut |words, arg| {
        if let Some(option) = arg.get_long() {
            if refused(words, arg, "-").is_some_and(|error| error.contains("./-")) {
                found.push(format!("{} --{option}", words.join(" ")));
            }
        }
    });
    found
}

#[test]
fn no_output_takes_the_place_of_an_input() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["x", "y", "m.toml", "e.json", "s-4.data", "linemate.data"] {
        fs::write(at(name), "precious").unwrap();
    }
    for (name, file) in [("tree", "a.h"), ("case", "case.toml")] {
        fs::create_dir(at(name)).unwrap();
        fs::write(at(name).join(file), "precious").unwrap();
    }
    symlink("x", at("link")).unwrap();
    fs::hard_link(at("x"), at("hard")).unwrap();
    let mut tried = Vec::new();
    for line in [
        "report x --html x",
        "report -i x --html link",
        "report x --html hard",
        "report --html linemate.data",
        "report x --machine m.toml --html ./m.toml",
        "report x --machine gnr-2s-480 --under f --kernel y --html y",
        "report x --type t --svg x",
        "report x --type t --html p --svg p",
        "whatif x --type t -e e --html x",
        "whatif y --edit x --html x",
        "whatif y --type t --layout-from x --html hard",
        "whatif y --series x,y --html x",
        "diff x y --html y",
        "advise x --html x",
        "advise -i x -i y --html y",
        "advise y --type t --output x --rules hard",
        "advise x --type t --output x",
        "advise e.json --type t --output e",
        "advise y --type t --output e --html e.json",
        "advise x --type t --evidence x",
        "advise x --type t --rules x",
        "advise y --type t --rules new --evidence tree/../new",
        "patch --edit x --source tree --output x",
        "patch --edit y --source tree -i x --output x",
        "patch --edit y --source tree --kernel x --output x",
        "patch --edit y --source tree --evidence x --output x",
        "patch --edit y --source tree --output tree/a.h",
        "check x --kernel y --write-baseline x",
        "check y --kernel x --write-baseline x",
        "check y --program x --write-baseline x",
        "record --kernel x --output x -- true",
        "record --setup x --output hard -- true",
        "record --file x --output x -- true",
        "record --file x:/y --output link -- true",
        "record --file linemate.data -- true",
        "record --file s-4.data --series 2,4 --output s.data -- true",
        "case run case --html case/case.toml",
        "case run case --html case/results.md",
        "case run case --output tree --html tree/results.json",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let output = linemate_in(folder.path(), &words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {}", story(&output));
        let fits = said.contains(", which this command reads: name another file")
            || said.contains(" are the same file: name two");
        assert!(fits && said.lines().count() == 1, "{line}: {said}");
        tried.push(line.to_owned());
    }
    for name in ["x", "y", "m.toml", "e.json", "tree/a.h", "case/case.toml"] {
        assert_eq!(fs::read(at(name)).unwrap(), b"precious", "{name}");
    }
    // Folders hold many files: `export` replaces none of them, a case its own results.
    let folders = ["export --parquet", "case run --output"];
    for output in outputs() {
        let (verb, option) = output.rsplit_once(' ').unwrap();
        let is_tried = |line: &String| line.starts_with(verb) && line.contains(option);
        let is_folder = folders.contains(&output.as_str());
        assert!(
            is_folder || tried.iter().any(is_tried),
            "{output} is not tried"
        );
    }
}

#[test]
fn what_is_no_input_can_be_an_output() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["x", "linemate.data", "tree.patch"] {
        fs::write(at(name), "x").unwrap();
    }
    for line in [
        "report x --html linemate.data",
        "report x --type t --html /dev/null --svg /dev/null",
        "check x --kernel x --baseline x2 --write-baseline x2",
        "advise x --type t --output e --evidence e.json --rules r",
        "patch --edit x --source . --kernel x --output tree.patch",
        "patch --edit x --source . --kernel x --output linemate.data",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let output = linemate_in(folder.path(), &words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {}", story(&output));
        assert!(
            !said.contains("which this command reads") && !said.contains("are the same file"),
            "{line}: {said}"
        );
    }
}

#[test]
fn a_dash_is_the_name_of_no_output() {
    let folder = tempfile::tempdir().unwrap();
    let outputs = outputs();
    for output in [
        "report --html",
        "report --svg",
        "whatif --html",
        "diff --html",
        "advise --html",
        "advise --output",
        "advise --evidence",
        "advise --rules",
        "patch --output",
        "check --write-baseline",
        "record --output",
        "export --parquet",
        "case run --output",
    ] {
        assert!(
            outputs.iter().any(|one| one == output),
            "{output}: {outputs:?}"
        );
    }
    let output = linemate_in(folder.path(), &["report", "x", "--html", "-"]);
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "linemate: invalid value '-' for '--html <FILE>': write ./- for a file of that name, /dev/stdout for standard output; see --help\n"
    );
}

#[test]
fn words_that_mean_nothing_are_refused() {
    for (line, said) in [
        (
            &["report", "x", "--machine", "spr-w-48", "--under", ""][..],
            "the name of a function is missing",
        ),
        (
            &["report", "x", "--machine", "spr-w-48", "--under", " "],
            "the name of a function is missing",
        ),
        (
            &["diff", "x", "y", "--event", ""],
            "the name of a function is missing",
        ),
        (
            &["record", "--event", "", "--", "true"],
            "the name of a function is missing",
        ),
        (
            &["report", "x", "--mechanisms", "none,adjacent_line_pairs"],
            "`none` excludes the others",
        ),
        (
            &["whatif", "x", "--groups", "flat,domains"],
            "flat and domains exclude each other",
        ),
        (
            &["whatif", "x", "--groups", "none,locks"],
            "`none` excludes the others",
        ),
        (
            &["whatif", "x", "--groups", "lock"],
            "`lock` is not one of phases, locks, domains, flat, none",
        ),
    ] {
        let output = linemate(line);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{line:?}: {}",
            story(&output)
        );
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            text.contains(said) && text.lines().count() == 1,
            "{line:?}: {text}"
        );
    }
}

#[test]
fn an_option_that_a_verb_is_without_is_refused_with_the_reason() {
    for (line, said) in [
        (
            &["growth", "a", "b", "c", "--machine", "spr-w-48"][..],
            "growth has no --machine: it counts accesses, which depend on no machine",
        ),
        (
            &[
                "report",
                "x",
                "--machine",
                "spr-w-48",
                "--interleavings",
                "16",
            ],
            "report has no --interleavings: costs are those of one interleaving",
        ),
        (
            &["diff", "x", "y", "--all-interleavings"],
            "diff has no --all-interleavings: costs are",
        ),
        (
            &["export", "x", "--parquet", "t", "--under", "f"],
            "export has no --under: the tables have no column for it",
        ),
        (
            &["patch", "--json"],
            "patch has no --json: its result is a file",
        ),
        (
            &["diff", "-i", "x", "-i", "y", "-i", "z"],
            "diff compares two recordings, not 3: name two",
        ),
        (
            &["diff", "x", "y", "--under", "f"],
            "--under needs --machine",
        ),
        (
            &["report", "x", "--zzz"],
            "unexpected argument '--zzz' found;",
        ),
    ] {
        let output = linemate(line);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line:?}: {text}");
        let is_said = text.contains(said) && text.lines().count() == 1;
        assert!(is_said, "{line:?}: {text}");
    }
}

#[test]
fn only_a_recording_is_moved_by_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let record = |name: &str| {
        let output = linemate_in(folder.path(), &["record", "-o", name, "--", "true"]);
        assert_eq!(output.status.code(), Some(2), "{}", story(&output));
        String::from_utf8(output.stderr).unwrap()
    };
    fs::write(at("notes"), "mine").unwrap();
    fs::write(at("notes.old"), "mine, too").unwrap();
    assert_eq!(
        record("notes"),
        "linemate: notes is not a recording and is not replaced: name another file, or remove it\n"
    );
    // An older recording is moved, but not over something else.
    fs::write(at("x.data"), b"\x89LMT\r\n\x1a\nand so on").unwrap();
    fs::write(at("x.data.old"), "mine").unwrap();
    let said = record("x.data");
    assert!(said.contains("/x.data.old is in the way"), "{said}");
    let texts =
        ["notes", "notes.old", "x.data.old"].map(|name| fs::read_to_string(at(name)).unwrap());
    assert_eq!(texts, ["mine", "mine, too", "mine"]);
    assert_eq!(fs::read_dir(Path::new(&at(""))).unwrap().count(), 4);
}
