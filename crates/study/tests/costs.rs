//! What a synthetic recording costs: every row counted by hand.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use linemate_answers::{CellCost, Cost, Costs, LineCost, LinePair, MachinePlaces};
use linemate_experiment::{Conditions, ExperimentError, Seed};
use linemate_layout::EditSubject;
use linemate_machine::{Machine, Mechanism, find};
use linemate_recording::{AccessKind, Recording};
use linemate_session::Session;
use linemate_study::WhatIfError;
use linemate_study::costs::{CostRun, costs, costs_of};
use linemate_testkit::world::{APIC, F, KMALLOC_SLAB, NOHZ, RQ, UNITS, VMALLOC, World};

const ROUNDS: u64 = 100;

/// CPU 0 writes `nr_running`, then CPU 1 reads `curr` next to it, each round; both use the lock on
/// the next line. CPU 1 alone uses `nohz`.
fn recording() -> Recording {
    let mut w = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    for _ in 0..ROUNDS {
        w.access(0, AccessKind::Store, rq, 4, F::WakeTask, false);
        w.access(1, AccessKind::Load, rq + 8, 8, F::UpdateRq, false);
        w.access(0, AccessKind::Rmw, rq + 72, 4, F::WakeTask, false);
        w.access(1, AccessKind::Rmw, rq + 72, 4, F::UpdateRq, false);
        w.access(1, AccessKind::Load, NOHZ, 8, F::UpdateRq, false);
    }
    w.record()
}

fn machine() -> Machine {
    let mut machine = find("westmere-4s-80").unwrap();
    machine.adjacent_line_pairs = false;
    machine
}

fn found(subject: Option<&str>, cpus: Option<usize>) -> Result<Costs, WhatIfError> {
    let recording = recording();
    let session = Session::new(&recording).unwrap();
    let machine = machine();
    let run = CostRun {
        machine: &machine,
        conditions: Conditions {
            cpus,
            ..Conditions::default()
        },
        seed: Seed(1),
        sources: false,
    };
    let subject = subject.map(|name| EditSubject::Named(name.to_owned()));
    costs(&session, subject.as_ref(), run)
}

fn row<'a>(rows: &'a [Cost], name: &str) -> &'a Cost {
    rows.iter().find(|row| row.name == name).unwrap()
}

#[test]
fn every_access_is_in_one_type_one_field_and_the_whole() {
    let costs = found(None, None).unwrap();
    assert_eq!(costs.accesses, 5 * ROUNDS);
    let whole = &costs.whole;
    assert_eq!((whole.loads, whole.stores), (2 * ROUNDS, 3 * ROUNDS));
    for rows in [&costs.types, &costs.fields] {
        assert_eq!(
            rows.iter().map(|row| row.loads + row.stores).sum::<u64>(),
            5 * ROUNDS
        );
        assert_eq!(rows.iter().map(|row| row.cycles).sum::<u64>(), whole.cycles);
    }
    assert_eq!(
        costs.functions.iter().map(|row| row.cycles).sum::<u64>(),
        whole.cycles
    );
    let sum = |figure: fn(&LineCost) -> u64| costs.lines.iter().map(figure).sum::<u64>();
    assert_eq!(sum(|line| line.cycles), whole.cycles);
    assert_eq!(sum(|line| line.misses), whole.misses);
    assert_eq!(sum(|line| line.hitm), whole.hitm.iter().sum::<u64>());
    for ty in &costs.types {
        let lines = costs.lines.iter().filter(|line| line.name == ty.name);
        assert_eq!(
            lines.map(|line| line.cycles).sum::<u64>(),
            ty.cycles,
            "{}",
            ty.name
        );
    }
    for line in &costs.lines {
        let cells = |figure: fn(&CellCost) -> u64| line.cells.iter().map(figure).sum::<u64>();
        assert_eq!(cells(|cell| cell.cycles), line.cycles);
        assert_eq!(cells(|cell| cell.loads + cell.stores), line.misses);
        assert_eq!(cells(|cell| cell.hitm), line.hitm);
        assert_eq!(line.pairs.iter().map(|p| p.hitm).sum::<u64>(), line.hitm);
        for cell in &line.cells {
            let times = cell.times.iter().flatten().sum::<u64>();
            assert_eq!(times, cell.hitm, "{}", cell.field);
        }
    }
    assert_eq!(
        costs.pairs.iter().map(|pair| pair.hitm).sum::<u64>(),
        whole.hitm.iter().sum::<u64>()
    );
    let causes = &whole.causes;
    let sum = causes.cold
        + causes.capacity
        + causes.true_sharing
        + causes.false_sharing
        + causes.unshared;
    assert_eq!(sum, whole.cycles);
    let rq = row(&costs.types, "rq");
    assert_eq!((rq.loads, rq.stores), (ROUNDS, 3 * ROUNDS));
    assert!(row(&costs.fields, "rq.curr").causes.true_sharing == 0);
    assert_eq!(
        row(&costs.fields, "rq.curr").hitm.iter().sum::<u64>(),
        ROUNDS
    );
}

