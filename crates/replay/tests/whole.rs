//! Whole replays: rounds and clocks, accounts, cloned CPUs, refusals, and what must not change
//! anything.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::machine;
use linemate_machine::{LogicalCpu, Machine};
use linemate_recording::{Access, AccessKind, Accesses, CpuId, Cycles, GuestAddr};
use linemate_replay::{
    AsRecorded, COPIES_MAX, Cause, Clones, Config, Counts, Fate, Interleaving, KeyId, NoClones,
    Outcome, Pair, Placed, Placement, Replay, ReplayError, Sharing, SiteId, Source, Tally,
};
use linemate_testkit::accesses::access;

const A: u64 = 0xffff_8880_0000_1000;

/// Room for everything.
fn roomy() -> Machine {
    machine(&[
        ("size = 128\nways = 2", "size = 4096\nways = 4"),
        ("size = 256\nways = 4", "size = 65536\nways = 4"),
        ("size = 512\nways = 8", "size = 1048576\nways = 8"),
    ])
}

fn config(recorded_cpus: usize) -> Config {
    Config {
        recorded_cpus,
        cpus: None,
        interleaving: Interleaving::Aligned,
        lines: true,
    }
}

fn read(time: u64, cpu: u16, addr: u64) -> Access {
    access(time, cpu, AccessKind::Load, addr, 4)
}

fn write(time: u64, cpu: u16, addr: u64) -> Access {
    access(time, cpu, AccessKind::Store, addr, 4)
}

fn run_on(
    machine: &Machine,
    config: &Config,
    placement: impl Placement,
    copies: u16,
    accesses: &[Access],
) -> Outcome {
    let mut replay = Replay::new(machine, config, placement, Clones { copies }).unwrap();
    for access in accesses {
        replay.push(access).unwrap();
    }
    replay.finish().0
}

fn run(cpus: usize, accesses: &[Access]) -> Outcome {
    run_on(&roomy(), &config(cpus), AsRecorded, 1, accesses)
}

fn tally(count: u64, cycles: u64) -> Tally {
    Tally {
        count: Accesses(count),
        cycles: Cycles(cycles),
    }
}

/// A stream with private, shared and fought-over lines on every CPU.
fn mixed(seed: u64, cpus: u16, length: usize) -> Vec<Access> {
    let mut state = seed;
    let mut cpu = 0;
    (0..length)
        .map(|index| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let r = state >> 20;
            if r % 7 == 0 {
                cpu = (r >> 8) as u16 % cpus;
            }
            let own = A + 0x10_0000 * u64::from(cpu + 1) + (r >> 8) % 2048 * 8;
            let addr = if (r >> 4) % 3 == 0 {
                A + (r >> 8) % 64 * 8
            } else {
                own
            };
            let kind = match (r >> 30) % 4 {
                0 => AccessKind::Store,
                1 if (r >> 33) % 4 == 0 => AccessKind::Rmw,
                _ => AccessKind::Load,
            };
            access(3 * index as u64, cpu, kind, addr, 8)
        })
        .collect()
}

#[test]
fn slices_of_a_round_run_side_by_side() {
    // Recorded one after the other, 1000 instructions apart; replayed, both start at 0. CPU 1's
    // write waits for CPU 0's; they sit on different sockets.
    let outcome = run(2, &[write(0, 0, A), write(1000, 1, A)]);
    assert_eq!(outcome.rounds, 1);
    assert_eq!(outcome.totals.source(Source::DramLocal), tally(1, 300));
    assert_eq!(outcome.totals.source(Source::HitmRemote), tally(1, 700));
    assert_eq!(outcome.totals.waited, Cycles(300));
    // A stall is the time beyond an L1 hit.
    assert_eq!(outcome.cycles, Cycles(696));
}

#[test]
fn a_cpu_that_comes_up_again_starts_a_round_at_the_end_of_the_last_one() {
    let outcome = run(2, &[write(0, 0, A), write(1000, 1, A), write(2000, 0, A)]);
    assert_eq!(outcome.rounds, 2);
    // The second round starts at 696, when the line's last transfer has 4 cycles to go.
    assert_eq!(
        outcome.totals.source(Source::HitmRemote),
        tally(2, 700 + 404)
    );
    assert_eq!(outcome.cycles, Cycles(696 + 400));
}

