//! More CPUs than were recorded: a tape of one group, and all groups on it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::num::NonZeroU16;
use std::sync::Arc;

use linemate_machine::{LogicalCpu, Machine, ThreadsPerCore, find};
use linemate_recording::{Access, AccessKind, Accesses, CpuId, Cycles, GuestAddr, VirtualTime};
use linemate_replay::{
    Accounts, Code, Config, Copies, Counts, Fate, Interleaving, KeyId, Mixing, NoClones, Outcome,
    Placed, Replay, Retention, Scaled, Scaling, Sharing, SiteId, Tape, join,
};

/// Memory of all, and each CPU's own.
const SHARED: u64 = 0x1_0000;
const OWN: u64 = 0x10_0000;
const TASK: u64 = 0x20_0000;

const PLAIN: SiteId = SiteId(0);
const LOCKS: SiteId = SiteId(1);

fn place(access: &Access) -> Placed {
    let addr = access.addr.0;
    let sharing = match addr {
        OWN..TASK => Sharing::OfCpu(CpuId(((addr - OWN) >> 12) as u16)),
        TASK.. => Sharing::Cloned,
        _ => Sharing::Shared,
    };
    Placed {
        addr: access.addr,
        key: KeyId(u32::from(addr >= OWN)),
        site: if access.pc.0 == 1 { LOCKS } else { PLAIN },
        sharing,
        fate: Fate::Cached,
    }
}

fn access(time: u64, cpu: u16, addr: u64, kind: AccessKind, acquires: bool) -> Access {
    Access {
        time: VirtualTime(time),
        cpu: CpuId(cpu),
        pc: GuestAddr(u64::from(acquires)),
        addr: GuestAddr(addr),
        size: 8,
        kind,
        silent: false,
        user_mapping: false,
    }
}

struct Input {
    cpus: usize,
    accesses: Vec<Access>,
    turns: bool,
}

fn code() -> Arc<Code> {
    Arc::new(Code {
        acquires: vec![false, true],
        ..Code::default()
    })
}

/// The tape of a recording, and what else its group did.
fn taped(
    machine: &Machine,
    recorded: &Input,
    retention: Retention,
    code: Arc<Code>,
    scaling: Scaling,
) -> (Outcome, Tape) {
    let all = scaling.cpus(machine, recorded.cpus).unwrap();
    let own: Vec<LogicalCpu> = all
        .iter()
        .step_by(usize::from(scaling.copies))
        .copied()
        .collect();
    let config = Config {
        recorded_cpus: recorded.cpus,
        cpus: Some(own),
        interleaving: Interleaving::Aligned,
        lines: true,
    };
    let mut replay = Replay::new(machine, &config, place, NoClones)
        .unwrap()
        .with_tape(retention, code, Accounts { keys: 2, sites: 2 })
        .with_group_share(machine, &all);
    for pass in 0..2 {
        let mut last = None;
        for access in &recorded.accesses {
            if recorded.turns && last != Some(access.cpu) {
                replay.turn(access.cpu, access.time).unwrap();
            }
            last = Some(access.cpu);
            replay.push(access).unwrap();
        }
        if pass == 0 {
            replay.begin_counting(Interleaving::Aligned);
        }
    }
    let (own, _, tape) = replay.finish_taped();
    (own, tape)
}

fn scaled(
    machine: &Machine,
    recorded: &Input,
    retention: Retention,
    code: Arc<Code>,
    scaling: Scaling,
    seed: u64,
) -> Outcome {
    let (own, tape) = taped(machine, recorded, retention, code, scaling);
    let cpus = scaling.cpus(machine, recorded.cpus).unwrap();
    let together = Scaled::new(machine, recorded.cpus, scaling, &tape, seed, None)
        .unwrap()
        .run();
    let copies = Copies {
        cpus: &cpus,
        count: scaling.copies,
    };
    join(machine, copies, &own, together)
}

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let value = self.0;
        (value ^ (value >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd) >> 11
    }

    /// Exponentially distributed.
    fn after(&mut self, mean: f64) -> u64 {
        let uniform = (self.next() as f64 + 1.0) / (1u64 << 53) as f64;
        (-uniform.ln() * mean).round() as u64
    }
}

