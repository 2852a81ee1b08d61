//! The caches, the directory and the lines of one machine: what one access by one CPU at one time
//! finds and changes. Knows no rounds, keys or recordings; docs/model/replay.md describes the
//! model.
//!
//! ```text
//!   core 0      core 1          core 2      core 3        L1, L2: private, write-back, LRU, neither
//!  L1  L2      L1  L2          L1  L2      L1  L2         includes the other
//!      └────┬──────┘               └────┬──────┘
//!       LLC domain 0                LLC domain 1          filled by its cores' misses and write-backs
//!           └───────────┬───────────────┘
//!                   directory                             exact: owner, sharers, forwarder, LLC copies;
//!                                                         a line is a server: `busy_until`
//! ```

use linemate_machine::{
    CoreId, CpuPlace, Distance, DomainId, Latencies, LogicalCpu, Machine, Topology,
};
use linemate_recording::AccessKind;
use linemate_units::Cycles;

use crate::accounts::counts::{Cause, Source};
use crate::accounts::held::HeldLines;
use crate::cache::address::Line;
use crate::cache::array::{CHECK, Cache, DIRTY, Held, Llc, PREFETCHED, Way};
use crate::cache::directory::{Directory, History, Slot};
use crate::cache::prefetch::{Arrival, Prefetchers};
use crate::cache::pressure::Level;
use crate::cache::sharing::{MissTag, Sharing};
use crate::cache::stamp::{Evicted, Stamp};
use crate::cache::verdict::{Asked, LineSource, LineState, Pending, Piece, Verdict};

/// A coherence miss whose class has become known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// As passed to [`System::open`].
    pub tag: MissTag,
    /// True or false sharing.
    pub cause: Cause,
}

/// The machine at work.
#[derive(Clone)]
pub struct System {
    pub(crate) topology: Topology,
    pub(crate) latency: Latencies,
    pairs: bool,
    /// None on machines without prefetchers.
    pub(crate) prefetchers: Option<Prefetchers>,
    pub(crate) l1: Vec<Cache>,
    pub(crate) l2: Vec<Cache>,
    pub(crate) llc: Vec<Llc>,
    pub(crate) directory: Directory,
    pub(crate) sharing: Sharing,
    /// For how long lines are held by requests that a CPU waits for.
    pub(crate) held: HeldLines,
    /// Misses decided since the last [`System::take_closed`].
    closed: Vec<Closed>,
    /// Lines fetched because their pair's other line was missed, and how many of them a core had
    /// modified.
    pub(crate) prefetched: (u64, u64),
    /// For `Directory::others`: stored to save allocations.
    others: Vec<CoreId>,
    /// The stamp of uses of lines ([`System::note_uses`]).
    pub(crate) now: Stamp,
    /// The evictions expected during the current access ([`System::expect`]).
    pub(crate) expected: Vec<(Level, Evicted)>,
    /// A core that never had a line that others have written to had it once, before the replayed
    /// part, and lost it: see [`System::set_old`].
    old: bool,
}

impl System {
    /// A machine with empty caches.
    pub fn new(machine: &Machine) -> System {
        let cores = machine.topology.cores();
        let domains = machine.topology.domains();
        System {
            topology: machine.topology.clone(),
            latency: machine.latency,
            pairs: machine.adjacent_line_pairs,
            prefetchers: Prefetchers::new(machine),
            l1: (0..cores).map(|_| Cache::new(machine.l1)).collect(),
            l2: (0..cores).map(|_| Cache::new(machine.l2)).collect(),
            llc: (0..domains).map(|_| Llc::new(machine.llc)).collect(),
            directory: Directory::new(cores),
            sharing: Sharing::default(),
            held: HeldLines::default(),
            closed: Vec::new(),
            prefetched: (0, 0),
            others: Vec::new(),
            now: Stamp::default(),
            expected: Vec::new(),
            old: false,
        }
    }

