//! Alignments that belong to a struct type: distinguished from those of single members, and moved
//! with members.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;

use linemate_layout::{Plan, parse};
use linemate_testkit::btf_writer::{TypeList, member};
use linemate_types::{LineSize, TypeModel};

/// ```text
/// struct avg { u64 x[8]; } aligned(64);
/// struct entity { u64 a; struct avg avg; }               a hole of 56 shows it
/// struct rq { u64 lock[8]; struct avg avg; u64 end; }    nothing shows it here
/// ```
/// With `other`, a third struct has an `avg` there and that size.
fn model(other: Option<(u64, u32)>) -> TypeModel {
    let mut t = TypeList::default();
    let u64_ = t.unsigned("unsigned long", 8);
    let eight = t.array(u64_, 8);
    let avg = t.structure("avg", 64, &[member("x", eight, 0)]);
    t.structure(
        "entity",
        128,
        &[member("a", u64_, 0), member("avg", avg, 64)],
    );
    let members = [
        member("lock", eight, 0),
        member("avg", avg, 64),
        member("end", u64_, 128),
    ];
    t.structure("rq", 192, &members);
    if let Some((at, size)) = other {
        t.structure(
            "other",
            size,
            &[member("b", u64_, 0), member("avg", avg, at)],
        );
    }
    TypeModel::new(t.types, 8).unwrap()
}

/// Something in `rq` starts a line, because its size says so: the edit says that it is not the
/// member `avg`.
fn moved(model: &TypeModel) -> (Vec<u64>, u64) {
    let file = parse("type rq\nmove end first\nalign avg 8").unwrap();
    let mut plan = Plan::new(model, LineSize::B64, &file, &BTreeMap::new()).unwrap();
    let layout = plan.layouts.of(model.struct_named("rq").unwrap()).unwrap();
    let offsets = layout.offsets.iter().map(|o| o.unwrap().0 / 8).collect();
    (offsets, layout.size.0)
}

#[test]
fn a_types_own_alignment_goes_along() {
    assert_eq!(moved(&model(None)), (vec![8, 128, 0], 192));
    assert_eq!(moved(&model(Some((64, 192)))), (vec![8, 128, 0], 192));
}

#[test]
fn one_place_that_contradicts_makes_it_the_members() {
    // With such an alignment, `avg` could not be in the middle of a line, nor its struct end there.
    for place in [(8, 72), (8, 128), (64, 136)] {
        // `lock` 8, `avg` directly after at 72; the struct itself is still aligned to 64.
        assert_eq!(
            moved(&model(Some(place))),
            (vec![8, 72, 0], 192),
            "{place:?}"
        );
    }
}
