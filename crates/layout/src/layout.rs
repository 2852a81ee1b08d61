//! Lays out types as the compiler would: after edits, or for another line size.
//!
//! Editing a type changes every type that holds it by value, so layouts are computed over the whole
//! graph, on demand, each once. Pointers do not matter.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use linemate_types::{
    BitOffset, ByteAlign, ByteOffset, ByteSize, Composite, CompositeKind, LineSize, Type, TypeId,
    TypeModel,
};

use crate::arrange::{Arrangement, Slot};
use crate::edit::{Alignment, Position, Statement};
use crate::error::PlanReason;
use crate::inside::{Insides, anonymous_structs};
use crate::map::{END, Inner, MovedBytes, OffsetMap, To};
use crate::nesting::size_of;
use crate::origin::{Origin, OriginError, Origins, Unit, UnitKind};

/// A struct or union laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The type that is laid out.
    pub id: TypeId,
    /// What `sizeof` gives, in bytes.
    pub size: ByteSize,
    /// `_Alignof`, in bytes, as far as it can be known.
    pub align: ByteAlign,
    /// Where each member starts, by its index in the [`Composite`]; `None` for a removed one.
    pub offsets: Vec<Option<BitOffset>>,
    /// From the recorded layout to this one; `None` if they are equal.
    pub map: Option<Arc<OffsetMap>>,
}

impl Layout {
    /// How many lines an object touches that starts at a line's start.
    pub fn lines(&self, line: LineSize) -> u64 {
        self.size.lines(line)
    }

    /// The offset in this layout of the byte at `offset` of the recorded layout; `None` if its
    /// field was removed.
    pub fn moved(&self, offset: ByteOffset) -> Option<ByteOffset> {
        let Some(map) = &self.map else {
            return Some(offset);
        };
        match map.at(offset).to {
            To::Byte(new) | To::Padding(new) => Some(new),
            To::Removed => None,
        }
    }
}

/// A layout from another source than the compiler's rules.
#[derive(Clone, Debug)]
pub(crate) struct Foreign {
    pub(crate) size: ByteSize,
    pub(crate) align: ByteAlign,
    pub(crate) map: Arc<OffsetMap>,
}

/// The placement that a unit requires without any request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its size, that of its type after edits.
    pub bytes: ByteSize,
    /// What it contributes to the alignment of its struct.
    pub align: ByteAlign,
    /// By the last four bits of the end of the previous unit: how many bytes after that it starts
    /// at the earliest. If its alignment is above 16, [`Extent::align`] applies in addition.
    pub skip: [u8; 16],
}

/// Size, alignment and internal changes of a value.
struct Value {
    size: ByteSize,
    align: ByteAlign,
    inner: Inner,
}

impl Value {
    /// Its alignment in a struct, which may be packed.
    fn align_in(&self, packed: bool) -> ByteAlign {
        if packed { ByteAlign::ONE } else { self.align }
    }
}

/// The layouts of a model's types under edits.
#[derive(Debug)]
pub struct Layouts<'m> {
    origins: Origins<'m>,
    line: LineSize,
    slots: BTreeMap<TypeId, Vec<Slot>>,
    foreign: BTreeMap<TypeId, Foreign>,
    known: HashMap<TypeId, Arc<Layout>>,
}

impl<'m> Layouts<'m> {
    /// Without edits, for a kernel built for lines of `line` bytes.
    pub fn new(model: &'m TypeModel, line: LineSize) -> Layouts<'m> {
        Layouts {
            origins: Origins::new(model),
            line,
            slots: BTreeMap::new(),
            foreign: BTreeMap::new(),
            known: HashMap::new(),
        }
    }

    /// The types being laid out.
    pub fn model(&self) -> &'m TypeModel {
        self.origins.model()
    }

    /// The line size that the kernel is built for.
    pub fn line(&self) -> LineSize {
        self.line
    }

    /// The declaration of the type, as far as the compiler acted on it.
    ///
    /// # Errors
    /// If it is not a struct or union, or its members overlap.
    pub fn origin(&mut self, id: TypeId) -> Result<Arc<Origin>, OriginError> {
        self.origins.of(id)
    }

    /// The order of members that edits gave a type, with the requests for each; `None` if no edit
    /// did.
    pub fn slots(&self, id: TypeId) -> Option<&[Slot]> {
        self.slots.get(&self.model().strip(id)).map(Vec::as_slice)
    }

