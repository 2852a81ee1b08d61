//! A program's own code, in what-ifs: it is not the kernel, whether its functions have names or
//! not.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use linemate_experiment::scene::{Scene, Watch};
use linemate_experiment::{Conditions, Experiment, Seed};
use linemate_layout::parse;
use linemate_machine::find;
use linemate_recording::{Accesses, Recording};
use linemate_session::Session;
use linemate_study::costs::{CostRun, costs};
use linemate_study::{Run, Study};
use linemate_testkit::programs::recording_of;

const SOURCE: &str = "
struct counters { long hits, misses, rest[510]; } counters = { 1, 2, { 0 } };
static long first(int at) { return counters.rest[at] + counters.hits; }
long second(int at) { return counters.misses += first(at); }
int main(int count, char **words) { return (int)second(count) + !words; }
";

/// A recording of a program of which all instructions of its first code page reach its memory; no
/// kernel code does anything.
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
    let machine = find("gnr-2s-480").unwrap();
    let experiment = Experiment::new(&scene, &machine, conditions()).unwrap();
    let outcome = experiment.as_recorded(Seed(1)).unwrap();
    let misses = scene.llc_misses_of_programs(&outcome);
    // All code is the program's, and its first touch of each line misses.
    assert_eq!(misses, outcome.totals.llc_misses[..3]);
    assert!(misses.iter().all(|kind| *kind > Accesses(0)), "{misses:?}");
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
            seed: Seed(1),
            sources,
        };
        let costs = costs(&session, None, run).unwrap();
        let whole = &costs.whole;
        let tables = [&costs.types, &costs.fields, &costs.functions];
        let sources = sources.then_some(&costs.sources);
        for rows in tables.into_iter().chain(sources) {
            let sum = linemate_answers::Cost::sum(&whole.name, rows);
            assert_eq!(sum, *whole);
        }
    }
}

#[test]
fn an_edit_of_memory_that_is_not_there_is_refused() {
    let recording = recording();
    let session = Session::new(&recording).unwrap();
    let images = BTreeMap::new();
    let run = Run {
        machine: find("westmere-4s-80").unwrap(),
        conditions: conditions(),
        seed: Seed(1),
        interleavings: 8,
        all_interleavings: false,
        ablate: false,
    };
    for (edits, why) in [
        (
            "pad ranges of count to line",
            "count to pad; the nearest: counters (program)",
        ),
        ("skip silent stores in count", "count to store in"),
    ] {
        let edits = parse(edits).unwrap();
        let study = Study::new(&session, &edits, &images, &[]).unwrap();
        let refused = study.run(&run).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}