#[test]
fn lines_show_who_took_them_from_whom_and_when() {
    let costs = found(None, None).unwrap();
    let line = |start| {
        let of_rq = |line: &&LineCost| line.name == "rq" && line.start == start;
        costs.lines.iter().find(of_rq).unwrap()
    };
    assert_eq!(costs.pairs_by, MachinePlaces::Cpu);
    // CPU 1 reads what CPU 0 has written, every time; CPU 0 had the permission to write it taken
    // away only.
    let pair = |from, to, hitm| LinePair { from, to, hitm };
    assert_eq!(line(0).pairs, [pair(0, 1, ROUNDS)]);
    // The lock goes to and fro, unless a CPU takes it twice in a row.
    let lock = line(64);
    let to_and_fro: Vec<(u16, u16)> = lock.pairs.iter().map(|p| (p.from, p.to)).collect();
    assert_eq!(to_and_fro, [(0, 1), (1, 0)]);
    let [there, back] = [0, 1].map(|at: usize| lock.pairs[at].hitm);
    assert!(
        there.abs_diff(back) <= 1 && there > ROUNDS / 2,
        "{:?}",
        lock.pairs
    );
    let grid = costs.time;
    assert!(grid.bins > 32 && grid.rows == 2, "{grid:?}");
    let curr = line(0).cells.iter().find(|c| c.field == "rq.curr").unwrap();
    let [first, second] = &curr.times[..] else {
        panic!("{:?}", curr.times)
    };
    assert!(first.is_empty(), "CPU 0 takes nothing there");
    assert!(second.len() + 2 >= usize::from(grid.bins), "to the end");
    // Each round is as long as the others, so that no part has more than twice what a part has on
    // average.
    let most = 2 * ROUNDS / u64::from(grid.bins) + 1;
    assert!(second.iter().all(|count| *count <= most), "{second:?}");
    assert!(second.iter().filter(|count| **count > 0).count() > 30);
}

#[test]
fn an_exact_replay_has_the_same_transfers() {
    let recording = recording();
    let session = Session::new(&recording).unwrap();
    let machine = machine();
    let lines = |exact| {
        let conditions = Conditions {
            exact,
            ..Conditions::default()
        };
        let run = CostRun {
            machine: &machine,
            conditions,
            seed: Seed(1),
            sources: false,
        };
        costs(&session, None, run).unwrap().lines
    };
    assert_eq!(lines(true), lines(false));
}

#[test]
fn several_questions_are_answered_by_one_replay() {
    let recording = recording();
    let session = Session::new(&recording).unwrap();
    let machine = machine();
    let run = CostRun {
        machine: &machine,
        conditions: Conditions::default(),
        seed: Seed(1),
        sources: false,
    };
    let rq = EditSubject::Named("rq".to_owned());
    let both = costs_of(&session, &[Some(&rq), None], run).unwrap();
    assert_eq!(both[0], found(Some("rq"), None).unwrap());
    assert_eq!(both[1], found(None, None).unwrap());
    assert_ne!(both[0].fields, both[1].fields);
}

