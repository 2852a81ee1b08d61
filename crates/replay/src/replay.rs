//! From recorded accesses to counts: places each one, forms rounds, runs them on the machine, accounts.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use linemate_machine::{CpuPlace, LogicalCpu, Machine};
use linemate_recording::{Access, AccessKind, CpuId};

use crate::address::{Span, instance_line, rest, span};
use crate::counts::{Cause, Counts, Source, Tally};
use crate::directory::LineHasher;
use crate::lines::{LineView, Lines, Touch};
use crate::placement::{COPIES_MAX, Cloner, KeyId, Placed, Placement, Sharing, SiteId};
use crate::sharing::MissTag;
use crate::system::{Piece, System, Verdict};
use crate::weave::{Interleaving, ROUND_ACCESSES_MAX, Slice, Weaver};

/// The most keys, and the most sites: a placement that makes more has gone wrong.
const KEYS_MAX: u32 = 1 << 24;

/// Why a replay cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// An access by a CPU beyond those announced.
    #[error("access by CPU {cpu}, but the recording is said to have {recorded} CPUs")]
    Cpu {
        /// Which.
        cpu: CpuId,
        /// How many there should be.
        recorded: usize,
    },
    /// More CPUs than the machine has.
    #[error("{wanted} CPUs ({recorded} recorded x {copies}) on {machine}, which has {cpus}")]
    TooManyCpus {
        /// Recorded CPUs times copies.
        wanted: usize,
        /// Recorded CPUs.
        recorded: usize,
        /// Copies of each.
        copies: u16,
        /// The machine.
        machine: String,
        /// Its CPUs.
        cpus: usize,
    },
    /// No CPU, no copy, or too many copies.
    #[error(
        "{recorded} recorded CPUs x {copies} copies; both must be at least 1, copies at most {COPIES_MAX}"
    )]
    Copies {
        /// Recorded CPUs.
        recorded: usize,
        /// Copies of each.
        copies: u16,
    },
    /// The list of logical CPUs does not have one for each CPU.
    #[error("{given} logical CPUs are given for {wanted} CPUs")]
    CpuMap {
        /// How many are given.
        given: usize,
        /// How many are needed.
        wanted: usize,
    },
    /// A logical CPU that the machine lacks, or that is given twice.
    #[error("logical CPU {0} is not on the machine or given twice")]
    LogicalCpu(u16),
    /// An access touches 1 to 64 bytes.
    #[error("access of {size} bytes at {addr:#x}; 1 to 64 are possible")]
    Size {
        /// Its address.
        addr: u64,
        /// Its size.
        size: u8,
    },
    /// A key or site beyond any sensible number.
    #[error("key or site {0} is beyond {KEYS_MAX}: they must be dense from 0")]
    Key(u32),
}

/// How to replay.
#[derive(Clone, Debug)]
pub struct Config {
    /// CPUs in the recording.
    pub recorded_cpus: usize,
    /// Where they sit: the logical CPU of recorded CPU c's copy n is number n x `recorded_cpus` + c.
    /// `None` spreads them evenly ([`linemate_machine::Topology::spread`]).
    pub cpus: Option<Vec<LogicalCpu>>,
    /// How the slices of a round lie to each other.
    pub interleaving: Interleaving,
    /// Whether to keep what happens inside lines ([`Outcome::lines`]).
    pub lines: bool,
}

/// Transfers of modified lines from one logical CPU to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Who wrote last.
    pub from: LogicalCpu,
    /// Who fetched.
    pub to: LogicalCpu,
    /// How often, and for how many cycles.
    pub tally: Tally,
}

/// What a replay found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Everything.
    pub totals: Counts,
    /// By key: index = [`KeyId`].
    pub keys: Vec<Counts>,
    /// By site, only the accesses that left their core: index = [`SiteId`].
    pub sites: Vec<Counts>,
    /// By pair of CPUs, ascending, only pairs that exchanged something.
    pub pairs: Vec<Pair>,
    /// The lines that went between cores, by address; empty unless asked for.
    pub lines: Vec<LineView>,
    /// Recorded accesses handed in.
    pub accesses: u64,
    /// Of those, the ones that the placement left out.
    pub skipped: u64,
    /// Rounds.
    pub rounds: u64,
    /// From the first round's start to the last one's end, in cycles.
    pub cycles: u64,
    /// Lines fetched because their pair's other line was missed.
    pub prefetched: u64,
    /// Of those, the ones taken from a core that had modified them.
    pub prefetched_modified: u64,
}

