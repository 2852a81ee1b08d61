//! Each kind of remedy in synthetic recordings: found with exact reasons, and not found if
//! something is missing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asked;
mod world;

use asked::{
    MODE, ROUNDS, STAT, counting, found_with, idling, of_kind, of_kind_with, options, subjects,
    unpacking,
};
use linemate_answers::{Remedy, RemedyEffect, RemedyKind};
use linemate_remedies::{RemedyOptions, find};
use linemate_session::Session;
use world::{CPUS, F, Heap, NOHZ, World, object};

/// Objects that point to each other, in the rounds that `round` makes, from cold caches: warm ones
/// have all of them, and nothing is at stake.
fn partners(round: impl Fn(&mut World, u64)) -> Vec<Remedy> {
    let mut options = options();
    options.conditions.cold = true;
    of_kind_with(RemedyKind::CoAllocate, &options, round)
}

fn gains(remedy: &Remedy) -> bool {
    remedy.gain().is_some()
}

#[test]
fn silent_stores_that_take_a_line_are_found() {
    let mode = object(Heap::Crate, 0) + MODE;
    let round = |w: &mut World, _| {
        w.silent_store(0, F::Enter, mode);
        w.load(1, F::Look, mode);
    };
    let found = of_kind(RemedyKind::SkipSilentStores, round);
    assert_eq!(subjects(&found), ["crate.mode"]);
    let reasons = &found[0].reasons;
    assert_eq!(
        (
            reasons.loads,
            reasons.stores,
            reasons.silent_stores,
            reasons.rmws
        ),
        (ROUNDS, ROUNDS, ROUNDS, 0)
    );
    assert_eq!((reasons.readers, reasons.writers), (1, 1));
    assert_eq!(reasons.functions[0].name, "enter");
    assert_eq!(reasons.functions[0].accesses, ROUNDS);
    assert_eq!(
        found[0].trials[0].edits,
        "type crate\nskip silent stores of mode\n"
    );
    assert!(gains(&found[0]), "{:?}", found[0].trials);
}

#[test]
fn stores_that_change_something_or_clear_whole_objects_are_not_skipped() {
    let mode = object(Heap::Crate, 0) + MODE;
    let changing = |w: &mut World, _| {
        w.store(0, F::Enter, mode);
        w.load(1, F::Look, mode);
    };
    assert_eq!(
        subjects(&of_kind(RemedyKind::SkipSilentStores, changing)),
        [""; 0]
    );
    // One instruction for all fields.
    let clearing = |w: &mut World, _| {
        for offset in [8, 72, MODE, MODE + 8] {
            w.silent_store(0, F::Clear, object(Heap::Crate, 0) + offset);
        }
        w.load(1, F::Look, mode);
    };
    assert_eq!(
        subjects(&of_kind(RemedyKind::SkipSilentStores, clearing)),
        [""; 0]
    );
    // Nobody else has the line.
    let private = |w: &mut World, _| w.silent_store(0, F::Enter, mode);
    assert_eq!(
        subjects(&of_kind(RemedyKind::SkipSilentStores, private)),
        [""; 0]
    );
}

#[test]
fn a_load_after_an_atomic_can_reuse_its_result() {
    let found = of_kind(RemedyKind::ReuseResult, counting(|_, _| {}));
    assert_eq!(subjects(&found), ["crate.stat in look"]);
    let reasons = &found[0].reasons;
    assert_eq!((reasons.loads, reasons.rmws), (2 * ROUNDS, 2 * ROUNDS));
    assert_eq!(reasons.functions[0].name, "look (those loads)");
    assert_eq!(reasons.functions[0].accesses, 2 * ROUNDS);
    let edits: Vec<&str> = found[0].trials.iter().map(|t| t.edits.as_str()).collect();
    assert_eq!(
        edits,
        [
            "type crate\nreuse RMW of stat in look\n",
            "type crate\nisolate stat\n",
            "type crate\nisolate stat\nreuse RMW of stat in look\n"
        ]
    );
    let RemedyEffect::Tried(gain) = &found[0].trials[0].effect else {
        panic!("{:?}", found[0].trials)
    };
    assert_eq!(gain.skipped, 2 * ROUNDS);
    assert!(gains(&found[0]), "{gain:?}");
}

