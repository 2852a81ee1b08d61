//! What-ifs of a synthetic recording: exact counts, nothing from nothing, the same result on any
//! number of threads.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;

use linemate_answers::{Measure, WhatIf};
use linemate_experiment::{Conditions, Seed};
use linemate_layout::{EditSubject, parse, parse_flags};
use linemate_machine::{Machine, Mechanism, find};
use linemate_recording::{AccessKind, Recording};
use linemate_session::Session;
use linemate_study::{Run, Study};
use linemate_testkit::world::{
    DIRECT, F, KMALLOC_SLAB, RQ, STATS, TASK_SLAB, UNITS, Variant, World, site,
};

const ROUNDS: u64 = 100;

/// CPU 0 writes nr_running of its `rq`, CPU 1 reads curr, on the same line; both use the lock.
fn recording() -> Recording {
    let mut w = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    for _ in 0..ROUNDS {
        w.access(0, AccessKind::Store, rq, 4, F::WakeTask, false);
        w.access(1, AccessKind::Load, rq + 8, 8, F::UpdateRq, false);
        w.access(0, AccessKind::Rmw, rq + 72, 4, F::WakeTask, false);
        w.access(1, AccessKind::Rmw, rq + 72, 4, F::UpdateRq, false);
    }
    w.record()
}

fn run(machine: &str) -> Run {
    let mut machine = find(machine).unwrap();
    // Fetching pairs of lines would mix what an edit separates, once.
    machine.adjacent_line_pairs = false;
    Run {
        machine,
        conditions: Conditions::default(),
        seed: Seed(1),
        interleavings: 8,
        all_interleavings: false,
        ablate: false,
    }
}

fn whatif_of(recording: &Recording, edits: &[&str], run: &Run) -> Result<WhatIf, String> {
    let session = Session::new(recording).unwrap();
    let flags: Vec<String> = edits.iter().map(|e| (*e).to_owned()).collect();
    let edits = parse_flags(EditSubject::Named("rq".into()), &flags).unwrap();
    let images = BTreeMap::new();
    let study = Study::new(&session, &edits, &images, &[]).map_err(|e| e.to_string())?;
    study.run(run).map_err(|e| e.to_string())
}

fn whatif(edits: &[&str]) -> WhatIf {
    whatif_of(&recording(), edits, &run("westmere-4s-80")).unwrap()
}

fn count(result: &WhatIf, cause: &str) -> (f64, f64) {
    let row = result.causes.iter().find(|row| row.name == cause);
    row.map_or((0.0, 0.0), |row| (row.count.without, row.count.with))
}

fn field(result: &WhatIf, name: &str) -> (f64, f64) {
    let row = result.fields.iter().find(|row| row.name == name).unwrap();
    (row.count.without, row.count.with)
}

#[test]
fn isolating_a_field_ends_its_false_sharing() {
    let result = whatif(&["isolate nr_running"]);
    assert_eq!(result.accesses, 4 * ROUNDS);
    let (without, with) = count(&result, "false_sharing");
    assert!(
        without > 1.5 * ROUNDS as f64,
        "both sides lose the line nearly each round: {without}"
    );
    assert_eq!(with, 0.0);
    let (before, after) = count(&result, "true_sharing");
    assert_eq!(before, after, "the lock is not helped");
    assert_eq!(field(&result, "nr_running").1, 0.0, "it stays its own");
    assert_eq!(field(&result, "curr").1, 0.0);
    assert!(
        result.types.significant && result.types.difference < 0.0,
        "{:?}",
        result.types
    );
    assert_eq!(
        result.types.difference, result.whole.difference,
        "nothing else was touched"
    );
    let size = &result.sizes[0];
    assert_eq!((size.without_bytes, size.with_bytes), (128, 192));
    assert_eq!((size.without_lines, size.with_lines), (2, 3));
    assert_eq!((result.relocated, result.skipped), (1, 0));
    let potential = &result.potential;
    let shares = potential.true_sharing
        + potential.false_sharing
        + potential.cold
        + potential.capacity
        + potential.unshared;
    assert!((shares - 1.0).abs() < 1e-9, "{potential:?}");
}

