//! What a type's declaration must have said, as far as its layout shows.
//!
//! DWARF has alignment attributes ([`Member::alignment`]), BTF has none. There they are inferred: a
//! gap that the natural alignment of the next member does not explain comes from a requested
//! alignment, or, if no power of two explains it, from unnamed bytes. So laying out the members
//! again in their old order always gives the old layout, and members that move take their requested
//! alignment with them.
//!
//! An alignment to a line is attributed to the type, not the member, if some member of that struct
//! type was aligned so, and all of them in all types are as if it held for them too
//! (`struct sched_avg`): then it goes wherever the type goes.
//!
//! An alignment that cost nothing leaves one trace: the size is rounded up to lines, and nothing
//! else explains it. Then the type as a whole requested it, or a member that starts a line did;
//! nothing says which, so each of these members keeps its line start until an edit names it
//! ([`Unit::may_ask_for_line`]). If the size needs no rounding, or another member explains it, most
//! members at line starts are there by chance, and none is kept.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use linemate_types::{
    BitOffset, ByteAlign, ByteOffset, ByteSize, Composite, CompositeKind, LineSize, Member, Type,
    TypeId, TypeModel,
};

use crate::nesting::size_of;

/// The line size that recorded kernels are built for (x86-64: L1_CACHE_SHIFT 6): an alignment to
/// that is `____cacheline_aligned` and means "to a line".
pub const BUILT_LINE: LineSize = LineSize::B64;

/// What the names of the kernel's markers of declared groups begin with.
const GROUP_MARKER: &str = "__cacheline_group_";

/// A requested alignment, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced {
    /// To a line of the machine that the code is compiled for.
    Line,
    /// To that many bytes.
    Bytes(ByteAlign),
}

impl Forced {
    /// The alignment with lines of that size.
    pub fn on(self, line: LineSize) -> ByteAlign {
        match self {
            Forced::Line => line.into(),
            Forced::Bytes(bytes) => bytes,
        }
    }
}

/// The alignment requested in a kernel built for recording; that of a byte for none.
fn on_built_line(forced: Option<Forced>) -> ByteAlign {
    forced.map_or(ByteAlign::ONE, |f| f.on(BUILT_LINE))
}

/// How a unit may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitKind {
    /// One member, or an anonymous struct or union with its members.
    Plain,
    /// Adjacent bit-fields: they share bytes, so they keep their distances.
    BitFields,
    /// A flexible array, or a struct that ends in one: it stays last.
    Flexible,
}

/// The smallest part that moves as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Indices of its members in the composite; more than one only for bit-fields, which markers of
    /// no bytes may precede.
    pub members: Vec<usize>,
    /// How it may move.
    pub kind: UnitKind,
    /// First byte in the original.
    pub start: ByteOffset,
    /// Bytes in the original.
    pub bytes: ByteSize,
    /// The requested alignment, if any.
    pub forced: Option<Forced>,
    /// Bytes before it that no alignment explains.
    pub gap: ByteSize,
    /// Whether it starts a line at no cost in a struct whose size only an alignment to a line
    /// explains: it, another such unit or the struct as a whole requested that.
    pub may_ask_for_line: bool,
}

impl Unit {
    /// The first byte after it in the original.
    pub fn end(&self) -> ByteOffset {
        self.start + self.bytes
    }

    /// The member that edits call it by: of bit-fields the first.
    #[must_use]
    pub fn main(&self, composite: &Composite) -> Option<usize> {
        let bits = |i: &&usize| composite.members[**i].bits.is_some();
        let first = self.members.iter().find(bits);
        first.or(self.members.last()).copied()
    }
}

/// A struct or union, analysed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Whether members follow each other or overlap.
    pub kind: CompositeKind,
    /// In the order of their offsets.
    pub units: Vec<Unit>,
    /// Whether natural alignments are ignored.
    pub packed: bool,
    /// It is a base class that ends where a derived class's next member starts: in the last bytes
    /// of the whole base class, whose size is rounded up.
    pub is_part: bool,
    /// An alignment requested for the type as a whole.
    pub forced: Option<Forced>,
    /// Bytes at the end that no alignment explains.
    pub tail: ByteSize,
    /// Its size in bytes.
    pub size: ByteSize,
    /// Its alignment in bytes.
    pub align: ByteAlign,
}

