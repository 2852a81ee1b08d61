//! The grid for counts over time.

use serde::{Deserialize, Serialize};

/// Parts of the recording's time, and rows of its CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TimeGrid {
    /// When the first part begins, in instructions of the guest.
    pub start: u64,
    /// Instructions of a part.
    pub step: u64,
    /// The number of parts, at most 64.
    pub bins: u16,
    /// Consecutive CPUs per row: several with more than 16 CPUs.
    pub cpus_per_row: u16,
    /// The number of rows, at most 16.
    pub rows: u16,
}

impl Default for TimeGrid {
    /// One part, one row: for documents without counts over time.
    fn default() -> TimeGrid {
        TimeGrid {
            start: 0,
            step: 1,
            bins: 1,
            cpus_per_row: 1,
            rows: 1,
        }
    }
}
