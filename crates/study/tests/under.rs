//! What happens while a function is on the stack, in synthetic kernels whose calls are known.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;

use linemate_answers::{Costs, DiffFigures};
use linemate_experiment::scene::{Scene, Watch};
use linemate_experiment::{Conditions, Experiment, Seed, Under, UnderError};
use linemate_layout::parse::parse;
use linemate_machine::{Machine, find};
use linemate_recording::Recording;
use linemate_session::Session;
use linemate_session::progress::Silent;
use linemate_session::shelf::InMemory;
use linemate_study::costs::{CostRun, costs, costs_under};
use linemate_study::diff::{On, fields};
use linemate_study::whatif::{Run, Study};
use linemate_study::{Interleavings, Precision, compare};
use linemate_testkit::calls::{CallingKernel, ENTRY, INTERRUPT, KernelOp, NAMES, code, tree};
use proptest::prelude::*;

fn machine() -> Machine {
    find("gnr-2s-480").unwrap()
}

fn run(machine: &Machine, cpus: Option<usize>) -> CostRun<'_> {
    CostRun {
        machine,
        conditions: Conditions {
            cpus,
            ..Conditions::default()
        },
        seed: Seed(1),
        sources: false,
    }
}

fn session(recording: &Recording) -> Session<'_> {
    Session::new(recording).unwrap().with_code(vec![code()])
}

fn under(session: &Session<'_>, function: &str) -> Under {
    Under::new(session, function).unwrap()
}

fn found(session: &Session<'_>, function: &str) -> Costs {
    let (machine, under) = (machine(), under(session, function));
    costs_under(session, None, run(&machine, None), &under).unwrap()
}

/// Cycles by function, of what left its core.
fn by_function(costs: &Costs) -> BTreeMap<&str, u64> {
    let rows = costs.functions.iter();
    rows.map(|row| (row.name.as_str(), row.cycles)).collect()
}

#[test]
fn the_leaves_of_a_tree_are_the_whole_of_its_root() {
    let recording = tree().finish().0;
    let session = session(&recording);
    let machine = machine();
    let all = costs(&session, None, run(&machine, None)).unwrap();
    let root = found(&session, NAMES[0]);
    let cost = |costs: &Costs| costs.under.as_ref().unwrap().cost.cycles;
    assert!(all.whole.cycles > 10_000, "lines went between cores");
    // The entry's call is not under 0; all else is.
    let own = by_function(&all);
    let entry = own.get(NAMES[ENTRY]).copied().unwrap_or(0);
    assert_eq!(cost(&root), all.whole.cycles - entry);
    assert_eq!(root.whole, all.whole);
    assert_eq!(root.duration, all.duration);
    // Of each function: what it costs itself, and those that it calls.
    for (function, callees) in [(0, vec![1, 2]), (1, vec![3]), (2, vec![])] {
        let below: u64 = callees
            .iter()
            .map(|callee| cost(&found(&session, NAMES[*callee])))
            .sum();
        let inclusive = found(&session, NAMES[function]);
        let rows = by_function(&inclusive);
        let four = match function {
            // 4 is called by 1 and by 2: its own name does not show what of it is under either.
            1 | 2 => rows[NAMES[4]],
            _ => 0,
        };
        assert_eq!(
            cost(&inclusive),
            own[NAMES[function]] + below + four,
            "{function}"
        );
    }
    for function in [NAMES[0], NAMES[1], NAMES[4]] {
        let costs = found(&session, function);
        let sums = [&costs.types, &costs.fields, &costs.functions];
        let sums = sums.map(|rows| rows.iter().map(|row| row.cycles).sum::<u64>());
        assert_eq!(sums, [cost(&costs); 3], "{function}");
        assert_eq!(costs.potential.cost, cost(&costs) as f64, "{function}");
        let [one, all] = [&costs, &root].map(|costs| costs.under.as_ref().unwrap());
        assert_eq!(one.all_cycles, all.all_cycles, "{function}");
        assert!(one.cycles.instructions > 0, "{function}");
    }
    // What 4 costs under 1 and under 2 is what it costs.
    let parts = [1, 2].map(|function| by_function(&found(&session, NAMES[function]))[NAMES[4]]);
    assert_eq!(parts.iter().sum::<u64>(), cost(&found(&session, NAMES[4])));
}

