//! Compiles the recorder's self-test: a small static C program with known memory accesses, which `linemate doctor` runs in
//! a guest.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
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
