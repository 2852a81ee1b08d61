//! Programs: recorded with what names their accesses, and compared with their own reports.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the measured shares are the result")]

mod common;
#[path = "programs/neighbours.rs"]
mod neighbours;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{items, kernel, linemate, linemate_in, root, story};
use linemate_attribution::schema::{Schema, TypeIndex};
use linemate_attribution::{Analysis, Bucket, Names};
use linemate_recording::{Access, AccessKind, Event, Recording};
use serde_json::Value;
use tempfile::TempDir;

/// Compiles a program of `tests/programs`, with debug information.
fn compile(folder: &Path, compiler: &str, source: &str, options: &[&str]) -> String {
    let program = folder.join("oracle");
    let output = Command::new(compiler)
        .args(options)
        .args(["-g", "-o"])
        .arg(&program)
        .arg(root().join("crates/linemate/tests/programs").join(source))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", story(&output));
    program.to_str().unwrap().to_owned()
}

/// Records a program; gives the recording and what the program printed.
fn record(folder: &Path, data: &str, program: &str) -> (String, String) {
    let data = folder.join(data).to_str().unwrap().to_owned();
    let kernel = kernel("6.12");
    let name = Path::new(program).file_name().unwrap().to_str().unwrap();
    let program = format!("./{name}");
    let arguments = [
        "record",
        "--program",
        "--smp",
        "4",
        "-o",
        &data,
        "--kernel",
        kernel.to_str().unwrap(),
        "--",
        &program,
    ];
    let output = linemate_in(folder, &arguments);
    assert!(output.status.success(), "{}", story(&output));
    let verified = linemate(&["verify", "-i", &data]);
    assert!(verified.status.success(), "{}", story(&verified));
    (data, String::from_utf8(output.stdout).unwrap())
}

/// An object as the program reports it.
#[derive(Debug)]
struct Told {
    /// `object`; `entry`: one of a hash table, of which a part may be named as that; `array`: a
    /// part of one, whichever code touches it; `stack`: a struct on a stack; `number`: one on a
    /// stack; `window`: what is written when stacks are as reported.
    what: String,
    start: u64,
    size: u64,
    /// Its type; of a number the function and the variable.
    ty: String,
}

fn told(text: &str) -> Vec<Told> {
    let objects = text.lines().filter_map(|line| {
        let mut words = line.splitn(4, ' ');
        let what = words.next()?.to_owned();
        let known = ["object", "entry", "array", "stack", "number", "window"].contains(&&*what);
        known.then(|| Told {
            what,
            start: u64::from_str_radix(words.next().unwrap(), 16).unwrap(),
            size: words.next().unwrap().parse().unwrap(),
            ty: words.next().unwrap().to_owned(),
        })
    });
    let objects: Vec<Told> = objects.collect();
    assert!(objects.len() > 8, "{text}");
    objects
}

/// How many accesses have a name, of how many.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    right: u64,
    all: u64,
}

impl Share {
    fn of(self) -> f64 {
        self.right as f64 / self.all as f64
    }
}

