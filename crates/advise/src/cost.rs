//! The cost of a layout by the fast model: MESIF over the lines of one type's objects.
//!
//! The model is replay's (docs/model/replay.md) with four simplifications: nothing is ever
//! evicted, the lines around the type do not exist, only the type's own accesses stall a CPU, and
//! stalls delay accesses without changing their order. As in a warm replay, each object's lines
//! start as its last events leave them. In exchange the cost of a layout is a sum over *blocks* (a
//! line; the aligned pair of lines if the machine fetches pairs), each of which depends only on the
//! atoms on it: it is computed once per set of atoms.

mod class;
mod costs;
mod lanes;

use std::sync::RwLock;

use linemate_attribution::tally::{CpuSet, RARE_PART};
use linemate_layout::origin::BUILT_LINE;
use linemate_machine::Machine;
use linemate_recording::{Accesses, Cycles};
use linemate_replay::mix;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::error::AdviseError;
use crate::shape::{Metrics, StructShape, UnitLayout};
use crate::trace::{Kind, Trace, Use};
use class::{AtomOnLine, Class};
use costs::Costs;
use lanes::LaneSet;

/// How many times longer a slice takes than its instructions, because of other stalls: replay's
/// duration over the sum of its rounds' longest slices is 1.6 to 2.6 on the recordings of
/// evidence/benchmarks.md.
pub const STRETCH: u64 = 2;

/// How many blocks are replayed together at least, if there are as many. A choice, not measured: a
/// pass reads all events, however few blocks it has.
const LANES_LEAST: usize = 16;

