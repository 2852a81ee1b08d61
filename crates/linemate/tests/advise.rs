//! `linemate advise` as a command, on a small recording of a real kernel: schema, the same answer
//! on any number of threads, files that the other verbs accept, bad input.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use common::{linemate, record, story, workload};
use serde_json::Value;

/// One recording for all of a test: two CPUs, four children that sleep four times.
fn small_recording(folder: &Path) -> String {
    let sleepers = workload("sleepers");
    let command = [&*sleepers, "-m", "1", "-l", "2", "-c", "4"];
    record(folder, "6.12", &["--smp", "2"], &command)
}

fn has_exactly(value: &Value, expected: &[&str]) {
    let keys: BTreeSet<&str> = value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(keys, expected.iter().copied().collect::<BTreeSet<_>>());
}

/// What the command writes with that many threads.
fn advise(data: &str, threads: &str, more: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_linemate"))
        .env("RAYON_NUM_THREADS", threads)
        .args(["advise", "-i", data])
        .args(more)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", story(&output));
    assert!(output.stderr.is_empty(), "{}", story(&output));
    output.stdout
}

/// Exit code 2, nothing on standard output, one line on standard error that holds all of `parts`.
fn refused(data: &str, more: &[&str], parts: &[&str]) {
    let output = linemate(&[&["advise", "-i", data], more].concat());
    assert_eq!(
        output.status.code(),
        Some(2),
        "{more:?}: {}",
        story(&output)
    );
    assert!(output.stdout.is_empty(), "{more:?}: {}", story(&output));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{more:?}: {said}");
    for part in parts {
        assert!(said.contains(part), "{more:?}: no `{part}` in: {said}");
    }
}

fn schema_is_as_described(json: &Value) {
    let top = [
        "schema",
        "tool",
        "recordings",
        "machines",
        "type",
        "pins",
        "max_growth",
        "seed",
        "interleavings",
        "first_stays",
        "events",
        "sampled_from",
        "cut",
        "found",
        "front",
        "recommended",
        "others",
        "with_growth",
        "aligned",
        "remedies",
    ];
    has_exactly(json, &top);
    let remedies = json["remedies"]["remedies"].as_array().unwrap();
    let described = [
        "kind", "subject", "advice", "concerns", "stake", "reasons", "trials",
    ];
    has_exactly(&remedies[0], &described);
    let tried = |remedy: &&Value| {
        let trials = remedy["trials"].as_array().unwrap();
        trials.iter().any(|trial| trial["effect"] != "not_tried")
    };
    assert_eq!(remedies.iter().filter(tried).count(), 1);
    assert_eq!(json["schema"], "linemate.advise/2");
    assert_eq!(json["interleavings"], 8);
    let layout = &json["recommended"];
    let described = [
        "edits",
        "moves",
        "model",
        "confirmed",
        "starts_lines",
        "effects",
        "footprints",
        "groups",
    ];
    has_exactly(layout, &described);
    let front = json["front"].as_array().unwrap();
    has_exactly(&front[0], &["moves", "model", "replayed", "recommended"]);
    let chosen = front.iter().filter(|point| point["recommended"] == true);
    assert_eq!(chosen.count(), 1);
    let effect = &layout["effects"][0][0];
    let keys = [
        "interleavings",
        "types",
        "whole",
        "duration",
        "in_either_half",
    ];
    has_exactly(effect, &keys);
    has_exactly(&layout["footprints"][0], &["line_bytes", "before", "after"]);
    let side = ["bytes", "lines", "holes", "hole_bytes", "touched", "alone"];
    has_exactly(&layout["footprints"][1]["after"], &side);
    for group in layout["groups"].as_array().unwrap() {
        let described = [
            "name",
            "sealed",
            "members",
            "fills",
            "loads_per_write",
            "read_in",
            "written_in",
            "saves",
            "kept_from",
        ];
        has_exactly(group, &described);
    }
}

/// The recommended layout of `rq` gains by replay, does not grow, and is what its files say.
fn the_recommendation_holds(data: &str, folder: &Path, json: &Value) {
    let best = &json["recommended"];
    let types = &best["effects"][0][0]["types"];
    assert_eq!(types["significant"], true, "{types}");
    let difference = types["difference"].as_f64().unwrap();
    assert!(difference < 0.0, "{types}");
    for side in best["footprints"].as_array().unwrap() {
        if side["line_bytes"] == 64 {
            assert!(side["after"]["lines"].as_u64() <= side["before"]["lines"].as_u64());
        }
    }
    let edit = folder.join("rq.edit");
    assert_eq!(fs::read_to_string(&edit).unwrap(), best["edits"]);
    let edit = edit.to_str().unwrap();
    let output = linemate(&["whatif", "-i", data, "--edit", edit, "--json"]);
    assert!(output.status.success(), "{}", story(&output));
    let whatif: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        &whatif["results"][0]["types"], types,
        "whatif says the same"
    );
    let evidence = fs::read_to_string(folder.join("rq.json")).unwrap();
    let evidence: Value = serde_json::from_str(&evidence).unwrap();
    let groups = |value: &Value| value.as_array().unwrap().len();
    assert_eq!(groups(&evidence["groups"]), groups(&best["groups"]));
    assert_eq!(groups(&evidence["effect"]), 2);
    assert!(evidence["kernel"].as_str().unwrap().starts_with("6.12"));
    let rules = folder.join("rq.rules");
    let kernel = common::kernel("6.12");
    let kernel = kernel.to_str().unwrap();
    let output = linemate(&["check", rules.to_str().unwrap(), "--kernel", kernel]);
    assert_eq!(
        output.status.code(),
        Some(1),
        "the kernel without the edit breaks them: {}",
        story(&output)
    );
}