#[test]
fn the_entry_of_everything_takes_all_cycles() {
    let recording = tree().finish().0;
    let session = session(&recording);
    let costs = found(&session, NAMES[ENTRY]);
    let under = costs.under.as_ref().unwrap();
    assert_eq!(under.cost.cycles, costs.whole.cycles);
    assert_eq!(under.cycles.stalls, under.all_cycles.stalls);
    // All that does not leave its core hits in L1 here.
    let hits = costs.whole.misses * u64::from(machine().latency.l1);
    assert_eq!(under.cycles.stalls, costs.whole.cycles - hits);
    assert_eq!(under.cost.loads, costs.whole.loads);
    assert_eq!(under.cost.stores, costs.whole.stores);
    // Between one system call and the next, which is another CPU's here, no instruction counts.
    assert_eq!(
        under.cycles.instructions, under.all_cycles.instructions,
        "each slice is one call"
    );
    assert_eq!(under.balance.returns, under.balance.matched);
}

#[test]
fn cold_replays_show_the_sums_of_cold_replays() {
    let recording = tree().finish().0;
    let session = session(&recording);
    let (machine, under) = (machine(), under(&session, NAMES[ENTRY]));
    let [warm, cold] = [false, true].map(|cold| {
        let mut run = run(&machine, None);
        run.conditions.cold = cold;
        costs_under(&session, None, run, &under).unwrap()
    });
    for costs in [&warm, &cold] {
        let under = costs.under.as_ref().unwrap();
        assert_eq!(under.cost.cycles, costs.whole.cycles);
    }
    let cold_misses = [&warm, &cold].map(|costs| costs.under.as_ref().unwrap().cost.causes.cold);
    assert_eq!(cold_misses[0], 0);
    assert!(cold_misses[1] > 0);
}

#[test]
fn what_is_kept_answers_its_own_question_alone() {
    let recording = tree().finish().0;
    let kept = InMemory::default();
    let machine = machine();
    let ask = |session: &Session<'_>, function: Option<usize>| match function {
        None => costs(session, None, run(&machine, None)).unwrap(),
        Some(function) => {
            let under = under(session, NAMES[function]);
            costs_under(session, None, run(&machine, None), &under).unwrap()
        }
    };
    let keeping = |code| {
        let shelf = Box::new(kept.clone());
        let session = Session::open(&recording, shelf, Box::new(Silent)).unwrap();
        session.with_code(vec![code])
    };
    for function in [None, Some(1), Some(2), None, Some(1)] {
        let anew = ask(&session(&recording), function);
        assert_eq!(ask(&keeping(code()), function), anew, "{function:?}");
    }
    let names: Vec<String> = kept.with(|parts| parts.keys().cloned().collect());
    let of = |kind: &str| names.iter().filter(|name| name.starts_with(kind)).count();
    assert_eq!([of("under"), of("outcomes")], [2, 3], "{names:?}");
    // In an image without calls, a function is on the stack at its own accesses only.
    let mut other = code();
    other.bytes.fill(0x90);
    let [with, without] = [code(), other].map(|code| {
        let costs = ask(&keeping(code), Some(1));
        costs.under.unwrap().cost.loads
    });
    assert!(without < with, "{without} loads, {with} with calls");
}

#[test]
fn cloned_cpus_have_as_many_instructions_each() {
    let recording = tree().finish().0;
    let session = session(&recording);
    let (machine, under) = (machine(), under(&session, NAMES[1]));
    let of = |cpus| {
        let run = run(&machine, Some(cpus));
        let costs = costs_under(&session, None, run, &under).unwrap();
        costs.under.unwrap()
    };
    let (one, four) = (of(2), of(8));
    assert_eq!(four.cycles.instructions, 4 * one.cycles.instructions);
    assert_eq!(four.cost.loads, 4 * one.cost.loads);
    assert!(four.cycles.stalls > one.cycles.stalls);
}

