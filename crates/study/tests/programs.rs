//! A program's own code, in what-ifs: it is not the kernel, whether its functions have names or not.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use linemate_layout::{EditSubject, parse_flags};
use linemate_machine::find;
use linemate_recording::Recording;
use linemate_study::costs::{CostRun, costs};
use linemate_study::scene::{Scene, Watch};
use linemate_study::{Conditions, Run, Session, Study, WhatIf};
use linemate_testkit::programs::recording_of;

const SOURCE: &str = "
struct counters { long hits, misses, rest[510]; } counters = { 1, 2, { 0 } };
static long first(int at) { return counters.rest[at] + counters.hits; }
long second(int at) { return counters.misses += first(at); }
int main(int count, char **words) { return (int)second(count) + !words; }
";

/// A recording of a program of which all instructions of its first code page reach its memory; no kernel code does anything.
fn recording() -> Recording {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("a.c"), folder.path().join("a"));
    fs::write(&source, SOURCE).unwrap();
    let made = Command::new("gcc")
        .args(["-g", "-O0", "-o"])
        .args([&program, &source])
        .output();
    assert!(made.unwrap().status.success(), "run `make setup`");
    let bytes = recording_of(&fs::read(&program).unwrap(), &[]).unwrap();
    Recording::from_source(bytes).unwrap()
}

fn conditions() -> Conditions {
    Conditions {
        cold: true,
        ..Conditions::default()
    }
}

fn whatif(session: &Session<'_>) -> WhatIf {
    let subject = EditSubject::Named("counters".into());
    let edits = parse_flags(subject, &["isolate misses".to_owned()]).unwrap();
    let images = BTreeMap::new();
    let study = Study::new(session, &edits, &images, &[]).unwrap();
    let run = Run {
        machine: find("gnr-2s-480").unwrap(),
        conditions: conditions(),
        seed: 1,
        interleavings: 8,
        all_interleavings: false,
        ablate: false,
    };
    study.run(&run).unwrap()
}

#[test]
fn named_functions_of_a_program_are_not_the_kernels() {
    let recording = recording();
    let session = Session::new(&recording).unwrap();
    let watch = Watch::default();
    let scene = Scene::new(&session, &watch).unwrap();
    let names: Vec<&str> = scene.sites.iter().map(|s| s.function.as_str()).collect();
    assert!(
        names.contains(&"second") && names.contains(&"main"),
        "{names:?}"
    );
    assert!(scene.sites.iter().all(|site| site.user), "{names:?}");
    let result = whatif(&session);
    let misses = result.llc_misses;
    assert!(misses.whole.without > 20.0, "{misses:?}");
    let kernel = [
        misses.kernel,
        misses.kernel_loads,
        misses.kernel_stores,
        misses.kernel_rmws,
    ];
    for measure in kernel {
        assert_eq!((measure.without, measure.with), (0.0, 0.0), "{misses:?}");
    }
    let user = misses.user_loads.without;
    assert!(user > 0.0 && user < misses.whole.without, "{misses:?}");
    let of = |name: &str| result.functions.iter().filter(|r| r.name == name).count();
    assert_eq!(of("main"), 1);
}

#[test]
fn functions_of_a_program_add_up_to_the_whole() {
    let recording = recording();
    let session = Session::new(&recording).unwrap();
    let machine = find("gnr-2s-480").unwrap();
    for sources in [false, true] {
        let run = CostRun {
            machine: &machine,
            conditions: conditions(),
            seed: 1,
            sources,
        };
        let costs = costs(&session, None, run).unwrap();
        let whole = &costs.whole;
        let tables = [&costs.types, &costs.fields, &costs.functions];
        let sources = sources.then_some(&costs.sources);
        for rows in tables.into_iter().chain(sources) {
            let sum = linemate_study::costs::Cost::sum(&whole.name, rows);
            assert_eq!(sum, *whole);
        }
    }
}