/// What the program's own code accesses of what it reported: how much of it has a name, first of
/// objects, then of what is on stacks, of arrays, which others may access, last of entries. One
/// that is named wrongly fails the test.
fn named(data: &str, objects: &[Told]) -> [Share; 4] {
    let recording = Recording::open(Path::new(data)).unwrap();
    let analysis = Analysis::new(&recording).unwrap();
    let names = analysis.names().unwrap();
    let files = recording.programs();
    let mut shares = [Share::default(); 4];
    let mut windows = 0;
    for event in recording.events() {
        let Event::Access(access) = event.unwrap() else {
            continue;
        };
        let own = files
            .place(access.pc)
            .is_some_and(|(file, _)| files.files()[file as usize].path.ends_with("/oracle"));
        if own {
            never_on_a_stack(&analysis, &names, &access);
        }
        let object = objects
            .iter()
            .find(|o| (o.start..o.start + o.size).contains(&access.addr.0));
        let Some(object) = object.filter(|o| own || o.what == "array") else {
            continue;
        };
        let group = match object.what.as_str() {
            "window" => {
                windows += u32::from(access.kind != AccessKind::Load);
                continue;
            }
            "object" => 0,
            "entry" => 3,
            // Others have it before and afterwards.
            _ if windows != 1 => continue,
            "array" => 2,
            _ => 1,
        };
        let share = &mut shares[group];
        share.all += 1;
        let located = names.locate(&access);
        let subject = &names.subjects()[located.subject.index()];
        let offset = access.addr.0 - object.start;
        let right = match (subject.bucket, object.what.as_str()) {
            (Bucket::ProgramStack, "stack" | "number") | (Bucket::HeapSite, "array") => continue,
            (Bucket::StackNamed | Bucket::StackShared, "number") => {
                let label = object.ty.replacen(' ', ": ", 1) + " (oracle)";
                subject.label == label && located.offset == 0
            }
            (Bucket::HeapScalar, "array") => subject.label == object.ty,
            (Bucket::StackTyped | Bucket::StackShared, "stack") | (_, "entry") => {
                let Some(ty) = subject.ty else { continue };
                // By a pointer to a part of it, it is the part.
                let schema = analysis.schema();
                let start = offset.checked_sub(located.offset.into());
                let outer = told_type(schema, &object.ty);
                start.is_some_and(|start| schema.contains(outer, ty, start))
            }
            (_, "object") => {
                let Some(ty) = subject.ty else { continue };
                let offset = offset % analysis.schema().size(ty);
                // The kernel has a `node`, too, so the program's goes by its file.
                analysis.schema().name(ty).trim_end_matches("@oracle") == object.ty
                    && u64::from(located.offset) == offset
            }
            _ => false,
        };
        let name = subject.ty.map(|ty| analysis.schema().name(ty));
        assert!(
            right,
            "{access:?} {object:?} {located:?} {subject:?} {name:?}"
        );
        share.right += 1;
    }
    shares
}

/// Some types are on the heap alone, and are called through, which puts a return address onto the
/// stack.
fn never_on_a_stack(analysis: &Analysis<'_>, names: &Names, access: &Access) {
    let subject = &names.subjects()[names.locate(access).subject.index()];
    let on_stack = matches!(subject.bucket, Bucket::StackTyped | Bucket::StackShared);
    let ty = subject.ty.filter(|_| on_stack);
    let name = ty.map_or("", |ty| analysis.schema().name(ty));
    assert!(
        !["node", "node@oracle", "oracle::Mixer"].contains(&name),
        "{access:?} {name}"
    );
}

fn told_type(schema: &Schema, name: &str) -> TypeIndex {
    // The kernel may have one of the name, too.
    let named = [&format!("{name}@oracle"), name].map(|name| schema.named(name));
    let mut all = named.into_iter().flatten();
    all.next().unwrap()
}

fn c_program_is_named(level: &str, least: f64) {
    let options = [level, "-pthread", "-Wall", "-Wextra", "-Werror"];
    is_named(("cc", "oracle.c", &options), level, least);
}

fn is_named((compiler, source, options): (&str, &str, &[&str]), level: &str, least: f64) {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), compiler, source, options);
    let (data, text) = record(folder.path(), "linemate.data", &program);
    let [objects, stacks, arrays, entries] = named(&data, &told(&text));
    let groups = [
        ("objects", objects),
        ("on stacks", stacks),
        ("arrays", arrays),
        ("entries of a hash table", entries),
    ];
    for (what, share) in groups.into_iter().filter(|(_, share)| share.all > 0) {
        println!(
            "{source} {level}: {what}: {} of {} accesses have the right name, {:.1} %",
            share.right,
            share.all,
            100.0 * share.of()
        );
    }
    assert!(
        objects.all > 10_000 && objects.of() >= least,
        "{source} {level}: {objects:?}"
    );
    // What goes by a pointer to a number, or by an index, has no name there: in Rust without
    // optimisation nearly all.
    assert!(stacks.right > 1_000, "{source} {level}: {stacks:?}");
    // What is only copied has its name from where it is allocated, as what is inlined there says
    // it.
    if (source, level) == ("oracle.rs", "opt-level=3") {
        assert!(
            arrays.all > 1_000 && arrays.right == arrays.all,
            "{arrays:?}"
        );
        assert!(entries.all > 10_000, "{entries:?}");
    }
    let patches: &[(&str, &str)] = match source {
        "oracle.c" => &C_PATCHES,
        "oracle.cpp" => &[(
            "type oracle::Shared\nisolate rounds\n",
            "+\talignas(64) std::atomic<long> rounds{0};",
        )],
        _ => &[(
            "type oracle::Conn\nmove bytes first\nisolate bytes\n",
            "+    bytes: CacheLine<AtomicU64>,",
        )],
    };
    for (edit, line) in patches {
        a_patch_is_written(&data, source, edit, line);
    }
}

