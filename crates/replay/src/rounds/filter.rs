//! Which accesses a replay can skip, because they hit in L1 under any interleaving and change
//! nothing for anybody else.
//!
//! An access is left out if its line is the one that its CPU used last in its set, so that it is in
//! L1 and the order of use does not change, and if nobody can have taken away the line, or the
//! permission to write it, in the meantime:
//!
//! * a load, if no other CPU writes the line in the same round;
//! * a store, if the CPU has written the line since it became the most recently used, and no other
//!   CPU touches the line or the other line of its pair (which a prefetcher fetches with it) in the
//!   same round.
//!
//! The order of other CPUs' accesses in earlier rounds is known. RMWs stay: they take longer than a
//! hit. So do accesses to two lines.
//!
//! The words of the accesses left out still matter for true and false sharing. They are attached to
//! the last access to the line that stays in the same round ([`Later`]); if there is none, the
//! access itself stays.
//!
//! **Exact for** L1s whose number of sets is a multiple of those of a page's lines, with any number
//! of ways, on machines where no two of the replayed CPUs share a core, for any number of clones:
//! memory that clones share counts as touched by several CPUs. L2s, LLCs, prefetchers of pairs and
//! the directory do not matter, because a hit in L1 reaches none of them.

use std::collections::BTreeSet;

use linemate_machine::{CoreId, LineSize, LogicalCpu, Machine};
use linemate_recording::{AccessKind, CpuId, GuestAddr};
use rustc_hash::FxHashMap;

use crate::cache::address::{Line, Span, rest, span};
use crate::rounds::placement::Sharing;

/// The number of sets that the filter distinguishes: the lines of one page, so that it does not
/// matter where a clone's pages are.
pub(crate) fn sets(line: LineSize) -> u32 {
    4096 / line.bytes() as u32
}

/// Whether replays on these CPUs of the machine, all of which it has, give the same without what a
/// [`Filter`] leaves out.
pub fn keeps_exact(machine: &Machine, cpus: &[LogicalCpu]) -> bool {
    let places = cpus.iter().filter_map(|cpu| machine.topology.place(*cpu));
    let cores: BTreeSet<CoreId> = places.map(|place| place.core).collect();
    // Threads of one core share its L1, whose order of use then depends on both.
    !cpus.is_empty() && cores.len() == cpus.len() && machine.l1.sets % sets(machine.line) == 0
}

/// Words of the line, one bit per sixty-fourth, used by accesses that were left out after the one
/// that this is attached to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Later {
    /// Words read or written.
    pub touched: u64,
    /// Of those, the words that were written.
    pub written: u64,
}

/// An access as the filter sees it: one that goes through the caches.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The recorded CPU that made it.
    pub cpu: CpuId,
    /// First byte, as recorded.
    pub addr: GuestAddr,
    /// How many bytes it touches.
    pub size: u8,
    /// Load, store or RMW.
    pub kind: AccessKind,
    /// Whose memory it is when CPUs are cloned.
    pub sharing: Sharing,
}

/// An access that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its place in the round.
    pub index: u32,
    /// What was left out after it.
    pub later: Later,
}

/// Who touches a line in a round: the first CPU, and whether there are others.
#[derive(Clone, Copy, Debug)]
struct Users {
    first: CpuId,
    several: bool,
    writer: Option<CpuId>,
    several_writers: bool,
    /// Whether some of it is memory that clones share: what one of a CPU's clones does there
    /// affects all of the CPU's others.
    shared: bool,
}

impl Users {
    fn new(cpu: CpuId) -> Users {
        Users {
            first: cpu,
            several: false,
            writer: None,
            several_writers: false,
            shared: false,
        }
    }

    fn add(&mut self, cpu: CpuId, sharing: Sharing, writes: bool) {
        self.shared |= sharing == Sharing::Shared;
        self.several |= self.first != cpu;
        if writes {
            self.several_writers |= self.writer.is_some_and(|writer| writer != cpu);
            self.writer.get_or_insert(cpu);
        }
    }

    fn other_than(&self, cpu: CpuId) -> bool {
        self.shared || self.several || self.first != cpu
    }

    fn writer_other_than(&self, cpu: CpuId) -> bool {
        self.writer
            .is_some_and(|writer| self.shared || self.several_writers || writer != cpu)
    }
}

/// The line that a CPU used last in a set, apart from its tag.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    touched: u64,
    written: u64,
    /// Whether the CPU alone has it, and has written it.
    owned: bool,
    /// The staying access that words can be attached to: the round, and its number among those that
    /// stay.
    carrier: Option<(u64, u32)>,
}