/// Every figure of a row.
fn figures(row: &Cost) -> [u64; 17] {
    let Cost {
        name: _,
        loads,
        stores,
        misses,
        cycles,
        waited,
        hitm: [domain, socket, remote],
        upgrades,
        llc,
        forwards,
        dram,
        causes,
    } = row;
    [
        *loads,
        *stores,
        *misses,
        *cycles,
        *waited,
        *domain,
        *socket,
        *remote,
        *upgrades,
        *llc,
        *forwards,
        *dram,
        causes.cold,
        causes.capacity,
        causes.true_sharing,
        causes.false_sharing,
        causes.unshared,
    ]
}

fn sum(rows: &[Cost]) -> [u64; 17] {
    rows.iter().map(figures).fold([0; 17], |mut sum, row| {
        sum.iter_mut().zip(row).for_each(|(sum, one)| *sum += one);
        sum
    })
}

/// What left the core is where it was served from, and its cycles are those of its causes.
fn adds_up(row: &Cost) {
    let served = row.hitm.iter().sum::<u64>() + row.upgrades + row.llc + row.forwards + row.dram;
    assert_eq!(row.misses, served, "{row:?}");
    let causes = &row.causes;
    let sharing = causes.true_sharing + causes.false_sharing + causes.unshared;
    assert_eq!(
        row.cycles,
        sharing + causes.cold + causes.capacity,
        "{row:?}"
    );
}

#[test]
fn the_columns_of_a_row_add_up() {
    let costs = everything_that_costs();
    let tables = [&costs.types, &costs.fields, &costs.functions];
    let rows = tables.into_iter().flatten();
    rows.chain([&costs.whole]).for_each(adds_up);
    let whole = &costs.whole;
    assert!(whole.llc > 0, "{whole:?}");
}

/// Four clones of two CPUs, so that several are on a socket; lines that are read, then written, and
/// more of them than a core's caches hold.
fn everything_that_costs() -> Costs {
    let mut w = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    for _ in 0..ROUNDS {
        for cpu in [0, 1] {
            w.load(cpu, rq + 64);
            w.rmw(cpu, rq + 64);
            w.rmw(cpu, rq + 72);
            w.store(cpu, rq + 8 * u64::from(cpu));
            w.store(cpu, NOHZ);
            w.load(cpu, NOHZ + 8);
        }
        for line in 0..24 {
            // One set of the core's caches.
            let own = VMALLOC + 0x100_0000 + 32768 * line;
            w.load(0, own);
            w.store(0, own);
        }
    }
    let recording = w.record();
    let session = Session::new(&recording).unwrap();
    let machine = machine();
    let run = CostRun {
        machine: &machine,
        conditions: Conditions {
            cpus: Some(8),
            ..Conditions::default()
        },
        seed: Seed(1),
        sources: true,
    };
    costs(&session, None, run).unwrap()
}

#[test]
fn each_figure_adds_up_to_the_whole() {
    let costs = everything_that_costs();
    let whole = figures(&costs.whole);
    assert_eq!(sum(&costs.types), whole);
    assert_eq!(sum(&costs.fields), whole);
    assert_eq!(sum(&costs.functions), whole);
    // The kernel's code has no lines.
    assert_eq!(costs.sources, costs.functions);
    let (potential, causes) = (costs.potential, costs.whole.causes);
    let cycles = costs.whole.cycles as f64;
    assert_eq!(potential.cost, cycles);
    for (share, part) in [
        (potential.cold, causes.cold),
        (potential.capacity, causes.capacity),
        (potential.true_sharing, causes.true_sharing),
        (potential.false_sharing, causes.false_sharing),
        (potential.unshared, causes.unshared),
    ] {
        assert_eq!(share, part as f64 / cycles);
    }
}