/// Why a type cannot be laid out again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// Not a struct or union.
    #[error("type {0} is not a struct or union")]
    NotComposite(TypeId),
    /// Members of a struct that overlap.
    #[error("members `{first}` and `{second}` overlap at byte {byte}")]
    Overlap {
        /// The member that ends too late.
        first: String,
        /// The member that starts inside it.
        second: String,
        /// The byte where the two overlap.
        byte: ByteOffset,
    },
}

/// The origins of a model's types, each computed once.
#[derive(Debug)]
pub struct Origins<'m> {
    model: &'m TypeModel,
    known: HashMap<TypeId, Result<Arc<Origin>, OriginError>>,
    /// Alignments that belong to struct types, computed before anything else.
    own: BTreeMap<TypeId, Forced>,
}

/// What the members of one struct type show about its alignment.
struct AlignmentEvidence {
    /// One of them is at the start of a line where it did not have to be.
    requested: bool,
    /// All of them start lines, in types whose size is whole lines.
    everywhere: bool,
}

impl Default for AlignmentEvidence {
    fn default() -> AlignmentEvidence {
        AlignmentEvidence {
            requested: false,
            everywhere: true,
        }
    }
}

impl<'m> Origins<'m> {
    /// For the types of `model`.
    pub fn new(model: &'m TypeModel) -> Origins<'m> {
        let mut origins = Origins {
            model,
            known: HashMap::new(),
            own: BTreeMap::new(),
        };
        origins.own = origins.own_alignments();
        // Results from before the own alignments were known lack them.
        origins.known.clear();
        origins
    }

    /// The structs that start lines by themselves, as far as their members in all types show.
    fn own_alignments(&mut self) -> BTreeMap<TypeId, Forced> {
        let mut evidence: BTreeMap<TypeId, AlignmentEvidence> = BTreeMap::new();
        for (id, t) in self.model.iter() {
            let Type::Composite(composite) = t else {
                continue;
            };
            let inner = |m: &Member| self.line_sized(m.type_id);
            let inners: Vec<Option<TypeId>> = composite.members.iter().map(inner).collect();
            if inners.iter().all(Option::is_none) {
                continue;
            }
            let Ok(origin) = self.of(id) else { continue };
            for unit in &origin.units {
                let Some(inner) = unit.main(composite).and_then(|m| inners[m]) else {
                    continue;
                };
                let evidence = evidence.entry(inner).or_default();
                evidence.requested |= unit.forced == Some(Forced::Line);
                let line = BUILT_LINE.into();
                evidence.everywhere &= unit.start.is_aligned(line) && origin.size.is_aligned(line);
            }
        }
        let own = evidence
            .into_iter()
            .filter(|(_, e)| e.requested && e.everywhere);
        own.map(|(id, _)| (id, Forced::Line)).collect()
    }

    /// The struct or union type of a member, if it fills whole lines. Not through typedefs: they
    /// can have alignments of their own.
    fn line_sized(&self, id: TypeId) -> Option<TypeId> {
        let id = self.unqualified(id);
        let composite = matches!(self.model.get(id), Some(Type::Composite(_)));
        let size = size_of(self.model, id);
        (composite && size > ByteSize::ZERO && size.is_aligned(BUILT_LINE.into())).then_some(id)
    }

    /// The type without qualifiers.
    fn unqualified(&self, id: TypeId) -> TypeId {
        let mut id = id;
        // The model has checked that such chains end.
        while let Some(Type::Qualified { target, .. }) = self.model.get(id) {
            id = *target;
        }
        id
    }

    /// The types being analysed.
    pub fn model(&self) -> &'m TypeModel {
        self.model
    }

    /// The origin of struct or union `id` (typedefs and qualifiers are resolved).
    ///
    /// # Errors
    /// If it is something else, or its members overlap.
    pub fn of(&mut self, id: TypeId) -> Result<Arc<Origin>, OriginError> {
        let id = self.model.strip(id);
        if let Some(known) = self.known.get(&id) {
            return known.clone();
        }
        // The model has checked that types do not contain themselves and nest at most MAX_DEPTH
        // deep.
        let origin = match self.model.get(id) {
            Some(Type::Composite(composite)) => self.infer(id, composite).map(Arc::new),
            _ => Err(OriginError::NotComposite(id)),
        };
        self.known.insert(id, origin.clone());
        origin
    }

