//! What happens to the user's files: only what was requested.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;

use linemate_files::{FileError, FileKind, Output, Replacement};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::{TempDir, tempdir};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn fifo(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    path
}

fn write(path: &Path, text: &str) -> Result<(), FileError> {
    Output::new(path)?.write(text)
}

fn names(folder: &TempDir) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The kind of outputs in these tests.
const TEXT: FileKind = FileKind {
    name: "a text",
    recognize: |path| fs::read_to_string(path).is_ok(),
};

#[test]
fn a_file_is_replaced_whole_and_keeps_its_mode() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("edit");
    write(&path, "one").unwrap();
    let umask = rustix::process::umask(Mode::empty());
    rustix::process::umask(umask);
    assert_eq!(mode(&path), 0o666 & !umask.bits());
    for kept in [0o600, 0o640, 0o644] {
        chmod(&path, kept);
        let mut before = File::open(&path).unwrap();
        write(&path, "two").unwrap();
        assert_eq!(mode(&path), kept);
        let mut text = String::new();
        before.read_to_string(&mut text).unwrap();
        assert_ne!(text, "", "a reader of the older file still has all of it");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "two");
    assert_eq!(names(&folder), ["edit"]);
}

#[test]
fn a_link_stays_and_its_file_is_replaced() {
    let folder = tempdir().unwrap();
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let (link, link_to_link) = (folder.path().join("link"), folder.path().join("again"));
    symlink("elsewhere/edit", &link).unwrap();
    symlink("link", &link_to_link).unwrap();
    // The file that the links lead to is made at their target, then replaced there.
    for text in ["one", "two"] {
        write(&link_to_link, text).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(elsewhere.join("edit")).unwrap(), text);
    }
    let endless = folder.path().join("endless");
    symlink("endless", &endless).unwrap();
    let error = write(&endless, "x").unwrap_err().to_string();
    assert!(error.contains("symbolic links"), "{error}");
}

#[test]
fn devices_and_pipes_are_written_into() {
    let folder = tempdir().unwrap();
    write(Path::new("/dev/null"), "text").unwrap();
    let null = fs::symlink_metadata("/dev/null").unwrap().file_type();
    assert!(null.is_char_device());
    let full = write(Path::new("/dev/full"), "text")
        .unwrap_err()
        .to_string();
    assert!(
        full.starts_with("cannot write /dev/full: No space left"),
        "{full}"
    );

    let pipe = fifo(&folder);
    let reader = thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).unwrap()
    });
    write(&pipe, "through").unwrap();
    assert_eq!(reader.join().unwrap(), "through");
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
}

#[test]
fn an_open_descriptor_is_appended_to() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("log");
    fs::write(&path, "before ").unwrap();
    let open = OpenOptions::new().append(true).open(&path).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&open);
    let link = folder.path().join("stdout");
    symlink(format!("/proc/self/fd/{number}"), &link).unwrap();
    write(&link, "after").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "before after");
}

#[test]
fn a_recording_is_no_stream() {
    let folder = tempdir().unwrap();
    let pipe = fifo(&folder);
    for (path, kind) in [(Path::new("/dev/null"), "a device"), (&pipe, "a pipe")] {
        let error = Replacement::new(path).unwrap_err().to_string();
        assert_eq!(error, format!("{} is {kind}: name a file", path.display()));
    }
}

#[test]
fn what_cannot_be_written_is_reported_at_once() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let refusal = |path: &Path| Output::new(path).unwrap_err().to_string();
    let home = folder.path().display();
    assert_eq!(
        refusal(folder.path()),
        format!("{home} is a folder: name a file")
    );
    assert_eq!(
        refusal(&at("x/")),
        format!("{home}/x/ is a folder: name a file")
    );
    assert_eq!(
        refusal(&at("none/x")),
        format!("cannot write {home}/none/x: there is no folder {home}/none")
    );
    fs::write(at("file"), "").unwrap();
    assert!(refusal(&at("file/x")).contains("Not a directory"));
    assert!(refusal(Path::new("/proc/1/x")).contains("/proc/1/x"));
    assert!(refusal(Path::new("")).contains("is a folder"));
}

#[test]
fn two_drafts_of_one_output_do_not_meet() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("out");
    let draft = || Replacement::new(&path).unwrap().draft().unwrap();
    let (first, second) = (draft(), draft());
    assert_ne!(first.path(), second.path());
    write_into(&first, "first");
    write_into(&second, "second");
    first.replace_keeping_old(TEXT).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "first");
    second.replace_keeping_old(TEXT).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "second");
    assert_eq!(
        fs::read_to_string(folder.path().join("out.old")).unwrap(),
        "first"
    );
    assert_eq!(names(&folder), ["out", "out.old"]);
}

