//! Events on a real kernel: counted calls are those that the workload makes, in each verb with
//! figures per call.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{items, linemate, record, story};
use serde_json::Value;

/// How often the guest's `dd` reads and writes one byte.
const BYTES: u64 = 4000;

fn json(arguments: &[&str]) -> Value {
    let output = linemate(arguments);
    assert!(output.status.success(), "{}", story(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(arguments: &[&str], expected: &str) {
    let output = linemate(arguments);
    assert_eq!(output.status.code(), Some(2), "{}", story(&output));
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().last().unwrap_or_default();
    assert!(line.contains(expected), "{line}");
}

fn calls(data: &str, event: &str) -> Value {
    let edit = ["--type", "file", "-e", "isolate f_pos"];
    let mut arguments = vec!["whatif", data, "--event", event, "--json"];
    arguments.extend(edit);
    json(&arguments)["event"].clone()
}

#[test]
fn calls_are_those_that_the_workload_makes() {
    let folder = tempfile::tempdir().unwrap();
    let count = format!("count={BYTES}");
    // Both are called through pointers, only for these two devices; `ksys_write` takes no pointer
    // to a struct, and is also called for the three lines that dd prints, and for the agent's
    // messages.
    let events = ["read_zero", "write_null", "ksys_write", "kernel_restart"];
    let options = events.iter().flat_map(|event| ["--event", *event]);
    let mut options: Vec<&str> = options.collect();
    options.extend(["--smp", "2"]);
    let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", &count];
    let data = record(folder.path(), "6.12", &options, &dd);

    for function in ["read_zero", "write_null"] {
        let event = calls(&data, function);
        assert_eq!(event["function"], function);
        assert_eq!(event["symbols"], serde_json::json!([function]));
        assert_eq!(event["calls"].as_u64(), Some(BYTES), "{event}");
    }
    let writes = calls(&data, "ksys_write")["calls"].as_u64().unwrap();
    assert!((BYTES + 1..BYTES + 20).contains(&writes), "{writes}");

    // The same count in `diff`, and its figures per call.
    let diff = [
        "diff",
        &data,
        &data,
        "--type",
        "file",
        "--event",
        "write_null",
    ];
    let document = json(&[&diff[..], &["--json"]].concat());
    assert_eq!(document["b"]["event"]["calls"].as_u64(), Some(BYTES));
    let text = linemate(&diff);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("4000 calls of write_null\n"), "{text}");
    assert!(text.contains("per call A"), "{text}");
    let fields = document["a"]["fields"].as_object().unwrap();
    let loads = fields["f_op"]["loads"].as_u64().unwrap();
    let stores = fields["f_op"]["stores"].as_u64().unwrap();
    let per_call = format!("{:.3}", (loads + stores) as f64 / BYTES as f64);
    let row = text
        .lines()
        .find(|l| l.contains(" f_op ") || l.starts_with("f_op "));
    let row = row.unwrap_or_else(|| panic!("{text}"));
    assert_eq!(
        row.split_whitespace().filter(|w| **w == *per_call).count(),
        2,
        "{row}"
    );

    let edit = ["--type", "file", "-e", "isolate f_pos"];
    let whatif = |event: &'static str| [&["whatif", &data, "--event", event], &edit[..]].concat();
    let output = linemate(&whatif("write_null"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("4000 calls of write_null\n"), "{text}");
    refused(
        &whatif("kernel_restart"),
        ": kernel_restart was never called while this was recorded: ",
    );
    // It is watched, for it takes a file, but not every call of it is recorded.
    refused(
        &whatif("vfs_write"),
        ": calls of vfs_write were not counted: record again with `--event vfs_write` before the command",
    );
    let without = json(&[&["whatif", &data, "--json"], &edit[..]].concat());
    assert_eq!(without["event"], Value::Null);
    assert_eq!(items(&without, "/results").len(), 1);
}

#[test]
fn a_function_that_cannot_be_counted_is_refused_before_the_command_runs() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("linemate.data");
    let (data, kernel) = (data.to_str().unwrap(), common::kernel("6.12"));
    for (event, expected) in [
        (
            "no_such_function",
            "linemate: --event no_such_function: the guest's kernel has no function of that name, or all calls of it are inlined: ",
        ),
        (
            "kfree",
            "linemate: --event kfree: it allocates or frees memory, and such calls are recorded per object: ",
        ),
    ] {
        refused(
            &[
                "record",
                "-o",
                data,
                "--kernel",
                kernel.to_str().unwrap(),
                "--smp",
                "2",
                "--event",
                event,
                "--",
                "echo",
                "it ran",
            ],
            expected,
        );
        assert!(!std::path::Path::new(data).exists());
    }
}
