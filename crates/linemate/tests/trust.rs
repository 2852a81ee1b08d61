//! Recordings made to mislead: their contents are escaped when printed, and `verify` finds what
//! `report` refuses.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use common::{linemate, root, story};
use linemate_recording::{AccessKind, Metadata};
use linemate_testkit::btf_writer::{Endian, TypeList, member, write};
use linemate_testkit::world::{Contents, F, RQ, TASK_SLAB, UNITS, World};
use serde_json::Value;

/// What no line of the output may begin with: only a name that broke its line would.
const FORGED: &str = "FORGED";

/// Two CPUs that write the same queue's clock, and a task.
fn events() -> World {
    let mut w = World::new();
    for i in 0..40u64 {
        let (cpu, other) = ((i % 2) as u16, UNITS[((i + 1) % 2) as usize]);
        let own = UNITS[usize::from(cpu)];
        w.sight(F::UpdateRq, own + RQ);
        w.sight(F::WakeTask, TASK_SLAB);
        w.access(cpu, AccessKind::Rmw, own + RQ + 72, 4, F::UpdateRq, false);
        w.access(
            cpu,
            AccessKind::Store,
            other + RQ + 64,
            8,
            F::UpdateRq,
            false,
        );
        w.access(cpu, AccessKind::Load, own + RQ, 4, F::UpdateEntity, false);
        w.access(cpu, AccessKind::Store, TASK_SLAB, 4, F::WakeTask, false);
        w.wait(1000);
    }
    w
}

/// Text that takes over a terminal, turns the writing round and forges a line.
fn hostile(name: &str) -> String {
    format!("{name}\x1b]0;title\x07\x1b[2J\u{9b}31m\u{202e}\r\n{FORGED} {name}\x7f")
}

fn hostile_contents() -> Contents {
    let mut contents = Contents::new();
    contents.tool = hostile("0.1.0");
    for key in ["command", "kernel", "qemu"] {
        contents.metadata.insert(key.into(), hostile(key));
    }
    contents.metadata.insert(hostile("key"), "value".into());
    let symbols = contents.symbols.unwrap();
    let name = "T update_rq\x1b[2J\u{9b}31m\u{202e}\x7f\n";
    contents.symbols = Some(symbols.replace("T update_rq\n", name));
    for function in &mut contents.functions.functions {
        function.name = hostile(&function.name);
    }
    // The name of the cache `task`.
    let image = contents
        .images
        .iter_mut()
        .find(|(_, bytes)| bytes.len() == 0x400);
    image.unwrap().1[0x300..0x30e].copy_from_slice(b"t\nFORGED\x1b[2J\0\0");
    contents
}

