//! The shipped cases are read, and what they name is in the checkout.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
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
    let mut listed = BTreeSet::new();
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
            let of_kernel = |line: &str| line.split_whitespace().next() == Some(kernel);
            assert!(series.lines().any(of_kernel), "{}: {kernel}", case.name);
        }
        // What is in `next` is compared with nobody's figures.
        let is_finding = place.starts_with("next/");
        assert_eq!(case.published.is_empty(), is_finding, "{}", case.name);
        listed.insert(place.to_owned());
    }
    // Each table links the cases of its folder, and no other.
    for table in ["", "next/"] {
        let readme = fs::read_to_string(cases.join(table).join("README.md")).unwrap();
        let linked: BTreeSet<String> = readme
            .split("](")
            .filter_map(|rest| {
                let (folder, file) = rest.split_once(')')?.0.split_once('/')?;
                let is_case = matches!(file, "README.md" | "case.toml") && folder != "next";
                is_case.then(|| format!("{table}{folder}"))
            })
            .collect();
        let is_here = |place: &&String| {
            let name = place.strip_prefix(table);
            name.is_some_and(|name| !name.contains('/'))
        };
        let here: BTreeSet<String> = listed.iter().filter(is_here).cloned().collect();
        assert!(here.len() > 4, "cases/{table}: {here:?}");
        assert_eq!(linked, here, "cases/{table}README.md");
    }
}
