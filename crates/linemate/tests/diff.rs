//! `linemate diff` as a command, on a small recording of a real kernel: schema, a recording against
//! itself, bad input.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;

use common::{linemate, record, story, workload};
use serde_json::Value;

fn keys(value: &Value) -> BTreeSet<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

fn diff(data: &str, more: &[&str]) -> Value {
    let output = linemate(&[&["diff", data, data, "--json"], more].concat());
    assert!(output.status.success(), "{}", story(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn sum(side: &Value, key: &str) -> u64 {
    let fields = side["fields"].as_object().unwrap().values();
    fields.map(|figures| figures[key].as_u64().unwrap()).sum()
}

fn refused(arguments: &[&str], parts: &[&str]) {
    let output = linemate(&[&["diff"], arguments].concat());
    assert_eq!(output.status.code(), Some(2), "{}", story(&output));
    assert!(output.stdout.is_empty(), "{}", story(&output));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    for part in parts {
        assert!(said.contains(part), "no `{part}` in: {said}");
    }
}

#[test]
fn a_recording_against_itself() {
    let folder = tempfile::tempdir().unwrap();
    let sleepers = workload("sleepers");
    let command = [&*sleepers, "-m", "1", "-l", "2", "-c", "4"];
    let data = record(folder.path(), "6.12", &["--smp", "2"], &command);

    let counts = diff(&data, &["--type", "rq"]);
    let top = [
        "schema",
        "tool",
        "type",
        "machine",
        "seed",
        "interleavings",
        "a",
        "b",
    ];
    assert_eq!(keys(&counts), top.into_iter().collect());
    assert_eq!(counts["schema"], "linemate.diff/2");
    assert_eq!(counts["a"], counts["b"]);
    let side = &counts["a"];
    let described = ["bytes", "cpus", "event", "accesses", "fields"];
    assert_eq!(keys(side), described.into_iter().collect());
    assert_eq!(side["cpus"], 2);
    let figures = [
        "loads",
        "stores",
        "misses",
        "cycles",
        "sharing_misses",
        "sharing_cycles",
    ];
    assert_eq!(
        keys(&side["fields"]["__lock"]),
        figures.into_iter().collect()
    );
    assert_eq!((sum(side, "misses"), sum(side, "cycles")), (0, 0));
    assert!(sum(side, "loads") > 1000, "{side:#}");

    // With a machine the counts stay and costs come; sharing is a part of them.
    let costs = diff(&data, &["--type", "rq", "--machine", "gnr-2s-480"]);
    assert_eq!(costs["a"], costs["b"]);
    for key in ["loads", "stores"] {
        assert_eq!(sum(&costs["a"], key), sum(side, key), "{key}");
    }
    let (all, sharing) = (
        sum(&costs["a"], "cycles"),
        sum(&costs["a"], "sharing_cycles"),
    );
    assert!(0 < sharing && sharing <= all, "{sharing} of {all}");

    // All types hold the one, at the same cost; four times the CPUs fight over more.
    let every = diff(&data, &["--machine", "gnr-2s-480"]);
    assert_eq!(
        every["a"]["fields"]["rq.__lock"],
        costs["a"]["fields"]["__lock"]
    );
    let cloned = diff(&data, &["--machine", "gnr-2s-480", "--cpus", "8"]);
    assert_eq!(cloned["a"]["cpus"], 8);
    assert!(sum(&cloned["a"], "sharing_misses") > 4 * sum(&every["a"], "sharing_misses"));

    refused(&[&data, &data, "--type", "rqq"], &["rqq", "rq"]);
    refused(
        &[&data, &data, "--machine", "no-such"],
        &["no-such", "gnr-2s-480"],
    );
    let odd = ["--machine", "gnr-2s-480", "--cpus", "3"];
    refused(
        &[&[&*data, &*data], &odd[..]].concat(),
        &["3 CPUs", "multiple of the 2"],
    );
    refused(&[&data, "missing.data", "--type", "rq"], &["missing.data"]);
}