fn file(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// A struct of this name with a member of this name.
fn btf(name: &str, field: &str) -> Vec<u8> {
    let mut list = TypeList::default();
    let long = list.unsigned("long", 8);
    let member = member(field, long, 0);
    list.structure(
        name,
        16,
        &[member, linemate_testkit::btf_writer::member("b", long, 8)],
    );
    write(&list.types, Endian::Little).unwrap()
}

/// Asserts that what was printed drives no terminal and forges no line.
fn tame(arguments: &[&str]) -> std::process::Output {
    let output = linemate(arguments);
    for bytes in [&output.stdout, &output.stderr] {
        let text = std::str::from_utf8(bytes).unwrap();
        for line in text.lines() {
            assert!(
                !line.starts_with(FORGED),
                "{arguments:?}: {line:?} in\n{text}"
            );
            let line = line.replace('\t', "");
            assert!(!linemate_text::has_unsafe(&line), "{arguments:?}: {line:?}");
        }
    }
    output
}

#[test]
fn hostile_text_is_escaped_by_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = events().bytes(true, hostile_contents());
    let data = file(folder.path(), "a\n\x1b[2JFORGED.data", &bytes);
    let data = data.to_str().unwrap();
    let edit = ["--type", "rq", "-e", "isolate clock"];
    let reports: [&[&str]; 8] = [
        &["--by", "type"],
        &["--by", "field"],
        &["--by", "line"],
        &["--by", "function"],
        &["--type", "rq"],
        &["--machine", "turin-2s", "--by", "function"],
        &["--machine", "turin-2s", "--by", "line"],
        &["--machine", "turin-2s", "--type", "rq"],
    ];
    let mut runs: Vec<Vec<&str>> = Vec::new();
    for report in reports {
        runs.push([&["report", data, "--ledger"], report].concat());
    }
    runs.push(vec!["verify", data]);
    runs.push([&["whatif", data][..], &edit].concat());
    runs.push(vec!["advise", data]);
    runs.push(vec!["advise", data, "--type", "rq"]);
    runs.push(vec!["diff", data, data]);
    runs.push(vec!["diff", data, data, "--machine", "turin-2s"]);
    for run in &runs {
        let output = tame(run);
        assert!(output.status.success(), "{run:?}: {}", story(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        if !matches!(run[0], "verify" | "diff") {
            assert!(
                text.contains("command\\x1b]0;title\\x07"),
                "{run:?}: {text}"
            );
        }
        let json = tame(&[run, &["--json"][..]].concat());
        assert!(json.status.success(), "{run:?}: {}", story(&json));
        let json: Value = serde_json::from_slice(&json.stdout).unwrap();
        let exact = [
            "/recording",
            "/inputs/recording",
            "/recordings/0/description",
        ];
        let command = exact.iter().find_map(|at| json.pointer(at)?.get("command"));
        if let Some(command) = command {
            assert_eq!(command, &Value::from(hostile("command")), "{run:?}");
        }
    }
    // Errors that name what a file holds.
    for run in [
        &["report", data, "--type", "update"][..],
        &[
            "whatif",
            data,
            "--type",
            "rq",
            "-e",
            "reuse RMW of lock in update",
        ],
        &["patch", data, "--edit", "/dev/null", "--source", "/"],
    ] {
        assert_eq!(tame(run).status.code(), Some(2), "{run:?}");
    }
}

#[test]
fn names_of_types_are_those_of_a_program() {
    let folder = tempfile::tempdir().unwrap();
    let hostile_names = [btf(&hostile("s"), "a"), btf("s", &hostile("a"))];
    let rules = file(folder.path(), "rules", b"type s\n\tapart a from b\n");
    let rules = rules.to_str().unwrap();
    for (number, types) in hostile_names.iter().enumerate() {
        let kernel = file(folder.path(), &format!("{number}.btf"), types);
        let kernel = kernel.to_str().unwrap();
        let mut contents = Contents::new();
        contents.btf = Some(types.clone());
        let data = events().bytes(true, contents);
        let data = file(folder.path(), &format!("{number}.data"), &data);
        let data = data.to_str().unwrap();
        for run in [
            &["layout", "s", "--kernel", kernel][..],
            &["check", rules, "--kernel", kernel],
            &["report", data],
            &["advise", data],
            &["diff", data, data],
            &["whatif", data, "--type", "s", "-e", "isolate b"],
        ] {
            let output = tame(run);
            assert_eq!(output.status.code(), Some(2), "{run:?}: {}", story(&output));
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(said.lines().count(), 1, "{said}");
            assert!(said.contains("has control characters"), "{said}");
        }
        assert_eq!(tame(&["verify", data]).status.code(), Some(1));
    }
}

/// Start and length of each chunk.
fn chunks(bytes: &[u8]) -> Vec<(usize, usize)> {
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let mut at = 16 + u32_at(12) + 8;
    let mut chunks = Vec::new();
    while at < bytes.len() {
        let length = 32 + u32_at(at + 8);
        chunks.push((at, length));
        at += length;
    }
    chunks
}

/// Recordings that no analysis can be made of.
fn unreadable() -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Contents)> = Vec::new();
    let mut add = |what: &str, change: &dyn Fn(&mut Contents)| {
        let mut contents = Contents::new();
        change(&mut contents);
        all.push((what.to_owned(), contents));
    };
    add("no types", &|c| c.btf = None);
    add("no symbols", &|c| c.symbols = None);
    add("types that are not BTF", &|c| {
        c.btf = Some(b"types".to_vec())
    });
    add("types cut", &|c| c.btf.as_mut().unwrap().truncate(200));
    add("a hostile name", &|c| c.btf = Some(btf("a\x1b[2J", "b")));
    add("symbols that are not", &|c| {
        c.symbols = Some("what\n".into())
    });
    add("hidden symbols", &|c| {
        c.symbols = Some("0 T a\n0 T b\n".into())
    });
    for (key, value) in [
        ("cpus", "0"),
        ("cpus", "4294967295"),
        ("cpus", "eight"),
        ("memory_bytes", "18446744073709551615"),
        ("seed", "-1"),
        ("user", "maybe"),
    ] {
        add(&format!("{key} = {value}"), &|c| {
            c.metadata.insert(key.into(), value.into());
        });
    }
    // More than a guest of 1 GiB can leave.
    add("twelve images of zeros", &|c| {
        c.metadata
            .insert("memory_bytes".into(), (1 << 30).to_string());
        let zeros = |i: u64| (0xffff_ea00_0000_0000 + (i << 24), vec![0; 1 << 24]);
        c.images.extend((0..12).map(zeros));
    });
    let made = all.into_iter();
    made.map(|(what, contents)| (what, events().bytes(true, contents)))
        .collect()
}

