//! The steps of a climb: all layouts that one change makes of another.

use linemate_layout::origin::UnitKind;
use linemate_types::ByteSize;

use super::{HOT_UNITS, SEGMENTS_MAX, Search};
use crate::candidate::Candidate;
use crate::shape::UnitLayout;

/// Structs with more members are not also searched by their order within lines: that has (hot
/// members × all members) neighbours per step, while grouping has (hot members × segments), and the
/// cost depends on which members share a line. If objects do not start lines, order is all there
/// is.
const PERMUTED_UNITS: usize = 24;
/// A line counts as full if no member of the commonest size, a pointer, fits at its end.
const SPARE_BYTES: ByteSize = ByteSize(8);

impl Search<'_, '_, '_> {
    /// What one step of a climb tries.
    pub(super) fn neighbours(&self, here: &Candidate) -> Vec<Candidate> {
        let mut all = Vec::new();
        let hot = &self.hot[..self.hot.len().min(HOT_UNITS)];
        if self.lines {
            for &unit in hot {
                self.move_unit(here, unit, &mut all);
            }
            // Cold members that filled a hole: back home, in case the hole is gone.
            for unit in here.segments.iter().flatten() {
                if !hot.contains(unit) {
                    let mut next = here.clone();
                    next.take(*unit);
                    next.put_back(*unit);
                    all.push(next);
                }
            }
            self.swap_units(here, hot, &mut all);
            self.change_segments(here, &mut all);
        }
        if !self.lines || self.shape.units().len() <= PERMUTED_UNITS {
            self.permute(here, hot, &mut all);
        }
        self.restore(here, &mut all);
        all
    }

    /// One unit to every other segment, to a new one, and back to its old place.
    pub(super) fn move_unit(&self, here: &Candidate, unit: usize, all: &mut Vec<Candidate>) {
        let from = here.segment_of(unit);
        let mut out = here.clone();
        out.take(unit);
        for segment in 0..out.segments.len() {
            let mut next = out.clone();
            next.put_into(segment, unit, self.metrics());
            if next != *here {
                all.push(next);
            }
        }
        if from.is_some() {
            let mut next = out.clone();
            next.put_back(unit);
            all.push(next);
        }
        if out.segments.len() < SEGMENTS_MAX {
            // Only at either end: swapping segments is another step, so that two steps reach every
            // place.
            for place in [0, out.segments.len()] {
                let mut next = out.clone();
                next.segments.insert(place, vec![unit]);
                // The first segment starts a line and the rest continues behind it; closing it is a
                // separate neighbour.
                next.open |= next.segments.len() == 1;
                all.push(next);
                // Without a segment both ends are the same place.
                if place == out.segments.len() {
                    break;
                }
            }
        }
    }

    /// Members of the rest that left their order, each back to its old place.
    fn restore(&self, here: &Candidate, all: &mut Vec<Candidate>) {
        for unit in here.out_of_order() {
            let mut next = here.clone();
            next.take(unit);
            next.put_back(unit);
            if next != *here {
                all.push(next);
            }
        }
    }

    /// Two units of different segments, and a unit of a segment with one of the rest.
    fn swap_units(&self, here: &Candidate, hot: &[usize], all: &mut Vec<Candidate>) {
        for (i, &a) in hot.iter().enumerate() {
            for &b in &hot[i + 1..] {
                let (of_a, of_b) = (here.segment_of(a), here.segment_of(b));
                let (Some(in_a), true) = (of_a.or(of_b), of_a != of_b) else {
                    continue;
                };
                let mut next = here.clone();
                match (of_a, of_b) {
                    (Some(x), Some(y)) => {
                        next.segments[x].retain(|u| *u != a);
                        next.segments[y].retain(|u| *u != b);
                        next.put_into(x, b, self.metrics());
                        next.put_into(y, a, self.metrics());
                    }
                    _ => {
                        let (inside, outside) = if of_a.is_some() { (a, b) } else { (b, a) };
                        next.segments[in_a].retain(|u| *u != inside);
                        next.put_into(in_a, outside, self.metrics());
                        next.rest.retain(|u| *u != outside);
                        next.at = next.at.min(next.rest.len());
                        if next.rest.len() + 1 == here.rest.len() {
                            // Not with `take`, which drops a segment that is empty for a moment and
                            // would renumber the others.
                            let front = here.rest[..here.at].contains(&outside);
                            next.at = here.at - usize::from(front);
                        }
                        next.put_back(inside);
                    }
                }
                all.push(next);
            }
        }
    }

    /// Segments swapped, joined, dissolved, opened; another place for all of them.
    fn change_segments(&self, here: &Candidate, all: &mut Vec<Candidate>) {
        let count = here.segments.len();
        for a in 0..count {
            for b in a + 1..count {
                let mut next = here.clone();
                next.segments.swap(a, b);
                all.push(next);
                let mut next = here.clone();
                let joined = next.segments.remove(b);
                // The open segment is the last one, and it has been joined into another.
                next.open &= b + 1 != count;
                for unit in joined {
                    next.put_into(a, unit, self.metrics());
                }
                all.push(next);
            }
            let mut next = here.clone();
            for unit in here.segments[a].clone() {
                next.take(unit);
                next.put_back(unit);
            }
            all.push(next);
        }
        if count > 0 {
            let mut next = here.clone();
            next.open = !next.open;
            all.push(next);
            let mut places = self.ends_of_lines(here);
            // The old place of a group's member: it does not leave its order there.
            let grouped = here.segments.iter().flatten();
            places.extend(grouped.map(|unit| here.rest.partition_point(|u| u < unit)));
            // Places are tried where a line ends anyway: anywhere else, the hole before the groups
            // takes up to a line.
            places.retain(|at| *at >= self.shape.frozen && *at != here.at);
            places.sort_unstable();
            places.dedup();
            for at in places {
                let mut next = here.clone();
                next.at = at;
                all.push(next);
            }
        }
    }

    /// Places in the rest where a line ends, or nearly: segments put there leave no hole before
    /// them.
    fn ends_of_lines(&self, here: &Candidate) -> Vec<usize> {
        let slots = here.slots(self.shape);
        let mut placed = UnitLayout::default();
        self.metrics().place(&slots, &mut placed);
        let line = self.metrics().line.into();
        (self.shape.frozen..=here.rest.len())
            .filter(|at| {
                let Some(last) = at.checked_sub(1).map(|i| here.rest[i]) else {
                    return true;
                };
                let end = self.metrics().end(&placed, last);
                let flexible = self.shape.units()[last].kind == UnitKind::Flexible;
                self.shape.names[last].is_some()
                    && !flexible
                    && end.align_up(line) - end <= SPARE_BYTES
            })
            .collect()
    }

    /// Every unit with events to every place of the rest.
    pub(super) fn permute(&self, here: &Candidate, hot: &[usize], all: &mut Vec<Candidate>) {
        let flexible = here
            .rest
            .last()
            .is_some_and(|u| self.shape.units()[*u].kind == UnitKind::Flexible);
        // C allows nothing after a flexible array.
        let end = here.rest.len() - usize::from(flexible);
        for &unit in hot {
            let Some(from) = here.rest.iter().position(|u| *u == unit) else {
                continue;
            };
            for to in self.shape.frozen..end {
                if to == from || to + 1 == from && from == here.at {
                    continue;
                }
                let mut next = here.clone();
                next.rest.remove(from);
                next.rest.insert(to, unit);
                // An edit says `after MEMBER`: an unnamed one cannot be that.
                let named = to == 0 || self.shape.names[next.rest[to - 1]].is_some();
                if named {
                    all.push(next);
                }
                if to > from && self.shape.movable(here.rest[to]) {
                    let mut next = here.clone();
                    next.rest.swap(from, to);
                    all.push(next);
                }
            }
        }
    }
}
