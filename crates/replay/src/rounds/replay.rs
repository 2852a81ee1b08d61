//! From recorded accesses to counts: places each one, forms rounds, runs them on the machine.

use std::sync::Arc;

use linemate_insn::Dependences;
use linemate_machine::{LogicalCpu, Machine};
use linemate_recording::{Access, AccessKind, CpuId, GuestAddr, TimeGrid, VirtualTime};
use linemate_units::{Accesses, Cycles, Instructions};
use rustc_hash::FxHashSet;

use crate::accounts::misses::{MissLog, Misses};
use crate::accounts::outcome::Outcome;
use crate::cache::address::span;
use crate::cache::array::{group_shares, shares, thread_shares};
use crate::cache::pressure::Level;
use crate::cache::stamp::{Evicted, Stamp, TIE_MAX};
use crate::difference::timeline::{Stalled, Timeline, TimelineRecorder};
use crate::rounds::engine::Engine;
use crate::rounds::error::{KEYS_MAX, ReplayError};
use crate::rounds::filter::Later;
use crate::rounds::interleaver::{Interleaver, Interleaving, Performed, Round, RunnerTurn, Slice};
use crate::rounds::locking::Locking;
use crate::rounds::overlap::Windows;
use crate::rounds::placement::{Cloner, Fate, KeyId, Placed, Placement, SiteId};
use crate::rounds::slices::{Begins, SliceHead, Slicer};
use crate::rounds::waiting::{Waiting, places};
use crate::rounds::warm::{Growth, WarmUp};
use crate::scale::tape::{Accounts, Code, Retention, Tape, Taper};

/// CPUs, places and interleaving of a replay.
#[derive(Clone, Debug)]
pub struct Config {
    /// CPUs in the recording.
    pub recorded_cpus: usize,
    /// Where they sit: the logical CPU of recorded CPU c's copy n is number c x copies + n, so that
    /// two recorded CPUs' copies are as far from each other as the recorded CPUs are when they are
    /// spread alone. `None` spreads them evenly ([`linemate_machine::Topology::spread`]).
    pub cpus: Option<Vec<LogicalCpu>>,
    /// When the slices of a round start relative to each other.
    pub interleaving: Interleaving,
    /// Whether to record what happens inside lines ([`Outcome::lines`]).
    pub lines: bool,
}

#[inline]
fn check_keys(placed: Placed) -> Result<(), ReplayError> {
    match placed.key.0.max(placed.site.0) {
        beyond @ KEYS_MAX.. => Err(ReplayError::Key(beyond)),
        _ => Ok(()),
    }
}

/// An access of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The instruction that makes the access.
    pub pc: GuestAddr,
    /// Instructions from the slice's first access.
    pub offset: u32,
    /// How many bytes it touches.
    pub size: u8,
    /// Load, store or RMW.
    pub kind: AccessKind,
    /// What was left out after it.
    pub later: Later,
    /// How many earlier accesses of its slice have the same `offset`; at most [`TIE_MAX`].
    pub tie: u16,
}

/// A replay in progress: push every access of the recording in order, then call [`Replay::finish`].
#[derive(Clone)]
pub struct Replay<P, C> {
    placement: P,
    cloner: C,
    interleaver: Interleaver,
    slicer: Slicer,
    pub(crate) round: Vec<Waiting>,
    pub(crate) slices: Vec<Slice>,
    recorded: usize,
    pub(crate) engine: Engine,
    accesses: Accesses,
    skipped: Accesses,
    uncached: Accesses,
    /// Of each recorded CPU, since counting began.
    instructions: Vec<Instructions>,
    growth: Growth,
    warm_up: Option<WarmUp>,
    /// When the round started in the recording.
    time: VirtualTime,
    pub(crate) taper: Option<Taper>,
    timeline: Option<TimelineRecorder>,
    locking: Option<Locking>,
}