    /// The fast path of [`System::access`] for most accesses: a hit in L1 that changes nothing for
    /// anybody else. Returns its cycles and the line's entry; `None` leaves the access undone.
    #[inline(always)]
    pub(crate) fn hit(
        &mut self,
        cpu: LogicalCpu,
        core: CoreId,
        piece: Piece,
    ) -> Option<(u64, Slot)> {
        let cache = &mut self.l1[usize::from(core.0)];
        // Moves the line to the front even if `access` has to do the rest: it then finds it first.
        let way = cache.find_and_use(piece.line)?;
        let slot = cache.slot(way);
        // Either flag needs the sharing records or the flights, which are kept off this path.
        if cache.flags(way) & (CHECK | PREFETCHED) != 0 {
            return None;
        }
        let mut cycles = u64::from(self.latency.l1);
        if piece.kind != AccessKind::Load {
            // E becomes M silently: the owner asks nobody. S and F have to upgrade.
            let entry = self.directory.entry_mut(slot);
            if entry.owner() != Some(core) {
                return None;
            }
            entry.dirty = true;
            entry.written |= piece.words;
            entry.last_writer = cpu;
            cache.set_flags(way, DIRTY);
            if piece.kind == AccessKind::Rmw {
                cycles += u64::from(self.latency.atomic);
            }
        }
        cache.add_touched(way, piece.words);
        Some((cycles, slot))
    }

    /// One access by a logical CPU at `place`, at `now` cycles. Calls must come in the order in
    /// which the accesses take effect; `now` may go back between CPUs, and a line then still serves
    /// in call order.
    pub fn access(&mut self, cpu: LogicalCpu, place: CpuPlace, piece: Piece, now: u64) -> Verdict {
        if let Some((cycles, slot)) = self.hit(cpu, place.core, piece) {
            return Verdict::private(Source::L1, cycles, slot);
        }
        let core = usize::from(place.core.0);
        let Some(way) = self.l1[core].find_and_use(piece.line) else {
            return self.access_beyond_l1(cpu, place, piece, now);
        };
        if self.l1[core].flags(way) & PREFETCHED != 0 {
            self.l1[core].clear_flags(way, PREFETCHED);
            // Before `use_l1`, which consumes the pending words that the class of a late prefetch
            // depends on.
            let early = self.arrival(place, self.l1[core].slot(way), piece, now);
            let verdict = self.use_l1(cpu, place, piece, way, now, Source::L1);
            return early.delay(verdict, Asked::FirstUse);
        }
        self.use_l1(cpu, place, piece, way, now, Source::L1)
    }

    /// The line is in L1 at `way`: the access uses it, with an upgrade if it lacks the permission.
    /// `found` is the level it was found in.
    #[inline]
    fn use_l1(
        &mut self,
        cpu: LogicalCpu,
        place: CpuPlace,
        piece: Piece,
        way: Way,
        now: u64,
        found: Source,
    ) -> Verdict {
        let core = usize::from(place.core.0);
        let cache = &mut self.l1[core];
        cache.add_touched(way, piece.words);
        let slot = cache.slot(way);
        if cache.flags(way) & CHECK != 0 {
            self.check(place.core, slot, way, piece.words);
        }
        let mut cycles = u64::from(if found == Source::L1 {
            self.latency.l1
        } else {
            self.latency.l2
        });
        if piece.kind != AccessKind::Load {
            let entry = self.directory.entry_mut(slot);
            if entry.owner() != Some(place.core) {
                // In S or F, in whichever level it was found: the upgrade's latency replaces the
                // hit's.
                return self.upgrade(cpu, place, piece, way, now);
            }
            entry.dirty = true;
            entry.written |= piece.words;
            entry.last_writer = cpu;
            self.l1[core].set_flags(way, DIRTY);
            if piece.kind == AccessKind::Rmw {
                cycles += u64::from(self.latency.atomic);
            }
        }
        Verdict::private(found, cycles, slot)
    }

    fn access_beyond_l1(
        &mut self,
        cpu: LogicalCpu,
        place: CpuPlace,
        piece: Piece,
        now: u64,
    ) -> Verdict {
        let core = usize::from(place.core.0);
        let Some(way) = self.l2[core].find_and_use(piece.line) else {
            // The pair's other line after the requested one: the CPU waits only for its own, and
            // both may be in one set.
            let verdict = self.miss(cpu, place, piece, now);
            if self.pairs {
                self.before_pair(place);
                self.fetch_pair(place, piece.line ^ 1, now);
            }
            return verdict;
        };
        let slot = self.l2[core].slot(way);
        let flags = self.l2[core].flags(way);
        let early = match flags & PREFETCHED {
            0 => Arrival::Here,
            _ => {
                self.l2[core].clear_flags(way, PREFETCHED);
                self.arrival(place, slot, piece, now)
            }
        };
        // DIRTY stays with the copy in L2, which has to be written back; L1's is clean until it is
        // written.
        let flags = flags & CHECK;
        let way = self.fill_l1(
            place,
            piece.line,
            Held {
                slot,
                flags,
                touched: 0,
            },
        );
        let verdict = self.use_l1(cpu, place, piece, way, now, Source::L2);
        early.delay(verdict, Asked::Request)
    }

