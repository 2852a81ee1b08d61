//! MESIF over the lines of one block.

use std::ops::AddAssign;

use linemate_machine::{Distance, LineSize, Machine};
use linemate_recording::Cycles;

use super::copies::{Copies, Core, FEW_CORES};
use crate::error::AdviseError;
use crate::trace::{AtomAct, EventTime, Kind};

/// How many times longer a slice takes than its instructions, because of other stalls: replay's
/// duration over the sum of its rounds' longest slices is 1.6 to 2.6 on the recordings of
/// evidence/benchmarks.md.
pub const STRETCH: u64 = 2;

/// A machine as the model needs it, for the CPUs of a recording.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    pub(super) line: LineSize,
    pub(super) pairs: bool,
    /// By CPU: its core among those in use, its domain.
    core: Vec<Core>,
    domain: Vec<u8>,
    /// By domain and domain.
    distance: Vec<Vec<Distance>>,
    /// By core in use: its domain.
    core_domain: Vec<u8>,
    latency: linemate_machine::Latencies,
}

/// A line while a block is costed.
#[derive(Clone, Debug)]
// No forwarder: nothing is evicted, so every domain that has a copy has one in its LLC, which
// answers from the same distance.
struct Line<C> {
    copies: C,
    /// The core that may write it. It has the only copy.
    owner: Option<Core>,
    dirty: bool,
    /// Domains whose LLC has it: those of all cores that have it are among them, because nothing is
    /// evicted.
    llc: u64,
    /// In the current round.
    busy_until: Cycles,
}

impl<C: Copies> Line<C> {
    fn new(cores: usize) -> Line<C> {
        Line {
            copies: C::none(cores),
            owner: None,
            dirty: false,
            llc: 0,
            busy_until: Cycles::ZERO,
        }
    }

    /// Nobody has it any more.
    fn forget(&mut self) {
        self.copies.clear();
        self.owner = None;
        self.dirty = false;
        self.llc = 0;
        self.busy_until = Cycles::ZERO;
    }
}

impl Costs {
    pub(super) fn new(machine: &Machine, cpus: usize) -> Result<Costs, AdviseError> {
        let topology = &machine.topology;
        let too_small = || AdviseError::Machine {
            machine: machine.name.clone(),
            available: topology.cpus(),
            recorded: cpus,
        };
        let spread = topology.spread(cpus).ok_or_else(too_small)?;
        let (mut core, mut domain) = (Vec::new(), Vec::new());
        let (mut cores, mut core_domain) = (Vec::new(), Vec::new());
        for logical in spread {
            let place = topology.place(logical).ok_or_else(too_small)?;
            let known = cores.iter().position(|c| *c == place.core);
            core.push(Core(known.unwrap_or(cores.len()) as u16));
            if known.is_none() {
                cores.push(place.core);
                core_domain.push(place.domain.0 as u8);
            }
            domain.push(place.domain.0 as u8);
        }
        let all = 0..topology.domains() as u16;
        let id = linemate_machine::DomainId;
        let row = |a: u16| {
            all.clone()
                .map(|b| topology.distance(id(a), id(b)))
                .collect()
        };
        Ok(Costs {
            line: machine.line,
            pairs: machine.adjacent_line_pairs,
            core,
            domain,
            distance: all.clone().map(row).collect(),
            core_domain,
            latency: machine.latency,
        })
    }

    /// What the accesses before some event can spare those after it at most: each core a fetch of each
    /// line.
    pub(super) fn spared(&self) -> Cycles {
        let latency = &self.latency;
        let distances = [Distance::Domain, Distance::Socket, Distance::Remote];
        let fetches = distances.map(|distance| latency.hitm(distance));
        let longest = fetches.into_iter().fold(latency.llc, u32::max);
        let lines = 1 + u64::from(self.pairs);
        Cycles::from(longest) * (self.core_domain.len() as u64 * lines)
    }

    /// Whether a line's copies are few enough for a bit each.
    pub(super) fn few_cores(&self) -> bool {
        self.core_domain.len() <= FEW_CORES
    }
}

/// What accesses take beyond private hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AccessCost {
    /// In all.
    pub(super) cycles: Cycles,
    /// Of that, for the line to come to a core that has no copy, as from an LLC. Not for other
    /// copies to go, nor for a modified line to come from a core next to it: a store before a load
    /// and a store, or a load from elsewhere, spares that.
    pub(super) fetch: Cycles,
}

