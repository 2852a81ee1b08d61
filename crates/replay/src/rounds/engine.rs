//! The machine and the accounts: performs one placed access of one CPU and counts it. Knows no
//! rounds.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use linemate_machine::{CpuPlace, LineSize, LogicalCpu, Machine};
use linemate_recording::{AccessKind, CpuId};
use linemate_units::{Accesses, Cycles};

use crate::accounts::counts::{Cause, Counts, Source, Tally};
use crate::accounts::lines::{Lines, Touch};
use crate::accounts::misses::{MissLog, Misses};
use crate::accounts::outcome::{Outcome, Pair};
use crate::accounts::transfers::{InLine, TransferCounter};
use crate::cache::address::{Span, instance_line, rest};
use crate::cache::directory::{LineHasher, Slot};
use crate::cache::prefetch::Seen;
use crate::cache::sharing::MissTag;
use crate::cache::system::{Closed, System};
use crate::cache::verdict::{Asked, Piece, Verdict};
use crate::rounds::filter::Later;
use crate::rounds::overlap::Windows;
use crate::rounds::placement::{KeyId, SiteId};
use crate::rounds::waiting::{Cpu, Waiting};
use crate::scale::tape::Taper;

/// The machine and the accounts.
#[derive(Clone)]
pub(crate) struct Engine {
    pub(crate) system: System,
    pub(crate) line: LineSize,
    pub(crate) l1_cycles: u64,
    pub(crate) atomic_cycles: u64,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) totals: Counts,
    pub(crate) keys: Vec<Counts>,
    /// Per key, hits in L1 that touch one line, by kind: most of a recording, so they have a small
    /// table of their own, merged into `keys` at the end.
    pub(crate) hits: Vec<[u64; 4]>,
    pub(crate) sites: Vec<Counts>,
    /// As `hits`, per site.
    pub(crate) site_hits: Vec<[u64; 4]>,
    pub(crate) pairs: HashMap<(u16, u16), Tally, BuildHasherDefault<LineHasher>>,
    pub(crate) lines: Option<Lines>,
    /// Only if they are listed.
    pub(crate) misses: Option<MissLog>,
    /// Only if lines are examined.
    pub(crate) transfers: Option<TransferCounter>,
    /// Whether it is a warm-up: what lines hold is then not examined, because nothing of it stays.
    pub(crate) is_warm_up: bool,
    /// None: no misses overlap.
    pub(crate) windows: Option<Windows>,
    /// The result of the last access.
    pub(crate) met: (Source, Option<Cause>),
    /// A key whose accesses count in no account but their own.
    pub(crate) aside: Option<KeyId>,
    pub(crate) aside_site: SiteId,
}

impl Engine {
    /// A machine with empty caches, and empty accounts; `lines`: with a view of lines, for these
    /// replayed CPUs.
    pub(crate) fn new(machine: &Machine, cpus: Vec<Cpu>, copies: u16, lines: bool) -> Engine {
        let logical: Vec<LogicalCpu> = cpus.iter().map(|cpu| cpu.logical).collect();
        Engine {
            system: System::new(machine),
            line: machine.line,
            l1_cycles: u64::from(machine.latency.l1),
            atomic_cycles: u64::from(machine.latency.atomic),
            cpus,
            totals: Counts::default(),
            keys: Vec::new(),
            hits: Vec::new(),
            sites: Vec::new(),
            site_hits: Vec::new(),
            pairs: HashMap::default(),
            lines: lines.then(Lines::default),
            misses: None,
            transfers: lines.then(|| TransferCounter::new(machine, &logical, copies)),
            is_warm_up: false,
            windows: None,
            met: (Source::L1, None),
            aside: None,
            aside_site: SiteId(0),
        }
    }

    #[inline]
    pub(crate) fn make_room(&mut self, key: KeyId, site: SiteId) {
        if key.0 as usize >= self.keys.len() {
            self.keys.resize_with(key.0 as usize + 1, Counts::default);
            // Four counters for three kinds: a power of two makes the index of the hottest store of
            // a replay a shift.
            self.hits.resize(key.0 as usize + 1, [0; 4]);
        }
        if site.0 as usize >= self.sites.len() {
            self.sites.resize_with(site.0 as usize + 1, Counts::default);
            self.site_hits.resize(site.0 as usize + 1, [0; 4]);
        }
    }