/// A placed access, waiting for its round.
#[derive(Clone, Copy)]
struct Waiting {
    span: Span,
    pc: u64,
    /// Instructions since its slice's start.
    offset: u32,
    key: u32,
    site: u32,
    kind: AccessKind,
    sharing: Sharing,
}

/// One CPU of the replayed machine.
#[derive(Clone, Copy)]
struct Cpu {
    logical: LogicalCpu,
    place: CpuPlace,
}

/// A replay under way: push every access of the recording in order, then [`Replay::finish`].
pub struct Replay<P, C> {
    placement: P,
    cloner: C,
    weaver: Weaver,
    round: Vec<Waiting>,
    slices: Vec<Slice>,
    /// Recorded CPUs that have a slice in the current round.
    in_round: Vec<bool>,
    /// Virtual time at which the current slice started.
    slice_start: u64,
    recorded: usize,
    engine: Engine,
    accesses: u64,
    skipped: u64,
}

/// The machine and the accounts.
struct Engine {
    system: System,
    line: linemate_machine::LineSize,
    l1_cycles: u64,
    atomic_cycles: u64,
    cpus: Vec<Cpu>,
    totals: Counts,
    keys: Vec<Counts>,
    /// Per key, hits in L1 that touch one line, by kind: most of a recording, so they get a small table of their own
    /// and join `keys` at the end.
    hits: Vec<[u64; 4]>,
    sites: Vec<Counts>,
    pairs: HashMap<(u16, u16), Tally, BuildHasherDefault<LineHasher>>,
    lines: Option<Lines>,
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
        let (recorded, copies) = (config.recorded_cpus, cloner.copies());
        if recorded == 0 || copies == 0 || copies > COPIES_MAX {
            return Err(ReplayError::Copies { recorded, copies });
        }
        let wanted = recorded.saturating_mul(usize::from(copies));
        let available = machine.topology.cpus();
        let spread = machine
            .topology
            .spread(wanted)
            .ok_or_else(|| ReplayError::TooManyCpus {
                wanted,
                recorded,
                copies,
                machine: machine.name.clone(),
                cpus: available,
            })?;
        let logical = config.cpus.as_ref().unwrap_or(&spread);
        if logical.len() != wanted {
            return Err(ReplayError::CpuMap {
                given: logical.len(),
                wanted,
            });
        }
        let mut taken = vec![false; available];
        let mut cpus = Vec::with_capacity(wanted);
        for &logical in logical {
            let refuse = ReplayError::LogicalCpu(logical.0);
            let place = machine.topology.place(logical).ok_or(refuse.clone())?;
            if std::mem::replace(&mut taken[usize::from(logical.0)], true) {
                return Err(refuse);
            }
            cpus.push(Cpu { logical, place });
        }
        Ok(Replay {
            placement,
            cloner,
            weaver: Weaver::new(config.interleaving),
            round: Vec::new(),
            slices: Vec::new(),
            in_round: vec![false; recorded],
            slice_start: 0,
            recorded,
            engine: Engine {
                system: System::new(machine),
                line: machine.line,
                l1_cycles: u64::from(machine.latency.l1),
                atomic_cycles: u64::from(machine.latency.atomic),
                cpus,
                totals: Counts::default(),
                keys: Vec::new(),
                hits: Vec::new(),
                sites: Vec::new(),
                pairs: HashMap::default(),
                lines: config.lines.then(Lines::default),
            },
            accesses: 0,
            skipped: 0,
        })
    }

    /// The next access of the recording.
    ///
    /// # Errors
    /// If the access cannot be; the replay is as before the call then.
    #[inline]
    pub fn push(&mut self, access: &Access) -> Result<(), ReplayError> {
        self.check(access)?;
        let placed = self.placement.place(access);
        self.push_placed(access, placed)
    }

    /// The next access of the recording, whose place is known already: for callers that place an access once for
    /// several replays. The placement is not asked.
    ///
    /// # Errors
    /// As [`Replay::push`].
    #[inline]
    pub fn push_placed(&mut self, access: &Access, placed: Placed) -> Result<(), ReplayError> {
        let cpu = self.check(access)?;
        if placed.key.0 >= KEYS_MAX || placed.site.0 >= KEYS_MAX {
            return Err(ReplayError::Key(placed.key.0.max(placed.site.0)));
        }
        let offset = self.enter_slice(access, cpu);
        self.accesses += 1;
        if placed.skip {
            self.skipped += 1;
            return Ok(());
        }
        self.engine.make_room(placed.key, placed.site);
        self.round.push(Waiting {
            span: span(placed.addr.0, access.size, self.engine.line),
            pc: access.pc.0,
            offset,
            key: placed.key.0,
            site: placed.site.0,
            kind: access.kind,
            sharing: placed.sharing,
        });
        if let Some(slice) = self.slices.last_mut() {
            slice.end += 1;
        }
        Ok(())
    }

    /// Whether the access can be; gives its CPU.
    #[inline]
    fn check(&self, access: &Access) -> Result<usize, ReplayError> {
        let cpu = usize::from(access.cpu.0);
        if cpu >= self.recorded {
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
        Ok(cpu)
    }

    /// Finds or starts the access's slice; a round that is over is run. Returns the access's offset in it.
    #[inline]
    fn enter_slice(&mut self, access: &Access, cpu: usize) -> u32 {
        let time = access.time.0;
        if let Some(slice) = self.slices.last_mut()
            && usize::from(slice.cpu) == cpu
            && self.round.len() < ROUND_ACCESSES_MAX
            && let Ok(offset) = u32::try_from(time.saturating_sub(self.slice_start))
        {
            slice.span = slice.span.max(offset);
            return slice.span;
        }
        if self.in_round[cpu] || self.round.len() >= ROUND_ACCESSES_MAX {
            self.run_round();
        }
        self.in_round[cpu] = true;
        self.slice_start = time;
        let at = self.round.len() as u32;
        self.slices.push(Slice {
            cpu: access.cpu.0,
            begin: at,
            end: at,
            span: 0,
        });
        0
    }

    fn run_round(&mut self) {
        let Replay {
            weaver,
            round,
            slices,
            cloner,
            engine,
            recorded,
            ..
        } = self;
        weaver.round(
            slices,
            cloner.copies(),
            |access| round[access].offset,
            |access, slice, copy, now| {
                let waiting = &round[access];
                let cpu = usize::from(copy) * *recorded + usize::from(slices[slice].cpu);
                engine.step(waiting, cpu, cloner.instance(copy, waiting.sharing), now)
            },
        );
        self.round.clear();
        self.slices.clear();
        self.in_round.fill(false);
    }

    /// Runs what is left and gives the counts, together with the placement (which knows what the keys mean).
    pub fn finish(mut self) -> (Outcome, P) {
        self.run_round();
        let mut engine = self.engine;
        engine.system.finish();
        engine.settle();
        let pairs = engine.pairs.iter().map(|(&(from, to), &tally)| Pair {
            from: LogicalCpu(from),
            to: LogicalCpu(to),
            tally,
        });
        let mut pairs: Vec<Pair> = pairs.collect();
        pairs.sort_by_key(|pair| (pair.from, pair.to));
        let (prefetched, prefetched_modified) = engine.system.prefetched();
        let outcome = Outcome {
            pairs,
            lines: engine.lines.map_or_else(Vec::new, |lines| {
                lines.into_views(&engine.system, engine.line)
            }),
            totals: engine.totals,
            keys: engine.keys,
            sites: engine.sites,
            accesses: self.accesses,
            skipped: self.skipped,
            rounds: self.weaver.rounds(),
            cycles: self.weaver.now(),
            prefetched,
            prefetched_modified,
        };
        (outcome, self.placement)
    }
}