/// A machine on which nothing takes time but instructions.
fn timeless() -> Machine {
    let mut machine = find("gnr-2s-480").unwrap();
    machine.adjacent_line_pairs = false;
    let latency = &mut machine.latency;
    for cycles in [
        &mut latency.l1,
        &mut latency.l2,
        &mut latency.llc,
        &mut latency.hitm_same_domain,
        &mut latency.hitm_same_socket,
        &mut latency.hitm_other_socket,
        &mut latency.dram_local,
        &mut latency.dram_remote,
    ] {
        *cycles = 1;
    }
    (latency.atomic, latency.serve) = (0, 0);
    machine
}

/// The throughput of N customers that think for `think` on average and are served by one server in
/// `service` each: M/M/1//N, in customers per cycle (Kleinrock, "Queueing Systems" I, 3.8).
fn repairman(customers: u32, think: f64, service: f64) -> f64 {
    let ratio = service / think;
    let mut term = 1.0;
    let mut sum = 1.0;
    for waiting in 0..customers {
        term *= f64::from(customers - waiting) * ratio;
        sum += term;
    }
    (1.0 - 1.0 / sum) / service
}

/// One CPU that takes a lock after thinking, again and again, with a turn of its own each time.
fn one_lock(rounds: usize, think: f64, hold: f64) -> Input {
    let mut random = Dice(7);
    let mut accesses = Vec::new();
    let mut time = 0;
    for _ in 0..rounds {
        time += 1 + random.after(think);
        accesses.push(access(time, 0, SHARED, AccessKind::Rmw, true));
        time += 1 + random.after(hold);
        accesses.push(access(time, 0, SHARED, AccessKind::Store, false));
    }
    Input {
        cpus: 1,
        accesses,
        turns: true,
    }
}

#[test]
fn waiting_for_a_lock_is_the_machine_repairmans() {
    let machine = timeless();
    for copies in [2, 8, 32, 128] {
        for (think, hold) in [(2000.0, 100.0), (2000.0, 500.0), (20_000.0, 200.0)] {
            let rounds = 4000;
            let recorded = one_lock(rounds, think, hold);
            let scaling = Scaling::new(copies);
            let found = scaled(&machine, &recorded, Retention::Shared, code(), scaling, 3);
            let throughput = f64::from(copies) * rounds as f64 / f64::from(found.cycles);
            let expected = repairman(copies.into(), think + 1.0, hold + 1.0);
            let error = throughput / expected - 1.0;
            assert!(
                error.abs() < 0.05,
                "{copies} CPUs, {think}, {hold}: {throughput} for {expected}, {error:+.3}"
            );
            let without = Scaling {
                locks: false,
                ..scaling
            };
            let free = scaled(&machine, &recorded, Retention::Shared, code(), without, 3);
            assert!(free.locks.is_empty() && free.cycles < found.cycles);
        }
    }
}

/// A line that everybody writes is handed over once per latency, however many want it: the
/// asymptotes of a closed queue (Denning and Buzen, "The Operational Analysis of Queueing Network
/// Models", 1978).
#[test]
fn a_line_that_all_write_is_a_server() {
    let mut machine = timeless();
    machine.latency.hitm_same_domain = 200;
    machine.latency.hitm_same_socket = 200;
    machine.latency.hitm_other_socket = 200;
    let (think, rounds) = (10_000, 400);
    let writes = |round: usize| {
        access(
            think * (round as u64 + 1),
            0,
            SHARED,
            AccessKind::Store,
            false,
        )
    };
    let recorded = Input {
        cpus: 1,
        accesses: (0..rounds).map(writes).collect(),
        turns: true,
    };
    for (copies, busy) in [(4, 4.0 * 200.0 / 10_200.0), (200, 1.0), (480, 1.0)] {
        let found = scaled(
            &machine,
            &recorded,
            Retention::Shared,
            code(),
            Scaling::new(copies),
            1,
        );
        let transfers = f64::from(copies) * rounds as f64;
        let used = transfers * 200.0 / f64::from(found.cycles);
        assert!(
            (used / busy - 1.0).abs() < 0.05,
            "{copies}: {used} for {busy}"
        );
        if copies == 480 {
            // Each waits for all others but those who think: 480 x 200 - 10,000.
            let wait = f64::from(found.totals.cycles()) / transfers;
            assert!(
                (wait / (480.0 * 200.0 - 10_000.0) - 1.0).abs() < 0.05,
                "{wait}"
            );
        }
    }
}