    /// A touch of a line with pending words: the first touch of a pending word decides the
    /// lifetime.
    pub(crate) fn check(&mut self, core: CoreId, slot: Slot, way: Way, words: u64) {
        let entry = self.directory.entry(slot);
        let Some(record) = self.sharing.find(entry, core) else {
            return;
        };
        // Words that others wrote are still unread: the miss may yet turn out to be useful (Dubois'
        // essential miss).
        if record.pending & words == 0 && record.pending != 0 {
            return;
        }
        record.pending = 0;
        if let Some(tag) = self.sharing.take_open(entry, core) {
            self.closed.push(Closed {
                tag,
                cause: Cause::TrueSharing,
            });
        }
        self.l1[usize::from(core.0)].clear_flags(way, CHECK);
    }

    /// A write to a line that the core shares with others, or once did.
    fn upgrade(
        &mut self,
        cpu: LogicalCpu,
        place: CpuPlace,
        piece: Piece,
        way: Way,
        now: u64,
    ) -> Verdict {
        let slot = self.l1[usize::from(place.core.0)].slot(way);
        // Dubois classifies misses, not upgrades. What an upgrade takes away was useful if a reader
        // used a word that is now written.
        let (farthest, readers) = self.invalidate_others(place, slot);
        let cause = match readers {
            None => Cause::Unshared,
            Some(touched) if touched & piece.words != 0 => Cause::TrueSharing,
            Some(_) => Cause::FalseSharing,
        };
        // No data moves, but the farthest copy has to answer: as long as a HITM from there. With no
        // copy left, the directory in the LLC answers.
        let latency = farthest.map_or(self.latency.llc, |distance| self.latency.hitm(distance));
        let (waited, cycles) = self.serve(slot, piece.kind, now, u64::from(latency), true);
        self.held
            .add(slot, Cycles(cycles - waited), farthest.is_some());
        self.own_modified(cpu, place, piece, slot);
        self.l1[usize::from(place.core.0)].set_flags(way, DIRTY);
        Verdict {
            source: Source::Upgrade,
            cause: Some(cause),
            undecided: false,
            cycles,
            waited,
            writer: None,
            slot,
            asked: Asked::Nothing,
        }
    }

    /// The core has no copy.
    fn miss(&mut self, cpu: LogicalCpu, place: CpuPlace, piece: Piece, now: u64) -> Verdict {
        let slot = self.directory.slot(piece.line, place.core, place.socket);
        let history = self.sharing.history(self.directory.entry(slot), place.core);
        assert!(
            history != History::Held,
            "line {:#x}: held, but in no cache",
            piece.line
        );
        // Looked up before anything changes: invalidating first would hide where the data is.
        let supply = self.supply(place, slot);
        let (waited, cycles) = if piece.kind == AccessKind::Load {
            self.share(place, slot, &supply);
            let (waited, cycles) =
                self.serve(slot, piece.kind, now, supply.latency, supply.exclusive);
            let held = match supply.exclusive {
                true => cycles - waited,
                false => u64::from(self.latency.serve),
            };
            self.held.add(slot, Cycles(held), supply.exclusive);
            (waited, cycles)
        } else {
            let (farthest, _) = self.invalidate_others(place, slot);
            let reach = farthest.map_or(0, |distance| self.latency.hitm(distance));
            self.own_modified(cpu, place, piece, slot);
            // Data and invalidations are in flight at once; the write is done when the later of
            // them is.
            let latency = supply.latency.max(u64::from(reach));
            let (waited, cycles) = self.serve(slot, piece.kind, now, latency, true);
            self.held
                .add(slot, Cycles(cycles - waited), farthest.is_some());
            (waited, cycles)
        };
        let history = match history {
            // Not cold: on a machine that has run for long the core had the line once, and lost it
            // to a later writer. After `share` or `invalidate_others`, which publish what the last
            // owner wrote: `ever_written` is now complete.
            History::Never if self.old && self.directory.entry(slot).ever_written != 0 => {
                self.sharing
                    .owe_all(self.directory.entry_mut(slot), place.core);
                History::Invalidated
            }
            history => history,
        };
        // A lost copy is a capacity miss even if another core wrote the line since: it would have
        // missed in any case. Also after them: what the last owner wrote is pending for this core
        // only since then.
        let pending = self.begin_lifetime(place.core, slot, piece.words);
        let (cause, undecided) = match (history, pending) {
            (History::Never, _) => (Some(Cause::Cold), false),
            (History::Evicted, _) => (Some(Cause::Capacity), false),
            (_, Pending::Taken) => (Some(Cause::TrueSharing), false),
            // Even with nothing pending the class is open: the owner may have written no word, and
            // the class is then false sharing when the lifetime ends.
            (_, Pending::Left | Pending::Nothing) => (None, true),
        };
        // Without pending words no later touch can decide anything, so hits need not look at the
        // records.
        self.fill(place, slot, piece, pending == Pending::Left);
        Verdict {
            source: supply.source,
            cause,
            undecided,
            cycles,
            waited,
            writer: supply.writer,
            slot,
            asked: Asked::Request,
        }
    }

