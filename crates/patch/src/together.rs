//! What holds under configs that were not recorded: no layout is known there, but field groups
//! start cache lines and stay together.

use linemate_layout::Layout;
use linemate_source::Wanted;
use linemate_source::message::PairsTogether;
use linemate_source::proof::CompiledMember;
use linemate_types::TypeModel;

use crate::change::{Change, lines};

/// A group that does not stay together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the field group of `{member}` {fault}")]
pub struct Parted {
    /// The first member of the part.
    pub member: String,
    pub fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("does not start a cache line")]
    Start,
    #[error("has other members between")]
    Between,
    #[error("has more than one cache line, though it would fit")]
    TwoLines,
    #[error("shares its last cache line with what comes after it")]
    Shared,
}

/// What has to hold for a change under other configs.
pub(crate) struct StayTogether {
    groups: Vec<GroupLines>,
    neighbours: Vec<NeighbourPair>,
}

/// Members that start a line together and have it to themselves.
struct GroupLines {
    /// Their names, in order; of an anonymous one the first inside.
    members: Vec<String>,
    /// Whether they have one line in the recorded kernel.
    one_line: bool,
}

/// Members outside of groups that the edit puts next to each other on one line.
struct NeighbourPair {
    first: String,
    second: String,
}

impl StayTogether {
    pub(crate) fn new(model: &TypeModel, change: &Change) -> StayTogether {
        let places = PlannedMembers {
            model,
            wanted: &change.wanted,
            layout: &change.planned,
            starts: lines(&change.planned, change.wanted.line),
        };
        StayTogether {
            groups: places.groups(),
            neighbours: places.neighbours(),
        }
    }

    /// Checks that the existing members of each group start a line, with nothing else in between,
    /// and are on one line if they are in the recorded kernel and fit. `places` are the compiled
    /// members, `line` is the bytes of a line there.
    ///
    /// # Errors
    /// The first group that does not stay together.
    pub(crate) fn check(&self, places: &[CompiledMember], line: u64) -> Result<(), Parted> {
        for group in &self.groups {
            if let Some(fault) = group.fault(places, line) {
                let member = group.members.first().cloned().unwrap_or_default();
                return Err(Parted { member, fault });
            }
        }
        Ok(())
    }

    /// How many of the new neighbours are on one line.
    pub(crate) fn neighbours(&self, places: &[CompiledMember], line: u64) -> PairsTogether {
        let place = |name: &String| places.iter().find(|place| place.name == *name);
        let there: Vec<bool> = self
            .neighbours
            .iter()
            .filter_map(|pair| Some((place(&pair.first)?, place(&pair.second)?)))
            .map(|(first, second)| (first.end - 1) / line == second.start / line)
            .collect();
        PairsTogether {
            pairs: there.len(),
            on_one_line: there.iter().filter(|on_one| **on_one).count(),
        }
    }
}

impl GroupLines {
    fn fault(&self, places: &[CompiledMember], line: u64) -> Option<Fault> {
        let is_inside = |place: &CompiledMember| self.members.contains(&place.name);
        let first = places.iter().position(is_inside)?;
        let last = places.iter().rposition(is_inside)?;
        let run = &places[first..=last];
        let (start, end) = (places[first].start, places[last].end);
        let bytes: u64 = run.iter().map(|place| place.end - place.start).sum();
        let next = places.get(last + 1);
        if start % line != 0 {
            Some(Fault::Start)
        } else if !run.iter().all(is_inside) {
            Some(Fault::Between)
        } else if self.one_line && bytes <= line && end > start + line {
            Some(Fault::TwoLines)
        } else if next.is_some_and(|next| next.start / line == (end - 1) / line) {
            Some(Fault::Shared)
        } else {
            None
        }
    }
}

/// The members of a type as the edit places them in the recorded kernel.
struct PlannedMembers<'c> {
    model: &'c TypeModel,
    wanted: &'c Wanted,
    layout: &'c Layout,
    starts: Vec<Option<u64>>,
}

impl PlannedMembers<'_> {
    fn groups(&self) -> Vec<GroupLines> {
        let of = |number: usize| {
            let ordered = self.wanted.order.iter().copied();
            let members: Vec<usize> = ordered
                .filter(|m| self.wanted.members[*m].group == Some(number))
                .collect();
            let starts = members.first().and_then(|first| self.starts[*first]);
            let ends = members.last().and_then(|last| self.last_line(*last));
            GroupLines {
                one_line: starts.is_some() && starts == ends,
                members: members.into_iter().map(|m| self.name(m)).collect(),
            }
        };
        (0..self.wanted.groups.len()).map(of).collect()
    }

    fn neighbours(&self) -> Vec<NeighbourPair> {
        let apart = |m: usize| self.wanted.members[m].group.is_none();
        let pairs = self.wanted.order.windows(2).map(|pair| (pair[0], pair[1]));
        let new =
            pairs.filter(|(first, second)| first + 1 != *second && apart(*first) && apart(*second));
        let on_one = new.filter(|(first, second)| {
            self.last_line(*first)
                .is_some_and(|line| self.starts[*second] == Some(line))
        });
        let named = on_one.map(|(first, second)| NeighbourPair {
            first: self.name(first),
            second: self.name(second),
        });
        named.collect()
    }

    /// The line that a member ends on.
    fn last_line(&self, member: usize) -> Option<u64> {
        let composite = self.model.composite(self.layout.id)?;
        let bytes = self.model.size_of(composite.members.get(member)?.type_id)?;
        let start = self.layout.offsets.get(member).copied()??.0 / 8;
        Some((start + bytes.max(1) - 1) / self.wanted.line.bytes())
    }

    fn name(&self, member: usize) -> String {
        self.wanted.members[member].first_name()
    }
}