/// How a line comes to a core.
#[derive(Clone, Copy, Debug)]
struct Supply {
    latency: Cycles,
    /// The latency if the line were not modified.
    clean: Cycles,
    /// Whether the line changes hands as a whole.
    exclusive: bool,
}

impl AddAssign for AccessCost {
    #[inline]
    fn add_assign(&mut self, other: AccessCost) {
        self.cycles += other.cycles;
        self.fetch += other.fetch;
    }
}

/// Processes the events of one block, object by object and round by round, in the order of the
/// trace.
///
/// That order is by time before any access stalls. Rejected: the CPU that is due first goes first,
/// with which a search takes two thirds longer. Its layouts gain more by replay as often as less, 0.2
/// points more on average (evidence/benchmarks.md).
pub(super) struct Bench<'c, C> {
    costs: &'c Costs,
    lines: [Line<C>; 2],
    /// The round of the last access that left its core.
    round: Option<u32>,
    /// By CPU: cycles that its accesses have stalled it in that round.
    stalled: Vec<Cycles>,
}

impl<'c, C: Copies> Bench<'c, C> {
    pub(super) fn new(costs: &'c Costs, cpus: usize) -> Bench<'c, C> {
        Bench {
            costs,
            lines: [(); 2].map(|()| Line::new(costs.core_domain.len())),
            round: None,
            stalled: vec![Cycles::ZERO; cpus],
        }
    }

    pub(super) fn start_object(&mut self) {
        self.lines.iter_mut().for_each(Line::forget);
        self.round = None;
    }

    /// The object's events begin again: rounds that follow are not the last one, whatever their
    /// number.
    pub(super) fn start_again(&mut self) {
        self.round = None;
    }

    /// The cost of an access beyond a private hit, which an access takes under every layout. When
    /// it happens is asked only if it leaves its core.
    #[inline]
    pub(super) fn access(
        &mut self,
        touch: AtomAct,
        line: u8,
        moment: impl FnOnce() -> EventTime,
    ) -> AccessCost {
        let cpu = usize::from(touch.act.cpu().0);
        let core = self.costs.core[cpu];
        let state = &mut self.lines[usize::from(line)];
        let holds = state.copies.has(core);
        if holds && !touch.act.kind().writes() {
            return AccessCost::default();
        }
        // An owner's copy is the only one.
        if holds && state.owner.is_some() {
            state.dirty = true;
            return AccessCost::default();
        }
        let moment = moment();
        self.start_round(moment.round);
        let now = Cycles::from(moment.at) * STRETCH + self.stalled[cpu];
        let cost = self.leave_core(touch, usize::from(line), now, holds);
        self.stalled[cpu] += cost.cycles;
        cost
    }

    #[inline]
    fn start_round(&mut self, round: u32) {
        if self.round != Some(round) {
            self.round = Some(round);
            self.stalled.fill(Cycles::ZERO);
            for line in &mut self.lines {
                line.busy_until = Cycles::ZERO;
            }
        }
    }

    /// The cycles of an access that its core's copy, if it `holds` one, does not serve.
    fn leave_core(&mut self, touch: AtomAct, line: usize, now: Cycles, holds: bool) -> AccessCost {
        let cpu = usize::from(touch.act.cpu().0);
        let core = self.costs.core[cpu];
        let kind = touch.act.kind();
        let atomic = if kind == Kind::Rmw {
            Cycles::from(self.costs.latency.atomic)
        } else {
            Cycles::ZERO
        };
        let (cycles, fetch) = if holds {
            let farthest = self.farthest_copy(line, cpu, holds);
            let latency = farthest.map_or(self.costs.latency.llc, |d| self.costs.latency.hitm(d));
            self.own(line, cpu);
            let cycles = self.serve(line, now, latency.into(), atomic, true);
            (cycles, Cycles::ZERO)
        } else if kind.writes() {
            // Before `own`, which overwrites the owner of the line.
            let from = self.supply(line, cpu);
            let farthest = self.farthest_copy(line, cpu, holds);
            let reach = farthest.map_or(Cycles::ZERO, |d| self.costs.latency.hitm(d).into());
            self.own(line, cpu);
            let cycles = self.serve(line, now, from.latency.max(reach), atomic, true);
            (cycles, from.clean)
        } else {
            let from = self.supply(line, cpu);
            self.share(line, cpu);
            let cycles = self.serve(line, now, from.latency, Cycles::ZERO, from.exclusive);
            (cycles, from.clean)
        };
        if self.costs.pairs && !holds {
            // The replay's fetch of the pair's other line: no CPU waits for it, but a modified one
            // changes hands.
            let other = 1 - line;
            if !self.lines[other].copies.has(core) {
                let from = self.supply(other, cpu);
                self.share(other, cpu);
                self.serve(other, now, from.latency, Cycles::ZERO, from.exclusive);
            }
        }
        AccessCost { cycles, fetch }
    }

    /// What fetching the line takes.
    fn supply(&self, line: usize, cpu: usize) -> Supply {
        let costs = self.costs;
        let state = &self.lines[line];
        let row = &costs.distance[usize::from(costs.domain[cpu])];
        let clean = |distance: Distance| match distance {
            Distance::Domain => Cycles::from(costs.latency.llc),
            other => costs.latency.hitm(other).into(),
        };
        if let Some(owner) = state.owner {
            let distance = row[usize::from(costs.core_domain[owner.index()])];
            let latency = match state.dirty {
                true => costs.latency.hitm(distance).into(),
                false => clean(distance),
            };
            return Supply {
                latency,
                clean: clean(distance),
                exclusive: state.dirty,
            };
        }
        let mut copies = state.llc;
        let mut nearest: Option<Distance> = None;
        while copies != 0 {
            let distance = row[copies.trailing_zeros() as usize];
            nearest = Some(nearest.map_or(distance, |n| n.min(distance)));
            copies &= copies - 1;
        }
        // Nobody has the line only before the first event of a warm-up, which costs nothing.
        let latency = nearest.map_or(Cycles::ZERO, clean);
        Supply {
            latency,
            clean: latency,
            exclusive: false,
        }
    }

    /// A read: the owner keeps a shared copy, modified data goes to its LLC.
    fn share(&mut self, line: usize, cpu: usize) {
        let costs = self.costs;
        let (core, domain) = (costs.core[cpu], 1 << costs.domain[cpu]);
        let state = &mut self.lines[line];
        if let Some(owner) = state.owner.take() {
            if state.dirty {
                state.llc |= 1 << costs.core_domain[owner.index()];
            }
            state.dirty = false;
        }
        // The rules of `cache::system::share` in linemate_replay: E only if no other copy is left,
        // not even in LLCs.
        let alone = state.copies.count() == 0 && state.llc & !domain == 0;
        if alone {
            state.owner = Some(core);
        }
        state.copies.give(core);
        state.llc |= domain;
    }

    /// How far the farthest copy of another core is, or of another domain's LLC; `holds`: whether
    /// the CPU's own core has one.
    fn farthest_copy(&self, line: usize, cpu: usize, holds: bool) -> Option<Distance> {
        let own_domain = self.costs.domain[cpu];
        let row = &self.costs.distance[usize::from(own_domain)];
        let state = &self.lines[line];
        let near = state.copies.count() > u32::from(holds);
        let mut farthest = near.then(|| row[usize::from(own_domain)]);
        let mut copies = state.llc & !(1 << own_domain);
        while copies != 0 {
            farthest = farthest.max(Some(row[copies.trailing_zeros() as usize]));
            copies &= copies - 1;
        }
        farthest
    }

    fn own(&mut self, line: usize, cpu: usize) {
        let core = self.costs.core[cpu];
        let state = &mut self.lines[line];
        state.copies.clear();
        state.copies.give(core);
        state.owner = Some(core);
        state.dirty = true;
        // The own domain's LLC has it behind the core's caches, as in the replay.
        state.llc = 1 << self.costs.domain[cpu];
    }

    /// The line as a server: an atomic instruction keeps it for longer. Waiting is among the cycles.
    fn serve(
        &mut self,
        line: usize,
        now: Cycles,
        latency: Cycles,
        atomic: Cycles,
        exclusive: bool,
    ) -> Cycles {
        let state = &mut self.lines[line];
        let begin = now.max(state.busy_until);
        let kept = if exclusive {
            latency + atomic
        } else {
            self.costs.latency.serve.into()
        };
        state.busy_until = begin + kept;
        begin - now + latency + atomic
    }
}
