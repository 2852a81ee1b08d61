//! The shipped cases are read, and what they name is in the checkout.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use linemate_cases::{KernelSource, parse};

/// The folders below that hold a case, and cases of which others are variants.
fn folders(of: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(of).unwrap() {
        let folder = entry.unwrap().path();
        if folder.join("case.toml").is_file() {
            found.push(folder.clone());
        }
        if folder.is_dir() {
            folders(&folder, found);
        }
    }
}

#[test]
fn every_shipped_case_is_in_order() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let series = fs::read_to_string(root.join("scripts/kernels.list")).unwrap();
    let cases = root.join("cases");
    let mut found = Vec::new();
    folders(&cases, &mut found);
    let mut names = Vec::new();
    for folder in found {
        let text = fs::read_to_string(folder.join("case.toml")).unwrap();
        let case = parse(&text).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        // A variant is called after the case whose folder it is in.
        let place = folder.strip_prefix(&cases).unwrap().to_str().unwrap();
        assert_eq!(place.replace('/', "-"), case.name);
        let edits = case.edits.iter();
        let of_edits = edits.flat_map(|edit| {
            let files = edit.measure.iter().chain([&edit.file]);
            files.chain(&edit.patches)
        });
        let of_builds = case.build.iter().flat_map(|build| &build.config);
        let of_checks = case.checks.iter().flat_map(|check| {
            let program = check.command.iter().take(1);
            program.chain(&check.config)
        });
        for name in of_edits.chain(of_builds).chain(of_checks) {
            let file = folder.join(name);
            assert!(file.is_file(), "{} is not there", file.display());
        }
        for machine in &case.machines {
            let file = root.join("machines").join(format!("{machine}.toml"));
            assert!(file.is_file(), "{} is not there", file.display());
        }
        if let Some(script) = &case.workload.setup {
            let places = [folder.join(script), root.join("workloads").join(script)];
            let there = places.iter().any(|file| file.is_file());
            assert!(there, "{}: there is no {script}", case.name);
        }
        if let KernelSource::Series(kernel) = &case.kernel {
            let listed = |line: &str| line.split_whitespace().next() == Some(kernel);
            assert!(series.lines().any(listed), "{}: {kernel}", case.name);
        }
        // What is in `next` is compared with nobody's figures.
        let is_finding = place.starts_with("next/");
        assert_eq!(case.published.is_empty(), is_finding, "{}", case.name);
        names.push(case.name);
    }
    names.sort();
    assert_eq!(
        names,
        [
            "cfs-tg-state",
            "cfs-tg-state-depth3-width10",
            "cfs-tg-state-depth3-width10-amd",
            "cfs-tg-state-depth3-width10-random",
            "cfs-tg-state-depth5-width4",
            "cfs-tg-state-depth5-width4-amd",
            "cfs-tg-state-no-quota",
            "cfs-tg-state-schbench",
            "cfs-tg-state-schbench-amd",
            "cfs-tg-state-servers-16",
            "cfs-tg-state-servers-256",
            "next-cred",
            "next-cred-apart",
            "next-css-set",
            "next-dst-entry",
            "next-io-worker",
            "next-mm",
            "next-mm-sockets",
            "next-sighand",
            "next-super-block",
            "next-task",
            "next-tcp-sock",
            "next-together",
            "next-together-exec",
            "next-together-fork",
            "next-together-map",
            "next-together-procs",
            "next-together-switch",
            "next-together-threads-30",
            "next-together-threads-4",
            "next-together-threads-8",
            "next-together-unlink",
            "next-vm-area",
            "next-vm-area-halves",
            "nohz",
            "nohz-nr-cpus-256",
            "root-domain",
            "root-domain-pi_stress",
            "root-domain-stress-ng",
            "root-domain-transcode",
            "rq",
            "rq-hackbench",
            "tg-load-avg",
        ]
    );
}