    /// The natural alignment of a value of type `id`: System V ABI for x86-64, section 3.1.2.
    pub fn align_of(&mut self, id: TypeId) -> ByteAlign {
        let id = self.model.strip(id);
        match self.model.get(id) {
            Some(Type::Array { element, .. }) => self.align_of(*element),
            Some(Type::Composite(_)) => self.of(id).map_or(ByteAlign::ONE, |origin| origin.align),
            Some(
                Type::Int { .. } | Type::Float { .. } | Type::Enum { .. } | Type::Pointer { .. },
            ) => ByteAlign::of_size(size_of(self.model, id)),
            _ => ByteAlign::ONE,
        }
    }

    fn infer(&mut self, id: TypeId, composite: &Composite) -> Result<Origin, OriginError> {
        let mut units = self.units(composite);
        let naturals: Vec<ByteAlign> = units.iter().map(|u| self.natural(composite, u)).collect();
        let size = ByteSize(composite.size.into());
        let widest = naturals.iter().copied().max().unwrap_or_default();
        // BTF does not say `packed`: a member off its natural alignment, or a size that is not a
        // multiple, shows it.
        let misplaced = |(unit, natural): (&Unit, &ByteAlign)| {
            unit.kind != UnitKind::BitFields && !unit.start.is_aligned(*natural)
        };
        let is_part = composite.is_part;
        let is_cut = !is_part && !size.is_aligned(widest);
        let packed = is_cut || units.iter().zip(&naturals).any(misplaced);
        let mut align = if packed { ByteAlign::ONE } else { widest };
        // An alignment makes the whole class's size a multiple, not a part's.
        let whole = if is_part { ByteSize::ZERO } else { size };
        let mut end = ByteOffset::ZERO;
        if composite.kind == CompositeKind::Struct {
            for (i, natural) in naturals.into_iter().enumerate() {
                if units[i].start < end {
                    return Err(overlap(composite, &units, i));
                }
                let natural = if packed { ByteAlign::ONE } else { natural };
                // What is stated comes before what is inferred, which then has only the rest to
                // explain.
                units[i].forced = declared(composite, &units[i], natural, whole);
                let floor = end.align_up(on_built_line(units[i].forced));
                let expected = self.natural_start(composite, &units[i], floor, natural);
                explain(&mut units, i, end, expected, whole);
                align = align.max(on_built_line(units[i].forced));
                end = units[i].end();
            }
        } else {
            // A union's members all start at 0: nothing shifts them.
            end = units.iter().map(Unit::end).max().unwrap_or_default();
        }
        let own = self.own.get(&id).copied();
        let own = own.or_else(|| requested(composite.alignment, align, whole));
        align = align.max(on_built_line(own));
        let (forced, tail) = match is_part {
            true => (None, ByteSize::ZERO),
            false => explain_end(end, align, size),
        };
        // Only an end that nothing else explains: an alignment of its own, or of a member, settles
        // it.
        if forced == Some(Forced::Line) && composite.kind == CompositeKind::Struct {
            mark_line_starts(&mut units);
        }
        let forced = forced.or(own);
        align = align.max(on_built_line(forced));
        Ok(Origin {
            kind: composite.kind,
            units,
            packed,
            is_part,
            forced,
            tail,
            size,
            align,
        })
    }

    /// Where the compiler puts a unit after byte `cursor` without any request.
    pub(crate) fn natural_start(
        &self,
        composite: &Composite,
        unit: &Unit,
        cursor: ByteOffset,
        natural: ByteAlign,
    ) -> ByteOffset {
        match unit.kind {
            UnitKind::BitFields => bit_field_start(self.model, composite, unit, cursor),
            _ => cursor.align_up(natural),
        }
    }

    /// Whether a unit marks the place of the bit-fields that follow, at `start`: code finds them by
    /// the marker's offset (`sk_buff.__cloned_offset`), because they have none, so both move as
    /// one. Other markers are where a range of members begins or ends, and declared groups have
    /// their own.
    fn marks(&self, composite: &Composite, unit: &Unit, start: ByteOffset) -> bool {
        let is_marker = |i: &usize| {
            let member = &composite.members[*i];
            let ty = self.model.get(self.model.strip(member.type_id));
            let is_empty = matches!(ty, Some(Type::Array { count: 0, .. }));
            is_empty && !member.name.starts_with(GROUP_MARKER)
        };
        composite.kind == CompositeKind::Struct
            && unit.bytes == ByteSize::ZERO
            && unit.start == start
            && unit.members.iter().all(is_marker)
    }

