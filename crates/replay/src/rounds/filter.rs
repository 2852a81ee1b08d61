//! Which accesses a replay can skip, because they hit in L1 under any interleaving and change
//! nothing for anybody else.
//!
//! An access is left out if its line is the one that its core used last in its set, so that it is
//! in L1 and the order of use does not change, and if nobody can have taken away the line, or the
//! permission to write it, in the meantime:
//!
//! * a load, if no other core writes the line in the same round;
//! * a store, if the same CPU was the last to write the line since it became the most recently
//!   used, and no other core touches the line or the other line of its pair (which a prefetcher
//!   fetches with it) in the same round.
//!
//! The order of accesses in earlier rounds is known. Where several threads of a core use a set in
//! one round, their order is not, and all of their accesses to it stay. RMWs stay: they take longer
//! than a hit. So do accesses to two lines.
//!
//! The words of the accesses left out still matter for true and false sharing. They are attached to
//! the last access to the line that stays in the same round ([`Later`]); if there is none, the
//! access itself stays.
//!
//! **Exact for** L1s whose number of sets is a multiple of those of a page's lines, with any number
//! of ways, and for any number of clones on cores of their own: memory that clones share counts as
//! touched by several cores. L2s, LLCs, prefetchers of pairs and the directory do not matter,
//! because a hit in L1 reaches none of them.

use linemate_machine::{CoreId, LineSize, LogicalCpu, Machine, ThreadsPerCore};
use linemate_recording::{AccessKind, CpuId, GuestAddr};
use rustc_hash::FxHashMap;

use crate::cache::address::{Line, Span, rest, span};
use crate::rounds::placement::Sharing;

/// The number of sets that the filter distinguishes: the lines of one page, so that it does not
/// matter where a clone's pages are.
pub(crate) fn sets(line: LineSize) -> u32 {
    4096 / line.bytes() as u32
}

/// The number of an L1, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct L1Number(u16);

/// What replays must agree in to do without the same accesses: the size of lines, and which
/// recorded CPUs share an L1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct L1s {
    line: LineSize,
    /// By recorded CPU; numbers are given in the order in which CPUs first use them.
    of: Vec<L1Number>,
}

impl L1s {
    /// That many consecutive CPUs are the threads of one core.
    pub fn of_threads(cpus: usize, threads: ThreadsPerCore, line: LineSize) -> L1s {
        let threads = usize::from(threads.0.get());
        let of = (0..cpus)
            .map(|cpu| L1Number((cpu / threads) as u16))
            .collect();
        L1s { line, of }
    }

    /// Those of recorded CPUs that are replayed on these; `None` where replays find something else
    /// without what a [`Filter`] leaves out, or where the machine lacks some of the CPUs.
    pub fn new(machine: &Machine, cpus: &[LogicalCpu]) -> Option<L1s> {
        if machine.l1.sets % sets(machine.line) != 0 {
            return None;
        }
        let mut cores: FxHashMap<CoreId, L1Number> = FxHashMap::default();
        let number = |cpu: &LogicalCpu| {
            let place = machine.topology.place(*cpu)?;
            let next = L1Number(cores.len() as u16);
            Some(*cores.entry(place.core).or_insert(next))
        };
        let of = cpus.iter().map(number).collect::<Option<_>>()?;
        let line = machine.line;
        Some(L1s { line, of })
    }

    /// The size of their lines.
    pub fn line(&self) -> LineSize {
        self.line
    }

    /// By recorded CPU, the number of its L1.
    pub fn numbers(&self) -> impl Iterator<Item = u16> + '_ {
        self.of.iter().map(|number| number.0)
    }

    /// Whether each CPU has one of its own.
    pub fn are_separate(&self) -> bool {
        (0..).zip(&self.of).all(|(cpu, number)| number.0 == cpu)
    }

    fn count(&self) -> usize {
        let most = self.numbers().max();
        most.map_or(0, |most| usize::from(most) + 1)
    }
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

/// Who touches a line in a round: the first core, and whether there are others.
#[derive(Clone, Copy, Debug)]
struct Users {
    first: L1Number,
    several: bool,
    writer: Option<L1Number>,
    several_writers: bool,
    /// Whether some of it is memory that clones share: what one of a CPU's clones does there
    /// affects all of the CPU's others.
    shared: bool,
}

impl Users {
    fn new(core: L1Number) -> Users {
        Users {
            first: core,
            several: false,
            writer: None,
            several_writers: false,
            shared: false,
        }
    }

    fn add(&mut self, core: L1Number, sharing: Sharing, writes: bool) {
        self.shared |= sharing == Sharing::Shared;
        self.several |= self.first != core;
        if writes {
            self.several_writers |= self.writer.is_some_and(|writer| writer != core);
            self.writer.get_or_insert(core);
        }
    }

    fn other_than(&self, core: L1Number) -> bool {
        self.shared || self.several || self.first != core
    }

