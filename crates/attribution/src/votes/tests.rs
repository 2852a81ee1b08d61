use super::*;
use crate::schema::tests::{nested, sample, scalar, ty};

const LIST: TypeIndex = TypeIndex(0);
const ENTITY: TypeIndex = TypeIndex(1);
const TASK: TypeIndex = TypeIndex(2);

fn decide(
    votes: &[(u64, TypeIndex, u64)],
    bounds: Bounds,
    hint: Option<&str>,
) -> Vec<(u64, u64, String)> {
    let mut all = Votes::default();
    for &(o, t, w) in votes {
        all.add(o, t, w);
    }
    let schema = sample();
    let decided = all.decide(&schema, bounds, hint.map(Hint::All));
    decided
        .placements
        .iter()
        .map(|p| (p.start, p.size, schema.name(p.ty).to_owned()))
        .collect()
}

#[test]
fn the_outermost_type_wins_however_often_its_members_are_seen() {
    let votes = [(0, TASK, 1), (64, ENTITY, 1000), (80, LIST, 5000)];
    assert_eq!(
        decide(&votes, Bounds::Exact(256), None),
        vec![(0, 256, "task".into())]
    );
    assert_eq!(
        decide(&votes, Bounds::Open, None),
        vec![(0, 256, "task".into())]
    );
}

#[test]
fn a_wrong_sighting_is_outvoted() {
    // The entity at 8 contradicts the entity at 64 in a task; it overlaps the task, so it is
    // dropped.
    let votes = [(0, TASK, 3), (64, ENTITY, 3), (8, ENTITY, 5)];
    assert_eq!(
        decide(&votes, Bounds::Open, None),
        vec![(0, 256, "task".into())]
    );
    // And the other way round: one wrong task over many correct entities.
    let votes = [(0, TASK, 1), (0, ENTITY, 40), (128, ENTITY, 40)];
    assert_eq!(
        decide(&votes, Bounds::Open, None),
        vec![(0, 64, "entity".into()), (128, 64, "entity".into())]
    );
}

#[test]
fn an_exact_fit_beats_a_slightly_more_frequent_misfit() {
    let votes = [(0, ENTITY, 3), (0, TASK, 1)];
    assert_eq!(
        decide(&votes, Bounds::Exact(256), None),
        vec![(0, 256, "task".into())]
    );
    assert_eq!(
        decide(&votes, Bounds::Exact(100), None),
        vec![(0, 64, "entity".into())],
        "a task does not fit in 100 bytes"
    );
}

#[test]
fn an_unsighted_container_is_found_by_size_and_member() {
    assert_eq!(
        decide(&[(64, ENTITY, 2)], Bounds::Exact(256), None),
        vec![(0, 256, "task".into())]
    );
    assert_eq!(
        decide(&[(64, ENTITY, 2)], Bounds::Exact(264), None),
        vec![(64, 64, "entity".into())]
    );
    assert_eq!(
        decide(&[(65, ENTITY, 2)], Bounds::Exact(256), None),
        vec![(65, 64, "entity".into())]
    );
}

#[test]
fn of_several_containers_the_hint_names_one() {
    let with = |name| ty(name, 256, vec![nested("node", 64, 16, 0)]);
    let schema = Schema::new(vec![
        ty("node", 16, vec![]),
        with("tcp_sock"),
        with("raw_sock"),
    ]);
    let mut votes = Votes::default();
    votes.add(64, TypeIndex(0), 2);
    let name = |hint: &str| {
        let decided = votes.decide(&schema, Bounds::Exact(256), Some(Hint::All(hint)));
        schema.name(decided.placements[0].ty).to_owned()
    };
    assert_eq!(name("TCP"), "tcp_sock");
    assert_eq!(name("RAW"), "raw_sock");
    assert_eq!(name("UDP"), "node", "neither");
}

#[test]
fn in_a_slot_only_the_sole_container_of_what_was_seen_is_found() {
    let slot = |size, over| Bounds::Slot { size, over };
    let task = vec![(0, 256, "task".to_owned())];
    let entity = |at| vec![(at, 64, "entity".to_owned())];
    assert_eq!(decide(&[(64, ENTITY, 2)], slot(512, 255), None), task);
    assert_eq!(decide(&[(64, ENTITY, 2)], slot(512, 256), None), entity(64));
    assert_eq!(decide(&[(64, ENTITY, 2)], slot(192, 96), None), entity(64));
    assert_eq!(decide(&[(72, ENTITY, 2)], slot(512, 255), None), entity(72));
    let contradicted = [(64, ENTITY, 2), (136, ENTITY, 1)];
    assert_eq!(
        decide(&contradicted, slot(512, 255), None),
        [entity(64), entity(136)].concat(),
        "a third of the votes speaks against a task"
    );
    let mut votes = Votes::default();
    votes.add(64, TypeIndex(0), 2);
    let node = |name| ty(name, 256, vec![nested("node", 64, 16, 0)]);
    let one = Schema::new(vec![ty("node", 16, vec![]), node("a")]);
    let two = Schema::new(vec![ty("node", 16, vec![]), node("a"), node("b")]);
    let first = |s: &Schema| votes.decide(s, slot(512, 255), None).placements[0].ty;
    assert_eq!(first(&one), TypeIndex(1));
    assert_eq!(first(&two), TypeIndex(0), "two types embed it there");
}

