//! The cost of a layout by the fast model: MESIF over the lines of one type's objects.
//!
//! The model is replay's (docs/model/replay.md) with three simplifications: nothing is ever
//! evicted, the lines around the type do not exist, and only the type's own accesses stall a CPU.
//! As in a warm replay, each object's lines start as its last events leave them. In exchange the
//! cost of a layout is a sum over *blocks* (a line; the aligned pair of lines if the machine
//! fetches pairs), each of which depends only on the atoms on it: it is computed once per set of
//! atoms.

use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};

use linemate_layout::origin::BUILT_LINE;
use linemate_machine::{Distance, Machine};
use rustc_hash::FxHashMap;

use crate::error::AdviseError;
use crate::mix::mix;
use crate::shape::{Metrics, StructShape, UnitLayout};
use crate::trace::{Event, Kind, Trace};

/// How many times longer a slice takes than its instructions, because of other stalls: replay's
/// duration over the sum of its rounds' longest slices is 1.6 to 2.6 on the recordings of
/// evidence/benchmarks.md.
pub const STRETCH: u64 = 2;

/// An atom's place in a block: its line.
type Entry = (u16, u8);

/// A machine as the model needs it, for the CPUs of a recording.
#[derive(Clone, Debug)]
struct Costs {
    line: u64,
    pairs: bool,
    /// By CPU: its core among those in use, its domain.
    core: Vec<u8>,
    domain: Vec<u8>,
    /// By domain and domain.
    distance: Vec<Vec<Distance>>,
    /// By core in use: its domain.
    core_domain: Vec<u8>,
    latency: linemate_machine::Latencies,
}

/// The events of one recording, to be costed on one machine.
#[derive(Debug)]
pub struct CostModel<'t> {
    trace: &'t Trace,
    costs: Costs,
    metrics: Metrics,
    classes: Vec<Class>,
    /// By the sum of its entries' marks: the cost of a block. That two sets of atoms have the same
    /// sum is less likely than a flipped bit.
    known: RwLock<FxHashMap<u128, u64>>,
    worked: AtomicU64,
}

/// Objects with the same start modulo 128.
#[derive(Debug)]
struct Class {
    /// Their start modulo 128.
    residue: u8,
    /// The objects, each with the number of events before it.
    objects: Vec<(u32, u32)>,
    /// The number of events of all objects.
    events: u32,
    /// By atom: the numbers of its events, counted through the objects.
    index: Vec<Vec<u32>>,
    /// The atoms that have events.
    used: Vec<u16>,
}

impl Class {
    fn new(residue: u8, numbers: &[u32], trace: &Trace, shape: &StructShape) -> Class {
        let mut index = vec![Vec::new(); shape.atoms.len()];
        let mut objects = Vec::with_capacity(numbers.len());
        // A trace keeps fewer events than fit 32 bits.
        let mut count = 0u32;
        for &object in numbers {
            objects.push((object, count));
            for event in &trace.objects[object as usize].events {
                index[usize::from(event.atom)].push(count);
                count += 1;
            }
        }
        let atoms = (0u16..).zip(&index);
        let used = atoms.filter(|(_, events)| !events.is_empty());
        Class {
            residue,
            objects,
            events: count,
            used: used.map(|(atom, _)| atom).collect(),
            index,
        }
    }
}

/// A line while a block is costed.
#[derive(Clone, Copy, Debug, Default)]
// No forwarder: nothing is evicted, so every domain that has a copy has one in its LLC, which
// answers from the same distance.
struct Line {
    /// Cores that have it.
    holders: u64,
    /// The core that may write it, from 1; 0 for none.
    owner: u8,
    dirty: bool,
    /// Domains whose LLC has it.
    llc: u64,
    /// In the current round.
    busy_until: u64,
}

