//! What is stored of a recording gives the same answers as the recording: costs as recorded are
//! those of a replay of everything, and a session that starts from a shelf does not read the
//! recording.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use linemate_answers::{Costs, WhatIf};
use linemate_experiment::scene::{self, Scene, Slice, Watch};
use linemate_experiment::{Conditions, Seed};
use linemate_layout::{EditSubject, parse_flags};
use linemate_machine::{LineSize, Machine, find};
use linemate_recording::{AccessKind, Recording};
use linemate_replay::SliceHead;
use linemate_session::Session;
use linemate_session::progress::{Progress, Silent, Step, StepParts};
use linemate_session::shelf::InMemory;
use linemate_study::costs::{CostRun, costs};
use linemate_study::{Run, Study};
use linemate_testkit::world::{APIC, Contents, F, KMALLOC_SLAB, NOHZ, RQ, UNITS, World};
use proptest::prelude::*;

/// The kinds of the parts stored since the last call.
fn stored(shelf: &InMemory) -> Vec<String> {
    let kind = |name: String| name.split('-').next().unwrap_or("").to_owned();
    shelf.take_stored().into_iter().map(kind).collect()
}

fn machine(line: LineSize) -> Machine {
    let mut machine = find("westmere-4s-80").unwrap();
    machine.line = line;
    machine.adjacent_line_pairs = false;
    machine
}

fn asked(session: &Session<'_>, machine: &Machine, conditions: Conditions) -> Costs {
    let run = CostRun {
        machine,
        conditions,
        seed: Seed(1),
        sources: false,
    };
    costs(session, None, run).unwrap()
}

fn edited(session: &Session<'_>) -> WhatIf {
    let subject = EditSubject::Named("rq".into());
    let edits = parse_flags(subject, &["isolate nr_running".to_owned()]).unwrap();
    let images = BTreeMap::new();
    let study = Study::new(session, &edits, &images, &[]).unwrap();
    let run = Run {
        machine: machine(LineSize::B64),
        conditions: Conditions::default(),
        seed: Seed(1),
        interleavings: 8,
        all_interleavings: false,
        ablate: false,
    };
    study.run(&run).unwrap()
}

/// (CPU, place, kind) of accesses.
type Accesses = Vec<(u16, usize, u8)>;

/// A line and the one after it in a run queue, another run queue, a shared variable; a page without
/// a type and a device.
const PLACES: [[u64; 3]; 4] = [
    [UNITS[0] + RQ, UNITS[0] + RQ + 8, UNITS[0] + RQ + 72],
    [UNITS[1] + RQ, UNITS[1] + RQ + 64, UNITS[1] + RQ + 8],
    [NOHZ, NOHZ + 8, NOHZ + 4],
    [0xffff_8880_0010_0000, 0xffff_8880_0010_0008, APIC],
];

/// Of two CPUs; `together`: threads of one core.
fn recording(accesses: &Accesses, together: bool) -> Recording {
    let places = PLACES.concat();
    let mut w = World::with_chunks_of(16);
    for (cpu, place, kind) in accesses {
        let kind = [AccessKind::Load, AccessKind::Store, AccessKind::Rmw][usize::from(*kind)];
        w.access(*cpu, kind, places[*place], 4, F::UpdateRq, false);
    }
    let mut contents = Contents::new();
    if together {
        contents.metadata.insert("threads".into(), "2".into());
    }
    w.record_of(true, contents)
}

