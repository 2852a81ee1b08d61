//! Several files that get their names together.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;

use linemate_files::{FileError, FileSet, Published};

/// All files below a folder, by relative path; in the root only those that are not hidden.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(path.strip_prefix(root).unwrap().to_owned()),
            }
        }
    }
    found.retain(|path| path != Path::new(".lock"));
    found.sort();
    found
}

fn set(root: &Path, parts: &[(&str, &str)]) -> FileSet {
    let mut set = FileSet::new(root).unwrap();
    for (place, text) in parts {
        set.add(Path::new(place), text.as_bytes()).unwrap();
    }
    set
}

#[test]
fn nothing_is_there_before_all_is() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().join("new/lake");
    let first = set(&root, &[("a/k=1/x", "one"), ("runs/k=1/x", "two")]);
    assert!(!root.join("a").exists() && !root.join("runs").exists());
    assert_eq!(first.publish().unwrap(), Published::New);
    let both = [PathBuf::from("a/k=1/x"), PathBuf::from("runs/k=1/x")];
    assert_eq!(files(&root), both);
    let again = set(&root, &[("a/k=1/x", "one"), ("runs/k=1/x", "two")]);
    assert_eq!(again.publish().unwrap(), Published::Same);
    assert_eq!(files(&root), both);
    drop(set(&root, &[("b", "three")]));
    assert_eq!(files(&root), both, "a set that is given up leaves nothing");
}

#[test]
fn what_is_there_is_never_changed() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    set(root, &[("b", "old")]).publish().unwrap();
    let refused = set(root, &[("a", "new"), ("b", "other")]).publish();
    assert!(
        matches!(&refused, Err(FileError::Differs(path)) if path.ends_with("b")),
        "{refused:?}"
    );
    assert_eq!(fs::read_to_string(root.join("b")).unwrap(), "old");
    assert_eq!(files(root), [PathBuf::from("b")]);
}

#[test]
fn a_place_that_cannot_be_written_leaves_none_of_them() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    // A folder that cannot be made, noticed only after the first file has its name.
    std::os::unix::fs::symlink("nowhere", root.join("b")).unwrap();
    let refused = set(root, &[("a", "new"), ("b/c", "other")]).publish();
    assert!(matches!(refused, Err(FileError::Io { .. })), "{refused:?}");
    assert_eq!(files(root), [PathBuf::from("b")]);
}

#[test]
fn places_are_inside() {
    let temporary = tempfile::tempdir().unwrap();
    let mut set = FileSet::new(&temporary.path().join("root")).unwrap();
    for place in ["../x", "/x", "a/../../x", ""] {
        assert!(set.add(Path::new(place), b"x").is_err(), "{place}");
    }
}

#[test]
fn what_a_killed_process_left_is_removed_and_what_lives_is_not() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    let left = root.join(".partial-left");
    fs::create_dir(&left).unwrap();
    fs::write(left.join(".lock"), "").unwrap();
    fs::write(left.join("0"), "half").unwrap();
    let living = set(root, &[("a", "one")]);
    set(root, &[("b", "two")]).publish().unwrap();
    assert!(!left.exists());
    living.publish().unwrap();
    assert_eq!(files(root), [PathBuf::from("a"), PathBuf::from("b")]);
}

#[test]
fn of_two_writers_at_once_both_find_their_files_whole() {
    let temporary = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..100).map(|number| format!("a/{number}")).collect();
    let parts: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "text")).collect();
    let sets: Vec<FileSet> = (0..8).map(|_| set(temporary.path(), &parts)).collect();
    let all_are_ready = Barrier::new(sets.len());
    let publish = |set: FileSet| {
        all_are_ready.wait();
        set.publish().unwrap()
    };
    let outcomes: Vec<Published> = thread::scope(|scope| {
        let start = |set| scope.spawn(|| publish(set));
        let threads: Vec<_> = sets.into_iter().map(start).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let new = outcomes.iter().filter(|one| **one == Published::New);
    assert_eq!(new.count(), 1, "{outcomes:?}");
    assert_eq!(files(temporary.path()).len(), 100);
}
