//! Which accesses meet another CPU's at the same bytes of the same object.
//!
//! An access is *handed over* if its bytes come from another CPU: a load of what another CPU has
//! written since this one last used it, or a write of what another CPU has used since it was last
//! written. Caches of any size would have to fetch such bytes, even if lines were as small as
//! fields. So it counts what sharing costs, unlike a count of all accesses to anything that several
//! CPUs ever touch: what one CPU sets up and another uses from then on is handed over once.
//!
//! Bytes are identified by the first one that an access touches. Order is known only within a
//! chunk, which threads take in any order, so nothing is handed over across the boundary of two
//! (some two million events), nor from what was forgotten at [`ASIDE_MAX`]. CPUs whose numbers
//! differ by a multiple of 64 count as one. Each of the three can only leave accesses out.

use linemate_recording::{Access, AccessKind, CpuId};
use rustc_hash::FxHashMap;

use crate::subjects::SubjectId;

/// Places for the bytes used last, as a power of two: 6 MB per thread. Most accesses are to bytes
/// used shortly before; a look-up per access in a table of all bytes of a chunk takes a third as
/// long as everything else that is counted. With a quarter of the places, the exchange with that
/// table takes 7 % of a first `whatif` of hackbench.
const RECENT_BITS: u32 = 18;

/// The maximum number of other bytes whose last uses are stored; beyond it, they are forgotten. As
/// many as fit in a hash table of 2^20 places: 25 MB per thread.
const ASIDE_MAX: usize = 7 << 17;

/// Places for bytes that the running CPU used in its current turn, as a power of two: 12 KB, part
/// of an L1. A guest's CPUs run in turns of thousands of accesses, mostly to bytes used before in
/// the turn. These do not need the larger table, which is in an L2 at best.
const TURN_BITS: u32 = 9;

/// Follows the accesses of a chunk.
#[derive(Debug)]
pub(crate) struct Handovers {
    /// The CPU whose turn it is.
    cpu: Option<CpuId>,
    /// The number of turns so far in the chunk.
    turn: u32,
    /// By a hash of the first byte's address.
    own: Vec<Option<Own>>,
    /// By a hash of the first byte's address.
    recent: Vec<Option<Recent>>,
    /// Entries evicted from there, by address. One that has come back since is out of date here
    /// until it is evicted again.
    aside: FxHashMap<u64, LastUse>,
}

/// Bytes that a CPU used in its turn. Until the turn ends, its loads of them are not handed over
/// and change nothing; once it has written them, neither are its writes.
#[derive(Clone, Copy, Debug)]
struct Own {
    addr: u64,
    turn: u32,
    /// The subject at that time: reused memory is something else.
    subject: SubjectId,
    written: bool,
}

/// Bytes and who used them.
#[derive(Clone, Copy, Debug)]
struct Recent {
    addr: u64,
    last: LastUse,
}

/// Who used the bytes.
#[derive(Clone, Copy, Debug)]
struct LastUse {
    subject: SubjectId,
    /// Whether they were written.
    written: bool,
    /// The CPUs since the last write, including the writer.
    users: u64,
}

impl Default for Handovers {
    fn default() -> Handovers {
        Handovers {
            cpu: None,
            turn: 0,
            own: vec![None; 1 << TURN_BITS],
            recent: vec![None; 1 << RECENT_BITS],
            aside: FxHashMap::default(),
        }
    }
}

impl Handovers {
    /// Forgets the accesses of the previous chunk.
    pub(crate) fn start_chunk(&mut self) {
        self.cpu = None;
        self.turn = 0;
        self.own.fill(None);
        self.recent.fill(None);
        self.aside.clear();
    }

    /// Some of what is known about an access's bytes, so that it is in the cache for
    /// [`Handovers::access`].
    #[inline]
    pub(crate) fn read_ahead(&self, access: &Access) -> u64 {
        let place = &self.recent[slot(access.addr.0, RECENT_BITS)];
        place.as_ref().map_or(0, |recent| recent.addr)
    }

