//! A command whose output is an input, or another output, is refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use linemate_files::{Claims, FileError};
use tempfile::tempdir;

fn check(read: &[&Path], written: &[&Path]) -> Result<(), FileError> {
    let mut claims = Claims::default();
    read.iter().for_each(|path| claims.read(path));
    for path in written {
        claims.write(format!("-o {}", path.display()), path);
    }
    claims.check()
}

#[test]
fn files_are_known_under_all_their_names() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("data"), "x").unwrap();
    fs::create_dir(at("sub")).unwrap();
    fs::hard_link(at("data"), at("hard")).unwrap();
    symlink("data", at("soft")).unwrap();
    symlink("soft", at("softer")).unwrap();
    symlink("sub", at("elsewhere")).unwrap();
    symlink("sub/new", at("dangling")).unwrap();
    let data = at("data");
    for name in ["data", "hard", "soft", "softer", "sub/../data"] {
        let error = check(&[&data], &[&at(name)]).unwrap_err();
        assert!(matches!(error, FileError::ReplacesInput { .. }), "{name}");
        let error = check(&[], &[&data, &at(name)]).unwrap_err();
        assert!(matches!(error, FileError::SameOutput { .. }), "{name}");
    }
    // None of them exists yet.
    for name in ["sub/new", "elsewhere/new", "dangling", "sub/../sub/new"] {
        let error = check(&[], &[&at("sub/new"), &at(name)]).unwrap_err();
        assert!(matches!(error, FileError::SameOutput { .. }), "{name}");
    }
}

#[test]
fn what_is_not_one_file_is_fine() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("data"), "x").unwrap();
    fs::write(at("copy"), "x").unwrap();
    fs::create_dir(at("sub")).unwrap();
    check(&[&at("data")], &[&at("copy"), &at("new"), &at("sub/new")]).unwrap();
    // A folder whose files are read; devices; a missing one is refused where it is opened.
    let null = Path::new("/dev/null");
    check(&[folder.path()], &[null, null, &at("no/x"), &at("no/x")]).unwrap();
}

#[test]
fn the_refusal_names_both() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    fs::write(&data, "x").unwrap();
    let shown = data.display();
    assert_eq!(
        check(&[&data], &[&data]).unwrap_err().to_string(),
        format!("-o {shown} would replace {shown}, which this command reads: name another file")
    );
    assert_eq!(
        check(&[], &[&data, &data]).unwrap_err().to_string(),
        format!("-o {shown} and -o {shown} are the same file: name two")
    );
}

#[test]
fn sources_that_are_read_are_not_replaced() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("tree")).unwrap();
    for name in ["tree/a.h", "tree/a.patch", "b.h"] {
        fs::write(at(name), "x").unwrap();
    }
    let replaces = |name: &str| {
        let mut claims = Claims::default();
        claims.read_sources(&at("tree"));
        claims.write("-o".to_owned(), &at(name));
        claims.check().is_err()
    };
    assert!(replaces("tree/a.h"));
    assert!(!replaces("tree/a.patch") && !replaces("tree/new.h") && !replaces("b.h"));
}