    /// Makes room for accesses that count in no account but their own.
    pub(crate) fn make_room_aside(&mut self) {
        if let Some(aside) = self.aside {
            self.make_room(aside, self.aside_site);
        }
    }

    /// The account of accesses that are not counted ([`Engine::step_aside`]), beyond all others'.
    pub(crate) fn make_aside(&mut self, key: KeyId, site: SiteId) {
        (self.aside, self.aside_site) = (Some(key), site);
        self.make_room_aside();
    }

    /// Performs an access whose counts [`Engine::settle`] drops.
    pub(crate) fn step_aside(
        &mut self,
        waiting: &Waiting,
        cpu: usize,
        instance: u16,
        now: u64,
    ) -> u64 {
        let aside = Waiting {
            key: self.aside.unwrap_or_default().0,
            site: self.aside_site.0,
            ..*waiting
        };
        let (prefetched, ahead) = (self.system.prefetched, self.system.fetched_ahead());
        self.system.held.elsewhere = true;
        let stall = self.step(&aside, cpu, instance, now);
        self.system.held.elsewhere = false;
        self.system.prefetched = prefetched;
        self.system.set_fetched_ahead(ahead);
        stall
    }

    /// Performs an access of the recorded group and passes it to the tape, if one is made. Returns
    /// for how long the CPU stalls.
    pub(crate) fn taped(
        &mut self,
        taper: &mut Taper,
        waiting: &Waiting,
        slice: usize,
        cpu: usize,
        now: u64,
    ) -> u64 {
        // During the warm-up the tape only learns which lines groups share.
        if !taper.takes() {
            taper.note(waiting, CpuId(cpu as u16));
            return self.step(waiting, cpu, 0, now);
        }
        if !taper.wants(waiting) {
            let stall = self.step(waiting, cpu, 0, now);
            taper.wait(slice, stall);
            return stall;
        }
        // Performed all the same: the group's own caches have to be as if it were alone on them.
        // What it costs, and who waits for the line, is known where all groups are replayed.
        let stall = self.step_aside(waiting, cpu, 0, now);
        taper.take(slice, waiting, self.met);
        stall
    }

    /// Forgets the counts; the machine stays as it is.
    pub(crate) fn begin_counting(&mut self) {
        self.system.begin_counting();
        self.is_warm_up = false;
        self.totals = Counts::default();
        self.keys.clear();
        self.hits.clear();
        self.sites.clear();
        self.site_hits.clear();
        self.pairs.clear();
        if let Some(lines) = &mut self.lines {
            *lines = Lines::default();
        }
        if let Some(transfers) = &mut self.transfers {
            transfers.begin_counting();
        }
        if let Some(windows) = &mut self.windows {
            windows.begin_counting();
        }
    }

    /// Performs an access and accounts for it. Returns for how long the CPU stalls.
    #[inline]
    pub(crate) fn step(&mut self, waiting: &Waiting, cpu: usize, instance: u16, now: u64) -> u64 {
        let stall = self.perform(waiting, cpu, instance, now);
        // Accesses that the filter left out hit in L1 in any case, so only the words they used
        // matter: they decide sharing.
        if waiting.later != Later::default() {
            let Cpu { logical, place } = self.cpus[cpu];
            let line = instance_line(waiting.span.line, instance, self.line);
            self.system
                .use_later(logical, place.core, line, waiting.later);
            self.charge_closed_if_any();
        }
        stall
    }

