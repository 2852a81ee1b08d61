//! Objects that start at the same place within a pair of lines, and which of their events a block
//! has.

use std::ops::Range;

use linemate_recording::Cycles;

use super::bench::Bench;
use super::numbers::NumberSet;
use crate::shape::StructShape;
use crate::trace::{Event, Trace};

/// An atom of a block, and which line of the block it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AtomOnLine {
    pub(super) atom: u16,
    pub(super) line: u8,
}

/// Objects with the same start modulo 128.
#[derive(Debug)]
pub(super) struct Class {
    /// Their start modulo 128.
    pub(super) residue: u8,
    /// The objects, each with the number of events before it.
    objects: Vec<(u32, u32)>,
    /// The number of events of all objects.
    events: u32,
    /// By atom: the numbers of its events, counted through the objects.
    pub(super) index: Vec<Vec<u32>>,
    /// The atoms that have events.
    pub(super) used: Vec<u16>,
}

impl Class {
    pub(super) fn new(residue: u8, numbers: &[u32], trace: &Trace, shape: &StructShape) -> Class {
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

    /// The cycles of the events of these atoms. Each object's lines start as its last events leave
    /// them: those are run first, and their cycles dropped.
    pub(super) fn run(
        &self,
        trace: &Trace,
        entries: &[AtomOnLine],
        bench: &mut Bench<'_>,
    ) -> Cycles {
        let chosen = self.choose(entries);
        let mut cycles = Cycles::ZERO;
        for (number, &(object, first)) in self.objects.iter().enumerate() {
            let next = self.objects.get(number + 1);
            let end = next.map_or(self.events, |(_, start)| *start);
            // A sample has such objects, often most.
            if first == end {
                continue;
            }
            let events = &trace.objects[object as usize].events;
            let at = |number: u32| {
                let event = &events[(number - first) as usize];
                (event, chosen.lines[usize::from(event.atom)])
            };
            let from = since_last_writes(&chosen, first..end, at);
            bench.start_object();
            chosen.events.each(from..end, |number| {
                let (event, line) = at(number);
                bench.access(event, line);
            });
            bench.start_again();
            chosen.events.each(first..end, |number| {
                let (event, line) = at(number);
                cycles += bench.access(event, line);
            });
        }
        cycles
    }

    fn choose(&self, entries: &[AtomOnLine]) -> Chosen {
        let mut chosen = Chosen {
            events: NumberSet::below(self.events),
            lines: vec![0u8; self.index.len()],
            used: [false; 2],
        };
        for entry in entries {
            chosen.events.insert(&self.index[usize::from(entry.atom)]);
            chosen.lines[usize::from(entry.atom)] = entry.line;
            chosen.used[usize::from(entry.line)] = true;
        }
        chosen
    }
}

/// The events of a block.
struct Chosen {
    /// Their numbers. A set sorts those of all atoms: an atom has thousands, and sorting them took
    /// half of the search.
    events: NumberSet,
    /// By atom: its line of the block.
    lines: Vec<u8>,
    /// The lines of the block that have atoms.
    used: [bool; 2],
}

/// The number of the first event from which on each used line is written: of the lines' last
/// writes the earliest. What precedes a write leaves no trace.
fn since_last_writes<'t>(
    chosen: &Chosen,
    range: Range<u32>,
    at: impl Fn(u32) -> (&'t Event, u8),
) -> u32 {
    let mut missing = chosen.used;
    let earliest = chosen.events.find_last(range.clone(), |number| {
        let (event, line) = at(number);
        if event.act.kind().writes() {
            missing[usize::from(line)] = false;
        }
        missing == [false; 2]
    });
    earliest.unwrap_or(range.start)
}
