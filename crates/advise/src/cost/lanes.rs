//! MESIF over the lines of up to 64 blocks at once.
//!
//! Blocks that a search compares share most of their members, and five of six events find their
//! line as they want it. So a CPU's copies are a bit for each block, and one test of 64 bits passes
//! over an event that is served by its own core in all of them. The others are processed one by
//! one.

use linemate_machine::Distance;
use linemate_recording::{CpuId, Cycles};

use super::STRETCH;
use super::costs::{Core, Costs, Domain};
use crate::trace::{Event, Kind};

/// A block among those that are costed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lane(pub(super) u8);

impl Lane {
    #[inline]
    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Some of the blocks that are costed at once: a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LaneSet(u64);

impl LaneSet {
    /// How many blocks can be costed at once.
    pub(super) const MOST: usize = u64::BITS as usize;

    #[inline]
    pub(super) fn insert(&mut self, lane: Lane) {
        self.0 |= 1 << lane.0;
    }

    #[inline]
    fn remove(&mut self, lane: Lane) {
        self.0 &= !(1 << lane.0);
    }

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub(super) fn has(self, lane: Lane) -> bool {
        self.0 >> lane.0 & 1 != 0
    }

    #[inline]
    pub(super) fn and(self, other: LaneSet) -> LaneSet {
        LaneSet(self.0 & other.0)
    }

    #[inline]
    pub(super) fn or(self, other: LaneSet) -> LaneSet {
        LaneSet(self.0 | other.0)
    }

    #[inline]
    pub(super) fn without(self, other: LaneSet) -> LaneSet {
        LaneSet(self.0 & !other.0)
    }
}

impl Iterator for LaneSet {
    type Item = Lane;

    #[inline]
    fn next(&mut self) -> Option<Lane> {
        (self.0 != 0).then(|| {
            let lane = Lane(self.0.trailing_zeros() as u8);
            self.0 &= self.0 - 1;
            lane
        })
    }
}

/// A line of one block.
#[derive(Clone, Copy, Debug, Default)]
// No forwarder: nothing is evicted, so every domain that has a copy has one in its LLC, which
// answers from the same distance.
struct Line {
    /// How many cores have it.
    holders: u32,
    /// The core that may write it.
    owner: Option<Core>,
    /// Domains whose LLC has it: those of all cores that have it are among them, because nothing is
    /// evicted.
    llc: u64,
    /// In the block's current round.
    busy_until: Cycles,
}

/// One of a block's lines, in all blocks.
#[derive(Debug)]
struct Plane {
    /// By lane.
    lines: Vec<Line>,
    /// By core: the blocks in which it has a copy.
    holds: Vec<LaneSet>,
    /// By core: the blocks in which it may write the line. They are among those of `holds`.
    owns: Vec<LaneSet>,
    /// Where the owner has written it.
    dirty: LaneSet,
}

impl Plane {
    fn new(lanes: usize, cores: usize) -> Plane {
        Plane {
            lines: vec![Line::default(); lanes],
            holds: vec![LaneSet::default(); cores],
            owns: vec![LaneSet::default(); cores],
            dirty: LaneSet::default(),
        }
    }

    fn clear(&mut self) {
        self.lines.fill(Line::default());
        self.holds.fill(LaneSet::default());
        self.owns.fill(LaneSet::default());
        self.dirty = LaneSet::default();
    }

    /// The latency of fetching the line for a CPU whose core has no copy.
    fn supply(&self, costs: &Costs, cpu: CpuId, lane: Lane) -> Supply {
        let of = &self.lines[lane.index()];
        let row = costs.distances(cpu);
        let clean = |distance: Distance| match distance {
            Distance::Domain => costs.latency.llc,
            other => costs.latency.hitm(other),
        };
        if let Some(owner) = of.owner {
            let distance = row[costs.domain_of(owner).index()];
            let exclusive = self.dirty.has(lane);
            let latency = if exclusive {
                costs.latency.hitm(distance)
            } else {
                clean(distance)
            };
            return Supply {
                latency: latency.into(),
                exclusive,
            };
        }
        let nearest = Domain::all(of.llc).map(|domain| row[domain.index()]).min();
        Supply {
            // The line has no owner and no copy only before the first event of a warm-up, which
            // costs nothing.
            latency: nearest.map_or(Cycles::ZERO, |distance| clean(distance).into()),
            exclusive: false,
        }
    }

