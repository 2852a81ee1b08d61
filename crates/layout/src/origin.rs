//! What the compiler was told about a type, as far as its layout betrays it.
//!
//! Debug information has sizes and offsets but, in BTF, no alignment attributes. They are inferred here: a gap that the
//! natural alignment of the next member does not explain comes from an alignment that was asked for, or, where no power of
//! two explains it, from bytes without a name. So laying out the members again in their old order gives the old layout,
//! always; and members that move take the alignment that was asked for with them.
//!
//! An alignment to a line is taken for the type's own, not the member's, when some member of that struct type was aligned so, and
//! all of them in all types are as if it held for them too (`struct sched_avg`): then it goes wherever the type goes.
//!
//! What cannot be seen: an alignment that happened to cost nothing where the member is.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use linemate_types::{BitOffset, Composite, CompositeKind, Member, Type, TypeId, TypeModel};

/// The line size that the kernels of recordings are built for (x86-64: L1_CACHE_SHIFT 6): an alignment to that is
/// `____cacheline_aligned` and means "to a line".
pub const BUILT_LINE: u64 = 64;

/// An alignment that was asked for, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced {
    /// To a line of the machine that the code is compiled for.
    Line,
    /// To that many bytes.
    Bytes(u64),
}

impl Forced {
    /// The alignment in bytes where a line has `line` bytes.
    pub fn bytes(self, line: u64) -> u64 {
        match self {
            Forced::Line => line,
            Forced::Bytes(bytes) => bytes,
        }
    }
}

/// How a unit behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitKind {
    /// One member, or an anonymous struct or union with its members.
    Plain,
    /// Bit-fields in a row: they share bytes, so they keep their distances.
    BitFields,
    /// A flexible array, or a struct that ends in one: it stays last.
    Flexible,
}

/// What moves as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Indices of its members in the composite; more than one only for bit-fields.
    pub members: Vec<usize>,
    /// How it behaves.
    pub kind: UnitKind,
    /// First byte in the original.
    pub start: u64,
    /// Bytes in the original.
    pub bytes: u64,
    /// The alignment that was asked for, if any.
    pub forced: Option<Forced>,
    /// Bytes before it that no alignment explains.
    pub gap: u64,
}

/// A struct or union, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Struct or union.
    pub kind: CompositeKind,
    /// In the order of their offsets.
    pub units: Vec<Unit>,
    /// Whether natural alignments do not count.
    pub packed: bool,
    /// An alignment asked for the type as a whole.
    pub forced: Option<Forced>,
    /// Bytes at the end that no alignment explains.
    pub tail: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its alignment in bytes.
    pub align: u64,
}

/// Why a type cannot be laid out again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// Not a struct or union.
    #[error("type {0} is not a struct or union")]
    NotComposite(TypeId),
    /// Members of a struct that are on top of each other.
    #[error("members `{first}` and `{second}` overlap at byte {byte}")]
    Overlap {
        /// The one before.
        first: String,
        /// The one that starts inside of it.
        second: String,
        /// Where.
        byte: u64,
    },
}

/// The origins of a model's types, each worked out once.
#[derive(Debug)]
pub struct Origins<'m> {
    model: &'m TypeModel,
    known: HashMap<TypeId, Result<Arc<Origin>, OriginError>>,
    /// Alignments that structs have by themselves, worked out before anything else.
    own: BTreeMap<TypeId, Forced>,
}

/// What the members of one struct type say about its alignment.
struct AlignmentEvidence {
    /// One of them was put at the start of a line where it need not have been.
    asked: bool,
    /// All of them start lines, in types of whole lines.
    everywhere: bool,
}

impl Default for AlignmentEvidence {
    fn default() -> AlignmentEvidence {
        AlignmentEvidence {
            asked: false,
            everywhere: true,
        }
    }
}

/// `value` rounded up to a multiple of `align`, a power of two. Sizes are at most 2^48 bytes, so nothing overflows.
pub(crate) fn align_up(value: u64, align: u64) -> u64 {
    (value + (align - 1)) & !(align - 1)
}