#[test]
fn fields_of_a_struct_without_a_tag_have_the_variables_name() {
    let costs = found(None, None).unwrap();
    let mut names: Vec<&str> = costs.fields.iter().map(|row| row.name.as_str()).collect();
    names.sort_unstable();
    let expected = ["nohz.idle_cpus_mask", "rq.curr", "rq.lock", "rq.nr_running"];
    assert_eq!(names, expected);
}

/// Of the modified lines that CPUs took from each other: whether some went from one clone to
/// another.
fn taken_across_clones(by_the_second_cpu: u64) -> bool {
    let mut w = World::with_chunks_of(64);
    let entity = KMALLOC_SLAB;
    w.sight(F::UpdateEntity, entity);
    for round in 0..ROUNDS {
        w.store(u16::from(round % 10 < by_the_second_cpu), entity);
    }
    let recording = w.record();
    let session = Session::new(&recording).unwrap();
    let machine = machine();
    let run = CostRun {
        machine: &machine,
        conditions: Conditions {
            cpus: Some(4),
            ..Conditions::default()
        },
        seed: Seed(1),
        sources: false,
    };
    let costs = costs(&session, None, run).unwrap();
    assert!(!costs.pairs.is_empty());
    costs.pairs.iter().any(|pair| pair.from.1 != pair.to.1)
}

#[test]
fn an_object_that_one_cpu_uses_most_has_a_copy_for_each_clone() {
    assert!(!taken_across_clones(4));
    assert!(taken_across_clones(5), "it belongs to no CPU");
    assert!(!taken_across_clones(6));
}

#[test]
fn a_line_shows_its_fields_and_who_touches_them() {
    let costs = found(Some("rq"), None).unwrap();
    assert!(costs.fields.iter().all(|row| row.name.starts_with("rq.")));
    let names: Vec<(&str, i64, u64)> = costs
        .lines
        .iter()
        .map(|line| (line.name.as_str(), line.start, line.lines))
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(
        names.contains(&("rq", 0, 1)) && names.contains(&("rq", 64, 1)),
        "{names:?}"
    );
    let first = costs.lines.iter().find(|line| line.start == 0).unwrap();
    assert_eq!(first.hitm, ROUNDS);
    let fields: Vec<(u8, &str)> = first
        .cells
        .iter()
        .map(|cell| (cell.offset, cell.field.as_str()))
        .collect();
    assert_eq!(fields, [(0, "rq.nr_running"), (8, "rq.curr")]);
    let curr = &first.cells[1];
    assert_eq!((curr.loads, curr.hitm, curr.stores), (ROUNDS, ROUNDS, 0));
    assert_eq!(curr.functions, ["update_rq"]);
    let expected = f64::from(machine().latency.hitm_other_socket);
    assert!(
        curr.cycles_per_load >= expected,
        "two CPUs are spread over two sockets"
    );
}

#[test]
fn device_registers_are_in_no_cache() {
    let mut w = World::with_chunks_of(64);
    for _ in 0..ROUNDS {
        // Every CPU ends its interrupts at the same address.
        w.access(0, AccessKind::Store, APIC + 0xb0, 4, F::WakeTask, false);
        w.access(1, AccessKind::Store, APIC + 0xb0, 4, F::WakeTask, false);
        w.access(0, AccessKind::Store, UNITS[0] + RQ, 4, F::WakeTask, false);
    }
    let recording = w.record();
    let session = Session::new(&recording).unwrap();
    let machine = machine();
    let run = CostRun {
        machine: &machine,
        conditions: Conditions::default(),
        seed: Seed(1),
        sources: false,
    };
    let costs = costs(&session, None, run).unwrap();
    assert_eq!(
        (costs.accesses, costs.device_accesses),
        (3 * ROUNDS, 2 * ROUNDS)
    );
    assert_eq!(costs.whole.loads + costs.whole.stores, ROUNDS);
    assert_eq!(costs.whole.hitm, [0; 3]);
    let names: Vec<&str> = costs.types.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["rq"]);
}

