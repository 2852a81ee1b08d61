//! What a replay records of lines contains what it charges to keys and sites; device registers are
//! in no line.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use linemate_machine::{Machine, find};
use linemate_recording::{Access, AccessKind, Accesses, Cycles, Instructions, TimeGrid};
use linemate_replay::{
    AsRecorded, Config, Counts, Fate, Interleaving, KeyId, LineView, MachinePlaces, NoClones,
    Outcome, Placed, Placement, Replay, SiteId, Source, Tally, Transfer, TransferTime,
};
use linemate_testkit::accesses::access;

/// Two parts: before 100, and from 100 on.
const GRID: TimeGrid = TimeGrid {
    start: 0,
    step: 100,
    bins: 2,
    cpus_per_row: 1,
    rows: 2,
};
const A: u64 = 0xffff_8880_0010_0000;

fn machine() -> Machine {
    find("westmere-4s-80").unwrap()
}

fn run(placement: impl Placement, accesses: &[Access]) -> Outcome {
    let config = Config {
        recorded_cpus: 2,
        cpus: None,
        interleaving: Interleaving::Aligned,
        lines: true,
    };
    let replay = Replay::new(&machine(), &config, placement, NoClones).unwrap();
    let mut replay = replay.with_times(GRID);
    for access in accesses {
        replay.push(access).unwrap();
    }
    replay.finish().0
}

#[test]
fn device_registers_are_not_shared_memory() {
    let write = |time, cpu| access(time, cpu, AccessKind::Store, A, 8);
    let accesses = [write(0, 0), write(1, 1), write(2, 0), write(3, 1)];
    let device = |access: &Access| Placed {
        fate: Fate::Uncached,
        ..AsRecorded.place(access)
    };
    let outcome = run(device, &accesses);
    assert_eq!(
        (outcome.accesses, outcome.uncached),
        (Accesses(4), Accesses(4))
    );
    assert_eq!(
        (outcome.totals, outcome.pairs.len()),
        (Counts::default(), 0)
    );
}

/// What left its core, over the cells of the lines that moved between cores and over all others.
fn by_line(outcome: &Outcome) -> Tally {
    let mut sum = Tally::default();
    for cell in outcome.lines.iter().flat_map(|line| &line.cells) {
        sum.merge(cell.loads);
        sum.merge(cell.stores);
    }
    for rest in &outcome.uncontested {
        sum.merge(rest.loads);
        sum.merge(rest.stores);
    }
    sum
}

#[test]
fn lines_hold_what_keys_and_sites_hold_to_the_last_cycle() {
    // Lines that are never shared, lines that are later, private stores after that, accesses that
    // touch two lines.
    let mut accesses = Vec::new();
    for turn in 0..400u64 {
        let cpu = (turn % 3 % 2) as u16;
        let kind = [AccessKind::Load, AccessKind::Store, AccessKind::Rmw][turn as usize % 3];
        let addr = A + turn * 28 % (7 * 64);
        accesses.push(access(turn, cpu, kind, addr, 8));
        accesses.push(access(
            turn,
            cpu,
            AccessKind::Load,
            A + 0x1000 + turn * 64,
            8,
        ));
    }
    let split = accesses.iter().filter(|a| a.addr.0 % 64 > 56).count();
    assert!(split > 20, "{split} accesses touch two lines");
    let place = |access: &Access| Placed {
        key: KeyId((access.addr.0 - A) as u32 / 16 % 5),
        site: SiteId(u32::from(access.cpu.0)),
        ..AsRecorded.place(access)
    };
    let outcome = run(place, &accesses);
    let left = outcome.totals.left_core();
    assert!(
        outcome.totals.source(Source::L1).count > Accesses(50),
        "some hit"
    );
    assert!(outcome.lines.len() > 3 && outcome.uncontested.len() > 3);
    assert_eq!(by_line(&outcome), left);
    let mut sites = Tally::default();
    for site in &outcome.sites {
        sites.merge(site.left_core());
    }
    assert_eq!(sites, left);
    let hitm: Accesses = outcome.lines.iter().map(LineView::hitm).sum();
    assert_eq!(hitm, outcome.totals.hitm().count);
    let cells = || outcome.lines.iter().flat_map(|line| &line.cells);
    let count = |source| outcome.totals.source(source).count;
    let distances = [Source::HitmDomain, Source::HitmSocket, Source::HitmRemote];
    for (at, source) in distances.into_iter().enumerate() {
        assert_eq!(
            cells().map(|cell| cell.hitm[at]).sum::<Accesses>(),
            count(source)
        );
    }
    let forwards = count(Source::ForwardSocket) + count(Source::ForwardRemote);
    assert_eq!(
        cells().map(|cell| cell.forwards).sum::<Accesses>(),
        forwards
    );
    let upgrades = count(Source::Upgrade);
    assert!(upgrades > Accesses(0));
    assert_eq!(
        cells().map(|cell| cell.upgrades).sum::<Accesses>(),
        upgrades
    );
    let transfers = &outcome.transfers;
    assert_eq!(
        transfers.pairs.iter().map(|p| p.count).sum::<Accesses>(),
        hitm
    );
    assert_eq!(
        transfers.times.iter().map(|t| t.count).sum::<Accesses>(),
        hitm
    );
}

