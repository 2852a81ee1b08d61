//! `linemate doctor` as a user calls it: boots a guest and checks that known accesses are recorded
//! exactly. Needs what `make setup` and `cargo build` provide, and fails without.

use std::process::Command;

use serde_json::Value;

#[test]
fn known_accesses_are_recorded_exactly() {
    let output = Command::new(env!("CARGO_BIN_EXE_linemate"))
        .args(["doctor", "--json"])
        .output()
        .expect("the command was built for this test");
    let said = String::from_utf8_lossy(&output.stdout);
    let json: Value = serde_json::from_str(&said).unwrap_or_else(|error| {
        panic!("{error}: {said}{}", String::from_utf8_lossy(&output.stderr))
    });
    let checks = json["checks"].as_array().expect("a list of checks");
    let failed: Vec<_> = checks.iter().filter(|check| check["ok"] != true).collect();
    assert!(
        failed.is_empty(),
        "run `make setup` and `cargo build --workspace`, or: {failed:#?}"
    );
    let self_test = checks.last().expect("the self-test");
    assert_eq!(self_test["name"], "self-test");
    assert_eq!(
        self_test["detail"],
        "88 of 88 known access patterns recorded exactly"
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_missing_emulator_is_a_finding_with_its_remedy() {
    let output = Command::new(env!("CARGO_BIN_EXE_linemate"))
        .arg("doctor")
        .env("LINEMATE_QEMU", "/nonexistent/qemu")
        .output()
        .expect("the command was built for this test");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let first = said.lines().next().unwrap_or_default();
    assert!(
        first.starts_with("FAIL  qemu       /nonexistent/qemu"),
        "{said}"
    );
    // An installed linemate has no checkout to run `make` in.
    assert!(first.contains(": install QEMU 9.2 or later"), "{said}");
    assert!(!said.contains("make setup"), "{said}");
    assert!(
        said.contains("FAIL  self-test  not run: see above"),
        "{said}"
    );
}

#[test]
fn what_is_missing_for_one_verb_is_noted() {
    let nothing = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new(env!("CARGO_BIN_EXE_linemate"))
        .args(["doctor", "--kernel", "/nonexistent/kernel"])
        .env("PATH", nothing.path())
        .output()
        .expect("the command was built for this test");
    let said = String::from_utf8_lossy(&output.stdout);
    let line = |name: &str| {
        let mut lines = said.lines();
        lines.find(|line| line.split_whitespace().nth(1) == Some(name))
    };
    assert_eq!(
        line("pahole"),
        Some(
            "note  pahole     not in the search path, and `linemate patch` needs it: install Debian's package dwarves"
        ),
        "{said}"
    );
    assert_eq!(
        line("busybox"),
        Some(
            "FAIL  busybox    busybox is not in the search path: install Debian's package busybox-static"
        ),
        "{said}"
    );
}
