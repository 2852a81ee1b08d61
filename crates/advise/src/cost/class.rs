//! Objects that start at the same place within a pair of lines, and the events that blocks of them
//! have.

use linemate_recording::Cycles;

use super::costs::Costs;
use super::lanes::{Lane, LaneSet, Lanes};
use crate::shape::StructShape;
use crate::trace::{Event, Trace};

/// An atom of a block, and which line of the block it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AtomOnLine {
    pub(super) atom: u16,
    pub(super) line: u8,
}

/// Objects with the same start modulo 128.
#[derive(Debug)]
pub(super) struct Class {
    /// Their start modulo 128.
    pub(super) residue: u8,
    /// Their numbers, without those that have no event: a sample has such objects, often most.
    objects: Vec<u32>,
    /// By atom: how many events it has.
    pub(super) events: Vec<usize>,
    /// The atoms that have events.
    pub(super) used: Vec<u16>,
}

impl Class {
    pub(super) fn new(residue: u8, numbers: &[u32], trace: &Trace, shape: &StructShape) -> Class {
        let mut events = vec![0; shape.atoms.len()];
        let of = |number: &u32| &trace.objects[*number as usize].events;
        for event in numbers.iter().flat_map(of) {
            events[usize::from(event.atom)] += 1;
        }
        let atoms = (0u16..).zip(&events);
        let used = atoms.filter(|(_, count)| **count != 0);
        Class {
            residue,
            objects: numbers
                .iter()
                .copied()
                .filter(|number| !of(number).is_empty())
                .collect(),
            used: used.map(|(atom, _)| atom).collect(),
            events,
        }
    }

    /// The cycles of the events of each of some blocks, at most [`LaneSet::MOST`], each given as
    /// its atoms. An object's lines start as its last events leave them: those are run first, and
    /// do not count.
    pub(super) fn run(
        &self,
        trace: &Trace,
        costs: &Costs,
        blocks: &[&[AtomOnLine]],
    ) -> Vec<Cycles> {
        let chosen = Chosen::new(self.events.len(), blocks);
        let mut lanes = Lanes::new(costs, blocks.len(), trace.cpus);
        for object in &self.objects {
            let events = &trace.objects[*object as usize].events;
            lanes.start_object();
            chosen.warm_up(events, &mut lanes);
            lanes.start_again();
            for event in events {
                chosen.access(event, chosen.all, &mut lanes);
            }
        }
        lanes.into_cycles()
    }
}

/// The atoms of several blocks.
struct Chosen {
    /// By atom, then line: the blocks that have it there.
    lanes: Vec<[LaneSet; 2]>,
    /// By line: the blocks that have atoms on it.
    used: [LaneSet; 2],
    /// The set of all blocks.
    all: LaneSet,
}

impl Chosen {
    fn new(atoms: usize, blocks: &[&[AtomOnLine]]) -> Chosen {
        let mut chosen = Chosen {
            lanes: vec![[LaneSet::default(); 2]; atoms],
            used: [LaneSet::default(); 2],
            all: LaneSet::default(),
        };
        for (lane, entries) in (0u8..).map(Lane).zip(blocks) {
            chosen.all.insert(lane);
            for entry in *entries {
                let line = usize::from(entry.line);
                chosen.lanes[usize::from(entry.atom)][line].insert(lane);
                chosen.used[line].insert(lane);
            }
        }
        chosen
    }

    /// The event in those blocks of `among` that have its atom.
    #[inline]
    fn access(&self, event: &Event, among: LaneSet, lanes: &mut Lanes<'_>) {
        let of = &self.lanes[usize::from(event.atom)];
        for (line, inside) in of.iter().enumerate() {
            let inside = inside.and(among);
            if !inside.is_empty() {
                lanes.access(event, line, inside);
            }
        }
    }

    /// Brings each block to the state in which the object's events leave it.
    fn warm_up(&self, events: &[Event], lanes: &mut Lanes<'_>) {
        let starts = self.since_last_writes(events);
        let mut among = LaneSet::default();
        let mut starts = starts.iter().rev().peekable();
        let Some(first) = starts.peek().map(|start| start.event) else {
            return;
        };
        for (number, event) in events.iter().enumerate().skip(first) {
            while let Some(start) = starts.next_if(|start| start.event == number) {
                among = among.or(start.lanes);
            }
            self.access(event, among, lanes);
        }
    }

    /// From which event on each of a block's lines in use is written: of the lines' last writes the
    /// earliest. What precedes a write leaves no trace. The last events first; blocks of which a
    /// line is never written have the object's first.
    fn since_last_writes(&self, events: &[Event]) -> Vec<WarmUpStart> {
        let mut missing = self.used;
        let mut left = self.all;
        let mut starts = Vec::new();
        for (number, event) in events.iter().enumerate().rev() {
            if event.act.kind().writes() {
                let of = &self.lanes[usize::from(event.atom)];
                for (missing, written) in missing.iter_mut().zip(of) {
                    *missing = missing.without(*written);
                }
            }
            let found = match number {
                0 => left,
                _ => left.without(missing[0].or(missing[1])),
            };
            if !found.is_empty() {
                left = left.without(found);
                starts.push(WarmUpStart {
                    event: number,
                    lanes: found,
                });
            }
            if left.is_empty() {
                break;
            }
        }
        starts
    }
}

/// Where some blocks' events begin.
struct WarmUpStart {
    event: usize,
    lanes: LaneSet,
}
