//! CPUs that wait for locks: two slices of a round are not in one critical section at once.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::Arc;

use linemate_machine::{Machine, find};
use linemate_recording::{Access, AccessKind, Accesses, CpuId, GuestAddr, VirtualTime};
use linemate_replay::{
    Config, Fate, Interleaving, KeyId, NoClones, Outcome, Placed, Replay, Sharing, SiteId, Source,
};

/// The instruction that acquires locks; all others have 0.
const ACQUIRE: u64 = 1;
/// A lock, a word on its line, words on a line of their own, and another lock.
const LOCK: u64 = 0x1_0000;
const NEXT_TO: u64 = LOCK + 8;
const APART: u64 = 0x2_0000;
const OTHER: u64 = 0x3_0000;

/// Keys are lines, in the order of the constants.
fn key(addr: u64) -> usize {
    [LOCK, APART, OTHER]
        .iter()
        .position(|line| line >> 6 == addr >> 6)
        .unwrap()
}

fn place(access: &Access) -> Placed {
    Placed {
        addr: access.addr,
        key: KeyId(key(access.addr.0) as u32),
        site: SiteId(0),
        sharing: Sharing::Shared,
        fate: Fate::Cached,
    }
}

/// What a CPU does in its slice, an access each ten instructions.
type Slice<'s> = (u16, &'s [(AccessKind, u64)]);

const fn acquire(lock: u64) -> (AccessKind, u64) {
    (AccessKind::Rmw, lock)
}

const fn store(addr: u64) -> (AccessKind, u64) {
    (AccessKind::Store, addr)
}

fn machine() -> Machine {
    find("gnr-2s-480").unwrap().with_only(|_| false)
}

