//! Programs that tests compile and read.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses a part of it, and fails by panicking"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use linemate_dwarf::{ProgramFiles, ProgramTypes};

pub(crate) mod package;

static FILES: AtomicU32 = AtomicU32::new(0);

/// A compiled program, deleted when dropped.
pub(crate) struct Program {
    pub(crate) path: PathBuf,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A path for a file of this test only.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let name = format!("{name}-{}-{number}", std::process::id());
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The path of a source in `tests/programs`.
pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(name)
}

/// Compiles and links `sources` with `compiler`.
pub(crate) fn compile(compiler: &str, sources: &[&str], flags: &[&str]) -> Program {
    let path = scratch("program");
    run(Command::new(compiler)
        .args(flags)
        .arg("-o")
        .arg(&path)
        .args(sources.iter().map(|name| source(name))));
    Program { path }
}

/// Runs a command that must succeed, and returns its output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?} cannot be run ({e}): run `make setup`"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The types of a program that contains all its debug information.
pub(crate) fn types(path: &Path) -> ProgramTypes {
    let bytes = std::fs::read(path).unwrap();
    let files = ProgramFiles::new(&bytes, None, None).unwrap();
    ProgramTypes::read(&files).unwrap()
}
