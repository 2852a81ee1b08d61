//! One outcome from two: what a group does for itself, times the number of groups, and what all of
//! them do together.

use std::collections::BTreeMap;

use linemate_machine::{LogicalCpu, Machine};
use linemate_units::{Accesses, Instructions};

use crate::accounts::counts::{Counts, Tally};
use crate::accounts::held;
use crate::accounts::lines::{LineView, Uncontested};
use crate::accounts::outcome::{Outcome, Pair};
use crate::accounts::transfers::{MachinePlaces, Transfer, TransferTime, Transfers, numbered};
use crate::rounds::placement::KeyId;

/// The CPUs of all groups.
#[derive(Clone, Copy, Debug)]
pub struct Copies<'c> {
    /// Where they sit: recorded CPU c's copy n at c x count + n.
    pub cpus: &'c [LogicalCpu],
    /// How many groups there are.
    pub count: u16,
}

impl<'c> Copies<'c> {
    /// The places of each group's CPUs for group 0's.
    fn of_first(self) -> BTreeMap<LogicalCpu, &'c [LogicalCpu]> {
        let recorded = self.cpus.chunks(usize::from(self.count).max(1));
        recorded.map(|all| (all[0], all)).collect()
    }
}

/// The outcome of all groups: `own` is what one of them does without involving others
/// ([`crate::Replay::finish_taped`]), `together` the rest ([`crate::Scaled`]). The group of `own`
/// is number 0.
///
/// Lines that are each group's own are shown once, with the sums of all groups.
#[must_use]
pub fn join(machine: &Machine, copies: Copies<'_>, own: &Outcome, together: Outcome) -> Outcome {
    let times = u64::from(copies.count);
    let mut joined = together;
    add(&mut joined.keys, &own.keys, times);
    add(&mut joined.sites, &own.sites, times);
    joined.totals = Counts::default();
    joined
        .keys
        .iter()
        .for_each(|counts| joined.totals.merge(counts));
    joined.pairs = pairs(&own.pairs, &joined.pairs, copies);
    joined.lines = lines(&own.lines, joined.lines, times);
    uncontested(&mut joined, own, times);
    joined.transfers = transfers(machine, copies, &own.transfers, joined.transfers);
    joined.held = held::joined(&own.held, &joined.held, copies.count);
    let copied = |own: &Instructions| std::iter::repeat_n(*own, usize::from(copies.count));
    joined.instructions = own.instructions.iter().flat_map(copied).collect();
    joined.accesses = own.accesses * times;
    joined.skipped = own.skipped * times;
    joined.uncached = own.uncached * times;
    joined.prefetched += own.prefetched * times;
    joined.prefetched_modified += own.prefetched_modified * times;
    joined.fetched_ahead.add(own.fetched_ahead, times);
    joined.overlapped += own.overlapped * times;
    // The whole group, not the tape, shows whether the recording warms up the caches.
    joined.warm_up = own.warm_up;
    joined
}

fn add(to: &mut Vec<Counts>, own: &[Counts], times: u64) {
    if to.len() < own.len() {
        to.resize_with(own.len(), Counts::default);
    }
    for (to, own) in to.iter_mut().zip(own) {
        let mut all = own.clone();
        all.times(times);
        to.merge(&all);
    }
}

fn pairs(own: &[Pair], together: &[Pair], copies: Copies<'_>) -> Vec<Pair> {
    let places = copies.of_first();
    let mut sums: BTreeMap<(LogicalCpu, LogicalCpu), Tally> = BTreeMap::new();
    for pair in together {
        sums.entry((pair.from, pair.to))
            .or_default()
            .merge(pair.tally);
    }
    for pair in own {
        let (Some(from), Some(to)) = (places.get(&pair.from), places.get(&pair.to)) else {
            continue;
        };
        for (from, to) in from.iter().zip(*to) {
            sums.entry((*from, *to)).or_default().merge(pair.tally);
        }
    }
    let pair = |((from, to), tally)| Pair { from, to, tally };
    sums.into_iter().map(pair).collect()
}

fn lines(own: &[LineView], mut together: Vec<LineView>, times: u64) -> Vec<LineView> {
    for line in own {
        let mut line = line.clone();
        line.times(times);
        // Instance 0 represents all groups: a line for each of them would be as many lines with the
        // same cells.
        together.push(line);
    }
    together.sort_by_key(|view| (view.addr, view.instance));
    together
}

fn uncontested(joined: &mut Outcome, own: &Outcome, times: u64) {
    let mut sums = BTreeMap::new();
    let all = own.uncontested.iter().map(|sum| (sum, times));
    for (sum, times) in joined.uncontested.iter().map(|sum| (sum, 1)).chain(all) {
        let entry = sums
            .entry((sum.key, sum.site, sum.offset))
            .or_insert_with(|| Uncontested {
                loads: Tally::default(),
                stores: Tally::default(),
                ..sum.clone()
            });
        let mut all = sum.clone();
        all.times(times);
        entry.loads.merge(all.loads);
        entry.stores.merge(all.stores);
    }
    joined.uncontested = sums.into_values().collect();
}

fn transfers(
    machine: &Machine,
    copies: Copies<'_>,
    own: &Transfers,
    together: Transfers,
) -> Transfers {
    let (cpus, copies) = (copies.cpus, usize::from(copies.count));
    let (places, place_of) = numbered(machine, cpus);
    let place = |cpu: u16, group: usize| match own.places {
        MachinePlaces::Cpu => {
            let at = cpus.get(usize::from(cpu) * copies + group);
            at.map_or(0, |cpu| place_of[usize::from(cpu.0)])
        }
        // With more than 32 recorded CPUs only group 0's domains are known: other groups' transfers
        // are shown where group 0's were.
        MachinePlaces::Domain | MachinePlaces::Socket => cpu,
    };
    let mut pairs: BTreeMap<(KeyId, u8, u16, u16), Accesses> = BTreeMap::new();
    for row in &together.pairs {
        *pairs
            .entry((row.key, row.offset, row.from, row.to))
            .or_default() += row.count;
    }
    for row in &own.pairs {
        for group in 0..copies {
            let at = (
                row.key,
                row.offset,
                place(row.from, group),
                place(row.to, group),
            );
            *pairs.entry(at).or_default() += row.count;
        }
    }
    let mut times: BTreeMap<(KeyId, u8, u16, u16), Accesses> = BTreeMap::new();
    let all = own.times.iter().map(|row| (row, copies as u64));
    for (row, copies) in together.times.iter().map(|row| (row, 1)).chain(all) {
        *times
            .entry((row.key, row.offset, row.row, row.bin))
            .or_default() += row.count * copies;
    }
    let pair = |((key, offset, from, to), count)| Transfer {
        key,
        offset,
        from,
        to,
        count,
    };
    let time = |((key, offset, row, bin), count)| TransferTime {
        key,
        offset,
        row,
        bin,
        count,
    };
    Transfers {
        places,
        pairs: pairs.into_iter().map(pair).collect(),
        times: times.into_iter().map(time).collect(),
    }
}