#[test]
fn every_access_replayed_gives_the_same() {
    let recording = tree().finish().0;
    let session = session(&recording);
    let (machine, under) = (machine(), under(&session, NAMES[1]));
    let mut run = run(&machine, None);
    let some = costs_under(&session, None, run, &under).unwrap();
    run.conditions.exact = true;
    let all = costs_under(&session, None, run, &under).unwrap();
    assert_eq!(some, all);
}

#[test]
fn a_what_if_shows_what_changes_under_a_function() {
    let recording = tree().finish().0;
    let session = session(&recording);
    let edits = parse("type rq\nisolate nr_running\n").unwrap();
    let images = BTreeMap::new();
    let answer = |function: Option<&str>| {
        let study = Study::new(&session, &edits, &images, &[]).unwrap();
        let under = function.map(|function| under(&session, function));
        let run = Run {
            machine: machine(),
            conditions: Conditions::default(),
            seed: Seed(1),
            interleavings: 8,
            all_interleavings: true,
            ablate: false,
        };
        study.with_under(under).run(&run).unwrap()
    };
    let plain = answer(None);
    let whole = answer(Some(NAMES[ENTRY]));
    let change = whole.under.clone().unwrap();
    assert_eq!(change.cost, whole.whole, "everything is under the entry");
    assert_eq!(change.cycles, change.all_cycles);
    assert_eq!(change.llc_misses, whole.llc_misses.whole);
    let parts = [1, 2].map(|function| answer(Some(NAMES[function])).under.unwrap());
    let root = answer(Some(NAMES[0])).under.unwrap();
    assert!(parts[0].cost.without > 0.0 && parts[1].cost.without > 0.0);
    assert!(parts[0].cost.without + parts[1].cost.without < root.cost.without);
    // Everything else is the same.
    let rest = linemate_answers::WhatIf {
        under: None,
        ..whole
    };
    assert_eq!(rest, plain);
}

#[test]
fn comparing_measures_under_a_function_what_a_what_if_does() {
    let recording = tree().finish().0;
    let session = session(&recording);
    let edits = parse("type rq\nisolate nr_running\n").unwrap();
    let (machine, images) = (machine(), BTreeMap::new());
    let scene = Scene::new(&session, &Watch::default()).unwrap();
    for function in [NAMES[ENTRY], NAMES[0], NAMES[1]] {
        let under = under(&session, function);
        let experiment = Experiment {
            under: Some(&under),
            ..Experiment::new(&scene, &machine, Conditions::default()).unwrap()
        };
        let interleavings = Interleavings::new(Seed(1), 8, Some(Precision::NARROW));
        let edits = std::slice::from_ref(&edits);
        let effects = compare(&experiment, edits, &interleavings).unwrap();
        let effect = effects.into_iter().next().unwrap().unwrap();
        let study = Study::new(&session, &edits[0], &images, &[]).unwrap();
        let run = Run {
            machine: machine.clone(),
            conditions: Conditions::default(),
            seed: Seed(1),
            interleavings: 8,
            all_interleavings: false,
            ablate: false,
        };
        let answer = study.with_under(Some(under.clone())).run(&run).unwrap();
        assert_eq!(effect.under, answer.under.map(|change| change.cost));
        assert_eq!(effect.whole, answer.whole, "{function}");
    }
    let experiment = Experiment::new(&scene, &machine, Conditions::default()).unwrap();
    let effects = compare(
        &experiment,
        &[edits],
        &Interleavings::new(Seed(1), 8, Some(Precision::NARROW)),
    )
    .unwrap();
    assert!(
        effects
            .iter()
            .flatten()
            .all(|effect| effect.under.is_none())
    );
}

