//! The layouts of real kernels: every type is laid out again as it was, and the published edits
//! give the published layouts.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;

use linemate_layout::origin::{OriginError, Unit, UnitKind};
use linemate_layout::{Edit, Layout, Layouts, Plan, Position, Statement, parse};
use linemate_testkit::kernels;
use linemate_types::{
    BitOffset, ByteOffset, ByteSize, Composite, CompositeKind, FlatType, Leaf, LineSize, Member,
    Type, TypeModel,
};

/// How a kernel's structs and unions come out.
#[derive(Debug, Default, PartialEq)]
struct Census {
    structs: usize,
    unions: usize,
    /// Reproduced without anything inferred: the rules of C alone.
    plain: usize,
    /// Reproduced with a requested alignment.
    aligned: usize,
    packed: usize,
    /// Reproduced with bytes that no alignment explains.
    nameless: usize,
    bit_fields: usize,
    flexible: usize,
    /// Not laid out again: members that overlap.
    overlapping: usize,
}

fn census(model: &TypeModel) -> Census {
    let mut layouts = Layouts::new(model, LineSize::B64);
    let mut census = Census::default();
    for (id, t) in model.iter() {
        let Type::Composite(composite) = t else {
            continue;
        };
        match composite.kind {
            CompositeKind::Struct => census.structs += 1,
            CompositeKind::Union => census.unions += 1,
        }
        let origin = match layouts.origin(id) {
            Ok(origin) => origin,
            Err(OriginError::Overlap { .. }) => {
                census.overlapping += 1;
                continue;
            }
            Err(other) => panic!("{other}"),
        };
        let layout = layouts.of(id).unwrap();
        let offsets: Vec<Option<BitOffset>> =
            composite.members.iter().map(|m| Some(m.offset)).collect();
        assert_eq!(layout.offsets, offsets, "{} {id}", &*composite.name);
        assert_eq!(
            layout.size.0,
            u64::from(composite.size),
            "{} {id}",
            &*composite.name
        );
        assert_eq!(layout.map, None, "{} {id}", &*composite.name);
        let aligned = origin.forced.is_some() || origin.units.iter().any(|u| u.forced.is_some());
        let nameless =
            origin.tail > ByteSize::ZERO || origin.units.iter().any(|u| u.gap > ByteSize::ZERO);
        census.aligned += usize::from(aligned);
        census.nameless += usize::from(nameless);
        census.packed += usize::from(origin.packed);
        census.plain += usize::from(!aligned && !nameless && !origin.packed);
        let has = |kind| usize::from(origin.units.iter().any(|u| u.kind == kind));
        census.bit_fields += has(UnitKind::BitFields);
        census.flexible += has(UnitKind::Flexible);
    }
    census
}

#[test]
fn a_no_op_reproduces_every_type_of_both_kernels() {
    for release in ["6.1.", "6.12."] {
        let census = census(&kernels::kernel(release));
        eprintln!("{release}: {census:?}");
        assert!(census.structs > 7000, "{census:?}");
        assert_eq!(census.overlapping, 0, "{census:?}");
    }
}

/// The members of a layout as (start, end) in bits, after checking that none overlaps another.
fn assert_sound(model: &TypeModel, layout: &Layout, composite: &Composite) {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for (member, offset) in composite.members.iter().zip(&layout.offsets) {
        let start = offset.expect("every member once").0;
        let bits = match member.bits {
            Some(bits) => u64::from(bits),
            None => 8 * model.size_of(member.type_id).unwrap_or(0),
        };
        spans.push((start, start + bits));
    }
    spans.sort_unstable();
    for pair in spans.windows(2) {
        assert!(
            pair[0].1 <= pair[1].0,
            "{}: {pair:?} overlap",
            &*composite.name
        );
    }
    assert!(
        spans
            .iter()
            .all(|(_, end)| *end <= layout.size.end().bit().0),
        "{}",
        &*composite.name
    );
    assert!(layout.size.is_aligned(layout.align), "{}", &*composite.name);
}

