//! Compiles the guest's first processes: small static C programs, because they have to run in a
//! guest that has nothing else.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const AGENT: [&str; 5] = ["main.c", "host.c", "fwcfg.c", "cpio.c", "run.c"];
const PROCESSORS: [&str; 2] = ["processors.c", "host.c"];

fn main() {
    println!("cargo::rerun-if-changed=agent");
    println!("cargo::rerun-if-env-changed=CC");
    compile("agent", &AGENT);
    compile("processors", &PROCESSORS);
}

fn compile(program: &str, sources: &[&str]) {
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let output = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join(program);
    let status = Command::new(&compiler)
        .args([
            "-static",
            "-O2",
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-D_GNU_SOURCE",
        ])
        // The build's directory must not show in them: their hash names the snapshots.
        .args(["-fno-ident", "-Wl,--build-id=none", "-s", "-o"])
        .arg(&output)
        .args(sources.iter().map(|source| format!("agent/{source}")))
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!(
            "the guest's {program} did not compile ({compiler}: {status}): it needs a C compiler for \
             x86-64 Linux with a static C library (Debian: apt-get install gcc libc6-dev)"
        ),
        Err(error) => panic!(
            "the guest's {program} needs a C compiler, but {compiler} cannot be run: {error} \
             (Debian: apt-get install gcc libc6-dev, or set CC)"
        ),
    }
}