impl<P: Placement, C: Cloner> Replay<P, C> {
    /// A replay on an idle machine with empty caches.
    ///
    /// # Errors
    /// If the CPUs do not fit the machine.
    pub fn new(
        machine: &Machine,
        config: &Config,
        placement: P,
        cloner: C,
    ) -> Result<Replay<P, C>, ReplayError> {
        let copies = cloner.copies();
        let cpus = places(
            machine,
            config.recorded_cpus,
            copies,
            config.cpus.as_deref(),
        )?;
        Ok(Replay {
            placement,
            cloner,
            interleaver: Interleaver::new(config.interleaving),
            slicer: Slicer::new(config.recorded_cpus),
            round: Vec::new(),
            slices: Vec::new(),
            recorded: config.recorded_cpus,
            engine: Engine::new(machine, cpus, copies, config.lines),
            accesses: Accesses::ZERO,
            skipped: Accesses::ZERO,
            uncached: Accesses::ZERO,
            instructions: vec![Instructions::ZERO; config.recorded_cpus],
            growth: Growth::new(),
            warm_up: None,
            time: VirtualTime(0),
            taper: None,
            timeline: None,
            locking: None,
        })
    }

    /// Leaves each last-level cache only the share of the logical CPUs that are replayed on it, and
    /// each core's L1 and L2 the share of its replayed threads, as on a machine all of whose CPUs
    /// do the same. Must be called before the first access.
    #[must_use]
    pub fn with_llc_share(mut self, machine: &Machine) -> Replay<P, C> {
        let places = || self.engine.cpus.iter().map(|cpu| cpu.place);
        let cores = || places().map(|place| place.core);
        let l1 = thread_shares(machine, machine.l1, cores());
        let l2 = thread_shares(machine, machine.l2, cores());
        let llc = shares(machine, places().map(|place| place.domain));
        let system = &mut self.engine.system;
        (system.l1, system.l2, system.llc) = (l1, l2, llc);
        self
    }

    /// Leaves each last-level cache only the share of this replay's CPUs among `all` those that do
    /// the same there: one group of several. Must be called before the first access.
    #[must_use]
    pub fn with_group_share(mut self, machine: &Machine, all: &[LogicalCpu]) -> Replay<P, C> {
        let own = self.engine.cpus.iter().map(|cpu| cpu.place.domain);
        let places = all.iter().filter_map(|cpu| machine.topology.place(*cpu));
        // L1 and L2 stay whole: cores of other groups have caches of their own.
        let llc = group_shares(machine, own, places.map(|place| place.domain));
        self.engine.system.llc = llc;
        self
    }

    /// Overlaps misses of a CPU as the machine says, if it does, given where the addresses come
    /// from. Must be called before the first access.
    #[must_use]
    pub fn with_overlap(
        mut self,
        machine: &Machine,
        dependences: Arc<Dependences>,
    ) -> Replay<P, C> {
        let windows = |shape| Windows::new(shape, &self.engine.cpus, dependences);
        self.engine.windows = machine.overlap.map(windows);
        self
    }

    /// CPUs wait for locks, which the RMWs of these instructions acquire; for as many CPUs as were
    /// recorded, without a tape or a timeline. Must be called before the first access.
    #[must_use]
    pub fn with_locks(mut self, acquires: Arc<FxHashSet<GuestAddr>>) -> Replay<P, C> {
        self.locking = Some(Locking::new(acquires));
        self
    }

    /// Begins with a warm-up, which [`Replay::begin_counting`] ends. Must be called before the
    /// first access.
    #[must_use]
    pub fn with_warm_up(mut self) -> Replay<P, C> {
        self.engine.is_warm_up = true;
        self
    }

    /// Makes a [`Tape`] of what the replay counts in these accounts: accesses on the tape are in
    /// none of the outcome's counts except `accesses`. Must be called before the first access; the
    /// recording has to be replayed twice ([`Replay::begin_counting`]).
    #[must_use]
    pub fn with_tape(
        mut self,
        retention: Retention,
        code: Arc<Code>,
        accounts: Accounts,
    ) -> Replay<P, C> {
        self.engine.aside = Some(KeyId(accounts.keys as u32));
        self.engine.aside_site = SiteId(accounts.sites as u32);
        self.taper = Some(Taper::new(retention, code, self.engine.line));
        self
    }