fn write_into(draft: &linemate_files::Draft, text: &str) {
    draft.file().write_all(text.as_bytes()).unwrap();
}

#[test]
fn a_draft_follows_no_link_that_was_planted() {
    let folder = tempdir().unwrap();
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, folder.path().join("out.partial")).unwrap();
    let path = folder.path().join("out");
    let draft = Replacement::new(&path).unwrap().draft().unwrap();
    write_into(&draft, "new");
    draft.replace_keeping_old(TEXT).unwrap();
    assert_eq!(fs::read_to_string(victim).unwrap(), "precious");
    assert_eq!(fs::read_to_string(path).unwrap(), "new");
}

#[test]
fn what_is_unfinished_never_takes_the_place_of_an_older_file() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("out");
    let unfinished = |text| {
        let draft = Replacement::new(&path).unwrap().draft().unwrap();
        write_into(&draft, text);
        draft.keep().unwrap()
    };
    assert_eq!(unfinished("cut"), path, "there was none");
    let second = unfinished("cut again");
    assert_eq!(fs::read_to_string(&path).unwrap(), "cut");
    assert_eq!(fs::read_to_string(&second).unwrap(), "cut again");
    let name = second.file_name().unwrap().to_str().unwrap();
    assert!(
        name.starts_with("out.") && name.ends_with(".partial"),
        "{name}"
    );
    // A dropped draft leaves nothing.
    drop(Replacement::new(&path).unwrap().draft().unwrap());
    assert_eq!(names(&folder).len(), 2);
}

#[test]
fn drafts_whose_writers_are_gone_are_found() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("out");
    let replacement = || Replacement::new(&path).unwrap();
    let living = replacement().draft().unwrap();
    let left = folder.path().join("out.abc123.partial");
    fs::write(&left, "cut").unwrap();
    fs::write(folder.path().join("other.abc123.partial"), "").unwrap();
    assert_eq!(replacement().abandoned(), [left]);
    drop(living);
}

#[test]
fn the_name_of_an_older_output_has_to_be_free() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("out");
    let replacement = || Replacement::new(&path).unwrap();
    replacement().check_old(TEXT).unwrap();
    fs::create_dir(folder.path().join("out.old")).unwrap();
    let error = replacement().check_old(TEXT).unwrap_err();
    assert!(matches!(error, FileError::InTheWay(_)), "{error}");
    // An empty file is not worth keeping, as with perf.
    fs::write(&path, "").unwrap();
    let draft = replacement().draft().unwrap();
    write_into(&draft, "new");
    draft.replace_keeping_old(TEXT).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
}

#[test]
fn only_a_file_of_its_own_kind_gets_out_of_the_way() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let draft = || {
        let draft = Replacement::new(&at("out")).unwrap().draft().unwrap();
        write_into(&draft, "new");
        draft
    };
    // Written by somebody while the draft was.
    let late = draft();
    fs::write(at("out"), [0xff]).unwrap();
    let refusal = |from: Result<(), FileError>| from.unwrap_err().to_string();
    let check = || Replacement::new(&at("out")).unwrap().check_old(TEXT);
    for said in [refusal(check()), refusal(draft().replace_keeping_old(TEXT))] {
        assert!(
            said.ends_with(
                "/out is not a text and is not replaced: name another file, or remove it"
            ),
            "{said}"
        );
    }
    let path = late.path().to_owned();
    refusal(late.replace_keeping_old(TEXT));
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::read(at("out")).unwrap(), [0xff]);
    // Nor is an `.old` replaced that is something else.
    fs::write(at("out"), "older").unwrap();
    fs::write(at("out.old"), [0xff]).unwrap();
    for said in [refusal(check()), refusal(draft().replace_keeping_old(TEXT))] {
        assert!(said.contains("/out.old is in the way"), "{said}");
    }
    assert_eq!(fs::read(at("out.old")).unwrap(), [0xff]);
    assert_eq!(fs::read(at("out")).unwrap(), b"older");
    fs::write(at("out.old"), "oldest").unwrap();
    draft().replace_keeping_old(TEXT).unwrap();
    assert_eq!(fs::read(at("out.old")).unwrap(), b"older");
}

#[test]
fn a_long_name_has_a_draft() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("x".repeat(255));
    write(&path, "text").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "text");
}
