//! A candidate layout as a maintainer would describe it: groups that start lines, at one place, and
//! the rest in its order.
//!
//! ```text
//!   rest[..at]   │ segment 0 ░░│ segment 1 ░│ … segment n   rest[at..]
//!   stays        │ sealed: lines of its own │ open: starts a line, the rest follows directly
//! ```

use linemate_layout::arrange::Slot;
use linemate_layout::origin::Forced;
use linemate_layout::{
    Alignment, Edit, EditFile, EditSubject, Position, Section, Statement, Target,
};
use linemate_types::ByteSize;

use crate::shape::{Metrics, StructShape};

/// A layout to try.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Candidate {
    /// Units in no segment, in their new order.
    pub rest: Vec<usize>,
    /// How many of them precede the segments.
    pub at: usize,
    /// Units that are together, starting at a line's start.
    pub segments: Vec<Vec<usize>>,
    /// Whether the last segment shares its lines with the rest.
    pub open: bool,
}

impl Candidate {
    /// The order of the recorded kernel, without groups.
    pub fn original(shape: &StructShape) -> Candidate {
        Candidate {
            rest: (0..shape.units().len()).collect(),
            at: shape.frozen,
            segments: Vec::new(),
            open: false,
        }
    }

    /// The units in their new order, with the requests for each.
    pub fn slots(&self, shape: &StructShape) -> Vec<Slot> {
        let mut slots = Vec::with_capacity(shape.units().len());
        let named = self.named_line_starts(shape);
        let slot = |unit: usize, group: Option<usize>| {
            let of = &shape.units()[unit];
            Slot {
                unit,
                forced: of.forced,
                // An edit that names a member replaces its `____cacheline_aligned`, so a named
                // member stops requesting a line.
                keeps_line: of.may_ask_for_line && !named.contains(&unit),
                gap: of.gap,
                least: ByteSize::ZERO,
                after: ByteSize::ZERO,
                stride: None,
                group,
            }
        };
        slots.extend(self.rest[..self.at].iter().map(|u| slot(*u, None)));
        for (number, segment) in self.segments.iter().enumerate() {
            let sealed = !self.is_open(number);
            let first = slots.len();
            slots.extend(segment.iter().map(|u| slot(*u, sealed.then_some(number))));
            if !sealed && self.open_is_aligned() && first < slots.len() {
                slots[first].forced = Some(Forced::Line);
            }
        }
        slots.extend(self.rest[self.at..].iter().map(|u| slot(*u, None)));
        slots
    }

    /// The units that the edits name, among those that otherwise keep their line starts: moved
    /// ones, or those in a segment.
    fn named_line_starts(&self, shape: &StructShape) -> Vec<usize> {
        let keeps = |u: &usize| shape.units()[*u].may_ask_for_line;
        // Few types have any, and finding what is out of order takes a while.
        if !shape.units().iter().any(|u| u.may_ask_for_line) {
            return Vec::new();
        }
        let in_segments = self.segments.iter().flatten().copied();
        in_segments
            .chain(self.out_of_order())
            .filter(keeps)
            .collect()
    }

    fn is_open(&self, segment: usize) -> bool {
        self.open && segment + 1 == self.segments.len()
    }

    /// Whether the open segment has to request its line: after a group, and at the start, it has
    /// one.
    fn open_is_aligned(&self) -> bool {
        self.segments.len() == 1 && self.at > 0
    }

    /// How much a reader of the edit has to follow: the least number of units that explain the
    /// reordering, and groups.
    pub fn moves(&self) -> usize {
        self.displaced() + self.segments.len()
    }

    /// The least set of units that explain the reordering.
    pub fn displaced(&self) -> usize {
        let (front, after) = self.rest.split_at(self.at);
        let inside = self.segments.iter().flatten();
        let count = self.rest.len() + inside.clone().count();
        count - rise_length(front.iter().chain(inside).chain(after).copied())
    }