#[test]
fn an_edit_that_changes_nothing_has_no_effect_at_all() {
    let result = whatif(&["order nr_running curr"]);
    for measure in [
        result.types,
        result.whole,
        result.duration,
        result.time.cycles,
    ] {
        assert_eq!(
            (measure.difference, measure.ci95, measure.significant),
            (0.0, 0.0, false)
        );
    }
    assert!(result.fields.iter().all(|row| row.cycles.difference == 0.0));
    // Nor has one that moves what nobody uses to where nobody is hurt.
    let unused = whatif(&["pad after lock 8"]);
    assert_eq!((unused.types.difference, unused.relocated), (0.0, 0));
}

/// Two CPUs, whose instructions, stalls and waiting are all that their time consists of. Each has
/// two accesses in a turn: without marks of turns, instructions are counted up to a turn's last
/// access.
#[test]
fn time_is_instructions_stalls_and_waiting_for_lines() {
    let mut w = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    for _ in 0..ROUNDS {
        w.access(0, AccessKind::Store, rq, 4, F::WakeTask, false);
        w.access(0, AccessKind::Rmw, rq + 72, 4, F::WakeTask, false);
        w.access(1, AccessKind::Load, rq + 8, 8, F::UpdateRq, false);
        w.access(1, AccessKind::Rmw, rq + 72, 4, F::UpdateRq, false);
    }
    let result = whatif_of(&w.record(), &["isolate nr_running"], &run("westmere-4s-80")).unwrap();
    let time = &result.time;
    assert_eq!(time.cpus, 2);
    assert!(
        time.cycles.difference < 0.0 && time.cycles.significant,
        "{time:?} {:?}",
        result.types
    );
    // What the type saves counts once: without waiting, of which the type's cost has the replay's
    // own.
    let stalls = time.cycles.difference - time.waiting.difference;
    let of_type = result.types.difference;
    assert!((stalls / of_type - 1.0).abs() < 0.05, "{stalls} {of_type}");
    for (all, waiting, bound) in [
        (
            time.cycles.without,
            time.waiting.without,
            time.bound.without,
        ),
        (time.cycles.with, time.waiting.with, time.bound.with),
    ] {
        assert!(all >= bound && all > waiting, "{time:?}");
    }
    assert!(time.waiting.without > 0.0 && time.busiest.without < 1.0);
    assert!(time.memory > 0.0 && time.memory < 1.0);
}

#[test]
fn removed_fields_take_their_accesses_along() {
    let result = whatif(&["remove nr_running"]);
    assert_eq!(result.skipped, ROUNDS);
    assert_eq!(count(&result, "false_sharing").1, 0.0);
    assert_eq!(field(&result, "nr_running").1, 0.0);
}

#[test]
fn silent_stores_become_loads_and_no_other_store_does() {
    let mut w = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    for _ in 0..ROUNDS {
        w.silent_store_at(0, rq, site(F::WakeTask));
        w.access(1, AccessKind::Load, rq, 4, F::UpdateRq, false);
        w.access(0, AccessKind::Store, rq + 72, 4, F::WakeTask, false);
        w.access(1, AccessKind::Load, rq + 72, 4, F::UpdateRq, false);
    }
    let recording = w.record();
    let with = |edits: &[&str], field_name: &str| {
        let result = whatif_of(&recording, edits, &run("westmere-4s-80")).unwrap();
        field(&result, field_name)
    };
    let (before, after) = with(&["skip silent stores of nr_running"], "nr_running");
    assert!(before > 1.5 * ROUNDS as f64, "{before}");
    assert_eq!(after, 0.0, "each CPU has it");
    let (before, after) = with(&["skip silent stores of lock"], "lock");
    assert_eq!(before, after);
}

/// Tasks and entities that belong together: each CPU touches one of each, one directly after the
/// other.
fn partners() -> Recording {
    let mut w = World::with_chunks_of(64);
    let task = |i: u64| TASK_SLAB + 256 * i;
    let entity = |i: u64| KMALLOC_SLAB + 64 * i;
    for i in 0..3 {
        w.sight(F::WakeTask, task(i));
        w.sight(F::UpdateEntity, entity(i));
    }
    for _ in 0..ROUNDS {
        for cpu in [0, 1] {
            let own = u64::from(cpu);
            w.load(cpu, task(own));
            w.store(cpu, entity(own));
        }
    }
    // A task without a partner; an entity that both CPUs count in.
    w.load(0, task(2));
    for _ in 0..ROUNDS {
        for cpu in [0, 1] {
            w.rmw(cpu, entity(2) + 4);
        }
    }
    w.record()
}