impl Engine {
    #[inline]
    fn make_room(&mut self, key: KeyId, site: SiteId) {
        if key.0 as usize >= self.keys.len() {
            self.keys.resize_with(key.0 as usize + 1, Counts::default);
            self.hits.resize(key.0 as usize + 1, [0; 4]);
        }
        if site.0 as usize >= self.sites.len() {
            self.sites.resize_with(site.0 as usize + 1, Counts::default);
        }
    }

    /// Performs an access and accounts it. Returns for how long the CPU stalls.
    #[inline]
    fn step(&mut self, waiting: &Waiting, cpu: usize, instance: u16, now: u64) -> u64 {
        let Cpu { logical, place } = self.cpus[cpu];
        let first = self.piece(waiting, &waiting.span, instance);
        if waiting.span.beyond == 0
            && let Some((cycles, _)) = self.system.hit(logical, place.core, first)
        {
            self.hits[waiting.key as usize][waiting.kind as usize] += 1;
            return cycles - self.l1_cycles;
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
        let mut verdict = self.system.access(logical, place, first, now);
        self.look_inside(&waiting.span, waiting, &verdict);
        if let Some((span, second)) = second {
            // Both pieces are under way at once: the access takes as long as the slower one, and counts
            // as that one (the first, if they take equally long).
            let other = self.system.access(logical, place, second, now);
            self.look_inside(&span, waiting, &other);
            if other.cycles > verdict.cycles {
                verdict = other;
            }
        }
        if verdict.source == Source::L1 && second.is_none() {
            self.hits[waiting.key as usize][waiting.kind as usize] += 1;
            self.settle_if_needed();
        } else {
            self.account(waiting, logical, place, &verdict, second.is_some());
        }
        verdict.cycles - self.l1_cycles
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
                AccessKind::Load => counts.loads += 1,
                AccessKind::Store => counts.stores += 1,
                AccessKind::Rmw => counts.rmws += 1,
            }
            counts.add_source(verdict.source, verdict.cycles);
            if split {
                counts.split += 1;
            }
        };
        count(&mut self.keys[waiting.key as usize]);
        if verdict.source.is_private() {
            return self.settle_if_needed();
        }
        count(&mut self.sites[waiting.site as usize]);
        self.keys[waiting.key as usize].waited += verdict.waited;
        self.sites[waiting.site as usize].waited += verdict.waited;
        let tag = MissTag {
            key: waiting.key,
            site: waiting.site,
            cycles: verdict.cycles,
        };
        if verdict.undecided {
            self.system.open(place, verdict, tag);
        } else if let Some(cause) = verdict.cause {
            self.settle_one(tag, cause);
        }
        if let Some(writer) = verdict.writer {
            self.pairs
                .entry((writer.0, logical.0))
                .or_default()
                .add(verdict.cycles);
        }
        self.settle_if_needed();
    }

    fn settle_one(&mut self, tag: MissTag, cause: Cause) {
        self.keys[tag.key as usize].add_cause(cause, tag.cycles);
        self.sites[tag.site as usize].add_cause(cause, tag.cycles);
    }

    #[inline]
    fn settle_if_needed(&mut self) {
        if self.system.has_closed() {
            self.settle_closed();
        }
    }

    fn settle_closed(&mut self) {
        let Engine {
            system,
            keys,
            sites,
            ..
        } = self;
        for closed in system.take_closed() {
            keys[closed.tag.key as usize].add_cause(closed.cause, closed.tag.cycles);
            sites[closed.tag.site as usize].add_cause(closed.cause, closed.tag.cycles);
        }
    }

    /// At the end: nothing may be open, and the sum over the keys is the whole.
    fn settle(&mut self) {
        self.settle_closed();
        for (counts, &[loads, stores, rmws, _]) in self.keys.iter_mut().zip(&self.hits) {
            counts.add_l1_hits([loads, stores, rmws], self.l1_cycles, self.atomic_cycles);
            self.totals.merge(counts);
        }
        let private: u64 = [Source::L1, Source::L2]
            .map(|source| self.totals.source(source).count)
            .iter()
            .sum();
        let causes: u64 = Cause::ALL
            .map(|cause| self.totals.cause(cause).count)
            .iter()
            .sum();
        assert!(
            private + causes == self.totals.accesses(),
            "{private} private hits and {causes} causes for {} accesses",
            self.totals.accesses()
        );
    }

    /// Keeps the view of lines that go between cores.
    #[inline]
    fn look_inside(&mut self, span: &Span, waiting: &Waiting, verdict: &Verdict) {
        let Some(lines) = &mut self.lines else { return };
        let private = verdict.source.is_private();
        if private && waiting.kind == AccessKind::Load {
            return;
        }
        let transfer = verdict.source.is_hitm()
            || matches!(
                verdict.source,
                Source::Upgrade | Source::ForwardSocket | Source::ForwardRemote
            );
        if transfer {
            self.system.watch(verdict);
        } else if !self.system.is_watched(verdict) {
            return;
        }
        lines.add(&Touch {
            slot: verdict.slot,
            offset: span.offset,
            pc: waiting.pc,
            key: KeyId(waiting.key),
            kind: waiting.kind,
            source: verdict.source,
            cycles: verdict.cycles,
        });
    }
}