fn bad_input_is_refused(data: &str, folder: &Path) {
    let edit = folder.join("refused.edit");
    let edit = edit.to_str().unwrap();
    let rq = ["--type", "rq", "-o", edit];
    let with = |more: &[&'static str]| [&rq, more].concat();
    refused(
        data,
        &["--type", "task_grup", "-o", edit],
        &["task_grup", "no such struct", "task_group"],
    );
    refused(data, &["--type", "sigval", "-o", edit], &["union"]);
    refused(data, &["--type", "usb_device", "-o", edit], &["usb_device"]);
    refused(
        data,
        &with(&["--pin", "nr_runing"]),
        &["nr_runing", "nr_running"],
    );
    refused(data, &with(&["--machine", "pdp-11"]), &["pdp-11"]);
    refused(
        data,
        &with(&["--max-growth", "much"]),
        &["--max-growth = much: must be 0 to 1048576"],
    );
    refused(
        data,
        &with(&["--max-growth", "-64"]),
        &["--max-growth = -64: must be 0 to 1048576"],
    );
    refused(data, &with(&["--max-growth", "99999999999"]), &["1048576"]);
    refused("/nonexistent", &rq, &["/nonexistent"]);
    assert!(!Path::new(edit).exists(), "nothing is written");
}

#[test]
fn advice_is_confirmed_repeats_and_refuses_nonsense() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_recording(folder.path());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (edit, evidence, rules) = (path("rq.edit"), path("rq.json"), path("rq.rules"));
    let flags = [
        "--type",
        "rq",
        "--json",
        "-o",
        &edit,
        "--evidence",
        &evidence,
        "--rules",
        &rules,
        "--trials",
        "1",
    ];
    let text = advise(&data, "2", &flags);
    let json: Value = serde_json::from_slice(&text).unwrap();
    schema_is_as_described(&json);
    the_recommendation_holds(&data, folder.path(), &json);
    assert_eq!(advise(&data, "1", &flags), text, "threads change nothing");
    let quick = ["--json", "--trials", "0"];
    let pinned = [&quick[..], &["--type", "rq", "--pin", "cfs"]].concat();
    let pinned = advise(&data, "2", &pinned);
    let pinned: Value = serde_json::from_slice(&pinned).unwrap();
    if let Some(edits) = pinned["recommended"]["edits"].as_str() {
        for member in ["__lock", "nr_running", "cfs"] {
            let named = edits.split_whitespace().any(|word| word == member);
            assert!(
                !named || edits.contains(&format!("after {member}")),
                "{edits}"
            );
        }
    }
    let pinned = path("pinned.edit");
    let beside = format!("{pinned}.json");
    let flags = [
        "--type", "rq", "--moves", "1", "--trials", "0", "-o", &pinned,
    ];
    fs::write(&beside, "notes of mine").unwrap();
    refused(&data, &flags, &["pinned.edit.json", "--evidence"]);
    assert_eq!(fs::read_to_string(&beside).unwrap(), "notes of mine");
    fs::remove_file(&beside).unwrap();
    let flags = ["--type", "rq", "--all", "--trials", "0", "-o", &pinned];
    advise(&data, "2", &flags);
    let evidence: Value = serde_json::from_slice(&fs::read(&beside).unwrap()).unwrap();
    assert_eq!(evidence["edit"], fs::read_to_string(&pinned).unwrap());
    advise(&data, "2", &flags);
    let survey = advise(&data, "2", &[&quick[..], &["--top", "3"]].concat());
    let survey: Value = serde_json::from_slice(&survey).unwrap();
    assert_eq!(survey["schema"], "linemate.advise-survey/2");
    assert_eq!(survey["types"].as_array().unwrap().len(), 3);
    let row = [
        "name",
        "cost",
        "share",
        "true_sharing",
        "false_sharing",
        "other_misses",
        "capacity",
        "estimate",
        "inside",
        "why_not",
    ];
    has_exactly(&survey["types"][0], &row);
    let estimate = ["gain", "share", "moves", "rated", "sampled_from"];
    has_exactly(&survey["types"][0]["estimate"], &estimate);
    bad_input_is_refused(&data, folder.path());
}
