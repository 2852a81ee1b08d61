//! Objects that start at the same place within a pair of lines, and which of their events a block has.

use std::ops::Range;

use linemate_recording::Cycles;

use super::bench::Bench;
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
            let events = &trace.objects[object as usize].events;
            let at = |number: u32| {
                let event = &events[(number - first) as usize];
                (event, chosen.lines[usize::from(event.atom)])
            };
            let from = since_last_writes(&chosen, first..end, at);
            bench.start_object();
            each_bit(&chosen.events, from..end, |number| {
                let (event, line) = at(number);
                bench.access(event, line);
            });
            bench.start_again();
            each_bit(&chosen.events, first..end, |number| {
                let (event, line) = at(number);
                cycles += bench.access(event, line);
            });
        }
        cycles
    }

    fn choose(&self, entries: &[AtomOnLine]) -> Chosen {
        let mut chosen = Chosen {
            events: vec![0u64; self.events.div_ceil(64) as usize],
            lines: vec![0u8; self.index.len()],
            used: [false; 2],
        };
        for entry in entries {
            for event in &self.index[usize::from(entry.atom)] {
                chosen.events[(event / 64) as usize] |= 1 << (event % 64);
            }
            chosen.lines[usize::from(entry.atom)] = entry.line;
            chosen.used[usize::from(entry.line)] = true;
        }
        chosen
    }
}

/// The events of a block.
struct Chosen {
    /// A set of their numbers, which sorts the atoms' events: an atom has thousands, and sorting
    /// them took half of the search.
    events: Vec<u64>,
    /// By atom: its line of the block.
    lines: Vec<u8>,
    /// The lines of the block that have atoms.
    used: [bool; 2],
}

/// The numbers of the bits that are set in a range, in order.
#[inline]
fn each_bit(words: &[u64], range: Range<u32>, mut then: impl FnMut(u32)) {
    for place in range.start / 64..range.end.div_ceil(64) {
        let mut left = word(words, place, &range);
        while left != 0 {
            then(place * 64 + left.trailing_zeros());
            left &= left - 1;
        }
    }
}

/// A word's bits within a range.
#[inline]
fn word(words: &[u64], place: u32, range: &Range<u32>) -> u64 {
    let from = place * 64;
    let mut bits = words[place as usize];
    if from < range.start {
        bits &= u64::MAX << (range.start - from);
    }
    if range.end - from < 64 {
        bits &= (1 << (range.end - from)) - 1;
    }
    bits
}

/// The number of the first event from which on each used line is written: of the lines' last
/// writes the earliest. What precedes a write leaves no trace.
fn since_last_writes<'t>(
    chosen: &Chosen,
    range: Range<u32>,
    at: impl Fn(u32) -> (&'t Event, u8),
) -> u32 {
    let mut missing = chosen.used;
    for place in (range.start / 64..range.end.div_ceil(64)).rev() {
        let mut left = word(&chosen.events, place, &range);
        while left != 0 {
            let number = place * 64 + left.ilog2();
            let (event, line) = at(number);
            if event.kind.writes() {
                missing[usize::from(line)] = false;
                if missing == [false; 2] {
                    return number;
                }
            }
            left &= !(1 << left.ilog2());
        }
    }
    range.start
}