/// The slices side by side, twice; the second time counts.
fn replayed(slices: &[Slice<'_>], cpus: usize, locks: bool) -> Outcome {
    let config = Config {
        recorded_cpus: cpus,
        cpus: None,
        interleaving: Interleaving::Aligned,
        lines: false,
    };
    let mut replay = Replay::new(&machine(), &config, place, NoClones).unwrap();
    if locks {
        let acquiring = [GuestAddr(ACQUIRE)].into_iter().collect();
        replay = replay.with_locks(Arc::new(acquiring));
    }
    for pass in 0..2 {
        let mut time = 0;
        for (cpu, accesses) in slices {
            replay.turn(CpuId(*cpu), VirtualTime(time)).unwrap();
            for (kind, addr) in *accesses {
                time += 10;
                let access = Access {
                    time: VirtualTime(time),
                    cpu: CpuId(*cpu),
                    pc: GuestAddr(u64::from(*kind == AccessKind::Rmw)),
                    addr: GuestAddr(*addr),
                    size: 4,
                    kind: *kind,
                    silent: false,
                    user_mapping: false,
                };
                replay.push(&access).unwrap();
            }
        }
        if pass == 0 {
            replay.begin_counting(Interleaving::Aligned);
        }
    }
    replay.finish().0
}

/// How many accesses to the line left their core.
fn misses(outcome: &Outcome, addr: u64) -> u64 {
    outcome.keys[key(addr)].left_core().count.0
}

fn accesses(outcome: &Outcome, addr: u64) -> Accesses {
    outcome.keys[key(addr)].accesses()
}

/// Of two CPUs that write four words each under one lock, a line apart from it moves once to each:
/// one waits while the other is inside. Without waiting it moves at nearly every access.
#[test]
fn a_line_moves_once_for_each_critical_section() {
    let inside = [
        acquire(LOCK),
        store(APART),
        store(APART + 4),
        store(APART + 8),
        store(APART + 12),
        store(LOCK),
    ];
    let slices = [(0, &inside[..]), (1, &inside[..])];
    let waiting = replayed(&slices, 2, true);
    assert_eq!(misses(&waiting, APART), 2);
    let at_once = replayed(&slices, 2, false);
    assert!(
        misses(&at_once, APART) > 2,
        "{:?}",
        at_once.keys[key(APART)]
    );
    // One CPU waited once, until the other had made its accesses.
    let [wait] = &waiting.locks[..] else {
        panic!("{:?}", waiting.locks);
    };
    assert_eq!((wait.key, wait.waits.count), (KeyId(0), Accesses(1)));
    assert!(at_once.locks.is_empty());
    // The waiter's RMW takes the line, so the owner has to fetch it to release it; its next RMW
    // fetches it back. Nobody writes to the line meanwhile, so the waiter reads nothing again.
    assert_eq!(accesses(&waiting, LOCK), Accesses(5));
    assert_eq!(misses(&waiting, LOCK), 4);
    assert_eq!(accesses(&at_once, LOCK), Accesses(4));
}

/// On the lock's own line the owner's words are taken away by who waits: first by its RMW, then by
/// its loads after each store.
#[test]
fn a_waiter_takes_the_line_of_its_lock() {
    let inside = [
        acquire(LOCK),
        store(NEXT_TO),
        store(NEXT_TO + 4),
        store(NEXT_TO + 8),
        store(LOCK),
    ];
    let slices = [(0, &inside[..]), (1, &inside[..])];
    let waiting = replayed(&slices, 2, true);
    let counts = &waiting.keys[key(LOCK)];
    // The recorded ten, the RMW that is made again, a load after each of the three stores.
    assert_eq!(counts.accesses(), Accesses(14));
    assert_eq!(counts.loads, Accesses(3));
    // Both RMWs and the repeated one, three stores next to the lock, three loads, and the
    // release; the second owner has the line for itself.
    assert_eq!(counts.left_core().count, Accesses(10));
    // After a load the owner has a copy, and asks for permission alone.
    assert_eq!(counts.source(Source::Upgrade).count, Accesses(3));
}

/// Only the first in the queue reads the lock again; the lock is handed over in the order of
/// requests.
#[test]
fn one_of_several_waiters_spins_on_the_line() {
    let inside = [
        acquire(LOCK),
        store(NEXT_TO),
        store(NEXT_TO + 4),
        store(LOCK),
    ];
    let slices: Vec<Slice<'_>> = (0..4).map(|cpu| (cpu, &inside[..])).collect();
    let outcome = replayed(&slices, 4, true);
    let counts = &outcome.keys[key(LOCK)];
    let waits: u64 = outcome.locks.iter().map(|wait| wait.waits.count.0).sum();
    assert_eq!(waits, 3);
    // Read again by the first in the queue: after the RMWs of the two that come after it, two
    // stores of each owner but the last, and the RMWs of the second and third owner.
    assert_eq!(counts.loads, Accesses(2 + 6 + 2));
    assert_eq!(counts.rmws, Accesses(4 + 3));
}

/// Where no two slices want the same lock, everything is as without.
#[test]
fn who_does_not_wait_is_as_without_locks() {
    let (one, other) = (
        [acquire(LOCK), store(APART), store(NEXT_TO), store(LOCK)],
        [acquire(OTHER), store(APART + 4), store(OTHER)],
    );
    // The third slice is the first one's CPU, so it is in the next round.
    let slices = [(0, &one[..]), (1, &other[..]), (0, &one[..])];
    assert_eq!(replayed(&slices, 2, true), replayed(&slices, 2, false));
}

/// A lock whose release is in a later turn is free when the turn ends, and locks taken in opposite
/// orders do not wait for each other forever.
#[test]
fn every_round_ends() {
    let kept = [acquire(LOCK), store(APART)];
    let slices = [(0, &kept[..]), (1, &kept[..])];
    let outcome = replayed(&slices, 2, true);
    assert_eq!(misses(&outcome, APART), 2);
    assert_eq!(outcome.locks.len(), 1);
    let (up, down) = (
        [acquire(LOCK), acquire(OTHER), store(OTHER), store(LOCK)],
        [acquire(OTHER), acquire(LOCK), store(LOCK), store(OTHER)],
    );
    let slices = [(0, &up[..]), (1, &down[..])];
    let outcome = replayed(&slices, 2, true);
    let kinds: BTreeMap<usize, Accesses> = (0..3)
        .filter_map(|key| Some((key, outcome.keys.get(key)?.stores)))
        .collect();
    assert_eq!(kinds[&0] + kinds[&2], Accesses(4), "all stores are made");
}