fn of_partners(edits: &str) -> WhatIf {
    let recording = partners();
    let session = Session::new(&recording).unwrap();
    let edits = parse(edits).unwrap();
    let images = BTreeMap::new();
    let study = Study::new(&session, &edits, &images, &[]).unwrap();
    study.run(&run("westmere-4s-80")).unwrap()
}

#[test]
fn objects_that_are_used_together_are_paired_whichever_is_named_first() {
    for edits in ["colocate task entity", "colocate entity task"] {
        let result = of_partners(edits);
        let [paired] = result.paired[..] else {
            panic!("{:?}", result.paired)
        };
        // The third entity is touched directly after the third task, though not most often together
        // with anything.
        assert_eq!((paired.pairs, result.relocated), (3, 6), "{edits}");
        assert_eq!((paired.first_alone, paired.second_alone), (0, 0));
    }
}

#[test]
fn copies_for_each_cpu_end_all_sharing_of_the_type() {
    let result = of_partners("percpu entity");
    let (before, after) = count(&result, "true_sharing");
    assert!(before > ROUNDS as f64, "both CPUs count in one: {before}");
    assert_eq!(after, 0.0);
}

#[test]
fn ablation_gives_each_edit_its_share() {
    let edits = ["isolate nr_running", "align lock line"];
    let result = whatif_of(
        &recording(),
        &edits,
        &Run {
            ablate: true,
            ..run("westmere-4s-80")
        },
    )
    .unwrap();
    let [isolate, align] = &result.ablation[..] else {
        panic!("{:?}", result.ablation)
    };
    assert_eq!(
        (isolate.edit.as_str(), align.edit.as_str()),
        (edits[0], edits[1])
    );
    for one in [isolate, align] {
        assert_eq!(one.alone.unwrap().without, result.types.without);
        assert_eq!(one.last.unwrap().with, result.types.with);
    }
    assert!(isolate.alone.unwrap().significant && isolate.last.unwrap().significant);
    assert!(isolate.alone.unwrap().difference < 0.0);
    // The lock has a line that nothing else uses either way.
    assert_eq!(
        (
            align.alone.unwrap().difference,
            align.last.unwrap().difference
        ),
        (0.0, 0.0)
    );
    // An edit that needs another one says so.
    let edits = ["group g { nr_running }", "move g last"];
    let result = whatif_of(
        &recording(),
        &edits,
        &Run {
            ablate: true,
            ..run("westmere-4s-80")
        },
    )
    .unwrap();
    let moved = &result.ablation[1];
    assert_eq!(moved.alone, None);
    let why = moved.why_not.as_deref().unwrap();
    assert!(why.contains("there is no field or group `g`"), "{why}");
}

/// As [`recording`]; and user code of CPU 1 goes through that many lines of its memory.
fn recording_with_user_code(lines: u64) -> Recording {
    let mut w = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    for line in 0..lines {
        w.user_access(1, AccessKind::Load, DIRECT + 11 * 4096 + 64 * line);
        w.access(0, AccessKind::Store, rq, 4, F::WakeTask, false);
        w.access(1, AccessKind::Load, rq + 8, 8, F::UpdateRq, false);
    }
    w.record()
}

