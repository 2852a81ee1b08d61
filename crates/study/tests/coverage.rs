//! Which new neighbours a recording exercises: counts of a synthetic recording, by function.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;

use linemate_answers::{FieldFunction, PairFunction, PairUses};
use linemate_experiment::Seed;
use linemate_layout::neighbours::FieldPair;
use linemate_layout::{EditSubject, Plan, parse_flags};
use linemate_recording::{AccessKind, Accesses, Recording};
use linemate_session::Session;
use linemate_study::{CoveredType, FieldUses, Study, field_uses};
use linemate_testkit::world::{F, RQ, UNITS, World};
use linemate_types::LineSize;

const TIMES: u64 = 10;
/// Offsets in `rq`: a field of the first line, one of the second.
const CURR: u64 = 8;
const LOCK: u64 = 72;

/// What a recording does with `rq` under the edit, and by field what it does as recorded.
struct Asked {
    of: CoveredType,
    uses: FieldUses,
    counts: BTreeMap<String, [Accesses; 3]>,
}

fn asked(recording: &Recording, edit: &str, seed: u64) -> Asked {
    let session = Session::new(recording).unwrap();
    let edits = parse_flags(EditSubject::Named("rq".into()), &[edit.to_owned()]).unwrap();
    let images = BTreeMap::new();
    let study = Study::new(&session, &edits, &images, &[]).unwrap();
    let model = session.analysis().model();
    let mut plan = Plan::new(model, LineSize::B64, &edits, &images).unwrap();
    let mut types = CoveredType::all(&mut plan).unwrap();
    let scene = study.scene();
    let mut uses = field_uses(scene, LineSize::B64, Seed(seed), &types).unwrap();
    let mut counts: BTreeMap<String, [Accesses; 3]> = BTreeMap::new();
    for (field, kinds) in scene.counts() {
        let key = &scene.keys[scene.key(field).0 as usize];
        if key.watched.is_some() {
            let sum = counts.entry(key.path.clone()).or_default();
            sum.iter_mut()
                .zip(kinds)
                .for_each(|(sum, part)| *sum += part);
        }
    }
    Asked {
        of: types.remove(0),
        uses: uses.remove(0),
        counts,
    }
}

/// What a recording exercises of a pair that the edit makes.
fn uses(recording: &Recording, edit: &str, names: [&str; 2]) -> PairUses {
    let Asked { of, uses, .. } = asked(recording, edit, 42);
    let of = &of.neighbours;
    let is_pair =
        |pair: &FieldPair| [pair.first, pair.second].map(|leaf| of.flat.names(leaf)) == names;
    let number = of.gained.iter().position(is_pair);
    uses.pairs[number.unwrap()].clone()
}

/// An access in a round of its own, so that nothing depends on when slices start.
fn alone(w: &mut World, cpu: u16, kind: AccessKind, offset: u64, function: F) {
    [0, 1, cpu].into_iter().for_each(|cpu| w.turn(cpu));
    w.access(cpu, kind, UNITS[0] + RQ + offset, 4, function, false);
}

/// CPU 0 reads `curr`, then CPU `writer` writes the lock, in turns.
fn recording(writer: u16, kind: AccessKind) -> Recording {
    let mut w = World::with_chunks_of(64);
    for _ in 0..TIMES {
        alone(&mut w, 0, AccessKind::Load, CURR, F::UpdateRq);
        alone(&mut w, writer, kind, LOCK, F::WakeTask);
    }
    w.record()
}

const EDIT: &str = "move lock after curr";
const PAIR: [&str; 2] = ["curr", "lock"];

fn function(uses: &PairUses, name: &str) -> PairFunction {
    let found = uses.functions.iter().find(|of| of.name == name);
    found.cloned().unwrap_or_default()
}

#[test]
fn a_pair_is_exercised_by_a_cpu_that_reads_what_is_beside_another_ones_writes() {
    let uses = uses(&recording(1, AccessKind::Rmw), EDIT, PAIR);
    assert_eq!((uses.first, uses.second), (TIMES, TIMES));
    // The first load finds no line of this CPU's that it could have lost; the lock is never lost to
    // a load.
    assert_eq!(uses.contended, TIMES - 1);
    assert!(uses.is_exercised());
    let (reader, writer) = (function(&uses, "update_rq"), function(&uses, "wake_task"));
    assert_eq!((reader.first, reader.second), (TIMES, 0));
    assert_eq!((reader.contended, reader.caused), (TIMES - 1, 0));
    assert_eq!((writer.contended, writer.caused), (0, TIMES - 1));
    assert!(reader.is_exercising() && writer.is_exercising());
}