    /// The line as a server: a request waits until the line is free, then occupies it for as long
    /// as the line changes hands (`exclusive`), or for as long as serving a clean copy takes.
    /// Returns the wait and the whole latency.
    pub(crate) fn serve(
        &mut self,
        slot: Slot,
        kind: AccessKind,
        now: u64,
        latency: u64,
        exclusive: bool,
    ) -> (u64, u64) {
        let atomic = if kind == AccessKind::Rmw {
            u64::from(self.latency.atomic)
        } else {
            0
        };
        let entry = self.directory.entry_mut(slot);
        // First come, first served, in call order: a home agent's priorities or retries are not
        // modelled.
        let begin = now.max(entry.busy_until);
        // Ownership cannot be passed on before it has arrived; a clean copy only occupies the
        // responder.
        let kept = if exclusive {
            latency + atomic
        } else {
            u64::from(self.latency.serve)
        };
        entry.busy_until = begin + kept;
        (begin - now, begin - now + latency + atomic)
    }

    /// A read: an owner keeps a shared copy, and its modified data goes to its LLC; the reader
    /// becomes owner if it is alone, else the forwarder.
    pub(crate) fn share(&mut self, place: CpuPlace, slot: Slot, supply: &LineSource) {
        let line = self.directory.entry(slot).line;
        if let Some(owner) = self.directory.entry(slot).owner() {
            assert!(
                self.directory.holders(slot) == 1 && self.directory.holds(slot, owner),
                "line {line:#x}: an owner with other copies"
            );
            // Words that the owner wrote become pending for those that had the line before.
            self.sharing.publish(self.directory.entry_mut(slot));
            if supply.exclusive {
                // MESIF has no owned state: to serve a read, modified data is cleaned, and the
                // owner's LLC gets it. Under MOESI (AMD's O) it would stay dirty with the owner,
                // which would keep answering.
                self.write_back(self.topology.domain_of(owner), slot);
                for cache in [&mut self.l1, &mut self.l2] {
                    let cache = &mut cache[usize::from(owner.0)];
                    if let Some(way) = cache.find(line) {
                        // In both levels: L2's copy may be dirty under a clean one in L1, and
                        // neither is newer than the LLC's any more.
                        cache.clear_flags(way, DIRTY);
                    }
                }
            }
            let entry = self.directory.entry_mut(slot);
            entry.set_owner(None);
            entry.dirty = false;
        }
        // E needs every other copy to be gone, including those in other domains' LLCs: otherwise a
        // silent write would leave them stale.
        let alone = self.directory.holders(slot) == 0
            && self.directory.entry(slot).llc & !(1 << place.domain.0) == 0;
        let entry = self.directory.entry_mut(slot);
        if alone {
            entry.set_owner(Some(place.core));
            entry.set_forwarder(None);
            entry.written = 0;
        } else {
            // The newest reader forwards, as in MESIF: its copy is likely to stay longest. The old
            // forwarder goes to S without a message.
            entry.set_forwarder(Some(place.core));
        }
        self.directory.add_sharer(slot, place.core);
    }

