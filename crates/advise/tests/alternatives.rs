//! Alternatives to the recommended layout: one more line, and objects that start lines.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../remedies/tests/world/mod.rs"]
mod world;

use linemate_advise::{Advice, Choice, Request, advise};
use linemate_experiment::{Conditions, Seed};
use linemate_session::Session;
use linemate_types::ByteSize;
use world::{F, Heap, World, object};

const ROUNDS: u64 = 100;

fn advice(type_name: &str, max_growth: u64, round: impl Fn(&mut World)) -> Advice {
    let mut machine = linemate_machine::find("westmere-4s-80").unwrap();
    machine.adjacent_line_pairs = false;
    let request = Request {
        type_name: type_name.to_owned(),
        machines: vec![machine],
        pins: vec![],
        max_growth: ByteSize(max_growth),
        conditions: Conditions::default(),
        seed: Seed(1),
        interleavings: 8,
        choice: Choice::default(),
        all_interleavings: false,
        under: None,
    };
    let mut world = World::new();
    for _ in 0..ROUNDS {
        round(&mut world);
    }
    let recording = world.record();
    let session = Session::new(&recording).unwrap();
    advise(&[&session], &request).unwrap()
}

/// Two CPUs count, each in a word of its own of one line, which is all that the type has.
fn two_counters(world: &mut World) {
    let stats = object(Heap::Stats, 0);
    world.rmw(0, F::Look, stats);
    world.rmw(1, F::Look, stats + 8);
    world.wait(1000);
}

#[test]
fn one_more_line_is_offered_where_sizes_are_to_stay() {
    let found = advice("stats", 0, two_counters);
    assert!(found.recommended().is_none(), "{:?}", found.tried);
    let grown = found.grown.unwrap();
    assert_eq!(grown.bytes, ByteSize(64));
    assert!(grown.tried.confirmed());
    assert!(grown.tried.relative() < 0.1, "{}", grown.tried.relative());
    // The alternative equals what the option then recommends.
    let allowed = advice("stats", 64, two_counters);
    let best = allowed.recommended().unwrap();
    assert_eq!(best.edits, grown.tried.edits);
    assert_eq!(best.effects, grown.tried.effects);
    assert!(allowed.grown.is_none());
    assert!(found.aligned.is_none(), "all objects start lines");
}

/// Objects of 16 bytes that start anywhere: one line for each writer takes what the last line
/// lacks, too.
#[test]
fn a_struct_of_a_quarter_line_is_split_by_who_writes() {
    let found = advice("apart", 0, |world| {
        let object = object(Heap::Apart, 1);
        world.store(0, F::Apart, object);
        world.store(1, F::Apart, object + 8);
        world.wait(1000);
    });
    assert!(found.recommended().is_none(), "{:?}", found.tried);
    let grown = found.grown.unwrap();
    assert_eq!(grown.bytes, ByteSize(64 - 16 + 64));
    assert!(grown.tried.confirmed());
    assert!(grown.tried.relative() < 0.1, "{}", grown.tried.relative());
}

#[test]
fn one_more_line_that_gains_nothing_is_not_offered() {
    let shared = |world: &mut World| {
        for cpu in [0, 1] {
            world.rmw(cpu, F::Look, object(Heap::Stats, 0));
        }
    };
    assert!(advice("stats", 0, shared).grown.is_none());
}

/// Objects of 16 bytes, 32 apart, each one CPU's: no order of their members separates them.
#[test]
fn objects_that_do_not_start_lines_are_aligned() {
    let own = |world: &mut World| {
        for (cpu, number) in [(0, 0), (1, 1)] {
            let object = object(Heap::Apart, number);
            world.load_pointer(cpu, F::Apart, object);
            world.store(cpu, F::Apart, object);
        }
        world.wait(1000);
    };
    let found = advice("apart", 0, own);
    assert!(found.recommended().is_none(), "{:?}", found.tried);
    let aligned = found.aligned.unwrap();
    assert_eq!((aligned.objects, aligned.astray), (2, 1));
    assert_eq!(aligned.edits.to_string(), "base-align apart line\n");
    let effect = &aligned.effects[0][0].types;
    assert!(effect.with < effect.without / 10.0, "{effect:?}");
    // One CPU alone: nothing to gain, so nothing is said.
    let alone = |world: &mut World| world.store(0, F::Apart, object(Heap::Apart, 1));
    assert!(advice("apart", 0, alone).aligned.is_none());
}