#[test]
fn a_load_that_needs_the_value_afresh_reuses_nothing() {
    let stat = object(Heap::Crate, 0) + STAT;
    let stored = counting(move |w, cpu| w.store(cpu, F::Leave, stat));
    assert_eq!(subjects(&of_kind(RemedyKind::ReuseResult, stored)), [""; 0]);
    let late = counting(|w, _| w.wait(1100));
    assert_eq!(subjects(&of_kind(RemedyKind::ReuseResult, late)), [""; 0]);
    // Load and compare-and-exchange, again and again.
    let exchange = |w: &mut World, _| {
        for cpu in [0, 1] {
            w.load(cpu, F::Look, stat);
            w.rmw(cpu, F::Look, stat);
        }
    };
    assert_eq!(
        subjects(&of_kind(RemedyKind::ReuseResult, exchange)),
        [""; 0]
    );
    // A lock's word.
    let lock = |w: &mut World, _| {
        let lock = object(Heap::Guarded, 0);
        for cpu in [0, 1] {
            w.rmw(cpu, F::Enter, lock);
        }
        for cpu in [0, 1] {
            w.load(cpu, F::Look, lock);
        }
        w.wait(4000);
    };
    assert_eq!(subjects(&of_kind(RemedyKind::ReuseResult, lock)), [""; 0]);
}

#[test]
fn a_counter_beside_a_bitmap_can_be_derived() {
    let found = of_kind(RemedyKind::Derive, idling(0));
    assert_eq!(subjects(&found), ["nohz.nr_cpus from nohz.idle_cpus_mask"]);
    let reasons = &found[0].reasons;
    assert_eq!((reasons.loads, reasons.rmws), (ROUNDS, ROUNDS));
    assert_eq!((reasons.readers, reasons.writers), (4, 3));
    assert_eq!(
        reasons.notes,
        [
            "100.0 % of its 100 writes come with an atomic on the bitmap nohz.idle_cpus_mask, by 2 instructions"
        ]
    );
    assert_eq!(
        found[0].trials[0].edits,
        "type with has_blocked idle_cpus_mask nr_cpus\nremove nr_cpus\n"
    );
    assert!(gains(&found[0]), "{:?}", found[0].trials);
}

#[test]
fn a_counter_that_counts_something_else_too_is_kept() {
    assert_eq!(
        of_kind(RemedyKind::Derive, idling(5)).len(),
        1,
        "100 of 105 are nine tenths and more"
    );
    assert_eq!(
        of_kind(RemedyKind::Derive, idling(20)).len(),
        0,
        "100 of 120 are less"
    );
    let only_up = |w: &mut World, number| {
        let cpu = (number % 3) as u16;
        w.load_pointer(cpu, F::Enter, NOHZ);
        w.rmw(cpu, F::Enter, object(Heap::Block, 1));
        w.rmw(cpu, F::Enter, NOHZ + 8);
        w.load(3, F::Look, NOHZ + 8);
        w.wait(100);
    };
    assert_eq!(
        of_kind(RemedyKind::Derive, only_up).len(),
        0,
        "nothing takes away"
    );
    let far_apart = |w: &mut World, number| {
        let function = if number % 2 == 0 { F::Enter } else { F::Leave };
        w.load_pointer(0, function, NOHZ);
        w.rmw(0, function, object(Heap::Block, 1));
        w.wait(100);
        w.rmw(0, function, NOHZ + 8);
        w.load(3, F::Look, NOHZ + 8);
        w.wait(100);
    };
    assert_eq!(of_kind(RemedyKind::Derive, far_apart).len(), 0);
}

#[test]
fn counters_of_all_cpus_in_one_object_are_split() {
    let round = |w: &mut World, _| {
        for cpu in 0..CPUS {
            w.rmw(cpu, F::Enter, object(Heap::Stats, 0));
            w.rmw(cpu, F::Enter, object(Heap::Stats, 0) + 8);
        }
    };
    let found = of_kind(RemedyKind::SplitPerCpu, round);
    assert_eq!(subjects(&found), ["stats"]);
    let reasons = &found[0].reasons;
    assert_eq!(
        (reasons.loads, reasons.stores, reasons.rmws),
        (0, 0, 8 * ROUNDS)
    );
    assert_eq!(found[0].trials[0].edits, "percpu stats\n");
    assert!(gains(&found[0]), "{:?}", found[0].trials);
}

