//! What the filter leaves out makes no difference: replays of synthetic recordings with and without
//! it are equal in every count.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use linemate_machine::{
    L1Stride, L2Streamer, LineSize, LogicalCpu, Machine, Overlap, ThreadsPerCore, find,
};
use linemate_recording::{Access, AccessKind, Accesses, CpuId, Cycles, GuestAddr, VirtualTime};
use linemate_replay::{
    AsRecorded, Begins, Clones, Config, Dependence, Dependences, Fate, FetchedAhead, Filter,
    Interleaving, Item, KeyId, L1s, Outcome, Placed, Replay, Seen, Sharing, SiteId, SliceHead,
    Slicer,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};

const CPUS: usize = 4;

/// An access with where it goes.
type Step = (Access, Placed);

/// Where recorded CPUs and their copies sit.
#[derive(Clone, Copy, Debug)]
struct CopyPlaces {
    copies: u16,
    /// Whether recorded CPUs 0 and 1 are threads of one core, and 2 and 3; of copies likewise.
    together: bool,
}

impl CopyPlaces {
    fn copies(copies: u16) -> CopyPlaces {
        CopyPlaces {
            copies,
            together: false,
        }
    }

    /// Recorded CPU c's copy n at c x copies + n.
    fn cpus(self, machine: &Machine) -> Vec<LogicalCpu> {
        let copies = usize::from(self.copies);
        let count = CPUS * copies;
        if !self.together {
            return machine.topology.spread(count).unwrap();
        }
        let two = ThreadsPerCore(2.try_into().unwrap());
        let spread = machine.topology.spread_recorded(count, two).unwrap();
        let cpu = |at: usize| spread[at % copies * CPUS + at / copies];
        (0..count).map(cpu).collect()
    }

    fn l1s(self, machine: &Machine) -> L1s {
        let cpus = self.cpus(machine);
        let group: Vec<LogicalCpu> = cpus.iter().step_by(self.copies.into()).copied().collect();
        let l1s = L1s::new(machine, &group).unwrap();
        assert_eq!(l1s.are_separate(), !self.together);
        l1s
    }
}

fn config(machine: &Machine, places: CopyPlaces, seed: u64) -> Config {
    Config {
        recorded_cpus: CPUS,
        cpus: Some(places.cpus(machine)),
        interleaving: Interleaving::Seeded(seed),
        lines: true,
    }
}

/// For some of the instructions below; for the others it is unknown where their addresses come
/// from.
fn dependences() -> Arc<Dependences> {
    let mut dependences = Dependences::default();
    for (pc, loads) in [
        (0x1000, &[][..]),
        (0x1001, &[0x1000, 0x1001]),
        (0x1008, &[0x1000]),
        (0x2000, &[]),
    ] {
        let loads = loads.iter().map(|pc| GuestAddr(*pc)).collect();
        // What comes from elsewhere, too, comes from what is at 0x2000.
        let not_in = (pc == 0x1008).then_some(GuestAddr(0x1000)..GuestAddr(0x1100));
        dependences.insert(GuestAddr(pc), Dependence { loads, not_in });
    }
    Arc::new(dependences)
}

/// With odd seeds, with shares of the caches.
fn replay(machine: &Machine, places: CopyPlaces, seed: u64) -> Replay<AsRecorded, Clones> {
    let CopyPlaces { copies, .. } = places;
    let config = config(machine, places, seed);
    let replay = Replay::new(machine, &config, AsRecorded, Clones { copies }).unwrap();
    let replay = replay.with_overlap(machine, dependences());
    match seed % 2 {
        0 => replay,
        _ => replay.with_llc_share(machine),
    }
}

fn whole(machine: &Machine, places: CopyPlaces, seed: u64, warm: bool, steps: &[Step]) -> Outcome {
    let mut replay = replay(machine, places, seed);
    let pass = |replay: &mut Replay<AsRecorded, Clones>| {
        for (access, placed) in steps {
            replay.push_placed(access, *placed).unwrap();
        }
    };
    pass(&mut replay);
    if warm {
        replay.begin_counting(Interleaving::Seeded(seed + 1));
        pass(&mut replay);
    }
    replay.finish().0
}

/// A slice's accesses, each with its offset.
type Slice = (SliceHead, Vec<(u32, Step)>);