    /// The core, if one alone of the recorded ones touches the line.
    fn only(&self) -> Option<L1Number> {
        (!self.several).then_some(self.first)
    }

    fn writer_other_than(&self, core: L1Number) -> bool {
        self.writer
            .is_some_and(|writer| self.shared || self.several_writers || writer != core)
    }
}

/// The line that a core used last in a set, apart from its tag.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    touched: u64,
    written: u64,
    /// The CPU that wrote it last, if the core alone has it since. Another thread's store stays:
    /// who wrote last is what a transfer shows.
    owner: Option<CpuId>,
    /// The staying access that words can be attached to: the round, and its number among those that
    /// stay.
    carrier: Option<(u64, u32)>,
}

/// Lines are distinguished from the same lines of cloned memory: clones use others there. Plus 1,
/// so that 0 is not a line.
fn tag(line: Line, sharing: Sharing) -> u64 {
    (line << 1 | u64::from(sharing == Sharing::Shared)) + 1
}

/// The line that a tag is of.
fn line_of(tag: u64) -> Option<Line> {
    tag.checked_sub(1).map(|tag| tag >> 1)
}

/// How many of the lines that cores used last have which hash.
///
/// Most lines of a round are no other core's last one of its set, and hundreds of cores remember
/// tens of thousands: the end of a round looks at all cores only for lines that this cannot
/// exclude.
#[derive(Debug)]
struct Remembered(Vec<u32>);

impl Remembered {
    /// 256 KB: a part of an L2.
    const BITS: u32 = 16;

    fn new() -> Remembered {
        Remembered(vec![0; 1 << Remembered::BITS])
    }

    fn of(&self, line: Line) -> u32 {
        self.0[Remembered::place(line)]
    }

    /// One more, or one less, than before.
    fn change(&mut self, line: Line, by: i32) {
        let count = &mut self.0[Remembered::place(line)];
        *count = count.wrapping_add_signed(by);
    }

    fn place(line: Line) -> usize {
        // The high bits of the product with 2^64 over the golden ratio, as in `handover`.
        (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - Remembered::BITS)) as usize
    }
}

/// Goes through a recording, round by round.
#[derive(Debug)]
pub struct Filter {
    l1s: L1s,
    sets: usize,
    round: u64,
    /// By L1, then set: the line that was used last, as its [`tag`]; 0: not known. Apart from the
    /// rest, because the end of a round looks at those of all cores.
    tags: Vec<u64>,
    /// The same lines' rest.
    recent: Vec<Recent>,
    /// By L1, then set: how many CPUs use it in the round.
    threads: Vec<u16>,
    remembered: Remembered,
    /// Who touches what in the round.
    users: FxHashMap<Line, Users>,
    /// The lines of `users`, in any order.
    touched: Vec<Line>,
    /// By CPU and set: a tag that `users` already has in this round, and whether as written.
    known: Vec<(u64, bool)>,
    /// The places in `known` that have one.
    known_at: Vec<u32>,
}