/// Recordings of which something is damaged.
fn damaged() -> Vec<(String, Vec<u8>)> {
    let sound = events().bytes(true, Contents::new());
    let mut all = vec![("no end".to_owned(), events().bytes(false, Contents::new()))];
    for (number, (start, length)) in chunks(&sound).into_iter().enumerate() {
        for cut in [start, start + 7, start + length / 2] {
            all.push((format!("cut at byte {cut}"), sound[..cut].to_vec()));
        }
        for at in [start, start + 5, start + 13, start + 33, start + length - 1] {
            let mut bytes = sound.clone();
            bytes[at] ^= 0x40;
            all.push((format!("chunk {number}, byte {at}"), bytes));
        }
    }
    all.push(("empty".to_owned(), Vec::new()));
    all.push(("not a recording".to_owned(), b"hello".repeat(100)));
    all
}

fn codes(folder: &Path, bytes: &[u8]) -> (Option<i32>, Option<i32>, String) {
    let data = file(folder, "broken.data", bytes);
    let data = data.to_str().unwrap();
    let (verify, report) = (linemate(&["verify", data]), linemate(&["report", data]));
    let story = story(&verify) + &story(&report);
    (verify.status.code(), report.status.code(), story)
}

#[test]
fn verify_finds_what_report_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let sound = events().bytes(true, Contents::new());
    let (verify, report, story) = codes(folder.path(), &sound);
    assert_eq!((verify, report), (Some(0), Some(0)), "{story}");
    for (what, bytes) in unreadable() {
        let (verify, report, story) = codes(folder.path(), &bytes);
        assert_eq!((verify, report), (Some(1), Some(2)), "{what}: {story}");
    }
    let mut refused = 0;
    for (what, bytes) in damaged() {
        let (verify, report, story) = codes(folder.path(), &bytes);
        assert_ne!(verify, Some(0), "{what}: {story}");
        assert!(matches!(report, Some(0 | 2)), "{what}: {story}");
        refused += usize::from(report == Some(2));
    }
    assert!(refused > 10, "only {refused} were refused by report");
}