    /// How far the farthest copy of another core is, or of another domain's LLC; `holds`: whether
    /// the CPU's own core has one.
    fn farthest_copy(
        &self,
        costs: &Costs,
        cpu: CpuId,
        lane: Lane,
        holds: bool,
    ) -> Option<Distance> {
        let own = costs.domain(cpu);
        let row = costs.distances(cpu);
        let of = &self.lines[lane.index()];
        let near = (of.holders > u32::from(holds)).then(|| row[own.index()]);
        let far = Domain::all(of.llc & !own.bit()).map(|domain| row[domain.index()]);
        far.max().max(near)
    }

    /// Only this core has the line in these blocks from now on, and may write it.
    fn take(&mut self, core: Core, lanes: LaneSet) {
        for of in [&mut self.holds, &mut self.owns] {
            for others in of.iter_mut() {
                *others = others.without(lanes);
            }
            of[core.index()] = of[core.index()].or(lanes);
        }
        self.dirty = self.dirty.or(lanes);
    }
}

/// What fetching a line takes.
#[derive(Clone, Copy, Debug)]
struct Supply {
    latency: Cycles,
    /// Whether the line changes hands as a whole.
    exclusive: bool,
}

/// Processes the events of several blocks, object by object and round by round, in the order of the
/// trace.
///
/// That order is by time before any access stalls. Rejected: the CPU that is due first goes first,
/// with which a search takes two thirds longer. Its layouts gain more by replay as often as less,
/// 0.2 points more on average (evidence/benchmarks.md).
#[derive(Debug)]
pub(super) struct Lanes<'c> {
    costs: &'c Costs,
    cpus: usize,
    planes: [Plane; 2],
    /// By lane: the round of the last access that left its core.
    rounds: Vec<Option<u32>>,
    /// By lane, then CPU: cycles that its accesses have stalled it in that round.
    stalled: Vec<Cycles>,
    /// By lane: the cycles of accesses that count.
    cycles: Vec<Cycles>,
    /// Whether they count, or lead to the state that an object starts in.
    counting: bool,
}

