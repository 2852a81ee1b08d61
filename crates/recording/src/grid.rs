//! A recording's time and CPUs, divided into few enough parts to store counts for each.

use std::ops::Range;

use linemate_units::CpuId;

use crate::{EventChunk, VirtualTime};

/// The maximum number of parts of the recording's time.
const BINS_MAX: u64 = 64;
/// The maximum number of rows of CPUs: with more CPUs, several consecutive ones share a row.
const ROWS_MAX: u16 = 16;

/// The parts of time, and the rows of CPUs: for counts over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeGrid {
    /// When the first part starts, in instructions of the guest.
    pub start: u64,
    /// The length of a part in instructions.
    pub step: u64,
    /// Number of parts, at most 64.
    pub bins: u16,
    /// Consecutive CPUs per row.
    pub cpus_per_row: u16,
    /// Number of rows, at most 16.
    pub rows: u16,
}

impl TimeGrid {
    /// Over these chunks, for that many CPUs.
    pub(crate) fn new(chunks: &[EventChunk], cpus: u16) -> TimeGrid {
        let first = chunks.iter().map(|chunk| chunk.summary.first.0).min();
        let last = chunks.iter().map(|chunk| chunk.summary.last.0).max();
        TimeGrid::over(first.unwrap_or(0), last.unwrap_or(0), cpus)
    }

    /// From the first to the last time.
    fn over(first: u64, last: u64, cpus: u16) -> TimeGrid {
        let span = last.saturating_sub(first);
        // More than a 64th, so that the last time is in part 63 at most.
        let step = span / BINS_MAX + 1;
        let cpus_per_row = cpus.max(1).div_ceil(ROWS_MAX);
        TimeGrid {
            start: first,
            step,
            bins: (span / step) as u16 + 1,
            cpus_per_row,
            rows: cpus.max(1).div_ceil(cpus_per_row),
        }
    }

    /// The part of a time; the nearest one for times outside.
    #[inline]
    #[must_use]
    pub fn bin(&self, time: VirtualTime) -> u16 {
        let bin = time.0.saturating_sub(self.start) / self.step;
        bin.min(u64::from(self.bins - 1)) as u16
    }

    /// The times of a part: from its first to one past its last. The first part includes everything
    /// before it, the last one everything after it.
    #[must_use]
    pub fn times(&self, bin: u16) -> Range<u64> {
        let begin = |bin: u16| {
            self.start
                .saturating_add(self.step.saturating_mul(bin.into()))
        };
        let first = if bin == 0 { 0 } else { begin(bin) };
        match bin < self.bins - 1 {
            true => first..begin(bin + 1),
            false => first..u64::MAX,
        }
    }

    /// The row of a CPU; the last one for CPUs beyond.
    #[inline]
    #[must_use]
    pub fn row(&self, cpu: CpuId) -> u16 {
        (cpu.0 / self.cpus_per_row).min(self.rows - 1)
    }

    /// Counts by row and part as a list for each row, up to the last part with any; no list at all
    /// if there are no counts.
    #[must_use]
    pub fn rows_of(&self, counts: impl Iterator<Item = ((u16, u16), u64)>) -> Vec<Vec<u64>> {
        let mut rows: Vec<Vec<u64>> = Vec::new();
        for ((row, bin), count) in counts.filter(|(_, count)| *count > 0) {
            rows.resize(usize::from(self.rows), Vec::new());
            if let Some(row) = rows.get_mut(usize::from(row)) {
                // Counts may come from a file: their part bounds the list's length.
                let bin = usize::from(bin.min(self.bins - 1));
                if bin >= row.len() {
                    row.resize(bin + 1, 0);
                }
                row[bin] += count;
            }
        }
        rows
    }

    /// Whether it is one that this program makes.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.step > 0
            && self.cpus_per_row > 0
            && (1..=ROWS_MAX).contains(&self.rows)
            && (1..=BINS_MAX).contains(&u64::from(self.bins))
    }
}

impl Default for TimeGrid {
    /// One part, one row.
    fn default() -> TimeGrid {
        TimeGrid::over(0, 0, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_and_cpu_has_its_part() {
        for (first, last, cpus) in [
            (0, 0, 1),
            (5, 68, 8),
            (5, 69, 17),
            (7, 1 << 40, 480),
            (0, u64::MAX, 8192),
        ] {
            let grid = TimeGrid::over(first, last, cpus);
            assert!(grid.is_sound(), "{grid:?}");
            assert_eq!(grid.bin(VirtualTime(first)), 0);
            assert_eq!(grid.bin(VirtualTime(last)), grid.bins - 1, "{grid:?}");
            assert_eq!(grid.row(CpuId(0)), 0);
            assert_eq!(grid.row(CpuId(cpus - 1)), grid.rows - 1, "{grid:?}");
        }
        let grid = TimeGrid::over(5, 500, 8);
        for bin in 0..grid.bins {
            let times = grid.times(bin);
            assert_eq!(grid.bin(VirtualTime(times.start)), bin);
            assert_eq!(grid.bin(VirtualTime(times.end - 1)), bin);
        }
        let grid = TimeGrid::over(5, 68, 8);
        assert_eq!((grid.step, grid.bins, grid.rows), (1, 64, 8));
        assert_eq!(grid.bin(VirtualTime(0)), 0);
        assert_eq!(grid.bin(VirtualTime(1000)), 63);
        let grid = TimeGrid::over(0, 2, 3);
        let counts = [((2, 0), 4), ((0, 2), 1), ((2, 0), 1), ((1, 1), 0)];
        assert_eq!(
            grid.rows_of(counts.into_iter()),
            [vec![0, 0, 1], vec![], vec![5]]
        );
        assert!(grid.rows_of(std::iter::empty()).is_empty());
        let grid = TimeGrid::over(0, 1000, 20);
        assert_eq!((grid.cpus_per_row, grid.rows), (2, 10));
        assert_eq!(grid.row(CpuId(3)), 1);
        assert_eq!(grid.row(CpuId(99)), 9);
    }
}