/// Both CPUs write `curr` and `nohz` four times each under one lock, in turns of one round.
fn locked() -> Recording {
    let mut w = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    for _ in 0..ROUNDS {
        for cpu in 0..2 {
            w.turn(cpu);
            w.access(cpu, AccessKind::Rmw, rq + 72, 4, F::SpinLock, false);
            for _ in 0..4 {
                w.access(cpu, AccessKind::Store, rq + 8, 8, F::UpdateRq, false);
                w.access(cpu, AccessKind::Store, NOHZ, 8, F::UpdateRq, false);
            }
            w.access(cpu, AccessKind::Store, rq + 72, 4, F::UpdateRq, false);
        }
    }
    w.record()
}

#[test]
fn with_locks_one_of_two_waits_and_its_lines_move_once() {
    let recording = locked();
    let session = Session::new(&recording).unwrap();
    let found = |locks: bool| {
        let machine = machine().with_only(|one| locks && one == Mechanism::Locks);
        let run = CostRun {
            machine: &machine,
            conditions: Conditions::default(),
            seed: Seed(1),
            sources: false,
        };
        costs(&session, None, run).unwrap()
    };
    let (without, with) = (found(false), found(true));
    assert!(without.lock_waits.is_empty());
    assert_eq!(with.mechanisms, ["locks"]);
    let [lock] = &with.lock_waits[..] else {
        panic!("{:?}", with.lock_waits);
    };
    assert_eq!(
        (&*lock.name, &*lock.function),
        ("rq.lock", "_raw_spin_lock_irqsave")
    );
    assert!(lock.cycles > 0 && lock.waits <= ROUNDS);
    let misses = |costs: &Costs| row(&costs.fields, "rq.curr").misses;
    // Once in each critical section, if the other CPU was inside before.
    assert!(misses(&with) <= 2 * ROUNDS, "{}", misses(&with));
    assert!(misses(&without) > 3 * ROUNDS, "{}", misses(&without));
    // The waiter's second RMWs count, and by type, field and function alike.
    let made = |costs: &Costs| costs.whole.loads + costs.whole.stores;
    assert_eq!(made(&without), 20 * ROUNDS);
    assert_eq!(made(&with), 20 * ROUNDS + lock.waits);
    for rows in [&with.types, &with.fields, &with.functions] {
        let cycles: u64 = rows.iter().map(|row| row.cycles).sum();
        assert_eq!(cycles, with.whole.cycles);
    }
}

#[test]
fn clones_multiply_accesses_and_cpus() {
    let costs = found(None, Some(8)).unwrap();
    assert_eq!((costs.cpus, costs.recorded_cpus), (8, 2));
    assert_eq!(costs.whole.loads + costs.whole.stores, 4 * 5 * ROUNDS);
    assert!(
        costs
            .pairs
            .iter()
            .all(|pair| pair.from.0 < 2 && pair.from.1 < 4)
    );
    let groups = costs.groups.unwrap();
    assert_eq!(groups.groups, 4);
    assert!(groups.accesses > 0 && groups.accesses <= 5 * ROUNDS);
}

#[test]
fn what_is_not_there_is_named() {
    assert!(matches!(
        found(Some("rqq"), None),
        Err(WhatIfError::Type { .. })
    ));
    let recording = locked();
    let session = Session::new(&recording).unwrap();
    let locks = machine().with_only(|one| one == Mechanism::Locks);
    let run = CostRun {
        machine: &locks,
        conditions: Conditions {
            cpus: Some(8),
            ..Conditions::default()
        },
        seed: Seed(1),
        sources: false,
    };
    assert!(matches!(
        costs(&session, None, run),
        Err(WhatIfError::Experiment(ExperimentError::Locks(8)))
    ));
    assert!(matches!(
        found(None, Some(3)),
        Err(WhatIfError::Experiment(ExperimentError::Cpus {
            nearest: 4,
            ..
        }))
    ));
}