#[test]
fn every_document_names_its_schema() {
    let folder = tempfile::tempdir().unwrap();
    let data = file(
        folder.path(),
        "a.data",
        &events().bytes(true, Contents::new()),
    );
    let kernel = file(folder.path(), "a.btf", &btf("s", "a"));
    let rules = file(folder.path(), "rules", b"type s\n\tapart a from b\n");
    let [data, kernel, rules] = [&data, &kernel, &rules].map(|p| p.to_str().unwrap());
    let runs: [&[&str]; 13] = [
        &["report", data],
        &["report", data, "--machine", "turin-2s"],
        &["verify", data],
        &["machines"],
        &["whatif", data, "--type", "rq", "-e", "isolate clock"],
        &["advise", data],
        &["advise", data, "--type", "rq"],
        &["diff", data, data],
        &["layout", "s", "--kernel", kernel],
        &["check", rules, "--kernel", kernel],
        // Not a kernel: the checks fail, and no guest is booted.
        &["doctor", "--kernel", kernel],
        // Writes results.json, whose schema docs/reference/cases.md describes; its tests are in
        // case.rs.
        &["case", "run"],
        // Of a series; its tests are in growth.rs.
        &["growth"],
    ];
    let docs = documents(&root().join("docs"));
    let elsewhere = [
        linemate_answers::CaseResults::SCHEMA,
        linemate_answers::GrowthDocument::SCHEMA,
    ];
    let mut seen = BTreeSet::from(elsewhere.map(str::to_owned));
    for run in &runs[..11] {
        let output = linemate(&[run, &["--json"][..]].concat());
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let schema = json["schema"].as_str();
        seen.insert(
            schema
                .unwrap_or_else(|| panic!("{run:?}: {json}"))
                .to_owned(),
        );
    }
    for schema in &seen {
        let version = schema
            .strip_prefix("linemate.")
            .and_then(|s| s.split_once('/'));
        let (name, version) = version.unwrap_or_else(|| panic!("{schema}"));
        assert!(
            name.chars().all(|c| c.is_ascii_lowercase() || c == '-'),
            "{schema}"
        );
        assert!(version.parse::<u32>().is_ok_and(|v| v > 0), "{schema}");
        assert!(
            docs.contains(&format!("`{schema}`")),
            "{schema} is not in docs/"
        );
    }
    assert_eq!(seen.len(), 13, "{seen:?}");
    // No verb with --json is left out.
    let help = String::from_utf8(linemate(&["--help"]).stdout).unwrap();
    let verbs = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let verbs = verbs.take_while(|line| !line.is_empty());
    let known: BTreeSet<&str> = runs.iter().map(|run| run[0]).collect();
    for verb in verbs.filter_map(|line| line.split_whitespace().next()) {
        let action: &[&str] = if verb == "case" { &["run"] } else { &[] };
        let help = linemate(&[&[verb], action, &["--help"]].concat());
        if String::from_utf8(help.stdout).unwrap().contains("--json") {
            assert!(known.contains(verb), "{verb}");
        }
    }
}

/// The text of every Markdown file below a folder.
fn documents(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text += &documents(&path);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            text += &std::fs::read_to_string(path).unwrap();
        }
    }
    text
}

/// The only line on standard error, with exit code 2.
fn refusal(arguments: &[&str]) -> String {
    let output = linemate(arguments);
    assert_eq!(
        output.status.code(),
        Some(2),
        "{arguments:?}: {}",
        story(&output)
    );
    assert!(
        output.stdout.is_empty(),
        "{arguments:?}: {}",
        story(&output)
    );
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
    said
}

#[test]
fn a_recording_is_named_with_and_without_its_option() {
    let folder = tempfile::tempdir().unwrap();
    let data = file(
        folder.path(),
        "a.data",
        &events().bytes(true, Contents::new()),
    );
    let data = data.to_str().unwrap();
    for verb in ["report", "verify", "advise"] {
        let [plain, option] = [&[verb, data][..], &[verb, "-i", data]].map(linemate);
        assert!(plain.status.success(), "{}", story(&plain));
        assert_eq!(plain.stdout, option.stdout, "{verb}");
        let both = linemate(&[verb, data, "-i", data]);
        assert_eq!(both.status.code(), Some(2), "{}", story(&both));
    }
    let edit = ["--type", "rq", "-e", "isolate clock"];
    let whatif = linemate(&[&["whatif", data][..], &edit].concat());
    assert!(whatif.status.success(), "{}", story(&whatif));
    let none = refusal(&["report", "/no/such"]);
    assert!(none.contains("/no/such: no such file"), "{none}");
    assert!(none.contains("linemate record COMMAND"), "{none}");
}

#[test]
fn an_empty_type_is_no_type() {
    for verb in ["report", "whatif", "advise"] {
        for name in ["", " ", "struct", "struct "] {
            let output = linemate(&[verb, "--type", name]);
            let story = story(&output);
            assert_eq!(output.status.code(), Some(2), "{verb} {name:?}: {story}");
            assert!(
                story.contains("the name of a type is missing"),
                "{verb} {name:?}: {story}"
            );
        }
    }
    for arguments in [&["diff", "a", "b", "--type", ""][..], &["layout", ""]] {
        let story = story(&linemate(arguments));
        assert!(story.contains("the name of a type is missing"), "{story}");
    }
}

