//! A row of costs: a type, a field, a function, or everything.

use std::collections::BTreeMap;

use linemate_answers::{Causes, Cost, Potential};
use linemate_replay::{Cause, Counts, Source};

use crate::effect::potential;

/// The row of these counts, called `name`.
pub(super) fn cost_of(name: String, counts: &Counts) -> Cost {
    let cycles = |cause| counts.cause(cause).cycles.0;
    let count = |source| counts.source(source).count.0;
    Cost {
        name,
        loads: counts.loads.0,
        stores: (counts.stores + counts.rmws).0,
        misses: counts.left_core().count.0,
        cycles: counts.left_core().cycles.0,
        waited: counts.waited.0,
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

/// Why the row costs what it does.
pub(super) fn potential_of(cost: &Cost) -> Potential {
    potential(cost.cycles as f64, |cause| match cause {
        Cause::Cold => cost.causes.cold as f64,
        Cause::Capacity => cost.causes.capacity as f64,
        Cause::TrueSharing => cost.causes.true_sharing as f64,
        Cause::FalseSharing => cost.causes.false_sharing as f64,
        Cause::Unshared => cost.causes.unshared as f64,
    })
}

/// Sums of the rows with equal keys, the most cycles first, then by key; without what was never
/// touched.
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
    // Stable, so rows that cost the same stay in the order of their keys.
    rows.sort_by_key(|row| std::cmp::Reverse(row.cycles));
    rows
}

/// The same by name.
pub(super) fn ranked(rows: impl Iterator<Item = Cost>) -> Vec<Cost> {
    ranked_by(rows.map(|row| (row.name.clone(), row)))
}