#[test]
fn misses_of_the_last_level_cache_are_counted_by_who_had_them() {
    let on = |edit, llc_share, cold| {
        let run = Run {
            conditions: Conditions {
                llc_share,
                cold,
                ..Conditions::default()
            },
            ..run("gnr-2s-480")
        };
        // What a streamer fetches of the user's lines would not be missed.
        let machine = run
            .machine
            .with_only(|mechanism| mechanism == Mechanism::AdjacentLinePairs);
        let run = Run { machine, ..run };
        whatif_of(&recording_with_user_code(40), &[edit], &run).unwrap()
    };
    let result = on("isolate nr_running", false, true);
    let misses = result.llc_misses;
    // Two CPUs are on two sockets: nothing that one takes from the other is a hit.
    let of_types: f64 = result
        .sources
        .iter()
        .filter(|row| !["l1", "l2", "llc", "hitm_domain", "upgrade"].contains(&row.name.as_str()))
        .map(|row| row.count.without)
        .sum();
    assert_eq!(misses.types.without, of_types);
    assert!(of_types > 20.0, "{of_types}");
    assert_eq!(misses.types.with, 2.0, "each CPU misses its line once");
    // 40 lines of user code's own, of which no edit takes one away.
    assert_eq!(misses.whole.with, 42.0);
    assert_eq!((misses.kernel.with, misses.kernel.without), (2.0, of_types));
    assert_eq!(misses.kernel.difference, misses.whole.difference);
    assert_eq!(misses.user_loads.with, 40.0);
    let kinds = [
        misses.kernel_loads,
        misses.kernel_stores,
        misses.kernel_rmws,
    ];
    let sum = |figure: fn(&Measure) -> f64| kinds.iter().map(figure).sum::<f64>();
    assert_eq!(sum(|m| m.without), misses.kernel.without);
    assert_eq!(sum(|m| m.with), misses.kernel.with);
    // One CPU only loads, the other only stores.
    assert_eq!([1.0, 1.0, 0.0], kinds.map(|m| m.with));
    // Nothing comes twice, so a smaller cache misses no more.
    assert_eq!(on("isolate nr_running", true, true).llc_misses, misses);
    // All of it is there when it comes again.
    let warm = on("isolate nr_running", false, false).llc_misses;
    assert_eq!((warm.whole.with, warm.user_loads.without), (0.0, 0.0));
    assert!(warm.kernel_loads.without > 20.0, "{warm:?}");
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let recording = recording();
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| whatif_of(&recording, &["isolate nr_running"], &run("gnr-2s-480")).unwrap())
    };
    let one = on(1);
    assert_eq!(one, on(3));
    assert_eq!(one, on(1));
}

/// A hundred times as many accesses to other memory as to what is edited, whose lines evict each
/// other from L1 and L2: what CPUs save by an edit is little of their time.
fn access_others(w: &mut World, cpu: u16, round: u64) {
    for other in 0..200 {
        let page = round % 30 * 400 + u64::from(cpu) * 200 + other;
        let addr = DIRECT + 0x10_0000 + page * 4096;
        w.access(cpu, AccessKind::Load, addr, 8, F::UpdateRq, false);
    }
}

fn recording_among_others() -> Recording {
    let mut w = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    for round in 0..ROUNDS {
        for cpu in [0, 1] {
            let (kind, field, function) = match cpu {
                0 => (AccessKind::Store, 0, F::WakeTask),
                _ => (AccessKind::Load, 8, F::UpdateRq),
            };
            w.access(cpu, kind, rq + field, 4, function, false);
            w.access(cpu, AccessKind::Rmw, rq + 72, 4, function, false);
            access_others(&mut w, cpu, round);
        }
    }
    w.record()
}

#[test]
fn what_an_edit_changes_is_what_whole_replays_find() {
    let recording = recording_among_others();
    let mut machine = find("westmere-4s-80").unwrap();
    (machine.l2_streamer, machine.l1_stride, machine.overlap) = (None, None, None);
    let run = |exact| Run {
        machine: machine.clone(),
        conditions: Conditions {
            exact,
            ..Conditions::default()
        },
        all_interleavings: true,
        ..run("westmere-4s-80")
    };
    for edits in [
        &["isolate nr_running"][..],
        &["move curr last"],
        &["isolate lock"],
    ] {
        let difference = whatif_of(&recording, edits, &run(false)).unwrap();
        let whole = whatif_of(&recording, edits, &run(true)).unwrap();
        assert!(
            difference.by_difference && !whole.by_difference,
            "{edits:?}"
        );
        assert_eq!(difference.types.without, whole.types.without, "{edits:?}");
        assert_eq!(difference.types_accesses, whole.types_accesses);
        let (found, expected) = (difference.types.with, whole.types.with);
        let off = (found - expected).abs() / whole.types.without;
        assert!(off < 0.003, "{edits:?}: {found} for {expected}");
        assert!(difference.whole.ci95 <= whole.whole.ci95, "{edits:?}");
    }
}