/// The slices of each round of a recording.
fn rounds(steps: &[Step]) -> Vec<Vec<Slice>> {
    let mut slicer = Slicer::new(CPUS);
    let mut rounds: Vec<Vec<Slice>> = Vec::new();
    for step in steps {
        let cut = slicer.cut(step.0.cpu, step.0.time, true);
        if cut.begins == Begins::Round {
            rounds.push(Vec::new());
        }
        let round = rounds.last_mut().unwrap();
        if cut.begins != Begins::Nothing {
            round.push((SliceHead::new(step.0.cpu), Vec::new()));
        }
        let slice = round.last_mut().unwrap();
        slice.0.extend(cut.offset, true);
        slice.1.push((cut.offset, *step));
    }
    rounds
}

/// The outcome of what the filter keeps, and how much that is.
fn filtered(
    machine: &Machine,
    places: CopyPlaces,
    seed: u64,
    warm: bool,
    steps: &[Step],
) -> (Outcome, usize) {
    let l1s = places.l1s(machine);
    let mut replay = replay(machine, places, seed);
    let mut count = filtered_pass(&mut replay, &l1s, steps);
    if warm {
        replay.begin_counting(Interleaving::Seeded(seed + 1));
        count = filtered_pass(&mut replay, &l1s, steps);
    }
    (replay.finish().0, count)
}

/// Gives how much was kept.
fn filtered_pass(replay: &mut Replay<AsRecorded, Clones>, l1s: &L1s, steps: &[Step]) -> usize {
    let mut filter = Filter::new(l1s.clone());
    let (mut kept, mut count) = (Vec::new(), 0);
    for round in rounds(steps) {
        let seen: Vec<Seen> = round
            .iter()
            .flat_map(|(_, accesses)| accesses)
            .map(|(_, (access, placed))| Seen {
                cpu: access.cpu,
                addr: access.addr,
                size: access.size,
                kind: access.kind,
                sharing: placed.sharing,
            })
            .collect();
        filter.round(&seen, &mut kept);
        count += kept.len();
        let (mut index, mut rest) = (0, &kept[..]);
        for (head, accesses) in &round {
            replay.begin_slice(*head).unwrap();
            for (offset, (access, placed)) in accesses {
                let stays = rest.first().filter(|kept| kept.index == index);
                index += 1;
                if let Some(stays) = stays {
                    let item = Item {
                        pc: access.pc,
                        offset: *offset,
                        size: access.size,
                        kind: access.kind,
                        later: stays.later,
                        tie: 0,
                    };
                    replay.add(&item, *placed).unwrap();
                    rest = &rest[1..];
                } else {
                    let mut kinds = [Accesses::ZERO; 3];
                    kinds[access.kind as usize] = Accesses::ONE;
                    replay.add_hits(placed.key, kinds).unwrap();
                    replay.add_site_hits(placed.site, kinds).unwrap();
                }
            }
        }
        replay.end_round();
    }
    count
}

/// A machine whose caches are so small that lines fall out of them all the time.
fn small(pairs: bool, line: LineSize) -> Machine {
    let mut machine = find("westmere-4s-80").unwrap();
    machine.adjacent_line_pairs = pairs;
    machine.line = line;
    machine.l1.sets = 4096 / line.bytes() as u32;
    machine.l1.ways = 2;
    machine.l2.sets = machine.l1.sets;
    machine.l2.ways = 4;
    machine.llc.slice.sets = 16;
    machine.llc.slice.ways = 2;
    machine
}

/// Prefetchers that begin as soon as they can.
fn with_prefetchers(mut machine: Machine, (streamer, stride): (bool, bool)) -> Machine {
    machine.l2_streamer = streamer.then_some(L2Streamer {
        streams: 2,
        train: 2,
        per_request: 2,
        ahead: 6,
        outstanding: 4,
    });
    machine.l1_stride = stride.then_some(L1Stride {
        entries: 2,
        train: 3,
        reach: 2048,
        outstanding: 4,
    });
    machine
}

