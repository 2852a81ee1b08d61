//! Which fields share a line under edits and did not before, and the reverse.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use linemate_types::{ByteOffset, FlatType, FlattenError, LeafId, LineIndex, LineSize, TypeId};

use crate::layout::{Layout, Layouts};
use crate::origin::OriginError;
use crate::plan::{AccessRule, Plan};

/// Why a type's neighbours are not known.
#[derive(Debug, thiserror::Error)]
pub enum NeighboursError {
    /// Its fields cannot be listed.
    #[error(transparent)]
    Fields(#[from] FlattenError),
    /// It cannot be laid out.
    #[error(transparent)]
    Layout(#[from] OriginError),
}

/// Two fields of a type, in the order of their declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPair {
    /// The first of them.
    pub first: LeafId,
    /// The second field of the pair.
    pub second: LeafId,
}

/// The lines of a field, from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldLines {
    /// The line of its first byte.
    pub first: LineIndex,
    /// The line of its last byte.
    pub last: LineIndex,
}

impl FieldLines {
    /// Where a field can have neighbours: what is between is its own, or other members of the same
    /// array's elements.
    fn ends(&self) -> BTreeSet<LineIndex> {
        BTreeSet::from([self.first, self.last])
    }
}

/// What edits do to the neighbourhoods of a type's fields, in objects that start a line. Fields are
/// the first ones of those with the same bytes; bit-fields of a storage unit are one.
#[derive(Debug)]
pub struct NewNeighbours {
    /// The type unfolded to its fields.
    pub flat: FlatType,
    /// Its lines without the edits, by field.
    pub before: BTreeMap<LeafId, FieldLines>,
    /// Likewise with them, without removed fields.
    pub after: BTreeMap<LeafId, FieldLines>,
    /// Fields that share a line after and not before.
    pub gained: BTreeSet<FieldPair>,
    /// Fields that share a line before and not after.
    pub lost: BTreeSet<FieldPair>,
    /// Fields to which accesses change.
    pub touched: BTreeSet<LeafId>,
    /// The type with the edits, and its lines' size.
    edited: Arc<Layout>,
    line: LineSize,
}

impl NewNeighbours {
    /// Of the type `id` of a plan.
    ///
    /// # Errors
    /// A type that cannot be laid out, or with too many fields.
    pub fn new(plan: &mut Plan<'_>, id: TypeId) -> Result<NewNeighbours, NeighboursError> {
        let (model, line) = (plan.layouts.model(), plan.layouts.line());
        let flat = FlatType::new(model, id)?;
        let before = lines(&flat, &*Layouts::new(model, line).of(id)?, line);
        let edited = plan.layouts.of(id)?;
        let after = lines(&flat, &edited, line);
        let (old, new) = (pairs(&before), pairs(&after));
        let touched = plan.accesses.iter().filter_map(|rule| {
            let field = match rule {
                AccessRule::Reuse { field, .. } | AccessRule::SkipSilent { field } => field,
                AccessRule::SkipArray(chase) => &chase.field,
            };
            let hit = flat.find(field.offset, field.bytes.0)?;
            field.types.contains(&id).then_some(hit.leaf)
        });
        Ok(NewNeighbours {
            touched: touched.collect(),
            gained: new.difference(&old).copied().collect(),
            lost: old.difference(&new).copied().collect(),
            flat,
            before,
            after,
            edited,
            line,
        })
    }

    /// Fields that get or lose neighbours, also those that stay, and fields whose accesses change.
    pub fn concerned(&self) -> BTreeSet<LeafId> {
        let pairs = self.gained.union(&self.lost);
        let paired = pairs.flat_map(|pair| [pair.first, pair.second]);
        paired.chain(self.touched.iter().copied()).collect()
    }

    /// The line, with the edits, of the byte at an offset of the recorded layout; `None` of a
    /// removed one.
    pub fn line_after(&self, at: ByteOffset) -> Option<LineIndex> {
        Some(self.edited.moved(at)?.line(self.line))
    }

    /// The lines that both fields of a pair are on, with the edits.
    pub fn shared(&self, pair: FieldPair) -> BTreeSet<LineIndex> {
        let ends = |leaf| self.after.get(&leaf).map(FieldLines::ends);
        let both = ends(pair.first).zip(ends(pair.second));
        both.map(|(first, second)| &first & &second)
            .unwrap_or_default()
    }

    /// Whether a field gets other lines, or accesses to it change.
    pub fn changes(&self, leaf: LeafId) -> bool {
        self.before.get(&leaf) != self.after.get(&leaf) || self.touched.contains(&leaf)
    }
}