    /// The members in the order of their offsets, adjacent bit-fields merged.
    fn units(&self, composite: &Composite) -> Vec<Unit> {
        let mut order: Vec<usize> = (0..composite.members.len()).collect();
        // What takes no bytes, such as an empty base class, comes before the member at the same
        // offset, wherever it is declared.
        order.sort_by_key(|i| {
            let member = &composite.members[*i];
            let takes_bytes = size_of(self.model, member.type_id) > ByteSize::ZERO;
            (member.offset, takes_bytes)
        });
        let mut units: Vec<Unit> = Vec::new();
        for (position, &index) in order.iter().enumerate() {
            let member = &composite.members[index];
            let BitOffset(bit) = member.offset;
            if let Some(bits) = member.bits {
                let end = ByteOffset((bit + u64::from(bits)).div_ceil(8));
                if composite.kind == CompositeKind::Struct {
                    if let Some(last) = units.last_mut() {
                        // Adjacent: where one starts depends on where the previous one ends, in
                        // bits.
                        if last.kind == UnitKind::BitFields {
                            last.members.push(index);
                            last.bytes = last.bytes.max(end - last.start);
                            continue;
                        }
                    }
                }
                let (members, start) = (vec![index], member.offset.byte());
                let kind = UnitKind::BitFields;
                let members = [self.taken_markers(&mut units, composite, start), members].concat();
                units.push(Unit {
                    members,
                    kind,
                    start,
                    bytes: end - start,
                    forced: None,
                    gap: ByteSize::ZERO,
                    may_ask_for_line: false,
                });
                continue;
            }
            let last = position + 1 == order.len() && composite.kind == CompositeKind::Struct;
            let flexible = last && ends_flexible(self.model, member.type_id);
            let kind = if flexible {
                UnitKind::Flexible
            } else {
                UnitKind::Plain
            };
            let bytes = size_of(self.model, member.type_id);
            units.push(Unit {
                members: vec![index],
                kind,
                start: member.offset.byte(),
                bytes,
                forced: None,
                gap: ByteSize::ZERO,
                may_ask_for_line: false,
            });
        }
        units
    }

    /// The members of the last unit, which goes, if it marks the place of bit-fields at `start`.
    fn taken_markers(
        &self,
        units: &mut Vec<Unit>,
        composite: &Composite,
        start: ByteOffset,
    ) -> Vec<usize> {
        let last = units.last();
        match last.is_some_and(|unit| self.marks(composite, unit, start)) {
            true => units.pop().map_or_else(Vec::new, |marker| marker.members),
            false => Vec::new(),
        }
    }

    /// The alignment that a unit has, and gives its struct, by its members' types.
    fn natural(&mut self, composite: &Composite, unit: &Unit) -> ByteAlign {
        let types = unit.members.iter().map(|i| composite.members[*i].type_id);
        types.map(|id| self.align_of(id)).max().unwrap_or_default()
    }
}

/// The first byte at or after `cursor` where these bit-fields can start without any of them
/// crossing a boundary of its declared type. If they already cross one (packed structs), that is
/// `cursor`.
fn bit_field_start(
    model: &TypeModel,
    composite: &Composite,
    unit: &Unit,
    cursor: ByteOffset,
) -> ByteOffset {
    let fits = |start: ByteOffset| {
        unit.members.iter().all(|i| {
            let member = &composite.members[*i];
            let storage = 8 * model.size_of(member.type_id).unwrap_or(1).max(1);
            let bit = member.offset.0 - unit.start.bit().0 + start.bit().0;
            let bits = u64::from(member.bits.unwrap_or(1)).max(1);
            bit / storage == (bit + bits - 1) / storage
        })
    };
    if !fits(unit.start) {
        return cursor;
    }
    // No declared type is longer than 16 bytes, so the pattern repeats after 16.
    (0..16)
        .map(|bytes| cursor + ByteSize(bytes))
        .find(|start| fits(*start))
        .unwrap_or(cursor)
}

/// Whether a value of that type is a flexible array or ends in one.
fn ends_flexible(model: &TypeModel, id: TypeId) -> bool {
    match model.get(model.strip(id)) {
        // BTF does not distinguish `[0]` from `[]`, and both stay last.
        Some(Type::Array { count, .. }) => *count == 0,
        Some(Type::Composite(c)) => {
            c.kind == CompositeKind::Struct
                && c.members
                    .last()
                    .is_some_and(|m| ends_flexible(model, m.type_id))
        }
        _ => false,
    }
}

