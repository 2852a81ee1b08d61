//! Two synthetic recordings field by field: counts as recorded, and what they cost on a machine.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use linemate_answers::{DiffFigures, DiffSide};
use linemate_experiment::{Conditions, Seed};
use linemate_layout::EditSubject;
use linemate_machine::{Machine, find};
use linemate_recording::{AccessKind, Recording};
use linemate_session::Session;
use linemate_study::WhatIfError;
use linemate_study::costs::{CostRun, costs};
use linemate_study::diff::{On, fields};
use linemate_testkit::world::{F, NOHZ, RQ, UNITS, World};

const ROUNDS: u64 = 100;

/// CPU 0 writes `nr_running`, then CPU 1 reads both halves of `curr` next to it, each round; one of
/// them uses `nohz`.
fn recording() -> Recording {
    let mut w = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    for _ in 0..ROUNDS {
        w.access(0, AccessKind::Store, rq, 4, F::WakeTask, false);
        w.load(1, rq + 8);
        w.load(1, rq + 12);
        w.rmw(0, rq + 72);
        w.access(1, AccessKind::Load, NOHZ, 8, F::UpdateRq, false);
    }
    w.record()
}

fn machine() -> Machine {
    let mut machine = find("westmere-4s-80").unwrap();
    machine.adjacent_line_pairs = false;
    machine
}

fn of(subject: Option<&str>, machine: Option<&Machine>) -> Result<DiffSide, WhatIfError> {
    let recording = recording();
    let session = Session::new(&recording).unwrap();
    let subject = subject.map(|name| EditSubject::Named(name.to_owned()));
    let on = machine.map(|machine| On {
        machine,
        seed: Seed(1),
        conditions: Conditions::default(),
        under: None,
    });
    fields(&session, subject.as_ref(), on, None)
}

fn touched(loads: u64, stores: u64) -> DiffFigures {
    DiffFigures {
        loads,
        stores,
        ..DiffFigures::default()
    }
}

#[test]
fn without_a_machine_accesses_are_counted_as_recorded() {
    let rq = of(Some("rq"), None).unwrap();
    assert_eq!((rq.bytes, rq.cpus, rq.accesses), (128, 2, 5 * ROUNDS));
    let expected = [
        ("curr", touched(2 * ROUNDS, 0)),
        ("lock", touched(0, ROUNDS)),
        ("nr_running", touched(0, ROUNDS)),
    ];
    let expected = expected.map(|(path, figures)| (path.to_owned(), figures));
    assert_eq!(rq.fields.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn every_field_of_every_type_is_there_once() {
    let all = of(None, None).unwrap();
    assert_eq!(all.bytes, 0);
    let expected = [
        ("nohz.idle_cpus_mask", touched(ROUNDS, 0)),
        ("rq.curr", touched(2 * ROUNDS, 0)),
        ("rq.lock", touched(0, ROUNDS)),
        ("rq.nr_running", touched(0, ROUNDS)),
    ];
    let expected = expected.map(|(path, figures)| (path.to_owned(), figures));
    assert_eq!(all.fields.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn on_a_machine_fields_cost_what_costs_says() {
    let machine = machine();
    let recording = recording();
    let session = Session::new(&recording).unwrap();
    let run = CostRun {
        machine: &machine,
        conditions: Conditions::default(),
        seed: Seed(1),
        sources: false,
    };
    let costs = costs(&session, None, run).unwrap();
    let all = of(None, Some(&machine)).unwrap();
    assert_eq!(all.fields.len(), costs.fields.len());
    for row in &costs.fields {
        let figures = all.fields[&row.name];
        assert_eq!((figures.misses, figures.cycles), (row.misses, row.cycles));
        let sharing = row.causes.true_sharing + row.causes.false_sharing;
        assert_eq!(figures.sharing_cycles, sharing, "{}", row.name);
    }
    // `curr` is lost to the writer next to it in each round, also in the last one before the
    // recording is replayed again.
    let curr = of(Some("rq"), Some(&machine)).unwrap().fields["curr"];
    assert!(curr.misses >= ROUNDS, "{curr:?}");
    assert_eq!(curr.sharing_misses, curr.misses);
    assert!(curr.sharing_cycles > 0 && curr.sharing_cycles == curr.cycles);
    assert_eq!((curr.loads, curr.stores), (2 * ROUNDS, 0));
}

#[test]
fn a_type_that_nothing_touched_is_refused() {
    let refused = of(Some("entity"), None).unwrap_err();
    assert!(matches!(refused, WhatIfError::Absent(name) if name == "entity"));
    let refused = of(Some("rqq"), None).unwrap_err();
    assert!(matches!(refused, WhatIfError::Type { name, .. } if name == "rqq"));
}
