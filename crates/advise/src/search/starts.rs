//! Where climbs start: layouts that need no search, clusters of what saves together; and all
//! layouts of small structs.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use linemate_attribution::tally::CpuSet;
use linemate_types::ByteSize;
use linemate_units::Millionths;
use rayon::prelude::*;

use super::{HOT_UNITS, SEGMENTS_MAX, Scored, Search};
use crate::candidate::Candidate;

impl Search<'_, '_, '_> {
    /// The members by the number of their events, most first: what a profiler alone would suggest.
    pub fn by_heat(&self) -> Candidate {
        let mut candidate = Candidate::original(self.shape);
        for unit in &self.hot {
            candidate.take(*unit);
        }
        let at = candidate.at;
        let after = candidate.rest.split_off(at);
        candidate.rest.extend(&self.hot);
        candidate.rest.extend(after);
        candidate
    }

    /// The same, a line's worth of members at a time.
    pub(super) fn heat_lines(&self, open: bool) -> Candidate {
        let mut candidate = Candidate::original(self.shape);
        let (mut line, mut bytes) = (Vec::new(), ByteSize::ZERO);
        let room = ByteSize(self.metrics().line.bytes());
        // Half of what a climb moves around; the climb does the rest. A guess.
        for &unit in self.hot.iter().take(HOT_UNITS / 2) {
            let size = self.metrics().bytes(unit);
            if size > room {
                continue;
            }
            candidate.take(unit);
            if bytes + size > room {
                candidate.segments.push(std::mem::take(&mut line));
                bytes = ByteSize::ZERO;
            }
            bytes += size;
            line.push(unit);
        }
        candidate.segments.push(line);
        for segment in &mut candidate.segments {
            // As in `put_into`: by alignment, so that no holes are between them.
            segment.sort_by_key(|u| (std::cmp::Reverse(self.metrics().align(*u)), *u));
        }
        candidate.segments.retain(|s| !s.is_empty());
        candidate.open = open && !candidate.segments.is_empty();
        candidate
    }

    /// Holes filled with the last member that fits, like pahole's `--reorganize`.
    pub fn holes_filled(&self, original: &Candidate) -> Candidate {
        let mut here = original.clone();
        for _ in 0..self.shape.units().len() {
            let slack = self.slack(&here);
            let better = self.holes(&here).into_iter().find_map(|(before, hole)| {
                let place = here.rest.iter().position(|u| *u == before)?;
                let later = here.rest[place + 1..].iter().rev().copied();
                let mut fitting =
                    later.filter(|u| self.shape.movable(*u) && self.metrics().bytes(*u) <= hole);
                fitting.find_map(|unit| {
                    let mut next = here.clone();
                    next.take(unit);
                    next.put_after(before, unit);
                    (self.slack(&next) < slack).then_some(next)
                })
            });
            match better {
                Some(next) => here = next,
                None => break,
            }
        }
        here
    }

    /// The members that the same CPUs write together, each such set from a line's start; what
    /// nobody writes is one set, too.
    pub(super) fn by_writers(&self, open: bool) -> Candidate {
        let mut candidate = Candidate::original(self.shape);
        let mut sets: BTreeMap<Vec<CpuSet>, Vec<usize>> = BTreeMap::new();
        for &unit in self.hot.iter().take(HOT_UNITS) {
            let writers = self.objective.models.iter();
            let writers = writers.map(|model| model.writers(unit)).collect();
            sets.entry(writers).or_default().push(unit);
        }
        for units in sets.into_values().take(SEGMENTS_MAX) {
            candidate.segments.push(Vec::new());
            let segment = candidate.segments.len() - 1;
            for unit in units {
                candidate.take(unit);
                candidate.put_into(segment, unit, self.metrics());
            }
        }
        candidate.open = open && !candidate.segments.is_empty();
        candidate
    }

    /// Units joined bottom up: each time the two groups that save most when they share a line, as
    /// long as they fit on one.
    pub(super) fn clusters(&self) -> Vec<Vec<usize>> {
        let hot = &self.hot[..self.hot.len().min(HOT_UNITS)];
        let line = ByteSize(self.metrics().line.bytes());
        let bytes = |units: &[usize]| units.iter().map(|u| self.metrics().bytes(*u)).sum();
        let fits = |units: &[usize]| -> bool { line >= bytes(units) };
        let alone = hot
            .iter()
            .map(|unit| vec![*unit])
            .filter(|units| fits(units));
        let alone: Vec<Vec<usize>> = alone.collect();
        let costs = self.costs_together(&alone);
        let mut groups: Vec<(Vec<usize>, Millionths)> = alone.into_iter().zip(costs).collect();
        loop {
            let pairs = (0..groups.len()).flat_map(|a| (a + 1..groups.len()).map(move |b| (a, b)));
            let join = |&(a, b): &(usize, usize)| [&groups[a].0[..], &groups[b].0[..]].concat();
            let pairs: Vec<(usize, usize)> = pairs.filter(|pair| fits(&join(pair))).collect();
            let joined: Vec<Vec<usize>> = pairs.iter().map(join).collect();
            let costs = self.costs_together(&joined);
            let saved = |(&(a, b), cost): (&(usize, usize), Millionths)| {
                let saved = (groups[a].1 + groups[b].1).checked_sub(cost)?;
                // Of equal savings the earlier pair, on any number of threads.
                (saved > Millionths::ZERO).then_some((saved, std::cmp::Reverse((a, b))))
            };
            let best = pairs.iter().zip(costs).filter_map(saved).max();
            let Some((saved, std::cmp::Reverse((a, b)))) = best else {
                break;
            };
            let (units, costs) = groups.remove(b);
            groups[a].0.extend(units);
            groups[a].1 = groups[a].1 + costs - saved;
        }
        groups.sort_by_key(|(units, cost)| (std::cmp::Reverse(*cost), units.clone()));
        groups.into_iter().map(|(units, _)| units).collect()
    }

    /// The cost of each set of units on a line with nothing else, relative to the original's and
    /// summed over the models.
    fn costs_together(&self, sets: &[Vec<usize>]) -> Vec<Millionths> {
        let mut sums = vec![Millionths::ZERO; sets.len()];
        for (model, original) in self.objective.models.iter().zip(&self.objective.originals) {
            let costs = model.together(self.shape, sets);
            for (sum, together) in sums.iter_mut().zip(costs) {
                // Divided in two steps: cycles times a million may exceed 64 bits.
                *sum += Millionths(together.0 * 1_000 / (original.0 / 1_000).max(1));
            }
        }
        sums
    }

    /// The most expensive clusters as segments.
    pub(super) fn clustered(&self, clusters: &[Vec<usize>], open: bool) -> Candidate {
        let mut candidate = Candidate::original(self.shape);
        for cluster in clusters
            .iter()
            // A member that saves with no other one gains at most from a line of its own; the climb
            // tries that.
            .filter(|c| c.len() > 1)
            // Half, so that the climb can add groups of its own.
            .take(SEGMENTS_MAX / 2)
        {
            for unit in cluster {
                candidate.take(*unit);
            }
            candidate.segments.push(Vec::new());
            let segment = candidate.segments.len() - 1;
            for unit in cluster {
                candidate.put_into(segment, *unit, self.metrics());
            }
        }
        candidate.open = open && !candidate.segments.is_empty();
        candidate
    }

    /// All orders of a small struct's members, each with lines started wherever that fits: for each
    /// number of moves the cheapest, the cheapest of all first.
    pub(super) fn exhaust(&self) -> Option<Vec<Scored>> {
        let original = Candidate::original(self.shape);
        let movable: Vec<usize> = original
            .rest
            .iter()
            .copied()
            .filter(|u| self.shape.movable(*u))
            .collect();
        // Only if the movable members are contiguous: after those that stay, before a flexible
        // array.
        let first = original.rest.iter().position(|u| movable.contains(u))?;
        if original.rest[first..first + movable.len()] != movable[..] {
            return None;
        }
        let orders = permutations(movable.len());
        let cuts = if self.lines {
            1u32 << (movable.len() - 1)
        } else {
            1
        };
        let by_moves = orders
            .into_par_iter()
            .fold(BTreeMap::new, |mut best, order| {
                let units: Vec<usize> = order.iter().map(|i| movable[*i]).collect();
                for cut in 0..cuts {
                    let next = self.cut(&original, first, &units, cut);
                    if self.fits(&next) {
                        keep_cheapest(&mut best, self.rate(next));
                    }
                }
                best
            })
            .reduce(BTreeMap::new, |mut all, part| {
                for scored in part.into_values() {
                    keep_cheapest(&mut all, scored);
                }
                all
            });
        let mut all: Vec<Scored> = by_moves.into_values().collect();
        all.sort_by(|a, b| (a.cost, a.score, &a.candidate).cmp(&(b.cost, b.score, &b.candidate)));
        Some(all)
    }

    /// The units in that order, with a line started after each whose bit is set.
    fn cut(&self, original: &Candidate, first: usize, units: &[usize], cut: u32) -> Candidate {
        let mut next = original.clone();
        if cut == 0 {
            next.rest[first..first + units.len()].copy_from_slice(units);
            return next;
        }
        next.rest.drain(first..first + units.len());
        next.at = first;
        let mut segment = Vec::new();
        for (i, unit) in units.iter().enumerate() {
            segment.push(*unit);
            if cut & 1 << i != 0 || i + 1 == units.len() {
                next.segments.push(std::mem::take(&mut segment));
            }
        }
        next.open = true;
        next
    }
}

/// Keeps the cheaper of two layouts with as many moves; of equal ones the first in order.
fn keep_cheapest(best: &mut BTreeMap<usize, Scored>, scored: Scored) {
    let rank = |s: &Scored| (s.cost, s.candidate.clone());
    match best.entry(scored.candidate.moves()) {
        Entry::Vacant(place) => {
            place.insert(scored);
        }
        Entry::Occupied(mut known) => {
            if rank(&scored) < rank(known.get()) {
                known.insert(scored);
            }
        }
    }
}

/// All orders of 0 to `count` - 1, by Heap's algorithm.
fn permutations(count: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut all = vec![order.clone()];
    let mut counters = vec![0; count];
    let mut i = 1;
    while i < count {
        if counters[i] < i {
            let other = if i % 2 == 0 { 0 } else { counters[i] };
            order.swap(other, i);
            all.push(order.clone());
            counters[i] += 1;
            i = 1;
        } else {
            counters[i] = 0;
            i += 1;
        }
    }
    all
}