/// The largest power of two that divides `value`; 1 for 0.
fn power_of_two_in(value: u64) -> u64 {
    if value == 0 {
        1
    } else {
        1 << value.trailing_zeros()
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
        origins.known.clear();
        origins
    }

    /// The structs that start lines by themselves, as far as their members in all types betray it.
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
                let Some(inner) = unit.members.first().and_then(|m| inners[*m]) else {
                    continue;
                };
                let evidence = evidence.entry(inner).or_default();
                evidence.asked |= unit.forced == Some(Forced::Line);
                evidence.everywhere &= (unit.start | origin.size) % BUILT_LINE == 0;
            }
        }
        let own = evidence
            .into_iter()
            .filter(|(_, e)| e.asked && e.everywhere);
        own.map(|(id, _)| (id, Forced::Line)).collect()
    }

    /// The struct or union that a member is, when it fills whole lines. Not behind typedefs: they can have alignments of
    /// their own.
    fn line_sized(&self, id: TypeId) -> Option<TypeId> {
        let id = self.unqualified(id);
        let composite = matches!(self.model.get(id), Some(Type::Composite(_)));
        let size = self.model.size_of(id).unwrap_or(0);
        (composite && size > 0 && size % BUILT_LINE == 0).then_some(id)
    }

    /// The type behind qualifiers.
    fn unqualified(&self, id: TypeId) -> TypeId {
        let mut id = id;
        // The model has checked that such chains end.
        while let Some(Type::Qualified { target, .. }) = self.model.get(id) {
            id = *target;
        }
        id
    }

    /// The types.
    pub fn model(&self) -> &'m TypeModel {
        self.model
    }

    /// The origin of struct or union `id` (typedefs and qualifiers are looked through).
    ///
    /// # Errors
    /// When it is something else, or its members overlap.
    pub fn of(&mut self, id: TypeId) -> Result<Arc<Origin>, OriginError> {
        let id = self.model.strip(id);
        if let Some(known) = self.known.get(&id) {
            return known.clone();
        }
        // The model has checked that types do not contain themselves and nest at most MAX_DEPTH deep.
        let origin = match self.model.get(id) {
            Some(Type::Composite(composite)) => self.infer(id, composite).map(Arc::new),
            _ => Err(OriginError::NotComposite(id)),
        };
        self.known.insert(id, origin.clone());
        origin
    }

    /// The natural alignment of a value of type `id`: System V ABI for x86-64, section 3.1.2.
    pub fn align_of(&mut self, id: TypeId) -> u64 {
        let id = self.model.strip(id);
        match self.model.get(id) {
            Some(Type::Array { element, .. }) => self.align_of(*element),
            Some(Type::Composite(_)) => self.of(id).map_or(1, |origin| origin.align),
            Some(
                Type::Int { .. } | Type::Float { .. } | Type::Enum { .. } | Type::Pointer { .. },
            ) => power_of_two_in(self.model.size_of(id).unwrap_or(1)),
            _ => 1,
        }
    }

    fn infer(&mut self, id: TypeId, composite: &Composite) -> Result<Origin, OriginError> {
        let mut units = self.units(composite);
        let naturals: Vec<u64> = units.iter().map(|u| self.natural(composite, u)).collect();
        let size = u64::from(composite.size);
        let widest = naturals.iter().copied().max().unwrap_or(1);
        let misplaced = |(unit, natural): (&Unit, &u64)| {
            unit.kind != UnitKind::BitFields && unit.start % *natural != 0
        };
        let packed = size % widest != 0 || units.iter().zip(&naturals).any(misplaced);
        let mut align = if packed { 1 } else { widest };
        let mut end = 0;
        if composite.kind == CompositeKind::Struct {
            for (i, natural) in naturals.into_iter().enumerate() {
                if units[i].start < end {
                    return Err(overlap(composite, &units, i));
                }
                let natural = if packed { 1 } else { natural };
                let expected = self.natural_start(composite, &units[i], end, natural);
                explain(&mut units, i, end, expected, size);
                align = align.max(units[i].forced.map_or(1, |f| f.bytes(BUILT_LINE)));
                end = units[i].start + units[i].bytes;
            }
        } else {
            end = units.iter().map(|u| u.bytes).max().unwrap_or(0);
        }
        let own = self.own.get(&id).copied();
        align = align.max(own.map_or(1, |f| f.bytes(BUILT_LINE)));
        let (forced, tail) = explain_end(end, align, size);
        let forced = forced.or(own);
        align = align.max(forced.map_or(1, |f| f.bytes(BUILT_LINE)));
        Ok(Origin {
            kind: composite.kind,
            units,
            packed,
            forced,
            tail,
            size,
            align,
        })
    }

    /// Where the compiler puts a unit after byte `cursor` when nothing else is asked for.
    pub(crate) fn natural_start(
        &self,
        composite: &Composite,
        unit: &Unit,
        cursor: u64,
        natural: u64,
    ) -> u64 {
        match unit.kind {
            UnitKind::BitFields => bit_field_start(self.model, composite, unit, cursor),
            _ => align_up(cursor, natural),
        }
    }

    /// The members in the order of their offsets, bit-fields in a row put together.
    fn units(&self, composite: &Composite) -> Vec<Unit> {
        let mut order: Vec<usize> = (0..composite.members.len()).collect();
        // Stable: members without a size stay before the member at the same offset.
        order.sort_by_key(|i| composite.members[*i].offset);
        let mut units: Vec<Unit> = Vec::new();
        for (position, &index) in order.iter().enumerate() {
            let member = &composite.members[index];
            let BitOffset(bit) = member.offset;
            if let Some(bits) = member.bits {
                let end = (bit + u64::from(bits)).div_ceil(8);
                if composite.kind == CompositeKind::Struct {
                    if let Some(last) = units.last_mut() {
                        if last.kind == UnitKind::BitFields {
                            last.members.push(index);
                            last.bytes = last.bytes.max(end - last.start);
                            continue;
                        }
                    }
                }
                let (members, start) = (vec![index], bit / 8);
                let kind = UnitKind::BitFields;
                units.push(Unit {
                    members,
                    kind,
                    start,
                    bytes: end - start,
                    forced: None,
                    gap: 0,
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
            let bytes = self.model.size_of(member.type_id).unwrap_or(0);
            let members = vec![index];
            units.push(Unit {
                members,
                kind,
                start: bit / 8,
                bytes,
                forced: None,
                gap: 0,
            });
        }
        units
    }

    /// The alignment that a unit has, and gives its struct, by its members' types.
    fn natural(&mut self, composite: &Composite, unit: &Unit) -> u64 {
        let types = unit.members.iter().map(|i| composite.members[*i].type_id);
        types.map(|id| self.align_of(id)).max().unwrap_or(1)
    }
}

/// The first byte at or after `cursor` where these bit-fields can start without any crossing a boundary of its
/// declared type. If they cross one where they are (packed structs), that is `cursor`.
fn bit_field_start(model: &TypeModel, composite: &Composite, unit: &Unit, cursor: u64) -> u64 {
    let fits = |start: u64| {
        unit.members.iter().all(|i| {
            let member = &composite.members[*i];
            let storage = 8 * model.size_of(member.type_id).unwrap_or(1).max(1);
            let bit = member.offset.0 - 8 * unit.start + 8 * start;
            let bits = u64::from(member.bits.unwrap_or(1)).max(1);
            bit / storage == (bit + bits - 1) / storage
        })
    };
    if !fits(unit.start) {
        return cursor;
    }
    // No declared type is longer than 16 bytes, so the pattern repeats after 16.
    (cursor..cursor + 16)
        .find(|start| fits(*start))
        .unwrap_or(cursor)
}

/// Whether a value of that type is a flexible array or ends in one.
fn ends_flexible(model: &TypeModel, id: TypeId) -> bool {
    match model.get(model.strip(id)) {
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

/// Finds the alignment or the nameless bytes that put unit `i` where it is, when the one before ended at `end` and
/// `expected` is where it would be without.
fn explain(units: &mut [Unit], i: usize, end: u64, expected: u64, size: u64) {
    let start = units[i].start;
    if start == expected {
        return;
    }
    // Bytes without a name after bit-fields are bit-fields without a name: they belong to them.
    if let Some(before) = i.checked_sub(1).map(|b| &mut units[b]) {
        if before.kind == UnitKind::BitFields && start - end < 8 {
            before.bytes = start - before.start;
            return;
        }
    }
    match forced_alignment(end, start, units[i].bytes, size) {
        Some(forced) => units[i].forced = Some(forced),
        // A packed struct's bit-fields can even be before where they are expected.
        None => units[i].gap = start.saturating_sub(expected),
    }
}

/// The alignment that rounds `end` up to `start` in a struct of `size` bytes. Where several do: `bytes`, the member's size, for
/// some types are aligned to that (`call_single_data_t`); else a line; else the smallest.
fn forced_alignment(end: u64, start: u64, bytes: u64, size: u64) -> Option<Forced> {
    let explains = |a: u64| size % a == 0 && align_up(end, a) == start;
    if bytes.is_power_of_two() && (16..BUILT_LINE).contains(&bytes) && explains(bytes) {
        return Some(Forced::Bytes(bytes));
    }
    if explains(BUILT_LINE) {
        return Some(Forced::Line);
    }
    (1..=12)
        .map(|shift| 1 << shift)
        .find(|a| explains(*a))
        .map(Forced::Bytes)
}

/// The type's own alignment, or else the nameless bytes, that make it `size` long.
fn explain_end(end: u64, align: u64, size: u64) -> (Option<Forced>, u64) {
    let expected = align_up(end, align);
    if size == expected {
        return (None, 0);
    }
    match forced_alignment(end, size, 0, size) {
        Some(forced) => (Some(forced), 0),
        // A struct without members can be any size; else `size` is after the last member: the model checks that.
        None => (None, size.saturating_sub(expected)),
    }
}

fn overlap(composite: &Composite, units: &[Unit], i: usize) -> OriginError {
    let name = |unit: &Unit| {
        let member = unit.members.first().map(|m| &composite.members[*m]);
        member.map_or_else(String::new, |m| m.name.to_string())
    };
    OriginError::Overlap {
        first: name(&units[i - 1]),
        second: name(&units[i]),
        byte: units[i].start,
    }
}
