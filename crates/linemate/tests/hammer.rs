//! `workloads/hammer.c`: each of its operations runs on this computer, as threads and as processes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn compiled(folder: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = folder.join("hammer");
    let output = Command::new("cc")
        .args(["-std=gnu11", "-O2", "-pthread", "-o"])
        .arg(&program)
        .arg(root.join("workloads/hammer.c"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    program
}

fn run(program: &Path, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().unwrap()
}

#[test]
fn every_operation_runs() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path());
    let refused = text(&run(&program, &["-o", "nothing"]).stderr);
    let (_, names) = refused.trim_end().split_once("give one of ").unwrap();
    assert!(names.split(' ').count() > 20, "{names}");
    for name in names.split(' ') {
        for how in [&[][..], &["-p"]] {
            let few = [&["-o", name, "-w", "2", "-l", "10"][..], how].concat();
            let output = run(&program, &few);
            assert!(output.status.success(), "{few:?}: {}", text(&output.stderr));
        }
    }
}