#[test]
fn any_order_of_members_is_sound_for_every_type() {
    let model = kernels::kernel("6.12.");
    let mut laid_out = 0;
    for (id, t) in model.iter() {
        let Type::Composite(composite) = t else {
            continue;
        };
        // The last member may be a flexible array; unions have no order.
        if composite.kind == CompositeKind::Union || composite.members.len() < 3 {
            continue;
        }
        let name = |m: &Member| m.name.to_string();
        let last = composite.members.len() - 1;
        let movable = composite.members[..last]
            .iter()
            .filter(|m| m.bits.is_none());
        let mut fields: Vec<String> = movable.map(name).filter(|n| !n.is_empty()).collect();
        fields.reverse();
        fields.dedup();
        let order = Edit::Order(fields.clone());
        let edits = match fields.first() {
            Some(field) => vec![Edit::Isolate(vec![field.clone()]), order],
            None => continue,
        };
        let statements = edits.into_iter().map(|edit| Statement {
            edit,
            at: Position::default(),
        });
        let mut layouts = Layouts::new(&model, LineSize::B64);
        let statements: Vec<Statement> = statements.collect();
        for chosen in [&statements[1..], &statements[..1]] {
            // Some are refused (a name that two members share): then nothing must have changed.
            if layouts.edit(id, chosen).is_ok() {
                laid_out += 1;
                let layout = layouts.of(id).unwrap();
                assert_sound(&model, &layout, composite);
                for unit in layouts
                    .origin(id)
                    .unwrap()
                    .units
                    .iter()
                    .filter(|u| u.members.len() == 1)
                {
                    assert_moves_as_one(&layout, composite, unit);
                }
            }
        }
    }
    assert!(laid_out > 12_000, "{laid_out}");
}

/// For a unit's first and last byte, the map agrees with the offsets.
fn assert_moves_as_one(layout: &Layout, composite: &Composite, unit: &Unit) {
    let Some(BitOffset(start)) = layout.offsets[unit.members[0]] else {
        return;
    };
    if unit.bytes > ByteSize::ZERO && unit.kind == UnitKind::Plain {
        for byte in [ByteSize::ZERO, unit.bytes - ByteSize(1)] {
            let moved = layout.moved(unit.start + byte);
            assert_eq!(
                moved,
                Some(ByteOffset(start / 8) + byte),
                "{}",
                &*composite.name
            );
        }
    }
}

fn published(
    release: &str,
    name: &str,
    edits: &str,
    line: LineSize,
) -> (Layout, Vec<(String, u64)>) {
    let model = kernels::kernel(release);
    let file = parse(edits).unwrap();
    let mut plan = Plan::new(&model, line, &file, &BTreeMap::new()).unwrap();
    let id = model.lookup(name).unwrap();
    let layout = plan.layouts.of(id).unwrap();
    let composite = model.composite(id).unwrap();
    let places = composite
        .members
        .iter()
        .zip(&layout.offsets)
        .filter_map(|(m, offset)| {
            let anonymous = model.composite(m.type_id).and_then(|c| c.members.last());
            let name = if m.name.is_empty() {
                &anonymous?.name
            } else {
                &m.name
            };
            Some((name.to_string(), offset.as_ref()?.0 / 8))
        });
    (layout.as_ref().clone(), places.collect())
}

fn place(places: &[(String, u64)], name: &str) -> u64 {
    places
        .iter()
        .find(|(n, _)| n == name)
        .unwrap_or_else(|| panic!("{name}"))
        .1
}

/// The edits of `docs/reference/edits.md`, by the heading they are under.
fn documented(heading: &str) -> String {
    let text = include_str!("../../../docs/reference/edits.md");
    let section = text
        .split(&format!("## {heading}\n"))
        .nth(1)
        .unwrap_or_else(|| panic!("{heading}"));
    section.split("```\n").nth(1).unwrap().to_owned()
}

