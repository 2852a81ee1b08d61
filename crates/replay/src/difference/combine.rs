//! A whole replay's outcome plus the difference of two partial ones.

use std::collections::BTreeMap;

use linemate_machine::LogicalCpu;
use linemate_units::Accesses;

use crate::accounts::counts::{Counts, Tally};
use crate::accounts::held;
use crate::accounts::outcome::{Outcome, Pair};

impl Outcome {
    /// What a whole replay with an edit would have found, given this one without it, and the
    /// partial replays [`before`](crate::Partial) and after the edit. `None` if that is impossible:
    /// a count would be negative, or lines were examined, whose views cannot be combined.
    #[must_use]
    pub fn changed(&self, before: &Outcome, after: &Outcome) -> Option<Outcome> {
        if !self.lines.is_empty() || !self.uncontested.is_empty() || self.rounds != after.rounds {
            return None;
        }
        let number = |all: u64, before: u64, after: u64| (all + after).checked_sub(before);
        let accesses = |all: Accesses, before, after: Accesses| (all + after).checked_sub(before);
        let keys = all_changed(&self.keys, &before.keys, &after.keys)?;
        let mut totals = Counts::default();
        keys.iter().for_each(|counts| totals.merge(counts));
        Some(Outcome {
            totals,
            keys,
            sites: all_changed(&self.sites, &before.sites, &after.sites)?,
            pairs: pairs(&self.pairs, &before.pairs, &after.pairs)?,
            accesses: accesses(self.accesses, before.accesses, after.accesses)?,
            skipped: accesses(self.skipped, before.skipped, after.skipped)?,
            held: held::changed(&self.held, &before.held, &after.held)?,
            cycles: (self.cycles + after.cycles).checked_sub(before.cycles)?,
            prefetched: number(self.prefetched, before.prefetched, after.prefetched)?,
            prefetched_modified: number(
                self.prefetched_modified,
                before.prefetched_modified,
                after.prefetched_modified,
            )?,
            by_difference: true,
            ..self.clone()
        })
    }
}

fn all_changed(all: &[Counts], before: &[Counts], after: &[Counts]) -> Option<Vec<Counts>> {
    let nothing = Counts::default();
    let length = all.len().max(after.len());
    let at = |list: &'_ [Counts], number: usize| list.get(number).unwrap_or(&nothing).clone();
    (0..length)
        .map(|number| at(all, number).changed(&at(before, number), &at(after, number)))
        .collect()
}

fn pairs(all: &[Pair], before: &[Pair], after: &[Pair]) -> Option<Vec<Pair>> {
    let mut sums: BTreeMap<(LogicalCpu, LogicalCpu), Tally> = BTreeMap::new();
    for pair in all.iter().chain(after) {
        sums.entry((pair.from, pair.to))
            .or_default()
            .merge(pair.tally);
    }
    for pair in before {
        let sum = sums.get_mut(&(pair.from, pair.to))?;
        *sum = sum.less(pair.tally)?;
    }
    let pairs = sums
        .into_iter()
        .filter(|(_, tally)| tally.count > Accesses::ZERO);
    Some(
        pairs
            .map(|((from, to), tally)| Pair { from, to, tally })
            .collect(),
    )
}