/// 0 node, 1 small (node at 64), 2 large (node at 64), 3 first (node at 0).
fn nodes() -> Schema {
    let with = |name, size, at| ty(name, size, vec![nested("node", at, 16, 0)]);
    Schema::new(vec![
        ty("node", 16, vec![]),
        with("small", 256, 64),
        with("large", 2000, 64),
        with("first", 128, 0),
    ])
}

#[test]
fn a_container_that_is_too_large_for_the_slot_does_not_count() {
    let schema = nodes();
    let first = |at: u64, bounds| {
        let mut votes = Votes::default();
        votes.add(at, TypeIndex(0), 2);
        let placements = votes.decide(&schema, bounds, None).placements;
        schema.name(placements[0].ty).to_owned()
    };
    let slot = |size, over| Bounds::Slot { size, over };
    assert_eq!(first(64, slot(256, 192)), "small");
    assert_eq!(
        first(64, slot(2048, 1024)),
        "node",
        "small with more after it, or large"
    );
    assert_eq!(
        first(0, slot(128, 96)),
        "node",
        "anything can follow a first member"
    );
    let variable = Bounds::Variable { size: 256 };
    assert_eq!(
        first(64, variable),
        "node",
        "a variable's size is not known well enough"
    );
}

#[test]
fn a_variable_has_the_sole_container_of_what_was_seen() {
    let twice = vec![nested("now", 64, 16, 0), nested("next", 128, 16, 0)];
    let schema = Schema::new(vec![ty("node", 16, vec![]), ty("pair", 256, twice)]);
    let first = |at: u64, size| {
        let mut votes = Votes::default();
        votes.add(at, TypeIndex(0), 2);
        let placements = votes
            .decide(&schema, Bounds::Variable { size }, None)
            .placements;
        schema.name(placements[0].ty).to_owned()
    };
    assert_eq!(first(64, 256), "pair");
    assert_eq!(first(128, 300), "pair", "and some padding");
    assert_eq!(first(72, 256), "node");
    assert_eq!(first(64, 320), "node", "a line of padding is too much");
}

#[test]
fn a_tail_that_is_longer_in_its_type_than_in_the_object_is_named() {
    // 0 body of 96 bytes, 1 state of 4096, 2 header of 16 in it, 3 other.
    let schema = Schema::new(vec![
        ty("body", 96, vec![scalar("a", 0, 8)]),
        ty("state", 4096, vec![nested("header", 32, 16, 2)]),
        ty("header", 16, vec![scalar("b", 0, 8)]),
        ty("other", 32, vec![scalar("c", 0, 8)]),
    ]);
    let decide = |votes: &[(u64, u32, u64)], bounds| {
        let mut all = Votes::default();
        for &(at, ty, weight) in votes {
            all.add(at, TypeIndex(ty), weight);
        }
        let decided = all.decide(&schema, bounds, None);
        let row = |p: &Placement| (p.start, p.size, schema.name(p.ty).to_owned());
        assert_eq!(decided.total, votes.iter().map(|v| v.2).sum::<u64>());
        (
            decided.placements.iter().map(row).collect::<Vec<_>>(),
            decided.explained,
        )
    };
    let body = (0, 96, "body".to_owned());
    let tail = (128, 384, "state".to_owned());
    let seen = [(0, 0, 5), (128, 1, 9), (160, 2, 9)];
    let exact = Bounds::Exact(512);
    // The header alone would be placed first: it is sighted, fits, and explains itself.
    assert_eq!(
        decide(&seen[..2], exact),
        (vec![body.clone(), tail.clone()], 14)
    );
    assert_eq!(decide(&seen, exact), (vec![body.clone(), tail], 23));
    let far = [(0, 0, 5), (160, 1, 9)];
    assert_eq!(
        decide(&far, exact).0,
        std::slice::from_ref(&body),
        "not where the body ends"
    );
    let doubtful = [(0, 0, 5), (128, 1, 2), (300, 3, 9)];
    assert_eq!(
        decide(&doubtful, exact).0.len(),
        2,
        "most votes are for something else"
    );
    let slot = Bounds::Slot {
        size: 512,
        over: 256,
    };
    assert_eq!(
        decide(&seen[..2], slot).0,
        [body],
        "what was asked for is not known"
    );
}