    /// The placement that each unit of struct `id` requires, in the order of [`Origin::units`].
    ///
    /// # Errors
    /// If it is not a struct or union, or its members overlap.
    pub fn extents(&mut self, id: TypeId) -> Result<Vec<Extent>, OriginError> {
        let id = self.model().strip(id);
        let origin = self.origins.of(id)?;
        let Some(Type::Composite(composite)) = self.model().get(id) else {
            return Err(OriginError::NotComposite(id));
        };
        let mut extents = Vec::with_capacity(origin.units.len());
        for unit in &origin.units {
            let value = self.value(composite, unit);
            let align = value.align_in(origin.packed);
            let mut skip = [0; 16];
            // A table for 16 ends covers alignments up to that; [`Extent::align`] covers larger
            // ones.
            let within = align.min(ByteAlign::of_size(ByteSize(16)));
            for (cursor, skip) in (0..).map(ByteOffset).zip(&mut skip) {
                let start = self.origins.natural_start(composite, unit, cursor, within);
                // Bit-fields start within 16 bytes, and so does anything aligned to 16.
                *skip = (start - cursor).0 as u8;
            }
            extents.push(Extent {
                bytes: value.size,
                align,
                skip,
            });
        }
        Ok(extents)
    }

    /// Applies these edits, in order, to the layout of struct `id`; other edits change nothing
    /// here. If one is refused, nothing changes.
    ///
    /// # Errors
    /// The first impossible edit, with its place and the reason.
    pub fn edit(
        &mut self,
        id: TypeId,
        statements: &[Statement],
    ) -> Result<(), (Position, PlanReason)> {
        let first = statements.first().map_or(Position::default(), |s| s.at);
        let id = self.model().strip(id);
        let outer = self.arrangement(id).map_err(|e| (first, e.into()))?;
        if self.model().composite(id).map(|c| c.kind) == Some(CompositeKind::Union) {
            return Err((first, PlanReason::Union));
        }
        let mut insides = Insides::new(self.model(), id);
        let mut arranged = BTreeMap::from([(id, outer)]);
        for statement in statements {
            self.apply(statement, &mut insides, &mut arranged)
                .map_err(|e| (statement.at, e))?;
        }
        let slots = arranged.into_iter().map(|(id, a)| (id, a.slots()));
        self.slots.extend(slots);
        // All of them: any type may hold this one by value.
        self.known.clear();
        Ok(())
    }