/// Lines are distinguished from the same lines of cloned memory: clones use others there. Plus 1,
/// so that 0 is not a line.
fn tag(line: Line, sharing: Sharing) -> u64 {
    (line << 1 | u64::from(sharing == Sharing::Shared)) + 1
}

/// Who touches which line in a round.
#[derive(Debug)]
struct RoundUsers {
    users: FxHashMap<Line, Users>,
    /// By a hash of the line's pair: whether `users` may have one of its lines. Most lines that
    /// CPUs used last are in no other CPU's round, and hundreds of CPUs remember tens of thousands:
    /// a look-up in `users` for each of them would be most of a round's work.
    pairs: Vec<u64>,
}

/// Places of [`RoundUsers::pairs`], as a power of two: 8 KB, part of an L1.
const PAIR_BITS: u32 = 16;

impl RoundUsers {
    fn new() -> RoundUsers {
        RoundUsers {
            users: FxHashMap::default(),
            pairs: vec![0; 1 << (PAIR_BITS - 6)],
        }
    }

    fn clear(&mut self) {
        self.users.clear();
        self.pairs.fill(0);
    }

    /// The word of the pair in `pairs`, and its bit there.
    fn place(line: Line) -> (usize, u64) {
        // The high bits of the product with 2^64 over the golden ratio, as in `handover`.
        let hash = (line >> 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PAIR_BITS);
        ((hash >> 6) as usize, 1 << (hash & 63))
    }

    fn add(&mut self, line: Line, access: &Seen, writes: bool) {
        let (word, bit) = RoundUsers::place(line);
        self.pairs[word] |= bit;
        let users = self.users.entry(line);
        let users = users.or_insert_with(|| Users::new(access.cpu));
        users.add(access.cpu, access.sharing, writes);
    }

    /// Whether anybody may have touched the line, or its pair's other line.
    #[inline]
    fn may_have_pair(&self, line: Line) -> bool {
        let (word, bit) = RoundUsers::place(line);
        self.pairs[word] & bit != 0
    }

    #[inline]
    fn of(&self, line: Line) -> Option<&Users> {
        self.users.get(&line)
    }
}

/// Goes through a recording, round by round.
#[derive(Debug)]
pub struct Filter {
    line: LineSize,
    sets: usize,
    round: u64,
    /// By CPU, then set: the line that was used last, as its [`tag`]; 0: not known. Apart from the
    /// rest, because the end of each round looks at all of them.
    tags: Vec<u64>,
    /// The same lines' rest.
    recent: Vec<Recent>,
    users: RoundUsers,
    /// By CPU and set: a tag that `users` already has in this round, and whether as written.
    known: Vec<(u64, bool)>,
    /// The places in `known` that have one.
    known_at: Vec<u32>,
}

impl Filter {
    /// For a recording with that many CPUs, and machines with such lines.
    pub fn new(cpus: usize, line: LineSize) -> Filter {
        let sets = sets(line) as usize;
        Filter {
            line,
            sets,
            round: 0,
            tags: vec![0; cpus * sets],
            recent: vec![Recent::default(); cpus * sets],
            users: RoundUsers::new(),
            known: vec![(0, false); cpus * sets],
            known_at: Vec::new(),
        }
    }

    /// A whole round, in recorded order, with CPUs below the announced number. Those that stay go
    /// into `kept`, which is cleared first.
    pub fn round(&mut self, accesses: &[Seen], kept: &mut Vec<Kept>) {
        kept.clear();
        self.round += 1;
        // The whole round first: an interleaving may put any other CPU's access before any of this
        // CPU's.
        self.survey(accesses);
        for (index, access) in (0u32..).zip(accesses) {
            self.access(index, access, kept);
        }
        self.end_round();
    }

    fn at(&self, cpu: CpuId, line: Line) -> usize {
        usize::from(cpu.0) * self.sets + (line as usize & (self.sets - 1))
    }

    /// Who touches what in the round.
    fn survey(&mut self, accesses: &[Seen]) {
        self.users.clear();
        // Only those: a round of a few CPUs must not pay for all that were recorded.
        for at in self.known_at.drain(..) {
            self.known[at as usize] = (0, false);
        }
        for access in accesses {
            let span = span(access.addr.0, access.size, self.line);
            let writes = access.kind != AccessKind::Load;
            self.note(access, span.line, writes);
            if span.beyond > 0 {
                self.note(access, rest(&span, self.line).line, writes);
            }
        }
    }

