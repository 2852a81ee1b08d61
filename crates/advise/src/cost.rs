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
mod numbers;

use std::sync::RwLock;

use linemate_attribution::tally::{CpuSet, RARE_PART};
use linemate_layout::origin::BUILT_LINE;
use linemate_machine::Machine;
use linemate_recording::{Accesses, Cycles};
use linemate_replay::mix;
use rustc_hash::FxHashMap;

use crate::error::AdviseError;
use crate::shape::{Metrics, StructShape, UnitLayout};
use crate::trace::{Kind, Trace, Use};
use bench::{Bench, Costs};
use class::{AtomOnLine, Class};

/// How many times longer a slice takes than its instructions, because of other stalls: replay's
/// duration over the sum of its rounds' longest slices is 1.6 to 2.6 on the recordings of
/// evidence/benchmarks.md.
pub const STRETCH: u64 = 2;

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
        let mut marks: Vec<u128> = Vec::new();
        let mut cycles = Cycles::ZERO;
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
                    let entry = |(atom, place): (u16, (usize, u8))| AtomOnLine {
                        atom,
                        line: place.1,
                    };
                    inside.map(entry).collect()
                });
            }
        }
        cycles
    }

    /// The cost of units that share one line with nothing else.
    pub fn together(&self, shape: &StructShape, units: &[usize]) -> Cycles {
        let of_units = |class: usize| -> Vec<AtomOnLine> {
            let used = self.classes[class].used.iter();
            let of =
                used.filter(|a| units.contains(&usize::from(shape.atoms[usize::from(**a)].unit)));
            of.map(|atom| AtomOnLine {
                atom: *atom,
                line: 0,
            })
            .collect()
        };
        let cost = |class: usize| {
            let entries = of_units(class);
            let marks = entries.iter().map(|e| mark(class, e.atom, e.line));
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

    fn block(&self, class: usize, mark: u128, entries: impl FnOnce() -> Vec<AtomOnLine>) -> Cycles {
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
    fn work_out(&self, class: usize, entries: &[AtomOnLine]) -> Cycles {
        let mut bench = Bench::new(&self.costs, self.trace.cpus);
        self.classes[class].run(self.trace, entries, &mut bench)
    }
}

/// A number for an atom on a line; sums of them represent sets.
#[inline]
fn mark(class: usize, atom: u16, line: u8) -> u128 {
    let key = (class as u64) << 32 | u64::from(atom) << 8 | u64::from(line);
    u128::from(mix(key)) << 64 | u128::from(mix(key ^ 0x5555_5555_5555_5555))
}
