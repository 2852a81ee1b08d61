//! Misses that overlap, from machine code to costs: what is independent costs less, all else what
//! it cost, and what is kept knows of it.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use linemate_answers::{Cost, Costs};
use linemate_experiment::{Conditions, Seed};
use linemate_machine::{Machine, Mechanism, find};
use linemate_recording::{AccessKind, Recording};
use linemate_session::Session;
use linemate_session::progress::Silent;
use linemate_session::shelf::InMemory;
use linemate_study::costs::{CostRun, costs};
use linemate_testkit::world::parts::entry;
use linemate_testkit::world::{DIRECT, F, World};
use linemate_types::kernel_image::CodeSection;

/// How often each function runs.
const ROUNDS: u64 = 20;

/// `mov rcx, [rdi]; mov rsi, [rsi]; mov r8, [rdx]`: no address comes from a load of this function,
/// whose result is none of them.
const GATHER: (F, [u8; 9]) = (
    F::UpdateRq,
    [0x48, 0x8b, 0x0f, 0x48, 0x8b, 0x36, 0x4c, 0x8b, 0x02],
);
/// `mov rax, [rdi]; mov rax, [rax]; mov rax, [rax]`: each address is what was loaded before.
const CHASE: (F, [u8; 9]) = (
    F::WakeTask,
    [0x48, 0x8b, 0x07, 0x48, 0x8b, 0x00, 0x48, 0x8b, 0x00],
);

fn code() -> Vec<CodeSection> {
    let section = |(function, code): (F, [u8; 9])| CodeSection {
        address: entry(function as usize),
        // `ret`
        bytes: [&code[..], &[0xc3]].concat(),
    };
    vec![section(GATHER), section(CHASE)]
}

/// Each function loads three lines that nobody had before: CPU 0 gathers, CPU 1 chases; and CPU 1
/// runs a user program that loads three, too.
fn recording() -> Recording {
    let mut w = World::new();
    let mut page = DIRECT + 0x10_0000;
    for _ in 0..ROUNDS {
        for (cpu, pc) in [
            (0, Some(entry(GATHER.0 as usize))),
            (1, Some(entry(CHASE.0 as usize))),
            (1, None),
        ] {
            for nth in 0..3 {
                match pc {
                    Some(pc) => w.access_at(cpu, AccessKind::Load, page, 8, pc + 3 * nth, false),
                    None => w.user_access(cpu, AccessKind::Load, page),
                }
                page += 4096;
            }
        }
        // Outstanding misses are over.
        w.wait(10_000);
    }
    w.record()
}

fn machine(overlap: bool) -> Machine {
    let machine = find("gnr-2s-480").unwrap();
    machine.with_only(|mechanism| overlap && mechanism == Mechanism::Overlap)
}

fn asked(session: &Session<'_>, overlap: bool) -> Costs {
    let machine = machine(overlap);
    let run = CostRun {
        machine: &machine,
        // Lines come once, so that only empty caches miss them.
        conditions: Conditions {
            cold: true,
            ..Conditions::default()
        },
        seed: Seed(1),
        sources: false,
    };
    costs(session, None, run).unwrap()
}

fn of<'c>(rows: &'c [Cost], name: &str) -> &'c Cost {
    rows.iter().find(|row| row.name == name).unwrap()
}

/// All that is counted, without cycles.
fn counts(costs: &Costs) -> Vec<(String, u64, u64, u64, [u64; 3], u64)> {
    let rows = [&costs.types, &costs.fields, &costs.functions];
    let whole = std::iter::once(&costs.whole);
    let mut counts: Vec<_> = rows
        .into_iter()
        .flatten()
        .chain(whole)
        .map(|c| (c.name.clone(), c.loads, c.stores, c.misses, c.hitm, c.dram))
        .collect();
    counts.sort();
    counts
}

#[test]
fn independent_misses_cost_less_and_nothing_else_changes() {
    let recording = recording();
    let without = asked(&Session::new(&recording).unwrap(), false);
    let session = Session::new(&recording).unwrap().with_code(code());
    assert_eq!(
        asked(&session, false),
        without,
        "code alone changes nothing"
    );
    let with = asked(&session, true);
    assert_eq!(counts(&with), counts(&without));
    let latency = &machine(true).latency;
    let (memory, hit) = (u64::from(latency.dram_local), u64::from(latency.l1));
    let (gather, chase) = ("update_rq", "wake_task");
    for name in [gather, chase] {
        assert_eq!(
            of(&without.functions, name).cycles,
            ROUNDS * 3 * memory,
            "{name}"
        );
    }
    // The second and the third are here as soon as the first.
    let together = ROUNDS * (memory + 2 * hit);
    assert_eq!(of(&with.functions, gather).cycles, together);
    let saved = ROUNDS * 3 * memory - together;
    assert_eq!(with.overlapped, saved);
    // Every other function costs what it cost: the chase, and the user program, whose code nobody
    // has.
    let others = |costs: &Costs| -> Vec<(String, u64)> {
        let rows = costs.functions.iter().filter(|row| row.name != gather);
        rows.map(|row| (row.name.clone(), row.cycles)).collect()
    };
    assert_eq!(others(&with), others(&without));
    assert_eq!(others(&with).len(), 2);
    assert_eq!(with.whole.cycles, without.whole.cycles - saved);
    assert_eq!(
        (&*with.mechanisms, with.line_bytes),
        (&["overlap".to_owned()][..], 64)
    );
}

#[test]
fn without_code_nothing_overlaps() {
    let recording = recording();
    let session = Session::new(&recording).unwrap();
    let (without, with) = (asked(&session, false), asked(&session, true));
    assert_eq!(with.overlapped, 0);
    assert_eq!(
        (with.whole, with.functions),
        (without.whole, without.functions)
    );
}

#[test]
fn what_is_kept_is_of_the_same_code() {
    let recording = recording();
    let shelf = InMemory::default();
    let open = || Session::open(&recording, Box::new(shelf.clone()), Box::new(Silent)).unwrap();
    let outcomes = || {
        let of_outcomes = |name: &&String| name.starts_with("outcomes");
        shelf.with(|parts| parts.keys().filter(of_outcomes).count())
    };
    assert_eq!(asked(&open(), true).overlapped, 0);
    let with = asked(&open().with_code(code()), true);
    assert!(with.overlapped > 0);
    assert_eq!(asked(&open().with_code(code()), true), with);
    assert_eq!(outcomes(), 2);
    // Of other code: the chase alone.
    let other = code().split_off(1);
    assert_eq!(asked(&open().with_code(other), true).overlapped, 0);
    assert_eq!(outcomes(), 3);
    // Code decides nothing where misses do not overlap.
    asked(&open(), false);
    asked(&open().with_code(code()), false);
    assert_eq!(outcomes(), 4);
}