    #[inline]
    fn note(&mut self, access: &Seen, line: Line, writes: bool) {
        let (at, tag) = (self.at(access.cpu, line), tag(line, access.sharing));
        let known = self.known[at];
        // Most accesses repeat the last one to their set: this saves the look-up in `users`.
        if known.0 == tag && (known.1 || !writes) {
            return;
        }
        if known.0 == 0 {
            self.known_at.push(at as u32);
        }
        self.known[at] = (tag, writes);
        self.users.add(line, access, writes);
    }

    #[inline]
    fn access(&mut self, index: u32, access: &Seen, kept: &mut Vec<Kept>) {
        let span = span(access.addr.0, access.size, self.line);
        let at = self.at(access.cpu, span.line);
        let tag = tag(span.line, access.sharing);
        if span.beyond > 0 {
            let second = self.at(access.cpu, rest(&span, self.line).line);
            // Nothing known here says which of its two lines is used last in its set, so both are
            // forgotten; the next access to either stays.
            self.tags[at] = 0;
            self.tags[second] = 0;
            return keep(index, kept);
        }
        let same = self.tags[at] == tag;
        let leaves = same && self.may_leave(access, &span, at);
        let writes = access.kind != AccessKind::Load;
        let round = self.round;
        let recent = &mut self.recent[at];
        if leaves {
            // A staying access used the words in the same lifetime, so sharing is decided the same
            // way.
            let covered = match writes {
                true => recent.written & span.words == span.words,
                false => recent.touched & span.words == span.words,
            };
            if covered {
                return;
            }
            // Only in the same round: a carrier from an earlier one has been passed on, and a
            // transfer may follow it.
            if let Some((_, carrier)) = recent.carrier.filter(|(when, _)| *when == round) {
                recent.touched |= span.words;
                let later = &mut kept[carrier as usize].later;
                later.touched |= span.words;
                if writes {
                    recent.written |= span.words;
                    later.written |= span.words;
                }
                return;
            }
        }
        // Another line is the most recently used now; about the former nothing is known any more,
        // whether it is still in L1 or not.
        if !same {
            self.tags[at] = tag;
            *recent = Recent::default();
        }
        recent.touched |= span.words;
        if writes {
            recent.written |= span.words;
            recent.owned = true;
        }
        recent.carrier = Some((round, kept.len() as u32));
        keep(index, kept);
    }

    /// Whether an access to the line that its CPU used last in the set finds it in the state it
    /// needs.
    #[inline]
    fn may_leave(&self, access: &Seen, span: &Span, at: usize) -> bool {
        let users = |line: Line| self.users.of(line);
        match access.kind {
            AccessKind::Load => {
                // Other readers do no harm: E becomes S, which a load does not notice.
                users(span.line).is_none_or(|users| !users.writer_other_than(access.cpu))
            }
            AccessKind::Store => {
                self.recent[at].owned
                    // A read of the pair's other line by another core fetches this one with it,
                    // which turns M into S.
                    && [span.line, span.line ^ 1]
                        .into_iter()
                        .all(|line| users(line).is_none_or(|users| !users.other_than(access.cpu)))
            }
            // An atomic costs more than a hit, stalls its CPU, and may acquire a lock.
            AccessKind::Rmw => false,
        }
    }

    /// What others took away in the round, at whatever time.
    fn end_round(&mut self) {
        let users = &self.users;
        for (at, tag) in self.tags.iter_mut().enumerate() {
            let Some(line) = tag.checked_sub(1).map(|tag| tag >> 1) else {
                continue;
            };
            if !users.may_have_pair(line) {
                continue;
            }
            let cpu = CpuId((at / self.sets) as u16);
            let recent = &mut self.recent[at];
            // The interleaving decides whether before or after this CPU's last access, so the line
            // counts as taken away.
            if users
                .of(line)
                .is_some_and(|users| users.writer_other_than(cpu))
            {
                *tag = 0;
            } else if recent.owned {
                let mut touched = [line, line ^ 1]
                    .into_iter()
                    .filter_map(|line| users.of(line));
                if touched.any(|users| users.other_than(cpu)) {
                    recent.owned = false;
                    recent.written = 0;
                }
            }
        }
    }
}

fn keep(index: u32, kept: &mut Vec<Kept>) {
    kept.push(Kept {
        index,
        later: Later::default(),
    });
}
