//! What is kept of a recording gives the remedies that the recording gives.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod asked;
mod world;

use asked::{ROUNDS, counting, idling, options, unpacking};
use linemate_experiment::Conditions;
use linemate_recording::Recording;
use linemate_remedies::{RemedyOptions, find};
use linemate_session::Session;
use linemate_session::progress::Silent;
use linemate_session::shelf::InMemory;
use world::World;

/// A recording in which objects point to others, counters are next to a bitmap, and fields cost.
fn recording() -> Recording {
    let mut world = World::new();
    for number in 0..ROUNDS {
        idling(5)(&mut world, number);
        counting(|_, _| {})(&mut world, number);
        unpacking(|n| n)(&mut world, number);
    }
    world.record()
}

/// From cold caches: warm ones have the objects that pointers lead to, and no remedy needs them.
fn cold() -> RemedyOptions {
    let mut options = options();
    options.conditions.cold = true;
    options
}

fn asked(session: &Session<'_>, options: &RemedyOptions) -> String {
    serde_json::to_string(&find(session, options).unwrap()).unwrap()
}

fn alone(recording: &Recording, options: &RemedyOptions) -> String {
    asked(&Session::new(recording).unwrap(), options)
}

fn with_shelf(recording: &Recording, shelf: &InMemory, options: &RemedyOptions) -> String {
    let shelf = Box::new(shelf.clone());
    asked(
        &Session::open(recording, shelf, Box::new(Silent)).unwrap(),
        options,
    )
}

/// Which of the parts that only remedies keep were stored since the last call.
fn stored(shelf: &InMemory) -> Vec<&'static str> {
    let names = shelf.take_stored().into_iter();
    let costs = names.filter(|name| name.starts_with("costs"));
    costs.map(|_| "costs").collect()
}

#[test]
fn a_second_question_reads_nothing_again_and_has_the_same_answer() {
    let recording = recording();
    let shelf = InMemory::default();
    for options in [options(), cold()] {
        let expected = alone(&recording, &options);
        assert!(expected.contains("derive"), "{expected}");
        stored(&shelf);
        assert_eq!(with_shelf(&recording, &shelf, &options), expected);
        assert!(stored(&shelf).contains(&"costs"));
        assert_eq!(with_shelf(&recording, &shelf, &options), expected);
        assert_eq!(stored(&shelf), [""; 0]);
    }
}

/// Another machine, other CPUs or caches, another seed and other pointers have costs of their own;
/// an exact replay asks for none.
#[test]
fn costs_are_kept_for_their_own_question() {
    let recording = recording();
    let shelf = InMemory::default();
    let mut slower = cold();
    slower.machine.latency.hitm_other_socket += 100;
    let seeded = RemedyOptions { seed: 2, ..cold() };
    let focused = RemedyOptions {
        focus: Some("nohz".to_owned()),
        ..cold()
    };
    let mut exact = cold();
    exact.conditions = Conditions {
        exact: true,
        ..exact.conditions
    };
    for (options, kept) in [
        (cold(), &["costs"][..]),
        (slower, &["costs"]),
        (options(), &["costs"]),
        (seeded, &["costs"]),
        (focused, &["costs"]),
        (exact, &[]),
        (cold(), &[]),
    ] {
        let expected = alone(&recording, &options);
        assert_eq!(with_shelf(&recording, &shelf, &options), expected);
        assert_eq!(stored(&shelf), kept, "{options:?}");
    }
}

#[test]
fn damaged_parts_are_made_again() {
    let recording = recording();
    let shelf = InMemory::default();
    let expected = with_shelf(&recording, &shelf, &cold());
    for bytes in [Vec::new(), vec![0; 4], vec![0xff; 4000]] {
        shelf.with(|parts| {
            let of_remedies = |name: &String| name.starts_with("costs");
            let parts = parts.iter_mut().filter(|(name, _)| of_remedies(name));
            parts.for_each(|(_, kept)| kept.clone_from(&bytes));
        });
        stored(&shelf);
        assert_eq!(with_shelf(&recording, &shelf, &cold()), expected);
        assert_eq!(stored(&shelf), ["costs"]);
    }
}

/// Fields that do not exist, under the right name: what a collision of digests would give.
#[test]
fn costs_of_other_fields_are_not_used() {
    let recording = recording();
    let (shelf, other) = (InMemory::default(), InMemory::default());
    let expected = with_shelf(&recording, &shelf, &cold());
    let mut small = World::new();
    (0..ROUNDS).for_each(|number| counting(|_, _| {})(&mut small, number));
    let small = small.record();
    let few = alone(&small, &cold());
    with_shelf(&small, &other, &cold());
    let costs = |shelf: &InMemory| {
        let name = |parts: &mut std::collections::BTreeMap<String, Vec<u8>>| {
            let costs = parts.iter().find(|(name, _)| name.starts_with("costs"));
            costs
                .map(|(name, bytes)| (name.clone(), bytes.clone()))
                .unwrap()
        };
        shelf.with(name)
    };
    let ((name, _), (_, larger)) = (costs(&other), costs(&shelf));
    other.with(|parts| parts.insert(name, larger));
    assert_eq!(with_shelf(&small, &other, &cold()), few);
    assert_ne!(few, expected);
}
