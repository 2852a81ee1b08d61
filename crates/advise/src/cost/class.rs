//! Objects that start at the same place within a pair of lines, and which of their events a block has.

use std::ops::Range;

use linemate_recording::Cycles;

use super::bench::{AccessCost, Bench};
use super::copies::Copies;
use super::known::{AtomOnLine, KnownCost};
use super::numbers::NumberSet;
use crate::shape::StructShape;
use crate::trace::{AtomAct, Trace};

/// Into how many pieces of about the same length the events of all objects are cut: how often a run
/// may be given up. A guess: half a kilobyte for each set whose cost is known.
pub(super) const PIECES: usize = 64;

/// Objects with the same start modulo 128.
#[derive(Debug)]
pub(super) struct Class {
    /// Their start modulo 128.
    pub(super) residue: u8,
    /// The objects, each with the number of events before it.
    objects: Vec<(u32, u32)>,
    /// The number of events of all objects.
    events: u32,
    /// By piece: the number of the event after it.
    piece_ends: Vec<u32>,
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
            for touch in trace.objects[object as usize].events.touches() {
                index[usize::from(touch.atom)].push(count);
                count += 1;
            }
        }
        let atoms = (0u16..).zip(&index);
        let used = atoms.filter(|(_, events)| !events.is_empty());
        Class {
            residue,
            objects,
            events: count,
            piece_ends: (1..=PIECES).map(|piece| piece_end(count, piece)).collect(),
            used: used.map(|(atom, _)| atom).collect(),
            index,
        }
    }

    /// The cycles of the events of these atoms, unless `give_up` says, of the cycles so far and the
    /// number of pieces that were run, what they are at least. Each object's lines start as its last events leave
    /// them: those are run first, and their cycles dropped.
    pub(super) fn run<C: Copies>(
        &self,
        trace: &Trace,
        entries: &[AtomOnLine],
        bench: &mut Bench<'_, C>,
        give_up: impl Fn(Cycles, usize) -> Option<Cycles>,
    ) -> KnownCost {
        let chosen = self.choose(entries);
        let mut cost = AccessCost::default();
        let mut pieces = Vec::with_capacity(self.piece_ends.len());
        for (number, &(object, first)) in self.objects.iter().enumerate() {
            let next = self.objects.get(number + 1);
            let end = next.map_or(self.events, |(_, start)| *start);
            let events = &trace.objects[object as usize].events;
            let (touches, moments) = (events.touches(), events.moments());
            let at = |number: u32| {
                let touch = touches[(number - first) as usize];
                (touch, chosen.lines[usize::from(touch.atom)])
            };
            let access = |bench: &mut Bench<'_, C>, number: u32| {
                let (touch, line) = at(number);
                bench.access(touch, line, || moments[(number - first) as usize])
            };
            let from = since_last_writes(&chosen, first..end, at);
            bench.start_object();
            chosen.events.each(from..end, |number| {
                access(bench, number);
            });
            bench.start_again();
            let mut here = first;
            while here < end {
                let until = self.piece_ends[pieces.len()].min(end);
                chosen.events.each(here..until, |number| {
                    cost += access(bench, number);
                });
                here = until;
                while self.piece_ends.get(pieces.len()) == Some(&here) {
                    pieces.push(cost.fetch);
                    if let Some(least) = give_up(cost.cycles, pieces.len()) {
                        return KnownCost::AtLeast(least);
                    }
                }
            }
        }
        KnownCost::Cost {
            cycles: cost.cycles,
            fetches: pieces.into(),
        }
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

/// The number of the event after a piece, of `events` in all; pieces count from 1.
fn piece_end(events: u32, piece: usize) -> u32 {
    (events as usize * piece / PIECES) as u32
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
fn since_last_writes(chosen: &Chosen, range: Range<u32>, at: impl Fn(u32) -> (AtomAct, u8)) -> u32 {
    let mut missing = chosen.used;
    let earliest = chosen.events.find_last(range.clone(), |number| {
        let (touch, line) = at(number);
        if touch.act.kind().writes() {
            missing[usize::from(line)] = false;
        }
        missing == [false; 2]
    });
    earliest.unwrap_or(range.start)
}