impl<'t> CostModel<'t> {
    /// For the events of `trace` on `machine`; `metrics` are those of the machine's line size.
    ///
    /// # Errors
    /// If the machine has too few CPUs.
    pub fn new(
        trace: &'t Trace,
        machine: &Machine,
        metrics: Metrics,
        shape: &StructShape,
    ) -> Result<CostModel<'t>, AdviseError> {
        let costs = Costs::new(machine, trace.cpus)?;
        // Objects by their start within 128 bytes: which of their members share a line, or a pair
        // of 64-byte lines, depends on nothing else.
        let mut classes: Vec<(u8, Vec<u32>)> = Vec::new();
        for (number, object) in (0u32..).zip(&trace.objects) {
            match classes.iter_mut().find(|(r, _)| *r == object.residue) {
                Some((_, objects)) => objects.push(number),
                None => classes.push((object.residue, vec![number])),
            }
        }
        classes.sort_unstable_by_key(|(residue, _)| *residue);
        let class =
            |(residue, objects): &(u8, Vec<u32>)| Class::new(*residue, objects, trace, shape);
        Ok(CostModel {
            trace,
            costs,
            metrics,
            classes: classes.iter().map(class).collect(),
            known: RwLock::new(FxHashMap::default()),
            worked: AtomicU64::new(0),
        })
    }

    /// The placement that units require in a kernel for this machine.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Events processed so far: the search's measure of its own effort.
    pub fn worked(&self) -> u64 {
        self.worked.load(Ordering::Relaxed)
    }

    /// Events of an atom.
    pub fn uses(&self, atom: usize) -> usize {
        self.classes.iter().map(|c| c.index[atom].len()).sum()
    }

    /// Whether all objects start lines of the recorded kernel.
    pub fn line_aligned(&self) -> bool {
        self.classes
            .iter()
            .all(|class| u64::from(class.residue) % BUILT_LINE.bytes() == 0)
    }

    /// The cost of a layout, in cycles.
    pub fn cost(&self, shape: &StructShape, placed: &UnitLayout) -> u64 {
        let mut marks: Vec<u128> = Vec::new();
        let mut cycles = 0;
        for class in 0..self.classes.len() {
            marks.clear();
            for &atom in &self.classes[class].used {
                let (block, line) = self.place_of(class, shape, placed, atom);
                if block >= marks.len() {
                    marks.resize(block + 1, 0);
                }
                // A sum, which no order of the atoms changes: members in another order on one line
                // are a look-up.
                marks[block] = marks[block].wrapping_add(mark(class, atom, line));
            }
            for (block, mark) in marks.iter().enumerate().filter(|(_, m)| **m != 0) {
                cycles += self.block(class, *mark, || {
                    let used = self.classes[class].used.iter();
                    let places = used.map(|a| (*a, self.place_of(class, shape, placed, *a)));
                    let inside = places.filter(|(_, place)| place.0 == block);
                    inside.map(|(atom, place)| (atom, place.1)).collect()
                });
            }
        }
        cycles
    }

    /// The cost of units that share one line with nothing else.
    pub fn together(&self, shape: &StructShape, units: &[usize]) -> u64 {
        let of_units = |class: usize| -> Vec<Entry> {
            let used = self.classes[class].used.iter();
            let of =
                used.filter(|a| units.contains(&usize::from(shape.atoms[usize::from(**a)].unit)));
            of.map(|atom| (*atom, 0)).collect()
        };
        let cost = |class: usize| {
            let entries = of_units(class);
            let marks = entries.iter().map(|(atom, line)| mark(class, *atom, *line));
            let sum = marks.fold(0u128, u128::wrapping_add);
            self.block(class, sum, || entries)
        };
        (0..self.classes.len()).map(cost).sum()
    }

    /// The block of an atom, and its line in it.
    #[inline]
    fn place_of(
        &self,
        class: usize,
        shape: &StructShape,
        placed: &UnitLayout,
        atom: u16,
    ) -> (usize, u8) {
        let unit = usize::from(shape.atoms[usize::from(atom)].unit);
        let within = u64::from(self.metrics.within[usize::from(atom)]);
        // Known only modulo 128, so the pairs of 128-byte lines are unknown: no described machine
        // has such pairs.
        let at = placed.residue(self.classes[class].residue).0 + placed.start(unit).0 + within;
        let line = at / self.costs.line;
        if self.costs.pairs {
            ((line / 2) as usize, (line % 2) as u8)
        } else {
            (line as usize, 0)
        }
    }

    fn block(&self, class: usize, mark: u128, entries: impl FnOnce() -> Vec<Entry>) -> u64 {
        // A panic in a worker leaves the map intact: entries are inserted in one step.
        let known = self.known.read().unwrap_or_else(|e| e.into_inner());
        if let Some(known) = known.get(&mark) {
            return *known;
        }
        drop(known);
        // Without the lock: two threads may compute the same block at once, and both get the same
        // number.
        let cost = self.work_out(class, &entries());
        let mut known = self.known.write().unwrap_or_else(|e| e.into_inner());
        known.insert(mark, cost);
        cost
    }

    /// Replays the events of some atoms that share a block.
    fn work_out(&self, number: usize, entries: &[Entry]) -> u64 {
        let class = &self.classes[number];
        // A set of numbers sorts the atoms' events: an atom has thousands, and sorting them took
        // half of the search.
        let mut chosen = vec![0u64; class.events.div_ceil(64) as usize];
        let mut lines = vec![0u8; class.index.len()];
        let mut count = 0;
        for (atom, line) in entries {
            let events = &class.index[usize::from(*atom)];
            for event in events {
                chosen[(event / 64) as usize] |= 1 << (event % 64);
            }
            lines[usize::from(*atom)] = *line;
            count += events.len();
        }
        self.worked.fetch_add(count as u64, Ordering::Relaxed);
        let mut bench = Bench::new(&self.costs, self.trace.cpus);
        let mut cycles = 0;
        let mut objects = class.objects.iter().peekable();
        let (mut first, mut events): (u32, &[Event]) = (0, &[]);
        let mut end = 0;
        for (place, word) in (0u32..).zip(&chosen) {
            let mut left = *word;
            while left != 0 {
                let event = place * 64 + left.trailing_zeros();
                left &= left - 1;
                if event >= end {
                    // The object's last round before the lines are cleared for the next object.
                    cycles += bench.end_round();
                    bench.start_object();
                }
                let begins = event >= end;
                while event >= end {
                    let Some((object, start)) = objects.next() else {
                        return cycles;
                    };
                    (first, events) = (*start, &self.trace.objects[*object as usize].events);
                    end = objects.peek().map_or(class.events, |(_, start)| *start);
                }
                if begins {
                    let object = Chosen {
                        chosen: &chosen,
                        lines: &lines,
                        first,
                        end,
                        events,
                    };
                    // Its cycles are dropped: it replays the object's end to leave the lines as a
                    // warm replay starts with them.
                    object.warm_up(&mut bench, entries);
                }
                let event = &events[(event - first) as usize];
                cycles += bench.add(event, lines[usize::from(event.atom)]);
            }
        }
        cycles + bench.end_round()
    }
}