/// The alignment of `bytes` that a declaration requests, if that is more than `natural` and
/// compatible with an offset and `size`.
fn requested(bytes: u32, natural: ByteAlign, size: ByteSize) -> Option<Forced> {
    let align = ByteAlign::new(bytes.into()).filter(|a| *a > natural && size.is_aligned(*a))?;
    Some(match align == BUILT_LINE.into() {
        true => Forced::Line,
        false => Forced::Bytes(align),
    })
}

/// What the debug information says about requests in a unit's declaration.
fn declared(
    composite: &Composite,
    unit: &Unit,
    natural: ByteAlign,
    size: ByteSize,
) -> Option<Forced> {
    let alignments = unit.members.iter().map(|i| composite.members[*i].alignment);
    requested(alignments.max()?, natural, size)
        .filter(|forced| unit.start.is_aligned(forced.on(BUILT_LINE)))
}

/// Marks the units that start a line after the first, at no cost.
fn mark_line_starts(units: &mut [Unit]) {
    for unit in units {
        unit.may_ask_for_line = unit.kind != UnitKind::BitFields
            && unit.start > ByteOffset::ZERO
            && unit.start.is_aligned(BUILT_LINE.into())
            && unit.forced.is_none()
            && unit.gap == ByteSize::ZERO;
    }
}

/// Finds the alignment or the unnamed bytes that put unit `i` where it is, if the previous one
/// ended at `end` and `expected` is where it would be without.
fn explain(units: &mut [Unit], i: usize, end: ByteOffset, expected: ByteOffset, size: ByteSize) {
    let start = units[i].start;
    if start == expected {
        return;
    }
    // Unnamed bytes after bit-fields are unnamed bit-fields: they belong to them.
    if let Some(before) = i.checked_sub(1).map(|b| &mut units[b]) {
        if before.kind == UnitKind::BitFields && start - end < ByteSize(8) {
            before.bytes = start - before.start;
            return;
        }
    }
    match forced_alignment(end, start, units[i].bytes, size) {
        Some(forced) => units[i].forced = Some(forced),
        // A packed struct's bit-fields can even be before the expected place.
        None => units[i].gap = start.after(expected).unwrap_or_default(),
    }
}

/// The alignment that rounds `end` up to `start` in a struct of `size` bytes. If several do:
/// `bytes`, the member's size, because some types are aligned to that (`call_single_data_t`); else
/// a line; else the smallest.
fn forced_alignment(
    end: ByteOffset,
    start: ByteOffset,
    bytes: ByteSize,
    size: ByteSize,
) -> Option<Forced> {
    let explains = |a: &ByteAlign| size.is_aligned(*a) && end.align_up(*a) == start;
    // From 16 bytes on, because scalars align themselves below that; up to a line, which is next.
    let own = ByteAlign::new(bytes.0).filter(|a| (16..BUILT_LINE.bytes()).contains(&a.bytes()));
    if let Some(own) = own.filter(explains) {
        return Some(Forced::Bytes(own));
    }
    // Before smaller ones: kernels have an attribute for it (`____cacheline_aligned`).
    if explains(&BUILT_LINE.into()) {
        return Some(Forced::Line);
    }
    // Up to a page.
    (1..=12)
        .filter_map(|shift| ByteAlign::new(1 << shift))
        .find(explains)
        .map(Forced::Bytes)
}

/// The type's own alignment, or else the unnamed bytes, that explain its `size`.
fn explain_end(end: ByteOffset, align: ByteAlign, size: ByteSize) -> (Option<Forced>, ByteSize) {
    let expected = end.align_up(align);
    if size.end() == expected {
        return (None, ByteSize::ZERO);
    }
    match forced_alignment(end, size.end(), ByteSize::ZERO, size) {
        Some(forced) => (Some(forced), ByteSize::ZERO),
        // A struct without members can have any size; otherwise `size` is after the last member, as
        // the model checks.
        None => (None, size.end().after(expected).unwrap_or_default()),
    }
}

fn overlap(composite: &Composite, units: &[Unit], i: usize) -> OriginError {
    let name = |unit: &Unit| {
        let member = unit.main(composite).map(|m| &composite.members[m]);
        member.map_or_else(String::new, |m| m.name.to_string())
    };
    OriginError::Overlap {
        first: name(&units[i - 1]),
        second: name(&units[i]),
        byte: units[i].start,
    }
}
