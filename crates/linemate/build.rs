//! Compiles the recorder's self-test, a small static C program with known memory accesses, which
//! `linemate doctor` runs in a guest; and makes `LINEMATE_ANALYSIS`, a digest of all that decides
//! what an analysis says: the sources of the crates that analyse, of the verbs that call them, the
//! shipped machines, and the versions of all dependencies. `linemate case run` keeps analyses under
//! it, so that a change of anything else leaves them valid; and `LINEMATE_VERSION`, the version
//! with the commit.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

/// Relative to this crate.
const SOURCES: [&str; 26] = [
    "../answers/src",
    "../attribution/src",
    "../code/src",
    "../dwarf/src",
    "../insn/src",
    "../layout/src",
    "../experiment/src",
    "../growth/src",
    "../session/src",
    "../study/src",
    "../machine/src",
    "../recording/src",
    "../programs/src",
    "../replay/src",
    "../documents/src",
    "../remedies/src",
    "../report/src",
    "../stats/src",
    "../text/src",
    "../types/src",
    "../units/src",
    "../../machines",
    "../../Cargo.lock",
    "src/question.rs",
    "src/question",
    "src/verbs",
];

fn main() -> io::Result<()> {
    compile_selftest();
    println!(
        "cargo::rustc-env=LINEMATE_ANALYSIS={}",
        digest_of_analysis()?
    );
    println!("cargo::rustc-env=LINEMATE_VERSION={}", version());
    Ok(())
}

/// The package's version; in a release build with the commit, if that is known. Others leave it
/// out, because each commit would link every test again.
fn version() -> String {
    let version = env::var("CARGO_PKG_VERSION").expect("cargo sets CARGO_PKG_VERSION");
    let commit = match env::var("PROFILE").as_deref() {
        Ok("release") => commit(),
        _ => None,
    };
    match commit {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    }
}

/// Twelve digits: of the source archive, where git has filled in `COMMIT`, else of the checkout.
fn commit() -> Option<String> {
    const DIGITS: usize = 12;
    println!("cargo::rerun-if-changed=../../COMMIT");
    let archived = fs::read_to_string("../../COMMIT").unwrap_or_default();
    if archived
        .bytes()
        .take(DIGITS)
        .all(|digit| digit.is_ascii_hexdigit())
    {
        return archived.get(..DIGITS).map(str::to_owned);
    }
    // Another project's repository around this tree has no commit of it.
    if !Path::new("../../.git").exists() {
        return None;
    }
    // It grows with each commit. Where it is missing, before the first commit and in a worktree,
    // to name it would make cargo run this in every build.
    let log = "../../.git/logs/HEAD";
    if Path::new(log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    let parsed = Command::new("git")
        .args(["rev-parse", &format!("--short={DIGITS}"), "HEAD"])
        .output();
    let parsed = parsed.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&parsed.stdout).trim().to_owned())
}

fn compile_selftest() {
    println!("cargo::rerun-if-changed=selftest");
    println!("cargo::rerun-if-env-changed=CC");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let status = Command::new(&compiler)
        .args([
            "-static",
            "-fno-pie",
            "-no-pie",
            "-O2",
            "-std=gnu11",
            "-D_GNU_SOURCE",
        ])
        .args([
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wl,--build-id=none",
            "-s",
            "-o",
        ])
        .arg(folder.join("selftest"))
        .arg("selftest/selftest.c")
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!(
            "the self-test did not compile ({compiler}: {status}); it needs a C compiler for x86-64 \
             Linux with a static C library (Debian: apt-get install gcc libc6-dev)"
        ),
        Err(error) => panic!(
            "the self-test needs a C compiler, but {compiler} cannot be run: {error} \
             (Debian: apt-get install gcc libc6-dev, or set CC)"
        ),
    }
}

fn digest_of_analysis() -> io::Result<String> {
    let mut files = Vec::new();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
        collect(Path::new(source), &mut files)?;
    }
    files.retain(|file| !file.starts_with("src/verbs") || is_analysis(file));
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        let content = fs::read(&file)?;
        let head = format!("{} {}\n", file.display(), content.len());
        hash.update(head);
        hash.update(content);
    }
    Ok(format!("{:x}", hash.finalize()))
}

/// The verbs whose output a case keeps.
fn is_analysis(file: &Path) -> bool {
    let below = file.strip_prefix("src/verbs").unwrap_or(file);
    below.starts_with("report") || below.starts_with("report.rs") || below.starts_with("whatif.rs")
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        collect(&entry?.path(), files)?;
    }
    Ok(())
}
