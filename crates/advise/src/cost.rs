//! The cost of a layout by the fast model: MESIF over the lines of one type's objects.
//!
//! The model is replay's (docs/model/replay.md) with four simplifications: nothing is ever
//! evicted, the lines around the type do not exist, only the type's own accesses stall a CPU, and
//! stalls delay accesses without changing their order. As in a warm replay, each object's lines
//! start as its last events leave them. In exchange the cost of a layout is a sum over *blocks* (a
//! line; the aligned pair of lines if the machine fetches pairs), each of which depends only on the
//! atoms on it: it is computed once per set of atoms.

mod bench;
mod class;
mod copies;
mod known;
mod numbers;

use linemate_attribution::tally::{CpuSet, RARE_PART};
use linemate_layout::origin::BUILT_LINE;
use linemate_machine::Machine;
use linemate_recording::{Accesses, Cycles};

use crate::error::AdviseError;
use crate::shape::{Metrics, StructShape, UnitLayout};
use crate::trace::{Kind, Trace, Use};
pub use bench::STRETCH;
use bench::{Bench, Costs};
use class::Class;
use copies::{FewCopies, ManyCopies};
pub(crate) use known::{AtomBlock, KnownCost, Mark, Pieces};
use known::{AtomOnLine, KnownSets};

/// The events of one recording, to be costed on one machine.
#[derive(Debug)]
pub struct CostModel<'t> {
    trace: &'t Trace,
    costs: Costs,
    metrics: Metrics,
    classes: Vec<Class>,
    known: KnownSets,
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
            known: KnownSets::default(),
        })
    }

    /// The placement that units require in a kernel for this machine.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Events of an atom.
    pub fn uses(&self, atom: usize) -> usize {
        self.classes.iter().map(|c| c.index[atom].len()).sum()
    }

    /// The CPUs that write a unit, as a set; none if less than a sixteenth of the unit's accesses
    /// write. An instruction that writes less than a sixteenth as often as the one that writes most
    /// does not count: it sets the object up.
    pub fn writers(&self, unit: usize) -> CpuSet {
        let uses = self.trace.uses.iter();
        let uses = uses.filter(|((of, _, _), _)| usize::from(*of) == unit);
        let uses: Vec<(Kind, &Use)> = uses.map(|((_, _, kind), used)| (*kind, used)).collect();
        let all: Accesses = uses.iter().map(|(_, used)| used.count).sum();
        let writes = uses.iter().filter(|(kind, _)| kind.writes());
        let writes: Vec<&Use> = writes.map(|(_, used)| *used).collect();
        let least = match writes.iter().map(|used| used.count).sum::<Accesses>() {
            written if written.saturating_mul(RARE_PART) < all => return CpuSet::default(),
            _ => writes
                .iter()
                .map(|used| used.count)
                .max()
                .unwrap_or_default(),
        };
        let often = |used: &&&Use| used.count.saturating_mul(RARE_PART) >= least;
        let mut writers = CpuSet::default();
        let writing = writes.iter().filter(often);
        writing.for_each(|used| writers.merge(&used.cpus));
        writers
    }

    /// Whether all objects start lines of the recorded kernel.
    pub fn line_aligned(&self) -> bool {
        self.classes
            .iter()
            .all(|class| u64::from(class.residue) % BUILT_LINE.bytes() == 0)
    }

    /// The cost of a layout, in cycles.
    pub fn cost(&self, shape: &StructShape, placed: &UnitLayout) -> Cycles {
        let (known, unknown) = self.split(shape, placed);
        let unknown = unknown.iter().map(|block| self.compute(block));
        known + unknown.sum::<Cycles>()
    }

    /// The cycles of a layout's blocks whose cost is known, and its other blocks.
    pub(crate) fn split(
        &self,
        shape: &StructShape,
        placed: &UnitLayout,
    ) -> (Cycles, Vec<AtomBlock>) {
        let mut marks = Vec::new();
        let mut cycles = Cycles::ZERO;
        let mut unknown = Vec::new();
        for class in 0..self.classes.len() {
            self.marks(class, shape, placed, &mut marks);
            for (block, mark) in marks.iter().enumerate().filter(|(_, m)| !m.is_empty()) {
                match self.known.cost(*mark) {
                    Some(cost) => cycles += cost,
                    None => unknown.push(self.block(class, shape, placed, block)),
                }
            }
        }
        (cycles, unknown)
    }

    /// The blocks of a layout that have atoms.
    pub(crate) fn blocks(&self, shape: &StructShape, placed: &UnitLayout) -> Vec<AtomBlock> {
        let mut marks = Vec::new();
        let mut blocks = Vec::new();
        for class in 0..self.classes.len() {
            self.marks(class, shape, placed, &mut marks);
            let used = (0..marks.len()).filter(|block| !marks[*block].is_empty());
            blocks.extend(used.map(|block| self.block(class, shape, placed, block)));
        }
        blocks
    }

    /// By block of a class's objects: which set of atoms it has.
    fn marks(&self, class: usize, shape: &StructShape, placed: &UnitLayout, marks: &mut Vec<Mark>) {
        marks.clear();
        for &atom in &self.classes[class].used {
            let (block, line) = self.place_of(class, shape, placed, atom);
            if block >= marks.len() {
                marks.resize(block + 1, Mark::default());
            }
            marks[block] = marks[block].with(class, AtomOnLine { atom, line });
        }
    }

    fn block(
        &self,
        class: usize,
        shape: &StructShape,
        placed: &UnitLayout,
        number: usize,
    ) -> AtomBlock {
        let used = self.classes[class].used.iter();
        let places = used.map(|atom| (*atom, self.place_of(class, shape, placed, *atom)));
        let inside = places.filter(|(_, (block, _))| *block == number);
        let entries = inside.map(|(atom, (_, line))| AtomOnLine { atom, line });
        AtomBlock::new(class, entries.collect())
    }

    /// The cost of units that share one line with nothing else.
    pub fn together(&self, shape: &StructShape, units: &[usize]) -> Cycles {
        let of_units = |class: usize| -> AtomBlock {
            let used = self.classes[class].used.iter();
            let of =
                used.filter(|a| units.contains(&usize::from(shape.atoms[usize::from(**a)].unit)));
            let entries = of.map(|atom| AtomOnLine {
                atom: *atom,
                line: 0,
            });
            AtomBlock::new(class, entries.collect())
        };
        let blocks = (0..self.classes.len()).map(of_units);
        blocks.map(|block| self.cost_of(&block)).sum()
    }

    /// The part of a block that has most of its events in common with one of `others`; nothing of
    /// a pair of lines: a fetch of one line from nearby brings the other one from anywhere.
    pub(crate) fn largest_common(&self, block: &AtomBlock, others: &[AtomBlock]) -> AtomBlock {
        if !block.is_one_line() {
            return AtomBlock::new(block.class, Vec::new());
        }
        let uses = |block: &AtomBlock| -> usize {
            let index = &self.classes[block.class].index;
            let atoms = block.entries.iter().map(|e| usize::from(e.atom));
            atoms.map(|atom| index[atom].len()).sum()
        };
        let common = others.iter().map(|other| block.common(other));
        let most = common.max_by_key(uses);
        most.unwrap_or_else(|| AtomBlock::new(block.class, Vec::new()))
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
        let line = at / self.costs.line.bytes();
        if self.costs.pairs {
            ((line / 2) as usize, (line % 2) as u8)
        } else {
            (line as usize, 0)
        }
    }

    /// What is known of a set's cost.
    pub(crate) fn known(&self, mark: Mark) -> Option<KnownCost> {
        self.known.get(mark)
    }

    /// The pieces of a set whose cost is known.
    pub(crate) fn pieces(&self, mark: Mark) -> Option<Pieces> {
        match self.known.get(mark)? {
            KnownCost::Cost { fetches, .. } => Some(fetches),
            KnownCost::AtLeast(_) => None,
        }
    }

    /// The cost of a block.
    fn cost_of(&self, block: &AtomBlock) -> Cycles {
        let known = self.known.cost(block.mark);
        known.unwrap_or_else(|| self.compute(block))
    }

    /// Computes the cost of a block, and keeps it. Two threads may do that for one block at once,
    /// and both get the same number.
    pub(crate) fn compute(&self, block: &AtomBlock) -> Cycles {
        let known = self.run(block, |_, _| None);
        let cost = known.least();
        self.known.insert(block.mark, known);
        cost
    }

    /// Computes the cost of a block as far as it may be below `limit`, and keeps nothing. Gives up
    /// when what was run, and what the rest takes at least, reaches the limit. `part`: the pieces of
    /// a set of some of the block's atoms.
    pub(crate) fn compute_below(
        &self,
        block: &AtomBlock,
        limit: Cycles,
        part: &[Cycles],
    ) -> KnownCost {
        self.run(block, |cycles, pieces| {
            let least = cycles + self.rest_at_least(part, pieces);
            (least >= limit).then_some(least)
        })
    }

    /// What a block of one line takes at least after some pieces, if the fetches of a part of it
    /// take these. What makes the part fetch the line, a store of another core, takes it from the
    /// whole block's cores, too; but before these pieces others of its accesses may have fetched it.
    fn rest_at_least(&self, part: &[Cycles], pieces: usize) -> Cycles {
        let rest = known::last(part) - part[pieces - 1];
        rest.saturating_sub(self.costs.spared())
    }

    /// Keeps what is known of a set's cost.
    pub(crate) fn keep(&self, mark: Mark, known: KnownCost) {
        self.known.insert(mark, known);
    }

    fn run(
        &self,
        block: &AtomBlock,
        give_up: impl Fn(Cycles, usize) -> Option<Cycles>,
    ) -> KnownCost {
        let class = &self.classes[block.class];
        if self.costs.few_cores() {
            let mut bench: Bench<'_, FewCopies> = Bench::new(&self.costs, self.trace.cpus);
            class.run(self.trace, &block.entries, &mut bench, give_up)
        } else {
            let mut bench: Bench<'_, ManyCopies> = Bench::new(&self.costs, self.trace.cpus);
            class.run(self.trace, &block.entries, &mut bench, give_up)
        }
    }
}

