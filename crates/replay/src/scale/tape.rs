//! What a replay of a recording at its own size leaves for a replay on more CPUs.
//!
//! The number of CPUs decides the cost of few accesses: those to lines that are written and that
//! CPUs of several groups touch. A replay of one group, as large as the recording, gives the cost
//! of all others, which becomes time that their CPU spends between the few. So hundreds of CPUs
//! only have to replay the few ([`crate::Scaled`]).
//!
//! ```text
//!   one group    i i L1 i miss i i X i i i X        i: instructions, X: an access to a line that groups share
//!   the tape     ──────────────────X─────X          the time before each is kept, what it cost is not
//! ```

use std::sync::Arc;

use linemate_machine::LineSize;
use linemate_recording::{AccessKind, CpuId, VirtualTime};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::accounts::counts::{Cause, Source};
use crate::cache::address::{Line, rest};
use crate::rounds::interleaver::Slice;
use crate::rounds::placement::{KeyId, Sharing, SiteId};
use crate::rounds::waiting::Waiting;
use crate::size;

/// How many keys and sites have accounts of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accounts {
    /// [`KeyId`]s below that number.
    pub keys: usize,
    /// [`SiteId`]s below that number.
    pub sites: usize,
}

/// Which accesses a tape has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Retention {
    /// Those to lines that are written and that several groups touch.
    #[default]
    Shared,
    /// All that go through the caches: slower, for tests of the other kind.
    All,
}

/// What is known about code beyond its accesses.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// By site: whether its RMWs acquire locks.
    pub acquires: Vec<bool>,
    /// How many times as often CPUs make an access on as many CPUs as will be replayed; an absent
    /// entry means once.
    pub growth: FxHashMap<(SiteId, KeyId), f32>,
}

/// What the recorded group's CPU found in its own caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// The line in L1, or nothing because others had taken it.
    Whatever,
    /// The line in L2 only.
    BeyondL1,
    /// Nothing, for lack of room.
    Evicted,
}

/// An access of a tape. Its offset is in cycles from its slice's start.
#[derive(Clone, Copy)]
pub(crate) struct Taped {
    pub(crate) access: Waiting,
    pub(crate) own: Own,
    pub(crate) acquires: bool,
    /// How many times as often it happens.
    pub(crate) growth: f32,
}

impl Taped {
    pub(crate) fn key(&self) -> KeyId {
        KeyId(self.access.key)
    }

    pub(crate) fn site(&self) -> SiteId {
        SiteId(self.access.site)
    }
}

/// A CPU's turn on the tape.
#[derive(Clone, Copy)]
pub(crate) struct TapedSlice {
    pub(crate) cpu: CpuId,
    /// The first of its accesses on the tape.
    pub(crate) begin: u32,
    pub(crate) end: u32,
    /// Cycles from its start to its end, without the cost of its accesses on the tape.
    pub(crate) span: u32,
}

/// The accesses of a group that depend on how many groups there are.
#[derive(Clone, Default)]
pub struct Tape {
    pub(crate) accesses: Vec<Taped>,
    pub(crate) slices: Vec<TapedSlice>,
    /// The number of slices up to each round's end.
    pub(crate) rounds: Vec<u32>,
    /// When each round starts in the recording.
    pub(crate) times: Vec<VirtualTime>,
    /// Cycles up to each round's end, if no access on the tape cost anything.
    pub(crate) ends: Vec<u64>,
}

impl std::fmt::Debug for Tape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (accesses, rounds) = (self.accesses.len(), self.rounds.len());
        write!(f, "Tape {{ {accesses} accesses, {rounds} rounds }}")
    }
}

impl Tape {
    /// How many accesses it has.
    #[must_use]
    pub fn accesses(&self) -> usize {
        self.accesses.len()
    }

    /// The slices of a round.
    pub(crate) fn round(&self, round: usize) -> std::ops::Range<usize> {
        let begin = round.checked_sub(1).map_or(0, |at| self.rounds[at]);
        begin as usize..self.rounds[round] as usize
    }

    /// Cycles to an access from the previous one, if that is in the same slice.
    pub(crate) fn step(&self, at: u32) -> u32 {
        let offset = |at: u32| self.accesses[at as usize].access.offset;
        // The previous one on the tape may be in another slice, with a larger offset: the
        // difference is then 0, which callers raise to 1.
        let before = at.checked_sub(1).map_or(0, offset);
        offset(at).saturating_sub(before)
    }

    /// For each CPU and line the last access, in order: fills caches as the whole tape does.
    pub(crate) fn last_touches(&self) -> Vec<(CpuId, u32)> {
        let mut seen = FxHashSet::default();
        let mut last = Vec::new();
        for slice in self.slices.iter().rev() {
            for at in (slice.begin..slice.end).rev() {
                let access = &self.accesses[at as usize].access;
                let line = (slice.cpu, access.span.line, access.sharing);
                // By sharing too, because clones of one address are different lines. Accesses that
                // extend into a second line are taken each time, because only their first line is
                // in the set.
                if seen.insert(line) || access.span.beyond > 0 {
                    last.push((slice.cpu, at));
                }
            }
        }
        last.reverse();
        last
    }
}

/// What is known about a line that several groups may touch.
#[derive(Clone, Copy, Default)]
struct LineNote {
    written: bool,
    /// It is one for all groups, or some CPU touches another one's memory there.
    met: bool,
}