#[test]
fn stalls_push_only_the_cpu_that_stalls() {
    // CPU 0 misses at once and is 296 cycles late from then on; CPU 1's read of B at instruction
    // 100 comes before CPU 0's at instruction 1.
    let b = A + 64;
    let outcome = run(
        2,
        &[
            read(0, 0, A),
            read(1, 0, b),
            access(500, 1, AccessKind::Load, A + 4096, 4),
            read(501, 1, b),
        ],
    );
    // Both start with a miss of their own, both reach B at 297; CPU 0 is first, CPU 1 waits 10.
    assert_eq!(outcome.totals.source(Source::DramLocal), tally(3, 900));
    assert_eq!(outcome.totals.source(Source::ForwardRemote), tally(1, 410));
    let late = run(
        2,
        &[
            read(0, 0, A),
            read(1, 0, b),
            access(500, 1, AccessKind::Load, b, 4),
            read(501, 1, b),
        ],
    );
    assert_eq!(late.totals.source(Source::L1).count, Accesses(1));
    assert_eq!(late.totals.source(Source::ForwardRemote), tally(1, 400));
}

#[test]
fn seeds_shift_slices_and_repeat() {
    let accesses = mixed(1, 8, 5000);
    let seeded = |seed| {
        let config = Config {
            interleaving: Interleaving::Seeded(seed),
            ..config(8)
        };
        run_on(&roomy(), &config, AsRecorded, 1, &accesses)
    };
    assert_eq!(seeded(1), seeded(1));
    assert_ne!(seeded(1).cycles, seeded(2).cycles);
    assert_eq!(seeded(1).totals.accesses(), seeded(2).totals.accesses());
}

#[test]
fn an_access_across_two_lines_counts_once_as_its_slower_piece() {
    // The first line is in L1, the second is not.
    let outcome = run(
        1,
        &[read(0, 0, A), access(1, 0, AccessKind::Load, A + 60, 8)],
    );
    assert_eq!(outcome.totals.accesses(), Accesses(2));
    assert_eq!(outcome.totals.split, Accesses(1));
    assert_eq!(outcome.totals.source(Source::DramLocal), tally(2, 600));
    // Two equally slow ones, in the second round: the first decides. CPU 1 has modified the first
    // line, the second one it has clean; both take 400 from the other socket.
    let dummy = A + 4096;
    let outcome = run(
        2,
        &[
            write(0, 1, A),
            read(1, 1, A + 64),
            read(2, 0, dummy),
            read(3, 1, A),
            access(10, 0, AccessKind::Load, A + 60, 8),
        ],
    );
    assert_eq!((outcome.rounds, outcome.totals.split), (2, Accesses(1)));
    assert_eq!(outcome.totals.hitm(), tally(1, 400));
    assert_eq!(
        outcome.totals.source(Source::ForwardRemote).count,
        Accesses(0)
    );
    // Both in L1: once as that.
    let outcome = run(
        1,
        &[
            read(0, 0, A),
            read(1, 0, A + 64),
            access(2, 0, AccessKind::Load, A + 60, 8),
        ],
    );
    assert_eq!(outcome.totals.source(Source::L1), tally(1, 4));
    assert_eq!(outcome.totals.split, Accesses(1));
}

#[test]
fn the_other_piece_of_a_split_access_leaves_no_miss_behind() {
    // Both pieces are coherence misses; one true sharing at most is counted.
    let both = A + 60;
    let outcome = run(
        2,
        &[
            access(0, 0, AccessKind::Load, both, 8),
            access(1, 1, AccessKind::Store, both, 8),
            access(2, 0, AccessKind::Load, both, 8),
        ],
    );
    assert_eq!(outcome.totals.accesses(), Accesses(3));
    assert_eq!(outcome.totals.cause(Cause::TrueSharing).count, Accesses(1));
    assert_eq!(outcome.totals.cause(Cause::Cold).count, Accesses(2));
}

#[test]
fn skipped_accesses_vanish_from_the_counts_alone() {
    let accesses = [write(0, 0, A), write(1, 1, A), write(2, 0, A)];
    let skip = |access: &Access| Placed {
        fate: match access.cpu.0 {
            1 => Fate::Removed,
            _ => Fate::Cached,
        },
        ..AsRecorded.place(access)
    };
    let outcome = run_on(&roomy(), &config(2), skip, 1, &accesses);
    assert_eq!(
        (outcome.accesses, outcome.skipped),
        (Accesses(3), Accesses(1))
    );
    assert_eq!(outcome.totals.accesses(), Accesses(2));
    assert_eq!(outcome.totals.source(Source::L1).count, Accesses(1));
    // CPU 1's empty slice still separates CPU 0's two.
    assert_eq!(outcome.rounds, 2);
}

