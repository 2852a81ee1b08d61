//! Inputs: recordings and images are files, texts may come through a pipe.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::thread;

use linemate_files::{read_file, read_text};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::tempdir;

#[test]
fn what_is_not_a_file_is_refused_without_waiting() {
    let folder = tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let refusal = |path: &Path| read_file(path).unwrap_err().to_string();
    assert_eq!(refusal(&pipe), "it is a pipe, not a file");
    assert_eq!(
        refusal(Path::new("/dev/zero")),
        "it is a device, not a file"
    );
    assert_eq!(refusal(folder.path()), "it is a folder, not a file");
}

#[test]
fn a_text_may_come_through_a_pipe_and_is_bounded() {
    let folder = tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let writer = thread::spawn({
        let pipe = pipe.clone();
        move || fs::write(pipe, "isolate a\n").unwrap()
    });
    assert_eq!(read_text(&pipe).unwrap(), "isolate a\n");
    writer.join().unwrap();
    let error = read_text(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(error.contains("more than 16 MiB"), "{error}");
}