    #[inline]
    fn perform(&mut self, waiting: &Waiting, cpu: usize, instance: u16, now: u64) -> u64 {
        let Cpu { logical, place } = self.cpus[cpu];
        let first = self.piece(waiting, &waiting.span, instance);
        self.met = (Source::L1, None);
        // An access to two lines never takes the fast path: its second piece may miss.
        if waiting.span.beyond == 0 {
            if let Some((cycles, _)) = self.system.hit(logical, place.core, first) {
                self.add_hit(waiting);
                let stall = cycles - self.l1_cycles;
                // Of atomics only.
                if stall > 0 {
                    self.wait(waiting, cpu, stall);
                }
                return stall;
            }
        }
        self.step_beyond(waiting, cpu, instance, first, now)
    }

    #[inline]
    fn piece(&self, waiting: &Waiting, span: &Span, instance: u16) -> Piece {
        let line = instance_line(span.line, instance, self.line);
        Piece {
            line,
            words: span.words,
            kind: waiting.kind,
        }
    }

    /// An access that is more than a hit in L1.
    fn step_beyond(
        &mut self,
        waiting: &Waiting,
        cpu: usize,
        instance: u16,
        first: Piece,
        now: u64,
    ) -> u64 {
        let Cpu { logical, place } = self.cpus[cpu];
        let second = (waiting.span.beyond > 0).then(|| rest(&waiting.span, self.line));
        let second = second.map(|span| (span, self.piece(waiting, &span, instance)));
        let mut offset = waiting.span.offset;
        // Prefetchers see each piece after it has been served, as they see real requests: what they
        // fetch cannot serve the access that triggered it.
        let mut verdict = self.system.access(logical, place, first, now);
        self.notify_prefetchers(waiting, first, offset, place, &verdict, now);
        self.watch_contested(&verdict);
        if let Some((span, second)) = second {
            // Both pieces are in flight at once: the access takes as long as the slower one, and
            // counts as that one (the first, if they take equally long).
            let other = self.system.access(logical, place, second, now);
            self.notify_prefetchers(waiting, second, span.offset, place, &other, now);
            self.watch_contested(&other);
            if other.cycles > verdict.cycles {
                verdict = other;
                offset = span.offset;
            }
        }
        self.met = (verdict.source, verdict.cause);
        let stall = verdict.cycles - self.l1_cycles;
        verdict.cycles = self.l1_cycles + self.wait(waiting, cpu, stall);
        // With overlap the CPU may wait for less than the line's queue took.
        verdict.waited = verdict.waited.min(verdict.cycles);
        // What goes onto the tape is accounted for where all groups are replayed; here it would
        // count twice.
        if self.aside != Some(KeyId(waiting.key)) {
            self.look_inside(offset, waiting, &verdict);
            self.note_transfer(offset, waiting, cpu, &verdict);
        }
        // A hit that the fast path did not take: a permission or a flag had to be checked, the
        // account is the same.
        if verdict.source == Source::L1 && second.is_none() {
            self.add_hit(waiting);
            self.charge_closed_if_any();
        } else {
            self.account(waiting, logical, place, &verdict, second.is_some());
        }
        verdict.cycles - self.l1_cycles
    }

    #[inline]
    fn add_hit(&mut self, waiting: &Waiting) {
        self.hits[waiting.key as usize][waiting.kind as usize] += 1;
        self.site_hits[waiting.site as usize][waiting.kind as usize] += 1;
    }

