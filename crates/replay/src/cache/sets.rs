//! How lines map to the sets of caches, without a replay: many lines in few sets evict each other.

use std::collections::{BTreeMap, BTreeSet};

use linemate_machine::{CacheShape, Machine};
use linemate_recording::GuestAddr;

use crate::cache::address::span;
use crate::cache::array::llc_set;

/// How some lines map to one cache's sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetsReached {
    /// Lines, each counted once.
    pub lines: u64,
    /// Sets that the cache has.
    pub sets: u64,
    /// Lines that a set holds.
    pub ways: u64,
    /// Sets that at least one of the lines falls into.
    pub reached: u64,
    /// Lines in the set with the most of them.
    pub fullest: u64,
    /// Lines for which their set has no room: the sum over the sets of the lines beyond the ways.
    pub beyond: u64,
}

/// The same lines in each of the caches of one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// In its core's L1.
    pub l1: SetsReached,
    /// In its core's L2.
    pub l2: SetsReached,
    /// In its domain's last-level cache. If that is hashed, by the replay's hash: vendors do not
    /// publish theirs.
    pub llc: SetsReached,
}

/// How the lines of these addresses, which one CPU accesses, map to the sets of its caches. Each
/// cache is considered whole.
pub fn sets_reached(machine: &Machine, addrs: impl IntoIterator<Item = GuestAddr>) -> Reach {
    let line = |addr: GuestAddr| span(addr.0, 1, machine.line).line;
    // Each line once: an access that extends into the next line counts where it starts, as
    // everywhere in the report.
    let lines: BTreeSet<u64> = addrs.into_iter().map(line).collect();
    let private = |shape: CacheShape| {
        let sets = u64::from(shape.sets);
        count(&lines, sets, shape.ways, |line| line & (sets - 1))
    };
    let llc = machine.llc;
    let (slices, sets) = (u64::from(llc.slices), u64::from(llc.slice.sets));
    Reach {
        l1: private(machine.l1),
        l2: private(machine.l2),
        llc: count(&lines, slices * sets, llc.slice.ways, |line| {
            llc_set(llc.index, slices, sets, line)
        }),
    }
}

fn count(lines: &BTreeSet<u64>, sets: u64, ways: u32, set_of: impl Fn(u64) -> u64) -> SetsReached {
    let ways = u64::from(ways);
    let mut held: BTreeMap<u64, u64> = BTreeMap::new();
    for line in lines {
        *held.entry(set_of(*line)).or_default() += 1;
    }
    SetsReached {
        lines: lines.len() as u64,
        sets,
        ways,
        reached: held.len() as u64,
        fullest: held.values().copied().max().unwrap_or(0),
        beyond: held.values().map(|held| held.saturating_sub(ways)).sum(),
    }
}