/// What is next to an edited object on its line is not edited, and has another history with it.
#[test]
fn neighbours_on_an_edited_line_are_replayed_with_it() {
    let mut w = World::of(Variant {
        pointers: true,
        ..Variant::default()
    });
    let vector = UNITS[0] + STATS;
    for round in 0..ROUNDS {
        w.access(0, AccessKind::Store, vector, 4, F::WakeTask, false);
        access_others(&mut w, 0, round);
        // Behind the 40 bytes of the struct.
        w.access(1, AccessKind::Load, vector + 48, 8, F::UpdateRq, false);
        access_others(&mut w, 1, round);
    }
    let recording = w.record();
    let mut machine = find("westmere-4s-80").unwrap();
    (machine.l2_streamer, machine.l1_stride, machine.overlap) = (None, None, None);
    let found = |exact| {
        let conditions = Conditions {
            exact,
            ..Conditions::default()
        };
        let run = Run {
            machine: machine.clone(),
            conditions,
            all_interleavings: true,
            ..run("westmere-4s-80")
        };
        whatif_of(&recording, &["type vector; isolate count"], &run).unwrap()
    };
    let (difference, whole) = (found(false), found(true));
    assert!(difference.by_difference && !whole.by_difference);
    let (found, expected) = (
        count(&difference, "false_sharing"),
        count(&whole, "false_sharing"),
    );
    assert_eq!(found, expected);
    assert!(found.0 > 0.5 * ROUNDS as f64 && found.1 == 0.0, "{found:?}");
    // The neighbour's misses end with those of the object.
    let saved = |result: &WhatIf| result.whole.difference;
    assert!(saved(&whole) < 1.5 * whole.types.difference);
    let off = (saved(&difference) - saved(&whole)).abs() / whole.types.without;
    assert!(off < 0.003, "{} for {}", saved(&difference), saved(&whole));
}

#[test]
fn lines_of_128_bytes_get_a_layout_for_128() {
    let machine: Machine = find("power11").unwrap();
    assert_eq!(machine.line.bytes(), 128);
    let result = whatif_of(&recording(), &["isolate nr_running"], &run("power11")).unwrap();
    let size = &result.sizes[0];
    assert_eq!(
        (size.recorded_bytes, size.without_bytes, size.with_bytes),
        (128, 256, 384)
    );
    assert_eq!(count(&result, "false_sharing").1, 0.0);
}

#[test]
fn cloned_cpus_have_their_own_runqueues() {
    let once = whatif(&["isolate nr_running"]);
    let twice = whatif_of(
        &recording(),
        &["isolate nr_running"],
        &Run {
            conditions: Conditions {
                cpus: Some(4),
                ..Conditions::default()
            },
            ..run("westmere-4s-80")
        },
    )
    .unwrap();
    assert_eq!((twice.cpus, twice.recorded_cpus), (4, 2));
    // Two pairs of CPUs, each with its own runqueue: twice the misses, none across.
    assert_eq!(
        field(&twice, "nr_running").1,
        2.0 * field(&once, "nr_running").1
    );
    let refused = whatif_of(
        &recording(),
        &["isolate nr_running"],
        &Run {
            conditions: Conditions {
                cpus: Some(5),
                ..Conditions::default()
            },
            ..run("westmere-4s-80")
        },
    );
    assert_eq!(
        refused.unwrap_err(),
        "5 CPUs are not a multiple of the 2 recorded ones: the nearest is 6"
    );
}

#[test]
fn what_cannot_be_is_refused() {
    let refused =
        |edits: &[&str]| whatif_of(&recording(), edits, &run("westmere-4s-80")).unwrap_err();
    assert_eq!(refused(&[]), "nothing to compare: there are no edits");
    assert_eq!(
        refused(&["move currr last"]),
        "1:1: rq: there is no field or group `currr`; the nearest: curr"
    );
    assert_eq!(
        refused(&["percpu entity"]),
        "the recording has no access to any entity: was it recorded with a workload that uses it?"
    );
    assert_eq!(
        refused(&["reuse RMW of lock in update_r"]),
        "there is no function `update_r` with code of its own: if it is inlined, name a caller; the nearest: update_rq"
    );
    let few = whatif_of(
        &recording(),
        &["isolate lock"],
        &Run {
            interleavings: 7,
            ..run("westmere-4s-80")
        },
    );
    assert_eq!(
        few.unwrap_err(),
        "7 interleavings are too few for a 95 % confidence interval: at least 8"
    );
}