#[test]
fn a_transfer_is_known_by_place_by_who_and_by_when() {
    // CPU 0 writes, CPU 1 reads: three times early, once late; then CPU 0 takes the other line from
    // CPU 1, late.
    let mut accesses = Vec::new();
    for time in [0, 10, 20, 150] {
        accesses.push(access(time, 0, AccessKind::Store, A + 8, 8));
        accesses.push(access(time + 1, 1, AccessKind::Load, A + 16, 8));
    }
    accesses.push(access(160, 1, AccessKind::Store, A + 0x1000, 8));
    accesses.push(access(161, 0, AccessKind::Store, A + 0x1000, 8));
    let key = |access: &Access| Placed {
        key: KeyId((access.addr.0 - A) as u32 / 8),
        ..AsRecorded.place(access)
    };
    let outcome = run(key, &accesses);
    let pair = |key: u32, offset, (from, to), count| Transfer {
        key: KeyId(key),
        offset,
        from,
        to,
        count,
    };
    let time = |key: u32, offset, (row, bin), count| TransferTime {
        key: KeyId(key),
        offset,
        row,
        bin,
        count,
    };
    assert_eq!(outcome.transfers.places, MachinePlaces::Cpu);
    assert_eq!(
        outcome.transfers.pairs,
        [
            pair(2, 16, (0, 1), Accesses(4)),
            pair(0x200, 0, (1, 0), Accesses(1))
        ]
    );
    assert_eq!(
        outcome.transfers.times,
        [
            time(2, 16, (1, 0), Accesses(3)),
            time(2, 16, (1, 1), Accesses(1)),
            time(0x200, 0, (0, 1), Accesses(1))
        ]
    );
}

#[test]
fn many_cpus_are_distinguished_by_the_domains_of_their_caches() {
    let config = Config {
        recorded_cpus: 40,
        cpus: None,
        interleaving: Interleaving::Aligned,
        lines: true,
    };
    let machine = machine();
    let mut replay = Replay::new(&machine, &config, AsRecorded, NoClones).unwrap();
    replay.push(&access(0, 0, AccessKind::Store, A, 8)).unwrap();
    replay.push(&access(1, 39, AccessKind::Load, A, 8)).unwrap();
    let transfers = replay.finish().0.transfers;
    let places = machine.topology.spread(40).unwrap();
    let domain = |cpu: usize| machine.topology.place(places[cpu]).unwrap().domain.0;
    assert_eq!(transfers.places, MachinePlaces::Domain);
    assert_ne!(domain(0), domain(39));
    let pair = transfers.pairs[0];
    assert_eq!(
        (pair.from, pair.to, pair.count),
        (domain(0), domain(39), Accesses(1))
    );
}

#[test]
fn a_line_is_held_from_its_first_hand_over_on_and_waiting_is_apart() {
    let store = |time, cpu, addr| access(time, cpu, AccessKind::Store, addr, 8);
    // Two CPUs store to one word in turn: the first store takes the line from nobody.
    let mut accesses: Vec<Access> = (0..10).map(|n| store(n, (n % 2) as u16, A)).collect();
    // Both read a line that nobody writes.
    for time in 10..20 {
        let cpu = u16::from(time >= 15);
        accesses.push(access(time, cpu, AccessKind::Load, A + 0x1000, 8));
    }
    let place = |access: &Access| Placed {
        key: KeyId((access.addr.0 - A) as u32 / 0x1000),
        ..AsRecorded.place(access)
    };
    let outcome = run(place, &accesses);
    assert_eq!(outcome.held.len(), 1, "{:?}", outcome.held);
    let line = outcome.held[0];
    assert_eq!((line.addr.0, line.instance, line.lines), (A, 0, 1));
    let (hitm, waited) = (outcome.keys[0].hitm(), outcome.keys[0].waited);
    assert!(
        waited > Cycles(0),
        "the second store comes while the first is served"
    );
    assert_eq!(
        (line.requests.count, hitm.count),
        (Accesses(9), Accesses(9))
    );
    assert_eq!(line.requests.cycles, hitm.cycles - waited);
    // From each slice's first access to its last.
    assert_eq!(outcome.instructions, [4, 4].map(Instructions));
}