    #[inline]
    fn account(
        &mut self,
        waiting: &Waiting,
        logical: LogicalCpu,
        place: CpuPlace,
        verdict: &Verdict,
        split: bool,
    ) {
        let count = |counts: &mut Counts| {
            match waiting.kind {
                AccessKind::Load => counts.loads += Accesses::ONE,
                AccessKind::Store => counts.stores += Accesses::ONE,
                AccessKind::Rmw => counts.rmws += Accesses::ONE,
            }
            counts.add_source(verdict.source, Cycles(verdict.cycles));
            if verdict.source.is_llc_miss() {
                counts.llc_misses[waiting.kind as usize] += Accesses::ONE;
            }
            if split {
                counts.split += Accesses::ONE;
            }
        };
        count(&mut self.keys[waiting.key as usize]);
        count(&mut self.sites[waiting.site as usize]);
        if verdict.source.is_private() {
            return self.charge_closed_if_any();
        }
        // Nobody waits for a line in a private cache: only an access that left its core can have
        // waited.
        self.keys[waiting.key as usize].waited += Cycles(verdict.waited);
        self.sites[waiting.site as usize].waited += Cycles(verdict.waited);
        let log = self.misses.as_mut();
        let tag = MissTag {
            key: waiting.key,
            site: waiting.site,
            cycles: verdict.cycles,
            miss: log.map(|log| log.add(Cycles(verdict.cycles))),
        };
        // The class is known when the lifetime ends; the miss is counted then, under the tag's key.
        if verdict.undecided {
            self.system.open(place, verdict, tag);
        } else if let Some(cause) = verdict.cause {
            self.charge(tag, cause);
        }
        let counts = self.aside != Some(KeyId(waiting.key));
        // `pairs` counts only HITM: a clean line says nothing about its last writer.
        if let Some(writer) = verdict.writer.filter(|_| counts) {
            self.pairs
                .entry((writer.0, logical.0))
                .or_default()
                .add(Cycles(verdict.cycles));
        }
        self.charge_closed_if_any();
    }

    /// Ends all lifetimes of lines, so that the causes of all misses are known, and takes the list
    /// of them.
    pub(crate) fn take_misses(&mut self) -> Option<Misses> {
        self.system.finish();
        self.charge_closed();
        self.misses.take().map(MissLog::finish)
    }

    /// The result, without what only the caller of the engine knows.
    pub(crate) fn finish(mut self) -> Outcome {
        self.system.finish();
        self.settle();
        let pairs = self.pairs.iter().map(|(&(from, to), &tally)| Pair {
            from: LogicalCpu(from),
            to: LogicalCpu(to),
            tally,
        });
        let mut pairs: Vec<Pair> = pairs.collect();
        // A table's order depends on how it grew.
        pairs.sort_by_key(|pair| (pair.from, pair.to));
        let (prefetched, prefetched_modified) = self.system.prefetched();
        let fetched_ahead = self.system.fetched_ahead();
        let mut held = std::mem::take(&mut self.system.held);
        // The caches go before the views come: either can be most of the memory.
        let slots = self.system.into_lines();
        let mut lines = self.lines.unwrap_or_default();
        let transfers = self.transfers.map(TransferCounter::finish);
        let line_of = |slot: Slot| slots[slot as usize];
        Outcome {
            pairs,
            uncontested: lines.take_uncontested(),
            transfers: transfers.unwrap_or_default(),
            lines: lines.into_views(line_of, self.line),
            totals: self.totals,
            keys: self.keys,
            sites: self.sites,
            held: held.take(line_of, self.line),
            prefetched,
            prefetched_modified,
            fetched_ahead,
            overlapped: Cycles(self.windows.as_ref().map_or(0, Windows::saved)),
            ..Outcome::default()
        }
    }

    fn charge(&mut self, tag: MissTag, cause: Cause) {
        self.keys[tag.key as usize].add_cause(cause, Cycles(tag.cycles));
        self.sites[tag.site as usize].add_cause(cause, Cycles(tag.cycles));
        if let (Some(log), Some(miss)) = (&mut self.misses, tag.miss) {
            log.decide(miss, cause);
        }
    }

    #[inline]
    fn charge_closed_if_any(&mut self) {
        if self.system.has_closed() {
            self.charge_closed();
        }
    }

    fn charge_closed(&mut self) {
        let Engine {
            system,
            keys,
            sites,
            misses,
            ..
        } = self;
        for Closed { tag, cause } in system.take_closed() {
            keys[tag.key as usize].add_cause(cause, Cycles(tag.cycles));
            sites[tag.site as usize].add_cause(cause, Cycles(tag.cycles));
            if let (Some(log), Some(miss)) = (&mut *misses, tag.miss) {
                log.decide(miss, cause);
            }
        }
    }