    /// The core becomes the only holder and has written.
    fn own_modified(&mut self, cpu: LogicalCpu, place: CpuPlace, piece: Piece, slot: Slot) {
        self.directory.add_sharer(slot, place.core);
        let holders = self.directory.holders(slot);
        assert!(
            holders == 1,
            "line {:#x}: {holders} holders of a modified line",
            piece.line
        );
        let entry = self.directory.entry_mut(slot);
        entry.set_owner(Some(place.core));
        entry.set_forwarder(None);
        entry.dirty = true;
        entry.written = piece.words;
        entry.last_writer = cpu;
    }

    /// Invalidates every copy outside the core: in the other cores and in the other domains' LLCs.
    /// The caller makes the core the owner. Returns how far the farthest was, and, if any core had
    /// a copy, the words those cores had touched.
    fn invalidate_others(
        &mut self,
        place: CpuPlace,
        slot: Slot,
    ) -> (Option<Distance>, Option<u64>) {
        self.sharing.publish(self.directory.entry_mut(slot));
        let line = self.directory.entry(slot).line;
        let mut farthest: Option<Distance> = None;
        let mut readers: Option<u64> = None;
        // Moved, not borrowed: the loop changes caches and directory, both fields of self.
        let mut others = std::mem::take(&mut self.others);
        self.directory.others(slot, place.core, &mut others);
        for &core in &others {
            let distance = self
                .topology
                .distance(place.domain, self.topology.domain_of(core));
            farthest = farthest.max(Some(distance));
            let touched = [&mut self.l1, &mut self.l2]
                .into_iter()
                // Dirty data is not written back: it goes to the new owner with the line.
                .filter_map(|cache| cache[usize::from(core.0)].remove(line))
                // Both levels: words that the core used before L1 evicted the line are with L2's
                // copy.
                .fold(0, |touched, gone| touched | gone.touched);
            readers = Some(readers.unwrap_or(0) | touched);
            self.directory.remove_sharer(slot, core);
            self.end_lifetime(core, slot, History::Invalidated);
        }
        self.others = others;
        let entry = self.directory.entry_mut(slot);
        // The own domain's LLC keeps its copy: it is behind the core's own caches and is refreshed
        // by the write-back.
        let mut copies = entry.llc & !(1 << place.domain.0);
        entry.llc &= 1 << place.domain.0;
        while copies != 0 {
            let domain = DomainId(copies.trailing_zeros() as u16);
            copies &= copies - 1;
            // A domain's LLC has to answer like a core there: the writer may not proceed while a
            // stale copy can be read.
            farthest = farthest.max(Some(self.topology.distance(place.domain, domain)));
            self.llc[usize::from(domain.0)].remove(line, slot);
        }
        (farthest, readers)
    }

    /// The core has a copy again. Returns whether words were pending, and whether the access
    /// touches one.
    pub(crate) fn begin_lifetime(&mut self, core: CoreId, slot: Slot, words: u64) -> Pending {
        let entry = self.directory.entry_mut(slot);
        self.sharing.set_history(entry, core, History::Held);
        let Some(record) = self.sharing.find(entry, core) else {
            // No record: no second core has touched the line yet.
            return Pending::Nothing;
        };
        if record.pending & words != 0 {
            record.pending = 0;
            Pending::Taken
        } else if record.pending != 0 {
            Pending::Left
        } else {
            Pending::Nothing
        }
    }

    /// The core's copy is gone. A miss that is still open brought nothing that was used.
    pub(crate) fn end_lifetime(&mut self, core: CoreId, slot: Slot, history: History) {
        let entry = self.directory.entry_mut(slot);
        self.sharing.set_history(entry, core, history);
        if let Some(tag) = self.sharing.take_open(entry, core) {
            self.closed.push(Closed {
                tag,
                cause: Cause::FalseSharing,
            });
        }
    }

    /// Accounts for an undecided coherence miss later: its tag comes back through
    /// [`System::take_closed`] or [`System::finish`]. Without this call the miss is forgotten.
    pub fn open(&mut self, place: CpuPlace, verdict: &Verdict, tag: MissTag) {
        let entry = self.directory.entry(verdict.slot);
        self.sharing.open(entry, place.core, tag);
    }

