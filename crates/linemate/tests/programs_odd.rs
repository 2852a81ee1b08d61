//! Unusual programs: code in no file, static linking at any address, another user's privileges, a
//! library's function that the loader looks up late, workers that a server forks, what
//! they share, objects with owners, vectors that grow, classes of the standard library, shapes that
//! types do not show, 32 bits.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use common::{items, linemate, record, root, story};
use linemate_attribution::{Analysis, Bucket};
use linemate_recording::Recording;
use serde_json::Value;

fn compile(program: &Path, source: &Path, options: &[&str]) {
    let mut compiler = Command::new("cc");
    let output = compiler
        .args(options)
        .args(["-O2", "-g", "-o"])
        .args([program, source])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", story(&output));
}

/// The accesses of a row of a report.
fn accesses(data: &str, by: &str, name: &str) -> u64 {
    let all = ["--all", "--top", "100000", "--json"];
    let output = linemate(&[&["report", "-i", data, "--by", by], &all[..]].concat());
    assert!(output.status.success(), "{}", story(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = items(&report, &format!("/{by}s")).iter();
    let is_named = |row: &&Value| match (row["type_name"].as_str(), row["field"].as_str()) {
        (Some(of), Some(field)) => format!("{of}.{field}") == name,
        _ => row["name"] == name,
    };
    let row = rows.into_iter().find(is_named);
    row.map_or(0, |row| row["accesses"].as_u64().unwrap())
}

/// The remedies that `advise` lists.
fn remedies(data: &str) -> Vec<Value> {
    let question = [
        "advise",
        "-i",
        data,
        "--machine",
        "gnr-2s-480",
        "--trials",
        "6",
        "--json",
    ];
    let output = linemate(&question);
    assert!(output.status.success(), "{}", story(&output));
    let advice: Value = serde_json::from_slice(&output.stdout).unwrap();
    items(&advice, "/remedies/remedies").to_vec()
}

/// What the trial with those edits changes of the affected types' cost.
fn gain(remedies: &[Value], edits: &[&str]) -> f64 {
    let types = &tried(remedies, edits)["types"];
    let cycles = |name: &str| types[name].as_f64().unwrap();
    cycles("difference") / cycles("without")
}

/// What the trial of these edits gave.
fn tried<'r>(remedies: &'r [Value], edits: &[&str]) -> &'r Value {
    let trials = remedies.iter().flat_map(|r| items(r, "/trials"));
    let same = |trial: &&Value| {
        let text = trial["edits"].as_str().unwrap();
        edits.iter().all(|edit| text.contains(edit))
    };
    let trial = trials.into_iter().find(same);
    let trial = trial.unwrap_or_else(|| panic!("{edits:?} in {remedies:#?}"));
    &trial["effect"]["tried"]
}

#[test]
fn code_of_no_file_in_a_static_pie_of_another_user_is_distinguished_and_what_it_reaches_has_names()
{
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("odd");
    let source = root().join("crates/linemate/tests/programs/odd.c");
    compile(&program, &source, &["-static-pie", "-pthread"]);
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
    let data = record(
        folder.path(),
        "6.12",
        &["--program", "--smp", "2"],
        &["./odd"],
    );
    let counted = accesses(&data, "type", "counter");
    assert!(counted >= 20_000, "{counted}");
    let unnamed = accesses(&data, "function", "(user code)");
    assert!(unnamed >= 20_000, "{unnamed}");
    assert!(accesses(&data, "function", "run") >= 20_000);
}