#[cfg(test)]
mod tests {
    use linemate_recording::CpuId;

    use super::*;
    use crate::random::{self, MEMBERS, dice};
    use crate::trace::{Act, Event, ObjectTrace};

    #[test]
    fn a_block_takes_at_least_what_a_part_of_it_takes() {
        let machines = ["turin-2s", "gnr-2s-480", "westmere-4s-80"];
        for seed in 0..20 {
            random::with_search(seed, &machines, |search| {
                for model in search.objective.models {
                    // Half of the atoms, and all but some of those.
                    let one_in = |what: u16, one: u32| dice(seed, what.into(), one) == 0;
                    let half: Vec<AtomOnLine> = (0..MEMBERS)
                        .filter(|atom| one_in(*atom, 2))
                        .map(|atom| AtomOnLine { atom, line: 0 })
                        .collect();
                    let most = half.iter().filter(|e| !one_in(2 * MEMBERS + e.atom, 6));
                    let most: Vec<AtomOnLine> = most.copied().collect();
                    for class in 0..model.classes.len() {
                        let part = model.run(&AtomBlock::new(class, most.clone()), |_, _| None);
                        let KnownCost::Cost { fetches, .. } = part else {
                            panic!("nothing gives it up");
                        };
                        let whole = AtomBlock::new(class, half.clone());
                        let total = model.compute(&whole);
                        assert!(total >= known::last(&fetches), "seed {seed}");
                        model.run(&whole, |so_far, pieces| {
                            let least = so_far + model.rest_at_least(&fetches, pieces);
                            assert!(
                                least <= total,
                                "seed {seed}, after {pieces}: {least} of {total}"
                            );
                            None
                        });
                    }
                }
            });
        }
    }

