//! Sets of atoms that share a block, and what is known of their costs.

use std::sync::{Arc, RwLock};

use linemate_recording::Cycles;
use linemate_replay::mix;
use rustc_hash::FxHashMap;

/// An atom of a block, and which line of the block it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AtomOnLine {
    pub(super) atom: u16,
    pub(super) line: u8,
}

/// Which set of atoms a block has: the sum of its entries' numbers, which no order of them changes.
/// That two sets have the same sum is less likely than a flipped bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Mark(u128);

impl Mark {
    /// The set with an atom of a class more.
    #[inline]
    pub(super) fn with(self, class: usize, entry: AtomOnLine) -> Mark {
        let key = (class as u64) << 32 | u64::from(entry.atom) << 8 | u64::from(entry.line);
        let number = u128::from(mix(key)) << 64 | u128::from(mix(key ^ 0x5555_5555_5555_5555));
        Mark(self.0.wrapping_add(number))
    }

    /// Whether no atom is in it.
    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self == Mark::default()
    }
}

/// A block of a layout.
#[derive(Clone, Debug)]
pub(crate) struct AtomBlock {
    pub(super) class: usize,
    pub(super) entries: Vec<AtomOnLine>,
    /// Which set of atoms it has.
    pub(crate) mark: Mark,
}

impl AtomBlock {
    pub(super) fn new(class: usize, entries: Vec<AtomOnLine>) -> AtomBlock {
        let with = |mark: Mark, entry: &AtomOnLine| mark.with(class, *entry);
        AtomBlock {
            class,
            mark: entries.iter().fold(Mark::default(), with),
            entries,
        }
    }

    /// Whether all atoms are on one line.
    pub(super) fn is_one_line(&self) -> bool {
        self.entries
            .windows(2)
            .all(|two| two[0].line == two[1].line)
    }

    /// What two blocks have in common.
    pub(super) fn common(&self, other: &AtomBlock) -> AtomBlock {
        let entries = match self.class == other.class {
            true => self.entries.iter().copied(),
            false => [].iter().copied(),
        };
        let both = entries.filter(|entry| other.entries.contains(entry));
        AtomBlock::new(self.class, both.collect())
    }
}

/// What the fetches of a block's lines take up to the end of each piece of the events (`PIECES` of
/// `class`), by cores without a copy.
pub(crate) type Pieces = Arc<[Cycles]>;

/// What is known of a block's cost.
#[derive(Clone, Debug)]
pub(crate) enum KnownCost {
    /// All of it.
    Cost {
        /// In all.
        cycles: Cycles,
        /// What any block takes at least that is one line and has these atoms.
        fetches: Pieces,
    },
    /// It was given up when it was clear that it is at least that.
    AtLeast(Cycles),
}

impl KnownCost {
    /// The cycles that it takes at least.
    pub(crate) fn least(&self) -> Cycles {
        match self {
            KnownCost::Cost { cycles, .. } => *cycles,
            KnownCost::AtLeast(least) => *least,
        }
    }

    /// Whether all of it is known.
    pub(crate) fn is_cost(&self) -> bool {
        matches!(self, KnownCost::Cost { .. })
    }

    /// The same, if a part of the block takes these.
    pub(crate) fn or_part(self, part: &[Cycles]) -> KnownCost {
        match self {
            KnownCost::AtLeast(least) => KnownCost::AtLeast(least.max(last(part))),
            cost @ KnownCost::Cost { .. } => cost,
        }
    }
}

/// The cycles at the end of the last piece.
pub(super) fn last(pieces: &[Cycles]) -> Cycles {
    pieces.last().copied().unwrap_or_default()
}

/// By set: what is known of its cost.
#[derive(Debug, Default)]
pub(super) struct KnownSets(RwLock<FxHashMap<Mark, KnownCost>>);

impl KnownSets {
    // A panic in a worker leaves the map intact: entries are inserted in one step.

    /// The cost of a set, if all of it is known.
    pub(super) fn cost(&self, mark: Mark) -> Option<Cycles> {
        let sets = self.0.read().unwrap_or_else(|e| e.into_inner());
        match sets.get(&mark) {
            Some(KnownCost::Cost { cycles, .. }) => Some(*cycles),
            _ => None,
        }
    }

    pub(super) fn get(&self, mark: Mark) -> Option<KnownCost> {
        let sets = self.0.read().unwrap_or_else(|e| e.into_inner());
        sets.get(&mark).cloned()
    }

    /// Keeps what is known of a set; a bound does not replace its cost.
    pub(super) fn insert(&self, mark: Mark, known: KnownCost) {
        let mut sets = self.0.write().unwrap_or_else(|e| e.into_inner());
        // Another search of the same model may have come to the end of it in between, and who has a
        // set's cost asks for its fetches next.
        if known.is_cost() || !sets.get(&mark).is_some_and(KnownCost::is_cost) {
            sets.insert(mark, known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_does_not_replace_a_cost() {
        let (sets, mark) = (KnownSets::default(), Mark::default());
        let cost = KnownCost::Cost {
            cycles: Cycles(7),
            fetches: Arc::new([]),
        };
        for known in [
            KnownCost::AtLeast(Cycles(3)),
            cost,
            KnownCost::AtLeast(Cycles(5)),
        ] {
            sets.insert(mark, known);
        }
        assert_eq!(sets.cost(mark), Some(Cycles(7)));
    }
}