/// Some of everything: tasks' memory, CPUs' own and others', what is shared, and a lock.
fn mixed(cpus: u16, turns: usize, seed: u64) -> Input {
    let mut random = Dice(seed);
    let mut accesses = Vec::new();
    let mut time = 0;
    for turn in 0..turns {
        let cpu = (turn % usize::from(cpus)) as u16;
        for _ in 0..40 {
            time += 1 + random.next() % 300;
            let slot = random.next() % 64 * 8;
            let kind = [AccessKind::Load, AccessKind::Load, AccessKind::Store]
                [(random.next() % 3) as usize];
            let other = random.next() % u64::from(cpus);
            let addr = match random.next() % 16 {
                0 => SHARED + 0x1000 + slot,
                1 | 2 => OWN + (other << 12) + slot,
                3..6 => OWN + (u64::from(cpu) << 12) + slot,
                _ => TASK + (u64::from(cpu) << 16) + random.next() % 0x4000,
            };
            accesses.push(access(time, cpu, addr & !7, kind, false));
        }
        if turn % 4 == 0 {
            accesses.push(access(time + 1, cpu, SHARED, AccessKind::Rmw, true));
            accesses.push(access(time + 200, cpu, SHARED, AccessKind::Store, false));
            time += 200;
        }
    }
    Input {
        cpus: cpus.into(),
        accesses,
        turns: true,
    }
}

#[test]
fn every_access_is_made_once_by_each_group() {
    let machine = find("gnr-2s-480").unwrap();
    let recorded = mixed(8, 800, 1);
    for copies in [2, 4, 60] {
        let scaling = Scaling::new(copies);
        let found = scaled(&machine, &recorded, Retention::Shared, code(), scaling, 1);
        let expected = recorded.accesses.len() as u64 * u64::from(copies);
        assert_eq!(found.totals.accesses(), Accesses(expected));
        assert_eq!(found.accesses, Accesses(expected));
        let keys: Accesses = found.keys.iter().map(|counts| counts.accesses()).sum();
        assert_eq!(keys, Accesses(expected));
        let again = scaled(&machine, &recorded, Retention::Shared, code(), scaling, 1);
        assert!(again == found, "not the same twice");
        let other = scaled(&machine, &recorded, Retention::Shared, code(), scaling, 2);
        assert!(other.totals != found.totals, "the seed does nothing");
    }
}

/// What a tape leaves out costs the same as when everything is replayed by everybody.
#[test]
fn two_levels_are_as_good_as_one() {
    let machine = find("gnr-2s-480").unwrap();
    for seed in 1..4 {
        let recorded = mixed(8, 800, seed);
        for copies in [4, 16] {
            let scaling = Scaling::new(copies);
            let cost = |retention| {
                let of = |interleaving| {
                    let found = scaled(
                        &machine,
                        &recorded,
                        retention,
                        code(),
                        scaling,
                        interleaving,
                    );
                    f64::from(found.totals.left_core().cycles)
                };
                (1..5).map(of).sum::<f64>()
            };
            let (two, one) = (cost(Retention::Shared), cost(Retention::All));
            assert!(
                (two / one - 1.0).abs() < 0.02,
                "{copies} groups, seed {seed}: {two} and {one}"
            );
        }
    }
}

