//! Warm replays: what a second pass over a recording finds, on machines with known answers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::machine;
use linemate_machine::Machine;
use linemate_recording::{Access, AccessKind, Accesses};
use linemate_replay::{
    AsRecorded, Cause, Config, Counts, Interleaving, NoClones, Outcome, Replay, Source, WarmUp,
};
use linemate_testkit::accesses::access;

const A: u64 = 0xffff_8880_0000_0000;

/// Empty until something is pushed; with lines.
fn replay(machine: &Machine, cpus: usize) -> Replay<AsRecorded, NoClones> {
    let config = Config {
        recorded_cpus: cpus,
        cpus: None,
        interleaving: Interleaving::Seeded(1),
        lines: true,
    };
    Replay::new(machine, &config, AsRecorded, NoClones).unwrap()
}

fn push(replay: &mut Replay<AsRecorded, NoClones>, accesses: &[Access]) {
    for access in accesses {
        replay.push(access).unwrap();
    }
}

fn warm(machine: &Machine, cpus: usize, accesses: &[Access]) -> Outcome {
    let mut replay = replay(machine, cpus);
    push(&mut replay, accesses);
    replay.begin_counting(Interleaving::Seeded(1));
    push(&mut replay, accesses);
    replay.finish().0
}

fn cold(machine: &Machine, cpus: usize, accesses: &[Access]) -> Outcome {
    let mut replay = replay(machine, cpus);
    push(&mut replay, accesses);
    replay.finish().0
}

/// One CPU reads that many lines, one after the other.
fn walk(lines: u64) -> Vec<Access> {
    let read = |line| access(line, 0, AccessKind::Load, A + line * 64, 8);
    (0..lines).map(read).collect()
}

/// Two CPUs write one word in turn.
fn turns(count: u64) -> Vec<Access> {
    let write = |turn| access(turn, (turn % 2) as u16, AccessKind::Store, A, 8);
    (0..count).map(write).collect()
}

#[test]
fn what_fits_the_caches_costs_nothing_and_what_does_not_is_capacity() {
    // 2 lines in L1, 4 more in L2, 8 in the LLC: one set each, in the order of use.
    let machine = machine(&[]);
    let fits = warm(&machine, 1, &walk(2)).totals;
    assert_eq!(fits.source(Source::L1).count, Accesses(2));
    assert_eq!(fits.left_core().count, Accesses(0));
    let llc = warm(&machine, 1, &walk(8)).totals;
    assert_eq!(llc.source(Source::Llc).count, Accesses(8));
    assert_eq!(llc.cause(Cause::Capacity).count, Accesses(8));
    let memory = warm(&machine, 1, &walk(40)).totals;
    assert_eq!(memory.source(Source::DramLocal).count, Accesses(40));
    assert_eq!(memory.cause(Cause::Capacity).count, Accesses(40));
    for lines in [2, 8, 40] {
        let cold = cold(&machine, 1, &walk(lines)).totals;
        assert_eq!(cold.cause(Cause::Cold).count, Accesses(lines));
    }
}

#[test]
fn every_turn_of_a_word_counts() {
    let machine = machine(&[]);
    let first = cold(&machine, 2, &turns(100));
    assert_eq!(first.totals.cause(Cause::TrueSharing).count, Accesses(98));
    let second = warm(&machine, 2, &turns(100));
    assert_eq!(second.totals.cause(Cause::TrueSharing).count, Accesses(100));
    assert_eq!(second.totals.hitm().count, Accesses(100));
    let exchanged: Accesses = second.pairs.iter().map(|pair| pair.tally.count).sum();
    assert_eq!(exchanged, Accesses(100));
    let inside: Accesses = second.lines.iter().map(|line| line.hitm()).sum();
    assert_eq!(inside, Accesses(100));
    assert!(second.uncontested.is_empty());
    assert_eq!(
        (second.accesses, second.rounds),
        (Accesses(100), first.rounds)
    );
}

/// What lines hold is not examined in a warm-up, and nothing of it is missing afterwards.
#[test]
fn a_warm_up_that_examines_no_lines_leaves_the_same() {
    let machine = machine(&[]);
    let accesses = [turns(100), walk(40)].concat();
    let mut replay = replay(&machine, 2).with_warm_up();
    push(&mut replay, &accesses);
    replay.begin_counting(Interleaving::Seeded(1));
    push(&mut replay, &accesses);
    let found = replay.finish().0;
    assert!(!found.lines.is_empty() && !found.transfers.pairs.is_empty());
    assert_eq!(found, warm(&machine, 2, &accesses));
}

