//! Fills up layouts that are too large: rarely used members go into holes, nowhere else.

use linemate_layout::arrange::Slot;
use linemate_types::{ByteOffset, ByteSize};

use super::{Scored, Search};
use crate::candidate::Candidate;
use crate::shape::UnitLayout;

impl Search<'_, '_, '_> {
    /// Moves cold members into holes until the layout is small enough: repeatedly, into the largest
    /// hole, the largest member that fits and leaves less unused.
    pub(super) fn fill(&self, mut candidate: Candidate) -> Option<Candidate> {
        let mut excess = self.excess(&candidate);
        let mut slack = self.slack(&candidate);
        while excess > ByteSize::ZERO {
            let fits = |&(before, hole): &(usize, ByteSize)| {
                let small = |u: &&usize| self.metrics().bytes(**u) <= hole && **u != before;
                self.cold.iter().filter(small).find_map(|unit| {
                    // It was put into a group on purpose.
                    if candidate.segment_of(*unit).is_some() {
                        return None;
                    }
                    let mut next = candidate.clone();
                    next.take(*unit);
                    next.put_after(before, *unit);
                    let found = (self.excess(&next), self.slack(&next));
                    // Strictly less, so that it ends: moving between equal holes could continue
                    // forever.
                    (found < (excess, slack)).then_some((found, next))
                })
            };
            let ((left, unused), next) = self.holes(&candidate).iter().find_map(fits)?;
            (excess, slack, candidate) = (left, unused, next);
        }
        Some(candidate)
    }

    /// Unused bytes, in the first limit's kernel.
    pub(super) fn slack(&self, candidate: &Candidate) -> ByteSize {
        let slots = candidate.slots(self.shape);
        let mut placed = UnitLayout::default();
        self.metrics().place(&slots, &mut placed);
        // Earlier holes count more than the end: a hole that moves to the end has become usable.
        let mut end = ByteOffset::ZERO;
        let mut unused = ByteSize::ZERO;
        for slot in &slots {
            unused += placed.start(slot.unit).after(end).unwrap_or_default();
            end = self.metrics().end(&placed, slot.unit);
        }
        unused
    }

    /// Members followed by a hole, and its bytes, the largest hole first. No hole before the
    /// members that stay is filled.
    pub(super) fn holes(&self, candidate: &Candidate) -> Vec<(usize, ByteSize)> {
        let slots = candidate.slots(self.shape);
        let mut placed = UnitLayout::default();
        self.metrics().place(&slots, &mut placed);
        // From the last member that stays on: a hole after it may be filled, because nothing that
        // stays moves by it.
        let first = self.shape.frozen.saturating_sub(1);
        let hole = |pair: &[Slot]| {
            let end = self.metrics().end(&placed, pair[0].unit);
            let hole = placed.start(pair[1].unit).after(end);
            // An edit says `after MEMBER`: the member before the hole needs a name.
            let named = self.shape.names[pair[0].unit].is_some();
            let hole = hole.filter(|hole| *hole > ByteSize::ZERO && named)?;
            Some((pair[0].unit, hole))
        };
        let mut holes: Vec<(usize, ByteSize)> =
            slots[first..].windows(2).filter_map(hole).collect();
        holes.sort_by_key(|(unit, hole)| (std::cmp::Reverse(*hole), *unit));
        holes
    }

    /// The layout with rarely used members back in their old places, as far as it is small enough
    /// without their help.
    pub(super) fn unfilled(&self, mut scored: Scored) -> Scored {
        for unit in self.fillers(&scored.candidate) {
            let mut next = scored.candidate.clone();
            next.take(unit);
            next.put_back(unit);
            // A filler of a hole that a later step closed is a move without a reason.
            if self.fits(&next) && next.moves() <= scored.candidate.moves() {
                scored = self.rate(next);
            }
        }
        scored
    }

    /// The rarely used members that a layout moves.
    pub fn fillers(&self, candidate: &Candidate) -> Vec<usize> {
        let grouped = candidate.segments.iter().flatten().copied();
        let moved = grouped.chain(candidate.out_of_order());
        moved.filter(|u| !self.hot.contains(u)).collect()
    }

    /// Removes whole lines until the layout is small enough: in a run of members between two that
    /// start lines, those on its last line go into holes elsewhere. Each time the run that the
    /// fewest members have to leave.
    pub(super) fn fill_lines(&self, mut candidate: Candidate) -> Option<Candidate> {
        let mut excess = self.excess(&candidate);
        while excess > ByteSize::ZERO {
            let mut runs = self.last_lines(&candidate);
            // Fewest first: each member that leaves is a move that the patch has to justify.
            runs.sort_by_key(Vec::len);
            let (left, next) = runs.iter().find_map(|units| {
                let next = self.with_holes_filled(candidate.clone(), units)?;
                let left = self.excess(&next);
                (left < excess).then_some((left, next))
            })?;
            (excess, candidate) = (left, next);
        }
        Some(candidate)
    }

    /// For each run of members between two that start lines: rarely used ones as large as what is
    /// on its last line. None for runs without such members.
    fn last_lines(&self, candidate: &Candidate) -> Vec<Vec<usize>> {
        let slots = candidate.slots(self.shape);
        let mut placed = UnitLayout::default();
        let metrics = self.metrics();
        metrics.place(&slots, &mut placed);
        let starts =
            |a: &Slot, b: &Slot| a.group != b.group || b.align(metrics.line) >= metrics.line.into();
        let of_run = |run: &[Slot]| {
            let last = run.last()?.unit;
            let line = metrics.line.bytes();
            let beyond = match metrics.end(&placed, last).0 % line {
                // The run ends with a line: all of its last line has to go.
                0 => line,
                beyond => beyond,
            };
            let units = run.iter().map(|slot| slot.unit);
            let mut cold: Vec<usize> = units
                .filter(|u| self.cold.contains(u) && candidate.segment_of(*u).is_none())
                .collect();
            cold.sort_by_key(|u| (std::cmp::Reverse(metrics.bytes(*u)), *u));
            self.covering(&cold, ByteSize(beyond))
        };
        slots
            .chunk_by(|a, b| !starts(a, b))
            .filter_map(of_run)
            .collect()
    }

    /// The fewest of `units`, largest first, that have at least that many bytes: the last one as
    /// small as possible.
    fn covering(&self, units: &[usize], bytes: ByteSize) -> Option<Vec<usize>> {
        let (mut left, mut chosen) = (bytes, Vec::new());
        for (place, unit) in units.iter().enumerate() {
            let enough = |u: &&usize| self.metrics().bytes(**u) >= left;
            // The units are sorted by size: from the end, the first that is large enough is the
            // smallest.
            if let Some(last) = units[place..].iter().rev().find(enough) {
                chosen.push(*last);
                return Some(chosen);
            }
            left -= self.metrics().bytes(*unit);
            chosen.push(*unit);
        }
        None
    }

    /// The layout with these members in holes, each in the smallest hole with room for it.
    fn with_holes_filled(&self, mut candidate: Candidate, units: &[usize]) -> Option<Candidate> {
        for unit in units {
            candidate.take(*unit);
        }
        for unit in units {
            let holes = self.holes(&candidate);
            let room = |(_, hole): &&(usize, ByteSize)| *hole >= self.metrics().bytes(*unit);
            // Holes are sorted by size: the smallest with room, so that large ones remain for large
            // members.
            let (before, _) = holes.iter().rev().find(room)?;
            candidate.put_after(*before, *unit);
        }
        Some(candidate)
    }
}