#[test]
fn keys_sites_pairs_and_lines_account_for_the_same_things() {
    let place = |access: &Access| Placed {
        key: KeyId((access.addr.0 - A) as u32 / 4),
        site: SiteId(u32::from(access.cpu.0)),
        ..AsRecorded.place(access)
    };
    let accesses = [
        write(0, 0, A),
        read(1, 0, A),
        write(2, 1, A + 4),
        read(3, 0, A),
        read(4, 1, A + 4),
    ];
    let outcome = run_on(&roomy(), &config(2), place, 1, &accesses);
    // Round 1: CPU 0 writes key 0 (memory) and reads it; CPU 1 writes key 1, waits for CPU 0's
    // first write. Round 2: CPU 0's read fetches the line back for nothing new; CPU 1 reads its
    // shared copy.
    let [zero, one] = &outcome.keys[..] else {
        panic!("two keys")
    };
    assert_eq!(
        [zero.stores, zero.loads, zero.accesses()],
        [1, 2, 3].map(Accesses)
    );
    assert_eq!([one.stores, one.loads], [1, 1].map(Accesses));
    assert_eq!(zero.cause(Cause::Cold).count, Accesses(1));
    assert_eq!(one.cause(Cause::Cold).count, Accesses(1));
    let false_sharing: Accesses = outcome
        .keys
        .iter()
        .map(|key| key.cause(Cause::FalseSharing).count)
        .sum();
    assert_eq!(
        false_sharing,
        outcome.totals.cause(Cause::FalseSharing).count
    );
    let mut sum = Counts::default();
    for key in &outcome.keys {
        sum.merge(key);
    }
    assert_eq!(sum, outcome.totals);
    let mut sum = Counts::default();
    for site in &outcome.sites {
        sum.merge(site);
    }
    assert_eq!(sum, outcome.totals);
    assert!(
        outcome.totals.source(Source::L1).count > Accesses(0),
        "hits, too"
    );
    // Pairs hold the modified lines that changed hands; the CPUs are spread over the sockets.
    let hitm: Accesses = outcome.pairs.iter().map(|pair| pair.tally.count).sum();
    assert_eq!(hitm, outcome.totals.hitm().count);
    assert!(
        outcome
            .pairs
            .iter()
            .all(|pair| [0, 4].contains(&pair.from.0))
    );
    let [line] = &outcome.lines[..] else {
        panic!("one line: {:?}", outcome.lines)
    };
    assert_eq!((line.addr, line.instance), (GuestAddr(A), 0));
    assert_eq!(line.hitm(), hitm);
}

#[test]
fn the_view_of_a_line_has_offsets_instructions_and_costs() {
    let accesses = [
        write(0, 0, A),
        write(1, 1, A + 8),
        write(2, 1, A + 8),
        read(3, 0, A),
    ];
    let outcome = run(2, &accesses);
    let [line] = &outcome.lines[..] else {
        panic!("one line: {:?}", outcome.lines)
    };
    let cells: Vec<_> = line
        .cells
        .iter()
        .map(|cell| (cell.offset, cell.pc.0, cell.loads, cell.stores, cell.hitm))
        .collect();
    // CPU 0's first write came before the line had gone anywhere: it is among the uncontested. CPU
    // 1's second one ends the round at 697, so CPU 0's read waits 3 cycles for the transfer that
    // ends at 700.
    assert_eq!(
        cells,
        [
            (
                0,
                0x100,
                tally(1, 403),
                tally(0, 0),
                [0, 0, 1].map(Accesses)
            ),
            (
                8,
                0x101,
                tally(0, 0),
                tally(1, 700),
                [0, 0, 1].map(Accesses)
            ),
        ]
    );
    assert_eq!(
        outcome.pairs,
        [
            Pair {
                from: LogicalCpu(0),
                to: LogicalCpu(4),
                tally: tally(1, 700)
            },
            Pair {
                from: LogicalCpu(4),
                to: LogicalCpu(0),
                tally: tally(1, 403)
            },
        ]
    );
}