/// The selected events of an object, as it is processed.
struct Chosen<'c> {
    /// Of all events of the class: one bit each.
    chosen: &'c [u64],
    /// By atom: its line in the block.
    lines: &'c [u8],
    /// The object's first event, and one past its last.
    first: u32,
    end: u32,
    events: &'c [Event],
}

impl<'c> Chosen<'c> {
    /// The numbers of the selected events before `end`, last first.
    fn backwards(&self) -> impl Iterator<Item = u32> + 'c {
        let (chosen, first, end) = (self.chosen, self.first, self.end);
        let mut word = 0;
        let mut next = end.div_ceil(64);
        std::iter::from_fn(move || {
            while word == 0 {
                if next <= first / 64 {
                    return None;
                }
                next -= 1;
                word = chosen[next as usize];
                if end - next * 64 < 64 {
                    word &= (1 << (end - next * 64)) - 1;
                }
            }
            let bit = 63 - word.leading_zeros();
            word &= !(1 << bit);
            Some(next * 64 + bit).filter(|number| *number >= first)
        })
    }

    /// Leaves the lines as the object's last events do: from the last write on, of the line whose
    /// last write is the earliest. What precedes a write leaves no trace.
    fn warm_up(&self, bench: &mut Bench<'_>, entries: &[Entry]) {
        let mut missing = [false; 2];
        for (_, line) in entries {
            missing[usize::from(*line)] = true;
        }
        let mut last: Vec<(Event, u8)> = Vec::new();
        for number in self.backwards() {
            let event = self.events[(number - self.first) as usize];
            let line = self.lines[usize::from(event.atom)];
            last.push((event, line));
            if event.kind.writes() {
                missing[usize::from(line)] = false;
                if missing == [false; 2] {
                    break;
                }
            }
        }
        for (event, line) in last.iter().rev() {
            bench.add(event, *line);
        }
        bench.end_round();
    }
}

/// A number for an atom on a line; sums of them represent sets.
#[inline]
fn mark(class: usize, atom: u16, line: u8) -> u128 {
    let key = (class as u64) << 32 | u64::from(atom) << 8 | u64::from(line);
    u128::from(mix(key)) << 64 | u128::from(mix(key ^ 0x5555_5555_5555_5555))
}