/// A miss whose class is open at the end of the warm-up belongs to the warm-up.
#[test]
fn a_miss_before_counting_is_not_counted_after() {
    let machine = machine(&[]);
    let word = |time, cpu, kind, byte| access(time, cpu, kind, A + byte, 8);
    let warm_up = [
        word(0, 1, AccessKind::Load, 0),
        word(1, 0, AccessKind::Store, 8),
        word(2, 1, AccessKind::Load, 0),
    ];
    let mut replay = replay(&machine, 2);
    push(&mut replay, &warm_up);
    replay.begin_counting(Interleaving::Aligned);
    // Now the word that was written is read: the miss before would be true sharing.
    push(&mut replay, &[word(0, 1, AccessKind::Load, 8)]);
    let totals = replay.finish().0.totals;
    assert_eq!(totals.accesses(), Accesses(1));
    assert_eq!(totals.source(Source::L1).count, Accesses(1));
    assert_eq!(totals.left_core().count, Accesses(0));
}

#[test]
fn a_copy_goes_on_as_the_first_would() {
    let machine = machine(&[]);
    let accesses: Vec<Access> = (0..200)
        .map(|turn| {
            let kind = [AccessKind::Load, AccessKind::Store, AccessKind::Rmw][turn as usize % 3];
            access(
                3 * turn,
                (turn / 5 % 4) as u16,
                kind,
                A + turn * 40 % 1024,
                8,
            )
        })
        .collect();
    let mut first = replay(&machine, 4);
    push(&mut first, &accesses);
    let outcomes = [7, 8, 7].map(|seed| {
        let mut copy = first.clone();
        copy.begin_counting(Interleaving::Seeded(seed));
        push(&mut copy, &accesses);
        copy.finish().0
    });
    assert_eq!(outcomes[0], outcomes[2]);
    assert_ne!(outcomes[0], outcomes[1]);
}

#[test]
fn misses_of_the_last_level_cache_are_distinguished_by_kind() {
    let machine = machine(&[]);
    // Each line once, none in a cache when it comes.
    let kind = |line| match line % 10 {
        0..6 => AccessKind::Load,
        6..9 => AccessKind::Store,
        _ => AccessKind::Rmw,
    };
    let accesses: Vec<Access> = (0..40)
        .map(|line| access(line, 0, kind(line), A + line * 64, 8))
        .collect();
    let outcome = warm(&machine, 1, &accesses);
    assert_eq!(outcome.totals.llc_misses, [24, 12, 4].map(Accesses));
    let by_key = outcome.keys.iter().map(|key| key.llc_misses);
    let sum = by_key.fold([Accesses::ZERO; 3], |a, b| {
        [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
    });
    assert_eq!(sum, outcome.totals.llc_misses);
    // A hit in the last-level cache is none, nor is a modified copy next door.
    let near = |counts: &Counts| counts.llc_misses.iter().sum::<Accesses>();
    assert_eq!(near(&warm(&machine, 1, &walk(8)).totals), Accesses(0));
}

#[test]
fn a_recording_that_meets_new_lines_to_its_end_is_short() {
    let machine = machine(&[]);
    // Rounds of one access each: two CPUs in turn.
    let touch =
        |line: u64, turn: u64| access(turn, (turn % 2) as u16, AccessKind::Load, A + line * 64, 8);
    let long: Vec<Access> = (0..1000).map(|turn| touch(turn % 50, turn)).collect();
    let warm_up = warm(&machine, 2, &long).warm_up.unwrap();
    assert_eq!(warm_up, WarmUp { lines: 50, late: 0 });
    let short: Vec<Access> = (0..1000).map(|turn| touch(turn, turn)).collect();
    let warm_up = warm(&machine, 2, &short).warm_up.unwrap();
    assert_eq!(warm_up.lines, 1000);
    assert!((95..=110).contains(&warm_up.late), "{warm_up:?}");
    assert_eq!(cold(&machine, 2, &long).warm_up, None);
}
