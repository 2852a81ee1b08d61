//! Structs of a real kernel: the fast layout equals the layout crate's for any candidate; what has
//! to stay is recognised.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;

use common::Dice;
use linemate_advise::candidate::Candidate;
use linemate_advise::error::AdviseError;
use linemate_advise::shape::{Metrics, StructShape, UnitLayout};
use linemate_layout::{EditSubject, Layouts, Plan, parse, plan};
use linemate_testkit::kernels;
use linemate_types::{LineSize, TypeModel};

/// Structs with bit-fields, forced alignments, anonymous unions, flexible arrays, embedded structs
/// that start lines.
const TYPES: [&str; 12] = [
    "rq",
    "cfs_rq",
    "root_domain",
    "task_group",
    "task_struct",
    "sched_entity",
    "dentry",
    "inode",
    "sock",
    "sk_buff",
    "zone",
    "super_block",
];

fn shape(layouts: &mut Layouts<'_>, name: &str, pins: &[&str]) -> Result<StructShape, AdviseError> {
    let ids = plan::resolve(layouts.model(), &EditSubject::Named(name.into())).unwrap();
    let pins: Vec<String> = pins.iter().map(|p| (*p).to_owned()).collect();
    StructShape::new(layouts, name, &ids, &pins)
}

fn random_candidate(shape: &StructShape, metrics: &Metrics, dice: &mut Dice) -> Candidate {
    let mut candidate = Candidate::original(shape);
    let movable: Vec<usize> = (0..shape.units().len())
        .filter(|u| shape.movable(*u))
        .collect();
    let any = |dice: &mut Dice| movable[dice.below(movable.len() as u64) as usize];
    for _ in 0..dice.below(4) {
        let first = any(dice);
        candidate.take(first);
        candidate.segments.push(vec![first]);
        let segment = candidate.segments.len() - 1;
        for _ in 0..dice.below(6) {
            let unit = any(dice);
            if candidate.rest.contains(&unit) {
                candidate.take(unit);
                candidate.put_into(segment, unit, metrics);
            }
        }
        candidate.open = dice.below(2) == 0;
    }
    for _ in 0..dice.below(4) {
        let unit = any(dice);
        let Some(from) = candidate.rest.iter().position(|u| *u == unit) else {
            continue;
        };
        let to = candidate
            .rest
            .iter()
            .position(|u| *u == any(dice))
            .unwrap_or(from);
        if shape.movable(candidate.rest[to]) && to != candidate.at && from != candidate.at {
            let unit = candidate.rest.remove(from);
            candidate.rest.insert(to, unit);
        }
    }
    candidate
}

fn agrees(model: &TypeModel, name: &str, line: LineSize, dice: &mut Dice) {
    let mut layouts = Layouts::new(model, line);
    let shape = shape(&mut layouts, name, &[]).unwrap();
    let metrics = Metrics::new(&mut layouts, &shape).unwrap();
    let composite = model.composite(shape.id).unwrap();
    for round in 0..12 {
        let candidate = match round {
            0 => Candidate::original(&shape),
            _ => random_candidate(&shape, &metrics, dice),
        };
        let names: Vec<String> = (0..4).map(|i| format!("group_{i}")).collect();
        let subject = EditSubject::Named(name.into());
        let text = candidate.edits(&subject, &shape, &names).to_string();
        let edits = parse(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let images = BTreeMap::new();
        let mut plan =
            Plan::new(model, line, &edits, &images).unwrap_or_else(|e| panic!("{text}: {e}"));
        let layout = plan.layouts.of(shape.id).unwrap();
        let mut placed = UnitLayout::default();
        metrics.place(&candidate.slots(&shape), &mut placed);
        assert_eq!(layout.size, placed.size, "{text}");
        for (number, unit) in shape.units().iter().enumerate() {
            let member = unit.members[0];
            let within = composite.members[member].offset.0 - unit.start.bit().0;
            let expected = placed.start(number).bit().0 + within;
            let found = layout.offsets[member].unwrap().0;
            assert_eq!(
                found, expected,
                "{}: {text}",
                composite.members[member].name
            );
        }
    }
}

#[test]
fn edits_of_kernel_structs_put_members_where_the_search_put_them() {
    let model = kernels::kernel("6.12");
    let mut dice = Dice(6);
    for name in TYPES {
        for line in [LineSize::B64, LineSize::B128] {
            agrees(&model, name, line, &mut dice);
        }
    }
}

#[test]
fn first_members_stay_unless_they_are_locks_counters_or_scalars() {
    let model = kernels::kernel("6.12");
    let mut layouts = Layouts::new(&model, LineSize::B64);
    let mut frozen = |name: &str, pins: &[&str]| shape(&mut layouts, name, pins).unwrap().frozen;
    for name in ["task_struct", "sock", "cfs_rq", "sched_entity"] {
        assert_eq!(frozen(name, &[]), 1, "{name}");
    }
    for name in ["rq", "root_domain", "inode"] {
        assert_eq!(frozen(name, &[]), 0, "{name}");
    }
    assert_eq!(frozen("root_domain", &["rto_count"]), 2);
    let wrong = shape(&mut layouts, "root_domain", &["rto_cuont"]).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "--pin rto_cuont: root_domain has no such member; the nearest: rto_count, dlo_count"
    );
    let union = shape(&mut layouts, "sigval", &[]).unwrap_err();
    assert_eq!(
        union.to_string(),
        "sigval: it is a union: its members overlap and have no order"
    );
}
