//! A series from `record --series` to `growth`, on a real kernel; and what is not a series.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::process::Output;

use common::{kernel, linemate, story};
use serde_json::Value;

fn series(folder: &Path, name: &str, options: &[&str], command: &[&str]) -> Output {
    let data = folder.join(name).to_str().unwrap().to_owned();
    let kernel = kernel("6.12");
    let mut arguments = vec!["record", "-o", &data, "--kernel", kernel.to_str().unwrap()];
    arguments.extend(options);
    arguments.push("--");
    arguments.extend(command);
    linemate(&arguments)
}

/// A process for each CPU.
const COMMAND: [&str; 3] = [
    "sh",
    "-c",
    "for i in $(seq {cpus*2}); do sleep 0.01 & done; wait; echo ran {cpus}",
];

#[test]
fn a_series_is_recorded_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let output = series(folder.path(), "s.data", &["--series", "2,4,8"], &COMMAND);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}", story(&output));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "ran 2\nran 4\nran 8\n"
    );
    assert!(
        said.contains("Next, what grows: linemate growth "),
        "{said}"
    );
    let file = |cpus: u32| {
        folder
            .path()
            .join(format!("s-{cpus}.data"))
            .to_str()
            .unwrap()
            .to_owned()
    };
    let files = [file(2), file(4), file(8)];
    let [two, four, eight] = files.each_ref().map(String::as_str);

    let answer = linemate(&["growth", eight, two, four, "--cpus", "16", "--json"]);
    assert!(answer.status.success(), "{}", story(&answer));
    let document: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!(document["schema"], "linemate.growth/1");
    let recordings = document["recordings"].as_array().unwrap();
    let cpus: Vec<u64> = recordings
        .iter()
        .filter_map(|r| r["cpus"].as_u64())
        .collect();
    assert_eq!(cpus, [2, 4, 8]);
    // What the recordings hold is what verify counts.
    let verified = linemate(&["verify", "-i", four, "--json"]);
    let verified: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!(recordings[1]["accesses"], verified["accesses"]);
    let rows = document["rows"].as_array().unwrap();
    let sum: f64 = rows
        .iter()
        .flat_map(|row| row["recorded"][2].as_f64())
        .sum();
    assert!(
        (sum * 8.0 / recordings[2]["accesses"].as_f64().unwrap() - 1.0).abs() < 1e-9,
        "every access is in one row"
    );

    // The same bytes whatever the order.
    let again = linemate(&["growth", two, four, eight, "--cpus", "16", "--json"]);
    assert_eq!(again.stdout, answer.stdout);

    // Two recordings are not a series, and one of another command does not belong to it.
    let few = linemate(&["growth", two, four]);
    assert_eq!(few.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&few.stderr).contains("a series has 3 to 32 recordings, not 2"),
        "{}",
        story(&few)
    );
    let other = series(folder.path(), "o.data", &["--series", "4"], &["true"]);
    assert!(
        String::from_utf8_lossy(&other.stderr)
            .contains("note: --series: the command has no {cpus}"),
        "{}",
        story(&other)
    );
    let other = folder.path().join("o-4.data");
    let mixed = linemate(&["growth", two, eight, other.to_str().unwrap()]);
    assert_eq!(mixed.status.code(), Some(2));
    let said = String::from_utf8_lossy(&mixed.stderr);
    assert!(
        said.contains("differ in workload") && said.lines().count() == 1,
        "{said}"
    );
}

#[test]
fn what_cannot_be_a_series_is_refused_before_anything_boots() {
    let folder = tempfile::tempdir().unwrap();
    for (options, command, wrong) in [
        (
            &["--series", "4,8,4"][..],
            "true",
            "--series: 4 is given twice",
        ),
        (
            &["--series", "4,513"],
            "true",
            "--series = 513: must be 1 to 512",
        ),
        (
            &["--series", "4,0"],
            "true",
            "--series = 0: must be 1 to 512",
        ),
        (&["--series", "4,x"], "true", "--series"),
        (
            &["--series", "4,8", "--smp", "4"],
            "true",
            "cannot be used with",
        ),
        (&["--series", "4,8", "--sockets", "8"], "true", "--series"),
        (
            &["--series", "4,6"],
            "{cpus/4}",
            "`{cpus/4}` of 6 CPUs is not a whole number",
        ),
        (
            &["--series", "4,8"],
            "{cpus+1}",
            "a placeholder is {cpus}, {cpus*K} or {cpus/K}",
        ),
    ] {
        let output = series(folder.path(), "s.data", options, &["echo", command]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{}", story(&output));
        assert!(said.contains(wrong), "{wrong}: {said}");
        assert_eq!(
            said.lines()
                .filter(|line| !line.starts_with("linemate: note"))
                .count(),
            1,
            "{said}"
        );
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