/// The events of one recording, to be costed on one machine.
#[derive(Debug)]
pub struct CostModel<'t> {
    trace: &'t Trace,
    costs: Costs,
    metrics: Metrics,
    classes: Vec<Class>,
    /// By the sum of its entries' marks: the cost of a block. That two sets of atoms have the same
    /// sum is less likely than a flipped bit.
    known: RwLock<FxHashMap<u128, Cycles>>,
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
        let costs = Costs::new(machine, trace)?;
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
        })
    }

    /// The placement that units require in a kernel for this machine.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Events of an atom.
    pub fn uses(&self, atom: usize) -> usize {
        self.classes.iter().map(|c| c.events[atom]).sum()
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
        let blocks = self.blocks(shape, placed);
        let missing = self.unknown(shape, placed, &blocks);
        if !missing.is_empty() {
            self.compute(missing);
        }
        // A panic in a worker leaves the map intact: entries are inserted in one step.
        let known = self.known.read().unwrap_or_else(|e| e.into_inner());
        blocks.iter().map(|block| known[&block.mark]).sum()
    }

    /// Computes at once what [`CostModel::cost`] of these layouts needs: many blocks together take
    /// a fraction of the time that they take one by one.
    pub fn prepare(&self, shape: &StructShape, layouts: &[UnitLayout]) {
        let missing = layouts.par_iter().flat_map_iter(|placed| {
            let blocks = self.blocks(shape, placed);
            self.unknown(shape, placed, &blocks)
        });
        self.compute(missing.collect());
    }

    /// The cost of units that share one line with nothing else, for each of several sets of units.
    pub fn together(&self, shape: &StructShape, sets: &[Vec<usize>]) -> Vec<Cycles> {
        let of_set = |units: &Vec<usize>| -> Vec<BlockAtoms> {
            let classes = 0..self.classes.len();
            classes
                .map(|class| self.on_one_line(shape, class, units))
                .collect()
        };
        let blocks: Vec<Vec<BlockAtoms>> = sets.par_iter().map(of_set).collect();
        let known = self.known.read().unwrap_or_else(|e| e.into_inner());
        let missing = blocks.iter().flatten();
        let missing = missing.filter(|block| !known.contains_key(&block.mark));
        let missing: Vec<BlockAtoms> = missing.cloned().collect();
        drop(known);
        self.compute(missing);
        let known = self.known.read().unwrap_or_else(|e| e.into_inner());
        let cost = |blocks: &Vec<BlockAtoms>| blocks.iter().map(|b| known[&b.mark]).sum();
        blocks.iter().map(cost).collect()
    }

    fn on_one_line(&self, shape: &StructShape, class: usize, units: &[usize]) -> BlockAtoms {
        let used = self.classes[class].used.iter().copied();
        let of = used.filter(|a| units.contains(&usize::from(shape.atoms[usize::from(*a)].unit)));
        let atoms: Vec<AtomOnLine> = of.map(|atom| AtomOnLine { atom, line: 0 }).collect();
        let marks = atoms.iter().map(|on| mark(class, *on));
        BlockAtoms {
            class,
            mark: marks.fold(0, u128::wrapping_add),
            atoms,
        }
    }

    /// The blocks of a layout that have events.
    fn blocks(&self, shape: &StructShape, placed: &UnitLayout) -> Vec<LayoutBlock> {
        let mut blocks = Vec::new();
        let mut marks: Vec<u128> = Vec::new();
        for class in 0..self.classes.len() {
            marks.clear();
            for &atom in &self.classes[class].used {
                let place = self.place_of(class, shape, placed, atom);
                if place.block >= marks.len() {
                    marks.resize(place.block + 1, 0);
                }
                let on = AtomOnLine {
                    atom,
                    line: place.line,
                };
                // A sum, which no order of the atoms changes: members in another order on one line
                // are a look-up.
                marks[place.block] = marks[place.block].wrapping_add(mark(class, on));
            }
            let numbered = marks.iter().enumerate().filter(|(_, mark)| **mark != 0);
            blocks.extend(numbered.map(|(number, mark)| LayoutBlock {
                class,
                number,
                mark: *mark,
            }));
        }
        blocks
    }

    /// Those of a layout's blocks whose cost is not known.
    fn unknown(
        &self,
        shape: &StructShape,
        placed: &UnitLayout,
        blocks: &[LayoutBlock],
    ) -> Vec<BlockAtoms> {
        let known = self.known.read().unwrap_or_else(|e| e.into_inner());
        let missing = blocks.iter().filter(|b| !known.contains_key(&b.mark));
        let with_atoms = |block: &LayoutBlock| {
            let used = self.classes[block.class].used.iter().copied();
            let placed = used.map(|a| (a, self.place_of(block.class, shape, placed, a)));
            let inside = placed.filter(|(_, place)| place.block == block.number);
            BlockAtoms {
                class: block.class,
                mark: block.mark,
                atoms: inside
                    .map(|(atom, place)| AtomOnLine {
                        atom,
                        line: place.line,
                    })
                    .collect(),
            }
        };
        missing.map(with_atoms).collect()
    }

    /// Where an atom is.
    #[inline]
    fn place_of(
        &self,
        class: usize,
        shape: &StructShape,
        placed: &UnitLayout,
        atom: u16,
    ) -> AtomPlace {
        let unit = usize::from(shape.atoms[usize::from(atom)].unit);
        let within = u64::from(self.metrics.within[usize::from(atom)]);
        // Known only modulo 128, so the pairs of 128-byte lines are unknown: no described machine
        // has such pairs.
        let at = placed.residue(self.classes[class].residue).0 + placed.start(unit).0 + within;
        let line = at / self.costs.line;
        if self.costs.pairs {
            AtomPlace {
                block: (line / 2) as usize,
                line: (line % 2) as u8,
            }
        } else {
            AtomPlace {
                block: line as usize,
                line: 0,
            }
        }
    }

    /// Replays the events of blocks, and keeps their costs. Two threads may compute the same block
    /// at once, and both get the same number.
    fn compute(&self, mut blocks: Vec<BlockAtoms>) {
        // Those that have most in common are replayed together.
        blocks.par_sort_unstable();
        blocks.dedup_by_key(|block| block.mark);
        let costs: Vec<Vec<Cycles>> = blocks
            .chunk_by(|a, b| a.class == b.class)
            .flat_map(|of_class| of_class.chunks(at_once(of_class.len())))
            .collect::<Vec<_>>()
            .into_par_iter()
            .map(|together| {
                let atoms: Vec<&[AtomOnLine]> = together.iter().map(|b| &b.atoms[..]).collect();
                let class = &self.classes[together[0].class];
                class.run(self.trace, &self.costs, &atoms)
            })
            .collect();
        let mut known = self.known.write().unwrap_or_else(|e| e.into_inner());
        let marks = blocks.iter().map(|block| block.mark);
        known.extend(marks.zip(costs.into_iter().flatten()));
    }
}

/// How many of that many blocks are replayed together: in parts of the same size, one for each
/// thread if there are enough.
fn at_once(blocks: usize) -> usize {
    let threads = rayon::current_num_threads();
    let parts = blocks.div_ceil(LaneSet::MOST).next_multiple_of(threads);
    blocks.div_ceil(parts.max(1)).max(LANES_LEAST)
}

/// A line, or an aligned pair of lines, of a layout.
#[derive(Clone, Copy, Debug)]
struct LayoutBlock {
    class: usize,
    /// Its place in the layout.
    number: usize,
    mark: u128,
}

/// What is in a block.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BlockAtoms {
    class: usize,
    atoms: Vec<AtomOnLine>,
    mark: u128,
}

/// Which block an atom is in, and on which of its lines.
#[derive(Clone, Copy, Debug)]
struct AtomPlace {
    block: usize,
    line: u8,
}

/// A number for an atom on a line; sums of them represent sets.
#[inline]
fn mark(class: usize, on: AtomOnLine) -> u128 {
    let key = (class as u64) << 32 | u64::from(on.atom) << 8 | u64::from(on.line);
    u128::from(mix(key)) << 64 | u128::from(mix(key ^ 0x5555_5555_5555_5555))
}