/// Edits of `oracle.c`, and a line of each patch. The kernel has a `node`, too.
const C_PATCHES: [(&str, &str); 2] = [
    ("type conn\norder fd next\n", "+\tstruct conn *next;"),
    ("type node@oracle\norder key next\n", "+\tlong key;"),
];

/// A program's tree is patched as a kernel's is.
fn a_patch_is_written(data: &str, source: &str, edit: &str, line: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (tree, file) = (folder.path().join("tree"), folder.path().join("an.edit"));
    fs::create_dir(&tree).unwrap();
    let programs = root().join("crates/linemate/tests/programs");
    fs::copy(programs.join(source), tree.join(source)).unwrap();
    fs::write(&file, edit).unwrap();
    let [tree, file] = [&tree, &file].map(|path| path.to_str().unwrap());
    let author = "A U Thor <author@example.org>";
    let output = linemate(&[
        "patch", "-i", data, "--edit", file, "--source", tree, "--author", author,
    ]);
    assert!(output.status.success(), "{}", story(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("+++ b/{source}")), "{text}");
    assert!(text.lines().any(|l| l == line), "{text}");
}

fn cpp_program_is_named(level: &str, least: f64) {
    let options = [
        level,
        "-std=c++17",
        "-pthread",
        "-Wall",
        "-Wextra",
        "-Werror",
    ];
    is_named(("c++", "oracle.cpp", &options), level, least);
}

#[test]
fn a_cpp_program_is_named_right_without_optimisation() {
    cpp_program_is_named("-O0", 0.95);
}

#[test]
fn a_cpp_program_is_named_right_with_optimisation() {
    cpp_program_is_named("-O2", 0.85);
}

fn rust_program_is_named(level: &str, least: f64) {
    let level = format!("opt-level={level}");
    let options = ["--edition", "2024", "-C", &level];
    is_named(("rustc", "oracle.rs", &options), &level, least);
}

#[test]
fn a_rust_program_is_named_right_without_optimisation() {
    rust_program_is_named("0", 0.95);
}

#[test]
fn a_rust_program_is_named_right_with_optimisation() {
    rust_program_is_named("3", 0.85);
}

#[test]
fn a_c_program_is_named_right_without_optimisation() {
    c_program_is_named("-O0", 0.95);
}

#[test]
fn a_c_program_is_named_right_with_optimisation() {
    c_program_is_named("-O2", 0.85);
}

/// As [`a_c_program_is_named_right_with_optimisation`]: where the debug information is makes no
/// difference. And all of it is in the recording, with the lines.
#[test]
fn a_c_program_with_split_debug_information_is_named_right() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-O2", "-pthread", "-gsplit-dwarf"];
    let program = compile(folder.path(), "gcc", "oracle.c", &options);
    let (data, text) = record(folder.path(), "linemate.data", &program);
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "dwo") {
            fs::remove_file(path).unwrap();
        }
    }
    let [own, ..] = named(&data, &told(&text));
    println!("oracle.c -O2 -gsplit-dwarf: {own:?} accesses have the right type");
    assert!(own.all > 10_000 && own.of() >= 0.85);
    for (edit, line) in C_PATCHES {
        a_patch_is_written(&data, "oracle.c", edit, line);
    }
    let report = linemate(&["report", "-i", &data, "--by", "source", "--all"]);
    let text = String::from_utf8(report.stdout).unwrap();
    assert!(
        text.contains("oracle.c:") && text.contains("use_conn"),
        "{text}"
    );
}

#[test]
fn a_c_program_is_named_right_with_all_optimisation() {
    c_program_is_named("-O3", 0.85);
}

/// The number of the line of oracle.c that is `text`.
fn line_of(text: &str) -> u64 {
    let source = root().join("crates/linemate/tests/programs/oracle.c");
    let source = fs::read_to_string(source).unwrap();
    let numbered = (1..).zip(source.lines());
    let mut found = numbered.filter(|(_, line)| line.trim() == text);
    let line = found.next().unwrap().0;
    assert_eq!(found.next(), None, "{text} is there twice");
    line
}