    /// Whether an access to a subject, the next one in the chunk, is handed over.
    #[inline]
    pub(crate) fn access(&mut self, access: &Access, subject: SubjectId) -> bool {
        if self.is_own(access, subject) {
            return false;
        }
        let addr = access.addr.0;
        let slot = slot(addr, RECENT_BITS);
        let mut last = match self.recent[slot] {
            Some(recent) if recent.addr == addr => Some(recent.last),
            Some(other) => self.exchange(other, addr),
            // Nothing was evicted from this place, so the new bytes have no old entry.
            None => None,
        };
        // Memory is reused for other things.
        last = last.filter(|last| last.subject == subject);
        let mut last = last.unwrap_or(LastUse {
            subject,
            written: false,
            users: 0,
        });
        let handed = last.is_handed(access);
        self.recent[slot] = Some(Recent { addr, last });
        handed
    }

    /// Whether the CPU used the bytes before in this turn, in a way that leaves nothing to do;
    /// otherwise they are noted.
    #[inline]
    fn is_own(&mut self, access: &Access, subject: SubjectId) -> bool {
        if self.cpu != Some(access.cpu) {
            self.cpu = Some(access.cpu);
            self.turn += 1;
        }
        let (addr, turn) = (access.addr.0, self.turn);
        let writes = access.kind != AccessKind::Load;
        let place = &mut self.own[slot(addr, TURN_BITS)];
        let known =
            place.filter(|own| own.addr == addr && own.turn == turn && own.subject == subject);
        let written = known.is_some_and(|own| own.written);
        if known.is_some() && (written || !writes) {
            return true;
        }
        *place = Some(Own {
            addr,
            turn,
            subject,
            written: writes,
        });
        false
    }

    /// Saves the evicted entry; returns what is known about the new one.
    fn exchange(&mut self, leaves: Recent, comes: u64) -> Option<LastUse> {
        if self.aside.len() >= ASIDE_MAX {
            self.aside.clear();
        }
        let known = self.aside.get(&comes).copied();
        self.aside.insert(leaves.addr, leaves.last);
        known
    }
}

impl LastUse {
    /// Handles an access; returns whether it is handed over.
    fn is_handed(&mut self, access: &Access) -> bool {
        let cpu = 1u64 << (access.cpu.0 % 64);
        if access.kind == AccessKind::Load {
            // Once per CPU and write: `users` has the writer and all that have read since, so a
            // second load is the CPU's own copy.
            let from_other = self.written && self.users & cpu == 0;
            self.users |= cpu;
            return from_other;
        }
        // Also of readers: a cache has to invalidate their copies before the write.
        let used_by_other = self.users & !cpu != 0;
        self.users = cpu;
        self.written = true;
        used_by_other
    }
}

/// The place of bytes. Multiplying by 2^64 over the golden ratio spreads neighbours evenly (Knuth,
/// The Art of Computer Programming 3, section 6.4).
fn slot(addr: u64, bits: u32) -> usize {
    (addr.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - bits)) as usize
}

#[cfg(test)]
mod tests {
    use linemate_recording::{GuestAddr, VirtualTime};

    use super::*;

    fn access(cpu: u16, kind: AccessKind, addr: u64) -> Access {
        Access {
            cpu: CpuId(cpu),
            time: VirtualTime(0),
            pc: GuestAddr(0),
            addr: GuestAddr(addr),
            size: 8,
            kind,
            silent: false,
            user_mapping: false,
        }
    }

    fn handed(accesses: &[(u16, AccessKind, u64)]) -> Vec<bool> {
        let mut handovers = Handovers::default();
        let all = accesses.iter();
        all.map(|(cpu, kind, addr)| handovers.access(&access(*cpu, *kind, *addr), SubjectId(0)))
            .collect()
    }

