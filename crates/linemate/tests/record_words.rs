//! Programs that only the words of a recorded command name: copied into the guest, or reported if
//! they are missing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use common::{kernel, story};

#[test]
fn a_shells_script_finds_its_programs_in_the_guest() {
    let folder = tempfile::tempdir().unwrap();
    let folders = ["here", "below"].map(|name| folder.path().join(name));
    for (place, text) in folders.iter().zip(["made-up-server", "below/own"]) {
        fs::create_dir(place).unwrap();
        let program = place.join(text.rsplit('/').next().unwrap());
        fs::write(&program, format!("#!/bin/sh\necho this is {text}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!(
        "{}:{}",
        folders[0].display(),
        std::env::var("PATH").unwrap()
    );
    // The guest's own search path has not this folder: the first word is the program's whole path.
    let server = folders[0].join("made-up-server");
    let script = format!("{} -s; below/own; nobody-has-this", server.display());
    let output = Command::new(env!("CARGO_BIN_EXE_linemate"))
        .args(["record", "--smp", "2", "--kernel"])
        .arg(kernel("6.12"))
        .args(["sh", "-c", &script])
        .env("PATH", path)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", story(&output));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "this is made-up-server\nthis is below/own\n",
        "{said}"
    );
    let taken = format!(
        "note: copied into the guest, as the command names them: below/own, {}",
        server.display()
    );
    assert!(said.contains(&taken), "{said}");
    let missing =
        "note: the guest did not find nobody-has-this; copy it with --file PATH/nobody-has-this";
    assert!(said.contains(missing), "{said}");
    assert!(folder.path().join("linemate.data").is_file());
}