    /// The least set of units of the rest that explain its reordering.
    pub fn out_of_order(&self) -> Vec<usize> {
        let kept = longest_rise(&self.rest);
        let moved = self.rest.iter().copied();
        moved.filter(|u| !kept.contains(u)).collect()
    }

    /// Where a unit is: its segment, or the rest.
    pub fn segment_of(&self, unit: usize) -> Option<usize> {
        self.segments.iter().position(|s| s.contains(&unit))
    }

    /// Takes out a unit. Segments left empty are dropped.
    pub fn take(&mut self, unit: usize) {
        if let Some(segment) = self.segment_of(unit) {
            self.segments[segment].retain(|u| *u != unit);
            self.drop_empty();
        } else if let Some(place) = self.rest.iter().position(|u| *u == unit) {
            self.rest.remove(place);
            self.at -= usize::from(place < self.at);
        }
    }

    fn drop_empty(&mut self) {
        let last_is_empty = self.segments.last().is_some_and(Vec::is_empty);
        self.open &= !last_is_empty;
        self.segments.retain(|s| !s.is_empty());
    }

    /// Puts an unplaced unit back to its place in the recorded order.
    pub fn put_back(&mut self, unit: usize) {
        // Before the first with a larger number: in a rest that kept its order this is its old
        // place.
        let place = self.rest.iter().position(|u| *u > unit);
        let place = place.unwrap_or(self.rest.len());
        self.rest.insert(place, unit);
        // A unit that followed the last one before the segments goes after the segments.
        self.at += usize::from(place < self.at);
    }

    /// Puts an unplaced unit directly after another one, into its segment if it is in one.
    pub fn put_after(&mut self, before: usize, unit: usize) {
        if let Some(segment) = self.segment_of(before) {
            let units = &mut self.segments[segment];
            let place = units.iter().position(|u| *u == before);
            units.insert(place.map_or(units.len(), |p| p + 1), unit);
            return;
        }
        let place = self.rest.iter().position(|u| *u == before);
        let place = place.map_or(self.rest.len(), |p| p + 1);
        self.rest.insert(place, unit);
        // Directly after the last member before the segments is still before them: an edit can only
        // say `after MEMBER`.
        self.at += usize::from(place <= self.at && place > 0 && self.at > 0);
    }

    /// Puts an unplaced unit into a segment: the widest first, so that there are no holes between
    /// them.
    pub fn put_into(&mut self, segment: usize, unit: usize, metrics: &Metrics) {
        let units = &mut self.segments[segment];
        // The number as well, so that one set of members is one layout in whatever order they came.
        let rank = |u: usize| (std::cmp::Reverse(metrics.align(u)), u);
        let place = units.partition_point(|u| rank(*u) < rank(unit));
        units.insert(place, unit);
    }

    /// The candidate as edits of `subject`. `names` are those of the segments.
    pub fn edits(&self, subject: &EditSubject, shape: &StructShape, names: &[String]) -> EditFile {
        let name = |unit: usize| shape.names[unit].clone().unwrap_or_default();
        // The rest first: groups are put after members that must already be in their final place.
        let mut edits = self.order_rest(shape);
        let mut anchor = self.at.checked_sub(1).map(|i| name(self.rest[i]));
        let after = |anchor: &Option<String>| match anchor {
            Some(name) => Target::After(name.clone()),
            None => Target::First,
        };
        for (number, segment) in self.segments.iter().enumerate() {
            let fields: Vec<String> = segment.iter().map(|u| name(*u)).collect();
            let target = after(&anchor);
            if !self.is_open(number) {
                let name = names[number].clone();
                anchor = Some(name.clone());
                let target = Some(target);
                edits.push(Edit::Group {
                    name,
                    target,
                    fields,
                });
                continue;
            }
            anchor = fields.last().cloned();
            let field = fields[0].clone();
            edits.push(Edit::Move { field, target });
            if fields.len() > 1 {
                edits.push(Edit::Order(fields.clone()));
            }
            if self.open_is_aligned() {
                edits.push(Edit::Align {
                    field: fields[0].clone(),
                    alignment: Alignment::Line,
                });
            }
        }
        let statement = |(line, edit)| Statement {
            edit,
            at: Position { line, column: 1 },
        };
        // Line 1 is the header `type T` of the edit as printed, so that a reader finds the position
        // in an error.
        let statements = (2u32..).zip(edits).map(statement).collect();
        EditFile {
            sections: vec![Section {
                subject: Some(subject.clone()),
                statements,
            }],
        }
    }

