//! What a replay found.

use linemate_machine::LogicalCpu;
use serde::{Deserialize, Serialize};

use crate::accounts::counts::{Counts, Tally};
use crate::accounts::lines::{LineView, Uncontested};
use crate::accounts::transfers::Transfers;
use crate::rounds::warm::WarmUp;
use crate::scale::locks::LockWait;

/// Lines that prefetchers fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchedAhead {
    /// Lines that the L2s' streamers fetched.
    pub l2_streamer: u64,
    /// By L1s' stride prefetchers.
    pub l1_stride: u64,
    /// Of both, those that were used before they had come.
    pub late: u64,
}

impl FetchedAhead {
    /// Adds those of `times` that each did the same.
    pub(crate) fn add(&mut self, other: FetchedAhead, times: u64) {
        self.l2_streamer += other.l2_streamer * times;
        self.l1_stride += other.l1_stride * times;
        self.late += other.late * times;
    }
}

/// What a replay of more CPUs tells of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaledCounts {
    /// Accesses on the tape.
    pub taped: u64,
    /// Times that CPUs would have waited for each other's locks for ever: one went on without.
    pub circles: u64,
    /// Locks that were let go because the recorded CPU's turn ended.
    pub unreleased: u64,
}

/// Transfers of modified lines from one logical CPU to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The CPU that had written last before the transfer.
    pub from: LogicalCpu,
    /// The CPU whose access fetched the line.
    pub to: LogicalCpu,
    /// How often, and for how many cycles.
    pub tally: Tally,
}

/// What a replay found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The sum of all keys.
    pub totals: Counts,
    /// By key: index = [`KeyId`](crate::KeyId).
    pub keys: Vec<Counts>,
    /// By site, likewise every access once: index = [`SiteId`](crate::SiteId).
    pub sites: Vec<Counts>,
    /// By pair of CPUs, ascending, only pairs that exchanged something.
    pub pairs: Vec<Pair>,
    /// The lines that went between cores, by address; empty unless asked for.
    pub lines: Vec<LineView>,
    /// What else left its core, so that with `lines` it is everything that did; empty unless asked for.
    pub uncontested: Vec<Uncontested>,
    /// From whom to whom modified lines went, and when; empty unless lines are asked for.
    pub transfers: Transfers,
    /// Recorded accesses handed in.
    pub accesses: u64,
    /// Of those, the ones that an edit removed.
    pub skipped: u64,
    /// Of those, the ones that went to devices, past all caches. They are in no [`Counts`].
    pub uncached: u64,
    /// How many rounds were replayed.
    pub rounds: u64,
    /// From the first counted round's start to the last one's end, in cycles.
    pub cycles: u64,
    /// Lines fetched because their pair's other line was missed.
    pub prefetched: u64,
    /// Of those, the ones taken from a core that had modified them.
    pub prefetched_modified: u64,
    /// Lines fetched by prefetchers that follow streams and strides.
    pub fetched_ahead: FetchedAhead,
    /// Cycles that no CPU waited because misses overlapped. They are in no [`Counts`].
    pub overlapped: u64,
    /// What filled the caches before counting began; `None`: they were empty.
    pub warm_up: Option<WarmUp>,
    /// What waiting for locks took, by site and key; empty where nobody waits ([`crate::Scaled`]).
    pub locks: Vec<LockWait>,
    /// Of replays of more CPUs than were recorded.
    pub scaled: Option<ScaledCounts>,
    /// Whether it is a whole replay's with a difference on top ([`Outcome::changed`]).
    pub by_difference: bool,
}