#[test]
fn cloned_cpus_have_their_own_per_cpu_memory_and_share_the_rest() {
    let place = |access: &Access| Placed {
        sharing: if access.addr.0 == A {
            Sharing::Shared
        } else {
            Sharing::Cloned
        },
        ..AsRecorded.place(access)
    };
    let own = A + 4096;
    let accesses = [write(0, 0, own), write(1, 0, A)];
    let outcome = run_on(&roomy(), &config(1), place, 4, &accesses);
    assert_eq!(outcome.accesses, Accesses(2));
    assert_eq!(outcome.totals.accesses(), Accesses(8));
    // Four private lines from memory; the shared one from memory once, then from hand to hand.
    assert_eq!(outcome.totals.cause(Cause::Cold).count, Accesses(8));
    assert_eq!(outcome.totals.hitm().count, Accesses(3));
    let dram = outcome.totals.source(Source::DramLocal).count;
    assert_eq!(dram, Accesses(5));
}

#[test]
fn references_between_cpus_keep_their_relation_in_every_copy() {
    // CPU 1 reads what CPU 0 wrote in CPU 0's per-CPU memory.
    let place = |access: &Access| Placed {
        sharing: Sharing::Cloned,
        ..AsRecorded.place(access)
    };
    let accesses = [write(0, 0, A), read(1, 1, A)];
    let outcome = run_on(&roomy(), &config(2), place, 3, &accesses);
    let pairs: Vec<_> = outcome
        .pairs
        .iter()
        .map(|pair| (pair.from.0, pair.to.0))
        .collect();
    // Six CPUs on eight cores: 0, 1, 2, 4, 5, 6. Copy n of CPU c is the (3c + n)-th of them: each
    // pair is as far apart as CPUs 0 and 1 are when they are spread alone, on both sockets.
    assert_eq!(pairs, [(0, 4), (1, 5), (2, 6)]);
}

#[test]
fn what_cannot_be_is_refused_with_its_value() {
    let machine = roomy();
    let new = |config: &Config, copies| {
        Replay::new(&machine, config, AsRecorded, Clones { copies })
            .err()
            .map(|e| e.to_string())
    };
    assert_eq!(
        new(&config(9), 2).as_deref(),
        Some("18 CPUs (9 recorded x 2) on small, which has 16")
    );
    assert_eq!(
        new(&config(0), 1).as_deref(),
        Some("0 recorded CPUs x 1 copies; both must be at least 1, copies at most 4096")
    );
    assert!(new(&config(1), 0).is_some());
    assert!(new(&config(1), COPIES_MAX + 1).is_some());
    let given = |cpus: &[u16]| Config {
        cpus: Some(cpus.iter().map(|&cpu| LogicalCpu(cpu)).collect()),
        ..config(2)
    };
    assert_eq!(new(&given(&[3, 9]), 1), None);
    assert_eq!(
        new(&given(&[3]), 1).as_deref(),
        Some("1 logical CPUs are given for 2 CPUs")
    );
    assert_eq!(
        new(&given(&[3, 16]), 1).as_deref(),
        Some("logical CPU 16 is not on the machine or given twice")
    );
    assert_eq!(
        new(&given(&[3, 3]), 1).as_deref(),
        Some("logical CPU 3 is not on the machine or given twice")
    );
    let mut replay = Replay::new(&machine, &config(2), AsRecorded, NoClones).unwrap();
    assert_eq!(
        replay.push(&read(0, 2, A)),
        Err(ReplayError::Cpu {
            cpu: CpuId(2),
            recorded: 2
        })
    );
    for size in [0, 65] {
        assert_eq!(
            replay.push(&access(0, 0, AccessKind::Load, A, size)),
            Err(ReplayError::Size { addr: A, size })
        );
    }
    assert_eq!(replay.finish().0.totals, Counts::default());
    let key = |access: &Access| Placed {
        key: KeyId(1 << 24),
        ..AsRecorded.place(access)
    };
    let mut replay = Replay::new(&machine, &config(2), key, NoClones).unwrap();
    assert_eq!(replay.push(&read(0, 0, A)), Err(ReplayError::Key(1 << 24)));
}

#[test]
fn nothing_recorded_gives_nothing() {
    let outcome = run(2, &[]);
    assert_eq!(outcome.totals, Counts::default());
    assert_eq!((outcome.cycles, outcome.accesses), (Cycles(0), Accesses(0)));
}