    /// Makes a [`Timeline`]; for as many CPUs as were recorded, and accesses whose ties are given
    /// ([`Replay::add`]). Must be called before the first access, and after everything that changes
    /// the caches.
    #[must_use]
    pub fn with_timeline(mut self) -> Replay<P, C> {
        self.engine.system.note_uses();
        self.timeline = Some(TimelineRecorder::default());
        self
    }

    /// The timeline since the start, or since the last call.
    pub fn take_timeline(&mut self) -> Timeline {
        let timeline = self.timeline.as_mut();
        timeline.map_or_else(Timeline::default, TimelineRecorder::take)
    }

    /// Lists the misses from now on ([`Replay::take_misses`]), of a replay that makes a timeline.
    #[must_use]
    pub fn with_misses(mut self) -> Replay<P, C> {
        self.engine.misses = Some(MissLog::default());
        self
    }

    /// Runs what is left and gives the misses, if they were listed.
    pub fn take_misses(&mut self) -> Option<Misses> {
        self.end_round();
        self.engine.take_misses()
    }

    /// Distinguishes when modified lines move between cores ([`Outcome::transfers`]). Must be
    /// called before the first access.
    #[must_use]
    pub fn with_times(mut self, grid: TimeGrid) -> Replay<P, C> {
        if let Some(transfers) = &mut self.engine.transfers {
            transfers.set_grid(grid);
        }
        self
    }

    /// When, in the recording, the round starts whose slices follow.
    pub fn set_time(&mut self, time: VirtualTime) {
        self.time = time;
        if let Some(transfers) = &mut self.engine.transfers {
            transfers.set_time(time);
        }
    }

    /// The next access of the recording.
    ///
    /// # Errors
    /// If the access is impossible; the replay is then as before the call.
    #[inline]
    pub fn push(&mut self, access: &Access) -> Result<(), ReplayError> {
        self.check(access)?;
        let placed = self.placement.place(access);
        self.push_placed(access, placed)
    }

    /// The next access of the recording, whose place is already known. The placement is not asked.
    ///
    /// # Errors
    /// As [`Replay::push`].
    #[inline]
    pub fn push_placed(&mut self, access: &Access, placed: Placed) -> Result<(), ReplayError> {
        // Before the slicer sees it: a refused access must not start a slice.
        self.check(access)?;
        check_keys(placed)?;
        let cached = placed.fate == Fate::Cached;
        let cut = self.slicer.cut(access.cpu, access.time, cached);
        match cut.begins {
            Begins::Nothing => {}
            Begins::Slice => self.begin_slice(SliceHead::new(access.cpu))?,
            Begins::Round => {
                self.end_round();
                self.set_time(access.time);
                self.begin_slice(SliceHead::new(access.cpu))?;
            }
        }
        if let Some(slice) = self.slices.last_mut() {
            slice.head.extend(cut.offset, cached);
        }
        let item = Item {
            pc: access.pc,
            offset: cut.offset,
            size: access.size,
            kind: access.kind,
            later: Later::default(),
            tie: 0,
        };
        self.add(&item, placed)
    }

    /// A CPU's turn starts, for callers of [`Replay::push`].
    ///
    /// # Errors
    /// A CPU beyond the announced number.
    pub fn turn(&mut self, cpu: CpuId, time: VirtualTime) -> Result<(), ReplayError> {
        if usize::from(cpu.0) >= self.recorded {
            return Err(ReplayError::Cpu {
                cpu,
                recorded: self.recorded,
            });
        }
        let turned = self.slicer.turn(cpu, time);
        if let (Some(slice), Some(span)) = (self.slices.last_mut(), turned.ended) {
            slice.head.end(span);
        }
        if turned.begins == Begins::Round {
            self.end_round();
            self.set_time(time);
        }
        self.begin_slice(SliceHead::new(cpu))
    }