fn accesses() -> impl Strategy<Value = Accesses> {
    // Runs of one CPU at one of the groups, so that there is something to leave out.
    let run = (
        0u16..2,
        0usize..4,
        prop::collection::vec((0usize..3, 0u8..3), 1..9),
    );
    prop::collection::vec(run, 1..60).prop_map(|runs| {
        let of_run = |(cpu, group, accesses): (u16, usize, Vec<(usize, u8)>)| {
            let access = move |(place, kind)| (cpu, 3 * group + place, kind);
            accesses.into_iter().map(access)
        };
        runs.into_iter().flat_map(of_run).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn costs_are_those_of_a_replay_of_everything(
        accesses in accesses(),
        together in any::<bool>(),
        wide in any::<bool>(),
        cold in any::<bool>(),
    ) {
        let recording = recording(&accesses, together);
        let session = Session::new(&recording).unwrap();
        let mut machine = machine(if wide { LineSize::B128 } else { LineSize::B64 });
        // So that the order of use in a set matters: both run queues are in the same one.
        machine.l1.ways = 1;
        let conditions = Conditions { cold, ..Conditions::default() };
        let exact = Conditions { exact: true, ..conditions };
        prop_assert_eq!(asked(&session, &machine, conditions), asked(&session, &machine, exact));
    }
}

fn contended() -> Recording {
    let all = (0..200).flat_map(|_| {
        [
            (0, 0, 1),
            (0, 0, 0),
            (0, 1, 1),
            (1, 1, 0),
            (1, 2, 2),
            (1, 5, 0),
        ]
    });
    recording(&all.collect(), false)
}

#[test]
fn a_later_session_stores_nothing_and_answers_the_same() {
    let recording = contended();
    let shelf = InMemory::default();
    let open = || Session::open(&recording, Box::new(shelf.clone()), Box::new(Silent)).unwrap();
    let lines = [LineSize::B64, LineSize::B128].map(machine);
    let answers = |session: &Session<'_>| {
        let costs = lines
            .each_ref()
            .map(|m| asked(session, m, Conditions::default()));
        (costs, edited(session))
    };
    let first = answers(&open());
    let expected = [
        "counts",
        "stream64",
        "outcomes",
        "stream128",
        "outcomes",
        "outcomes",
    ];
    assert_eq!(stored(&shelf), expected);
    let later = open();
    assert_eq!(answers(&later), first);
    assert!(stored(&shelf).is_empty());
    assert_eq!(later.counted().tally.ledger().total(), 1200);
    let without = Session::new(&recording).unwrap();
    assert_eq!(answers(&without), first);
}

/// Parts that were kept of another recording: the shelf must not give them, and no answer may hang
/// on it.
#[test]
fn what_cannot_be_is_made_again() {
    let recording = contended();
    let shelf = InMemory::default();
    let open = || Session::open(&recording, Box::new(shelf.clone()), Box::new(Silent)).unwrap();
    let machine = machine(LineSize::B64);
    let expected = asked(&open(), &machine, Conditions::default());
    for part in ["counts", "stream64"] {
        for bytes in [Vec::new(), vec![0; 4], vec![0xff; 4000]] {
            stored(&shelf);
            shelf.with(|parts| parts.retain(|name, _| !name.starts_with("outcomes")));
            shelf.with(|parts| parts.insert(part.to_owned(), bytes));
            assert_eq!(asked(&open(), &machine, Conditions::default()), expected);
            assert_eq!(stored(&shelf), [part, "outcomes"]);
        }
    }
    for bytes in [Vec::new(), vec![0; 4], vec![0xff; 4000]] {
        shelf.with(|parts| {
            let outcomes = parts
                .iter_mut()
                .filter(|(name, _)| name.starts_with("outcomes"));
            outcomes.for_each(|(_, kept)| kept.clone_from(&bytes));
        });
        assert_eq!(asked(&open(), &machine, Conditions::default()), expected);
        assert_eq!(stored(&shelf), ["outcomes"]);
    }
}

/// Another machine, other CPUs, caches or seeds have outcomes of their own, and an exact replay
/// asks for none.
#[test]
fn an_outcome_is_kept_for_its_own_question() {
    let recording = contended();
    let shelf = InMemory::default();
    let open = || Session::open(&recording, Box::new(shelf.clone()), Box::new(Silent)).unwrap();
    let (here, mut slower) = (machine(LineSize::B64), machine(LineSize::B64));
    slower.latency.l1 += 1;
    let plain = Conditions::default();
    let clones = Conditions {
        cpus: Some(4),
        ..plain
    };
    let share = Conditions {
        llc_share: true,
        ..plain
    };
    let exact = Conditions {
        exact: true,
        ..plain
    };
    let cold = Conditions {
        cold: true,
        ..plain
    };
    let questions = [
        (&here, plain, 1),
        (&slower, plain, 1),
        (&here, clones, 1),
        (&here, share, 1),
        (&here, cold, 1),
        (&here, exact, 1),
        (&here, plain, 2),
    ];
    for (machine, conditions, seed) in questions {
        let run = CostRun {
            machine,
            conditions,
            seed: Seed(seed),
            sources: false,
        };
        let alone = costs(&Session::new(&recording).unwrap(), None, run).unwrap();
        for _ in 0..2 {
            assert_eq!(costs(&open(), None, run).unwrap(), alone);
        }
    }
    let kept = stored(&shelf);
    let outcomes = kept.iter().filter(|part| *part == "outcomes");
    assert_eq!(outcomes.count(), 6, "{kept:?}");
    let of_outcomes = |name: &&String| name.starts_with("outcomes");
    let questions = shelf.with(|parts| parts.keys().filter(of_outcomes).count());
    assert_eq!(questions, 5, "two seeds of one question are together");
}

/// Notes each step, the parts it was said to have and those that were done.
#[derive(Clone, Debug, Default)]
struct Noted(Arc<Mutex<Vec<(Step, u64, u64)>>>);

impl Progress for Noted {
    fn begin(&self, step: Step, parts: StepParts) {
        self.0.lock().unwrap().push((step, parts.0, 0));
    }
    fn advance(&self, parts: StepParts) {
        self.0.lock().unwrap().last_mut().unwrap().2 += parts.0;
    }
}

#[test]
fn every_step_is_reported_and_ends_when_all_its_parts_are_done() {
    let recording = contended();
    let noted = Noted::default();
    let session = Session::open(
        &recording,
        Box::new(InMemory::default()),
        Box::new(noted.clone()),
    )
    .unwrap();
    let machine = machine(LineSize::B64);
    asked(&session, &machine, Conditions::default());
    edited(&session);
    let exact = Conditions {
        exact: true,
        ..Conditions::default()
    };
    asked(&session, &machine, exact);
    let steps = noted.0.lock().unwrap().clone();
    let names: Vec<Step> = steps.iter().map(|(step, ..)| *step).collect();
    let replaying = [Step::Replaying; 3];
    assert_eq!(names[..3], [Step::Naming, Step::Counting, Step::Choosing]);
    assert_eq!(names[3..], replaying);
    for (step, parts, done) in steps {
        assert!(parts > 0, "{step:?}");
        assert_eq!(done, parts, "{step:?}");
    }
}

/// By subject: whether it is of that type.
fn of_type(session: &Session<'_>, name: &str) -> Vec<bool> {
    let ids = session.analysis().schema().named(name);
    let subjects = session.analysis().subjects().iter();
    let is = |ty| ids.contains(&ty);
    subjects.map(|subject| subject.ty.is_some_and(is)).collect()
}

/// A slice, and its steps.
type Kept = (SliceHead, Vec<scene::Step>);

/// All rounds of the accesses to these subjects.
fn rounds(session: &Session<'_>, only: &[bool], line: LineSize) -> Vec<Vec<Kept>> {
    let scene = Scene::new(session, &Watch::default()).unwrap();
    let mut all = Vec::new();
    let take = |rounds: &[Vec<Slice<'_>>]| {
        let slices = |round: &Vec<Slice<'_>>| {
            let slices = round.iter().map(|(head, steps)| (*head, steps.to_vec()));
            slices.collect()
        };
        all.extend(rounds.iter().map(slices));
    };
    scene.rounds(line, only, take).unwrap();
    let steps = all.iter().flatten().map(|(_, steps): &Kept| steps.len());
    assert!(steps.sum::<usize>() > 0);
    all
}

