//! The layout that a type has in another kernel, matched by field path.
//!
//! Fields of both kernels go where the other has them. Fields that only this one has keep their
//! order after the other's end. Bytes that only the other uses stay unused.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use linemate_types::{ByteAlign, ByteOffset, ByteSize, FlatType, Leaf, TypeId, TypeModel};

pub use crate::error::ForeignError;
use crate::layout::Foreign;
use crate::map::{Inner, MovedBytes, OffsetMap};
use crate::origin::Origins;

/// How two versions of a type match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// The number of paths that both layouts have.
    pub common: usize,
    /// Paths only in ours.
    pub ours: Vec<String>,
    /// Paths only in theirs.
    pub theirs: Vec<String>,
}

/// The layout of `id`, a type of `model`, as in `other`.
pub(crate) fn adopt(
    model: &TypeModel,
    id: TypeId,
    other: &TypeModel,
) -> Result<Foreign, ForeignError> {
    let (ours, theirs, their_id) = both(model, id, other)?;
    let paths: HashMap<&str, &Leaf> = theirs
        .leaves()
        .iter()
        .map(|l| (l.path.as_str(), l))
        .collect();
    let (mut common, mut left) = (Vec::new(), Vec::new());
    for leaf in ours.leaves() {
        match paths.get(leaf.path.as_str()) {
            // A field that is longer here would overlap its neighbour in the other kernel.
            Some(their) if fits(leaf, their) => {
                unroll(leaf, &their.arrays, their.offset, &mut common);
            }
            _ => unroll(leaf, &leaf.arrays, leaf.offset, &mut left),
        }
    }
    if common.is_empty() {
        return Err(ForeignError::NothingInCommon(name_of(model, id)));
    }
    // The common ones first: fields that only this kernel has must not take their bytes.
    let mut pieces = disjoint(common, Vec::new());
    let matched = pieces.len();
    pieces = disjoint(left, pieces);
    // The rest goes after the end in its old order, with its old alignment.
    let mut end = ByteOffset(theirs.size());
    for piece in &mut pieces[matched..] {
        // Its offset within a word stays, which preserves every alignment up to a word.
        let into = ByteSize(piece.old.0 % ByteAlign::WORD.bytes());
        let at = ByteOffset(end.0.saturating_sub(into.0)).align_up(ByteAlign::WORD) + into;
        piece.new = Some(at);
        end = at + piece.bytes;
    }
    let end = end - ByteOffset::ZERO;
    let mut origins = Origins::new(other);
    let align = origins
        .of(their_id)
        .map_or(ByteAlign::ONE, |origin| origin.align);
    // Without fields of its own it is as long as the other kernel's.
    let size = if pieces.len() == matched {
        end
    } else {
        end.align_up(align.max(ByteAlign::WORD))
    };
    Ok(Foreign {
        size,
        align,
        map: Arc::new(OffsetMap::new(pieces)),
    })
}

/// The field paths of a type that two kernels share.
///
/// # Errors
/// If the other kernel has no such type, or one has too many fields.
pub fn compare(model: &TypeModel, id: TypeId, other: &TypeModel) -> Result<Match, ForeignError> {
    let (ours, theirs, _) = both(model, id, other)?;
    let paths = |flat: &FlatType| -> Vec<String> {
        flat.leaves().iter().map(|leaf| leaf.path.clone()).collect()
    };
    let (mine, others) = (paths(&ours), paths(&theirs));
    let missing = |from: &[String], known: &[String]| -> Vec<String> {
        let known: std::collections::HashSet<&String> = known.iter().collect();
        from.iter()
            .filter(|path| !known.contains(path))
            .cloned()
            .collect()
    };
    let only_ours = missing(&mine, &others);
    Ok(Match {
        common: mine.len() - only_ours.len(),
        theirs: missing(&others, &mine),
        ours: only_ours,
    })
}

fn name_of(model: &TypeModel, id: TypeId) -> String {
    model
        .composite(id)
        .map_or_else(String::new, |c| c.name.to_string())
}

fn both(
    model: &TypeModel,
    id: TypeId,
    other: &TypeModel,
) -> Result<(FlatType, FlatType, TypeId), ForeignError> {
    let name = name_of(model, id);
    if name.is_empty() {
        return Err(ForeignError::Anonymous);
    }
    let kind = model.composite(id).map(|c| c.kind);
    let their_id = kind.and_then(|kind| other.composite_named(&name, kind));
    let their_id = their_id.ok_or_else(|| ForeignError::NoType {
        name: name.clone(),
        nearest: other.nearest_names(&name),
    })?;
    Ok((
        FlatType::new(model, id)?,
        FlatType::new(other, their_id)?,
        their_id,
    ))
}

/// Whether one field can replace the other: not longer, and in arrays of equally many dimensions.
fn fits(ours: &Leaf, theirs: &Leaf) -> bool {
    // By path and size only: the types may have other names.
    ours.size <= theirs.size && ours.arrays.len() == theirs.arrays.len()
}

/// The maximum number of array elements treated separately: more than any array in a kernel struct
/// worth moving.
const MAX_UNROLLED: u64 = 4096;

/// The pieces of a field that moves to `new`: one, or one for each element of the arrays around it.
/// Elements that the other kernel lacks are left out.
fn unroll(leaf: &Leaf, arrays: &[(u64, u64)], new: ByteOffset, pieces: &mut Vec<MovedBytes>) {
    let mut starts = vec![(leaf.offset, new)];
    for ((old_stride, count), (new_stride, other)) in leaf.arrays.iter().zip(arrays) {
        let elements = (*count).min(*other).min(MAX_UNROLLED);
        let (old_stride, new_stride) = (ByteSize(*old_stride), ByteSize(*new_stride));
        let at = |(old, new): &(ByteOffset, ByteOffset), i: u64| {
            (*old + old_stride * i, *new + new_stride * i)
        };
        let next = starts
            .iter()
            .flat_map(|start| (0..elements).map(move |i| at(start, i)));
        // The sizes of nested arrays multiply.
        starts = next.take(1 << 16).collect();
    }
    let bytes = ByteSize(leaf.size);
    let piece = |(old, new)| MovedBytes {
        old,
        bytes,
        new: Some(new),
        inner: Inner::Whole,
    };
    pieces.extend(starts.into_iter().map(piece));
}

/// `kept`, and after them those of `pieces` whose old bytes no other has (union members and
/// bit-fields share theirs; the first and longest wins), in the order of their old offsets.
fn disjoint(mut pieces: Vec<MovedBytes>, mut kept: Vec<MovedBytes>) -> Vec<MovedBytes> {
    let taken: BTreeMap<ByteOffset, ByteOffset> = kept.iter().map(|p| (p.old, p.end())).collect();
    let free = |piece: &MovedBytes| {
        let before = taken.range(..piece.end()).next_back();
        before.is_none_or(|(_, end)| *end <= piece.old)
    };
    // The longest of those that start together, because it contains the others.
    pieces.sort_by_key(|p| (p.old, std::cmp::Reverse(p.bytes)));
    let mut end = ByteOffset::ZERO;
    for piece in pieces {
        if piece.old >= end && free(&piece) {
            end = piece.end();
            kept.push(piece);
        }
    }
    kept
}
