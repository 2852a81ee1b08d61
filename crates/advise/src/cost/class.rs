//! Objects that start at the same place within a pair of lines, and which of their events a block has.

use std::ops::Range;

use super::bench::BlockEvent;
use crate::shape::StructShape;
use crate::trace::Trace;

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

    /// Calls `then` for each object that has events of these atoms: with those events in order, and
    /// with the last of them, which decide how the object's lines are left.
    pub(super) fn each_object(
        &self,
        trace: &Trace,
        entries: &[AtomOnLine],
        mut then: impl FnMut(&[BlockEvent], &[BlockEvent]),
    ) {
        // A set of numbers sorts the atoms' events: an atom has thousands, and sorting them took
        // half of the search.
        let mut chosen = vec![0u64; self.events.div_ceil(64) as usize];
        let mut lines = vec![0u8; self.index.len()];
        let mut used = [false; 2];
        for entry in entries {
            for event in &self.index[usize::from(entry.atom)] {
                chosen[(event / 64) as usize] |= 1 << (event % 64);
            }
            lines[usize::from(entry.atom)] = entry.line;
            used[usize::from(entry.line)] = true;
        }
        let mut gathered: Vec<BlockEvent> = Vec::new();
        for (number, &(object, first)) in self.objects.iter().enumerate() {
            let next = self.objects.get(number + 1);
            let end = next.map_or(self.events, |(_, start)| *start);
            let events = &trace.objects[object as usize].events;
            gathered.clear();
            each_bit(&chosen, first..end, |number| {
                let event = &events[(number - first) as usize];
                gathered.push(BlockEvent::new(event, lines[usize::from(event.atom)]));
            });
            if !gathered.is_empty() {
                then(&gathered, since_last_writes(&gathered, used));
            }
        }
    }
}

/// The numbers of the bits that are set in a range, in order.
#[inline]
fn each_bit(words: &[u64], range: Range<u32>, mut then: impl FnMut(u32)) {
    for place in range.start / 64..range.end.div_ceil(64) {
        let from = place * 64;
        let mut left = words[place as usize];
        if from < range.start {
            left &= u64::MAX << (range.start - from);
        }
        if range.end - from < 64 {
            left &= (1 << (range.end - from)) - 1;
        }
        while left != 0 {
            then(from + left.trailing_zeros());
            left &= left - 1;
        }
    }
}

/// The events from the last write on, of the `used` line whose last write is the earliest. What
/// precedes a write leaves no trace.
fn since_last_writes(events: &[BlockEvent], used: [bool; 2]) -> &[BlockEvent] {
    let mut missing = used;
    let mut from = events.len();
    while from > 0 && missing != [false; 2] {
        from -= 1;
        let event = &events[from];
        if event.kind.writes() {
            missing[usize::from(event.line)] = false;
        }
    }
    &events[from..]
}