/// Few sets and lines, so that everything collides; and one pair of lines and few words, so that it
/// collides again and again.
fn recordings() -> impl Strategy<Value = Vec<Step>> {
    let wide = recordings_of(3, 6, 64, 30, 40);
    let narrow = recordings_of(2, 1, 6, 4, 80);
    let shared = recordings_of(2, 2, 20, 5, 60);
    // Room for streams.
    let long = recordings_of(10, 4, 16, 30, 40);
    prop_oneof![wide, narrow, shared, long, walks()]
}

/// Of that many sets and pages, the first bytes of lines, and at most that many accesses a slice
/// and slices.
fn recordings_of(
    sets: u64,
    pages: u64,
    bytes: u64,
    accesses: usize,
    slices: usize,
) -> impl Strategy<Value = Vec<Step>> {
    let line = (0..sets, 0..pages).prop_map(|(set, page)| page * 4096 + set * 64);
    let access = (line, 0..bytes, 1u8..9, 0u8..8, 0u64..12, 1u64..40);
    let slice = (
        0u16..CPUS as u16,
        prop::collection::vec(access, 1..accesses),
    );
    prop::collection::vec(slice, 1..slices).prop_map(|slices| {
        let mut time = 0;
        let mut steps = Vec::new();
        for (cpu, accesses) in slices {
            for (line, byte, size, kind, place, instructions) in accesses {
                time += instructions;
                let kind = match kind {
                    0..4 => AccessKind::Load,
                    4..7 => AccessKind::Store,
                    _ => AccessKind::Rmw,
                };
                // Some pages are the CPU's own, one is shared by clones, and one holds both.
                let own = if place < 6 { u64::from(cpu) << 20 } else { 0 };
                let addr = 0xffff_8880_0000_0000 + own + line + byte;
                let pc = 0x1000 + 8 * u64::from(kind as u8);
                let shared = line >> 12 == 1 || (line >> 12 == 2 && byte < 16);
                steps.push(step(time, cpu, pc, addr, size, kind, shared));
            }
        }
        steps
    })
}

fn step(time: u64, cpu: u16, pc: u64, addr: u64, size: u8, kind: AccessKind, shared: bool) -> Step {
    let access = Access {
        time: VirtualTime(time),
        cpu: CpuId(cpu),
        pc: GuestAddr(pc),
        addr: GuestAddr(addr),
        size,
        kind,
        silent: false,
        user_mapping: false,
    };
    let placed = Placed {
        addr: GuestAddr(addr),
        key: KeyId((addr >> 6) as u32 % 7),
        site: SiteId(kind as u32),
        sharing: if shared {
            Sharing::Shared
        } else {
            Sharing::Cloned
        },
        fate: Fate::Cached,
    };
    (access, placed)
}