#[test]
fn a_cache_with_a_types_name_and_size_needs_no_sighting() {
    assert_eq!(
        decide(&[], Bounds::Exact(256), Some("task")),
        vec![(0, 256, "task".into())]
    );
    assert_eq!(
        decide(&[], Bounds::Exact(192), Some("task")),
        vec![(0, 192, "task".into())],
        "cut off"
    );
    assert_eq!(
        decide(&[], Bounds::Exact(512), Some("task")),
        vec![],
        "too large for its name"
    );
    assert_eq!(
        decide(
            &[],
            Bounds::Slot {
                size: 192,
                over: 128
            },
            Some("task")
        ),
        vec![],
        "a variable is never cut off"
    );
    assert_eq!(
        decide(
            &[],
            Bounds::Slot {
                size: 4096,
                over: 4032
            },
            Some("task")
        ),
        vec![(0, 256, "task".into())]
    );
    assert_eq!(decide(&[], Bounds::Exact(256), None), vec![]);
}

#[test]
fn arrays_and_flexible_ends_cover_the_object() {
    let votes = [(0, ENTITY, 1), (128, ENTITY, 1)];
    assert_eq!(
        decide(&votes, Bounds::Exact(192), None),
        vec![(0, 192, "entity".into())]
    );
    assert_eq!(
        decide(&[(0, TypeIndex(5), 1)], Bounds::Exact(72), None),
        vec![(0, 72, "flex".into())]
    );
}

#[test]
fn a_type_that_everything_embeds_does_not_name_an_object() {
    let mut types = vec![ty("node", 16, vec![scalar("next", 0, 8)])];
    for i in 0..EMBEDDERS_MAX + 1 {
        types.push(ty(&format!("t{i}"), 24, vec![nested("node", 8, 16, 0)]));
    }
    let schema = Schema::new(types);
    let mut votes = Votes::default();
    votes.add(0, TypeIndex(0), 50);
    assert_eq!(
        votes.decide(&schema, Bounds::Exact(64), None).placements,
        vec![]
    );
    assert_eq!(
        votes
            .decide(&schema, Bounds::Exact(32), None)
            .placements
            .len(),
        1
    );
}

#[test]
fn the_name_of_a_merged_cache_needs_a_sighting_that_agrees() {
    let schema = sample();
    let named = |sighted: &[(u64, TypeIndex)], hint| {
        let mut votes = Votes::default();
        for &(offset, ty) in sighted {
            votes.add(offset, ty, 1);
        }
        let decided = votes.decide(&schema, Bounds::Exact(256), Some(hint));
        decided.placements.first().map(|p| (p.start, p.ty))
    };
    assert_eq!(named(&[], Hint::All("task")), Some((0, TASK)));
    assert_eq!(named(&[], Hint::Some("task")), None);
    assert_eq!(named(&[(64, ENTITY)], Hint::Some("task")), Some((0, TASK)));
}

/// What an object of `size` bytes that was requested as entities holds: start, bytes and stride of
/// each placement.
fn entities(size: u64, sighted: &[(u64, TypeIndex, u64)]) -> Vec<(u64, u64, u64, TypeIndex)> {
    let mut votes = Votes::default();
    for &(offset, ty, weight) in sighted {
        votes.add(offset, ty, weight);
    }
    let hint = Some(Hint::Elements(ENTITY));
    let decided = votes.decide(&sample(), Bounds::Exact(size), hint);
    let placed = decided.placements.iter();
    placed.map(|p| (p.start, p.size, p.stride, p.ty)).collect()
}

#[test]
fn what_was_requested_is_there_if_it_fills_the_object() {
    assert_eq!(entities(192, &[]), [(0, 192, 64, ENTITY)]);
    assert_eq!(entities(64, &[]), [(0, 64, 64, ENTITY)]);
    assert_eq!(entities(200, &[]), []);
    assert_eq!(entities(0, &[]), []);
}

#[test]
fn what_was_requested_explains_what_was_seen_in_each_element() {
    let seen = [(16, LIST, 3), (80, LIST, 3), (64, ENTITY, 1)];
    assert_eq!(entities(192, &seen), [(0, 192, 64, ENTITY)]);
    // A little contradiction is a mistake of the observer, a lot is not.
    assert_eq!(entities(64, &[(8, LIST, 4)]), [(0, 64, 64, ENTITY)]);
    assert_eq!(entities(64, &[(8, LIST, 5)]), [(8, 16, 16, LIST)]);
}
