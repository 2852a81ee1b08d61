//! Field paths: which field of a type is at an offset.
//!
//! [`FlatType`] unfolds a type once into its *leaves* (scalars, locks and wrappers of a scalar) and
//! finds the leaf of an access by binary search. Arrays are not unrolled: a leaf inside an array
//! represents the same member of every element, and a hit gives the indices. So the size of the
//! table depends only on the declaration. A wrapper counts as its scalar: `rto_count`, not
//! `rto_count.counter`.
//!
//! ```text
//!  struct cpupri            blocks                              leaves
//!  0    ┌ pri_to_cpu[101]   Repeat 0..1616, stride 16 ─► 0..4   pri_to_cpu[].count
//!       │                                               8..16   pri_to_cpu[].mask
//!  1616 └ cpu_to_pri        1616..1624                          cpu_to_pri
//! ```

mod shared;

use std::fmt::Write;

use linemate_units::{BitOffset, ByteOffset};

use crate::{Composite, Member, Type, TypeId, TypeModel};

/// The maximum number of leaves of a type: struct task_struct of Linux 6.12 has fewer than 1,000.
pub const MAX_LEAVES: usize = 1 << 16;

/// The length of all paths of a type: 1,000 bytes per leaf.
const MAX_PATH_BYTES: usize = MAX_LEAVES * 1000;

/// Structs that are views of one lock word, whose parts nobody places separately.
const LOCKS: [&str; 4] = ["spinlock", "raw_spinlock", "qspinlock", "qrwlock"];

/// Why a type has no field paths.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlattenError {
    /// An id of another model.
    #[error("there is no type {0}")]
    NoSuchType(TypeId),
    /// The type has more than [`MAX_LEAVES`], or names longer than a kilobyte on average.
    #[error("type {0} has more than {MAX_LEAVES} fields")]
    TooManyLeaves(TypeId),
}

/// A leaf's index in [`FlatType::leaves`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeafId(pub u32);

/// A member that is not unfolded further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The names from the outermost type on, with `[]` for each array dimension:
    /// `pri_to_cpu[].count`. Anonymous structs and unions add nothing. Empty if the type itself is
    /// a leaf.
    pub path: String,
    /// Its first byte; inside arrays, that of the first element.
    pub offset: ByteOffset,
    /// Bytes; for a bit-field the bytes that its bits touch.
    pub size: u64,
    /// For a bit-field: its first bit (from the start of the outermost type) and width.
    pub bits: Option<(BitOffset, u32)>,
    /// Its declared type (of one element for an array).
    pub type_id: TypeId,
    /// The enclosing arrays, outermost first: bytes from element to element, and number of
    /// elements. The number is 0 for a flexible array at the end, which has no bound.
    pub arrays: Vec<(u64, u64)>,
}

/// The answer to "which field is at this offset".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldHit {
    pub leaf: LeafId,
    /// Where this instance of the field starts, array indices included.
    pub offset: ByteOffset,
    /// Whether the access is within the field. It is not if it covers several fields at once, as
    /// copying and clearing do: then the hit is the first of them.
    pub covers: bool,
}

/// A type with its leaves and their search tables.
#[derive(Clone, Debug)]
pub struct FlatType {
    type_id: TypeId,
    size: u64,
    leaves: Vec<Leaf>,
    /// By leaf: the first leaf with the same bytes.
    firsts: Vec<LeafId>,
    root: FlatBlock,
}

/// Entries sorted by start; they do not overlap.
type FlatBlock = Vec<FlatEntry>;

#[derive(Clone, Debug)]
struct FlatEntry {
    /// From the start of the block.
    start: u64,
    end: u64,
    node: FlatNode,
}

#[derive(Clone, Debug)]
enum FlatNode {
    Leaf(LeafId),
    /// The same block repeated; its offsets count from the start of the element.
    Repeat {
        stride: u64,
        block: FlatBlock,
    },
    /// Several on the same bytes: union members, and bit-fields that share a byte. Offsets count
    /// from the start of the block that holds this entry.
    Overlap(Vec<FlatBlock>),
}

impl FlatType {
    /// Unfolds type `id`.
    ///
    /// # Errors
    /// An id that is not in the model, or a type with more than [`MAX_LEAVES`] leaves.
    pub fn new(model: &TypeModel, id: TypeId) -> Result<FlatType, FlattenError> {
        model.get(id).ok_or(FlattenError::NoSuchType(id))?;
        let size = model.size_of(id).unwrap_or(0);
        let mut builder = FlatBuilder {
            model,
            outermost: id,
            size,
            leaves: Vec::new(),
            arrays: Vec::new(),
            visits: 0,
            path_bytes: 0,
        };
        let place = MemberPlace {
            start: 0,
            absolute: 0,
            bits: None,
        };
        let root = builder.unfold(id, String::new(), place)?;
        Ok(FlatType {
            type_id: id,
            size,
            firsts: shared::first_of_each(model, &builder.leaves),
            leaves: builder.leaves,
            root,
        })
    }