/// The document of a report.
fn document(data: &str, more: &[&str]) -> Value {
    let output = linemate(&[&["report", "-i", data, "--json", "--top", "100000"], more].concat());
    assert!(output.status.success(), "{}", story(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn sum(rows: &Value, figure: &str) -> u64 {
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| row[figure].as_u64().unwrap()).sum()
}

/// What is known of the program: six connections and one on a stack, four threads, 200 rounds, and
/// each adds to `bytes_in` once.
fn lines_are_right(level: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "cc", "oracle.c", &[level, "-pthread"]);
    let (data, _) = record(folder.path(), "linemate.data", &program);
    let own = document(&data, &["--by", "source", "--type", "conn"]);
    let line = line_of("c->bytes_in += n;");
    let rows = own["sources"].as_array().unwrap().iter();
    let mut here = rows.filter(|row| row["line"] == line);
    let row = here.next().unwrap();
    assert!(
        row["file"].as_str().unwrap().ends_with("/oracle.c"),
        "{row}"
    );
    assert_eq!(row["functions"], serde_json::json!(["use_conn"]));
    assert_eq!(
        (row["loads"].as_u64(), row["stores"].as_u64()),
        (Some(5600), Some(5600)),
        "{row}"
    );
    assert_eq!(here.next(), None);
    let (sources, functions) = (
        document(&data, &["--by", "source"]),
        document(&data, &["--by", "function"]),
    );
    for figure in ["accesses", "loads", "stores", "rmws", "silent"] {
        assert_eq!(
            sum(&sources["sources"], figure),
            sum(&functions["functions"], figure),
            "{figure}"
        );
    }
    let machine = ["--machine", "gnr-2s-480"];
    let costs = document(&data, &[&["--by", "source"][..], &machine].concat());
    let costs = &costs["costs"];
    assert_eq!(sum(&costs["sources"], "cycles"), costs["whole"]["cycles"]);
    let by_function = document(&data, &machine);
    assert_eq!(costs["functions"], by_function["costs"]["functions"]);
    let named = |wanted: &str| {
        let rows = costs["sources"].as_array().unwrap().iter();
        let mut names = rows.map(|row| row["name"].as_str().unwrap());
        names.any(|name| name.ends_with(wanted))
    };
    assert!(named(&format!("/oracle.c:{line} use_conn")), "{costs}");
    own
}

#[test]
fn lines_of_the_source_are_right_without_optimisation() {
    let own = lines_are_right("-O0");
    let rows = own["sources"].as_array().unwrap().iter();
    for row in rows {
        assert!(row["functions"].as_array().unwrap().len() <= 1, "{row}");
    }
}

#[test]
fn lines_of_the_source_are_right_with_optimisation_and_show_what_is_inlined() {
    let own = lines_are_right("-O2");
    let line = line_of("c->fd = fd;");
    let rows = own["sources"].as_array().unwrap().iter();
    let rows: Vec<&Value> = rows.filter(|row| row["line"] == line).collect();
    let [row] = rows[..] else {
        panic!("{own}");
    };
    assert_eq!(row["functions"], serde_json::json!(["new_conn", "main"]));
    let name = row["name"].as_str().unwrap();
    assert!(name.ends_with(" new_conn, inlined into main"), "{name}");
    // One for each connection.
    assert_eq!(row["stores"], 6);
}

#[test]
fn threads_of_the_same_work_advance_alike_and_a_ring_that_spins_is_shared() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-O2", "-pthread", "-Wall", "-Wextra", "-Werror"];
    let program = compile(folder.path(), "cc", "turns.c", &options);
    let (data, text) = record(folder.path(), "linemate.data", &program);
    let mut batches = 0;
    for line in text
        .lines()
        .filter_map(|line| line.strip_prefix("together "))
    {
        let (own, other) = line.split_once(' ').unwrap();
        let [own, other] = [own, other].map(|count| count.parse::<f64>().unwrap());
        // Both have then run for more than 100 us of the guest's clock together.
        if own >= 16_000.0 {
            assert!((other / own - 1.0).abs() < 0.05, "{line}");
            batches += 1;
        }
    }
    assert_eq!(batches, 26, "{text}");
    let costs = document(
        &data,
        &["--machine", "gnr-2s-480", "--type", "spsc", "--by", "field"],
    );
    let slots = items(&costs, "/costs/fields")
        .iter()
        .find(|row| row["name"] == "spsc.slots[]")
        .unwrap();
    // Of 20,000 events; with turns of thousands of events, a few hundred lines at a time.
    assert!(slots["misses"].as_u64().unwrap() > 10_000, "{slots}");
}

