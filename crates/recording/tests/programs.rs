//! The programs' files of a recording: what is written is read back, and incomplete files are
//! found.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod made_up;

use std::fs;

use linemate_recording::{
    Error, Metadata, ProgramFile, ProgramFiles, Recording, Writer, code_range, verify,
};
use made_up::Scratch;

/// A program of more than one piece, and its debug information.
fn files() -> (ProgramFiles, Vec<Vec<u8>>) {
    let program: Vec<u8> = (0..20_000_000u32).map(|i| (i >> 7) as u8).collect();
    let debug = b"debug".to_vec();
    let file = |path: &str, debug_of, bytes: &[u8], code| ProgramFile {
        path: path.into(),
        debug_of,
        length: bytes.len() as u64,
        code,
    };
    let code = vec![code_range(&program, 4096..9000)];
    let listed = vec![
        file("/bin/server", None, &program, code),
        file("", Some(0), &debug, Vec::new()),
    ];
    (ProgramFiles::new(listed).unwrap(), vec![program, debug])
}

/// A recording of these files.
fn bytes(files: &ProgramFiles, contents: &[Vec<u8>]) -> Vec<u8> {
    let path = Scratch::new();
    let mut writer = Writer::create(&path.0, "1.0", &Metadata::new()).unwrap();
    let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
    writer.programs(files, &contents).unwrap();
    writer.finish().unwrap();
    fs::read(&path.0).unwrap()
}

#[test]
fn what_is_written_is_read() {
    let (files, contents) = files();
    let bytes = bytes(&files, &contents);
    let found = verify(bytes.clone()).unwrap().findings;
    assert!(!format!("{found:?}").contains("program"), "{found:?}");
    let recording = Recording::from_source(bytes).unwrap();
    assert_eq!(recording.programs(), &files);
    assert!(recording.program_files().unwrap() == contents);
}

#[test]
fn a_file_that_is_not_whole_is_found() {
    let (files, contents) = files();
    // The last file's piece is missing: the writer does not know about it.
    let bytes = bytes(&files, &contents[..1]);
    let found = verify(bytes.clone()).unwrap();
    assert!(format!("{:?}", found.findings).contains("bytes of a program"));
    let recording = Recording::from_source(bytes).unwrap();
    assert!(matches!(
        recording.program_files(),
        Err(Error::Missing { .. })
    ));
}

#[test]
fn a_file_of_another_length_is_not_written() {
    let (files, mut contents) = files();
    contents[1].push(0);
    let path = Scratch::new();
    let mut writer = Writer::create(&path.0, "1.0", &Metadata::new()).unwrap();
    let contents: Vec<&[u8]> = contents.iter().map(Vec::as_slice).collect();
    let error = writer.programs(&files, &contents).unwrap_err();
    assert!(matches!(error, Error::Unwritable { .. }));
}