/// Makes a tape: notes lines in a first pass over the recording, takes accesses in a second one.
#[derive(Clone)]
pub(crate) struct Taper {
    retention: Retention,
    code: Arc<Code>,
    line: LineSize,
    lines: FxHashMap<Line, LineNote>,
    /// Whether accesses are taken.
    takes: bool,
    /// By slice of the round: its accesses, and the cycles that the CPU waited for everything else.
    round: Vec<(Vec<Taped>, u64)>,
    tape: Tape,
}

impl Taper {
    pub(crate) fn new(retention: Retention, code: Arc<Code>, line: LineSize) -> Taper {
        Taper {
            retention,
            code,
            line,
            lines: FxHashMap::default(),
            takes: false,
            round: Vec::new(),
            tape: Tape::default(),
        }
    }

    /// Bytes, without the current round.
    pub(crate) fn size_in_memory(&self) -> usize {
        let tape = &self.tape;
        size::of_table(&self.lines)
            + size::of_list(&tape.accesses)
            + size::of_list(&tape.slices)
            + size::of_list(&tape.rounds)
            + size::of_list(&tape.times)
            + size::of_list(&tape.ends)
    }

    /// The first pass is over.
    pub(crate) fn begin_taking(&mut self) {
        self.takes = true;
        // A line that nobody writes costs the same on any number of CPUs once it is warm, and so
        // does one that no other group touches.
        self.lines.retain(|_, note| note.written && note.met);
    }

    pub(crate) fn takes(&self) -> bool {
        self.takes
    }

    /// In the first pass: an access by a CPU.
    pub(crate) fn note(&mut self, access: &Waiting, cpu: CpuId) {
        let met = match access.sharing {
            // Tasks' memory: only CPUs of the own group reach its clone.
            Sharing::Cloned => return,
            Sharing::Shared => true,
            Sharing::OfCpu(owner) => owner != cpu,
        };
        let mut add = |line| {
            let note = self.lines.entry(line).or_default();
            note.met |= met;
            note.written |= access.kind != AccessKind::Load;
        };
        add(access.span.line);
        if access.span.beyond > 0 {
            add(rest(&access.span, self.line).line);
        }
    }

    /// In the second pass: whether the access belongs on the tape.
    #[inline]
    pub(crate) fn wants(&self, access: &Waiting) -> bool {
        match self.retention {
            Retention::All => true,
            Retention::Shared if access.sharing == Sharing::Cloned => false,
            Retention::Shared => {
                self.lines.contains_key(&access.span.line)
                    || access.span.beyond > 0
                        && self.lines.contains_key(&rest(&access.span, self.line).line)
            }
        }
    }

    /// A round starts with this many slices.
    pub(crate) fn begin_round(&mut self, slices: usize) {
        self.round.resize_with(slices, Default::default);
    }

    /// An access that is not on the tape: its CPU waited this long for it.
    #[inline]
    pub(crate) fn wait(&mut self, slice: usize, stall: u64) {
        self.round[slice].1 += stall;
    }

    /// An access that is, and its result.
    pub(crate) fn take(&mut self, slice: usize, access: &Waiting, met: (Source, Option<Cause>)) {
        let own = match (self.retention, met) {
            // Replayed with everything that the caches hold.
            (Retention::All, _) => Own::Whatever,
            // Capacity is decided here, where the group's whole working set is in the caches;
            // coherence where all groups are.
            (_, (Source::L2, _)) => Own::BeyondL1,
            (_, (_, Some(Cause::Capacity))) => Own::Evicted,
            _ => Own::Whatever,
        };
        let (taped, waited) = &mut self.round[slice];
        // The CPU's waiting for accesses that are not on the tape has become think time.
        let offset = u64::from(access.offset) + *waited;
        let site = access.site as usize;
        let growth = (SiteId(access.site), KeyId(access.key));
        taped.push(Taped {
            access: Waiting {
                offset: u32::try_from(offset).unwrap_or(u32::MAX),
                ..*access
            },
            own,
            acquires: access.kind == AccessKind::Rmw
                && self.code.acquires.get(site).copied().unwrap_or(false),
            growth: self.code.growth.get(&growth).copied().unwrap_or(1.0),
        });
    }

    /// The round is over; it started at that time of the recording.
    pub(crate) fn end_round(&mut self, slices: &[Slice], time: VirtualTime) {
        let tape = &mut self.tape;
        let mut longest = 0;
        for (slice, (taped, waited)) in slices.iter().zip(&mut self.round) {
            let waited = std::mem::take(waited);
            // A slice without cached accesses and without a known end has nothing on the tape and
            // takes no time.
            let Some(last) = slice.head.last else {
                continue;
            };
            let begin = tape.accesses.len() as u32;
            tape.accesses.append(taped);
            let span = u32::try_from(u64::from(last) + waited).unwrap_or(u32::MAX);
            longest = longest.max(span);
            tape.slices.push(TapedSlice {
                cpu: slice.head.cpu,
                begin,
                end: tape.accesses.len() as u32,
                span,
            });
        }
        tape.rounds.push(tape.slices.len() as u32);
        tape.times.push(time);
        let before = tape.ends.last().copied().unwrap_or(0);
        tape.ends.push(before + u64::from(longest));
    }

    pub(crate) fn finish(self) -> Tape {
        self.tape
    }
}
