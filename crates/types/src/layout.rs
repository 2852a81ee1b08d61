//! The offsets of a struct's members and what is between them, in pahole's terms.
//!
//! The rules are those of pahole 1.24 for BTF, including what it infers because BTF has no
//! alignment attributes: an alignment is assumed to be forced if a member starts later than its
//! type requires. A test compares every struct of whole kernels with pahole's own output.

use std::collections::HashMap;

use linemate_units::{ByteOffset, LineSize};

use crate::{Composite, CompositeKind, FlattenError, MAX_LEAVES, Name, Type, TypeId, TypeModel};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberLayout {
    /// First byte; for a bit-field, that of its storage unit.
    pub offset: ByteOffset,
    /// Bytes; for a bit-field, those of its storage unit.
    pub size: u64,
    /// For a bit-field: first bit in the storage unit, and width.
    pub bits: Option<(u64, u32)>,
    /// Unused bytes after it.
    pub hole: u64,
    /// Unused bits after it.
    pub bit_hole: u64,
    /// The alignment that the declaration seems to force; 0 for none.
    pub forced_alignment: u64,
}

/// A struct's or union's members and what is between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// `sizeof`
    pub size: u64,
    /// In declaration order, one for each of [`Composite::members`].
    pub members: Vec<MemberLayout>,
    /// Unused bytes before the first member.
    pub first_hole: u64,
    /// Unused bits before the first member.
    pub first_bit_hole: u64,
    /// Number of holes between members.
    pub holes: u32,
    /// Number of bit holes between members.
    pub bit_holes: u32,
    /// Unused bytes at the end.
    pub padding: u64,
    /// Unused bits of the last bit-field's storage unit.
    pub bit_padding: u64,
    /// The alignment that the declaration seems to force on the whole; 0 for none.
    pub forced_alignment: u64,
}

impl Layout {
    /// The layout of the struct or union that `id` refers to; `None` if there is none.
    ///
    /// `line` matters only for inferred alignments: what starts a line is assumed to be aligned to
    /// it.
    pub fn new(model: &TypeModel, id: TypeId, line: LineSize) -> Option<Layout> {
        layout(&mut Alignments::new(model), model.strip(id), line)
    }

    /// Lines that the type touches if it starts at the start of one.
    pub fn lines(&self, line: LineSize) -> u64 {
        self.size.div_ceil(line.bytes())
    }

    /// Bytes in holes between members, including one before the first.
    pub fn hole_bytes(&self) -> u64 {
        self.first_hole + self.members.iter().map(|m| m.hole).sum::<u64>()
    }
}

/// The natural alignments of types, memoised.
pub(crate) struct Alignments<'a> {
    pub(crate) model: &'a TypeModel,
    known: HashMap<TypeId, u64>,
}