    #[test]
    fn what_another_cpu_wrote_or_used_is_handed_over_once() {
        use AccessKind::{Load, Rmw, Store};
        let steps = [
            (0, Store, 8, false),
            (0, Load, 8, false),
            (1, Load, 8, true),
            (1, Load, 8, false),
            (0, Load, 8, false),
            (0, Store, 8, true),
            (0, Store, 8, false),
            (1, Rmw, 8, true),
            (1, Rmw, 8, false),
            (2, Load, 8, true),
        ];
        let accesses: Vec<_> = steps.iter().map(|(c, k, a, _)| (*c, *k, *a)).collect();
        let expected: Vec<bool> = steps.iter().map(|(.., handed)| *handed).collect();
        assert_eq!(handed(&accesses), expected);
    }

    #[test]
    fn what_is_only_read_or_lies_elsewhere_is_not_shared() {
        use AccessKind::{Load, Store};
        assert_eq!(
            handed(&[(0, Load, 8), (1, Load, 8), (0, Load, 8)]),
            [false; 3]
        );
        assert_eq!(
            handed(&[(0, Store, 8), (1, Store, 16), (0, Store, 8)]),
            [false; 3]
        );
    }

    #[test]
    fn another_object_in_the_same_place_and_another_chunk_begin_anew() {
        let mut handovers = Handovers::default();
        let store = |cpu| access(cpu, AccessKind::Store, 8);
        assert!(!handovers.access(&store(0), SubjectId(0)));
        assert!(!handovers.access(&store(1), SubjectId(1)), "another object");
        assert!(handovers.access(&store(0), SubjectId(1)));
        handovers.start_chunk();
        assert!(!handovers.access(&store(1), SubjectId(1)), "another chunk");
    }

    #[test]
    fn bytes_of_one_place_do_not_hide_each_other() {
        let other = (9..)
            .find(|addr| slot(*addr, RECENT_BITS) == slot(8, RECENT_BITS))
            .unwrap_or(8);
        let steps = [
            (0, 8, false),
            (0, other, false),
            (1, 8, true),
            (1, other, true),
            (1, 8, false),
            (0, other, true),
            (0, 8, true),
        ];
        let accesses = steps.map(|(cpu, addr, _)| (cpu, AccessKind::Store, addr));
        assert_ne!(other, 8);
        assert_eq!(handed(&accesses), steps.map(|(.., handed)| handed));
    }

    /// Turns of several lengths, bytes that share places, and subjects that change: against a map
    /// of all bytes.
    #[test]
    fn tables_change_nothing() {
        let mut handovers = Handovers::default();
        let mut all: FxHashMap<u64, LastUse> = FxHashMap::default();
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        let (mut cpu, mut counted) = (0, 0);
        for _ in 0..200_000 {
            if random(40) == 0 {
                cpu = random(4) as u16;
            }
            let kind = [AccessKind::Load, AccessKind::Load, AccessKind::Store][random(3) as usize];
            // Half of the bytes are used all the time, by two subjects here and there.
            let bytes = [50, 5_000][random(2) as usize];
            let addr = 8 * random(bytes);
            let subject = SubjectId(u32::from(random(100) == 0));
            let access = access(cpu, kind, addr);
            let fresh = LastUse {
                subject,
                written: false,
                users: 0,
            };
            let last = all.entry(addr).or_insert(fresh);
            if last.subject != subject {
                *last = fresh;
            }
            let expected = last.is_handed(&access);
            counted += usize::from(expected);
            assert_eq!(handovers.access(&access, subject), expected);
        }
        assert!(counted > 10_000, "{counted}");
    }

    #[test]
    fn memory_is_bounded() {
        let mut handovers = Handovers::default();
        let bytes = ASIDE_MAX as u64 + (2 << RECENT_BITS);
        for at in 0..bytes {
            handovers.access(&access(0, AccessKind::Store, at), SubjectId(0));
        }
        assert!(handovers.aside.len() <= ASIDE_MAX);
        assert_eq!(handovers.recent.len(), 1 << RECENT_BITS);
    }
}
