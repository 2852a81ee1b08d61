//! The steps of a climb: layouts that one change makes of another.

use linemate_layout::origin::UnitKind;
use linemate_types::ByteSize;
use linemate_units::Millionths;
use rustc_hash::FxHashMap;

use super::{HOT_UNITS, SEGMENTS_MAX, Scored, Search};
use crate::candidate::Candidate;
use crate::shape::UnitLayout;

/// Structs with more members are not also searched by their order within lines: that has (hot
/// members × all members) neighbours per step, while grouping has (hot members × segments), and the
/// cost depends on which members share a line. If objects do not start lines, order is all there
/// is.
const PERMUTED_UNITS: usize = 24;
/// A line counts as full if no member of the commonest size, a pointer, fits at its end.
const SPARE_BYTES: ByteSize = ByteSize(8);

/// How many exchanges of two members are rated of a layout's.
// With all, a search takes twice the time. Of nine questions the six that are not about
// `task_struct` have the same answer; its three gain 0.9 and 3.5 points less by replay with 32, and
// 0.9 more. With 48, one of the three gains 1 point more by the fast model
// (evidence/benchmarks.md).
pub(super) const SWAPS_MAX: usize = 32;

/// A member at another place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct UnitMove {
    unit: usize,
    /// The segment that it goes to, by its number before the move; `None`: back to the rest.
    to: Option<usize>,
}

/// Two members to be exchanged: one of a segment, one of another or of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Swap {
    inside: usize,
    other: usize,
}

/// By the move of a member: the layout's place in a list.
type Moves = FxHashMap<UnitMove, usize>;

impl Swap {
    /// What both moves cost together, each made alone, by the list that `moves` is of.
    fn one_by_one(self, here: &Candidate, moves: &Moves, rated: &[Scored]) -> Option<Millionths> {
        let cost = |unit: usize, to: usize| {
            let to = here.segment_of(to);
            let place = moves.get(&UnitMove { unit, to })?;
            Some(rated.get(*place)?.cost)
        };
        Some(cost(self.inside, self.other)? + cost(self.other, self.inside)?)
    }
}

