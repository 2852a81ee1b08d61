//! What remedies have at stake: only what they can affect, and not listed below a floor.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asked;
mod world;

use asked::{MODE, ROUNDS, counting, found_with, of_kind, options, subjects};
use linemate_answers::{Remedy, RemedyKind, RemedyList};
use linemate_remedies::RemedyOptions;
use world::{CPUS, F, Heap, World, object};

#[test]
fn advice_for_a_type_inside_of_another_is_about_its_fields() {
    let mut world = World::new();
    for _ in 0..ROUNDS {
        for word in [0, 8] {
            for cpu in 0..CPUS {
                world.rmw(cpu, F::Enter, object(Heap::Guarded, 0) + word);
            }
            world.wait(1000);
        }
    }
    let recording = world.record();
    let about = |focus: &str| {
        let focus = Some(focus.to_owned());
        found_with(&recording, &RemedyOptions { focus, ..options() }).remedies
    };
    let begins = |found: &[Remedy], with: &str| {
        let fields = found.iter().filter(|r| r.subject.starts_with(with));
        fields.count()
    };
    let guarded = about("guarded");
    for field in ["guarded.lock", "guarded.events"] {
        assert!(begins(&guarded, field) > 0, "{:?}", subjects(&guarded));
    }
    // No object is only a lock: all are part of what they guard.
    let lock = about("qspinlock");
    assert!(!lock.is_empty());
    assert_eq!(
        begins(&lock, "guarded.lock"),
        lock.len(),
        "{:?}",
        subjects(&lock)
    );
}

#[test]
fn what_is_at_stake_is_on_the_lines_where_objects_meet() {
    // Two elements that share their middle line: each CPU counts at one end of its own, which the
    // other one does not come near, and both count at different words of the first line of the
    // first.
    let ends = |w: &mut World, _| {
        let pair = [object(Heap::Chest, 0), object(Heap::Chest, 1)];
        for (cpu, at) in [(0, pair[0]), (1, pair[0] + 8)] {
            w.load_pointer(cpu, F::Chest, at);
            w.store(cpu, F::Chest, at);
        }
        for _ in 0..2 {
            w.load_pointer(0, F::Chest, pair[0]);
            w.load_pointer(1, F::Chest, pair[1] + 88);
        }
        w.wait(1000);
    };
    assert_eq!(subjects(&of_kind(RemedyKind::PadElements, ends)), [""; 0]);
    // They meet, a tenth as often as that.
    let meeting = |w: &mut World, number: u64| {
        ends(w, number);
        if number % 10 == 0 {
            for (cpu, at) in [
                (0, object(Heap::Chest, 0) + 88),
                (1, object(Heap::Chest, 1)),
            ] {
                w.load_pointer(cpu, F::Chest, at);
                w.store(cpu, F::Chest, at);
            }
        }
    };
    let found = of_kind(RemedyKind::PadElements, meeting);
    assert_eq!(subjects(&found), ["chest"]);
    // A miss and an upgrade of each of the two CPUs, a tenth of the times.
    let (stake, most) = (found[0].stake, 4 * ROUNDS / 10);
    assert!(0 < stake.misses && stake.misses <= most, "{stake:?}");
}

#[test]
fn what_is_below_the_floor_is_counted_and_not_listed() {
    let rounds = |rare: u64| {
        let mut world = World::new();
        for number in 0..50 * ROUNDS {
            counting(|_, _| {})(&mut world, number);
            if number < rare {
                let mode = object(Heap::Crate, 1) + MODE;
                world.silent_store(0, F::Leave, mode);
                world.load(1, F::Look, mode);
            }
        }
        found_with(
            &world.record(),
            &RemedyOptions {
                trials: Some(0),
                ..options()
            },
        )
    };
    let (some, few) = (rounds(ROUNDS), rounds(2));
    let has = |found: &RemedyList| {
        let silent = |r: &&Remedy| r.kind == RemedyKind::SkipSilentStores;
        found.remedies.iter().filter(silent).count()
    };
    assert_eq!((has(&some), has(&few)), (1, 0));
    assert!(
        few.below_floor > some.below_floor,
        "{} {}",
        few.below_floor,
        some.below_floor
    );
    assert_eq!(few.floor, few.whole.cycles.div_ceil(2000));
    assert!(few.remedies.iter().all(|r| r.stake.cycles >= few.floor));
    let text = linemate_report::remedies(&few);
    let floor = format!("less than {} cycles at stake", few.floor);
    assert!(text.contains(&floor), "{text}");
}