    /// The members of struct `id` in their old order.
    fn arrangement(&mut self, id: TypeId) -> Result<Arrangement<'m>, OriginError> {
        let origin = self.origins.of(id)?;
        let composite = self.model().composite(id);
        let composite = composite.ok_or(OriginError::NotComposite(id))?;
        Ok(Arrangement::new(self.model(), composite, origin))
    }

    /// Applies a statement to the struct whose members it names.
    fn apply(
        &mut self,
        statement: &Statement,
        insides: &mut Insides<'m>,
        arranged: &mut BTreeMap<TypeId, Arrangement<'m>>,
    ) -> Result<(), PlanReason> {
        let path = insides.edited(&statement.edit)?;
        let Some((id, around)) = path.split_last() else {
            return Ok(());
        };
        let arrangement = match arranged.entry(*id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                insides.check_unshared(*id, &statement.edit)?;
                new.insert(self.arrangement(*id)?)
            }
        };
        arrangement.apply(&statement.edit)?;
        for id in around {
            if let Some(outer) = arranged.get_mut(id) {
                outer.align_inside(&statement.edit)?;
            }
        }
        Ok(())
    }

    /// Whether edits gave an anonymous struct in struct `id` another order, or requests.
    pub fn edited_inside(&self, id: TypeId) -> bool {
        let inside = anonymous_structs(self.model(), self.model().strip(id));
        inside.iter().any(|id| self.slots.contains_key(id))
    }

    /// Gives the type the layout that it has in another kernel.
    pub(crate) fn adopt(&mut self, id: TypeId, foreign: Foreign) {
        self.foreign.insert(id, foreign);
        self.known.clear();
    }

    /// The layout of struct or union `id`.
    ///
    /// # Errors
    /// If it is something else, or its members overlap.
    pub fn of(&mut self, id: TypeId) -> Result<Arc<Layout>, OriginError> {
        let id = self.model().strip(id);
        if let Some(known) = self.known.get(&id) {
            return Ok(Arc::clone(known));
        }
        let origin = self.origins.of(id)?;
        let Some(Type::Composite(composite)) = self.model().get(id) else {
            return Err(OriginError::NotComposite(id));
        };
        let layout = match (self.foreign.get(&id), origin.kind) {
            (Some(foreign), _) => adopted(id, composite, foreign),
            (None, CompositeKind::Struct) => {
                let slots = self.slots.get(&id).cloned();
                let slots = slots.unwrap_or_else(|| Slot::originals(&origin));
                self.structure(id, composite, &origin, &slots)
            }
            (None, CompositeKind::Union) => self.union(id, composite, &origin),
        };
        let layout = Arc::new(layout);
        self.known.insert(id, Arc::clone(&layout));
        Ok(layout)
    }

    /// A struct whose units are in the order of `slots`.
    pub(crate) fn structure(
        &mut self,
        id: TypeId,
        composite: &Composite,
        origin: &Origin,
        slots: &[Slot],
    ) -> Layout {
        let line = self.line;
        let mut offsets = vec![None; composite.members.len()];
        let mut pieces = removed_pieces(origin, slots);
        let mut align = origin.forced.map_or(ByteAlign::ONE, |f| f.on(line));
        let (mut cursor, mut group) = (ByteOffset::ZERO, None);
        for slot in slots {
            let unit = &origin.units[slot.unit];
            let value = match slot.stride {
                Some(stride) => self.padded_array(composite, unit, stride),
                None => self.value(composite, unit),
            };
            let natural = value.align_in(origin.packed);
            let mut forced = slot.align(line);
            // Also where a group ends: the next member must not be on its last line.
            if slot.group != group {
                forced = forced.max(line.into());
            }
            group = slot.group;
            let floor = cursor.align_up(forced);
            let start = self.origins.natural_start(composite, unit, floor, natural) + slot.gap;
            align = align.max(natural).max(forced);
            for member in &unit.members {
                let within = composite.members[*member].offset.0 - unit.start.bit().0;
                offsets[*member] = Some(BitOffset(start.bit().0 + within));
            }
            let bytes = match unit.kind {
                // Its elements follow the struct's end, and move with it.
                UnitKind::Flexible => END - unit.start,
                _ => unit.bytes,
            };
            pieces.push(MovedBytes {
                old: unit.start,
                bytes,
                new: Some(start),
                inner: value.inner,
            });
            // `least` counts from the member's start, `after` from its end.
            cursor = start + value.size.max(slot.least) + slot.after;
        }
        // The unnamed tail follows the padding, as it was found there.
        let stays = |p: &MovedBytes| p.new == Some(p.old) && p.inner == Inner::Whole;
        let all_stay = pieces.iter().all(stays);
        let end = match origin.is_part {
            // What follows is not on the lines of an isolated member or a group.
            true if group.is_some() => cursor.align_up(line.into()),
            true if all_stay => origin.size.end().max(cursor),
            true => cursor,
            false => (cursor.align_up(align) + origin.tail).align_up(align),
        };
        let size = end - ByteOffset::ZERO;
        let same = size == origin.size && all_stay;
        // No map if nothing moves: most types then cost a replay nothing.
        let map = (!same).then(|| Arc::new(OffsetMap::new(pieces)));
        Layout {
            id,
            size,
            align,
            offsets,
            map,
        }
    }

    /// The alternatives of a union start where it starts. If several changed inside, the first of
    /// the largest decides where the bytes go: an access does not show which one it meant.
    fn union(&mut self, id: TypeId, composite: &Composite, origin: &Origin) -> Layout {
        let offsets = composite.members.iter().map(|m| Some(m.offset)).collect();
        let values: Vec<Value> = origin
            .units
            .iter()
            .map(|u| self.value(composite, u))
            .collect();
        let mut align = origin.align;
        let changed = values
            .iter()
            .zip(&origin.units)
            .filter(|(v, _)| v.inner != Inner::Whole);
        // Backwards, because the last of equal ones is taken, which then is the first.
        let Some((value, unit)) = changed.rev().max_by_key(|(_, unit)| unit.bytes) else {
            return Layout {
                id,
                size: origin.size,
                align,
                offsets,
                map: None,
            };
        };
        let mut pieces = vec![MovedBytes {
            old: ByteOffset::ZERO,
            bytes: unit.bytes,
            new: Some(ByteOffset::ZERO),
            inner: value.inner.clone(),
        }];
        if origin.size > unit.bytes {
            // Bytes that only a longer alternative has follow those of this one.
            let (old, new) = (unit.bytes.end(), Some(value.size.end()));
            pieces.push(MovedBytes {
                old,
                bytes: origin.size - unit.bytes,
                new,
                inner: Inner::Whole,
            });
        }
        let mut size = ByteSize::ZERO;
        for value in &values {
            size = size.max(value.size);
            align = align.max(value.align_in(origin.packed));
        }
        let size = size.align_up(align) + origin.tail;
        Layout {
            id,
            size,
            align,
            offsets,
            map: Some(Arc::new(OffsetMap::new(pieces))),
        }
    }

    /// The alignment that a unit has by its type.
    pub(crate) fn natural_align(&mut self, composite: &Composite, unit: &Unit) -> ByteAlign {
        self.value(composite, unit).align
    }

    /// What a unit's type became.
    fn value(&mut self, composite: &Composite, unit: &Unit) -> Value {
        match unit.kind {
            UnitKind::BitFields => {
                let types = unit.members.iter().map(|i| composite.members[*i].type_id);
                // Bit-fields contain no struct, so nothing in them can have changed.
                let align = types.map(|id| self.origins.align_of(id)).max();
                Value {
                    size: unit.bytes,
                    align: align.unwrap_or_default(),
                    inner: Inner::Whole,
                }
            }
            _ => {
                let id = unit.main(composite).map(|i| composite.members[i].type_id);
                self.value_of(id.unwrap_or(TypeId::VOID))
            }
        }
    }

    /// The new layout of an array whose elements are at least `stride` apart.
    fn padded_array(&mut self, composite: &Composite, unit: &Unit, stride: Alignment) -> Value {
        let value = self.value(composite, unit);
        let id = unit.main(composite).map(|i| composite.members[i].type_id);
        let model = self.model();
        let array = id.and_then(|id| model.get(model.strip(id)));
        let Some(Type::Array { element, count, .. }) = array else {
            return value;
        };
        let old = size_of(model, *element);
        let of_element = self.value_of(*element);
        let new = match stride {
            Alignment::Line => of_element.size.align_up(self.line.into()),
            Alignment::Bytes(bytes) => of_element.size.max(bytes).align_up(of_element.align),
        };
        // The elements are already that far apart, or take no bytes.
        if old == ByteSize::ZERO || new == of_element.size {
            return value;
        }
        let element = element_map(old, of_element.inner);
        Value {
            size: ByteSize(new.0.saturating_mul(u64::from(*count))),
            inner: Inner::Repeat { old, new, element },
            ..value
        }
    }

    fn value_of(&mut self, id: TypeId) -> Value {
        let id = self.model().strip(id);
        match self.model().get(id) {
            Some(Type::Composite(_)) => {
                // A type that cannot be laid out again stays as it is.
                if let Ok(layout) = self.of(id) {
                    let inner = layout.map.clone().map_or(Inner::Whole, Inner::Nested);
                    return Value {
                        size: layout.size,
                        align: layout.align,
                        inner,
                    };
                }
            }
            Some(Type::Array { element, count, .. }) => {
                let old = size_of(self.model(), *element);
                let value = self.value_of(*element);
                let new = value.size;
                let inner = match value.inner {
                    inner @ (Inner::Nested(_) | Inner::Repeat { .. }) if old > ByteSize::ZERO => {
                        let element = element_map(old, inner);
                        Inner::Repeat { old, new, element }
                    }
                    _ => Inner::Whole,
                };
                let size = ByteSize(new.0.saturating_mul(u64::from(*count)));
                return Value {
                    size,
                    align: value.align,
                    inner,
                };
            }
            _ => {}
        }
        Value {
            size: size_of(self.model(), id),
            align: self.origins.align_of(id),
            inner: Inner::Whole,
        }
    }
}