#[test]
fn two_recordings_are_compared_by_what_a_function_costs_in_each() {
    let recording = tree().finish().0;
    let session = session(&recording);
    let machine = machine();
    for function in [NAMES[ENTRY], NAMES[1], NAMES[2]] {
        let under = under(&session, function);
        let on = On {
            machine: &machine,
            seed: Seed(1),
            conditions: Conditions::default(),
            under: Some(&under),
        };
        let side = fields(&session, None, Some(on), None).unwrap();
        let costs = costs_under(&session, None, run(&machine, None), &under).unwrap();
        let cycles = |sum: u64, figures: &DiffFigures| sum + figures.cycles;
        let all = side.fields.values().fold(0, cycles);
        assert!(all > 0 && all <= costs.under.unwrap().cost.cycles);
        for (path, figures) in &side.fields {
            let row = costs.fields.iter().find(|row| row.name == *path).unwrap();
            let expected = [row.loads, row.stores, row.misses, row.cycles];
            let found = [
                figures.loads,
                figures.stores,
                figures.misses,
                figures.cycles,
            ];
            assert_eq!(found, expected, "{path} under {function}");
        }
    }
}

#[test]
fn what_cannot_be_known_is_refused_in_a_line() {
    let recording = tree().finish().0;
    let known = session(&recording);
    let refused = |session: &Session<'_>, function: &str| {
        Under::new(session, function).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&known, NAMES[5]),
        format!(
            "`{}` was never on a stack while this was recorded",
            NAMES[5]
        )
    );
    assert_eq!(
        refused(&known, "wake_tusk"),
        "there is no function `wake_tusk` with code of its own: if it is inlined, name a caller; the nearest: wake_task"
    );
    let session = Session::new(&recording).unwrap();
    assert!(matches!(
        Under::new(&session, NAMES[0]),
        Err(UnderError::NoCode)
    ));
    let session = known;
    let (machine, under) = (machine(), under(&session, NAMES[1]));
    let vector = linemate_layout::EditSubject::Named("vector".to_owned());
    let error = costs_under(&session, Some(&vector), run(&machine, None), &under);
    assert_eq!(
        error.unwrap_err().to_string(),
        format!(
            "the recording has no access to any vector while {} is on the stack",
            NAMES[1]
        )
    );
}

fn ops() -> impl Strategy<Value = Vec<KernelOp>> {
    let op = prop_oneof![
        4 => (0..8usize, 0..4u64).prop_map(|(function, wait)| KernelOp::Call(function, wait)),
        4 => (0..40u64).prop_map(KernelOp::Access),
        4 => any::<bool>().prop_map(KernelOp::Return),
        1 => (0..8usize).prop_map(KernelOp::Jump),
        1 => any::<bool>().prop_map(KernelOp::Interrupt),
        1 => (0..4usize).prop_map(KernelOp::Switch),
        2 => (1..50u64).prop_map(KernelOp::Wait),
        1 => Just(KernelOp::OtherCpu),
    ];
    prop::collection::vec(op, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Calls, jumps, interrupts on the same stack and on others, and tasks that change the CPU:
    /// instructions, accesses and entries are those of a list of functions that the test maintains.
    #[test]
    fn stacks_are_what_was_called(ops in ops(), turns in any::<bool>()) {
        let mut kernel = match turns {
            true => CallingKernel::with_turns(),
            false => CallingKernel::new(),
        };
        for op in ops {
            kernel.perform(op);
        }
        let (recording, truth) = kernel.finish();
        let session = session(&recording);
        let machine = machine();
        for function in (0..8).chain([ENTRY, INTERRUPT]) {
            let Some(of) = truth.by_function.get(&function) else {
                let error = Under::new(&session, NAMES[function]);
                prop_assert!(matches!(error, Err(UnderError::Never(_))), "{function}: {error:?}");
                continue;
            };
            let under = under(&session, NAMES[function]);
            prop_assert_eq!(under.instructions.0, of.instructions, "instructions of {}", function);
            prop_assert_eq!(under.all_instructions.0, truth.instructions);
            prop_assert_eq!(under.entered, of.entered, "entries of {}", function);
            prop_assert_eq!(under.balance.returns, under.balance.matched);
            let costs = costs_under(&session, None, run(&machine, None), &under).unwrap();
            let cost = costs.under.unwrap().cost;
            prop_assert_eq!(cost.loads + cost.stores, of.accesses, "accesses of {}", function);
        }
    }
}