/// The lines of each field that is distinguished.
fn lines(flat: &FlatType, layout: &Layout, line: LineSize) -> BTreeMap<LeafId, FieldLines> {
    let mut lines = BTreeMap::new();
    for (number, leaf) in (0u32..).zip(flat.leaves()) {
        let id = LeafId(number);
        let (start, size) = flat.extent(id);
        let is_first = flat.find(start, size).is_some_and(|hit| hit.leaf == id);
        let arrays = leaf.arrays.iter();
        let beyond = arrays.map(|(stride, count)| stride.saturating_mul(count.saturating_sub(1)));
        let beyond = beyond.fold(0u64, u64::saturating_add);
        let last = start
            .0
            .saturating_add(beyond)
            .saturating_add(size.max(1) - 1);
        // What is past the type's end is a flexible array: no layout moves it.
        let is_inside = size > 0 && last < flat.size();
        let ends = (layout.moved(start), layout.moved(ByteOffset(last)));
        if let (true, true, (Some(a), Some(b))) = (is_first, is_inside, ends) {
            let (first, last) = (a.min(b).line(line), a.max(b).line(line));
            lines.insert(id, FieldLines { first, last });
        }
    }
    lines
}

/// All that share a line.
fn pairs(lines: &BTreeMap<LeafId, FieldLines>) -> BTreeSet<FieldPair> {
    let mut on: BTreeMap<LineIndex, Vec<LeafId>> = BTreeMap::new();
    for (leaf, of) in lines {
        for line in of.ends() {
            on.entry(line).or_default().push(*leaf);
        }
    }
    let mut pairs = BTreeSet::new();
    for leaves in on.values() {
        for (at, first) in leaves.iter().enumerate() {
            let others = leaves.iter().skip(at + 1);
            pairs.extend(others.map(|second| FieldPair {
                first: *first,
                second: *second,
            }));
        }
    }
    pairs
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use linemate_testkit::btf_writer::longs_around_an_array;
    use linemate_types::TypeModel;

    use super::*;
    use crate::parse;

    /// `struct s`: two longs on the first line, an array from there to the second, two longs on the
    /// third.
    fn model() -> (TypeModel, TypeId) {
        let (list, id) = longs_around_an_array();
        (TypeModel::new(list.types, 8).unwrap(), id)
    }

    /// Pairs gained, pairs lost, and fields that move, under edits.
    fn change(edits: &str) -> [Vec<String>; 3] {
        let (model, id) = model();
        let edits = parse(&format!("type s\n{edits}")).unwrap();
        let mut plan = Plan::new(&model, LineSize::B64, &edits, &BTreeMap::new()).unwrap();
        let of = NewNeighbours::new(&mut plan, id).unwrap();
        let name = |leaf| of.flat.names(leaf);
        let pairs = |pairs: &BTreeSet<FieldPair>| {
            let both = |pair: &FieldPair| format!("{} {}", name(pair.first), name(pair.second));
            pairs.iter().map(both).collect()
        };
        let changed = of.concerned().into_iter();
        let changed = changed.filter(|leaf| of.changes(*leaf));
        [
            pairs(&of.gained),
            pairs(&of.lost),
            changed.map(name).collect(),
        ]
    }

    #[test]
    fn a_field_that_moves_gets_and_loses_neighbours() {
        let unchanged = change("order many c");
        assert!(unchanged.iter().all(Vec::is_empty), "{unchanged:?}");
        // The array then ends at byte 120, and `c` is after it on the second line; `d` stays on the
        // third.
        let [gained, lost, moved] = change("move a last");
        assert_eq!(gained, ["a d", "many[] c"]);
        assert_eq!(lost, ["a b", "a many[]", "c d"]);
        assert_eq!(moved, ["a", "c"]);
    }

    #[test]
    fn a_pair_is_on_the_lines_that_both_fields_are_on() {
        let (model, id) = model();
        let edits = parse("type s\nmove a last").unwrap();
        let mut plan = Plan::new(&model, LineSize::B64, &edits, &BTreeMap::new()).unwrap();
        let of = NewNeighbours::new(&mut plan, id).unwrap();
        // `a d` on the third line, `many[] c` on the second, where the array's elements from byte
        // 72 on are.
        let shared: Vec<_> = of.gained.iter().map(|pair| of.shared(*pair)).collect();
        let lines = |lines: &[u32]| lines.iter().copied().map(LineIndex).collect();
        assert_eq!(shared, [lines(&[2]), lines(&[1])]);
        let line = |at| of.line_after(ByteOffset(at)).unwrap().0;
        assert_eq!([0, 16, 64, 72, 120, 128].map(line), [2, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn accesses_that_change_concern_a_field_that_stays() {
        let [gained, lost, moved] = change("skip silent stores of b");
        assert_eq!((gained.len(), lost.len()), (0, 0));
        assert_eq!(moved, ["b"]);
        assert_eq!(change("remove b")[2], ["b", "c"]);
    }
}