#[test]
fn groups_meet_where_mixing_lets_them() {
    let machine = find("gnr-2s-480").unwrap();
    // CPU 0 writes, CPU 1 reads it.
    let mut accesses = Vec::new();
    for turn in 0..400 {
        accesses.push(access(turn * 2000, 0, OWN, AccessKind::Store, false));
        accesses.push(access(turn * 2000 + 1000, 1, OWN, AccessKind::Load, false));
    }
    let recorded = Input {
        cpus: 2,
        accesses,
        turns: true,
    };
    let hitm = |mixing| {
        let scaling = Scaling {
            mixing,
            ..Scaling::new(120)
        };
        let found = scaled(&machine, &recorded, Retention::Shared, code(), scaling, 1);
        use linemate_replay::Source::{HitmDomain, HitmRemote, HitmSocket};
        let count = |source| f64::from(found.totals.source(source).count);
        let all = count(HitmDomain) + count(HitmSocket) + count(HitmRemote);
        assert!(all > 10_000.0, "{mixing:?}: {all}");
        [HitmDomain, HitmSocket, HitmRemote].map(|source| count(source) / all)
    };
    // Spread over the machine, the copies of one CPU are on one socket and those of the other on
    // the other one.
    assert_eq!(hitm(Mixing::Groups), [0.0, 0.0, 1.0]);
    assert_eq!(hitm(Mixing::Flat), [0.0, 0.0, 1.0]);
    let near = |found: [f64; 3], expected: [f64; 3]| {
        let off = found
            .iter()
            .zip(expected)
            .any(|(a, b)| (a - b).abs() > 0.03);
        assert!(!off, "{found:?} for {expected:?}");
    };
    // A third each for the domain, the socket (a third of it is the domain) and the machine.
    let third = 1.0 / 3.0;
    near(
        hitm(Mixing::Domains),
        [
            third + third / 3.0 + third / 6.0,
            third * 2.0 / 3.0 + third * 2.0 / 6.0,
            third / 2.0,
        ],
    );
}

#[test]
fn what_grows_is_made_as_often_as_it_grows() {
    let machine = find("gnr-2s-480").unwrap();
    let recorded = mixed(4, 800, 5);
    let once = scaled(
        &machine,
        &recorded,
        Retention::Shared,
        code(),
        Scaling::new(8),
        1,
    );
    for factor in [0.0_f32, 0.5, 2.5, 8.0] {
        let mut code = Code::clone(&code());
        code.growth.insert((PLAIN, KeyId(0)), factor);
        let grown = scaled(
            &machine,
            &recorded,
            Retention::Shared,
            Arc::new(code),
            Scaling::new(8),
            1,
        );
        // Of key 0 all but the lock's acquisitions are of that site.
        let acquired = once.keys[0].rmws;
        let plain = f64::from(once.keys[0].accesses() - acquired) * f64::from(factor);
        let found = f64::from(grown.keys[0].accesses() - acquired);
        assert!(
            (found - plain).abs() <= 0.05 * plain,
            "{factor}: {found} for {plain}"
        );
        // Tasks' accesses are not on the tape: they are as many as ever.
        assert_eq!(grown.keys[1].accesses(), once.keys[1].accesses());
    }
}

/// A lock that is not released is free when its holder's turn is over, and nobody waits forever.
#[test]
fn a_lock_that_is_not_let_go_is_reported() {
    let machine = find("gnr-2s-480").unwrap();
    let accesses = (0..200)
        .map(|turn| access(turn * 1000, 0, SHARED, AccessKind::Rmw, true))
        .collect();
    let recorded = Input {
        cpus: 1,
        accesses,
        turns: true,
    };
    let found = scaled(
        &machine,
        &recorded,
        Retention::Shared,
        code(),
        Scaling::new(16),
        1,
    );
    assert!(found.scaled.unwrap().unreleased > 0);
    assert_eq!(found.totals.rmws, Accesses(200 * 16));
}

