//! "Next" at the end of an answer is a command that works as it is printed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::{linemate_in, record, story, workload};

/// The folder in the place of the sources that a step asks for.
const TREE: &str = "sources-that-are-not-there";

/// The command that an answer ends with.
fn step(output: &Output) -> String {
    assert!(output.status.success(), "{}", story(output));
    let said = story(output);
    let line = said.lines().find(|line| line.starts_with("Next, "));
    let (_, command) = line
        .unwrap_or_else(|| panic!("{said}"))
        .split_once(": linemate ")
        .unwrap();
    command.to_owned()
}

/// Runs a printed command as a shell does.
fn run(folder: &Path, command: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_linemate");
    let command = command.replace("--source TREE", &format!("--source {TREE}"));
    let script = format!("exec '{program}' {command}");
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder)
        .output();
    output.unwrap()
}

#[test]
fn every_step_that_is_printed_runs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sleepers = workload("sleepers");
    let command = [&*sleepers, "-m", "1", "-l", "2", "-c", "4"];
    let data = record(folder, "6.12", &["--smp", "2"], &command);
    // Another name than the one that is read unless another is given.
    std::fs::rename(&data, folder.join("it is.data")).unwrap();
    std::fs::write(folder.join("a b.edit"), "type rq\nisolate __lock\n").unwrap();
    std::fs::write(folder.join("code.edit"), "type rq\nremove nr_switches\n").unwrap();
    let input = ["-i", "it is.data"];
    let mut printed = Vec::new();
    for (verb, options) in [
        ("report", &[][..]),
        ("report", &["--type", "rq"]),
        ("report", &["--machine", "turin-2s"]),
        ("report", &["--machine", "turin-2s", "--type", "rq"]),
        ("whatif", &["--type", "rq", "-e", "isolate __lock"]),
        (
            "whatif",
            &[
                "-e",
                "type rq",
                "-e",
                "isolate __lock",
                "--machine",
                "turin-2s",
            ],
        ),
        ("whatif", &["--edit", "a b.edit"]),
        ("whatif", &["--edit", "code.edit"]),
        ("advise", &["--trials", "0"]),
        ("advise", &["--type", "rq", "--trials", "0"]),
        (
            "advise",
            &["--type", "rq", "--trials", "0", "-o", "found.edit"],
        ),
    ] {
        let step = step(&linemate_in(
            folder,
            &[&[verb], &input[..], options].concat(),
        ));
        if !printed.contains(&step) {
            printed.push(step);
        }
    }
    assert!(
        printed.iter().any(|step| step.starts_with("patch ")),
        "{printed:?}"
    );
    for step in printed {
        let output = run(folder, &step);
        match step.starts_with("patch ") {
            false => assert!(output.status.success(), "{step}: {}", story(&output)),
            // The recording and the edit are read before the search for the tree.
            true => assert!(story(&output).contains(TREE), "{step}: {}", story(&output)),
        }
    }
}
