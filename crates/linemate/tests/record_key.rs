//! `linemate record --key`: what a recording depends on, and what it does not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use common::{kernel, story};

fn said(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_linemate"))
        .arg("record")
        .args(words)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn key(folder: &Path, words: &[&str]) -> String {
    let output = said(folder, words);
    assert!(output.status.success(), "{}", story(&output));
    assert!(!folder.join("linemate.data").exists());
    let text = String::from_utf8(output.stdout).unwrap();
    let key = text.trim_end().to_owned();
    assert!(
        key.len() == 32 && key.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{text}"
    );
    key
}

/// A folder with a program, a file and a script.
fn made() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("program", "#!/bin/sh\ntrue\n"),
        ("data", "1\n"),
        ("setup.sh", "true\n"),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

const WORDS: [&str; 6] = ["--setup", "setup.sh", "--file", "data", "--", "./program"];

fn with<'w>(options: &[&'w str]) -> Vec<&'w str> {
    [options, &WORDS].concat()
}

#[test]
fn equal_content_has_equal_keys_wherever_it_lies() {
    let folders = [made(), made()];
    let image = kernel("6.12");
    let words = with(&["--key", "--kernel", image.to_str().unwrap()]);
    let first = key(folders[0].path(), &words);
    assert_eq!(first, key(folders[1].path(), &words));
    // Times are not content, and where the recording would go is none either.
    let program = fs::File::options()
        .write(true)
        .open(folders[1].path().join("program"))
        .unwrap();
    let old = SystemTime::now() - Duration::from_secs(86_400);
    program.set_modified(old).unwrap();
    let elsewhere = with(&["--key", "-o", "x.data", "--kernel", image.to_str().unwrap()]);
    assert_eq!(first, key(folders[1].path(), &elsewhere));
    // The image's digest is the word that represents it.
    let sum = Command::new("sha256sum").arg(&image).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    let word = format!("--key={}", sum.split(' ').next().unwrap());
    assert_eq!(first, key(folders[0].path(), &with(&[&word])));
}

#[test]
fn whatever_a_recording_depends_on_changes_its_key() {
    let folder = made();
    let words = ["--key=a"];
    let mut seen = vec![key(folder.path(), &with(&words))];
    let mut is_new = |what: &str, key: String| {
        assert!(!seen.contains(&key), "{what} does not change the key");
        seen.push(key);
    };
    for option in [
        &["--key=b"][..],
        &["--key=a", "--smp", "4"],
        &["--key=a", "--seed", "43"],
        &["--key=a", "--memory", "2G"],
        &["--key=a", "--append", "quiet"],
        &["--key=a", "--numa", "2"],
        &["--key=a", "--user"],
        &["--key=a", "--program"],
        &["--key=a", "--program", "--kernel-types", "no"],
        &["--key=a", "--whole-boot"],
        &["--key=a", "--bare"],
        &["--key=a", "--parallel"],
        &["--key=a", "--event", "f"],
        &["--key=a", "--event", "f", "--event", "g"],
    ] {
        is_new(&option.join(" "), key(folder.path(), &with(option)));
    }
    is_new(
        "an argument",
        key(folder.path(), &[&with(&words)[..], &["x"]].concat()),
    );
    for name in ["program", "data", "setup.sh"] {
        let path = folder.path().join(name);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text + "\n").unwrap();
        is_new(name, key(folder.path(), &with(&words)));
    }
}

#[test]
fn a_program_that_is_not_there_has_no_key() {
    let folder = made();
    let output = said(folder.path(), &["--key=a", "./nobody"]);
    assert_eq!(output.status.code(), Some(2), "{}", story(&output));
    let line = String::from_utf8(output.stderr).unwrap();
    assert!(
        line.contains("nobody") && line.lines().count() == 1,
        "{line}"
    );
}