#[test]
fn counters_that_only_share_a_line_are_not_split() {
    let round = |w: &mut World, number| {
        for cpu in 0..CPUS {
            let own = object(Heap::Slot, cpu.into());
            if number == 0 {
                // Sets them up, so that each is exchanged once.
                w.rmw(0, F::Slot, own);
            }
            w.rmw(cpu, F::Slot, own);
        }
    };
    assert_eq!(of_kind(RemedyKind::SplitPerCpu, round).len(), 0);
    let padded = of_kind(RemedyKind::PadElements, round);
    assert!(gains(&padded[0]), "{:?}", padded[0].trials);
}

#[test]
fn what_a_lock_guards_or_everybody_reads_is_not_split() {
    let locked = |w: &mut World, _| {
        for cpu in 0..CPUS {
            w.rmw(cpu, F::Enter, object(Heap::Guarded, 0));
            w.rmw(cpu, F::Enter, object(Heap::Guarded, 0) + 8);
        }
    };
    assert_eq!(subjects(&of_kind(RemedyKind::SplitPerCpu, locked)), [""; 0]);
    let read = |w: &mut World, _| {
        w.rmw(0, F::Enter, object(Heap::Stats, 0));
        for cpu in 1..CPUS {
            w.load(cpu, F::Look, object(Heap::Stats, 0));
        }
    };
    assert_eq!(subjects(&of_kind(RemedyKind::SplitPerCpu, read)), [""; 0]);
    let summed = |w: &mut World, number| {
        w.rmw((number % 4) as u16, F::Enter, object(Heap::Stats, 0));
        for cpu in 0..CPUS {
            w.load(cpu, F::Look, object(Heap::Stats, 0));
        }
    };
    assert_eq!(subjects(&of_kind(RemedyKind::SplitPerCpu, summed)), [""; 0]);
    let plain = |w: &mut World, _| {
        for cpu in 0..CPUS {
            w.store(cpu, F::Enter, object(Heap::Stats, 0));
        }
    };
    assert_eq!(subjects(&of_kind(RemedyKind::SplitPerCpu, plain)), [""; 0]);
}

#[test]
fn objects_that_point_to_one_of_their_own_are_partners() {
    let found = partners(unpacking(|number| number));
    assert_eq!(subjects(&found), ["crate with its item"]);
    assert_eq!(
        found[0].reasons.notes,
        [
            "crate.item links each of 3 objects to its own partner: 100 % of the 100 times it was followed; in 3 of the pairs \
             one CPU makes most accesses to both",
            "reached through crate.item (100 loads)"
        ]
    );
    assert_eq!(found[0].trials[0].edits, "colocate crate item\n");
    assert!(matches!(found[0].trials[0].effect, RemedyEffect::Tried(_)));
    let shared = partners(unpacking(|number| number / 2));
    assert_eq!(subjects(&shared), [""; 0], "crates 0 and 1 share an item");
    let handed_over = |w: &mut World, number: u64| {
        unpacking(|number| number)(w, number);
        for _ in 0..3 {
            w.load(3, F::Clear, object(Heap::Item, number % 3));
        }
        w.wait(100);
    };
    assert_eq!(
        subjects(&partners(handed_over)),
        [""; 0],
        "another CPU uses the items most"
    );
}

#[test]
fn a_field_that_takes_its_neighbours_line_away_gets_its_own() {
    let beside = object(Heap::Crate, 0) + STAT + 8;
    let round = |w: &mut World, _| {
        w.rmw(0, F::Enter, beside - 8);
        w.load(1, F::Look, beside);
    };
    let found = of_kind(RemedyKind::OwnLine, round);
    assert_eq!(subjects(&found), ["crate.stat"]);
    assert_eq!(
        found[0].reasons.notes,
        ["it takes the line from crate.beside"]
    );
    assert_eq!(found[0].trials[0].edits, "type crate\nisolate stat\n");
    assert!(gains(&found[0]));
    let apart = |w: &mut World, _| {
        w.rmw(0, F::Enter, beside - 8);
        w.load(1, F::Look, beside + 64);
    };
    assert_eq!(subjects(&of_kind(RemedyKind::OwnLine, apart)), [""; 0]);
    let alone = |w: &mut World, _| {
        for cpu in [0, 1] {
            w.rmw(cpu, F::Enter, beside - 8);
        }
    };
    assert_eq!(subjects(&of_kind(RemedyKind::OwnLine, alone)), [""; 0]);
}

