//! Which sets a type's lines reach, as recorded and under edits: exact counts on small caches.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;

use linemate_answers::{SetCounts, SetMeans, TypeSets, WhatIf};
use linemate_experiment::{Conditions, Seed};
use linemate_layout::{EditSubject, parse};
use linemate_machine::{Machine, find};
use linemate_recording::{AccessKind, Recording};
use linemate_session::Session;
use linemate_session::progress::Silent;
use linemate_session::shelf::{self, InMemory};
use linemate_study::costs::{CostRun, costs};
use linemate_study::{Run, Study};
use linemate_testkit::world::{F, RQ, TASK_SLAB, UNITS, World};

const TASK_BYTES: u64 = 256;
/// `prio` is on the last of a task's four lines.
const PRIO: u64 = 200;

/// CPU 0 uses every fourth task of a slab, CPU 1 two others; both use CPU 0's `rq`.
fn recording() -> Recording {
    let mut w = World::new();
    let task = |number: u64| TASK_SLAB + number * TASK_BYTES;
    for number in 0..16 {
        w.sight(F::WakeTask, task(number));
    }
    for _ in 0..20 {
        for (cpu, numbers) in [(0, &[0, 4, 8, 12][..]), (1, &[1, 2])] {
            for number in numbers {
                let prio = task(*number) + PRIO;
                w.access(cpu, AccessKind::Load, prio, 4, F::WakeTask, false);
            }
            w.access(cpu, AccessKind::Load, UNITS[0] + RQ, 4, F::UpdateRq, false);
        }
    }
    w.record()
}

/// An L1 of 8 sets and one way, an L2 of 16 sets and two ways: 1 KiB a way.
fn machine() -> Machine {
    let mut machine = find("westmere-4s-80").unwrap();
    machine.adjacent_line_pairs = false;
    (machine.l1.sets, machine.l1.ways) = (8, 1);
    (machine.l2.sets, machine.l2.ways) = (16, 2);
    machine
}

fn whatif(recording: &Recording, edits: &str, seed: u64) -> WhatIf {
    asked(&Session::new(recording).unwrap(), edits, seed)
}

fn asked(session: &Session<'_>, edits: &str, seed: u64) -> WhatIf {
    let edits = parse(edits).unwrap();
    let images = BTreeMap::new();
    let rq = [EditSubject::Named("rq".into())];
    let study = Study::new(session, &edits, &images, &rq).unwrap();
    let run = Run {
        machine: machine(),
        conditions: Conditions::default(),
        seed: Seed(seed),
        interleavings: 8,
        all_interleavings: false,
        ablate: false,
    };
    study.run(&run).unwrap()
}

fn counts(lines: u64, reached: u64, fullest: u64, beyond: u64) -> SetCounts {
    SetCounts {
        lines,
        reached,
        fullest,
        beyond,
    }
}

fn means(lines: f64, reached: f64, fullest: f64, beyond: f64) -> SetMeans {
    SetMeans {
        lines,
        reached,
        fullest,
        beyond,
    }
}

#[test]
fn lines_of_the_busiest_cpu_and_their_mean_are_counted() {
    let recording = recording();
    let session = Session::new(&recording).unwrap();
    let machine = machine();
    let run = CostRun {
        machine: &machine,
        conditions: Conditions::default(),
        seed: Seed(1),
        sources: false,
    };
    let of = |name: &str| -> Option<TypeSets> {
        let subject = EditSubject::Named(name.into());
        costs(&session, Some(&subject), run).unwrap().sets
    };
    let task = of("task").unwrap();
    assert_eq!((task.cpu, task.cpus), (0, 2));
    assert_eq!((task.l2.sets, task.l2.ways), (16, 2));
    // CPU 0's four lines are 1 KiB apart, CPU 1's two 256 bytes.
    assert_eq!(task.l2.most, counts(4, 1, 4, 2));
    assert_eq!(task.l2.mean, means(3.0, 1.5, 2.5, 1.0));
    // In L1 everything is in line 3 or 7 of eight.
    assert_eq!(task.l1.most, counts(4, 1, 4, 3));
    assert_eq!(task.l1.mean, means(3.0, 1.5, 2.5, 1.5));
    // The hash of the last-level cache spreads them.
    assert_eq!((task.llc.most.lines, task.llc.most.beyond), (4, 0));
    let rq = of("rq").unwrap();
    assert_eq!((rq.cpu, rq.cpus), (0, 2));
    assert_eq!(rq.l2.most, counts(1, 1, 1, 0));
    assert_eq!(costs(&session, None, run).unwrap().sets, None);
}