impl Search<'_, '_, '_> {
    /// What one step of a climb from each of these layouts tries, rated, in no order that means
    /// anything.
    ///
    /// Two thirds of all neighbours are exchanges of two members. Each is rated by what its two
    /// moves cost one by one, and only the cheapest are built: what two members do to each other's
    /// old neighbours together, and what fits on a line only once the other one has left, is not in
    /// that rating. Of 99 steps that an exchange would have been best for (`task_struct`), the
    /// best exchange was among the 32 cheapest in 34. By cost, whatever a move is worth: ranking by
    /// moves, too, was not tried.
    pub(super) fn rated_neighbours(&self, of: &[Candidate]) -> Vec<Scored> {
        let mut all = Vec::new();
        let moves: Vec<Moves> = of.iter().map(|here| self.moves(here, &mut all)).collect();
        let mut rated = self.rate_all(all);
        let of_layout = |(here, moves): (&Candidate, &Moves)| -> Vec<Candidate> {
            let mut swaps: Vec<(Millionths, Swap)> = self
                .swaps(here)
                .filter_map(|swap| Some((swap.one_by_one(here, moves, &rated)?, swap)))
                .collect();
            swaps.sort_unstable();
            let cheapest = swaps.iter().take(SWAPS_MAX);
            cheapest
                .map(|(_, swap)| self.swapped(here, *swap))
                .collect()
        };
        let swapped = of.iter().zip(&moves).flat_map(of_layout).collect();
        rated.extend(self.rate_all(swapped));
        rated
    }

    /// Adds all but exchanges of two members to `all`; returns which of them are moves of one.
    fn moves(&self, here: &Candidate, all: &mut Vec<Candidate>) -> Moves {
        let mut moves = Moves::default();
        let hot = &self.hot[..self.hot.len().min(HOT_UNITS)];
        if self.lines {
            for &unit in hot {
                self.move_unit(here, unit, all, &mut moves);
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
            self.change_segments(here, all);
        }
        if !self.lines || self.shape.units().len() <= PERMUTED_UNITS {
            self.permute(here, hot, all);
        }
        self.restore(here, all);
        moves
    }

    /// One unit to every other segment, to a new one, and back to its old place.
    fn move_unit(
        &self,
        here: &Candidate,
        unit: usize,
        all: &mut Vec<Candidate>,
        moves: &mut Moves,
    ) {
        let from = here.segment_of(unit);
        let mut out = here.clone();
        out.take(unit);
        // A segment that had nothing else is gone.
        let gone = from.filter(|_| out.segments.len() < here.segments.len());
        for segment in 0..out.segments.len() {
            let mut next = out.clone();
            next.put_into(segment, unit, self.metrics());
            if next != *here {
                let later = gone.is_some_and(|gone| gone <= segment);
                let to = Some(segment + usize::from(later));
                moves.insert(UnitMove { unit, to }, all.len());
                all.push(next);
            }
        }
        if from.is_some() {
            let mut next = out.clone();
            next.put_back(unit);
            moves.insert(UnitMove { unit, to: None }, all.len());
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

    /// Two hot units of different segments, or a unit of a segment and one of the rest.
    fn swaps<'s>(&'s self, here: &'s Candidate) -> impl Iterator<Item = Swap> + 's {
        let hot = match self.lines {
            true => &self.hot[..self.hot.len().min(HOT_UNITS)],
            false => &[],
        };
        let pairs = (0..hot.len()).flat_map(|a| (a + 1..hot.len()).map(move |b| (a, b)));
        pairs.filter_map(move |(a, b)| {
            let (a, b) = (hot[a], hot[b]);
            match (here.segment_of(a), here.segment_of(b)) {
                (None, None) => None,
                (of_a, of_b) if of_a == of_b => None,
                (Some(_), _) => Some(Swap {
                    inside: a,
                    other: b,
                }),
                (None, _) => Some(Swap {
                    inside: b,
                    other: a,
                }),
            }
        })
    }

    /// The layout with both at each other's place.
    fn swapped(&self, here: &Candidate, swap: Swap) -> Candidate {
        let Swap { inside, other } = swap;
        let mut next = here.clone();
        let Some(of_inside) = here.segment_of(inside) else {
            return next;
        };
        next.segments[of_inside].retain(|u| *u != inside);
        match here.segment_of(other) {
            Some(of_other) => {
                next.segments[of_other].retain(|u| *u != other);
                next.put_into(of_inside, other, self.metrics());
                next.put_into(of_other, inside, self.metrics());
            }
            None => {
                next.put_into(of_inside, other, self.metrics());
                // Not with `take`, which drops a segment that is empty for a moment and would
                // renumber the others.
                let front = here.rest[..here.at].contains(&other);
                next.rest.retain(|u| *u != other);
                next.at = here.at - usize::from(front);
                next.put_back(inside);
            }
        }
        next
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
    fn permute(&self, here: &Candidate, hot: &[usize], all: &mut Vec<Candidate>) {
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

#[cfg(test)]
impl Search<'_, '_, '_> {
    pub(super) fn swapped_units(&self, here: &Candidate, inside: usize, other: usize) -> Candidate {
        self.swapped(here, Swap { inside, other })
    }

    /// Whether each move of a member is to where it says.
    pub(super) fn check_moves(&self, here: &Candidate) {
        let mut all = Vec::new();
        let moves = self.moves(here, &mut all);
        let units = here.segments.iter().flatten().chain(&here.rest).count();
        let places = units * (here.segments.len() + 1);
        // To every segment and to the rest, but not to where it is.
        assert_eq!(moves.len(), places - units);
        for (UnitMove { unit, to }, place) in moves {
            let there = &all[place];
            let with = |segment: usize| {
                let mut with = here.segments[segment].clone();
                with.push(unit);
                with.sort_unstable();
                with
            };
            match (there.segment_of(unit), to) {
                (Some(segment), Some(to)) => {
                    let mut found = there.segments[segment].clone();
                    found.sort_unstable();
                    assert_eq!(found, with(to), "{unit}");
                }
                (None, None) => assert!(there.rest.contains(&unit)),
                (found, to) => panic!("{unit} to {to:?}, and is in {found:?}"),
            }
        }
    }
}