#[test]
fn one_cpu_alone_exercises_nothing() {
    let uses = uses(&recording(0, AccessKind::Rmw), EDIT, PAIR);
    assert_eq!((uses.first, uses.second, uses.contended), (TIMES, TIMES, 0));
    assert!(!uses.is_exercised());
    let reader = function(&uses, "update_rq");
    assert!(uses.is_frequent(&reader) && !reader.is_exercising());
}

#[test]
fn what_two_cpus_only_read_is_not_exercised() {
    let uses = uses(&recording(1, AccessKind::Load), EDIT, PAIR);
    assert_eq!((uses.first, uses.second, uses.contended), (TIMES, TIMES, 0));
}

/// A task that changes its CPU, or a new object at an old address: the other CPU has written both.
#[test]
fn what_moves_together_is_not_contended() {
    let mut w = World::with_chunks_of(64);
    for time in 0..TIMES {
        let cpu = (time % 2) as u16;
        alone(&mut w, cpu, AccessKind::Store, CURR, F::UpdateRq);
        alone(&mut w, cpu, AccessKind::Rmw, LOCK, F::WakeTask);
    }
    let uses = uses(&w.record(), EDIT, PAIR);
    assert_eq!((uses.first, uses.second, uses.contended), (TIMES, TIMES, 0));
}

/// CPU 0 gets the line with its own load of the lock, which is a miss in any layout.
#[test]
fn a_cpu_that_has_just_used_the_neighbour_has_the_line() {
    let mut w = World::with_chunks_of(64);
    for _ in 0..TIMES {
        alone(&mut w, 1, AccessKind::Rmw, LOCK, F::WakeTask);
        alone(&mut w, 0, AccessKind::Load, LOCK, F::UpdateEntity);
        alone(&mut w, 0, AccessKind::Load, CURR, F::UpdateRq);
    }
    let uses = uses(&w.record(), EDIT, PAIR);
    assert_eq!(uses.contended, 0);
    assert_eq!((uses.first, uses.second), (TIMES, 2 * TIMES));
}

/// As in a replay: the slices of a round run side by side, though one CPU was recorded after the
/// other.
#[test]
fn accesses_of_one_round_are_side_by_side() {
    let mut w = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    for _ in 0..TIMES {
        for _ in 0..TIMES {
            w.access(0, AccessKind::Load, rq + CURR, 8, F::UpdateRq, false);
        }
        for _ in 0..TIMES {
            w.access(1, AccessKind::Rmw, rq + LOCK, 4, F::WakeTask, false);
        }
    }
    let recording = w.record();
    let uses = uses(&recording, EDIT, PAIR);
    assert_eq!((uses.first, uses.second), (TIMES * TIMES, TIMES * TIMES));
    // One load of ten comes after a write in the order in which they were recorded.
    assert!(uses.contended > TIMES * TIMES / 2, "{}", uses.contended);
}

#[test]
fn fields_have_the_accesses_that_were_recorded() {
    let Asked { of, uses, counts } = asked(&World::queues(), "move lock first", 42);
    let of = &of.neighbours;
    let sum = |functions: &Vec<FieldFunction>| {
        let part = |of: &dyn Fn(&FieldFunction) -> u64| Accesses(functions.iter().map(of).sum());
        [
            part(&|of| of.loads),
            part(&|of| of.stores),
            part(&|of| of.rmws),
        ]
    };
    let fields = uses.fields.iter();
    let found: BTreeMap<String, _> = fields
        .map(|(leaf, functions)| (of.flat.names(*leaf), sum(functions)))
        .collect();
    let concerned = of.concerned().into_iter();
    let concerned = concerned.map(|leaf| of.flat.names(leaf));
    let recorded = concerned.filter_map(|name| Some((name.clone(), *counts.get(&name)?)));
    assert_eq!(found, recorded.collect());
    assert!(found.len() >= 4, "{found:?}");
}
