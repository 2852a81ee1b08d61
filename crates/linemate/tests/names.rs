//! A type's name means the same in every verb.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use linemate_recording::AccessKind;
use linemate_testkit::world::{Contents, F, RQ, UNITS, Variant, World};

/// Writes a recording of a kernel that has an `rq` without accesses and an `rq@server` with some.
fn write(folder: &Path) {
    let variant = Variant {
        namesakes: true,
        ..Variant::default()
    };
    let mut w = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    for _ in 0..200 {
        w.access(0, AccessKind::Store, rq, 4, F::WakeTask, false);
        w.access(1, AccessKind::Load, rq + 8, 8, F::UpdateRq, false);
    }
    fs::write(
        folder.join("linemate.data"),
        w.bytes(true, Contents::of(variant)),
    )
    .unwrap();
}

fn linemate(folder: &Path, columns: Option<&str>, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linemate"));
    command
        .args(arguments)
        .current_dir(folder)
        .env("LINEMATE_CACHE", folder.join("cache"))
        .env_remove("COLUMNS");
    if let Some(columns) = columns {
        command.env("COLUMNS", columns);
    }
    command.output().unwrap()
}

#[test]
fn a_name_means_the_same_in_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("cache")).unwrap();
    write(folder.path());
    let machine = ["--machine", "westmere-4s-80"];
    let on_machine = |more: &[&'static str]| [more, &machine].concat();
    for verb in [
        vec!["report"],
        on_machine(&["report"]),
        on_machine(&["whatif", "-e", "isolate curr"]),
        on_machine(&["advise", "--trials", "0"]),
        vec!["diff", "linemate.data", "linemate.data"],
    ] {
        for name in ["rq", "rq@server", "runqueues"] {
            let arguments = [&verb[..], &["--type", name]].concat();
            let output = linemate(folder.path(), None, &arguments);
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{arguments:?}: {said}");
            let note =
                "note: \"rq\" is rq@server (400 accesses); also of that name: rq (0 accesses)";
            assert_eq!(said.contains(note), name == "rq", "{arguments:?}: {said}");
            let text = String::from_utf8(output.stdout).unwrap();
            let has_field = text.contains("nr_running") || text.contains("curr");
            assert!(has_field, "{arguments:?}: {text}");
        }
    }
    let absent = linemate(folder.path(), None, &["report", "--type", "rq@client"]);
    assert_eq!(absent.status.code(), Some(2));
}

#[test]
fn a_pipe_gets_tables_of_120_columns_unless_columns_says_another_width() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("cache")).unwrap();
    write(folder.path());
    let widest = |text: Vec<u8>| {
        let text = String::from_utf8(text).unwrap();
        // Prose is not broken, so that it can be searched.
        let rows = text.lines().filter(|line| line.starts_with(' '));
        rows.map(|row| row.chars().count()).max().unwrap()
    };
    let report = |columns| linemate(folder.path(), columns, &["report", "--all"]).stdout;
    assert!(widest(report(None)) <= 120);
    assert!(widest(report(Some("300"))) > 120);
}