/// A few accesses to two types, most to untyped memory.
fn two_types() -> Recording {
    let mut w = World::with_chunks_of(64);
    let entity = KMALLOC_SLAB;
    w.sight(F::UpdateEntity, entity);
    for round in 0..400 {
        for cpu in 0..2 {
            w.turn(cpu);
            // Long slices, of which an edit is a small part.
            w.wait(20_000);
            // Its own queue: all but the first hit for sure.
            let rq = UNITS[usize::from(cpu)] + RQ;
            w.access(cpu, AccessKind::Store, rq, 4, F::WakeTask, false);
            for _ in 0..3 {
                w.access(cpu, AccessKind::Load, rq, 4, F::WakeTask, false);
                w.access(cpu, AccessKind::Load, rq + 8, 8, F::UpdateRq, false);
            }
            w.access(cpu, AccessKind::Rmw, entity, 8, F::UpdateEntity, false);
            w.access(
                cpu,
                AccessKind::Load,
                entity + 40,
                4,
                F::UpdateEntity,
                false,
            );
            let other = UNITS[usize::from(1 - cpu)] + RQ;
            if round % 8 == 0 {
                w.access(cpu, AccessKind::Load, other + 8, 8, F::UpdateRq, false);
            }
            for word in 0..20 {
                let page = 0xffff_8880_0010_0000 + 0x1000 * (round % 7);
                w.access(
                    cpu,
                    AccessKind::Load,
                    page + 64 * word,
                    8,
                    F::UpdateRq,
                    false,
                );
            }
        }
    }
    w.record()
}

