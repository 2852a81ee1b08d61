//! Cases of false sharing from papers and issue trackers, rebuilt in `workloads/known`: each is
//! found first, and its published fix is predicted as a gain. Next to them, controls without
//! anything to advise.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the predicted gains are the result")]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{items, linemate, record, root, story};
use serde_json::Value;

const MACHINES: [&str; 2] = ["gnr-2s-480", "turin-2s"];

/// The columns of a list in `workloads/known`, without comments.
fn list(name: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(root().join("workloads/known").join(name)).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect()
}

/// Compiles a program of `workloads/known` into the folder, with its fix or without; gives its path
/// from there.
fn compile(folder: &Path, source: &str, fixed: bool) -> String {
    let path = root().join("workloads/known").join(source);
    let name = path.file_stem().unwrap();
    let program = folder.join(name);
    let (compiler, options, fix): (_, &[&str], &[&str]) = match path.extension().unwrap().to_str() {
        Some("rs") => {
            let options = &["--edition", "2024", "-C", "opt-level=2", "-D", "warnings"];
            ("rustc", options, &["--cfg", "fixed"])
        }
        Some("cpp") => ("c++", &["-std=c++17", "-O2", "-pthread"], &["-DFIXED"]),
        _ => ("cc", &["-std=gnu11", "-O2", "-pthread"], &["-DFIXED"]),
    };
    let output = Command::new(compiler)
        .args(options)
        .args(if fixed { fix } else { &[] })
        .args(["-g", "-o"])
        .arg(&program)
        .arg(&path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", story(&output));
    format!("./{}", name.to_str().unwrap())
}

/// Records a program on four CPUs.
fn recorded(folder: &Path, source: &str, fixed: bool) -> String {
    let program = compile(folder, source, fixed);
    record(folder, "6.12", &["--program", "--smp", "4"], &[&program])
}

fn json(arguments: &[&str]) -> Value {
    let output = linemate(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", story(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What costs most of all that the program and the kernel have, and everything's cost.
fn costliest(data: &str, machine: &str, seed: &str) -> (String, f64) {
    let report = ["report", "-i", data, "--machine", machine, "--seed", seed];
    let report = json(&report);
    let types = items(&report, "/costs/types").iter();
    let first = types
        .max_by_key(|row| row["cycles"].as_u64())
        .and_then(|row| row["name"].as_str());
    let whole = report["costs"]["whole"]["cycles"].as_f64().unwrap();
    (first.unwrap().to_owned(), whole)
}

/// Asserts that the survey has the type first.
fn is_surveyed_first(data: &str, found: &str) {
    let survey = [
        "advise",
        "-i",
        data,
        "--machine",
        MACHINES[0],
        "--trials",
        "0",
        "--top",
        "5",
    ];
    let survey = json(&survey);
    let first = items(&survey, "/types").first();
    assert_eq!(
        first.map(|row| &row["name"]),
        Some(&found.into()),
        "{survey}"
    );
}

/// The type's name as edits have it: what an `Arc` counts is inside of the counted type.
fn edited(found: &str) -> &str {
    let inner = found.strip_prefix("alloc::sync::ArcInner<");
    inner.map_or(found, |inner| inner.trim_end_matches('>'))
}

/// Asserts that the edit is predicted as a gain on both machines, of the type and of everything.
fn gains(data: &str, found: &str, edit: &str) {
    let mut arguments = vec!["whatif", "-i", data];
    if !edit.starts_with("base-align") {
        arguments.extend(["--type", edited(found)]);
    }
    for statement in edit.split("; ") {
        arguments.extend(["-e", statement]);
    }
    for machine in MACHINES {
        arguments.extend(["--machine", machine]);
    }
    let whatif = json(&arguments);
    let results = items(&whatif, "/results");
    assert_eq!(results.len(), MACHINES.len(), "{whatif}");
    for result in results {
        for of in ["types", "whole"] {
            let measure = &result[of];
            let (difference, ci95) = (
                measure["difference"].as_f64().unwrap(),
                measure["ci95"].as_f64().unwrap(),
            );
            assert!(
                measure["significant"] == true && difference + ci95 < 0.0,
                "{found}, {edit}, {of} on {}: {measure}",
                result["machine"]
            );
            println!(
                "{found}, {edit}, {of} on {}: {difference:.0} ± {ci95:.0}",
                result["machine"]
            );
        }
    }
}

/// Asserts that the program with the fix costs less, under each of some interleavings than the one
/// without under any.
fn rebuilt_gains(data: &str, source: &str) {
    let folder = tempfile::tempdir().unwrap();
    let fixed = recorded(folder.path(), source, true);
    for machine in MACHINES {
        let cost = |data: &str| ["1", "2"].map(|seed| costliest(data, machine, seed).1);
        let (before, after) = (cost(data), cost(&fixed));
        let least = before.into_iter().fold(f64::INFINITY, f64::min);
        let most = after.into_iter().fold(0.0, f64::max);
        assert!(most < least, "{source} on {machine}: {before:?} {after:?}");
    }
}

#[test]
fn known_cases_are_found_first_and_their_fixes_predicted() {
    let cases = list("cases.list");
    assert_eq!(cases.len(), 10);
    for case in cases {
        let [source, found, edit] = &case[..] else {
            panic!("{case:?}");
        };
        let folder = tempfile::tempdir().unwrap();
        let data = recorded(folder.path(), source, false);
        for machine in MACHINES {
            assert_eq!(&costliest(&data, machine, "1").0, found, "{source}");
        }
        match &**edit {
            "-" => rebuilt_gains(&data, source),
            edit => {
                is_surveyed_first(&data, found);
                gains(&data, found, edit);
            }
        }
    }
}

/// The elements are as large as before, but the array starts a line.
#[test]
fn an_alignment_alone_moves_an_array_on_the_heap() {
    let folder = tempfile::tempdir().unwrap();
    let data = recorded(folder.path(), "linear_regression.c", false);
    gains(&data, "lreg_args", "align tid 64");
}

/// Asserts that no layout is recommended, and that no trial of another place for its members or
/// objects gains. What replay says of a counter for each CPU, and of stores that are not made,
/// which threads of the same work have that store the same value, is not a question of places.
fn is_not_advised(data: &str, type_name: &str) {
    let advice = [
        "advise",
        "-i",
        data,
        "--type",
        type_name,
        "--machine",
        MACHINES[0],
        "--trials",
        "4",
    ];
    let advice = json(&advice);
    assert_eq!(advice["recommended"], Value::Null, "{advice}");
    for remedy in items(&advice, "/remedies/remedies") {
        if remedy["kind"] == "split_per_cpu" || remedy["kind"] == "skip_silent_stores" {
            continue;
        }
        for trial in items(remedy, "/trials") {
            let measure = &trial["effect"]["tried"]["types"];
            let gains = measure["significant"] == true
                && measure["difference"].as_f64().is_some_and(|d| d < 0.0);
            assert!(!gains, "{type_name}: {remedy}");
        }
    }
}

#[test]
fn controls_are_not_advised() {
    let controls = list("controls.list");
    assert_eq!(controls.len(), 5);
    for control in controls {
        let [source, type_name] = &control[..] else {
            panic!("{control:?}");
        };
        let folder = tempfile::tempdir().unwrap();
        let data = recorded(folder.path(), source, false);
        is_not_advised(&data, type_name);
    }
}
