//! What a failed command requested from the guest without success is reported.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{kernel, linemate_in, root, story};

/// What `linemate` says of a run of the program: its notes.
fn notes(folder: &Path, options: &[&str], command: &[&str], code: i32) -> Vec<String> {
    let kernel = kernel("6.12");
    let mut arguments = vec!["record", "--smp", "2", "--kernel", kernel.to_str().unwrap()];
    arguments.extend(options);
    arguments.push("--");
    arguments.extend(command);
    let output = linemate_in(folder, &arguments);
    assert_eq!(output.status.code(), Some(code), "{}", story(&output));
    let said = String::from_utf8(output.stderr).unwrap();
    let told = |line: &&str| line.contains(" in the guest: ");
    said.lines().filter(told).map(str::to_owned).collect()
}

#[test]
fn a_command_that_fails_shows_what_was_not_there_and_one_that_succeeds_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let source = root().join("crates/linemate/tests/programs/refused.c");
    let output = Command::new("cc")
        .args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([&folder.path().join("refused"), &source])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", story(&output));
    let expected = [
        "192.0.2.1:80 (connect: ENETUNREACH)",
        "127.0.0.1:9 (connect: ECONNREFUSED)",
        "/etc/made-up.conf (open)",
        "/etc/made-up.d (stat)",
    ];
    let mut recordings = Vec::new();
    for options in [&[][..], &["--program"]] {
        let told = notes(folder.path(), options, &["./refused", "fail"], 1);
        assert_eq!(told.len(), expected.len(), "{told:?}");
        for (told, expected) in told.iter().zip(expected) {
            assert!(told.contains(&format!(": {expected}; ")), "{told}");
        }
        recordings.push(fs::read(folder.path().join("linemate.data")).unwrap());
    }
    assert_ne!(recordings[0], recordings[1]);
    let told = notes(folder.path(), &[], &["./refused"], 0);
    assert!(told.is_empty(), "{told:?}");
    // The script's own search for its commands is not a miss: it found them.
    let script = folder.path().join("script");
    fs::write(
        &script,
        "#!/bin/sh\nls / >/dev/null\ncat /etc/of-the-script\n",
    )
    .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&script, mode).unwrap();
    let files = ["--file", "/bin/ls", "--file", "/bin/cat"];
    let told = notes(folder.path(), &files, &["./script"], 1);
    assert!(
        told[0].contains("/etc/of-the-script (open); copy it with --file"),
        "{told:?}"
    );
    assert!(!told.iter().any(|line| line.contains("/ls ")), "{told:?}");
}
