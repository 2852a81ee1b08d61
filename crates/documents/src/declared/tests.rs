//! A small type with groups, and who uses its members how.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use linemate_answers::{Causes, Cost, Costs, Misplacement};
use linemate_attribution::tally::{Count, CpuSet};
use linemate_recording::AccessKind;
use linemate_testkit::btf_writer::{TypeList, member};
use linemate_types::{ByteOffset, ByteSize, TypeId, TypeModel};

use super::direction::Directions;
use super::gathered::GroupedType;
use super::*;
use crate::report::{Sum, UsedMember};

/// `struct s` with a group of each direction and a member in none, 8 bytes each, and a base with a
/// group.
fn model() -> (TypeModel, TypeId) {
    let mut t = TypeList::default();
    let (byte, long) = (t.unsigned("u8", 1), t.unsigned("long", 8));
    let mark = t.array(byte, 0);
    let begin = |name: &'static str, at| member(name, mark, at);
    let base = t.structure(
        "base",
        8,
        &[
            begin("__cacheline_group_begin__b", 0),
            member("x", long, 0),
            begin("__cacheline_group_end__b", 8),
        ],
    );
    let members = [
        begin("__cacheline_group_begin__read_rx", 0),
        member("r1", long, 0),
        member("r2", long, 8),
        begin("__cacheline_group_end__read_rx", 16),
        begin("__cacheline_group_begin__write_tx", 16),
        member("t1", long, 16),
        member("t2", long, 24),
        begin("__cacheline_group_end__write_tx", 32),
        member("free", long, 32),
        member("base", base, 40),
        member("far", long, 128),
    ];
    let id = t.structure("s", 136, &members);
    (TypeModel::new(t.types, 8).unwrap(), id)
}

/// Function, member, kind, how often.
type Use<'u> = (&'u str, &'u str, AccessKind, u64);

fn declaring(id: TypeId, uses: &[Use<'_>]) -> DeclaringType {
    let places = ["r1", "r2", "t1", "t2", "free", "base"];
    let mut members: BTreeMap<String, UsedMember> = BTreeMap::new();
    for (function, name, kind, count) in uses {
        let at = places.iter().position(|of| of == name);
        let at = at.map_or(128, |number| 8 * number as u64);
        let used = members.entry((*name).to_owned()).or_default();
        (used.offset, used.end) = (ByteOffset(at), ByteOffset(at + 8));
        let count = Count {
            count: *count,
            silent: 0,
            remote: 0,
            handed: 0,
            cpus: CpuSet::default(),
        };
        let sum: &mut Sum = used.by.entry((*function).to_owned()).or_default();
        sum.add(*kind, &count, false);
    }
    let cost = |name: &String| Cost {
        name: format!("s.{name}"),
        cycles: 100,
        causes: Causes {
            false_sharing: 40,
            ..Causes::default()
        },
        ..Cost::default()
    };
    let costs = Costs {
        line_bytes: 64,
        fields: members.keys().map(cost).collect(),
        ..Costs::default()
    };
    let uses = TypeUses {
        name: "s".to_owned(),
        id,
        size: ByteSize(136),
        members,
    };
    DeclaringType { uses, costs }
}

fn findings(uses: &[Use<'_>]) -> Vec<MisplacedMember> {
    let (model, id) = model();
    let of = declaring(id, uses);
    let gathered = [GroupedType::new(&model, &of, &types_with_groups(&model))];
    let directions = Directions::new(&gathered);
    gathered[0].findings(&directions)
}

fn kinds(uses: &[Use<'_>]) -> Vec<(String, Misplacement)> {
    let findings = findings(uses);
    findings
        .into_iter()
        .map(|of| (of.member, of.kind))
        .collect()
}

const LOAD: AccessKind = AccessKind::Load;
const STORE: AccessKind = AccessKind::Store;

#[test]
fn a_read_groups_member_that_is_written_is_found_with_its_part_of_the_lines_false_sharing() {
    let uses = [
        ("receive", "r1", LOAD, 10),
        ("ack", "r1", STORE, 3),
        ("receive", "r2", LOAD, 10),
        ("send", "t1", STORE, 9),
        ("far", "far", LOAD, 1),
    ];
    let found = findings(&uses);
    let written: Vec<_> = found
        .iter()
        .filter(|of| of.kind == Misplacement::Written)
        .collect();
    let [one] = written[..] else {
        panic!("{found:?}")
    };
    assert_eq!(
        (one.member.as_str(), one.group.as_deref()),
        ("r1", Some("read_rx"))
    );
    assert_eq!((one.loads, one.writes, one.cycles), (10, 3, 100));
    // 3 of the line's 12 writes, of 2 x 40 cycles; `far` is on another line.
    assert_eq!((one.neighbours, one.cost()), (20, 120));
    assert_eq!(one.functions[0].name, "receive");
}

#[test]
fn what_is_in_no_group_is_found_but_not_a_base_with_groups_of_its_own() {
    let uses = [
        ("f", "free", LOAD, 5),
        ("g", "base", STORE, 5),
        ("h", "r1", LOAD, 5),
    ];
    assert_eq!(kinds(&uses), [("free".to_owned(), Misplacement::Outside)]);
}

#[test]
fn who_writes_a_quarter_of_the_members_sets_up_objects() {
    let mut uses = vec![("receive", "r1", LOAD, 5), ("receive", "r2", LOAD, 5)];
    uses.extend(["r1", "r2", "t1", "t2"].map(|member| ("memset", member, STORE, 7)));
    assert_eq!(kinds(&uses), []);
    // One member alone says nothing.
    let uses = [("receive", "r1", LOAD, 5), ("set", "r1", STORE, 7)];
    assert_eq!(kinds(&uses), [("r1".to_owned(), Misplacement::Written)]);
}

#[test]
fn a_member_that_the_other_directions_functions_use_is_found() {
    let other = |share| {
        let uses = [
            ("receive", "r1", LOAD, 90),
            ("receive", "r2", LOAD, 90),
            ("receive", "t1", LOAD, share),
            ("send", "t1", LOAD, 10),
            ("send", "t2", LOAD, 90),
        ];
        kinds(&uses)
    };
    assert_eq!(other(11), [("t1".to_owned(), Misplacement::OtherDirection)]);
    assert_eq!(other(9), []);
    // Its own accesses have no vote: a function that uses nothing else is of no direction.
    assert_eq!(kinds(&[("only", "t1", LOAD, 5)]), []);
}