impl Costs {
    fn new(machine: &Machine, cpus: usize) -> Result<Costs, AdviseError> {
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
            core.push(known.unwrap_or(cores.len()) as u8);
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

/// Processes the events of one block, object by object and round by round.
struct Bench<'c> {
    costs: &'c Costs,
    lines: [Line; 2],
    /// What each CPU does in the round.
    queues: Vec<Queue>,
    active: Vec<usize>,
    /// Events of the round being collected, with their lines.
    gathered: Vec<(Event, u8)>,
}

/// A CPU's part of a round.
#[derive(Clone, Default)]
struct Queue {
    /// Cycles that its accesses have stalled it.
    shift: u64,
    /// Its events with their lines.
    events: Vec<(Event, u8)>,
    /// The index of the next one.
    next: usize,
}

impl<'c> Bench<'c> {
    fn new(costs: &'c Costs, cpus: usize) -> Bench<'c> {
        Bench {
            costs,
            lines: [Line::default(); 2],
            queues: vec![Queue::default(); cpus],
            active: Vec::new(),
            gathered: Vec::new(),
        }
    }

    /// Adds the object's next event; returns the cycles of the previous round, if the event is in
    /// another one.
    fn add(&mut self, event: &Event, line: u8) -> u64 {
        let last = self.gathered.last().map(|(last, _)| last.round);
        let cycles = if last.is_some_and(|last| last != event.round) {
            self.end_round()
        } else {
            0
        };
        self.gathered.push((*event, line));
        cycles
    }

    /// The cycles of the collected round.
    fn end_round(&mut self) -> u64 {
        let mut events = std::mem::take(&mut self.gathered);
        let alone = events.windows(2).all(|pair| pair[0].0.cpu == pair[1].0.cpu);
        let cycles = if alone {
            self.alone(&events)
        } else {
            self.round(&events)
        };
        events.clear();
        self.gathered = events;
        cycles
    }

    fn start_object(&mut self) {
        self.lines = [Line::default(); 2];
    }

    /// One CPU has the round to itself.
    fn alone(&mut self, events: &[(Event, u8)]) -> u64 {
        for line in &mut self.lines {
            line.busy_until = 0;
        }
        let mut cycles = 0;
        for (event, line) in events {
            let now = u64::from(event.at) * STRETCH + cycles;
            cycles += self.access(event, usize::from(*line), now);
        }
        cycles
    }

    /// The CPUs run side by side; the one that is due first goes on, ties go to the lower number.
    fn round(&mut self, events: &[(Event, u8)]) -> u64 {
        for line in &mut self.lines {
            line.busy_until = 0;
        }
        for (event, line) in events {
            let cpu = usize::from(event.cpu);
            let queue = &mut self.queues[cpu];
            if queue.events.is_empty() {
                self.active.push(cpu);
            }
            queue.events.push((*event, *line));
        }
        self.active.sort_unstable();
        let mut cycles = 0;
        loop {
            // Searched, not sorted: rarely more than a few CPUs have events of one object and one
            // block in a round.
            let mut next: Option<(u64, usize)> = None;
            for &cpu in &self.active {
                let queue = &self.queues[cpu];
                if let Some((event, _)) = queue.events.get(queue.next) {
                    let due = u64::from(event.at) * STRETCH + queue.shift;
                    if next.is_none_or(|(first, _)| due < first) {
                        next = Some((due, cpu));
                    }
                }
            }
            let Some((now, cpu)) = next else { break };
            let (event, line) = self.queues[cpu].events[self.queues[cpu].next];
            let stall = self.access(&event, usize::from(line), now);
            self.queues[cpu].shift += stall;
            self.queues[cpu].next += 1;
            cycles += stall;
        }
        for cpu in self.active.drain(..) {
            let queue = &mut self.queues[cpu];
            queue.events.clear();
            (queue.shift, queue.next) = (0, 0);
        }
        cycles
    }

    /// The cycles of an access beyond a private hit.
    fn access(&mut self, event: &Event, line: usize, now: u64) -> u64 {
        let cpu = usize::from(event.cpu);
        let core = self.costs.core[cpu];
        let holds = self.lines[line].holders & (1 << core) != 0;
        // Costs are those beyond a private hit, which an access takes under every layout.
        if holds && !event.kind.writes() {
            return 0;
        }
        if holds && self.lines[line].owner == core + 1 {
            self.lines[line].dirty = true;
            return 0;
        }
        let atomic = if event.kind == Kind::Rmw {
            u64::from(self.costs.latency.atomic)
        } else {
            0
        };
        let cycles = if holds {
            let farthest = self.invalidate(line, cpu);
            let latency = farthest.map_or(self.costs.latency.llc, |d| self.costs.latency.hitm(d));
            self.own(line, cpu);
            self.serve(line, now, u64::from(latency) + atomic, true)
        } else if event.kind.writes() {
            // Before `own`, which overwrites the owner of the line. `invalidate` only measures how
            // far the copies are.
            let (latency, _) = self.supply(line, cpu);
            let farthest = self.invalidate(line, cpu);
            let reach = farthest.map_or(0, |d| u64::from(self.costs.latency.hitm(d)));
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
            if self.lines[other].holders & (1 << core) == 0 {
                let (latency, exclusive) = self.supply(other, cpu);
                self.share(other, cpu);
                self.serve(other, now, latency, exclusive);
            }
        }
        cycles
    }

    /// The latency of fetching the line, and whether it changes hands as a whole.
    fn supply(&mut self, line: usize, cpu: usize) -> (u64, bool) {
        let costs = self.costs;
        let state = &mut self.lines[line];
        let row = &costs.distance[usize::from(costs.domain[cpu])];
        let clean = |distance: Distance| match distance {
            Distance::Domain => costs.latency.llc,
            other => costs.latency.hitm(other),
        };
        if state.owner > 0 {
            let distance = row[usize::from(costs.core_domain[usize::from(state.owner) - 1])];
            return if state.dirty {
                (u64::from(costs.latency.hitm(distance)), true)
            } else {
                (u64::from(clean(distance)), false)
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
            return (u64::from(clean(distance)), false);
        }
        // The line has no owner only before the first event of a warm-up, which costs nothing.
        (0, false)
    }

    /// A read: the owner keeps a shared copy, modified data goes to its LLC.
    fn share(&mut self, line: usize, cpu: usize) {
        let costs = self.costs;
        let (core, domain) = (costs.core[cpu], 1u64 << costs.domain[cpu]);
        let state = &mut self.lines[line];
        if state.owner > 0 {
            if state.dirty {
                state.llc |= 1 << costs.core_domain[usize::from(state.owner) - 1];
            }
            state.owner = 0;
            state.dirty = false;
        }
        // The rules of `cache::system::share` in linemate_replay: E only if no other copy is left,
        // not even in LLCs.
        let alone = state.holders == 0 && state.llc & !domain == 0;
        if alone {
            state.owner = core + 1;
        }
        state.holders |= 1 << core;
        state.llc |= domain;
    }

    /// Invalidates all other copies; returns how far the farthest was.
    fn invalidate(&mut self, line: usize, cpu: usize) -> Option<Distance> {
        let costs = self.costs;
        let own_domain = costs.domain[cpu];
        let row = &costs.distance[usize::from(own_domain)];
        let state = &mut self.lines[line];
        let mut farthest: Option<Distance> = None;
        let mut others = state.holders & !(1 << costs.core[cpu]);
        while others != 0 {
            let core = others.trailing_zeros() as usize;
            farthest = farthest.max(Some(row[usize::from(costs.core_domain[core])]));
            others &= others - 1;
        }
        let mut copies = state.llc & !(1 << own_domain);
        while copies != 0 {
            farthest = farthest.max(Some(row[copies.trailing_zeros() as usize]));
            copies &= copies - 1;
        }
        farthest
    }

    fn own(&mut self, line: usize, cpu: usize) {
        let state = &mut self.lines[line];
        state.holders = 1 << self.costs.core[cpu];
        state.owner = self.costs.core[cpu] + 1;
        state.dirty = true;
        // The own domain's LLC has it behind the core's caches, as in the replay.
        state.llc = 1 << self.costs.domain[cpu];
    }

    /// The line as a server: the wait and the latency.
    fn serve(&mut self, line: usize, now: u64, latency: u64, exclusive: bool) -> u64 {
        let state = &mut self.lines[line];
        let begin = now.max(state.busy_until);
        let kept = if exclusive {
            latency
        } else {
            u64::from(self.costs.latency.serve)
        };
        state.busy_until = begin + kept;
        begin - now + latency
    }
}
