//! How many interleavings a comparison takes for a precision.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use linemate_experiment::scene::{Scene, Watch};
use linemate_experiment::{Conditions, Experiment, INTERLEAVINGS_AT_ONCE, Seed};
use linemate_layout::parse;
use linemate_machine::find;
use linemate_recording::{AccessKind, Recording};
use linemate_session::Session;
use linemate_study::{Effect, Interleavings, Precision, compare};
use linemate_testkit::world::{F, RQ, UNITS, World};

/// CPU 0 writes its `rq`, which CPU 1 reads, at times that differ from round to round: what an edit
/// saves depends on who comes first.
fn recording(rounds: u64) -> Recording {
    let mut w = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    for round in 0..rounds {
        for _ in 0..round * 7 % 5 {
            w.access(0, AccessKind::Rmw, rq + 72, 4, F::WakeTask, false);
        }
        w.access(0, AccessKind::Store, rq, 4, F::WakeTask, false);
        for _ in 0..round * 5 % 7 {
            w.access(1, AccessKind::Load, rq + 8, 8, F::UpdateRq, false);
        }
    }
    w.record()
}

fn effect_of(recording: &Recording, count: usize, until: Option<Precision>) -> Effect {
    let session = Session::new(recording).unwrap();
    let scene = Scene::new(&session, &Watch::default()).unwrap();
    let machine = find("turin-2s").unwrap();
    let experiment = Experiment::new(&scene, &machine, Conditions::default()).unwrap();
    let edits = [parse("type rq\nisolate nr_running\n").unwrap()];
    let interleavings = Interleavings::new(Seed(1), count, until);
    let effects = compare(&experiment, &edits, &interleavings).unwrap();
    effects.into_iter().next().unwrap().unwrap()
}

#[test]
fn a_rough_figure_takes_fewer_interleavings_than_a_narrow_one() {
    let mut between = 0;
    for rounds in 3..30 {
        let recording = recording(rounds);
        let four = effect_of(&recording, INTERLEAVINGS_AT_ONCE, None);
        let known = |times: f64| {
            let measures = [four.types, four.whole];
            measures
                .iter()
                .all(|m| m.ci95 * times <= m.difference.abs() || m.ci95 <= m.without / 1000.0)
        };
        for (precision, times) in [(Precision::NARROW, 4.0), (Precision::ROUGH, 2.0)] {
            let taken = effect_of(&recording, 8, Some(precision)).interleavings;
            let expected = if known(times) { 4 } else { 8 };
            assert_eq!(taken, expected, "{rounds} rounds, {precision:?}");
        }
        between += u32::from(known(2.0) && !known(4.0));
        assert_eq!(effect_of(&recording, 8, None).interleavings, 8);
    }
    assert!(between > 0, "both rules stop at the same recordings");
}