#[test]
fn a_struct_of_one_line_is_split_by_who_writes() {
    let stats = object(Heap::Stats, 0);
    let round = |w: &mut World, _| {
        w.rmw(0, F::Look, stats);
        w.rmw(1, F::Look, stats + 8);
        w.wait(1000);
    };
    let found = of_kind(RemedyKind::OwnLine, round);
    assert_eq!(subjects(&found), ["stats: events; bytes"]);
    assert_eq!(
        found[0].reasons.notes,
        ["CPU 0 writes events", "CPU 1 writes bytes"]
    );
    assert_eq!(
        found[0].trials[0].edits,
        "type stats\nisolate events\nisolate bytes\n"
    );
    assert!(gains(&found[0]));
    // The same words, each written by both.
    let together = |w: &mut World, _| {
        for cpu in [0, 1] {
            w.rmw(cpu, F::Look, stats);
            w.rmw(cpu, F::Look, stats + 8);
        }
    };
    assert_eq!(subjects(&of_kind(RemedyKind::OwnLine, together)), [""; 0]);
    // Elements of an array are padded instead.
    let elements = |w: &mut World, _| {
        for (cpu, number) in [(0, 0), (1, 1)] {
            w.store(cpu, F::Slot, object(Heap::Slot, number));
            w.load(cpu, F::Slot, object(Heap::Slot, number) + 8);
        }
    };
    assert_eq!(subjects(&of_kind(RemedyKind::OwnLine, elements)), [""; 0]);
}

#[test]
fn words_that_are_exchanged_are_no_layouts_business() {
    let mode = object(Heap::Crate, 0) + MODE;
    let round = |w: &mut World, _| {
        w.store(0, F::Enter, mode);
        w.load(1, F::Look, mode);
        w.load(2, F::Look, mode);
    };
    let found = of_kind(RemedyKind::WriteLess, round);
    assert_eq!(subjects(&found), ["crate.mode"]);
    assert_eq!(
        found[0].advice,
        "no layout helps: write less often, or only on a change that readers need"
    );
    assert_eq!(
        (found[0].reasons.loads, found[0].reasons.stores),
        (200, 100)
    );
    assert_eq!(found[0].trials, []);
    let private = |w: &mut World, _| w.store(0, F::Enter, mode);
    assert_eq!(subjects(&of_kind(RemedyKind::WriteLess, private)), [""; 0]);
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let mut world = World::new();
    for number in 0..ROUNDS {
        idling(5)(&mut world, number);
        counting(|_, _| {})(&mut world, number);
        unpacking(|n| n)(&mut world, number);
    }
    let recording = world.record();
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let found = pool.install(|| found_with(&recording, &options()));
        serde_json::to_string(&found).unwrap() + &linemate_report::remedies(&found)
    };
    let one = on(1);
    assert_eq!(one, on(3));
    assert_eq!(one, on(1));
}

#[test]
fn advice_can_be_about_one_type_and_the_best_are_tried_first() {
    let mut world = World::new();
    for number in 0..ROUNDS {
        idling(0)(&mut world, number);
        counting(|_, _| {})(&mut world, number);
    }
    let recording = world.record();
    let about = |focus: &str| RemedyOptions {
        focus: Some(focus.to_owned()),
        trials: Some(1),
        ..options()
    };
    let found = found_with(&recording, &about("nohz"));
    assert!(found.remedies.iter().all(|r| r.concerns == ["nohz"]));
    let tried = found.remedies.iter().flat_map(|r| &r.trials);
    assert_eq!(
        tried.filter(|t| t.effect != RemedyEffect::NotTried).count(),
        1
    );
    let session = Session::new(&recording).unwrap();
    let absent = find(&session, &about("item")).unwrap_err().to_string();
    assert_eq!(
        absent,
        "the recording has no access to any type or variable `item`"
    );
    let few = RemedyOptions {
        interleavings: 7,
        ..options()
    };
    let few = find(&session, &few).unwrap_err().to_string();
    assert_eq!(
        few,
        "7 interleavings are too few for a 95 % confidence interval: at least 8"
    );
    let odd = RemedyOptions {
        conditions: linemate_experiment::Conditions {
            cpus: Some(6),
            ..linemate_experiment::Conditions::default()
        },
        ..options()
    };
    let odd = find(&session, &odd).unwrap_err().to_string();
    assert_eq!(
        odd,
        "6 CPUs are not a multiple of the 4 recorded ones: the nearest is 8"
    );
}