/// What the layout as recorded costs is replayed for the first question, whichever type it is
/// about; the answers are those of sessions that keep nothing.
#[test]
fn a_question_about_another_type_replays_what_it_moves() {
    let recording = two_types();
    let shelf = InMemory::default();
    let open = || Session::open(&recording, Box::new(shelf.clone()), Box::new(Silent)).unwrap();
    let questions = [("rq", "isolate curr"), ("entity", "isolate load")];
    // So small that the pages take the place of both types' lines in each slice.
    let mut small = machine(LineSize::B64).with_only(|_| false);
    small.l1.ways = 1;
    let ask = |session: &Session<'_>, (name, edit): (&str, &str)| {
        let subject = EditSubject::Named(name.into());
        let edits = parse_flags(subject, &[edit.to_owned()]).unwrap();
        let images = BTreeMap::new();
        let study = Study::new(session, &edits, &images, &[]).unwrap();
        let run = Run {
            machine: small.clone(),
            conditions: Conditions::default(),
            seed: Seed(1),
            interleavings: 8,
            all_interleavings: true,
            ablate: false,
        };
        study.run(&run).unwrap()
    };
    let alone = questions.map(|question| ask(&Session::new(&recording).unwrap(), question));
    assert!(
        alone
            .iter()
            .all(|answer| answer.by_difference && answer.types.difference != 0.0)
    );
    let first = ask(&open(), questions[0]);
    let parts = [
        "counts",
        "stream64",
        "followed",
        "outcomes",
        "baselines",
        "differences",
    ];
    assert_eq!(stored(&shelf), parts);
    let second = ask(&open(), questions[1]);
    assert_eq!(stored(&shelf), ["followed", "outcomes", "differences"]);
    assert_eq!([first, second], alone);
    // Nothing that is accessed moves, although each of its hits is replayed on this side alone.
    let nothing = ask(&open(), ("rq", "move stats last"));
    assert!(nothing.by_difference);
    for measure in [
        nothing.types,
        nothing.whole,
        nothing.duration,
        nothing.time.cycles,
    ] {
        assert_eq!((measure.difference, measure.ci95), (0.0, 0.0));
    }
    // Rounds from what was kept are those from the recording, to the last step.
    for (line, kept) in [(LineSize::B64, true), (LineSize::B128, false)] {
        let (session, alone) = (open(), Session::new(&recording).unwrap());
        let only = of_type(&session, "rq");
        let l1s = session.recorded_l1s(line).unwrap();
        assert_eq!(session.followed(&l1s, &only).is_some(), kept);
        assert_eq!(rounds(&session, &only, line), rounds(&alone, &only, line));
    }
    // What cannot be the accesses that are followed is made again.
    stored(&shelf);
    for bytes in [Vec::new(), vec![0; 4], vec![0xff; 4000]] {
        shelf.with(|parts| {
            let followed = parts.iter_mut();
            let followed = followed.filter(|(name, _)| name.starts_with("followed"));
            followed.for_each(|(_, kept)| kept.clone_from(&bytes));
        });
        assert_eq!(&ask(&open(), questions[0]), &alone[0]);
        assert_eq!(stored(&shelf), ["followed"]);
    }
    // In the other order, too.
    let shelf = InMemory::default();
    let open = || Session::open(&recording, Box::new(shelf.clone()), Box::new(Silent)).unwrap();
    let turned = [1, 0].map(|number: usize| ask(&open(), questions[number]));
    assert_eq!([&turned[1], &turned[0]], [&alone[0], &alone[1]]);
}