    /// Starts a slice of the current round, for callers that have cut the recording ([`Slicer`]):
    /// its accesses follow with [`Replay::add`], and [`Replay::end_round`] ends the round.
    ///
    /// # Errors
    /// A CPU beyond the announced number.
    pub fn begin_slice(&mut self, head: SliceHead) -> Result<(), ReplayError> {
        if usize::from(head.cpu.0) >= self.recorded {
            return Err(ReplayError::Cpu {
                cpu: head.cpu,
                recorded: self.recorded,
            });
        }
        let at = self.round.len() as u32;
        self.slices.push(Slice {
            head,
            begin: at,
            end: at,
        });
        Ok(())
    }

    /// The next access of the slice that was started last.
    ///
    /// # Errors
    /// If the access is impossible; the replay is then as before the call.
    #[inline]
    pub fn add(&mut self, item: &Item, placed: Placed) -> Result<(), ReplayError> {
        if item.size == 0 || item.size > 64 {
            return Err(ReplayError::Size {
                addr: placed.addr.0,
                size: item.size,
            });
        }
        check_keys(placed)?;
        if item.tie > TIE_MAX {
            return Err(ReplayError::Tie(item.tie));
        }
        self.accesses += Accesses::ONE;
        match placed.fate {
            Fate::Cached => {}
            Fate::Uncached => {
                self.uncached += Accesses::ONE;
                return Ok(());
            }
            Fate::Removed => {
                self.skipped += Accesses::ONE;
                return Ok(());
            }
        }
        self.engine.make_room(placed.key, placed.site);
        self.round.push(Waiting {
            span: span(placed.addr.0, item.size, self.engine.line),
            pc: item.pc.0,
            offset: item.offset,
            key: placed.key.0,
            site: placed.site.0,
            kind: item.kind,
            sharing: placed.sharing,
            later: item.later,
            tie: item.tie,
        });
        if let Some(slice) = self.slices.last_mut() {
            slice.end += 1;
        }
        Ok(())
    }

    /// Accesses that were left out because they hit in L1 in any case ([`crate::Filter`]): how many
    /// loads, stores and RMWs to charge to the key. The same accesses have to be charged to sites,
    /// too ([`Replay::add_site_hits`]).
    ///
    /// # Errors
    /// A key beyond any sensible number.
    pub fn add_hits(&mut self, key: KeyId, kinds: [Accesses; 3]) -> Result<(), ReplayError> {
        if key.0 >= KEYS_MAX {
            return Err(ReplayError::Key(key.0));
        }
        // By key and by site in two calls, because hits that were left out are known only as sums
        // and not by pairs of both.
        self.engine.make_room(key, SiteId(0));
        self.accesses += kinds.iter().sum();
        let copies = u64::from(self.cloner.copies());
        for (hits, count) in self.engine.hits[key.0 as usize].iter_mut().zip(kinds) {
            *hits += count.0 * copies;
        }
        Ok(())
    }

    /// An access that hits in L1 in any case, as [`Replay::add_hits`] and [`Replay::add_site_hits`]
    /// would count it.
    ///
    /// # Errors
    /// A key or site beyond any sensible number.
    #[inline]
    pub fn add_hit(&mut self, kind: AccessKind, placed: Placed) -> Result<(), ReplayError> {
        let mut kinds = [Accesses::ZERO; 3];
        kinds[kind as usize] = Accesses::ONE;
        self.add_hits(placed.key, kinds)?;
        self.add_site_hits(placed.site, kinds)
    }

    /// How many of the accesses that were left out to charge to the site. Only their keys count in
    /// the outcome's totals ([`Replay::add_hits`]).
    ///
    /// # Errors
    /// A site beyond any sensible number.
    pub fn add_site_hits(&mut self, site: SiteId, kinds: [Accesses; 3]) -> Result<(), ReplayError> {
        if site.0 >= KEYS_MAX {
            return Err(ReplayError::Key(site.0));
        }
        self.engine.make_room(KeyId(0), site);
        let copies = u64::from(self.cloner.copies());
        let hits = &mut self.engine.site_hits[site.0 as usize];
        for (hits, count) in hits.iter_mut().zip(kinds) {
            *hits += count.0 * copies;
        }
        Ok(())
    }