    /// Whether misses have been decided since the last [`System::take_closed`].
    #[inline]
    pub fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// The misses decided since the last call, in the order of their decision.
    pub fn take_closed(&mut self) -> impl Iterator<Item = Closed> + '_ {
        self.closed.drain(..)
    }

    /// Closes all lifetimes: what is still open is false sharing. Call [`System::take_closed`]
    /// after it.
    pub fn finish(&mut self) {
        let open = self.sharing.drain_open();
        self.closed.extend(open.into_iter().map(|tag| Closed {
            tag,
            cause: Cause::FalseSharing,
        }));
    }

    /// Forgets the counts and the open misses; caches and directory stay as they are.
    pub(crate) fn begin_counting(&mut self) {
        // Their misses belong to the warm-up, whose accounts are gone. Histories and pending words
        // stay: they are the purpose of the warm-up.
        self.sharing.drain_open();
        self.closed.clear();
        self.held.begin_counting();
        self.prefetched = (0, 0);
        if let Some(prefetchers) = &mut self.prefetchers {
            prefetchers.begin_counting();
        }
    }

    /// From now on the machine has run for long: a core that gets, for the first time, a line that
    /// others have written to counts as one that had it before. For replays in which CPUs meet more
    /// others than a recording is long enough for.
    pub(crate) fn set_old(&mut self) {
        self.old = true;
    }

    /// All lines are free.
    pub(crate) fn end_transfers(&mut self) {
        self.directory.end_transfers();
    }

    /// The core's caches lose the line, if they have it.
    pub(crate) fn evict(&mut self, place: CpuPlace, line: Line) {
        let core = usize::from(place.core.0);
        let gone = [self.l1[core].remove(line), self.l2[core].remove(line)];
        let gone: Vec<Held> = gone.into_iter().flatten().collect();
        if let Some(first) = gone.first() {
            let dirty = gone.iter().any(|held| held.flags & DIRTY != 0);
            self.lose(place, line, first.slot, dirty);
        }
    }

    /// The core's L1 loses the line to L2, if it has it.
    pub(crate) fn evict_from_l1(&mut self, place: CpuPlace, line: Line) {
        let gone = self.l1[usize::from(place.core.0)].remove(line);
        if let Some(gone) = gone {
            let core = usize::from(place.core.0);
            if self.l2[core].find(line).is_none() {
                // As if room had been needed only in L1: even a clean line goes to L2, where the
                // tape says it was found.
                self.insert_l2(place, line, gone);
            } else {
                self.fall_back(place, Some((line, gone)));
            }
        }
    }

    /// Lines fetched for their pair's sake, and how many of them were modified in another core.
    pub fn prefetched(&self) -> (u64, u64) {
        self.prefetched
    }

    /// The state of a core's copy of a line.
    pub fn state(&self, core: CoreId, line: u64) -> LineState {
        let Some(slot) = self.directory.get(line) else {
            return LineState::Invalid;
        };
        let entry = self.directory.entry(slot);
        if entry.owner() == Some(core) {
            if entry.dirty {
                LineState::Modified
            } else {
                LineState::Exclusive
            }
        } else if !self.directory.holds(slot, core) {
            LineState::Invalid
        } else if entry.forwarder() == Some(core) {
            LineState::Forward
        } else {
            LineState::Shared
        }
    }

    /// Whether a domain's LLC has a copy of a line (which may be stale while a core of the domain
    /// owns it).
    pub fn in_llc(&self, domain: DomainId, line: u64) -> bool {
        self.directory
            .get(line)
            .is_some_and(|slot| self.directory.entry(slot).in_llc(domain))
    }

    /// The number of lines ever touched.
    pub fn lines(&self) -> usize {
        self.directory.len()
    }

    /// Marks the line as having moved between cores; see `lines`.
    pub(crate) fn watch(&mut self, verdict: &Verdict) {
        self.directory.entry_mut(verdict.slot).watched = true;
    }

    /// Whether the line has been marked.
    #[inline]
    pub(crate) fn is_watched(&self, verdict: &Verdict) -> bool {
        self.directory.entry(verdict.slot).watched
    }

    /// The lines that slots refer to.
    pub(crate) fn into_lines(self) -> Vec<Line> {
        self.directory.into_lines()
    }
}
