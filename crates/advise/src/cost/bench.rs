//! MESIF over the lines of one block.

use linemate_machine::{Distance, Machine};
use linemate_recording::Cycles;

use super::STRETCH;
use crate::error::AdviseError;
use crate::trace::{Event, Kind};

/// A machine as the model needs it, for the CPUs of a recording.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    pub(super) line: u64,
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

/// The number of a core among those in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Core(u16);

impl Core {
    #[inline]
    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A line while a block is costed.
#[derive(Clone, Copy, Debug, Default)]
// No forwarder: nothing is evicted, so every domain that has a copy has one in its LLC, which
// answers from the same distance.
struct Line {
    /// How often a write took it from all other cores. A core has the line if its copy in
    /// [`Bench::copies`] is of that age.
    age: u32,
    /// How many cores have it.
    holders: u32,
    /// The core that may write it.
    owner: Option<Core>,
    dirty: bool,
    /// Domains whose LLC has it: those of all cores that have it are among them, because nothing is
    /// evicted.
    llc: u64,
    /// In the current round.
    busy_until: Cycles,
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
            line: machine.line.bytes(),
            pairs: machine.adjacent_line_pairs,
            core,
            domain,
            distance: all.clone().map(row).collect(),
            core_domain,
            latency: machine.latency,
        })
    }
}

/// Processes the events of one block, object by object and round by round, in the order of the
/// trace.
///
/// That order is by time before any access stalls. Rejected: the CPU that is due first goes first,
/// with which a search takes two thirds longer. Its layouts gain more by replay as often as less,
/// 0.2 points more on average (evidence/benchmarks.md).
pub(super) struct Bench<'c> {
    costs: &'c Costs,
    lines: [Line; 2],
    /// By line, then core: the line's age when the core got its copy. Incrementing the line's age
    /// invalidates every copy at once, whatever the number of cores.
    copies: [Vec<u32>; 2],
    /// The round of the last access that left its core.
    round: Option<u32>,
    /// By CPU: cycles that its accesses have stalled it in that round.
    stalled: Vec<Cycles>,
}

