//! The result of a replay.

use linemate_machine::LogicalCpu;
use linemate_units::{Accesses, Cycles, Instructions};
use serde::{Deserialize, Serialize};

use crate::accounts::counts::{Counts, Tally};
use crate::accounts::held::HeldLine;
use crate::accounts::lines::{LineView, Uncontested};
use crate::accounts::transfers::Transfers;
use crate::rounds::locks::LockWait;
use crate::rounds::warm::WarmUp;

/// Lines that prefetchers fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchedAhead {
    /// Lines that the L2s' streamers fetched.
    pub l2_streamer: u64,
    /// By L1s' stride prefetchers.
    pub l1_stride: u64,
    /// Of both, those used before they arrived.
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

/// Statistics of a replay of more CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaledCounts {
    /// Accesses on the tape.
    pub taped: Accesses,
    /// How often CPUs would have waited for each other's locks forever: one continued without.
    pub circles: u64,
    /// Locks that were released because the recorded CPU's turn ended.
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

/// The result of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The sum of all keys.
    pub totals: Counts,
    /// By key: index = [`KeyId`](crate::KeyId).
    pub keys: Vec<Counts>,
    /// By site, likewise every access once: index = [`SiteId`](crate::SiteId).
    pub sites: Vec<Counts>,
    /// By pair of CPUs, ascending, only pairs with transfers.
    pub pairs: Vec<Pair>,
    /// The lines that moved between cores, by address; empty unless requested.
    pub lines: Vec<LineView>,
    /// Everything else that left its core, so that with `lines` it is everything that did; empty
    /// unless requested.
    pub uncontested: Vec<Uncontested>,
    /// Between which CPUs modified lines moved, and when; empty unless lines are requested.
    pub transfers: Transfers,
    /// Number of recorded accesses pushed.
    pub accesses: Accesses,
    /// Of those, the ones that an edit removed.
    pub skipped: Accesses,
    /// Of those, the ones that went to devices and bypassed all caches. They are in no [`Counts`].
    pub uncached: Accesses,
    /// How many rounds were replayed, of all groups of CPUs.
    pub rounds: u64,
    /// From the first counted round's start to the last one's end, in cycles; of groups that count
    /// stretches, what it takes to go around the recording once.
    pub cycles: Cycles,
    /// Instructions of each replayed CPU in the counted rounds, by recorded CPU and copy, programs'
    /// included; 0 in a partial replay, which runs no rounds.
    pub instructions: Vec<Instructions>,
    /// For how long lines that moved between cores were held, by address.
    pub held: Vec<HeldLine>,
    /// Lines fetched because their pair's other line was missed.
    pub prefetched: u64,
    /// Of those, the ones taken from a core that had modified them.
    pub prefetched_modified: u64,
    /// Lines fetched by prefetchers that follow streams and strides.
    pub fetched_ahead: FetchedAhead,
    /// Cycles that no CPU waited because misses overlapped. They are in no [`Counts`].
    pub overlapped: Cycles,
    /// What filled the caches before counting began; `None`: they were empty.
    pub warm_up: Option<WarmUp>,
    /// Waiting for locks, by site and key; empty if nobody waits ([`crate::Scaled`],
    /// [`crate::Replay::with_locks`]).
    pub locks: Vec<LockWait>,
    /// For replays of more CPUs than were recorded.
    pub scaled: Option<ScaledCounts>,
    /// Whether it is the result of a whole replay plus a difference ([`Outcome::changed`]).
    pub by_difference: bool,
}

impl Outcome {
    /// As if everything had happened that many times, one after the other; instructions are left as
    /// they are.
    pub(crate) fn times(&mut self, times: u64) {
        // By name, so that a new figure is not forgotten.
        let Outcome {
            totals,
            keys,
            sites,
            pairs,
            lines,
            uncontested,
            transfers,
            accesses,
            skipped,
            uncached,
            rounds,
            cycles,
            instructions: _,
            held,
            prefetched,
            prefetched_modified,
            fetched_ahead,
            overlapped,
            warm_up: _,
            locks,
            scaled,
            by_difference: _,
        } = self;
        let counts = keys.iter_mut().chain(sites).chain(std::iter::once(totals));
        counts.for_each(|counts| counts.times(times));
        let tallies = pairs.iter_mut().map(|pair| &mut pair.tally);
        let tallies = tallies.chain(held.iter_mut().map(|line| &mut line.requests));
        let tallies = tallies.chain(locks.iter_mut().map(|lock| &mut lock.waits));
        tallies.for_each(|tally| tally.times(times));
        lines.iter_mut().for_each(|line| line.times(times));
        uncontested.iter_mut().for_each(|sum| sum.times(times));
        transfers.times(times);
        for count in [accesses, skipped, uncached] {
            *count *= times;
        }
        for count in [rounds, prefetched, prefetched_modified] {
            *count *= times;
        }
        *cycles *= times;
        *overlapped *= times;
        let ahead = std::mem::take(fetched_ahead);
        fetched_ahead.add(ahead, times);
        if let Some(scaled) = scaled {
            scaled.circles *= times;
            scaled.unreleased *= times;
        }
    }
}
