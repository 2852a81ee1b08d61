//! How many replays memory holds decides how often a recording is read, and nothing else.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;

use linemate_experiment::scene::{Scene, Watch};
use linemate_experiment::variant::Variant;
use linemate_experiment::{Conditions, Experiment, Seed, seeds};
use linemate_layout::{EditSubject, Plan, parse_flags};
use linemate_machine::find;
use linemate_recording::{AccessKind, Recording};
use linemate_replay::Outcome;
use linemate_session::Session;
use linemate_testkit::world::{F, RQ, UNITS, World};

/// Two CPUs with a run queue's lines, of which they keep some; so that interleavings differ.
fn recording() -> Recording {
    let mut w = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    for round in 0..400 {
        let line = rq + 64 * (round % 2);
        w.access(0, AccessKind::Store, line, 4, F::WakeTask, false);
        w.access(1, AccessKind::Load, rq + 8, 8, F::UpdateRq, false);
        w.access(
            (round % 3 == 0).into(),
            AccessKind::Rmw,
            rq + 72,
            4,
            F::WakeTask,
            false,
        );
    }
    w.record()
}

/// Outcomes of three layouts under five interleavings each, with that many bytes for replays.
fn outcomes(recording: &Recording, memory: usize) -> Vec<Vec<Outcome>> {
    let session = Session::new(recording).unwrap();
    let scene = Scene::new(&session, &Watch::default()).unwrap();
    let machine = find("westmere-4s-80").unwrap();
    let images = BTreeMap::new();
    let variant = |edit: &str| {
        let subject = EditSubject::Named("rq".into());
        let edits = parse_flags(subject, &[edit.to_owned()]).unwrap();
        let model = session.analysis().model();
        let mut plan = Plan::new(model, machine.line, &edits, &images).unwrap();
        Variant::new(&mut plan, &scene, Seed(1)).unwrap()
    };
    let edited = ["isolate nr_running", "remove nr_running"].map(variant);
    let recorded = Variant::as_recorded(&scene);
    let experiment = Experiment {
        memory,
        ..Experiment::new(&scene, &machine, Conditions::default()).unwrap()
    };
    let variants = [&recorded, &edited[0], &edited[1]];
    let keep = |_, outcome| outcome;
    let never = |_: &[Outcome], _: &[Outcome], _| false;
    experiment
        .run(&variants, &seeds(Seed(1), 5), keep, never)
        .unwrap()
}

#[test]
fn outcomes_do_not_depend_on_how_many_replays_memory_holds() {
    let recording = recording();
    let all = outcomes(&recording, usize::MAX);
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [5; 3]);
    assert!(all[0] != all[1], "the edit does something");
    assert!(all[0][0] != all[0][1], "and the interleaving");
    let each = bytes_of_one();
    for memory in [0, 2 * each, 3 * each, 5 * each] {
        assert!(outcomes(&recording, memory) == all, "{memory} bytes");
    }
}

/// What one of these replays takes, about: some hundred bytes for each of its few lines, and the
/// caches' arrays.
fn bytes_of_one() -> usize {
    let machine = find("westmere-4s-80").unwrap();
    let lines = |shape: linemate_machine::CacheShape| shape.sets as usize * shape.ways as usize;
    2 * 24 * (lines(machine.l1) + lines(machine.l2))
}
