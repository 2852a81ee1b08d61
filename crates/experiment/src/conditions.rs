//! How a recording is replayed, whichever the question.

use linemate_replay::{Mixing, Scaling};
use serde::{Deserialize, Serialize};

use crate::cpus::Cpus;

/// How to replay, whichever the question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// How many CPUs; `None`: as many as were recorded.
    pub cpus: Option<usize>,
    /// Whether each last-level cache has only the share of the CPUs that are replayed on it, and
    /// each core's L1 and L2 that of its threads: a machine all of whose CPUs do the same.
    pub llc_share: bool,
    /// Whether every access is replayed, even those that always hit in L1: slower, for the same
    /// figures where layouts are as recorded.
    pub exact: bool,
    /// Whether replays begin with empty caches, and what first fills them counts.
    pub cold: bool,
    /// What more CPUs than were recorded do; for as many as were recorded nothing.
    pub groups: Groups,
}

/// What more CPUs than were recorded do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Groups {
    /// Whether each group of CPUs begins at a place of its own in the recording.
    pub phases: bool,
    /// Whom CPUs meet where they touch another one's memory.
    pub mixing: Mixing,
    /// Whether CPUs wait for locks.
    pub locks: bool,
}

impl Default for Groups {
    fn default() -> Groups {
        Groups {
            phases: true,
            mixing: Mixing::Domains,
            locks: true,
        }
    }
}

impl Groups {
    /// The same for the replay.
    pub(crate) fn scaling(self, cpus: Cpus) -> Scaling {
        Scaling {
            copies: cpus.copies,
            threads: cpus.threads,
            phases: self.phases,
            mixing: self.mixing,
            locks: self.locks,
            whole: false,
        }
    }
}

/// The fewest interleavings that give a confidence interval worth the name.
pub const INTERLEAVINGS_MIN: usize = 8;

/// Which interleaving: how late the slices of a round begin is drawn from it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Seed(pub u64);

/// The seeds of that many interleavings.
pub fn seeds(first: Seed, count: usize) -> Vec<Seed> {
    let seed = |i| Seed(first.0.wrapping_add(i));
    (0..).map(seed).take(count).collect()
}