/// The loader looks `aligned_alloc` up between the program's call and the function's entry.
#[test]
fn a_block_from_the_first_call_of_a_librarys_function_is_named_by_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("sharing");
    let source = root().join("workloads/unseen/sharing.c");
    compile(&program, &source, &["-std=gnu11", "-pthread"]);
    let options = ["--program", "--kernel-types", "no", "--smp", "4"];
    let words = ["./sharing", "sum_per_thread"];
    let data = record(folder.path(), "6.12", &options, &words);
    let question = ["advise", "-i", &data, "--machine", "gnr-2s-480"];
    let output = linemate(&[&question[..], &["--trials", "1", "--top", "1"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let first = text.lines().find(|line| line.starts_with("1. "));
    let (what, place) = first
        .and_then(|line| line.split_once(" allocated at "))
        .unwrap();
    assert_eq!(what, "1. pad array elements: int[]", "{text}");
    assert!(place.contains("sharing.c:"), "{text}");
    assert!(place.ends_with(" sum_per_thread"), "{text}");
    // Numbers have no members: the edit is of the allocation.
    let gain = text
        .split_once("to line]\n")
        .map(|(_, gain)| gain.trim_start());
    assert!(
        gain.is_some_and(|gain| gain.starts_with("better: ")),
        "{text}"
    );
}

/// A row for each of the table's numbers would be 200,000.
#[test]
fn a_table_in_a_block_of_jemalloc_has_a_name_and_few_rows() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("crates/linemate/tests/programs/tables.c");
    compile(&folder.path().join("tables"), &source, &[]);
    let options = ["--program", "--kernel-types", "no", "--smp", "2"];
    let data = record(folder.path(), "6.12", &options, &["./tables"]);

    let recording = Recording::open(Path::new(&data)).unwrap();
    let analysis = Analysis::new(&recording).unwrap();
    let counted = analysis.count().unwrap();
    let rows = counted.tally.rows();
    let of_table = rows.iter().filter(|(key, _)| {
        let subject = &analysis.subjects()[key.subject.index()];
        subject.bucket == Bucket::HeapScalar && subject.label.starts_with("unsigned int[]")
    });
    let counts: Vec<u64> = of_table.map(|(_, count)| count.count).collect();
    assert!(counts.iter().sum::<u64>() >= 100_000, "{counts:?}");
    assert!(counts.len() < 10_000, "{}", counts.len());

    // Memory that no allocation covers goes by the code that accesses it.
    let ledger = counted.tally.ledger().of_programs();
    assert!(
        ledger.of(Bucket::Allocator) >= 2,
        "the note is read and written"
    );
    // The kernel copies at most 64 bytes at a time.
    assert!(ledger.of(Bucket::ProgramCopied) >= 4096 / 64);
    let output = linemate(&["report", &data, "--ledger"]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let lines = text.lines().map(str::trim_start);
    let shown = lines.filter_map(|line| line.strip_prefix("bookkeeping of an allocator"));
    let shown: Vec<&str> = shown
        .filter_map(|rest| rest.split_whitespace().next())
        .collect();
    let counted = ledger.of(Bucket::Allocator).to_string();
    assert_eq!(shown, [counted.as_str()], "{}", story(&output));
}

/// Six workers, each of which counts 10,000 times in a table that its parent allocated and in a
/// block of its own, in the place of one that its parent allocated.
#[test]
fn what_a_server_allocates_before_it_forks_has_names_in_its_workers() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("crates/linemate/tests/programs/prefork.c");
    compile(&folder.path().join("prefork"), &source, &[]);
    // A kernel without names has a list of functions of its own.
    for types in ["yes", "no"] {
        let options = ["--program", "--kernel-types", types, "--smp", "2"];
        let data = record(folder.path(), "6.12", &options, &["./prefork"]);
        let of = |name| accesses(&data, "type", name);
        // Each count is a load and a store; the rest are the allocator's and the parent's.
        for name in ["route", "visit"] {
            let counted = of(name);
            assert!((120_000..120_100).contains(&counted), "{name}: {counted}");
        }
        let set_up = of("start_option");
        assert!((6..100).contains(&set_up), "{set_up}");
    }
}

/// Four workers, each of which counts 10,000 times in its slot of a struct and in its number of an
/// array, in two mappings, and in a block of its own. No pointer says what is in the mappings: an
/// index is added to the mapping's.
#[test]
fn what_forked_processes_share_is_named_by_its_mapping() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("crates/linemate/tests/programs/scoreboard.c");
    compile(&folder.path().join("scoreboard"), &source, &[]);
    let options = ["--program", "--kernel-types", "no", "--smp", "4"];
    let data = record(folder.path(), "6.12", &options, &["./scoreboard"]);
    for slot in 0..4 {
        let served = format!("board.slots[{slot}].served");
        assert_eq!(accesses(&data, "field", &served), 20_000, "{served}");
    }
    // What only a thread's own pointer leads to, with an index.
    let done = accesses(&data, "type", "job");
    assert!((80_000..80_100).contains(&done), "{done}");
    // Elements of an array, which only an index reaches.
    let laps = accesses(&data, "type", "lap");
    assert!((80_000..80_100).contains(&laps), "{laps}");
    // In the main thread's storage, which the loader allocates.
    let current = accesses(&data, "type", "current (scoreboard)");
    assert!((40_004..40_100).contains(&current), "{current}");
    let totals = accesses(&data, "type", "long int[]");
    assert!((80_000..80_100).contains(&totals), "{totals}");

    let question = ["advise", "-i", &data, "--machine", "gnr-2s-480"];
    let output = linemate(&[&question[..], &["--trials", "1", "--top", "1"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let first = text.lines().find(|line| line.starts_with("1. ")).unwrap();
    let advised = "1. pad array elements: long int[] allocated at ";
    assert!(first.starts_with(advised), "{text}");
    assert!(first.contains("scoreboard.c:"), "{text}");
    assert!(text.contains("      better: "), "{text}");
}

#[test]
fn what_an_owner_uses_and_what_others_use_get_lines_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("crates/linemate/tests/programs/mailboxes.c");
    compile(&folder.path().join("mailboxes"), &source, &["-pthread"]);
    let options = ["--program", "--kernel-types", "no", "--smp", "4"];
    let data = record(folder.path(), "6.12", &options, &["./mailboxes"]);
    let remedies = remedies(&data);
    let worker = ["type worker", "isolate done seen\n", "isolate inbox\n"];
    let progress = ["type progress", "isolate shown\n", "isolate steps\n"];
    for edits in [worker, progress] {
        let gain = gain(&remedies, &edits);
        assert!(gain < -0.5, "{edits:?}: {gain}");
    }
    let notes = serde_json::to_string(&remedies).unwrap();
    for note in [
        "one CPU of each object, its owner, writes done, seen",
        "CPUs other than an object's owner write inbox, which the owner reads",
    ] {
        assert!(notes.contains(note), "{note}: {notes}");
    }

    // Of an object that starts a line only because of the edit, it is chance whether what its
    // readers poll is fetched together with what its writer alone uses.
    let effect = |edits: &[&str]| {
        let edits = edits.join(";");
        let question = [
            "whatif",
            "-i",
            &data,
            "-e",
            &edits,
            "--machine",
            "gnr-2s-480",
        ];
        let output = linemate(&[&question[..], &["--json"]].concat());
        assert!(output.status.success(), "{}", story(&output));
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let result = &answer["results"][0];
        let figure = |name: &str| result["types"][name].as_f64().unwrap().abs();
        let width = figure("ci95") / figure("difference");
        (result["in_either_half"].as_u64().unwrap(), width)
    };
    let (shown, wide) = effect(&progress);
    let (inboxes, narrow) = effect(&worker);
    assert_eq!((shown, inboxes), (1, 0));
    assert!(wide > 0.08 && narrow < 0.02, "{wide} {narrow}");

    // `advise` says of its trials what `whatif` says, as JSON and as text.
    let halves = |edits: &[&str]| tried(&remedies, edits)["in_either_half"].as_u64();
    assert_eq!((halves(&progress), halves(&worker)), (Some(1), Some(0)));
    let output = linemate(&["advise", "-i", &data, "--machine", "gnr-2s-480"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let in_halves = remedies
        .iter()
        .flat_map(|remedy| items(remedy, "/trials"))
        .filter_map(|trial| trial["effect"]["tried"]["in_either_half"].as_u64())
        .filter(|objects| *objects > 0);
    let said = text.matches("; ± covers both halves of a line pair that ");
    assert_eq!(said.count(), in_halves.count(), "{text}");

    // So it says of a layout, in the words of `whatif`.
    let layout = ["--type", "progress", "--max-growth", "112"];
    let question = ["advise", "-i", &data, "--machine", "gnr-2s-480"];
    let words = [&question[..], &layout].concat();
    let text = String::from_utf8(linemate(&words).stdout).unwrap();
    let said = "1 object can be in either half of a line pair fetched together: ";
    assert!(text.contains(said), "{text}");
    let output = linemate(&[&words[..], &["--json"]].concat());
    let advice: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(advice["recommended"]["effects"][0][0]["in_either_half"], 1);
}

#[test]
fn who_waits_for_a_lock_needs_its_latest_value() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("crates/linemate/tests/programs/locks.c");
    compile(&folder.path().join("locks"), &source, &["-pthread"]);
    let options = ["--program", "--kernel-types", "no", "--smp", "4"];
    let data = record(folder.path(), "6.12", &options, &["./locks"]);
    let remedies = remedies(&data);
    let found = |kind: &str| -> Vec<&str> {
        let of_kind = remedies.iter().filter(|remedy| remedy["kind"] == kind);
        of_kind
            .map(|remedy| remedy["subject"].as_str().unwrap())
            .collect()
    };
    assert_eq!(found("reuse_result"), [""; 0], "{remedies:#?}");
    // Both locks, what they guard, and nothing that was written once.
    let exchanged = found("write_less");
    let is_there = |name: &str| exchanged.contains(&name);
    assert!(is_there("ledger.lock.__data.__lock") && is_there("account.lock"));
    assert!(is_there("account.balance"), "{exchanged:?}");
    let once = ["ledger.lock.__data.__kind", "account.limit"];
    assert!(!once.into_iter().any(is_there), "{exchanged:?}");
    let lock = remedies
        .iter()
        .find(|remedy| remedy["subject"] == "ledger.lock.__data.__lock");
    let advice = lock.unwrap()["advice"].as_str().unwrap();
    assert!(advice.contains("take the lock less often"), "{advice}");
}

/// In two of four queues the consumer polls, in the others the producer does.
#[test]
fn the_owner_of_a_queue_is_who_writes_and_not_who_polls() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("crates/linemate/tests/programs/stages.c");
    compile(&folder.path().join("stages"), &source, &["-pthread"]);
    let options = ["--program", "--kernel-types", "no", "--smp", "4"];
    let data = record(folder.path(), "6.12", &options, &["./stages"]);
    let remedies = remedies(&data);
    let split = [
        "type stage",
        "isolate put\n",
        "isolate taken\n",
        "isolate seen_put\n",
    ];
    let gain = gain(&remedies, &split);
    assert!(gain < -0.6, "{gain}");
}

/// What a type's own order cannot change is searched inside the struct that has it.
#[test]
fn a_struct_inside_a_type_that_has_its_cost_is_searched() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("crates/linemate/tests/programs/nested.c");
    compile(&folder.path().join("nested"), &source, &["-pthread"]);
    let options = ["--program", "--kernel-types", "no", "--smp", "4"];
    let data = record(folder.path(), "6.12", &options, &["./nested"]);
    let question = ["advise", "-i", &data, "--machine", "gnr-2s-480"];
    let asked = |more: &[&str]| {
        let output = linemate(&[&question[..], &["--trials", "0"], more].concat());
        assert!(output.status.success(), "{}", story(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let survey: Value = serde_json::from_str(&asked(&["--json"])).unwrap();
    let row = &items(&survey, "/types")[0];
    assert_eq!(
        (&row["name"], &row["inside"]),
        (&"packet_sock".into(), &"sock".into())
    );
    assert!(row["estimate"]["share"].as_f64().unwrap() > 0.5, "{row}");
    let text = asked(&[]);
    let order = "Not confirmed: reordering sock, which is in packet_sock, is estimated to change packet_sock's cost by -";
    assert!(text.contains(order), "{text}");
    assert!(text.contains(" --type sock\n"), "{text}");
}

/// The standard library's functions that let a vector grow are not inlined, and all vectors share
/// some of them.
#[test]
fn elements_of_a_vector_that_grows_have_the_type_of_the_vector() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = |compiler: &str, source: &str, options: &[&str]| {
        let source = root().join("crates/linemate/tests/programs").join(source);
        let mut compiler = Command::new(compiler);
        let output = compiler
            .args(options)
            .args(["-g", "-o"])
            .args([&folder.path().join("grown"), &source])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", story(&output));
        let options = ["--program", "--kernel-types", "no", "--smp", "4"];
        record(folder.path(), "6.12", &options, &["./grown"])
    };
    let data = recorded("rustc", "grown.rs", &["--edition", "2024", "-O"]);
    // Four threads count to 5000: a load before each count and one more, and the limit as often.
    let of = |data: &str, name| accesses(data, "type", name);
    let (slots, limits) = (of(&data, "grown::Slot"), of(&data, "grown::Limit"));
    assert!((40_004..40_100).contains(&slots), "{slots}");
    assert!((20_004..20_100).contains(&limits), "{limits}");
    let data = recorded("c++", "grown.cpp", &["-std=c++17", "-O2", "-pthread"]);
    let slots = of(&data, "slot");
    assert!((20_001..20_100).contains(&slots), "{slots}");
}

/// Five phases of 5,000 rounds: an object of `make_shared` is counted by one thread and read by the
/// others; three static atomics; a class of two lines with two writers; elements of a list; objects
/// of two classes with one base.
#[test]
fn what_is_inside_a_librarys_classes_has_its_name_and_a_fix() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("crates/linemate/tests/programs/wrapped.cpp");
    let mut compiler = Command::new("c++");
    let output = compiler
        .args(["-std=c++17", "-O2", "-g", "-pthread", "-o"])
        .args([&folder.path().join("wrapped"), &source])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", story(&output));
    let options = ["--program", "--kernel-types", "no", "--smp", "4"];
    let data = record(folder.path(), "6.12", &options, &["./wrapped"]);
    let hits = accesses(&data, "type", "Counted::hits (wrapped)");
    assert!((5000..5050).contains(&hits), "{hits}");
    // Three elements: a load and a store each in every round.
    let done = "std::_List_node<Job>._M_storage._M_storage.done";
    let done = accesses(&data, "field", done);
    assert!((30_000..30_050).contains(&done), "{done}");

    let reuse = |function: &str| {
        let counts = "std::_Sp_counted_base<(__gnu_cxx::_Lock_policy)2>";
        let edit = format!("type \"{counts}\"; reuse RMW of _M_use_count in {function}");
        linemate(&[
            "whatif",
            "-i",
            &data,
            "-e",
            &edit,
            "--machine",
            "gnr-2s-480",
        ])
    };
    let output = reuse("run");
    assert!(output.status.success(), "{}", story(&output));
    let said = String::from_utf8(reuse("runs").stderr).unwrap();
    assert!(said.contains("no function `runs`"), "{said}");

    let remedies = remedies(&data);
    for edits in [
        &["type Settings", "align limit line"][..],
        &["pad ranges of \"Counted::"],
        &["type Session", "isolate requests", "isolate responses"],
        &["type Worker", "align _vptr.Worker line"],
    ] {
        let gain = gain(&remedies, edits);
        assert!(gain < -0.9, "{edits:?}: {gain}");
    }
}

/// What the programs themselves say: a phase for each.
#[test]
fn problems_in_shapes_that_types_do_not_show_have_a_fix() {
    let folder = tempfile::tempdir().unwrap();
    let advised = |compiler: &str, source: &str, options: &[&str]| {
        let source = root().join("crates/linemate/tests/programs").join(source);
        let mut compiler = Command::new(compiler);
        let output = compiler
            .args(options)
            .args(["-g", "-o"])
            .args([&folder.path().join("shapes"), &source])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", story(&output));
        let options = ["--program", "--kernel-types", "no", "--smp", "4"];
        remedies(&record(folder.path(), "6.12", &options, &["./shapes"]))
    };
    let gains = |remedies: &[Value], all: &[&[&str]]| {
        for edits in all {
            let gain = gain(remedies, edits);
            assert!(gain < -0.9, "{edits:?}: {gain}");
        }
    };
    let found = advised("c++", "shapes.cpp", &["-std=c++17", "-O2", "-pthread"]);
    gains(
        &found,
        &[
            &["type Shape\nisolate refs\n"],
            &["type Reader\nisolate lookups nested\n"],
            &["base-align \"std::variant<Feed, Replay>\" line\n"],
            &["pad ranges of \"pool (shapes)\" to line\n"],
        ],
    );
    let subjects: Vec<&str> = found
        .iter()
        .map(|r| r["subject"].as_str().unwrap())
        .collect();
    assert!(subjects.contains(&"Circle.refs"), "{subjects:?}");
    assert!(subjects.contains(&"Reader: lookups nested"), "{subjects:?}");

    let found = advised("rustc", "shapes.rs", &["--edition", "2024", "-O"]);
    let router = "type shapes::Router\nisolate now\nmove now first\n";
    let leases = "Option<shapes::Lease>>\nalign value line\n";
    gains(
        &found,
        &[&[router], &[leases], &["pad ranges of", "shapes::main"]],
    );
    let subjects: Vec<&str> = found
        .iter()
        .map(|r| r["subject"].as_str().unwrap())
        .collect();
    assert!(subjects.contains(&"shapes::Router.now"), "{subjects:?}");
    let collected = subjects
        .iter()
        .find(|name| name.starts_with("core::sync::atomic::AtomicU64[]"));
    let collected = collected.unwrap_or_else(|| panic!("{subjects:?}"));
    assert!(!collected.contains("inlined into"), "{collected}");
}

#[test]
fn a_program_of_32_bits_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let (program, source) = (folder.path().join("short"), folder.path().join("short.c"));
    fs::write(&source, "void _start(void) { for (;;) ; }\n").unwrap();
    compile(&program, &source, &["-m32", "-nostdlib", "-static"]);
    let data = folder.path().join("linemate.data");
    let output = linemate(&[
        "record",
        "--program",
        "-o",
        data.to_str().unwrap(),
        "--",
        program.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(2), "{}", story(&output));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.lines().count() == 1 && said.contains("another architecture"),
        "{said}"
    );
    assert!(!data.exists());
}