/// What happens to the `bytes` bytes of an array's element.
fn element_map(bytes: ByteSize, inner: Inner) -> Arc<OffsetMap> {
    match inner {
        Inner::Nested(element) => element,
        inner => Arc::new(OffsetMap::new(vec![MovedBytes {
            old: ByteOffset::ZERO,
            bytes,
            new: Some(ByteOffset::ZERO),
            inner,
        }])),
    }
}

/// The pieces of units that are no longer in any slot.
fn removed_pieces(origin: &Origin, slots: &[Slot]) -> Vec<MovedBytes> {
    let gone = |i: &usize| slots.iter().all(|slot| slot.unit != *i);
    let units = (0..origin.units.len())
        .filter(gone)
        .map(|i| &origin.units[i]);
    let piece = |u: &Unit| MovedBytes {
        old: u.start,
        bytes: u.bytes,
        new: None,
        inner: Inner::Whole,
    };
    units.map(piece).collect()
}

fn adopted(id: TypeId, composite: &Composite, foreign: &Foreign) -> Layout {
    let place = |bit: BitOffset| match foreign.map.at(bit.byte()).to {
        To::Byte(new) => Some(BitOffset(new.bit().0 + bit.0 % 8)),
        _ => None,
    };
    let offsets = composite.members.iter().map(|m| place(m.offset)).collect();
    let map = Some(Arc::clone(&foreign.map));
    Layout {
        id,
        size: foreign.size,
        align: foreign.align,
        offsets,
        map,
    }
}