impl<'a> Alignments<'a> {
    pub(crate) fn new(model: &'a TypeModel) -> Alignments<'a> {
        Alignments {
            model,
            known: HashMap::new(),
        }
    }

    /// The alignment of the type that `id` refers to if nothing is forced; at least 1. Recursion:
    /// at most MAX_DEPTH.
    pub(crate) fn natural(&mut self, id: TypeId) -> u64 {
        let model = self.model;
        let id = model.strip(id);
        match model.get(id) {
            Some(Type::Array { element, .. }) => self.natural(*element),
            Some(Type::Composite(composite)) => {
                if let Some(known) = self.known.get(&id) {
                    return *known;
                }
                let members = composite.members.iter().map(|m| self.natural(m.type_id));
                let alignment = members.max().unwrap_or(1);
                self.known.insert(id, alignment);
                alignment
            }
            _ => model.size_of(id).unwrap_or(1).max(1),
        }
    }
}

/// The layout of the struct or union `id` itself.
pub(crate) fn layout(
    alignments: &mut Alignments<'_>,
    id: TypeId,
    line: LineSize,
) -> Option<Layout> {
    let model = alignments.model;
    let Some(Type::Composite(composite)) = model.get(id) else {
        return None;
    };
    let mut layout = Layout {
        size: u64::from(composite.size),
        ..Layout::default()
    };
    place_members(alignments, composite, line, &mut layout);
    let natural = alignments.natural(id);
    // A member without a size says nothing about what follows it.
    let end = layout
        .members
        .iter()
        .rev()
        .find(|m| m.size != 0)
        .map_or(0, |m| m.offset.0 + m.size);
    layout.forced_alignment = match model.has_alignments() {
        true => u64::from(composite.alignment),
        // The size as an offset: where the next object of an array would start.
        false => forced_alignment(layout.size, natural, end, line),
    };
    if composite.kind == CompositeKind::Struct {
        find_holes(composite, &mut layout);
    }
    Some(layout)
}

fn place_members(
    alignments: &mut Alignments<'_>,
    composite: &Composite,
    line: LineSize,
    layout: &mut Layout,
) {
    let model = alignments.model;
    let mut end = 0;
    for member in &composite.members {
        let stripped = model.strip(member.type_id);
        let size = model.size_of(stripped).unwrap_or(0);
        let mut place = MemberLayout {
            offset: member.offset.byte(),
            size,
            ..MemberLayout::default()
        };
        let is_scalar = matches!(
            model.get(stripped),
            Some(Type::Int { .. } | Type::Float { .. } | Type::Enum { .. })
        );
        place.bits = member.bits.map(|width| (0, width));
        place.forced_alignment = u64::from(member.alignment);
        if size != 0 {
            if let (Some(width), true) = (member.bits, is_scalar) {
                // Storage units are aligned to their size, even in packed structs.
                place.offset = ByteOffset(member.offset.0 / (size * 8) * size);
                place.bits = Some((member.offset.0 - place.offset.0 * 8, width));
            }
            if !model.has_alignments() {
                let natural = alignments.natural(stripped);
                place.forced_alignment = forced_alignment(place.offset.0, natural, end, line);
            }
            end = place.offset.0 + size;
        }
        layout.members.push(place);
    }
}

/// The alignment that must have been requested if something that could have started at `end` starts
/// at `offset`.
fn forced_alignment(offset: u64, natural: u64, end: u64, line: LineSize) -> u64 {
    let skipped = match offset.checked_sub(end) {
        None | Some(0) => return 0,
        Some(skipped) => skipped,
    };
    // No requested alignment puts anything at an odd offset.
    if offset % 2 != 0 {
        return 0;
    }
    // The next power of two above the skipped bytes: a smaller alignment would have skipped fewer.
    let alignment = match skipped.checked_ilog2() {
        Some(log) if log < 31 => 2u64 << log,
        _ => return 0,
    };
    if alignment <= natural {
        0
    } else if alignment < line.bytes() && offset % line.bytes() == 0 {
        line.bytes()
    } else {
        alignment
    }
}

/// Walks the members in order and notes the bytes and bits that none of them uses.
fn find_holes(composite: &Composite, layout: &mut Layout) {
    let total = layout.size * 8;
    // First bit after the members so far, and end and size of the open bit-field storage unit.
    let (mut seen, mut unit_end, mut unit_size) = (0u64, total, 0u64);
    let mut in_bit_field = false;
    for index in 0..layout.members.len() {
        let (member, place) = (&composite.members[index], layout.members[index]);
        let start = member.offset.0;
        let end = start + member.bits.map_or(place.size * 8, u64::from);
        let (mut bit_hole, mut hole) = (0, 0);
        if in_bit_field {
            let closed = start.min(unit_end);
            // Up to the end of the open storage unit: bytes after it are a byte hole.
            bit_hole = closed.saturating_sub(seen);
            seen = closed;
        }
        if member.bits.is_some() {
            let unit_start = place.offset.0 * 8;
            if seen < unit_start && unit_start <= start {
                hole = place.offset.0 - seen / 8;
                seen = unit_start;
            }
            bit_hole += start.saturating_sub(seen);
            let unit = place.size * 8;
            if !in_bit_field || end > unit_end || unit > unit_size {
                unit_size = unit;
                unit_end = unit_start + unit;
                // In a packed struct a bit-field may reach into the next unit.
                if end > unit_end {
                    unit_end += unit;
                }
            }
            in_bit_field = true;
        } else {
            hole = (start / 8).saturating_sub(seen / 8);
            in_bit_field = false;
            unit_size = 0;
            unit_end = end;
        }
        seen = end;
        note_hole(layout, index, hole, bit_hole);
    }
    if in_bit_field {
        let closed = total.min(unit_end);
        layout.bit_padding = closed.saturating_sub(seen);
        seen = closed;
    }
    layout.padding = layout.size.saturating_sub(seen / 8);
}

/// A hole before member `index` belongs to the member before it.
fn note_hole(layout: &mut Layout, index: usize, hole: u64, bit_hole: u64) {
    match index.checked_sub(1) {
        Some(previous) => {
            layout.members[previous].hole = hole;
            layout.members[previous].bit_hole = bit_hole;
        }
        None => {
            layout.first_hole = hole;
            layout.first_bit_hole = bit_hole;
        }
    }
    layout.holes += u32::from(hole != 0);
    layout.bit_holes += u32::from(bit_hole != 0);
}

/// A member as a user names it: members of anonymous structs and unions belong to the enclosing
/// type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedMember {
    pub name: Name,
    pub type_id: TypeId,
    /// From the start of the outermost type, with its bits, hole and alignment.
    pub place: MemberLayout,
}

/// The named members of the struct or union that `id` refers to, with anonymous ones unfolded, in
/// declaration order.
///
/// # Errors
/// No such struct or union, or more than [`MAX_LEAVES`] members (hostile types only).
pub fn named_members(
    model: &TypeModel,
    id: TypeId,
    line: LineSize,
) -> Result<Vec<NamedMember>, FlattenError> {
    let mut alignments = Alignments::new(model);
    let mut found = Vec::new();
    let mut visits = 0;
    unfold(
        &mut alignments,
        model.strip(id),
        0,
        line,
        &mut found,
        &mut visits,
    )?;
    match model.composite(id) {
        Some(_) => Ok(found),
        None => Err(FlattenError::NoSuchType(id)),
    }
}

/// Recursion: at most MAX_DEPTH.
fn unfold(
    alignments: &mut Alignments<'_>,
    id: TypeId,
    base: u64,
    line: LineSize,
    found: &mut Vec<NamedMember>,
    visits: &mut usize,
) -> Result<(), FlattenError> {
    let model = alignments.model;
    *visits += 1;
    if *visits > MAX_LEAVES || found.len() > MAX_LEAVES {
        return Err(FlattenError::TooManyLeaves(id));
    }
    let (Some(composite), Some(layout)) = (model.composite(id), layout(alignments, id, line))
    else {
        return Ok(());
    };
    for (member, mut place) in composite.members.iter().zip(layout.members) {
        place.offset.0 += base;
        let type_id = member.type_id;
        if !member.name.is_empty() {
            found.push(NamedMember {
                name: member.name.clone(),
                type_id,
                place,
            });
        } else if member.bits.is_none() {
            unfold(
                alignments,
                model.strip(type_id),
                place.offset.0,
                line,
                found,
                visits,
            )?;
        }
    }
    Ok(())
}