#[test]
fn the_published_rq_grouping() {
    let edits = documented("`struct rq`: what is read together on one line");
    let (layout, places) = published("6.12.", "rq", &edits, LineSize::B64);
    let hot = [
        "nr_running",
        "nr_numa_running",
        "nr_preferred_running",
        "ttwu_pending",
        "cpu_capacity",
        "curr",
        "idle",
    ];
    let mut at: Vec<u64> = hot.iter().map(|name| place(&places, name)).collect();
    at.sort_unstable();
    assert_eq!(at, [0, 4, 8, 12, 16, 24, 32]);
    assert_eq!(place(&places, "__lock"), 64);
    assert_eq!(place(&places, "nr_switches"), 72);
    let clock = [
        "clock_task",
        "clock_pelt",
        "clock",
        "lost_idle_time",
        "clock_update_flags",
        "clock_pelt_idle",
        "clock_idle",
    ];
    let first = place(&places, "clock_task");
    assert_eq!(first % 64, 0);
    assert!(
        clock
            .iter()
            .all(|name| place(&places, name) / 64 == first / 64),
        "{places:?}"
    );
    let (before, _) = published("6.12.", "rq", "", LineSize::B64);
    assert_eq!(
        (before.size.0, layout.size.0),
        (3456, 3520),
        "what gcc makes of the patched struct: sched_avg starts lines by itself, so the moves cost one here"
    );
}

#[test]
fn the_published_root_domain() {
    let edits = documented("`struct root_domain`: apart what contends");
    let (before, _) = published("6.12.", "root_domain", "", LineSize::B64);
    let (layout, places) = published("6.12.", "root_domain", &edits, LineSize::B64);
    assert_eq!(
        (before.lines(LineSize::B64), layout.lines(LineSize::B64)),
        (29, 31)
    );
    let line = |name| place(&places, name) / 64;
    assert_eq!(
        (
            line("rto_count"),
            line("rto_push_work"),
            line("rto_lock"),
            line("rto_loop_next")
        ),
        (0, 1, 2, 2)
    );
    assert_eq!(place(&places, "cpupri") % 64, 0);
    assert_eq!((line("rto_mask"), line("pd")), (29, 29));
    assert_eq!((line("overloaded"), line("overutilized")), (30, 30));
}

#[test]
fn the_layout_of_another_kernel_is_matched_by_path() {
    let (old, new) = (kernels::kernel("6.1."), kernels::kernel("6.12."));
    let file = parse("type rq\nlayout-from other").unwrap();
    let images = BTreeMap::from([("other".to_owned(), old)]);
    let mut plan = Plan::new(&new, LineSize::B64, &file, &images).unwrap();
    let (id, theirs) = (
        new.lookup("rq").unwrap(),
        images["other"].lookup("rq").unwrap(),
    );
    let layout = plan.layouts.of(id).unwrap();
    let (ours, theirs) = (
        FlatType::new(&new, id).unwrap(),
        FlatType::new(&images["other"], theirs).unwrap(),
    );
    let mut matched = Vec::new();
    let their = |leaf: &Leaf| theirs.leaves().iter().find(|their| their.path == leaf.path);
    for leaf in ours
        .leaves()
        .iter()
        .filter(|leaf| leaf.bits.is_none() && leaf.size > 0)
    {
        if let Some(other) = their(leaf) {
            if other.size == leaf.size {
                matched.push(leaf.offset);
                assert_eq!(
                    layout.moved(leaf.offset),
                    Some(other.offset),
                    "{}",
                    leaf.path
                );
            }
        }
    }
    // Fields that only this one has go after, unless they share their bytes with common ones (donor
    // with curr).
    let only_ours =
        |leaf: &&Leaf| leaf.size > 0 && their(leaf).is_none() && !matched.contains(&leaf.offset);
    for leaf in ours.leaves().iter().filter(only_ours) {
        let moved = layout.moved(leaf.offset);
        assert!(
            moved >= Some(ByteOffset(theirs.size())),
            "{}: {moved:?}",
            leaf.path
        );
    }
    let matched = matched.len();
    assert!(matched > 100, "{matched}");
    // A type that embeds it grows with it; a kernel's own layout changes nothing.
    assert!(layout.size.0 >= theirs.size());
    let same = BTreeMap::from([("other".to_owned(), kernels::kernel("6.12."))]);
    let mut plan = Plan::new(&new, LineSize::B64, &file, &same).unwrap();
    let layout = plan.layouts.of(id).unwrap();
    for leaf in ours.leaves() {
        assert_eq!(
            layout.moved(leaf.offset),
            Some(leaf.offset),
            "{}",
            leaf.path
        );
    }
    assert_eq!(layout.size.0, ours.size());
}