impl Filter {
    /// For a recording of as many CPUs as these are for.
    pub fn new(l1s: L1s) -> Filter {
        let sets = sets(l1s.line) as usize;
        let (of_cores, of_cpus) = (l1s.count() * sets, l1s.of.len() * sets);
        Filter {
            l1s,
            sets,
            round: 0,
            tags: vec![0; of_cores],
            recent: vec![Recent::default(); of_cores],
            threads: vec![0; of_cores],
            remembered: Remembered::new(),
            users: FxHashMap::default(),
            touched: Vec::new(),
            known: vec![(0, false); of_cpus],
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

    fn core(&self, cpu: CpuId) -> L1Number {
        self.l1s.of[usize::from(cpu.0)]
    }

    fn set(&self, line: Line) -> usize {
        line as usize & (self.sets - 1)
    }

    fn at(&self, core: L1Number, line: Line) -> usize {
        usize::from(core.0) * self.sets + self.set(line)
    }

    /// Who touches what in the round.
    fn survey(&mut self, accesses: &[Seen]) {
        self.users.clear();
        self.touched.clear();
        // Only those: a round of a few CPUs must not pay for all that were recorded.
        for at in self.known_at.drain(..) {
            let at = at as usize;
            self.known[at] = (0, false);
            let core = self.l1s.of[at / self.sets];
            self.threads[usize::from(core.0) * self.sets + at % self.sets] = 0;
        }
        for access in accesses {
            let span = span(access.addr.0, access.size, self.l1s.line);
            let writes = access.kind != AccessKind::Load;
            self.note(access, span.line, writes);
            if span.beyond > 0 {
                self.note(access, rest(&span, self.l1s.line).line, writes);
            }
        }
    }

    #[inline]
    fn note(&mut self, access: &Seen, line: Line, writes: bool) {
        let at = usize::from(access.cpu.0) * self.sets + self.set(line);
        let tag = tag(line, access.sharing);
        let known = self.known[at];
        // Most accesses repeat the last one to their set: this saves the look-up in `users`.
        if known.0 == tag && (known.1 || !writes) {
            return;
        }
        let core = self.core(access.cpu);
        if known.0 == 0 {
            self.known_at.push(at as u32);
            let place = self.at(core, line);
            self.threads[place] += 1;
        }
        self.known[at] = (tag, writes);
        let users = self.users.entry(line).or_insert_with(|| {
            self.touched.push(line);
            Users::new(core)
        });
        users.add(core, access.sharing, writes);
    }

    /// The line that the core used last in the set; 0: not known.
    #[inline]
    fn remember(&mut self, at: usize, tag: u64) {
        let before = std::mem::replace(&mut self.tags[at], tag);
        if before != tag {
            if let Some(line) = line_of(before) {
                self.remembered.change(line, -1);
            }
            if let Some(line) = line_of(tag) {
                self.remembered.change(line, 1);
            }
        }
    }

    #[inline]
    fn access(&mut self, index: u32, access: &Seen, kept: &mut Vec<Kept>) {
        let span = span(access.addr.0, access.size, self.l1s.line);
        let core = self.core(access.cpu);
        let at = self.at(core, span.line);
        let tag = tag(span.line, access.sharing);
        if span.beyond > 0 {
            let second = self.at(core, rest(&span, self.l1s.line).line);
            // Nothing known here says which of its two lines is used last in its set, so both are
            // forgotten; the next access to either stays.
            self.remember(at, 0);
            self.remember(second, 0);
            return keep(index, kept);
        }
        if self.threads[at] > 1 {
            // The interleaving decides which of the threads uses the set last.
            self.remember(at, 0);
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
            self.remember(at, tag);
            self.recent[at] = Recent::default();
        }
        let recent = &mut self.recent[at];
        recent.touched |= span.words;
        if writes {
            recent.written |= span.words;
            recent.owner = Some(access.cpu);
        }
        recent.carrier = Some((round, kept.len() as u32));
        keep(index, kept);
    }

    /// Whether an access to the line that its core used last in the set finds it in the state it
    /// needs.
    #[inline]
    fn may_leave(&self, access: &Seen, span: &Span, at: usize) -> bool {
        let users = |line: Line| self.users.get(&line);
        let core = self.core(access.cpu);
        match access.kind {
            AccessKind::Load => {
                // Other readers do no harm: E becomes S, which a load does not notice.
                users(span.line).is_none_or(|users| !users.writer_other_than(core))
            }
            AccessKind::Store => {
                self.recent[at].owner == Some(access.cpu)
                    // A read of the pair's other line by another core fetches this one with it,
                    // which turns M into S.
                    && [span.line, span.line ^ 1]
                        .into_iter()
                        .all(|line| users(line).is_none_or(|users| !users.other_than(core)))
            }
            // An atomic costs more than a hit, stalls its CPU, and may acquire a lock.
            AccessKind::Rmw => false,
        }
    }

    /// What others took away in the round, at whatever time.
    fn end_round(&mut self) {
        let touched = std::mem::take(&mut self.touched);
        for line in &touched {
            // A store needs its pair's other line untouched, too.
            for remembered in [*line, *line ^ 1] {
                self.take_away_from_others(*line, remembered);
            }
        }
        self.touched = touched;
    }

    /// The same of one line, because that or its pair's other one was touched.
    fn take_away_from_others(&mut self, touched: Line, remembered: Line) {
        let user = self.users.get(&touched).and_then(|users| users.only());
        let own = user.filter(|core| {
            let tag = self.tags[self.at(*core, remembered)];
            line_of(tag) == Some(remembered)
        });
        if self.remembered.of(remembered) > u32::from(own.is_some()) {
            let cores = (0..self.l1s.count()).map(|core| L1Number(core as u16));
            cores.for_each(|core| self.take_away(core, remembered));
        } else if let Some(core) = own {
            // Clones of its CPUs touch what they share.
            self.take_away(core, remembered);
        }
    }

    /// What a core remembers of the line after others' accesses in the round.
    fn take_away(&mut self, core: L1Number, line: Line) {
        let at = self.at(core, line);
        if line_of(self.tags[at]) != Some(line) {
            return;
        }
        let users = |line: Line| self.users.get(&line);
        // The interleaving decides whether before or after this core's last access, so the line
        // counts as taken away.
        if users(line).is_some_and(|users| users.writer_other_than(core)) {
            self.remember(at, 0);
        } else if self.recent[at].owner.is_some() {
            let mut touched = [line, line ^ 1].into_iter().filter_map(users);
            if touched.any(|users| users.other_than(core)) {
                let recent = &mut self.recent[at];
                recent.owner = None;
                recent.written = 0;
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