/// Walks in equal steps, up and down, by loads with occasional stores, each line used several
/// times, some of them in memory that all CPUs walk through. Some go back and forth between the
/// walk and a line of the set that the walk comes to next.
fn walks() -> impl Strategy<Value = Vec<Step>> {
    let at = (0u64..4, 0i64..64, -3i64..4, 0u64..3);
    let how = (3i64..14, 1u64..4, 1u64..120, 0i64..9, any::<bool>());
    prop::collection::vec((0..CPUS as u16, at, how), 1..30).prop_map(|walks| {
        let mut time = 0;
        let mut steps = Vec::new();
        for (cpu, (page, first, stride, pc), (length, uses, instructions, stores, beside)) in walks
        {
            let line = |page: u64, turn: i64| {
                let own = if page < 3 { u64::from(cpu) << 20 } else { 0 };
                let line = (first + turn * stride).rem_euclid(64) as u64;
                0xffff_8880_0000_0000 + own + page * 4096 + line * 64
            };
            let mut add = |pc, addr, kind, shared| {
                time += instructions;
                steps.push(step(time, cpu, pc, addr, 8, kind, shared));
            };
            for turn in 0..length {
                let kind = match turn % 9 == stores {
                    true => AccessKind::Store,
                    false => AccessKind::Load,
                };
                let other = line((page + 1) % 3, turn + 1);
                if beside {
                    add(0x2000, other, AccessKind::Load, false);
                }
                for again in 0..uses {
                    add(0x1000 + pc, line(page, turn) + 8 * again, kind, page > 2);
                }
                if beside {
                    add(0x2000, other, AccessKind::Load, false);
                }
            }
        }
        steps
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 6000,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_replay_of_what_stays_is_the_replay_of_all(
        steps in recordings(),
        seed in 0u64..1000,
        copies in prop_oneof![Just(1u16), 1u16..4],
        together in any::<bool>(),
        pairs in any::<bool>(),
        wide in any::<bool>(),
        prefetchers in any::<(bool, bool)>(),
        overlap in prop_oneof![Just(None), (1u32..60, 1u32..6).prop_map(Some)],
        warm in any::<bool>(),
    ) {
        let line = if wide { LineSize::B128 } else { LineSize::B64 };
        let mut machine = with_prefetchers(small(pairs && !wide, line), prefetchers);
        machine.overlap = overlap.map(|(window, outstanding)| Overlap { window, outstanding });
        let places = CopyPlaces { copies, together };
        let all = whole(&machine, places, seed, warm, &steps);
        let (some, _) = filtered(&machine, places, seed, warm, &steps);
        prop_assert_eq!(all, some);
    }
}

/// The property above is about prefetchers and overlap only if there is something of both.
#[test]
fn prefetchers_fetch_and_misses_overlap_on_such_recordings() {
    let mut runner = TestRunner::deterministic();
    let (mut sum, mut overlapped) = (FetchedAhead::default(), Cycles::ZERO);
    for _ in 0..200 {
        let steps = recordings().new_tree(&mut runner).unwrap().current();
        let mut machine = with_prefetchers(small(false, LineSize::B64), (true, true));
        machine.overlap = Some(Overlap {
            window: 40,
            outstanding: 4,
        });
        let outcome = whole(&machine, CopyPlaces::copies(1), 0, false, &steps);
        let fetched = outcome.fetched_ahead;
        overlapped += outcome.overlapped;
        sum.l2_streamer += fetched.l2_streamer;
        sum.l1_stride += fetched.l1_stride;
        sum.late += fetched.late;
    }
    assert!(
        sum.l2_streamer > 1000
            && sum.l1_stride > 100
            && sum.late > 100
            && overlapped > Cycles(100_000),
        "{sum:?} {overlapped}"
    );
}

/// Two threads of a core write a line in turn, and another core reads it: who wrote last shows.
#[test]
fn the_other_thread_of_a_core_is_the_last_writer() {
    let line = |number: u64| 0xffff_8880_0000_0000 + 64 * number;
    let at = |time, cpu, number, kind| step(time, cpu, 0x1000, line(number), 8, kind, false);
    let steps = [
        at(0, 0, 1, AccessKind::Store),
        at(10, 2, 3, AccessKind::Load),
        at(20, 0, 2, AccessKind::Load),
        at(30, 1, 1, AccessKind::Store),
        at(40, 0, 2, AccessKind::Load),
        at(50, 2, 1, AccessKind::Load),
    ];
    let machine = small(false, LineSize::B64);
    let places = CopyPlaces {
        copies: 1,
        together: true,
    };
    let all = whole(&machine, places, 0, false, &steps);
    assert_eq!(all.pairs.len(), 1);
    assert_eq!(filtered(&machine, places, 0, false, &steps).0, all);
}

/// A loop over two lines of a CPU's own: all but the first round trip is left out, unless the lines
/// are in one set.
#[test]
fn what_is_used_over_and_over_is_left_out() {
    let steps = |second: u64| -> Vec<Step> {
        (0..1000)
            .map(|turn: u64| {
                let addr = GuestAddr(0x10000 + (turn % 2) * second);
                let access = Access {
                    time: VirtualTime(turn),
                    cpu: CpuId(0),
                    pc: GuestAddr(0),
                    addr,
                    size: 8,
                    kind: AccessKind::Store,
                    silent: false,
                    user_mapping: false,
                };
                let placed = Placed {
                    addr,
                    key: KeyId(0),
                    site: SiteId(0),
                    sharing: Sharing::Cloned,
                    fate: Fate::Cached,
                };
                (access, placed)
            })
            .collect()
    };
    let machine = small(false, LineSize::B64);
    for together in [false, true] {
        let places = CopyPlaces {
            copies: 1,
            together,
        };
        let kept = |second| filtered(&machine, places, 1, false, &steps(second)).1;
        assert_eq!((kept(64), kept(4096)), (2, 1000));
    }
}