#[test]
fn hostile_times_and_addresses_do_no_harm() {
    let outcome = run(
        2,
        &[
            access(u64::MAX, 0, AccessKind::Store, u64::MAX, 64),
            access(0, 0, AccessKind::Store, 0, 64),
            access(u64::MAX - 1, 0, AccessKind::Rmw, 1 << 60, 1),
            access(5, 1, AccessKind::Load, u64::MAX - 63, 64),
        ],
    );
    assert_eq!(outcome.totals.accesses(), Accesses(4));
}

/// A CPU that runs alone for very long is replayed in bounded memory: rounds close.
#[test]
fn a_lone_cpu_does_not_make_an_endless_round() {
    let accesses: Vec<Access> = (0..200_000).map(|time| read(time, 0, A)).collect();
    let outcome = run(1, &accesses);
    assert_eq!(outcome.rounds, 200_000_u64.div_ceil(1 << 16));
    assert_eq!(outcome.totals.source(Source::L1).count, Accesses(199_999));
    // Instructions 0 to 199,999, the first one stalled for 296. A round starts when the last access
    // of the one before is done: one instruction is lost at each of the three seams.
    assert_eq!(outcome.cycles, Cycles(199_999 + 296 - 3));
}

#[test]
fn totals_equal_the_number_of_accesses() {
    for seed in 0..20 {
        let accesses = mixed(seed, 8, 3000);
        for copies in [1, 2] {
            // Small caches, so that everything happens.
            let machine = machine(&[]);
            let outcome = run_on(&machine, &config(8), AsRecorded, copies, &accesses);
            assert_eq!(
                outcome.totals.accesses(),
                Accesses(3000 * u64::from(copies)),
                "seed {seed}"
            );
            let sources: Accesses = Source::ALL
                .iter()
                .map(|&s| outcome.totals.source(s).count)
                .sum();
            assert_eq!(sources, outcome.totals.accesses(), "seed {seed}");
            let causes: Accesses = Cause::ALL
                .iter()
                .map(|&c| outcome.totals.cause(c).count)
                .sum();
            let private: Accesses = [Source::L1, Source::L2]
                .iter()
                .map(|&s| outcome.totals.source(s).count)
                .sum();
            assert_eq!(private + causes, outcome.totals.accesses(), "seed {seed}");
            let by_cause: Cycles = Cause::ALL
                .iter()
                .map(|&c| outcome.totals.cause(c).cycles)
                .sum();
            let by_private: Cycles = [Source::L1, Source::L2]
                .iter()
                .map(|&s| outcome.totals.source(s).cycles)
                .sum();
            assert_eq!(
                by_cause + by_private,
                outcome.totals.cycles(),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn one_cpu_has_no_sharing() {
    for seed in 0..10 {
        let outcome = run_on(
            &machine(&[]),
            &config(1),
            AsRecorded,
            1,
            &mixed(seed, 1, 3000),
        );
        assert_eq!(outcome.totals.cause(Cause::TrueSharing).count, Accesses(0));
        assert_eq!(outcome.totals.cause(Cause::FalseSharing).count, Accesses(0));
        assert_eq!(outcome.totals.cause(Cause::Unshared).count, Accesses(0));
        assert_eq!(outcome.totals.hitm().count, Accesses(0));
        assert_eq!(outcome.totals.source(Source::Upgrade).count, Accesses(0));
        assert_eq!(
            (
                outcome.totals.waited,
                outcome.pairs.len(),
                outcome.lines.len()
            ),
            (Cycles(0), 0, 0)
        );
    }
}

#[test]
fn all_threads_of_one_core_have_no_sharing() {
    let config = Config {
        cpus: Some(vec![LogicalCpu(3), LogicalCpu(11)]),
        ..config(2)
    };
    let outcome = run_on(&machine(&[]), &config, AsRecorded, 1, &mixed(5, 2, 3000));
    assert_eq!(outcome.totals.cause(Cause::TrueSharing).count, Accesses(0));
    assert_eq!(outcome.totals.cause(Cause::FalseSharing).count, Accesses(0));
    assert_eq!(outcome.totals.hitm().count, Accesses(0));
}

#[test]
fn a_placement_that_moves_nothing_changes_nothing() {
    let accesses = mixed(3, 8, 5000);
    let plain = run(8, &accesses);
    let same = |access: &Access| Placed {
        addr: GuestAddr(access.addr.0 ^ 0x40 ^ 0x40),
        ..AsRecorded.place(access)
    };
    assert_eq!(run_on(&roomy(), &config(8), same, 1, &accesses), plain);
}

#[test]
fn swapping_fields_that_nobody_touches_changes_nothing() {
    // Within the first line, only the first 32 bytes are used: exchanging the rest with each other,
    // and the names of unused keys, moves no access.
    let accesses: Vec<Access> = mixed(4, 8, 5000)
        .into_iter()
        .map(|mut access| {
            access.addr.0 &= !0x20;
            access
        })
        .collect();
    let swapped = |access: &Access| {
        let within = access.addr.0 & 63;
        let moved = if within >= 32 { within ^ 16 } else { within };
        Placed {
            addr: GuestAddr(access.addr.0 - within + moved),
            ..AsRecorded.place(access)
        }
    };
    assert_eq!(
        run_on(&roomy(), &config(8), swapped, 1, &accesses),
        run(8, &accesses)
    );
}

#[test]
fn exchanging_two_words_of_a_line_changes_no_count() {
    // Which word of a line a field is does not matter to any count, only who shares the line.
    let accesses = mixed(6, 8, 5000);
    let plain = run(8, &accesses);
    let exchanged = |access: &Access| Placed {
        addr: GuestAddr(access.addr.0 ^ 0x18),
        ..AsRecorded.place(access)
    };
    let outcome = run_on(&roomy(), &config(8), exchanged, 1, &accesses);
    assert_eq!(outcome.totals, plain.totals);
    assert_eq!(outcome.pairs, plain.pairs);
    assert_eq!(outcome.cycles, plain.cycles);
}

#[test]
fn separating_what_is_falsely_shared_removes_false_sharing() {
    let accesses: Vec<Access> = (0..1000)
        .map(|turn| write(turn, (turn % 2) as u16, A + turn % 2 * 8))
        .collect();
    let together = run(2, &accesses);
    assert_eq!(
        together.totals.cause(Cause::FalseSharing).count,
        Accesses(998)
    );
    let apart = |access: &Access| Placed {
        addr: GuestAddr(A + (access.addr.0 - A) * 8),
        ..AsRecorded.place(access)
    };
    let apart = run_on(&roomy(), &config(2), apart, 1, &accesses);
    assert_eq!(apart.totals.cause(Cause::FalseSharing).count, Accesses(0));
    assert_eq!(apart.totals.source(Source::L1).count, Accesses(998));
}

#[test]
fn what_is_left_out_is_counted_all_the_same() {
    let mut replay = Replay::new(&roomy(), &config(2), AsRecorded, Clones { copies: 2 }).unwrap();
    for _ in 0..2 {
        replay.add_uncached(Accesses(3));
        replay
            .add_hits(KeyId(1), [Accesses(4), Accesses(2), Accesses(1)])
            .unwrap();
        replay
            .add_site_hits(SiteId(2), [Accesses(4), Accesses(2), Accesses(1)])
            .unwrap();
    }
    replay.push(&read(0, 0, A)).unwrap();
    let (outcome, _) = replay.finish();
    // Accesses are the recording's; hits and misses those of both copies.
    assert_eq!(
        [outcome.accesses, outcome.uncached],
        [6 + 14 + 1, 6].map(Accesses)
    );
    let hits = &outcome.keys[1];
    assert_eq!(
        [hits.loads, hits.stores, hits.rmws],
        [16, 8, 4].map(Accesses)
    );
    // An RMW takes 20 cycles more than the hit.
    assert_eq!(hits.source(Source::L1), tally(28, 28 * 4 + 4 * 20));
    assert_eq!(outcome.sites[2], *hits, "by site, too");
    assert_eq!(outcome.totals.accesses(), Accesses(28 + 2));
}

#[test]
fn the_other_line_of_a_pair_is_fetched_along() {
    let machine = machine(&[(
        "line_bytes = 64",
        "line_bytes = 64\nadjacent_line_pairs = true",
    )]);
    let pair = A ^ 64;
    // CPU 1 gets both lines and writes one; CPU 0 reads the other, and so takes the written one
    // from it.
    let accesses = [write(0, 1, pair), read(1000, 0, A)];
    let outcome = run_on(&machine, &config(2), AsRecorded, 1, &accesses);
    assert_eq!((outcome.prefetched, outcome.prefetched_modified), (2, 1));
    let alone = run(2, &accesses);
    assert_eq!((alone.prefetched, alone.prefetched_modified), (0, 0));
}
