//! What tests ask about synthetic recordings.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use linemate_answers::{Remedy, RemedyEffect, RemedyKind, RemedyList};
use linemate_recording::Recording;
use linemate_remedies::{RemedyOptions, find};
use linemate_session::Session;

use crate::world::{F, Heap, NOHZ, World, object};

pub(crate) const ROUNDS: u64 = 100;

pub(crate) const MODE: u64 = 128;
pub(crate) const STAT: u64 = 64;
pub(crate) fn options() -> RemedyOptions {
    let mut machine = linemate_machine::find("westmere-4s-80").unwrap();
    // Fetching pairs of lines would mix what is on different ones.
    machine.adjacent_line_pairs = false;
    RemedyOptions::new(machine)
}

pub(crate) fn found_with(recording: &Recording, options: &RemedyOptions) -> RemedyList {
    let session = Session::new(recording).unwrap();
    let found = find(&session, options).unwrap();
    let in_vain = |remedy: &Remedy| {
        let mut effects = remedy.trials.iter().map(|trial| &trial.effect);
        remedy.gain().is_none() && effects.any(|effect| matches!(effect, RemedyEffect::Tried(_)))
    };
    let order = found.remedies.iter().map(in_vain);
    assert!(order.is_sorted(), "what replay refuses comes last");
    found
}

/// The remedies of a kind, in the rounds that `round` makes.
pub(crate) fn of_kind(kind: RemedyKind, round: impl Fn(&mut World, u64)) -> Vec<Remedy> {
    of_kind_with(kind, &options(), round)
}

pub(crate) fn of_kind_with(
    kind: RemedyKind,
    options: &RemedyOptions,
    round: impl Fn(&mut World, u64),
) -> Vec<Remedy> {
    let mut world = World::new();
    for number in 0..ROUNDS {
        round(&mut world, number);
    }
    let found = found_with(&world.record(), options);
    found
        .remedies
        .into_iter()
        .filter(|r| r.kind == kind)
        .collect()
}

pub(crate) fn subjects(remedies: &[Remedy]) -> Vec<&str> {
    remedies.iter().map(|r| r.subject.as_str()).collect()
}

/// Both CPUs count, then look at what they counted.
pub(crate) fn counting(between: impl Fn(&mut World, u16)) -> impl Fn(&mut World, u64) {
    move |w, _| {
        let stat = object(Heap::Crate, 0) + STAT;
        for cpu in [0, 1] {
            w.rmw(cpu, F::Enter, stat);
        }
        for cpu in [0, 1] {
            between(w, cpu);
            w.load(cpu, F::Look, stat);
        }
        w.wait(4000);
    }
}

/// A CPU goes idle in even rounds and comes back in odd ones; `alone` more counts go without the
/// bitmap.
pub(crate) fn idling(alone: u64) -> impl Fn(&mut World, u64) {
    move |w, number| {
        let cpu = (number / 2 % 3) as u16;
        let function = if number % 2 == 0 { F::Enter } else { F::Leave };
        w.load_pointer(cpu, function, NOHZ);
        w.rmw(cpu, function, object(Heap::Block, 1));
        w.rmw(cpu, function, NOHZ + 8);
        w.load(3, F::Look, NOHZ + 8);
        if number < alone {
            w.wait(100);
            w.rmw(cpu, F::Clear, NOHZ + 8);
        }
        w.wait(100);
    }
}

/// Crates 0 to 2 and the items that `item` says.
pub(crate) fn unpacking(item: impl Fn(u64) -> u64) -> impl Fn(&mut World, u64) {
    move |w, number| {
        let chosen = number % 3;
        w.load_pointer(chosen as u16, F::Look, object(Heap::Crate, chosen));
        w.load(chosen as u16, F::Look, object(Heap::Item, item(chosen)));
        w.wait(100);
    }
}