impl<'c> Lanes<'c> {
    /// For that many blocks, at most [`LaneSet::MOST`], and that many recorded CPUs.
    pub(super) fn new(costs: &'c Costs, lanes: usize, cpus: usize) -> Lanes<'c> {
        let plane = || Plane::new(lanes, costs.cores());
        Lanes {
            costs,
            cpus,
            planes: [plane(), plane()],
            rounds: vec![None; lanes],
            stalled: vec![Cycles::ZERO; lanes * cpus],
            cycles: vec![Cycles::ZERO; lanes],
            counting: false,
        }
    }

    /// An object whose lines nobody has. Its accesses do not count until they
    /// [start again](Lanes::start_again).
    pub(super) fn start_object(&mut self) {
        self.planes.iter_mut().for_each(Plane::clear);
        self.rounds.fill(None);
        self.counting = false;
    }

    /// The object's events begin again, and count: rounds that follow are not the last one,
    /// whatever their number.
    pub(super) fn start_again(&mut self) {
        self.rounds.fill(None);
        self.counting = true;
    }

    /// By lane: the cycles of its accesses beyond private hits, which they take under every layout.
    pub(super) fn into_cycles(self) -> Vec<Cycles> {
        self.cycles
    }

    /// An access in the blocks that have its atom on that line.
    #[inline]
    pub(super) fn access(&mut self, event: &Event, line: usize, lanes: LaneSet) {
        let core = self.costs.core(event.act.cpu());
        let plane = &mut self.planes[line];
        let served = if event.act.kind().writes() {
            let owned = lanes.and(plane.owns[core.index()]);
            plane.dirty = plane.dirty.or(owned);
            owned
        } else {
            plane.holds[core.index()]
        };
        let left = lanes.without(served);
        if !left.is_empty() {
            self.leave_core(event, line, left);
        }
    }

    /// An access in blocks in which its core's copy, if there is one, does not serve it.
    fn leave_core(&mut self, event: &Event, line: usize, lanes: LaneSet) {
        let cpu = event.act.cpu();
        let core = self.costs.core(cpu);
        let writes = event.act.kind().writes();
        let holding = lanes.and(self.planes[line].holds[core.index()]);
        let other = 1 - line;
        // The replay's fetch of the pair's other line.
        let fetches = if self.costs.pairs {
            let missing = lanes.without(holding);
            missing.without(self.planes[other].holds[core.index()])
        } else {
            LaneSet::default()
        };
        for lane in lanes {
            let now = self.due(event, lane);
            let supply = if writes {
                self.own(event, line, lane, holding.has(lane))
            } else {
                self.share(cpu, line, lane)
            };
            let cycles = self.serve(line, lane, now, supply);
            self.stalled[lane.index() * self.cpus + usize::from(cpu.0)] += cycles;
            if self.counting {
                self.cycles[lane.index()] += cycles;
            }
            if fetches.has(lane) {
                // No CPU waits for it, but a modified line changes hands.
                let supply = self.share(cpu, other, lane);
                self.serve(other, lane, now, supply);
            }
        }
        if writes {
            self.planes[line].take(core, lanes);
        }
    }

    /// When the access begins, in cycles from its round's start.
    #[inline]
    fn due(&mut self, event: &Event, lane: Lane) -> Cycles {
        let first = lane.index() * self.cpus;
        let stalled = &mut self.stalled[first..first + self.cpus];
        let round = &mut self.rounds[lane.index()];
        if *round != Some(event.round) {
            *round = Some(event.round);
            stalled.fill(Cycles::ZERO);
            for plane in &mut self.planes {
                plane.lines[lane.index()].busy_until = Cycles::ZERO;
            }
        }
        Cycles::from(event.at) * STRETCH + stalled[usize::from(event.act.cpu().0)]
    }

    /// A write: its core gets the line alone; `holds`: whether it has a copy. All but the bits of
    /// [`Plane::take`].
    fn own(&mut self, event: &Event, line: usize, lane: Lane, holds: bool) -> Supply {
        let (costs, cpu) = (self.costs, event.act.cpu());
        let plane = &mut self.planes[line];
        let farthest = plane.farthest_copy(costs, cpu, lane, holds);
        let latency = if holds {
            farthest
                .map_or(costs.latency.llc, |d| costs.latency.hitm(d))
                .into()
        } else {
            let reach = farthest.map_or(Cycles::ZERO, |d| costs.latency.hitm(d).into());
            plane.supply(costs, cpu, lane).latency.max(reach)
        };
        let atomic = match event.act.kind() {
            Kind::Rmw => costs.latency.atomic.into(),
            Kind::Load | Kind::Store => Cycles::ZERO,
        };
        let of = &mut plane.lines[lane.index()];
        of.holders = 1;
        of.owner = Some(costs.core(cpu));
        // The own domain's LLC has it behind the core's caches, as in the replay.
        of.llc = costs.domain(cpu).bit();
        Supply {
            latency: latency + atomic,
            exclusive: true,
        }
    }

    /// A read: the owner keeps a shared copy, modified data goes to its LLC.
    fn share(&mut self, cpu: CpuId, line: usize, lane: Lane) -> Supply {
        let (costs, plane) = (self.costs, &mut self.planes[line]);
        let supply = plane.supply(costs, cpu, lane);
        let (core, domain) = (costs.core(cpu), costs.domain(cpu).bit());
        let of = &mut plane.lines[lane.index()];
        if let Some(owner) = of.owner.take() {
            plane.owns[owner.index()].remove(lane);
            if plane.dirty.has(lane) {
                of.llc |= costs.domain_of(owner).bit();
                plane.dirty.remove(lane);
            }
        }
        // The rules of `cache::system::share` in linemate_replay: E only if no other copy is left,
        // not even in LLCs.
        let alone = of.holders == 0 && of.llc & !domain == 0;
        if alone {
            of.owner = Some(core);
            plane.owns[core.index()].insert(lane);
        }
        of.holders += 1;
        of.llc |= domain;
        plane.holds[core.index()].insert(lane);
        supply
    }

    /// The line as a server: the wait and the latency.
    fn serve(&mut self, line: usize, lane: Lane, now: Cycles, supply: Supply) -> Cycles {
        let of = &mut self.planes[line].lines[lane.index()];
        let begin = now.max(of.busy_until);
        let kept = if supply.exclusive {
            supply.latency
        } else {
            self.costs.latency.serve.into()
        };
        of.busy_until = begin + kept;
        begin - now + supply.latency
    }
}