/// CPUs load one field of the objects that `of` says, in turn, on a machine whose L2 has 16 sets of
/// two ways: 1 KiB a way.
fn in_small_caches(of: impl Fn(u16) -> [u64; 4]) -> Vec<Remedy> {
    let mut options = options();
    (options.machine.l1.sets, options.machine.l1.ways) = (8, 1);
    (options.machine.l2.sets, options.machine.l2.ways) = (16, 2);
    let mut world = World::new();
    for _ in 0..ROUNDS {
        for cpu in 0..CPUS {
            for number in of(cpu) {
                world.load(cpu, F::Look, object(Heap::Crate, number) + MODE);
            }
        }
    }
    let found = found_with(&world.record(), &options).remedies;
    let wanted = |r: &Remedy| r.kind == RemedyKind::SpreadOverSets;
    found.into_iter().filter(wanted).collect()
}

#[test]
fn objects_at_a_stride_that_divides_a_way_collide() {
    // Crates of 256 bytes are given out in turn to four CPUs: each has every fourth, 1 KiB apart,
    // in one set.
    let found = in_small_caches(|cpu| [0, 4, 8, 12].map(|n| n + u64::from(cpu)));
    assert_eq!(subjects(&found), ["crate"]);
    let (reasons, stake) = (&found[0].reasons, &found[0].stake);
    let expected = [
        "CPU 0 uses 4 objects, mostly 1024 bytes apart: they start in 1 of 16 sets of its L2",
        "their 4 lines map to 1 set, up to 4 in one that has 2 ways: 2 beyond the ways",
    ];
    assert_eq!(reasons.notes, expected);
    // Every load: none finds the object where it left it.
    let (cpus, objects) = (u64::from(CPUS), 4);
    assert_eq!(stake.misses, cpus * objects * ROUNDS);
    assert_eq!(found[0].trials[0].edits, "allocate-percpu crate\n");
    // One after the other, 256 bytes apart, all four have room.
    let RemedyEffect::Tried(gain) = &found[0].trials[0].effect else {
        panic!("{:?}", found[0].trials);
    };
    assert_eq!(gain.misses.without, (cpus * objects * ROUNDS) as f64);
    assert_eq!(gain.misses.with, 0.0);
}

#[test]
fn objects_that_are_spread_do_not_collide() {
    // A freelist in no order: the same objects in all, other owners.
    let order = [0, 1, 6, 11, 2, 3, 8, 13, 4, 7, 10, 15, 5, 9, 12, 14];
    let found = in_small_caches(|cpu| {
        let first = 4 * usize::from(cpu);
        [0, 1, 2, 3].map(|i| order[first + i])
    });
    assert_eq!(subjects(&found), [""; 0]);
}

/// Each CPU counts in an object of its own, of which the first is at the start of a line.
fn own(heap: Heap, function: F, cpus: &[u16]) -> impl Fn(&mut World, u64) {
    move |w, _| {
        for (number, cpu) in (0..).zip(cpus) {
            w.load_pointer(*cpu, function, object(heap, number));
            w.store(*cpu, function, object(heap, number));
        }
        w.wait(1000);
    }
}

#[test]
fn elements_of_different_cpus_on_a_line_are_padded() {
    let round = || own(Heap::Slot, F::Slot, &[0, 1, 2, 3]);
    let found = of_kind(RemedyKind::PadElements, round());
    assert_eq!(subjects(&found), ["slot"]);
    let remedy = &found[0];
    assert_eq!(remedy.trials[0].edits, "type slot\nalign n line\n");
    assert!(gains(remedy), "{:?}", remedy.trials);
    let RemedyEffect::Tried(gain) = &remedy.trials[0].effect else {
        panic!("{:?}", remedy.trials)
    };
    // Nothing is exchanged any more.
    assert!(
        gain.misses.with < gain.misses.without / 10.0,
        "{:?}",
        gain.misses
    );
    assert!(
        remedy.reasons.notes[0].starts_with("elements are 16 bytes apart: 3 share a line"),
        "{:?}",
        remedy.reasons.notes
    );
    assert!(remedy.advice.contains("SLAB_HWCACHE_ALIGN"));
    assert_eq!(
        subjects(&of_kind(RemedyKind::AllocateApart, round())),
        [""; 0]
    );
}