    /// Accesses to devices that were left out.
    pub fn add_uncached(&mut self, count: Accesses) {
        self.accesses += count;
        self.uncached += count;
    }

    /// Checks that the access is possible.
    #[inline]
    fn check(&self, access: &Access) -> Result<(), ReplayError> {
        if usize::from(access.cpu.0) >= self.recorded {
            return Err(ReplayError::Cpu {
                cpu: access.cpu,
                recorded: self.recorded,
            });
        }
        if access.size == 0 || access.size > 64 {
            return Err(ReplayError::Size {
                addr: access.addr.0,
                size: access.size,
            });
        }
        Ok(())
    }

    /// Runs the round's accesses side by side.
    pub fn end_round(&mut self) {
        if self.slices.is_empty() {
            return;
        }
        let Replay {
            interleaver,
            round,
            slices,
            cloner,
            engine,
            taper,
            timeline,
            locking,
            ..
        } = self;
        if let Some(taper) = taper {
            taper.begin_round(slices.len());
            if taper.takes() {
                engine.make_room_aside();
            }
        }
        match (timeline, locking) {
            (Some(timeline), _) => followed_round(interleaver, engine, timeline, slices, round),
            (None, Some(locking)) => {
                let mut round = locking.round(engine, slices, round);
                interleaver.round(slices, 1, &mut round);
            }
            (None, None) => {
                let mut round = PlainRound {
                    engine,
                    cloner,
                    taper: taper.as_mut(),
                    slices,
                    accesses: round,
                };
                interleaver.round(slices, round.cloner.copies(), &mut round);
            }
        }
        if let Some(taper) = taper.as_mut().filter(|taper| taper.takes()) {
            taper.end_round(slices, self.time);
        }
        if let Some(windows) = &mut engine.windows {
            windows.end_round();
        }
        for Slice { head, .. } in slices.iter() {
            self.instructions[usize::from(head.cpu.0)] +=
                Instructions::from(head.last.unwrap_or(0));
        }
        self.growth.end_round(engine.system.lines());
        self.round.clear();
        self.slices.clear();
    }

    /// Runs what is left as a warm-up: from now on accesses are counted, under that interleaving,
    /// on the machine as it is. Must be called once, between two passes over the recording.
    pub fn begin_counting(&mut self, interleaving: Interleaving) {
        self.end_round();
        self.warm_up = Some(self.growth.finish(self.engine.system.lines()));
        self.interleaver.begin_counting(interleaving);
        // The second pass starts at the recording's first access: times go back.
        self.slicer = Slicer::new(self.recorded);
        if let Some(taper) = &mut self.taper {
            taper.begin_taking();
        }
        self.engine.begin_counting();
        if let Some(locking) = &mut self.locking {
            locking.begin_counting();
        }
        (self.accesses, self.skipped, self.uncached) = Default::default();
        self.instructions.fill(Instructions::ZERO);
    }

    /// Runs what is left and returns the counts, together with the placement (which knows what the
    /// keys mean).
    pub fn finish(self) -> (Outcome, P) {
        let (outcome, placement, _) = self.finish_taped();
        (outcome, placement)
    }

    /// Like [`Replay::finish`], with the tape ([`Replay::with_tape`]), which is empty if none was
    /// made.
    pub fn finish_taped(mut self) -> (Outcome, P, Tape) {
        self.end_round();
        let tape = self.taper.map(Taper::finish).unwrap_or_default();
        let copied =
            |own: &Instructions| std::iter::repeat_n(*own, usize::from(self.cloner.copies()));
        let outcome = Outcome {
            instructions: self.instructions.iter().flat_map(copied).collect(),
            accesses: self.accesses,
            skipped: self.skipped,
            uncached: self.uncached,
            rounds: self.interleaver.rounds(),
            cycles: Cycles(self.interleaver.cycles()),
            warm_up: self.warm_up,
            locks: self.locking.map(Locking::finish).unwrap_or_default(),
            ..self.engine.finish()
        };
        (outcome, self.placement, tape)
    }
}