/// Where recorded CPUs 2n and 2n + 1 are threads of one core, their copies in domains are, too; one
/// by one the copies of a CPU are next to each other, and CPUs on cores of their own.
#[test]
fn copies_of_threads_of_one_core_are_threads_of_one_core() {
    let machine = find("gnr-2s-480").unwrap();
    let core = |cpu: LogicalCpu| machine.topology.place(cpu).unwrap().core;
    for (copies, mixing, together) in [
        (1, Mixing::Domains, true),
        (1, Mixing::Flat, true),
        (4, Mixing::Domains, true),
        (4, Mixing::Flat, false),
        (4, Mixing::Groups, false),
    ] {
        let scaling = Scaling {
            mixing,
            threads: ThreadsPerCore(NonZeroU16::new(2).unwrap()),
            ..Scaling::new(copies)
        };
        let cpus = scaling.cpus(&machine, 8).unwrap();
        let copies = usize::from(copies);
        for (first, copy) in (0..8)
            .step_by(2)
            .flat_map(|cpu| (0..copies).map(move |n| (cpu, n)))
        {
            let of = |cpu: usize| core(cpus[cpu * copies + copy]);
            let same = of(first) == of(first + 1);
            assert_eq!(
                same, together,
                "{mixing:?}: CPU {first}, copy {copy} of {copies}"
            );
        }
    }
}

/// Sixteen groups count half of a long tape each: every access as often as if all went around, and
/// at about the same cost.
#[test]
fn groups_that_count_stretches_count_what_all_of_them_do() {
    let machine = find("gnr-2s-480").unwrap();
    let mut random = Dice(11);
    let mut accesses = Vec::new();
    let mut time = 0;
    for turn in 0..6000 {
        let cpu = turn % 2;
        time += 1 + random.after(3000.0);
        let kind = match random.next() % 3 {
            0 => AccessKind::Load,
            1 => AccessKind::Store,
            _ => AccessKind::Rmw,
        };
        accesses.push(access(time, cpu, SHARED, kind, false));
        accesses.push(access(time + 20, cpu, OWN, AccessKind::Load, false));
        accesses.push(access(time + 40, 0, OWN + 8, AccessKind::Store, false));
        accesses.push(access(time + 60, cpu, TASK, AccessKind::Store, false));
    }
    let recorded = Input {
        cpus: 2,
        accesses,
        turns: true,
    };
    let found = |whole| {
        let scaling = Scaling {
            whole,
            ..Scaling::new(16)
        };
        scaled(&machine, &recorded, Retention::Shared, code(), scaling, 5)
    };
    let (parts, whole) = (found(false), found(true));
    assert_eq!(parts.accesses, whole.accesses);
    assert_eq!(parts.rounds, whole.rounds);
    let made = |outcome: &Outcome| -> Vec<[Accesses; 3]> {
        let kinds = |counts: &Counts| [counts.loads, counts.stores, counts.rmws];
        outcome
            .keys
            .iter()
            .chain(&outcome.sites)
            .map(kinds)
            .collect()
    };
    assert_eq!(made(&parts), made(&whole));
    for outcome in [&parts, &whole] {
        let sum = |all: &[Counts]| -> Cycles { all.iter().map(Counts::cycles).sum() };
        let totals: Cycles = outcome.totals.cycles();
        assert_eq!([sum(&outcome.keys), sum(&outcome.sites)], [totals; 2]);
    }
    let near =
        |part: Cycles, whole: Cycles| (f64::from(part) / f64::from(whole) - 1.0).abs() < 0.05;
    let cost = |outcome: &Outcome| outcome.totals.cycles();
    assert_ne!(cost(&parts), cost(&whole), "the same groups counted");
    assert!(
        near(cost(&parts), cost(&whole)),
        "{} {}",
        cost(&parts),
        cost(&whole)
    );
    assert!(
        near(parts.cycles, whole.cycles),
        "{} {}",
        parts.cycles,
        whole.cycles
    );
    let held = |outcome: &Outcome| -> Cycles {
        let all = outcome.held.iter();
        all.map(|line| line.requests.cycles * u64::from(line.lines))
            .sum()
    };
    assert!(
        near(held(&parts), held(&whole)),
        "{} {}",
        held(&parts),
        held(&whole)
    );
    // A line of each group that only its own CPUs touch, and one that others reach: of the latter
    // two groups that count a half each are as two that go around.
    let own = |outcome: &Outcome| -> (usize, u16) {
        let own = outcome.held.iter().filter(|line| line.addr.0 >= OWN);
        (own.clone().count(), own.map(|line| line.lines).sum())
    };
    assert_eq!((own(&parts), own(&whole)), ((9, 32), (17, 32)));
}