impl<'c> Bench<'c> {
    pub(super) fn new(costs: &'c Costs, cpus: usize) -> Bench<'c> {
        Bench {
            costs,
            // Not 0, which is the age of the copies.
            lines: [Line {
                age: 1,
                ..Line::default()
            }; 2],
            copies: [(); 2].map(|()| vec![0; costs.core_domain.len()]),
            round: None,
            stalled: vec![Cycles::ZERO; cpus],
        }
    }

    pub(super) fn start_object(&mut self) {
        for line in &mut self.lines {
            // A trace has fewer events than fit 32 bits, and each is run twice.
            let age = line.age + 1;
            *line = Line {
                age,
                ..Line::default()
            };
        }
        self.round = None;
    }

    /// Whether the core has the line.
    #[inline]
    fn holds(&self, line: usize, core: Core) -> bool {
        self.copies[line][core.index()] == self.lines[line].age
    }

    /// The object's events begin again: rounds that follow are not the last one, whatever their
    /// number.
    pub(super) fn start_again(&mut self) {
        self.round = None;
    }

    /// The cycles of an access beyond a private hit, which an access takes under every layout.
    #[inline]
    pub(super) fn access(&mut self, event: &Event, line: u8) -> Cycles {
        let cpu = usize::from(event.act.cpu().0);
        let core = self.costs.core[cpu];
        let holds = self.holds(usize::from(line), core);
        let state = &mut self.lines[usize::from(line)];
        if holds && !event.act.kind().writes() {
            return Cycles::ZERO;
        }
        if holds && state.owner == Some(core) {
            state.dirty = true;
            return Cycles::ZERO;
        }
        self.start_round(event.round);
        let now = Cycles::from(event.at) * STRETCH + self.stalled[cpu];
        let cycles = self.leave_core(event, usize::from(line), now, holds);
        self.stalled[cpu] += cycles;
        cycles
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
    fn leave_core(&mut self, event: &Event, line: usize, now: Cycles, holds: bool) -> Cycles {
        let cpu = usize::from(event.act.cpu().0);
        let core = self.costs.core[cpu];
        let kind = event.act.kind();
        let atomic = if kind == Kind::Rmw {
            Cycles::from(self.costs.latency.atomic)
        } else {
            Cycles::ZERO
        };
        let cycles = if holds {
            let farthest = self.farthest_copy(line, cpu, holds);
            let latency = farthest.map_or(self.costs.latency.llc, |d| self.costs.latency.hitm(d));
            self.own(line, cpu);
            self.serve(line, now, Cycles::from(latency) + atomic, true)
        } else if kind.writes() {
            // Before `own`, which overwrites the owner of the line.
            let (latency, _) = self.supply(line, cpu);
            let farthest = self.farthest_copy(line, cpu, holds);
            let reach = farthest.map_or(Cycles::ZERO, |d| self.costs.latency.hitm(d).into());
            self.own(line, cpu);
            self.serve(line, now, latency.max(reach) + atomic, true)
        } else {
            let (latency, exclusive) = self.supply(line, cpu);
            self.share(line, cpu);
            self.serve(line, now, latency, exclusive)
        };
        if self.costs.pairs && !holds {
            // The replay's fetch of the pair's other line: no CPU waits for it, but a modified one
            // changes hands.
            let other = 1 - line;
            if !self.holds(other, core) {
                let (latency, exclusive) = self.supply(other, cpu);
                self.share(other, cpu);
                self.serve(other, now, latency, exclusive);
            }
        }
        cycles
    }

    /// The latency of fetching the line, and whether it changes hands as a whole.
    fn supply(&mut self, line: usize, cpu: usize) -> (Cycles, bool) {
        let costs = self.costs;
        let state = &mut self.lines[line];
        let row = &costs.distance[usize::from(costs.domain[cpu])];
        let clean = |distance: Distance| match distance {
            Distance::Domain => costs.latency.llc,
            other => costs.latency.hitm(other),
        };
        if let Some(owner) = state.owner {
            let distance = row[usize::from(costs.core_domain[owner.index()])];
            return if state.dirty {
                (costs.latency.hitm(distance).into(), true)
            } else {
                (clean(distance).into(), false)
            };
        }
        let mut copies = state.llc;
        let mut nearest: Option<Distance> = None;
        while copies != 0 {
            let distance = row[copies.trailing_zeros() as usize];
            nearest = Some(nearest.map_or(distance, |n| n.min(distance)));
            copies &= copies - 1;
        }
        if let Some(distance) = nearest {
            return (clean(distance).into(), false);
        }
        // The line has no owner only before the first event of a warm-up, which costs nothing.
        (Cycles::ZERO, false)
    }

    /// A read: the owner keeps a shared copy, modified data goes to its LLC.
    fn share(&mut self, line: usize, cpu: usize) {
        let costs = self.costs;
        let (core, domain) = (costs.core[cpu], 1u64 << costs.domain[cpu]);
        let state = &mut self.lines[line];
        if let Some(owner) = state.owner.take() {
            if state.dirty {
                state.llc |= 1 << costs.core_domain[owner.index()];
            }
            state.dirty = false;
        }
        // The rules of `cache::system::share` in linemate_replay: E only if no other copy is left,
        // not even in LLCs.
        let alone = state.holders == 0 && state.llc & !domain == 0;
        if alone {
            state.owner = Some(core);
        }
        state.holders += 1;
        state.llc |= domain;
        self.copies[line][core.index()] = state.age;
    }

    /// How far the farthest copy of another core is, or of another domain's LLC; `holds`: whether
    /// the CPU's own core has one.
    fn farthest_copy(&self, line: usize, cpu: usize, holds: bool) -> Option<Distance> {
        let own_domain = self.costs.domain[cpu];
        let row = &self.costs.distance[usize::from(own_domain)];
        let state = &self.lines[line];
        let near = state.holders > u32::from(holds);
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
        state.age += 1;
        state.holders = 1;
        state.owner = Some(core);
        self.copies[line][core.index()] = state.age;
        state.dirty = true;
        // The own domain's LLC has it behind the core's caches, as in the replay.
        state.llc = 1 << self.costs.domain[cpu];
    }

    /// The line as a server: the wait and the latency.
    fn serve(&mut self, line: usize, now: Cycles, latency: Cycles, exclusive: bool) -> Cycles {
        let state = &mut self.lines[line];
        let begin = now.max(state.busy_until);
        let kept = if exclusive {
            latency
        } else {
            self.costs.latency.serve.into()
        };
        state.busy_until = begin + kept;
        begin - now + latency
    }
}