    /// What the block of members 0 and 1 on these lines costs, and what it is said to take at least
    /// by what member 1 takes alone, if CPUs do `turn` again and again.
    fn cost_and_bound(
        machine: &str,
        turn: &[(u16, u16, Kind)],
        lines: [u8; 2],
    ) -> (Cycles, Cycles) {
        let event = |(number, (cpu, atom, kind)): (u32, (u16, u16, Kind))| Event {
            round: number,
            at: 0,
            atom,
            act: Act::new(CpuId(cpu), kind),
        };
        let turns = turn.iter().copied().cycle().take(100 * turn.len());
        let trace = Trace {
            objects: vec![ObjectTrace {
                residue: 0,
                events: (0..).zip(turns).map(event).collect(),
            }],
            cpus: 8,
            ..Trace::default()
        };
        random::with_search_of(&trace, &[machine], |search| {
            let model = &search.objective.models[0];
            let entries = (0u16..).zip(lines);
            let entries = entries.map(|(atom, line)| AtomOnLine { atom, line });
            let entries: Vec<AtomOnLine> = entries.collect();
            let alone = AtomBlock::new(0, entries[1..].to_vec());
            let whole = AtomBlock::new(0, entries);
            let part = model.largest_common(&whole, &[alone]);
            model.compute(&part);
            let least = known::last(&model.pieces(part.mark).expect("computed"));
            (model.compute(&whole), least)
        })
    }

