//! Small programs with known costs: a pointer chase, walks, gathers, each with the prefetchers and
//! the overlap that it tests.
//!
//! Latencies: L1 4, L2 14, memory of the own socket 300. Memory that was not touched before is the
//! own socket's.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::sync::Arc;

use common::machine;
use linemate_machine::{L1Stride, L2Streamer, LogicalCpu, Machine, Overlap};
use linemate_recording::{
    Access, AccessKind, Accesses, CpuId, Cycles, GuestAddr, PAGE, VirtualTime,
};
use linemate_replay::{
    AsRecorded, Cause, Config, Dependence, Dependences, Interleaving, NoClones, Outcome, Replay,
    Source, Tally,
};

const BASE: u64 = 0xffff_8880_0000_0000;
const LINE: u64 = 64;
const MEMORY: u64 = 300;

/// Room for everything that a test touches.
fn roomy() -> Machine {
    machine(&[
        ("size = 128\nways = 2", "size = 65536\nways = 16"),
        ("size = 256\nways = 4", "size = 1048576\nways = 16"),
        ("size = 512\nways = 8", "size = 4194304\nways = 16"),
    ])
}

fn streamer(train: u32, per_request: u32, ahead: u32) -> Machine {
    let mut machine = roomy();
    machine.l2_streamer = Some(L2Streamer {
        streams: 4,
        train,
        per_request,
        ahead,
        outstanding: 32,
    });
    machine
}

fn stride() -> Machine {
    let mut machine = roomy();
    machine.l1_stride = Some(L1Stride {
        entries: 4,
        train: 3,
        reach: 2048,
        outstanding: 8,
    });
    machine
}

/// A reach of 600 bytes.
fn short_stride() -> Machine {
    let mut machine = stride();
    machine.l1_stride = machine.l1_stride.map(|stride| L1Stride {
        reach: 600,
        ..stride
    });
    machine
}

fn overlap(window: u32, outstanding: u32) -> Machine {
    let mut machine = roomy();
    machine.overlap = Some(Overlap {
        window,
        outstanding,
    });
    machine
}

/// What a CPU does: instruction, kind, address, instructions since the one before.
#[derive(Clone, Copy)]
struct Op(u64, AccessKind, u64, u64);

fn load(pc: u64, addr: u64, gap: u64) -> Op {
    Op(pc, AccessKind::Load, addr, gap)
}

