//! The shipped cases are read, and what they name is in the checkout.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use linemate_cases::{KernelSource, parse};

#[test]
fn every_shipped_case_is_in_order() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let series = fs::read_to_string(root.join("scripts/kernels.list")).unwrap();
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join("cases")).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(text) = fs::read_to_string(folder.join("case.toml")) else {
            continue;
        };
        let case = parse(&text).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        assert_eq!(folder.file_name().unwrap(), case.name.as_str());
        for edit in &case.edits {
            for name in edit.measure.iter().chain([&edit.file]) {
                let file = folder.join(name);
                assert!(file.is_file(), "{} is not there", file.display());
            }
        }
        for machine in &case.machines {
            let file = root.join("machines").join(format!("{machine}.toml"));
            assert!(file.is_file(), "{} is not there", file.display());
        }
        if let Some(script) = &case.workload.setup {
            let file = root.join("workloads").join(script);
            assert!(file.is_file(), "{} is not there", file.display());
        }
        let KernelSource::Series(kernel) = &case.kernel else {
            panic!("{}: no series", case.name)
        };
        let listed = |line: &str| line.split_whitespace().next() == Some(kernel);
        assert!(series.lines().any(listed), "{}: {kernel}", case.name);
        assert!(!case.published.is_empty(), "{}", case.name);
        names.push(case.name);
    }
    names.sort();
    assert_eq!(
        names,
        ["cfs-tg-state", "nohz", "root-domain", "rq", "tg-load-avg"]
    );
}