    /// Moves the members of the rest that leave their order.
    fn order_rest(&self, shape: &StructShape) -> Vec<Edit> {
        let stays = longest_rise(&self.rest);
        let name = |unit: usize| shape.names[unit].clone().unwrap_or_default();
        let mut edits: Vec<Edit> = Vec::new();
        for (place, unit) in self.rest.iter().enumerate() {
            // The longest ascending part stays, so that the patch names as few members as possible.
            if stays.contains(unit) {
                continue;
            }
            let field = name(*unit);
            let Some(front) = place.checked_sub(1).map(|before| name(self.rest[before])) else {
                let target = Target::First;
                edits.push(Edit::Move { field, target });
                continue;
            };
            // Members that follow one another from here on form one statement.
            match edits.last_mut() {
                Some(Edit::Order(fields)) if fields.last() == Some(&front) => fields.push(field),
                _ => edits.push(Edit::Order(vec![front, field])),
            }
        }
        edits
    }
}

/// A longest ascending part of `order`, as a sorted list of its values; of several the one that
/// patience sorting finds.
fn longest_rise(order: &[usize]) -> Rise {
    let mut piles: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; order.len()];
    for (i, value) in order.iter().enumerate() {
        // Patience sorting: a pile's top is the least end of an ascending part of its length.
        let pile = piles.partition_point(|top| order[*top] < *value);
        before[i] = pile.checked_sub(1).map(|p| piles[p]);
        if pile == piles.len() {
            piles.push(i);
        } else {
            piles[pile] = i;
        }
    }
    let mut rise = Vec::with_capacity(piles.len());
    let mut next = piles.last().copied();
    while let Some(i) = next {
        rise.push(order[i]);
        next = before[i];
    }
    rise.reverse();
    Rise(rise)
}

/// The length of a longest ascending part, all values different: the piles alone, because the
/// search asks this of every layout that it rates, and needs the part itself of few.
fn rise_length(order: impl Iterator<Item = usize>) -> usize {
    let mut tops: Vec<usize> = Vec::with_capacity(order.size_hint().0);
    for value in order {
        match tops.last() {
            // Members mostly keep their order: then each value starts a pile.
            Some(last) if *last > value => {
                let pile = tops.partition_point(|top| *top < value);
                tops[pile] = value;
            }
            _ => tops.push(value),
        }
    }
    tops.len()
}

struct Rise(Vec<usize>);

impl Rise {
    fn contains(&self, value: &usize) -> bool {
        self.0.binary_search(value).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_rise_stays() {
        assert_eq!(longest_rise(&[0, 1, 2]).0, [0, 1, 2]);
        assert_eq!(longest_rise(&[3, 0, 1, 4, 2]).0.len(), 3);
        assert_eq!(longest_rise(&[2, 1, 0]).0, [0]);
        assert_eq!(longest_rise(&[]).0, [] as [usize; 0]);
    }

    #[test]
    fn its_length_is_that_of_the_rise_for_every_order_of_seven() {
        let mut orders: Vec<Vec<usize>> = vec![Vec::new()];
        for value in 0..7 {
            let with_it = |order: &Vec<usize>| {
                let order = order.clone();
                (0..=order.len()).map(move |place| {
                    let mut next = order.clone();
                    next.insert(place, value);
                    next
                })
            };
            orders = orders.iter().flat_map(with_it).collect();
        }
        assert_eq!(orders.len(), 5040);
        for order in orders {
            let length = rise_length(order.iter().copied());
            assert_eq!(length, longest_rise(&order).0.len(), "{order:?}");
        }
    }
}
