//! `linemate export` as a command, on a small recording of a real kernel: the same run twice, two
//! at once, folders and disks that will not do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{linemate, record, story, workload};

/// All files below a folder that are not hidden, with their content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let hidden = path.file_name().unwrap().to_string_lossy().starts_with('.');
            match path.is_dir() {
                _ if hidden => {}
                true => folders.push(path),
                false => {
                    let content = fs::read(&path).unwrap();
                    found.insert(path, content);
                }
            }
        }
    }
    found
}

fn export(data: &str, lake: &Path, more: &[&str]) {
    let lake = lake.to_str().unwrap();
    let output = linemate(&[&["export", data, "--parquet", lake], more].concat());
    assert!(output.status.success(), "{}", story(&output));
    assert!(output.stdout.is_empty(), "{}", story(&output));
}

fn refused(arguments: &[&str], part: &str) {
    let output = linemate(&[&["export"], arguments].concat());
    assert_eq!(output.status.code(), Some(2), "{}", story(&output));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(part), "no `{part}` in: {said}");
}

/// The folders of the tables that have a file.
fn tables(files: &BTreeMap<PathBuf, Vec<u8>>, lake: &Path) -> Vec<String> {
    let table = |path: &PathBuf| {
        let below = path.strip_prefix(lake).unwrap();
        below.iter().next().unwrap().to_string_lossy().into_owned()
    };
    let mut tables: Vec<String> = files.keys().map(table).collect();
    tables.sort();
    tables.dedup();
    tables
}

#[test]
fn a_run_has_its_place_and_is_whole_or_absent() {
    let temporary = tempfile::tempdir().unwrap();
    let sleepers = workload("sleepers");
    let command = [&*sleepers, "-m", "1", "-l", "1", "-c", "2"];
    let data = record(temporary.path(), "6.12", &["--smp", "2"], &command);
    let lake = temporary.path().join("lake");

    export(&data, &lake, &[]);
    let recording = files(&lake);
    let of_recording = ["_schema", "fields", "functions", "ledger", "runs", "types"];
    assert_eq!(tables(&recording, &lake), of_recording);
    export(&data, &lake, &["--machine", "spr-w-48"]);
    export(&data, &lake, &["--machine", "spr-w-48", "--exact"]);
    let both = files(&lake);
    assert_eq!(both.len(), recording.len() + 3, "--exact decides no figure");
    export(&data, &lake, &[]);
    export(&data, &lake, &["--machine", "spr-w-48"]);
    assert_eq!(files(&lake), both, "the same runs are the same bytes");
    export(&data, &lake, &["--lines", "--line", "128"]);
    assert_eq!(files(&lake).len(), both.len() + 6, "another run");

    let edited = ["--machine", "spr-w-48", "-e", "isolate clock", "--type"];
    let with_type = |name| export(&data, &lake, &[&edited[..], &[name]].concat());
    with_type("rq");
    let known = files(&lake);
    with_type("struct rq");
    assert_eq!(files(&lake), known, "a type by another of its spellings");

    // Two at once, into a new folder.
    let fresh = temporary.path().join("fresh");
    let start = || {
        let program = env!("CARGO_BIN_EXE_linemate");
        let mut command = Command::new(program);
        command
            .arg("export")
            .arg(&data)
            .arg("--parquet")
            .arg(&fresh);
        command.stderr(Stdio::null()).spawn().unwrap()
    };
    let mut writers = [start(), start()];
    assert!(
        writers
            .iter_mut()
            .all(|writer| writer.wait().unwrap().success())
    );
    assert_eq!(
        files(&fresh).into_values().collect::<Vec<_>>(),
        recording.into_values().collect::<Vec<_>>()
    );

    // A file of the run with other bytes is not replaced, and nothing is added.
    let runs = files(&fresh)
        .into_keys()
        .find(|path| path.starts_with(fresh.join("runs")))
        .unwrap();
    fs::write(&runs, "other").unwrap();
    let types = files(&fresh)
        .into_keys()
        .find(|path| path.starts_with(fresh.join("types")))
        .unwrap();
    fs::remove_file(&types).unwrap();
    refused(
        &[&data, "--parquet", fresh.to_str().unwrap()],
        "exists with other content",
    );
    assert!(!types.exists());

    // A disk that is full: files of at most a kilobyte.
    let full = temporary.path().join("full");
    let script = "ulimit -f 1; trap '' XFSZ; exec \"$0\" export \"$1\" --no-cache --parquet \"$2\"";
    let mut limited = Command::new("bash");
    limited
        .args(["-c", script, env!("CARGO_BIN_EXE_linemate"), &data])
        .arg(&full);
    let output = limited.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", story(&output));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr).lines().count(),
        1,
        "{}",
        story(&output)
    );
    assert!(files(&full).is_empty(), "{:?}", files(&full).keys());

    let other = temporary.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("_schema"), "linemate.export/9\n").unwrap();
    let other = other.to_str().unwrap();
    refused(
        &[&data, "--parquet", other],
        "it holds tables of \"linemate.export/9\"",
    );
    refused(&[&data, "--parquet", &data], "cannot");
    refused(
        &[&data, "--parquet", other, "-e", "isolate a"],
        "edits need --machine",
    );
    refused(
        &[&data, "--parquet", other, "--seed", "3"],
        "--seed needs --machine",
    );

    let cut = temporary.path().join("cut.data");
    let whole = fs::read(&data).unwrap();
    fs::write(&cut, &whole[..whole.len() - 100]).unwrap();
    let output = linemate(&[
        "export",
        cut.to_str().unwrap(),
        "--parquet",
        full.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(2), "{}", story(&output));
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("the recording is truncated, so its run has no key")
    );
}

#[test]
fn a_run_that_failed_is_a_row() {
    let temporary = tempfile::tempdir().unwrap();
    let lake = temporary.path().to_str().unwrap();
    let base = [
        "export",
        "--parquet",
        lake,
        "--failed",
        "the guest panicked",
        "--workload",
        "w",
    ];
    let named = ["--kernel-name", "debian:0.1", "--guest-seed", "7"];
    let output = linemate(&[&base[..], &named[..]].concat());
    assert!(output.status.success(), "{}", story(&output));
    let found = files(temporary.path());
    assert_eq!(found.len(), 2, "{:?}", found.keys());
    let place = temporary
        .path()
        .join("runs/kernel=debian%3A0.1/workload=w/machine=none/seed=7");
    assert!(place.is_dir(), "{:?}", found.keys());
    refused(&base[1..], "--kernel-name");
}