    #[test]
    fn a_lock_spares_the_load_and_the_store_after_it() {
        let section = |cpu| {
            [
                (cpu, 0, Kind::Rmw),
                (cpu, 1, Kind::Load),
                (cpu, 1, Kind::Store),
            ]
        };
        let turn = [section(0), section(4)].concat();
        let (whole, least) = cost_and_bound("turin-2s", &turn, [0, 0]);
        assert!(Cycles::ZERO < least && least <= whole, "{least} {whole}");
    }

    #[test]
    fn an_access_from_afar_spares_those_nearby() {
        // Two CPUs to a socket. A load before others' loads; a store before others' load and store.
        let loads = |writer: u16| {
            [
                (writer, 1, Kind::Store),
                (4, 0, Kind::Load),
                (writer + 1, 1, Kind::Load),
                (4, 1, Kind::Load),
            ]
        };
        let loads = [loads(0), loads(2)].concat();
        let stores = vec![
            (4, 1, Kind::Store),
            (1, 0, Kind::Store),
            (0, 1, Kind::Load),
            (1, 1, Kind::Store),
        ];
        for turn in [loads, stores] {
            let (whole, least) = cost_and_bound("westmere-4s-80", &turn, [0, 0]);
            assert!(Cycles::ZERO < least && least <= whole, "{least} {whole}");
        }
    }

    #[test]
    fn nothing_is_claimed_of_a_pair_of_lines() {
        let turn = [(0, 1, Kind::Store), (4, 1, Kind::Load), (4, 0, Kind::Load)];
        let bound = |lines| cost_and_bound("westmere-4s-80", &turn, lines).1;
        assert!(bound([0, 0]) > Cycles::ZERO);
        assert_eq!(bound([0, 1]), Cycles::ZERO);
    }

    #[test]
    fn a_store_spares_later_accesses_their_waiting_and_an_atomic_its_own_cycles() {
        let event = |round: u32, at: u32, cpu: u16, atom: u16, kind: Kind| Event {
            round,
            at,
            atom,
            act: Act::new(CpuId(cpu), kind),
        };
        // CPU 0 stores to member 0, or not; long after that, both CPUs write member 1 at once.
        let round = |round: u32| {
            [
                event(round, 0, 0, 0, Kind::Store),
                event(round, 5_000, 0, 1, Kind::Rmw),
                event(round, 5_000, 1, 1, Kind::Store),
            ]
        };
        let trace = Trace {
            objects: vec![ObjectTrace {
                residue: 0,
                events: (0..100).flat_map(round).collect(),
            }],
            cpus: 2,
            ..Trace::default()
        };
        random::with_search_of(&trace, &["turin-2s"], |search| {
            let model = &search.objective.models[0];
            let of = |atoms: &[u16]| {
                let entry = |atom: &u16| AtomOnLine {
                    atom: *atom,
                    line: 0,
                };
                AtomBlock::new(0, atoms.iter().map(entry).collect())
            };
            let part = of(&[1]);
            let (alone, whole) = (model.compute(&part), model.compute(&of(&[0, 1])));
            let least = known::last(&model.pieces(part.mark).expect("computed"));
            assert!(whole < alone, "{whole} {alone}");
            assert!(least <= whole, "{least} {whole}");
        });
    }
}