    /// The type that was unfolded.
    pub fn type_id(&self) -> TypeId {
        self.type_id
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The leaves in declaration order.
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// The leaf with that id; `None` for ids of another type.
    pub fn leaf(&self, id: LeafId) -> Option<&Leaf> {
        self.leaves.get(id.0 as usize)
    }

    /// The field that an access of `size` bytes at `offset` touches; `None` if it touches only
    /// holes and padding, or is outside.
    ///
    /// If several fields share the bytes (unions), it is the first in declaration order that covers
    /// the access, else the first that it touches. A bit-field represents its whole storage unit,
    /// and the unit's first one represents all of them ([`FlatType::names`]): an address does not
    /// show which of them an instruction means. An access that starts in a hole belongs to the next
    /// field if it reaches it.
    pub fn find(&self, offset: ByteOffset, size: u64) -> Option<FieldHit> {
        // An access of no bytes still has a place.
        let end = offset.0.checked_add(size.max(1))?;
        let found = find(&self.root, offset.0, end)?;
        let about = self.leaf(found.leaf)?;
        let (leaf, start, last) = match about.bits {
            None => (found.leaf, found.start, found.end),
            Some(_) => {
                // `found` may be in any element of an array, `place` is in the first: the field is
                // as far from the start of its unit in both.
                let (place, size) = self.extent(found.leaf);
                let start = found.start - (about.offset.0 - place.0);
                (self.first(found.leaf), start, start + size)
            }
        };
        Some(FieldHit {
            leaf,
            offset: ByteOffset(start),
            covers: start <= offset.0 && end <= last,
        })
    }

    fn first(&self, leaf: LeafId) -> LeafId {
        self.firsts.get(leaf.0 as usize).copied().unwrap_or(leaf)
    }

    /// The leaves that no access distinguishes from this one, including itself, in declaration
    /// order: members of a union with the same place and size; all bit-fields of a storage unit.
    pub fn same_bytes(&self, leaf: LeafId) -> impl Iterator<Item = &Leaf> {
        let first = self.first(leaf);
        let same = self.leaves.iter().zip(&self.firsts);
        same.filter(move |(_, its)| **its == first)
            .map(|(leaf, _)| leaf)
    }

    /// The first byte (inside arrays, that of the first element) and the size of everything in
    /// [`FlatType::same_bytes`].
    pub fn extent(&self, leaf: LeafId) -> (ByteOffset, u64) {
        let ends = |leaf: &Leaf| (leaf.offset.0, leaf.offset.0 + leaf.size);
        let joined = self
            .same_bytes(leaf)
            .map(ends)
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let (start, end) = joined.unwrap_or_default();
        (ByteOffset(start), end - start)
    }

    /// All names of a leaf's bytes, `donor | curr`, in declaration order: those of
    /// [`FlatType::same_bytes`].
    pub fn names(&self, leaf: LeafId) -> String {
        let names: Vec<&str> = self
            .same_bytes(leaf)
            .map(|leaf| leaf.path.as_str())
            .collect();
        names.join(" | ")
    }

    /// The path of a hit with its array indices: `pri_to_cpu[0].count`.
    pub fn path(&self, hit: &FieldHit) -> String {
        let Some(leaf) = self.leaf(hit.leaf) else {
            return String::new();
        };
        let mut rest = hit.offset.0.saturating_sub(leaf.offset.0);
        let mut pieces = leaf.path.split("[]");
        let mut text = pieces.next().unwrap_or("").to_owned();
        for ((stride, _), piece) in leaf.arrays.iter().zip(pieces) {
            let index = rest.checked_div(*stride).unwrap_or(0);
            rest -= index * stride;
            // Writing to a String does not fail.
            let _ = write!(text, "[{index}]{piece}");
        }
        text
    }
}

/// A leaf that covers the access, and its bytes.
#[derive(Clone, Copy)]
struct LeafSpan {
    leaf: LeafId,
    start: u64,
    end: u64,
}

impl LeafSpan {
    fn covers(&self, start: u64, end: u64) -> bool {
        self.start <= start && end <= self.end
    }