#[test]
fn elements_that_one_cpu_uses_or_nobody_writes_stay() {
    let none = |round: &dyn Fn(&mut World, u64)| {
        for kind in [RemedyKind::PadElements, RemedyKind::AllocateApart] {
            assert_eq!(subjects(&of_kind(kind, round)), [""; 0]);
        }
    };
    none(&own(Heap::Slot, F::Slot, &[2, 2, 2, 2]));
    none(&own(Heap::Apart, F::Apart, &[1, 1]));
    none(&|w: &mut World, _| {
        for cpu in 0..4 {
            w.load_pointer(cpu, F::Slot, object(Heap::Slot, u64::from(cpu)));
        }
    });
    // All use all: no element is anybody's own.
    none(&|w: &mut World, _| {
        for (cpu, number) in (0..4).flat_map(|cpu| (0..4).map(move |number| (cpu, number))) {
            w.store(cpu, F::Slot, object(Heap::Slot, number));
        }
    });
    // A line each.
    none(&own(Heap::Stats, F::Look, &[0, 1, 2, 3]));
}

#[test]
fn objects_that_were_allocated_side_by_side_are_allocated_apart() {
    let round = || own(Heap::Apart, F::Apart, &[0, 1]);
    let found = of_kind(RemedyKind::AllocateApart, round());
    assert_eq!(subjects(&found), ["apart"]);
    assert_eq!(found[0].trials[0].edits, "type apart\nalign n line\n");
    assert!(gains(&found[0]), "{:?}", found[0].trials);
    assert_eq!(found[0].concerns, ["apart"]);
    assert_eq!(
        subjects(&of_kind(RemedyKind::PadElements, round())),
        [""; 0]
    );
}

#[test]
fn elements_of_an_array_inside_a_type_are_padded() {
    let pool = object(Heap::Pool, 0);
    // CPU 0 sets all of them up.
    let round = |array: u64| {
        move |w: &mut World, number: u64| {
            for cpu in 0..4 {
                let own = pool + array + 8 * u64::from(cpu);
                if number == 0 {
                    w.store(0, F::Pool, own);
                }
                w.load_pointer(cpu, F::Pool, own);
                w.store(cpu, F::Pool, own);
            }
            w.wait(1000);
        }
    };
    for (array, name, path) in [(8, "each", "pool.each[]"), (40, "words", "pool.words[]")] {
        let found = of_kind(RemedyKind::PadElements, round(array));
        assert_eq!(subjects(&found), [path]);
        assert_eq!(
            found[0].trials[0].edits,
            format!("type pool\nalign {name} line\npad elements of {name} to line\n")
        );
        assert!(gains(&found[0]), "{:?}", found[0].trials);
    }
    // Both, by the same CPU each, and by others.
    let both = |turned: u64| {
        move |w: &mut World, _| {
            for cpu in 0..4 {
                w.store(cpu, F::Pool, pool + 8 + 8 * u64::from(cpu));
                w.store(
                    cpu,
                    F::Pool,
                    pool + 40 + 8 * ((u64::from(cpu) + turned) % 4),
                );
            }
            w.wait(1000);
        }
    };
    let found = of_kind(RemedyKind::PadElements, both(0));
    assert_eq!(subjects(&found), ["pool.each[], pool.words[]"]);
    let edits = |name: &str| format!("align {name} line\npad elements of {name} to line\n");
    assert_eq!(
        found[0].trials[0].edits,
        format!("type pool\n{}{}", edits("each"), edits("words"))
    );
    assert!(gains(&found[0]), "{:?}", found[0].trials);
    assert!(
        found[0]
            .advice
            .contains("one array of structs of each, words")
    );
    let apart = of_kind(RemedyKind::PadElements, both(1));
    let mut names = subjects(&apart);
    names.sort_unstable();
    assert_eq!(names, ["pool.each[]", "pool.words[]"]);
    // Written by all.
    let shared = |w: &mut World, _| {
        for (cpu, number) in (0..4).flat_map(|cpu| (0..4).map(move |number| (cpu, number))) {
            w.store(cpu, F::Pool, pool + 8 + 8 * number);
        }
    };
    assert_eq!(subjects(&of_kind(RemedyKind::PadElements, shared)), [""; 0]);
    // In several objects: a place is not an element.
    let several = |w: &mut World, number: u64| {
        for cpu in 0..4 {
            let pool = object(Heap::Pool, number % 2);
            w.load_pointer(cpu, F::Pool, pool + 8 + 8 * u64::from(cpu));
            w.store(cpu, F::Pool, pool + 8 + 8 * u64::from(cpu));
        }
    };
    assert_eq!(
        subjects(&of_kind(RemedyKind::PadElements, several)),
        [""; 0]
    );
}