/// A round whose CPUs wait for nothing but lines.
struct PlainRound<'r, C> {
    engine: &'r mut Engine,
    cloner: &'r C,
    taper: Option<&'r mut Taper>,
    slices: &'r [Slice],
    accesses: &'r [Waiting],
}

impl<C: Cloner> Round for PlainRound<'_, C> {
    #[inline]
    fn offset(&self, access: usize) -> u32 {
        self.accesses[access].offset
    }

    #[inline]
    fn step(&mut self, access: usize, turn: RunnerTurn, at: u64) -> Performed {
        let RunnerTurn { slice, copy } = turn;
        let waiting = &self.accesses[access];
        // Copies of one recorded CPU side by side, which is how `Config::cpus` lists them.
        let recorded = usize::from(self.slices[slice].head.cpu.0);
        let cpu = recorded * usize::from(self.cloner.copies()) + usize::from(copy);
        let instance = self.cloner.instance(copy, waiting.sharing);
        Performed::Stalls(match &mut self.taper {
            None => self.engine.step(waiting, cpu, instance, at),
            Some(taper) => self.engine.taped(taper, waiting, slice, cpu, at),
        })
    }
}

/// A round of as many CPUs as were recorded, which is noted.
struct FollowedRound<'r> {
    engine: &'r mut Engine,
    timeline: &'r mut TimelineRecorder,
    slices: &'r [Slice],
    accesses: &'r [Waiting],
    /// When it starts.
    start: u64,
    /// Kept to save allocations.
    evicted: Vec<(Level, Evicted)>,
}

impl Round for FollowedRound<'_> {
    #[inline]
    fn offset(&self, access: usize) -> u32 {
        self.accesses[access].offset
    }

    #[inline]
    fn step(&mut self, access: usize, turn: RunnerTurn, at: u64) -> Performed {
        let FollowedRound {
            engine,
            timeline,
            start,
            ..
        } = self;
        let (slice, start) = (turn.slice, *start);
        let waiting = &self.accesses[access];
        let cpu = usize::from(self.slices[slice].head.cpu.0);
        let place = engine.cpus[cpu].place;
        let tie = waiting.tie;
        // From the first access's time, before any stall; later ones have no effect.
        timeline.begin_slice(slice, (at - start).saturating_sub(waiting.offset.into()));
        engine.system.set_now(place, Stamp::new(at, slice, tie));
        if let Some(misses) = &mut engine.misses {
            misses.begin_access(slice, waiting.offset, tie);
        }
        let stall = engine.step(waiting, cpu, 0, at);
        // A hit in L1 evicts nothing.
        if stall > 0 {
            engine.system.take_evicted(place, &mut self.evicted);
            let at = at - start;
            timeline.stalled(slice, Stalled { at, tie, stall }, &self.evicted);
        }
        Performed::Stalls(stall)
    }

    fn ended(&mut self, slice: usize, at: u64) {
        let last = self.slices[slice].head.last.unwrap_or(0);
        let at = at - self.start;
        // Of one without accesses: nothing stalled.
        self.timeline
            .begin_slice(slice, at.saturating_sub(last.into()));
        self.timeline.end_slice(slice, at);
    }
}

fn followed_round(
    interleaver: &mut Interleaver,
    engine: &mut Engine,
    timeline: &mut TimelineRecorder,
    slices: &[Slice],
    accesses: &[Waiting],
) {
    let start = interleaver.now();
    timeline.begin_round(slices.len());
    if let Some(misses) = &mut engine.misses {
        misses.begin_round();
    }
    let mut round = FollowedRound {
        engine,
        timeline,
        slices,
        accesses,
        start,
        evicted: Vec::new(),
    };
    interleaver.round(slices, 1, &mut round);
    let timeline = round.timeline;
    timeline.end_round(interleaver.now() - start);
}