    fn moved(self, by: u64) -> LeafSpan {
        LeafSpan {
            start: self.start + by,
            end: self.end + by,
            ..self
        }
    }
}

/// The first field of `block` that `start..end` touches. Recursion: at most MAX_DEPTH, as deep as
/// the types.
fn find(block: &FlatBlock, start: u64, end: u64) -> Option<LeafSpan> {
    // Entries do not overlap, so their ends are sorted as well.
    let first = block.partition_point(|entry| entry.end <= start);
    // An entry can turn out to be a hole (padding of an array's element): then the next one counts.
    for entry in &block[first..] {
        if entry.start >= end {
            return None;
        }
        let found = match &entry.node {
            FlatNode::Leaf(leaf) => Some(LeafSpan {
                leaf: *leaf,
                start: entry.start,
                end: entry.end,
            }),
            FlatNode::Repeat { stride, block } => find_repeated(entry, *stride, block, start, end),
            FlatNode::Overlap(alternatives) => find_overlapping(alternatives, start, end),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

fn find_repeated(
    entry: &FlatEntry,
    stride: u64,
    block: &FlatBlock,
    start: u64,
    end: u64,
) -> Option<LeafSpan> {
    let from = start.max(entry.start) - entry.start;
    let to = end.min(entry.end) - entry.start;
    // All elements are alike: look the access up in the first one, and move the hit.
    let base = from - from % stride;
    let in_element = find(block, from - base, to - base);
    let found = match in_element {
        Some(found) => found.moved(base),
        // In the element's padding: the next element, if the access reaches it.
        None => {
            let next = base.checked_add(stride).filter(|next| *next < to)?;
            find(block, 0, to - next)?.moved(next)
        }
    };
    Some(found.moved(entry.start))
}

fn find_overlapping(alternatives: &[FlatBlock], start: u64, end: u64) -> Option<LeafSpan> {
    let mut touched = None;
    for alternative in alternatives {
        if let Some(found) = find(alternative, start, end) {
            if found.covers(start, end) {
                return Some(found);
            }
            // The first in declaration order, if none covers all of it.
            touched.get_or_insert(found);
        }
    }
    touched
}

/// Where a member is.
#[derive(Clone, Copy)]
struct MemberPlace {
    /// From the start of the block under construction.
    start: u64,
    /// From the start of the outermost type, first elements of arrays.
    absolute: u64,
    /// Bit-field: bit within the byte at `start`, and width.
    bits: Option<(u64, u32)>,
}

struct FlatBuilder<'a> {
    model: &'a TypeModel,
    outermost: TypeId,
    size: u64,
    leaves: Vec<Leaf>,
    /// The arrays around the place under construction.
    arrays: Vec<(u64, u64)>,
    /// Types unfolded so far: hostile types can have few leaves and many empty structs.
    visits: usize,
    /// Bytes of all paths so far: hostile names can be as long as the table of names.
    path_bytes: usize,
}

impl FlatBuilder<'_> {
    /// The block of a value of type `id` at `place`. Recursion: at most MAX_DEPTH, checked by the
    /// model.
    fn unfold(
        &mut self,
        id: TypeId,
        path: String,
        place: MemberPlace,
    ) -> Result<FlatBlock, FlattenError> {
        self.visits += 1;
        self.path_bytes += path.len();
        // Visits, because empty structs give no leaf. Four per leaf is a guess with ample room.
        let too_large = self.visits > 4 * MAX_LEAVES || self.path_bytes > MAX_PATH_BYTES;
        if self.leaves.len() >= MAX_LEAVES || too_large {
            return Err(FlattenError::TooManyLeaves(self.outermost));
        }
        let model = self.model;
        match model.get(model.strip(id)) {
            Some(Type::Composite(composite))
                // The outermost type is always unfolded: a question about a lock itself wants its
                // parts.
                if path.is_empty() || !is_one_value(model, composite) =>
            {
                let mut block = FlatBlock::new();
                for member in &composite.members {
                    block.extend(self.member(member, &path, place)?);
                }
                Ok(separate(block))
            }
            Some(Type::Array { element, count, .. }) => self.array(*element, *count, path, place),
            _ => Ok(self.leaf(id, path, place).into_iter().collect()),
        }
    }

    fn member(
        &mut self,
        member: &Member,
        path: &str,
        place: MemberPlace,
    ) -> Result<FlatBlock, FlattenError> {
        let named = !member.name.is_empty();
        // Unnamed bit-fields are padding.
        if !named && member.bits.is_some() {
            return Ok(FlatBlock::new());
        }
        let path = match (path.is_empty(), named) {
            (_, false) => path.to_owned(),
            (true, true) => member.name.to_string(),
            (false, true) => format!("{path}.{}", member.name),
        };
        let byte = member.offset.byte().0;
        let bits = member.bits.map(|width| (member.offset.0 % 8, width));
        let place = MemberPlace {
            start: place.start + byte,
            absolute: place.absolute + byte,
            bits,
        };
        self.unfold(member.type_id, path, place)
    }

    fn array(
        &mut self,
        element: TypeId,
        count: u32,
        path: String,
        place: MemberPlace,
    ) -> Result<FlatBlock, FlattenError> {
        let stride = self.model.size_of(element).unwrap_or(0);
        let flexible = count == 0;
        // A flexible array has bytes only after everything else.
        if stride == 0 || flexible && (place.absolute < self.size || !self.arrays.is_empty()) {
            return Ok(FlatBlock::new());
        }
        self.arrays.push((stride, u64::from(count)));
        let inner = MemberPlace {
            start: 0,
            absolute: place.absolute,
            bits: None,
        };
        let block = self.unfold(element, path + "[]", inner);
        self.arrays.pop();
        let block = block?;
        if block.is_empty() {
            return Ok(FlatBlock::new());
        }
        let end = match flexible {
            // No end, halved so that sums of offsets do not overflow.
            true => u64::MAX / 2,
            false => place.start + stride * u64::from(count),
        };
        Ok(vec![FlatEntry {
            start: place.start,
            end,
            node: FlatNode::Repeat { stride, block },
        }])
    }

    fn leaf(&mut self, id: TypeId, path: String, place: MemberPlace) -> Option<FlatEntry> {
        let size = match place.bits {
            Some((bit, width)) => (bit + u64::from(width)).div_ceil(8),
            None => self.model.size_of(id).unwrap_or(0),
        };
        if size == 0 {
            return None;
        }
        let leaf = LeafId(u32::try_from(self.leaves.len()).ok()?);
        self.leaves.push(Leaf {
            path,
            offset: ByteOffset(place.absolute),
            size,
            bits: place
                .bits
                .map(|(bit, width)| (BitOffset(place.absolute * 8 + bit), width)),
            type_id: id,
            arrays: self.arrays.clone(),
        });
        Some(FlatEntry {
            start: place.start,
            end: place.start + size,
            node: FlatNode::Leaf(leaf),
        })
    }
}

/// Whether a struct is one value in practice: a lock, or a wrapper of a single scalar (`atomic_t`,
/// `refcount_t`, `struct kref`). Recursion: at most MAX_DEPTH.
fn is_one_value(model: &TypeModel, composite: &Composite) -> bool {
    if LOCKS.contains(&composite.name.as_str()) {
        return true;
    }
    let [
        Member {
            name,
            type_id,
            offset: BitOffset(0),
            bits: None,
            ..
        },
    ] = composite.members.as_slice()
    else {
        return false;
    };
    let whole = model.size_of(*type_id) == Some(u64::from(composite.size));
    whole
        && !name.is_empty()
        && match model.get(model.strip(*type_id)) {
            Some(Type::Composite(inner)) => is_one_value(model, inner),
            Some(Type::Array { .. }) => false,
            _ => true,
        }
}

/// Sorts entries and puts those that share bytes into one [`FlatNode::Overlap`], in declaration
/// order.
fn separate(entries: FlatBlock) -> FlatBlock {
    let mut numbered: Vec<(usize, FlatEntry)> = entries.into_iter().enumerate().collect();
    // With their numbers, because the order of declaration decides within an overlap.
    numbered.sort_by_key(|(_, entry)| entry.start);
    let mut block = FlatBlock::new();
    let mut group: Vec<(usize, FlatEntry)> = Vec::new();
    let mut group_end = 0;
    for (number, entry) in numbered {
        if entry.start >= group_end {
            block.extend(close(std::mem::take(&mut group)));
        }
        group_end = group_end.max(entry.end);
        group.push((number, entry));
    }
    block.extend(close(group));
    block
}

fn close(mut group: Vec<(usize, FlatEntry)>) -> Option<FlatEntry> {
    if group.len() <= 1 {
        return group.pop().map(|(_, entry)| entry);
    }
    group.sort_by_key(|(number, _)| *number);
    let start = group.iter().map(|(_, entry)| entry.start).min()?;
    let end = group.iter().map(|(_, entry)| entry.end).max()?;
    let alternatives = group.into_iter().map(|(_, entry)| vec![entry]).collect();
    Some(FlatEntry {
        start,
        end,
        node: FlatNode::Overlap(alternatives),
    })
}
