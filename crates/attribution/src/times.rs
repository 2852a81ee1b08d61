//! When types are accessed, and by which CPUs.
//!
//! Counting costs an access one addition: sums are by the tally's rows, for one part of the
//! recording's time only. They are moved to their final place when that part is over, at most 64
//! times and once per chunk.

use std::collections::BTreeMap;
use std::ops::Range;

use linemate_recording::{Access, AccessKind, TimeGrid};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::subjects::SubjectId;
use crate::tally::{Key, TallyRow};

/// A place in a subject with accesses over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TimedPlace {
    /// The subject, which has a type.
    pub subject: SubjectId,
    /// Bytes from the type's start.
    pub offset: u32,
    pub size: u8,
    pub kind: AccessKind,
}

/// A part of the recording's time on a row of its CPUs ([`TimeGrid`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GridCell {
    /// The row of CPUs, from 0.
    pub row: u16,
    /// The part of the time, from 0.
    pub bin: u16,
}

/// Accesses over time, to everything with a type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// By place, in the order of the cells; those without accesses are absent. Long recordings have
    /// millions.
    pub places: BTreeMap<TimedPlace, Vec<(GridCell, u32)>>,
}

impl Times {
    pub(crate) fn merge(&mut self, other: Times) {
        for (place, mut cells) in other.places {
            let mine = self.places.entry(place).or_default();
            if mine.is_empty() {
                *mine = cells;
            } else {
                mine.append(&mut cells);
                add_up(mine);
            }
        }
    }
}

/// Sorts cells, each once.
fn add_up(cells: &mut Vec<(GridCell, u32)>) {
    cells.sort_unstable_by_key(|(cell, _)| *cell);
    cells.dedup_by(|(cell, count), (before, sum)| {
        let same = cell == before;
        if same {
            *sum = sum.saturating_add(*count);
        }
        same
    });
}

/// A thread's part of the counting.
#[derive(Debug)]
pub(crate) struct TimeCounter {
    grid: TimeGrid,
    /// The part being counted.
    bin: u16,
    /// Its times, from the first to one past the last.
    now: Range<u64>,
    /// For this part: by the tally's row, then the CPU's.
    counts: Vec<u32>,
    /// The non-zero places in those.
    touched: Vec<u32>,
    /// By the tally's row: the place in `sums`, once there is one.
    place_of: Vec<Option<u32>>,
    places: FxHashMap<TimedPlace, u32>,
    /// Of earlier parts: a cell can occur several times, for several instructions.
    sums: Vec<Vec<(GridCell, u32)>>,
}

impl TimeCounter {
    pub(crate) fn new(grid: TimeGrid) -> TimeCounter {
        TimeCounter {
            grid,
            bin: 0,
            now: 0..0,
            counts: Vec::new(),
            touched: Vec::new(),
            place_of: Vec::new(),
            places: FxHashMap::default(),
            sums: Vec::new(),
        }
    }

    /// An access to something with a type, which the tally has counted in `row`.
    #[inline]
    pub(crate) fn access(&mut self, access: &Access, key: &Key, row: TallyRow) {
        if !self.now.contains(&access.time.0) {
            self.turn_to(access);
        }
        let row = row.0 as usize;
        let at = row * usize::from(self.grid.rows) + usize::from(self.grid.row(access.cpu));
        // 0 is untouched in this part: the list of places to move later needs no other mark.
        if self.counts.get(at).is_none_or(|count| *count == 0) {
            self.begin(row, at, key);
        }
        // More than 4 billion accesses to one place in one part saturate.
        self.counts[at] = self.counts[at].saturating_add(1);
    }

    /// The first access to a place in this part.
    fn begin(&mut self, row: usize, at: usize, key: &Key) {
        if row >= self.place_of.len() {
            self.place_of.resize(row + 1, None);
            let counts = (row + 1) * usize::from(self.grid.rows);
            self.counts.resize(counts, 0);
        }
        if self.place_of[row].is_none() {
            let place = TimedPlace {
                subject: key.subject,
                offset: key.offset,
                size: key.size,
                kind: key.kind,
            };
            let next = self.sums.len() as u32;
            let number = *self.places.entry(place).or_insert(next);
            if number == next {
                self.sums.push(Vec::new());
            }
            self.place_of[row] = Some(number);
        }
        self.touched.push(at as u32);
    }

    /// Moves on to the access's part.
    #[cold]
    fn turn_to(&mut self, access: &Access) {
        self.put_away();
        self.bin = self.grid.bin(access.time);
        self.now = self.grid.times(self.bin);
    }

    fn put_away(&mut self) {
        let rows = u32::from(self.grid.rows);
        for at in self.touched.drain(..) {
            let count = std::mem::take(&mut self.counts[at as usize]);
            let cell = GridCell {
                row: (at % rows) as u16,
                bin: self.bin,
            };
            if let Some(place) = self.place_of[(at / rows) as usize] {
                self.sums[place as usize].push((cell, count));
            }
        }
    }

    pub(crate) fn finish(mut self) -> Times {
        self.put_away();
        let mut times = Times::default();
        for (place, number) in self.places {
            let mut cells = std::mem::take(&mut self.sums[number as usize]);
            add_up(&mut cells);
            times.places.insert(place, cells);
        }
        times
    }
}