#[test]
fn errors_about_edits_show_the_file_and_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let data = file(
        folder.path(),
        "a.data",
        &events().bytes(true, Contents::new()),
    );
    let data = data.to_str().unwrap();
    for (text, line) in [
        ("type rq\nisolate lok\n", "2:"),
        ("# nothing\ntype qr\nisolate lock\n", "3:"),
        ("type rq\n\nflip lock\n", "3:"),
        ("type rq\nreuse RMW of lock in nobody\n", "2:"),
        ("type rq\nlayout-from /no/such\n", "2:"),
    ] {
        let edit = file(folder.path(), "e.edit", text.as_bytes());
        let edit = edit.to_str().unwrap();
        let said = refusal(&["whatif", data, "--edit", edit]);
        assert!(
            said.starts_with(&format!("linemate: {edit}:{line}")),
            "{text}: {said}"
        );
        let tree = folder.path().to_str().unwrap();
        let said = refusal(&["patch", data, "--edit", edit, "--source", tree]);
        assert!(
            said.starts_with(&format!("linemate: {edit}:{line}")),
            "{text}: {said}"
        );
    }
    let said = refusal(&["whatif", data, "--type", "rq", "-e", "isolate lok"]);
    assert!(
        said.contains("-e 1:1: rq: there is no field or group `lok`; the nearest: lock"),
        "{said}"
    );
}

#[test]
fn metadata_of_any_keys_is_read() {
    let mut contents = Contents::new();
    contents.metadata = Metadata::from([("colour".into(), "green".into())]);
    let folder = tempfile::tempdir().unwrap();
    let (verify, report, story) = codes(folder.path(), &events().bytes(true, contents));
    assert_eq!((verify, report), (Some(0), Some(0)), "{story}");
}

#[test]
fn refusals_are_one_line_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let data = file(
        folder.path(),
        "a.data",
        &events().bytes(true, Contents::new()),
    );
    let toml = file(folder.path(), "m.toml", b"name = \"x\"\ntitle = [\n");
    let (data, toml) = (data.to_str().unwrap(), toml.to_str().unwrap());
    let path = folder.path().to_str().unwrap();
    for (arguments, parts) in [
        (
            &["report", data, "--top", "-1"][..],
            &["--top = -1: must be 0 to 1000000"][..],
        ),
        (
            &["report", data, "--top", "x"],
            &["--top = x: must be 0 to 1000000"],
        ),
        (
            &["report", data, "--line", "48"],
            &["--line = 48: must be 64 or 128"],
        ),
        (&["report", data, "--typ", "rq"], &["'--typ'", "--type"]),
        (&["report", data, "--type", "RQ"], &["the nearest: rq\n"]),
        (
            &["report", data, "--type", "nothing"],
            &["no type or typed variable \"nothing\" in the recording\n"],
        ),
        (
            &["report", data, "--machine", toml],
            &[&format!("{toml}: not a machine description: 2:10: ")],
        ),
        (&["report", path], &[path, "it is a folder, not a file"]),
        (
            &["verify", "/no/such"],
            &["/no/such: no such file: name a recording"],
        ),
        (
            &[
                "whatif",
                data,
                "--type",
                "rq",
                "-e",
                "isolate lock",
                "--cpus",
                "3",
            ],
            &["3 CPUs are not a multiple of the 2 recorded ones"],
        ),
        (
            &["record", "--memory", "1P", "true"],
            &["--memory = 1P: must be 256M to 4096T"],
        ),
        (
            &["record", "--smp", "-1", "true"],
            &["--smp = -1: must be 1 to 512"],
        ),
        (&["layout"], &["<TYPE>", "--help"]),
    ] {
        let said = refusal(arguments);
        for part in parts {
            assert!(said.contains(part), "{arguments:?}: no {part:?} in {said}");
        }
    }
}