    /// At the end nothing may be open, and the sum over the keys is the whole.
    pub(crate) fn settle(&mut self) {
        self.charge_closed();
        let keys = self.keys.iter_mut().zip(&self.hits);
        let sites = self.sites.iter_mut().zip(&self.site_hits);
        for (counts, &[loads, stores, rmws, _]) in keys.chain(sites) {
            let kinds = [loads, stores, rmws].map(Accesses);
            counts.add_l1_hits(kinds, Cycles(self.l1_cycles), Cycles(self.atomic_cycles));
        }
        // The account of what the tape took: it has no name and only exists so that `step` needs no
        // branch.
        if let Some(aside) = self.aside {
            self.keys.truncate(aside.0 as usize);
            self.sites.truncate(self.aside_site.0 as usize);
        }
        // Totals are summed once at the end instead of counted with each access.
        for counts in &self.keys {
            self.totals.merge(counts);
        }
        let private: Accesses = [Source::L1, Source::L2]
            .map(|source| self.totals.source(source).count)
            .iter()
            .sum();
        let causes: Accesses = Cause::ALL
            .map(|cause| self.totals.cause(cause).count)
            .iter()
            .sum();
        // In release builds, too: a lost miss would be a wrong figure in every table, and one
        // comparison at the end costs nothing.
        assert!(
            private + causes == self.totals.accesses(),
            "{private} private hits and {causes} causes for {} accesses",
            self.totals.accesses()
        );
    }

    /// How long the CPU waits for an access that takes `stall` cycles more than a hit in L1.
    #[inline]
    fn wait(&mut self, waiting: &Waiting, cpu: usize, stall: u64) -> u64 {
        match &mut self.windows {
            // Only the stall overlaps: the hit's own cycle is that of the instruction, which is
            // never hidden.
            Some(windows) => windows.wait(cpu, waiting, stall),
            None => stall,
        }
    }

    #[inline]
    fn notify_prefetchers(
        &mut self,
        waiting: &Waiting,
        piece: Piece,
        offset: u8,
        place: CpuPlace,
        verdict: &Verdict,
        now: u64,
    ) {
        if verdict.asked == Asked::Nothing || !self.system.has_prefetchers() {
            return;
        }
        let seen = Seen {
            line: piece.line,
            offset,
            pc: waiting.pc,
            kind: waiting.kind,
            asked: verdict.asked,
        };
        self.system.prefetch(place, &seen, now);
    }

    /// From now on a line that moves between cores is examined by place.
    #[inline]
    fn watch_contested(&mut self, verdict: &Verdict) {
        // Clean transfers within a domain are left out: nobody contends for a line that is only
        // read.
        let transfer = verdict.source.is_hitm()
            || matches!(
                verdict.source,
                Source::Upgrade | Source::ForwardSocket | Source::ForwardRemote
            );
        if transfer && self.lines.is_some() {
            self.system.watch(verdict);
        }
    }

    /// Records which CPU a modified line was fetched from.
    #[inline]
    fn note_transfer(&mut self, offset: u8, waiting: &Waiting, cpu: usize, verdict: &Verdict) {
        let Some(transfers) = self.transfers.as_mut().filter(|_| !self.is_warm_up) else {
            return;
        };
        if let Some(writer) = verdict.writer {
            let to = self.cpus[cpu].logical;
            let at = InLine {
                key: KeyId(waiting.key),
                offset,
            };
            transfers.add(at, writer, to, cpu);
        }
    }

    /// Records the view of lines: what `account` charges to its key, by place.
    #[inline]
    fn look_inside(&mut self, offset: u8, waiting: &Waiting, verdict: &Verdict) {
        let Some(lines) = self.lines.as_mut().filter(|_| !self.is_warm_up) else {
            return;
        };
        if verdict.source.is_private() {
            return;
        }
        let touch = Touch {
            slot: verdict.slot,
            offset,
            pc: waiting.pc,
            key: KeyId(waiting.key),
            site: SiteId(waiting.site),
            kind: waiting.kind,
            source: verdict.source,
            cycles: Cycles(verdict.cycles),
        };
        // From the moment of the first transfer on, so both sums depend on the interleaving;
        // together they do not lose an access.
        if self.system.is_watched(verdict) {
            lines.add(&touch);
        } else {
            lines.add_uncontested(&touch);
        }
    }
}
