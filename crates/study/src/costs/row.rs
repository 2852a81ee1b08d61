//! A row of costs: a type, a field, a function, or everything.

use std::collections::BTreeMap;

use linemate_replay::{Cause, Counts, Source};
use serde::{Deserialize, Serialize};

use crate::effect::Potential;

/// How often something was accessed and what the accesses that left their core cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Type, field or function.
    pub name: String,
    /// Loads, of all CPUs replayed, whether they left their core or not.
    pub loads: u64,
    /// Stores and atomic read-modify-writes, likewise.
    pub stores: u64,
    /// Accesses that left their core: the sum of `hitm`, `upgrades`, `llc`, `forwards` and `dram`.
    pub misses: u64,
    /// Their cycles.
    pub cycles: u64,
    /// The part of the cycles spent waiting until others had done with the line.
    pub waited: u64,
    /// Modified lines fetched from a core of the domain, of the socket, of another socket.
    pub hitm: [u64; 3],
    /// Permission to write asked for.
    pub upgrades: u64,
    /// Clean lines fetched from the domain's last-level cache, or from another core of the domain.
    pub llc: u64,
    /// Clean lines fetched from another domain, of the socket or of another one.
    pub forwards: u64,
    /// Lines from memory.
    pub dram: u64,
    /// Cycles by cause: together `cycles`.
    pub causes: Causes,
}

/// Cycles by the reason why an access left its core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Causes {
    /// The core never had the line.
    pub cold: u64,
    /// Its caches had no room for it.
    pub capacity: u64,
    /// Words are exchanged.
    pub true_sharing: u64,
    /// Only the line is.
    pub false_sharing: u64,
    /// Permission asked for without another holder.
    pub unshared: u64,
}

impl Cost {
    pub(super) fn new(name: String, counts: &Counts) -> Cost {
        let cycles = |cause| counts.cause(cause).cycles;
        let count = |source| counts.source(source).count;
        Cost {
            name,
            loads: counts.loads,
            stores: counts.stores + counts.rmws,
            misses: counts.left_core().count,
            cycles: counts.left_core().cycles,
            waited: counts.waited,
            hitm: [Source::HitmDomain, Source::HitmSocket, Source::HitmRemote].map(count),
            upgrades: count(Source::Upgrade),
            llc: count(Source::Llc),
            forwards: count(Source::ForwardSocket) + count(Source::ForwardRemote),
            dram: count(Source::DramLocal) + count(Source::DramRemote),
            causes: Causes {
                cold: cycles(Cause::Cold),
                capacity: cycles(Cause::Capacity),
                true_sharing: cycles(Cause::TrueSharing),
                false_sharing: cycles(Cause::FalseSharing),
                unshared: cycles(Cause::Unshared),
            },
        }
    }

    /// The sum of rows, called `name`.
    pub fn sum<'c>(name: &str, rows: impl IntoIterator<Item = &'c Cost>) -> Cost {
        let mut sum = Cost {
            name: name.to_owned(),
            ..Cost::default()
        };
        rows.into_iter().for_each(|row| sum.add(row));
        sum
    }

    fn add(&mut self, other: &Cost) {
        self.loads += other.loads;
        self.stores += other.stores;
        self.misses += other.misses;
        self.cycles += other.cycles;
        self.waited += other.waited;
        self.upgrades += other.upgrades;
        self.llc += other.llc;
        self.forwards += other.forwards;
        self.dram += other.dram;
        for (mine, theirs) in self.hitm.iter_mut().zip(other.hitm) {
            *mine += theirs;
        }
        let (mine, theirs) = (&mut self.causes, &other.causes);
        mine.cold += theirs.cold;
        mine.capacity += theirs.capacity;
        mine.true_sharing += theirs.true_sharing;
        mine.false_sharing += theirs.false_sharing;
        mine.unshared += theirs.unshared;
    }

    pub(super) fn potential(&self) -> Potential {
        Potential::new(self.cycles as f64, |cause| match cause {
            Cause::Cold => self.causes.cold as f64,
            Cause::Capacity => self.causes.capacity as f64,
            Cause::TrueSharing => self.causes.true_sharing as f64,
            Cause::FalseSharing => self.causes.false_sharing as f64,
            Cause::Unshared => self.causes.unshared as f64,
        })
    }
}

/// Sums of the rows with equal keys, the most cycles first, then by key; without what was never touched.
pub(super) fn ranked_by<K: Ord>(rows: impl Iterator<Item = (K, Cost)>) -> Vec<Cost> {
    let mut sums: BTreeMap<K, Cost> = BTreeMap::new();
    for (of, cost) in rows.filter(|(_, cost)| cost.loads + cost.stores > 0) {
        match sums.get_mut(&of) {
            Some(sum) => sum.add(&cost),
            None => {
                sums.insert(of, cost);
            }
        }
    }
    let mut rows: Vec<Cost> = sums.into_values().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.cycles));
    rows
}

/// The same by name.
pub(super) fn ranked(rows: impl Iterator<Item = Cost>) -> Vec<Cost> {
    ranked_by(rows.map(|row| (row.name.clone(), row)))
}