/// Where each instruction's address comes from.
type From<'a> = &'a [(u64, &'a [u64])];

fn run_on(machine: &Machine, cpus: Vec<LogicalCpu>, from: From<'_>, ops: &[&[Op]]) -> Outcome {
    let mut dependences = Dependences::default();
    for (pc, loads) in from {
        let loads = loads.iter().map(|load| GuestAddr(*load)).collect();
        let not_in = None;
        dependences.insert(GuestAddr(*pc), Dependence { loads, not_in });
    }
    run_with(machine, cpus, dependences, ops)
}

fn run_with(
    machine: &Machine,
    cpus: Vec<LogicalCpu>,
    dependences: Dependences,
    ops: &[&[Op]],
) -> Outcome {
    let config = Config {
        recorded_cpus: cpus.len(),
        cpus: Some(cpus),
        interleaving: Interleaving::Aligned,
        lines: false,
    };
    let replay = Replay::new(machine, &config, AsRecorded, NoClones).unwrap();
    let mut replay = replay.with_overlap(machine, Arc::new(dependences));
    let mut time = 0;
    for (cpu, ops) in (0..).zip(ops) {
        for Op(pc, kind, addr, gap) in *ops {
            time += gap;
            let access = Access {
                time: VirtualTime(time),
                cpu: CpuId(cpu),
                pc: GuestAddr(*pc),
                addr: GuestAddr(*addr),
                size: 8,
                kind: *kind,
                silent: false,
                user_mapping: false,
            };
            replay.push(&access).unwrap();
        }
    }
    replay.finish().0
}

/// On CPU 0.
fn run(machine: &Machine, from: From<'_>, ops: &[Op]) -> Outcome {
    run_on(machine, vec![LogicalCpu(0)], from, &[ops])
}

fn tally(count: u64, cycles: u64) -> Tally {
    Tally {
        count: Accesses(count),
        cycles: Cycles(cycles),
    }
}

/// Lines that follow each other in no direction: one of each page, with the distance between them
/// growing.
fn scattered(n: u64) -> Vec<u64> {
    let addr = |i: u64| BASE + i * (i + 1) / 2 * PAGE + i * i * 7 % 64 * LINE;
    (0..n).map(addr).collect()
}

/// `n` loads of one instruction.
fn loads(addrs: &[u64], gap: u64) -> Vec<Op> {
    addrs.iter().map(|addr| load(1, *addr, gap)).collect()
}

fn everything() -> Machine {
    let mut machine = overlap(512, 12);
    machine.l2_streamer = streamer(3, 2, 20).l2_streamer;
    machine.l1_stride = stride().l1_stride;
    machine
}

#[test]
fn a_pointer_chase_costs_its_latencies() {
    let ops = loads(&scattered(100), 2);
    for machine in [
        roomy(),
        streamer(2, 2, 20),
        stride(),
        overlap(512, 12),
        everything(),
    ] {
        // Each load's address comes from the load before, by the same instruction.
        let outcome = run(&machine, &[(1, &[1])], &ops);
        let memory = outcome.totals.source(Source::DramLocal);
        assert_eq!(memory, tally(100, 100 * MEMORY));
        assert_eq!(outcome.overlapped, Cycles(0));
        // The first load is at instruction 0.
        assert_eq!(outcome.cycles, Cycles(99 * 2 + 100 * (MEMORY - 4)));
    }
}

#[test]
fn an_independent_gather_costs_its_longest_misses() {
    for (n, outstanding) in [(12, 12), (12, 4), (13, 4), (48, 12), (100, 7)] {
        let ops = loads(&scattered(n), 2);
        let outcome = run(&overlap(512, outstanding), &[(1, &[])], &ops);
        let waves = n.div_ceil(u64::from(outstanding));
        assert_eq!(
            outcome.cycles,
            Cycles((n - 1) * 2 + waves * (MEMORY - 4)),
            "{n} with {outstanding} at a time"
        );
        let memory = outcome.totals.source(Source::DramLocal);
        assert_eq!(memory.count, Accesses(n));
        assert_eq!(memory.cycles, Cycles(n * 4 + waves * (MEMORY - 4)));
        assert_eq!(outcome.overlapped, Cycles((n - waves) * (MEMORY - 4)));
        // Without the mechanism, or without knowing where addresses come from, each one costs its
        // full latency.
        let all = n * MEMORY;
        let without = run(&roomy(), &[(1, &[])], &ops);
        assert_eq!(without.totals.source(Source::DramLocal), tally(n, all));
        let unknown = run(&overlap(512, outstanding), &[], &ops);
        assert_eq!(unknown.totals.source(Source::DramLocal), tally(n, all));
    }
}

#[test]
fn the_window_bounds_what_overlaps() {
    // 10 instructions apart: a window of 40 has a miss and the three after it.
    let ops = loads(&scattered(40), 10);
    let outcome = run(&overlap(40, 64), &[(1, &[])], &ops);
    assert_eq!(outcome.overlapped, Cycles(30 * (MEMORY - 4)));
    let outcome = run(&overlap(41, 64), &[(1, &[])], &ops);
    assert_eq!(outcome.overlapped, Cycles(32 * (MEMORY - 4)));
    let outcome = run(&overlap(10, 64), &[(1, &[])], &ops);
    assert_eq!(outcome.overlapped, Cycles(0));
}

#[test]
fn two_chases_side_by_side_cost_one() {
    let addrs = scattered(100);
    let ops: Vec<Op> = addrs
        .iter()
        .enumerate()
        .map(|(i, addr)| load(1 + i as u64 % 2, *addr, 2))
        .collect();
    let from: From<'_> = &[(1, &[1]), (2, &[2])];
    let outcome = run(&overlap(512, 12), from, &ops);
    assert_eq!(outcome.overlapped, Cycles(50 * (MEMORY - 4)));
    // The same two, but the second one's addresses come from the first one's loads as well.
    let from: From<'_> = &[(1, &[1]), (2, &[1, 2])];
    let outcome = run(&overlap(512, 12), from, &ops);
    assert_eq!(outcome.overlapped, Cycles(49 * (MEMORY - 4)));
}

#[test]
fn arguments_come_from_outside_of_the_function() {
    // A function of instructions 10 to 19 loads two fields of its argument, which the caller
    // loaded.
    let addrs = scattered(30);
    let ops: Vec<Op> = (0..30)
        .map(|i| load([1, 10, 11][i % 3], addrs[i], 2))
        .collect();
    let mut dependences = Dependences::default();
    let of = |loads: &[u64], not_in| Dependence {
        loads: loads.iter().map(|load| GuestAddr(*load)).collect(),
        not_in,
    };
    let function = || Some(GuestAddr(10)..GuestAddr(20));
    dependences.insert(GuestAddr(1), of(&[1], None));
    dependences.insert(GuestAddr(10), of(&[], function()));
    dependences.insert(GuestAddr(11), of(&[], function()));
    let cpus = vec![LogicalCpu(0)];
    let run = |dependences| run_with(&overlap(512, 30), cpus.clone(), dependences, &[&ops]);
    // The caller's chase costs its ten latencies, and the last pair of fields one more.
    let outcome = run(dependences.clone());
    assert_eq!(outcome.overlapped, Cycles((30 - 11) * (MEMORY - 4)));
    // If the second field's address comes from the first field as well, it costs one more.
    dependences.insert(GuestAddr(11), of(&[10], function()));
    let outcome = run(dependences);
    assert_eq!(outcome.overlapped, Cycles((30 - 12) * (MEMORY - 4)));
}

#[test]
fn a_shorter_miss_after_a_longer_one_is_free() {
    // The line is in L2, not in L1: 16 more lines of its L1 set came after it.
    let addrs = scattered(1);
    let set = |i: u64| BASE + (1 << 30) + i * 4096 * 4;
    let mut ops: Vec<Op> = (0..17).map(|i| load(1, set(i), 2000)).collect();
    ops.push(load(2, addrs[0], 2000));
    ops.push(load(3, set(0), 1));
    let from: From<'_> = &[(1, &[]), (2, &[]), (3, &[])];
    let outcome = run(&overlap(512, 12), from, &ops);
    assert_eq!(outcome.totals.source(Source::L2), tally(1, 4));
    assert_eq!(outcome.overlapped, Cycles(10));
}

#[test]
fn an_atomic_overlaps_with_nothing() {
    let addrs = scattered(3);
    let ops = [
        load(1, addrs[0], 1),
        Op(2, AccessKind::Rmw, addrs[1], 1),
        load(1, addrs[2], 1),
    ];
    let from: From<'_> = &[(1, &[]), (2, &[])];
    let outcome = run(&overlap(512, 12), from, &ops);
    assert_eq!(outcome.overlapped, Cycles(0));
    // The same for one that hits in L1.
    let ops = [
        Op(2, AccessKind::Rmw, addrs[1], 1),
        load(1, addrs[0], 1),
        Op(2, AccessKind::Rmw, addrs[1], 1),
        load(1, addrs[2], 1),
    ];
    let outcome = run(&overlap(512, 12), from, &ops);
    assert_eq!(outcome.overlapped, Cycles(0));
    assert_eq!(outcome.totals.source(Source::L1).count, Accesses(1));
    // A store is: it overlaps with what is before and after it.
    let ops = ops.map(|Op(pc, _, addr, gap)| Op(pc, AccessKind::Store, addr, gap));
    let outcome = run(&overlap(512, 12), from, &ops);
    assert_eq!(outcome.overlapped, Cycles(2 * (MEMORY - 4)));
}

#[test]
fn threads_of_a_core_share_its_window() {
    let addrs = scattered(16);
    let (first, second) = (loads(&addrs[..8], 2), loads(&addrs[8..], 2));
    let from: From<'_> = &[(1, &[])];
    let on = |cpus: [u16; 2]| {
        let cpus = cpus.map(LogicalCpu).to_vec();
        run_on(&overlap(512, 8), cpus, from, &[&first, &second])
    };
    // CPU 8 is the second thread of core 0, CPU 1 is another core of the domain.
    assert_eq!(on([0, 1]).overlapped, Cycles(2 * 7 * (MEMORY - 4)));
    assert_eq!(on([0, 8]).overlapped, Cycles(2 * 6 * (MEMORY - 4)));
}

#[test]
fn a_stream_is_fetched_after_training() {
    let pages = 3;
    let up: Vec<u64> = (0..64 * pages).map(|i| BASE + i * LINE).collect();
    let down: Vec<u64> = up.iter().rev().copied().collect();
    for addrs in [up, down] {
        for train in [2, 3, 5] {
            let outcome = run(&streamer(train, 2, 20), &[], &loads(&addrs, 1000));
            let missed = pages * u64::from(train);
            let fetched = 64 * pages - missed;
            let totals = &outcome.totals;
            assert_eq!(
                totals.source(Source::DramLocal),
                tally(missed, missed * MEMORY)
            );
            assert_eq!(totals.source(Source::L2), tally(fetched, fetched * 14));
            assert_eq!(outcome.fetched_ahead.l2_streamer, fetched);
            assert_eq!(outcome.fetched_ahead.late, 0);
        }
    }
}

#[test]
fn a_stream_is_fetched_no_further_than_it_may_be() {
    let addrs: Vec<u64> = (0..4).map(|i| BASE + i * LINE).collect();
    // The third request sends for as many lines as it may, each later one for the next.
    for (per_request, ahead, fetched) in [(8, 5, 6), (5, 5, 6), (2, 5, 4), (2, 1, 2)] {
        let outcome = run(&streamer(3, per_request, ahead), &[], &loads(&addrs, 1000));
        assert_eq!(outcome.fetched_ahead.l2_streamer, fetched, "{per_request}");
    }
}

#[test]
fn what_comes_late_is_waited_for() {
    // One line ahead, 10 instructions apart. The third miss sends for the fourth line, which is
    // here when the miss is over. The fourth access sends for the fifth line, which needs 300
    // cycles, of which 10 pass in the wait for L2 and 10 in instructions; while the fifth waits for
    // the rest, the sixth line comes, but for 14 cycles.
    let addrs: Vec<u64> = (0..6).map(|i| BASE + i * LINE).collect();
    let outcome = run(&streamer(3, 1, 1), &[], &loads(&addrs, 10));
    assert_eq!(outcome.totals.source(Source::L2), tally(1, 14));
    assert_eq!(
        outcome.totals.source(Source::DramLocal),
        tally(5, 3 * MEMORY + 280 + 14)
    );
    // Nobody had them before: late or not, they are cold.
    assert_eq!(outcome.totals.cause(Cause::Cold).count, Accesses(5));
    assert_eq!(outcome.fetched_ahead.late, 2);
}

#[test]
fn a_stream_is_forgotten_for_others() {
    // A request of each of as many pages as are followed, in turn, is a stream in each; of one
    // more, in none.
    let walk = |pages: u64| -> Vec<u64> {
        let at = |i: u64| BASE + i % pages * 2 * PAGE + i / pages * LINE;
        (0..pages * 20).map(at).collect()
    };
    let missed = |pages| {
        let outcome = run(&streamer(3, 2, 20), &[], &loads(&walk(pages), 1000));
        outcome.totals.source(Source::DramLocal).count
    };
    assert_eq!(missed(4), Accesses(4 * 3));
    assert_eq!(missed(5), Accesses(5 * 20));
}

#[test]
fn strides_are_fetched_within_the_page() {
    let pages: i64 = 4;
    // Eight loads a page, upwards from a page's first line or downwards from its last.
    for (first, stride_bytes) in [(BASE, 512), (BASE + PAGE - LINE, -512)] {
        let at = |i: i64| first.wrapping_add_signed(i * stride_bytes);
        let addrs: Vec<u64> = (0..8 * pages).map(at).collect();
        let outcome = run(&stride(), &[], &loads(&addrs, 1000));
        // Three loads to learn it, and the first one of each further page.
        let missed = 3 + pages as u64 - 1;
        let memory = outcome.totals.source(Source::DramLocal);
        assert_eq!(memory, tally(missed, missed * MEMORY));
        let fetched = addrs.len() as u64 - missed;
        assert_eq!(
            outcome.totals.source(Source::L1),
            tally(fetched, fetched * 4)
        );
        assert_eq!(outcome.fetched_ahead.l1_stride, fetched);
    }
}

#[test]
fn strides_are_not_learnt_from_stores_other_instructions_or_long_ways() {
    let walk = |stride: u64, op: &dyn Fn(u64, u64) -> Op| -> u64 {
        let ops: Vec<Op> = (0..8).map(|i| op(i, BASE + i * stride)).collect();
        run(&short_stride(), &[], &ops).fetched_ahead.l1_stride
    };
    let loads = |_, addr| load(1, addr, 1000);
    // From the third load on, the last one's next line included; at 576 bytes that is on the next
    // page.
    assert_eq!(walk(256, &loads), 6);
    assert_eq!(walk(576, &loads), 5);
    assert_eq!(walk(640, &loads), 0);
    let stores = |_, addr| Op(1, AccessKind::Store, addr, 1000);
    assert_eq!(walk(256, &stores), 0);
    let others = |i, addr| load(i, addr, 1000);
    assert_eq!(walk(256, &others), 0);
}

#[test]
fn no_prefetcher_takes_a_line_away() {
    // CPU 1 walks towards a line that CPU 0 has modified. A demand load fetches it from there, a
    // prefetcher does not.
    let walk: Vec<Op> = (0..6).map(|i| load(1, BASE + i * LINE, 2000)).collect();
    let own = [Op(2, AccessKind::Store, BASE + 4 * LINE, 1)];
    let cpus = vec![LogicalCpu(0), LogicalCpu(1)];
    let outcome = run_on(&streamer(2, 2, 20), cpus, &[], &[&own, &walk]);
    assert_eq!(outcome.totals.source(Source::HitmDomain).count, Accesses(1));
    assert_eq!(outcome.totals.source(Source::L2).count, Accesses(3));
}
