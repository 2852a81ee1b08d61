//! The layout that another kernel gives a type: synthetic versions of one struct, offset by offset.
//! And what types contain by value.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;

use linemate_layout::foreign::{Match, compare};
use linemate_layout::nesting::{embeds, enclosing};
use linemate_layout::{Plan, parse};
use linemate_testkit::btf_writer::{TypeList, member};
use linemate_types::{ByteOffset, FlatType, LineSize, TypeModel};

/// ```text
/// struct empty { };
/// struct part { u64 x; u32 y; };
/// struct node { u64 a; u32 b; struct empty map; struct part in[3]; u64 mine; u32 grown; u32 shrunk; };
/// ```
fn ours() -> TypeModel {
    let mut t = TypeList::default();
    let u32_ = t.unsigned("unsigned int", 4);
    let u64_ = t.unsigned("unsigned long", 8);
    let empty = t.structure("empty", 0, &[]);
    let part = t.structure("part", 16, &[member("x", u64_, 0), member("y", u32_, 8)]);
    let parts = t.array(part, 3);
    t.structure(
        "node",
        80,
        &[
            member("a", u64_, 0),
            member("b", u32_, 8),
            member("map", empty, 12),
            member("in", parts, 16),
            member("mine", u64_, 64),
            member("grown", u32_, 72),
            member("shrunk", u32_, 76),
        ],
    );
    TypeModel::new(t.types, 8).unwrap()
}

/// ```text
/// struct part { u32 y; u64 x; u64 z; };
/// struct node { u64 theirs; struct part in[2]; u64 grown; u32 b; u16 shrunk; u64 a; };
/// ```
fn theirs() -> TypeModel {
    let mut t = TypeList::default();
    let u16_ = t.unsigned("unsigned short", 2);
    let u32_ = t.unsigned("unsigned int", 4);
    let u64_ = t.unsigned("unsigned long", 8);
    let part = t.structure(
        "part",
        24,
        &[
            member("y", u32_, 0),
            member("x", u64_, 8),
            member("z", u64_, 16),
        ],
    );
    let parts = t.array(part, 2);
    t.structure(
        "node",
        80,
        &[
            member("theirs", u64_, 0),
            member("in", parts, 8),
            member("grown", u64_, 56),
            member("b", u32_, 64),
            member("shrunk", u16_, 68),
            member("a", u64_, 72),
        ],
    );
    TypeModel::new(t.types, 8).unwrap()
}

#[test]
fn fields_of_both_go_where_the_other_has_them() {
    let (ours, images) = (ours(), BTreeMap::from([("other".to_owned(), theirs())]));
    let file = parse("type node\nlayout-from other").unwrap();
    let mut plan = Plan::new(&ours, LineSize::B64, &file, &images).unwrap();
    let layout = plan.layouts.of(ours.lookup("node").unwrap()).unwrap();
    let moved = |at| layout.moved(ByteOffset(at)).map(|to| to.0);
    assert_eq!([0, 8, 72].map(moved), [Some(72), Some(64), Some(56)]);
    // The elements that the other has, and a byte inside of each.
    assert_eq!(
        [16, 24, 32, 40, 43].map(moved),
        [16, 8, 40, 32, 35].map(Some)
    );
    // A field that it lacks, or has with a smaller size, goes after its end, in the old order and
    // with its old alignment.
    assert_eq!([64, 76].map(moved), [80, 92].map(Some));
    assert_eq!((layout.size.0, layout.align.bytes()), (96, 8));
    // An element that it lacks is like padding after those that it has.
    assert_eq!([48, 56].map(moved), [Some(35), Some(35)]);
    let offsets: Vec<Option<u64>> = layout
        .offsets
        .iter()
        .map(|o| o.map(|bit| bit.0 / 8))
        .collect();
    let expected = [
        Some(72),
        Some(64),
        None,
        Some(16),
        Some(80),
        Some(56),
        Some(92),
    ];
    assert_eq!(
        offsets, expected,
        "`map` has no byte that could be anywhere"
    );
}

#[test]
fn the_fields_that_two_kernels_share_are_counted() {
    let (ours, theirs) = (ours(), theirs());
    let names = |list: &[&str]| list.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    let expected = Match {
        common: 6,
        ours: names(&["mine"]),
        theirs: names(&["theirs", "in[].z"]),
    };
    let found = compare(&ours, ours.lookup("node").unwrap(), &theirs).unwrap();
    assert_eq!(found, expected);
    let same = compare(&ours, ours.lookup("node").unwrap(), &ours).unwrap();
    assert_eq!((same.common, same.ours.len(), same.theirs.len()), (7, 0, 0));
}

/// Both of `struct lock { u32 word; struct empty map; }`, one without `map`.
#[test]
fn a_field_without_bytes_takes_no_room() {
    let model = |map: bool| {
        let mut t = TypeList::default();
        let u32_ = t.unsigned("unsigned int", 4);
        let empty = t.structure("empty", 0, &[]);
        let mut members = vec![member("word", u32_, 0)];
        if map {
            members.push(member("map", empty, 4));
        }
        t.structure("lock", 4, &members);
        TypeModel::new(t.types, 8).unwrap()
    };
    let (ours, images) = (
        model(true),
        BTreeMap::from([("other".to_owned(), model(false))]),
    );
    let file = parse("type lock\nlayout-from other").unwrap();
    let mut plan = Plan::new(&ours, LineSize::B64, &file, &images).unwrap();
    let layout = plan.layouts.of(ours.lookup("lock").unwrap()).unwrap();
    assert_eq!((layout.size.0, layout.align.bytes()), (4, 4));
}

#[test]
fn what_is_in_a_type_by_value_is_found_however_deep() {
    let mut t = TypeList::default();
    let u64_ = t.unsigned("unsigned long", 8);
    let leaf = t.structure("leaf", 16, &[member("x", u64_, 0), member("y", u64_, 8)]);
    let leaves = t.array(leaf, 3);
    let branch = t.structure(
        "branch",
        56,
        &[member("a", u64_, 0), member("leaves", leaves, 8)],
    );
    let constant = t.typedef("branch_t", branch);
    let tree = t.structure(
        "tree",
        64,
        &[member("b", u64_, 0), member("branch", constant, 8)],
    );
    let to_leaf = t.pointer(leaf);
    let holder = t.structure("holder", 8, &[member("leaf", to_leaf, 0)]);
    let model = TypeModel::new(t.types, 8).unwrap();
    for outer in [leaf, leaves, branch, tree] {
        assert!(embeds(&model, outer, &[leaf]), "{outer:?}");
    }
    assert!(embeds(&model, tree, &[holder, branch]), "one of several");
    assert!(
        !embeds(&model, holder, &[leaf]),
        "a pointer holds nothing by value"
    );
    assert!(!embeds(&model, leaf, &[branch]));
    // The second byte of `y` in the last leaf of the tree's branch.
    let at = 8 + 8 + 2 * 16 + 9;
    let within = |outer, wanted| {
        let found = enclosing(&model, outer, ByteOffset(at), &|id| id == wanted);
        found.map(|(id, at)| (id, at.0))
    };
    assert_eq!(within(tree, leaf), Some((leaf, 9)));
    assert_eq!(within(tree, branch), Some((branch, at - 8)));
    assert_eq!(within(tree, holder), None);
    let flat = FlatType::new(&model, tree).unwrap();
    assert_eq!(flat.size(), 64);
    assert_eq!(
        enclosing(&model, tree, ByteOffset(0), &|id| id == leaf),
        None,
        "`b` is in no leaf"
    );
}
