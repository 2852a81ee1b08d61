//! One set-associative cache with least-recently-used replacement: which lines are in it, nothing about
//! coherence or time.
//!
//! Arrays are allocated zeroed and stay untouched until a set is used, so that a described machine of
//! hundreds of megabytes of cache costs only what a recording touches.

use linemate_machine::{CacheShape, LlcIndex, LlcShape};

/// A line's number with the instance of cloned memory above it (see `address`).
pub(crate) type Line = u64;

/// The copy is newer than what is behind it.
pub(crate) const DIRTY: u8 = 1;
/// Words that other cores wrote have not been read since: look at each access (see `sharing`).
pub(crate) const CHECK: u8 = 2;

/// What a line leaves behind when it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    pub(crate) slot: u32,
    pub(crate) flags: u8,
    pub(crate) touched: u64,
}

/// Where a line is: an index into the cache's arrays, valid until the next insertion or removal.
pub(crate) type Way = usize;

/// A private cache: L1 or L2 of one core.
pub(crate) struct Cache {
    ways: usize,
    set_mask: u64,
    clock: u64,
    /// Line + 1; zero is an empty way.
    tags: Vec<u64>,
    stamps: Vec<u64>,
    touched: Vec<u64>,
    slots: Vec<u32>,
    flags: Vec<u8>,
    /// Per set, the way that was used last: looked at first.
    recent: Vec<u8>,
}

impl Cache {
    pub(crate) fn new(shape: CacheShape) -> Cache {
        let ways = shape.ways as usize;
        let lines = shape.sets as usize * ways;
        Cache {
            ways,
            set_mask: u64::from(shape.sets) - 1,
            clock: 0,
            tags: vec![0; lines],
            stamps: vec![0; lines],
            touched: vec![0; lines],
            slots: vec![0; lines],
            flags: vec![0; lines],
            recent: vec![0; shape.sets as usize],
        }
    }

    #[inline]
    fn set(&self, line: Line) -> usize {
        (line & self.set_mask) as usize
    }

    /// Where the line is, if it is here. Does not count as a use.
    #[inline]
    pub(crate) fn find(&self, line: Line) -> Option<Way> {
        let set = self.set(line);
        let base = set * self.ways;
        let tag = line + 1;
        let recent = base + usize::from(self.recent[set]);
        if self.tags[recent] == tag {
            return Some(recent);
        }
        self.tags[base..base + self.ways]
            .iter()
            .position(|&t| t == tag)
            .map(|way| base + way)
    }

    /// Counts as a use.
    #[inline]
    pub(crate) fn touch(&mut self, line: Line, way: Way) {
        self.clock += 1;
        self.stamps[way] = self.clock;
        let set = self.set(line);
        self.recent[set] = (way - set * self.ways) as u8;
    }

    /// Notes which words were used.
    #[inline]
    pub(crate) fn add_touched(&mut self, way: Way, mask: u64) {
        self.touched[way] |= mask;
    }

    #[inline]
    pub(crate) fn slot(&self, way: Way) -> u32 {
        self.slots[way]
    }

    #[inline]
    pub(crate) fn flags(&self, way: Way) -> u8 {
        self.flags[way]
    }

    #[inline]
    pub(crate) fn set_flags(&mut self, way: Way, flags: u8) {
        self.flags[way] |= flags;
    }

    #[inline]
    pub(crate) fn clear_flags(&mut self, way: Way, flags: u8) {
        self.flags[way] &= !flags;
    }

    /// Puts a line that is not here in, as the one used last. Returns where, and what had to go: an empty
    /// way is taken first, else the one used longest ago.
    pub(crate) fn insert(&mut self, line: Line, new: Gone) -> (Way, Option<(Line, Gone)>) {
        let set = self.set(line);
        let base = set * self.ways;
        let mut victim = base;
        for way in base..base + self.ways {
            if self.tags[way] == 0 {
                victim = way;
                break;
            }
            if self.stamps[way] < self.stamps[victim] {
                victim = way;
            }
        }
        let gone = (self.tags[victim] != 0).then(|| (self.tags[victim] - 1, self.gone(victim)));
        self.tags[victim] = line + 1;
        self.slots[victim] = new.slot;
        self.flags[victim] = new.flags;
        self.touched[victim] = new.touched;
        self.touch(line, victim);
        (victim, gone)
    }

    /// Takes the line out, if it is here.
    pub(crate) fn remove(&mut self, line: Line) -> Option<Gone> {
        let way = self.find(line)?;
        self.tags[way] = 0;
        Some(self.gone(way))
    }

    fn gone(&self, way: Way) -> Gone {
        Gone {
            slot: self.slots[way],
            flags: self.flags[way],
            touched: self.touched[way],
        }
    }
}

/// A domain's last-level cache. Which lines are in it is also a bit in the directory: this one decides
/// only which line has to go.
pub(crate) struct Llc {
    ways: usize,
    set_mask: u64,
    slices: u64,
    sets: usize,
    index: LlcIndex,
    clock: u64,
    tags: Vec<u64>,
    stamps: Vec<u64>,
    slots: Vec<u32>,
}

impl Llc {
    pub(crate) fn new(shape: LlcShape) -> Llc {
        let ways = shape.slice.ways as usize;
        let sets = shape.slice.sets as usize;
        let lines = shape.slices as usize * sets * ways;
        Llc {
            ways,
            set_mask: sets as u64 - 1,
            slices: u64::from(shape.slices),
            sets,
            index: shape.index,
            clock: 0,
            tags: vec![0; lines],
            stamps: vec![0; lines],
            slots: vec![0; lines],
        }
    }

    fn base(&self, line: Line) -> usize {
        let set = match self.index {
            LlcIndex::Plain => (line & self.set_mask) as usize,
            LlcIndex::Hashed => {
                // Fibonacci hashing: the product's high bits depend on all bits of the line. The high half
                // picks the slice (scaled, so that any number of slices is filled evenly), lower bits the set.
                let hash = line.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let slice = ((hash >> 32) * self.slices) >> 32;
                slice as usize * self.sets + ((hash >> 12) & self.set_mask) as usize
            }
        };
        set * self.ways
    }

    fn find(&self, base: usize, line: Line) -> Option<Way> {
        self.tags[base..base + self.ways]
            .iter()
            .position(|&t| t == line + 1)
            .map(|way| base + way)
    }

    /// Counts as a use of a line that is here.
    pub(crate) fn touch(&mut self, line: Line) {
        let base = self.base(line);
        if let Some(way) = self.find(base, line) {
            self.clock += 1;
            self.stamps[way] = self.clock;
        }
    }

    /// Puts a line that is not here in; returns the slot of the line that had to go.
    pub(crate) fn insert(&mut self, line: Line, slot: u32) -> Option<u32> {
        let base = self.base(line);
        let mut victim = base;
        for way in base..base + self.ways {
            if self.tags[way] == 0 {
                victim = way;
                break;
            }
            if self.stamps[way] < self.stamps[victim] {
                victim = way;
            }
        }
        let gone = (self.tags[victim] != 0).then(|| self.slots[victim]);
        self.clock += 1;
        self.tags[victim] = line + 1;
        self.slots[victim] = slot;
        self.stamps[victim] = self.clock;
        gone
    }

    /// Takes the line out, if it is here.
    pub(crate) fn remove(&mut self, line: Line) {
        let base = self.base(line);
        if let Some(way) = self.find(base, line) {
            self.tags[way] = 0;
        }
    }
}