#[test]
fn sets_as_recorded_are_kept() {
    let recording = recording();
    let machine = machine();
    let shelf = InMemory::default();
    let sets = |name: &str| {
        let session = Session::open(&recording, Box::new(shelf.clone()), Box::new(Silent)).unwrap();
        let subject = EditSubject::Named(name.into());
        let run = CostRun {
            machine: &machine,
            conditions: Conditions::default(),
            seed: Seed(1),
            sources: false,
        };
        costs(&session, Some(&subject), run).unwrap().sets.unwrap()
    };
    let stored = || {
        let all = shelf.take_stored().into_iter();
        all.filter(|name| name.starts_with("sets"))
            .collect::<Vec<_>>()
    };
    let found = sets("task");
    let [part] = &stored()[..] else {
        panic!("one part is kept");
    };
    // What is kept is given: another CPU here shows that nothing was counted again.
    let other = TypeSets { cpu: 7, ..found };
    let content = [
        vec![vec![Some(other)]],
        vec![vec![None, Some(other)]],
        vec![],
    ];
    let given = content.map(|content| {
        shelf.with(|parts| parts.insert(part.clone(), shelf::pack(&content).unwrap()));
        sets("task")
    });
    // Of another number of types or variants it is not of this question.
    assert_eq!(given, [other, found, found]);
    assert_eq!(stored(), [part.clone(), part.clone()]);
    assert_ne!(sets("rq"), found);
    assert_eq!(stored().len(), 1);
}

#[test]
fn sets_under_edits_are_not_kept() {
    let recording = recording();
    let shelf = InMemory::default();
    let open = || Session::open(&recording, Box::new(shelf.clone()), Box::new(Silent)).unwrap();
    for edits in ["allocate-percpu task", "type task\nmove prio first"] {
        let again = asked(&open(), edits, 1).sets;
        assert_eq!(again, whatif(&recording, edits, 1).sets, "{edits}");
    }
    assert!(
        shelf
            .take_stored()
            .iter()
            .all(|name| !name.starts_with("sets"))
    );
}

#[test]
fn an_edit_changes_the_sets_of_what_it_moves_alone() {
    let recording = recording();
    let result = whatif(&recording, "allocate-percpu task", 1);
    let names: Vec<&str> = result.sets.iter().map(|sets| &*sets.name).collect();
    assert_eq!(names, ["task", "rq"]);
    let (without, with) = (
        result.sets[0].without.unwrap(),
        result.sets[0].with.unwrap(),
    );
    assert_eq!(without.l2.most, counts(4, 1, 4, 2));
    assert_eq!(without.l2.mean, means(3.0, 1.5, 2.5, 1.0));
    // One after the other in a page.
    assert_eq!(with.l2.most, counts(4, 4, 1, 0));
    assert_eq!(with.l2.mean, means(3.0, 3.0, 1.0, 0.0));
    assert_eq!(result.sets[1].without, result.sets[1].with);
    // Six tasks have an owner; what was out of room is cold alone now.
    assert_eq!(result.relocated, 6);
    let capacity = result.causes.iter().find(|row| row.name == "capacity");
    let capacity = capacity.map(|row| (row.count.without > 0.0, row.count.with));
    assert_eq!(capacity, Some((true, 0.0)));
}

#[test]
fn the_seed_decides_about_frames_and_nothing_else_does() {
    let recording = recording();
    let sets = |seed| whatif(&recording, "allocate-percpu task", seed).sets;
    assert_eq!(sets(7), sets(7));
    // Pages are larger than this L2: sets within a page stay; the hash of the last-level cache
    // separates frames.
    let reached = |seed| sets(seed)[0].with.unwrap().l2;
    assert_eq!(reached(7), reached(8));
}
