//! A type's fields with their places, touched or not, and under edits.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use linemate_answers::{By, FieldMap, View};
use linemate_attribution::Analysis;
use linemate_documents::{ReportOptions, layout_changes, report_document};
use linemate_layout::{Plan, parse};
use linemate_testkit::world::{RQ, UNITS, World};
use linemate_types::LineSize;

/// Paths and offsets.
fn places(map: &FieldMap) -> Vec<(&str, u64)> {
    map.fields
        .iter()
        .map(|field| (field.path.as_str(), field.offset))
        .collect()
}

const RQ_FIELDS: [(&str, u64); 6] = [
    ("nr_running", 0),
    ("curr", 8),
    ("clock", 64),
    ("lock", 72),
    ("stats", 80),
    ("first", 88),
];

#[test]
fn a_type_has_all_its_fields_touched_or_not() {
    let mut w = World::new();
    w.store(0, UNITS[0] + RQ);
    let recording = w.record();
    let analysis = Analysis::new(&recording).unwrap();
    let counted = analysis.count().unwrap();
    let options = ReportOptions {
        by: By::Type,
        type_name: Some("rq".to_owned()),
        all: true,
        top: 1,
        line: LineSize::B64,
    };
    let View::Type(view) = report_document(&analysis, &counted, &options).unwrap().view else {
        panic!("a type was asked for")
    };
    assert_eq!(view.fields.len(), 1);
    assert_eq!(view.layout.size, 128);
    assert_eq!(places(&view.layout), RQ_FIELDS);
}

#[test]
fn an_edited_type_is_there_before_and_after() {
    let mut w = World::new();
    w.store(0, UNITS[0] + RQ);
    let recording = w.record();
    let analysis = Analysis::new(&recording).unwrap();
    let edits = parse("type rq\nmove clock first\n").unwrap();
    let images = BTreeMap::new();
    let mut plan = Plan::new(analysis.model(), LineSize::B64, &edits, &images).unwrap();
    let changes = layout_changes(&mut plan, LineSize::B64).unwrap();
    let [change] = changes.as_slice() else {
        panic!("one type is edited: {changes:?}")
    };
    assert_eq!((change.type_name.as_str(), change.line_bytes), ("rq", 64));
    assert_eq!(places(&change.before), RQ_FIELDS);
    let after: BTreeMap<&str, u64> = places(&change.after).into_iter().collect();
    assert_eq!(after["clock"], 0);
    assert_eq!(after["nr_running"], 8);
    assert_eq!(after.len(), RQ_FIELDS.len());
}