fn folder_with_program() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "cc", "oracle.c", &["-O2", "-pthread"]);
    (folder, program)
}

#[test]
fn the_same_program_is_recorded_the_same_twice_and_every_verb_knows_it() {
    let (folder, program) = folder_with_program();
    let (first, _) = record(folder.path(), "first.data", &program);
    let (second, _) = record(folder.path(), "second.data", &program);
    assert!(
        fs::read(&first).unwrap() == fs::read(&second).unwrap(),
        "the recordings differ"
    );
    for arguments in [
        &["report", "-i", &first, "--type", "conn"][..],
        &[
            "report",
            "-i",
            &first,
            "--type",
            "conn",
            "--machine",
            "gnr-2s-480",
        ],
        &[
            "whatif",
            "-i",
            &first,
            "--type",
            "conn",
            "-e",
            "isolate st",
            "--machine",
            "gnr-2s-480",
        ],
        &["layout", "-i", &first, "conn"],
    ] {
        let output = linemate(arguments);
        assert!(output.status.success(), "{}", story(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("bytes_in"), "{arguments:?}\n{text}");
    }
    let all = linemate(&["report", "-i", &first, "--all", "--json", "--top", "100000"]);
    let report: linemate_answers::Report = serde_json::from_slice(&all.stdout).unwrap();
    let linemate_answers::View::Types(types) = &report.view else {
        panic!("{}", story(&all));
    };
    let numbers = types.iter().find(|row| row.name == "long int[]").unwrap();
    // Set to 0, and counted up by four threads, 200 times each.
    assert_eq!((numbers.figures.loads, numbers.figures.rmws), (800, 0));
    let programs = report.ledger.programs.unwrap();
    // The rest is the C library's own, which has names only where its debug information is
    // installed.
    assert!(programs.typed_share > 0.8, "{programs:?}");
    let functions = linemate(&["report", "-i", &first, "--by", "function"]);
    let text = String::from_utf8(functions.stdout).unwrap();
    assert!(
        text.contains("use_conn") && text.contains("malloc"),
        "{text}"
    );
}

#[test]
fn a_program_without_debug_information_has_names_of_functions_and_says_what_would_give_more() {
    let (folder, program) = folder_with_program();
    let stripped = Command::new("strip")
        .args(["-g", &program])
        .output()
        .unwrap();
    assert!(stripped.status.success(), "{}", story(&stripped));
    let data = folder.path().join("linemate.data");
    let (data, kernel) = (data.to_str().unwrap(), kernel("6.12"));
    let kernel = kernel.to_str().unwrap();
    let output = linemate(&[
        "record",
        "--program",
        "-o",
        data,
        "--kernel",
        kernel,
        "--",
        &program,
    ]);
    assert!(output.status.success(), "{}", story(&output));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("compile with -g"), "{said}");
    let functions = linemate(&["report", "-i", data, "--by", "function"]);
    let text = String::from_utf8(functions.stdout).unwrap();
    assert!(text.contains("use_conn"), "{text}");
    let absent = linemate(&["report", "-i", data, "--type", "conn"]);
    assert_eq!(absent.status.code(), Some(2), "{}", story(&absent));
}

#[test]
fn bad_words_are_one_line() {
    let (folder, program) = folder_with_program();
    let data = folder.path().join("linemate.data");
    let kernel = kernel("6.12");
    let kernel = kernel.to_str().unwrap();
    let ask = |more: &[&str]| {
        let mut arguments = vec!["record", "-o", data.to_str().unwrap(), "--kernel", kernel];
        arguments.extend(more);
        arguments.extend(["--", &program]);
        let output = linemate(&arguments);
        assert_eq!(output.status.code(), Some(2), "{}", story(&output));
        assert!(!data.exists());
        String::from_utf8(output.stderr).unwrap()
    };
    let missing = ask(&["--program", "--allocator", "no_such_function:1"]);
    assert!(
        missing.contains("no_such_function") && missing.lines().count() == 1,
        "{missing}"
    );
    let form = ask(&["--program", "--allocator", "malloc"]);
    assert!(form.contains("FUNCTION:ARGUMENT"), "{form}");
    assert!(ask(&["--allocator", "malloc:1"]).contains("--program"));
    assert!(ask(&["--program", "--parallel"]).contains("--parallel"));
}
