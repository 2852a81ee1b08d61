//! The fast model: exact cycles of short stories, and layouts that are what the edits say.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;

use common::{Dice, machine, metrics, model, shape};
use linemate_advise::candidate::Candidate;
use linemate_advise::cost::CostModel;
use linemate_advise::shape::{Metrics, StructShape, UnitLayout};
use linemate_advise::trace::{Event, Kind, ObjectTrace, Trace};
use linemate_layout::{EditSubject, Plan, parse};
use linemate_machine::Machine;
use linemate_types::{ByteSize, LineSize, TypeModel};

const R: Kind = Kind::Load;
const W: Kind = Kind::Store;

/// Two CPUs, one event in each round unless told otherwise.
fn story(events: &[(u32, u8, u16, Kind)]) -> Trace {
    let event = |&(round, cpu, atom, kind): &(u32, u8, u16, Kind)| Event {
        round,
        at: 0,
        atom,
        cpu,
        kind,
    };
    let events = events.iter().map(event).collect();
    Trace {
        objects: vec![ObjectTrace { residue: 0, events }],
        cpus: 2,
        ..Trace::default()
    }
}

fn plain(name: &str) -> Machine {
    let mut machine = machine(name);
    machine.adjacent_line_pairs = false;
    machine
}

/// The cost of m0 and m1 on one line, and on two.
fn costs(events: &[(u32, u8, u16, Kind)], machine: &Machine) -> (u64, u64) {
    let types = model(&[8, 8]);
    let shape = shape(&types);
    let trace = story(events);
    let metrics = metrics(&types, &shape, LineSize::B64);
    let model = CostModel::new(&trace, machine, metrics, &shape).unwrap();
    let at = |second: u32| UnitLayout {
        starts: vec![0, second],
        size: ByteSize(256),
        align: LineSize::B64.into(),
    };
    (model.cost(&shape, &at(8)), model.cost(&shape, &at(64)))
}

#[test]
fn a_line_costs_what_replay_says_it_costs() {
    let machine = plain("westmere-4s-80");
    let l = machine.latency;
    // Two CPUs of a recording sit on different sockets. A story begins with the lines as it leaves them.
    let far = u64::from(l.hitm_other_socket);
    let one = |events: &[(u32, u8, u16, Kind)]| costs(events, &machine).0;
    assert_eq!(one(&[(0, 0, 0, R)]), 0);
    assert_eq!(
        one(&[(0, 0, 0, R), (1, 0, 0, W)]),
        0,
        "exclusive: nobody is told"
    );
    assert_eq!(one(&[(0, 0, 0, R), (1, 1, 0, R)]), 0, "both have it");
    assert_eq!(
        one(&[(0, 0, 0, W), (1, 1, 0, R)]),
        2 * far,
        "taken from the reader by an upgrade, then fetched from afar"
    );
    assert_eq!(
        one(&[(0, 0, 0, W), (1, 1, 0, R), (2, 0, 0, W)]),
        2 * far,
        "its own at the beginning, fetched from afar, then taken back"
    );
    assert_eq!(
        one(&[(0, 0, 0, W), (1, 1, 0, W), (2, 0, 0, R), (3, 0, 0, R)]),
        3 * far
    );
    let atomic = u64::from(l.atomic);
    assert_eq!(one(&[(0, 0, 0, Kind::Rmw), (1, 1, 0, R)]), 2 * far + atomic);
}

#[test]
fn false_sharing_ends_and_fetching_together_is_lost_on_two_lines() {
    let machine = plain("westmere-4s-80");
    let l = machine.latency;
    let far = u64::from(l.hitm_other_socket);
    // CPU 0 writes m0, CPU 1 reads m1.
    let apart = [(0, 0, 0, W), (1, 1, 1, R), (2, 0, 0, W), (3, 1, 1, R)];
    assert_eq!(costs(&apart, &machine), (4 * far, 0));
    // CPU 0 writes both, CPU 1 reads both.
    let together = [(0, 0, 0, W), (0, 0, 1, W), (1, 1, 0, R), (1, 1, 1, R)];
    assert_eq!(costs(&together, &machine), (2 * far, 4 * far));
}

#[test]
fn a_line_is_a_server() {
    let machine = plain("westmere-4s-80");
    let l = machine.latency;
    let far = u64::from(l.hitm_other_socket);
    // Both write in one round, at the same time: the second waits for the first, which fetches what the second had.
    let race = [(0, 0, 0, W), (0, 1, 0, W)];
    assert_eq!(costs(&race, &machine).0, far + far + far);
}

#[test]
fn pairs_of_lines_are_fetched_together() {
    let mut machine = plain("westmere-4s-80");
    let far = u64::from(machine.latency.hitm_other_socket);
    // CPU 0 writes both, CPU 1 reads both.
    let both = [(0, 0, 0, W), (0, 0, 1, W), (1, 1, 0, R), (2, 1, 1, R)];
    assert_eq!(costs(&both, &machine), (2 * far, 4 * far));
    machine.adjacent_line_pairs = true;
    assert_eq!(costs(&both, &machine), (2 * far, 3 * far));
}

/// A random layout, in the form that the search makes.
fn random_candidate(shape: &StructShape, metrics: &Metrics, dice: &mut Dice) -> Candidate {
    let mut candidate = Candidate::original(shape);
    let count = shape.units().len() as u64;
    candidate.at = dice.below(count / 2) as usize;
    for _ in 0..dice.below(4) {
        let unit = dice.below(count) as usize;
        candidate.take(unit);
        candidate.segments.push(vec![unit]);
        let segment = candidate.segments.len() - 1;
        for _ in 0..dice.below(3) {
            let unit = dice.below(count) as usize;
            if candidate.rest.contains(&unit) {
                candidate.take(unit);
                candidate.put_into(segment, unit, metrics);
            }
        }
        candidate.open = dice.below(2) == 0;
    }
    for _ in 0..dice.below(4) {
        let (from, to) = (
            dice.below(candidate.rest.len() as u64) as usize,
            dice.below(candidate.rest.len() as u64) as usize,
        );
        let unit = candidate.rest.remove(from);
        candidate.rest.insert(to, unit);
    }
    candidate
}

fn edits_do_what_the_candidate_says(types: &TypeModel, dice: &mut Dice) {
    let shape = shape(types);
    for line in [LineSize::B64, LineSize::B128] {
        let metrics = metrics(types, &shape, line);
        let candidate = random_candidate(&shape, &metrics, dice);
        let names: Vec<String> = (0..4).map(|i| format!("group_{i}")).collect();
        let subject = EditSubject::Named("s".into());
        let text = candidate.edits(&subject, &shape, &names).to_string();
        let mut placed = UnitLayout::default();
        metrics.place(&candidate.slots(&shape), &mut placed);
        let edits = parse(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let images = BTreeMap::new();
        let mut plan =
            Plan::new(types, line, &edits, &images).unwrap_or_else(|e| panic!("{text}: {e}"));
        let layout = plan.layouts.of(shape.id).unwrap();
        let starts: Vec<u32> = layout
            .offsets
            .iter()
            .map(|bit| (bit.unwrap().0 / 8) as u32)
            .collect();
        assert_eq!(starts, placed.starts, "{text}{candidate:?}");
        assert_eq!(layout.size, placed.size, "{text}");
    }
}

#[test]
fn edits_put_members_where_the_search_put_them() {
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let sizes: Vec<u32> = (0..6 + dice.below(12))
            .map(|_| [1, 2, 4, 8, 16, 40][dice.below(6) as usize])
            .collect();
        edits_do_what_the_candidate_says(&model(&sizes), &mut dice);
    }
}
