//! The parts of a type that a search needs: units that move as one, atoms that an access touches,
//! what stays where it is.
//!
//! Lays out units in any order in about a microsecond ([`Metrics::place`]);
//! [`linemate_layout::Layouts`] has the last word on every layout that leaves this crate.

use std::sync::Arc;

use linemate_layout::arrange::Slot;
use linemate_layout::origin::{Forced, Origin, Unit, UnitKind};
use linemate_layout::{Extent, Layouts, base_class, is_arranged_inside};
use linemate_types::{
    ByteAlign, ByteOffset, ByteSize, Composite, CompositeKind, LineIndex, LineSize, Type, TypeId,
    TypeModel,
};

use crate::error::AdviseError;

/// The largest type that is searched, in bytes: the table of its bytes is kept in memory.
pub const BYTES_MAX: ByteSize = ByteSize(1 << 20);

/// The most units of a type that is searched.
const UNITS_MAX: usize = 4000;

/// The part of a unit that accesses are distinguished by: at most 8 bytes that cannot be on two
/// lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atom {
    /// The unit, by its index in [`StructShape::units`].
    pub unit: u16,
    /// First byte in the recorded layout, from the unit's start.
    pub within: u32,
}

/// A struct, prepared for the search.
#[derive(Clone, Debug)]
pub struct StructShape {
    /// The struct's name as requested.
    pub name: String,
    /// The first of its type ids.
    pub id: TypeId,
    /// All ids that refer to it.
    pub ids: Vec<TypeId>,
    /// Where the type and its members are declared.
    pub origin: Arc<Origin>,
    /// By unit: its name in edits; `None` if it has none.
    pub names: Vec<Option<String>>,
    /// By unit: whether it is an anonymous struct whose members' names mean its inside.
    arranged_inside: Vec<bool>,
    /// Units that stay where they are, including all those before the last such one.
    pub frozen: usize,
    /// Why the first unit stays, if it was not pinned.
    pub first_stays: Option<String>,
    /// Parts of units that accesses touch as one.
    pub atoms: Vec<Atom>,
    /// By byte of the recorded layout.
    atom_at: Vec<Option<u16>>,
}

/// Names of types that nobody casts an object to: what they guard or count is the object around
/// them.
const FREE_FIRST: [&str; 14] = [
    "spinlock",
    "raw_spinlock",
    "spinlock_t",
    "raw_spinlock_t",
    "qspinlock",
    "rwlock_t",
    "mutex",
    "rw_semaphore",
    "seqcount",
    "atomic_t",
    "atomic64_t",
    "atomic_long_t",
    "refcount_t",
    "refcount_struct",
];

impl StructShape {
    /// Prepares struct `ids` of `layouts`' types. `pins` are members that stay.
    ///
    /// # Errors
    /// A union, something too large, or a pin that is not a member.
    pub fn new(
        layouts: &mut Layouts<'_>,
        name: &str,
        ids: &[TypeId],
        pins: &[String],
    ) -> Result<StructShape, AdviseError> {
        let model = layouts.model();
        let id = model.strip(ids.first().copied().unwrap_or(TypeId::VOID));
        let origin = layouts.origin(id)?;
        let refuse = |why: &str| AdviseError::Type {
            name: name.to_owned(),
            why: why.to_owned(),
        };
        let composite = model
            .composite(id)
            .ok_or_else(|| refuse("it is not a struct"))?;
        if composite.kind == CompositeKind::Union {
            return Err(refuse(
                "it is a union: its members overlap and have no order",
            ));
        }
        if origin.size > BYTES_MAX || origin.units.len() > UNITS_MAX {
            return Err(refuse("it is too large to be searched"));
        }
        let names: Vec<Option<String>> = origin
            .units
            .iter()
            .map(|u| unit_name(model, composite, u))
            .collect();
        let inside = |u: &Unit| {
            let mut members = u.members.iter().map(|i| &composite.members[*i]);
            members.any(|member| {
                is_arranged_inside(model, member) || base_class(model, member).is_some()
            })
        };
        let arranged_inside = origin.units.iter().map(inside).collect();
        let first_stays = first_stays(model, composite, &origin);
        let mut frozen = usize::from(first_stays.is_some());
        for pin in pins {
            // All before the pinned one stay, too: a member that left from there would move it.
            frozen = frozen.max(1 + unit_of(model, composite, &origin, name, pin)?);
        }
        let extents = layouts.extents(id)?;
        let mut shape = StructShape {
            name: name.to_owned(),
            id,
            ids: ids.to_vec(),
            origin,
            names,
            arranged_inside,
            frozen,
            first_stays,
            atoms: Vec::new(),
            atom_at: Vec::new(),
        };
        shape.make_atoms(&extents)?;
        Ok(shape)
    }

    fn make_atoms(&mut self, extents: &[Extent]) -> Result<(), AdviseError> {
        // Checked above: at most BYTES_MAX.
        self.atom_at = vec![None; self.origin.size.0 as usize];
        for (number, (unit, extent)) in self.origin.units.iter().zip(extents).enumerate() {
            let grain = match unit.bytes.0 {
                // Accesses to parts of a word are not kept apart: no layout puts parts of one
                // aligned word on two lines.
                0..=8 => 8,
                _ => match extent.align.bytes() {
                    // Adjacent bytes are not distinguished below 8: a larger table, and no struct
                    // has hot strings.
                    1..4 => 8,
                    // A packed or half-aligned unit may cross a line at any multiple of its
                    // alignment, so its atoms are no larger.
                    align => align.min(8),
                },
            };
            for within in (0..unit.bytes.0).step_by(grain as usize) {
                let Ok(atom) = u16::try_from(self.atoms.len()) else {
                    return Err(AdviseError::Type {
                        name: self.name.clone(),
                        why: "it has too many parts to be searched".into(),
                    });
                };
                self.atoms.push(Atom {
                    unit: number as u16,
                    within: within as u32,
                });
                let first = unit.start + ByteSize(within);
                let end = (first + ByteSize(grain)).min(unit.end());
                let end = end.min(self.origin.size.end()).max(first);
                self.atom_at[first.0 as usize..end.0 as usize].fill(Some(atom));
            }
        }
        Ok(())
    }

    /// The members that move as one.
    pub fn units(&self) -> &[Unit] {
        &self.origin.units
    }

    /// The name of a unit for messages.
    pub fn unit_name(&self, unit: usize) -> &str {
        self.names
            .get(unit)
            .and_then(Option::as_deref)
            .unwrap_or("(anonymous)")
    }

    /// The atoms that an access of `size` bytes at `offset` touches.
    #[inline]
    pub fn touched(&self, offset: u32, size: u8) -> impl Iterator<Item = u16> + '_ {
        let start = (offset as usize).min(self.atom_at.len());
        let end = (start + usize::from(size)).min(self.atom_at.len());
        let mut last = None;
        self.atom_at[start..end].iter().filter_map(move |at| {
            let new = *at != last;
            last = *at;
            at.filter(|_| new)
        })
    }

    /// Whether an edit can move the unit alone: not an anonymous struct, whose members' names mean
    /// its inside.
    pub fn movable(&self, unit: usize) -> bool {
        unit >= self.frozen
            && self.names[unit].is_some()
            && !self.arranged_inside[unit]
            // A member of no bytes says where others are.
            && self.units()[unit].bytes > ByteSize::ZERO
            && self.units()[unit].kind != UnitKind::Flexible
    }
}

/// Why the first member has to stay, if it does: code casts between an object's address and that of
/// its first member without the compiler knowing (`struct sock_common` in sockets,
/// `struct thread_info` in tasks), and debug information does not show it. So a struct or union by
/// value at the start stays, unless it is a lock or a counter. Scalars, pointers and arrays move.
fn first_stays(model: &TypeModel, composite: &Composite, origin: &Origin) -> Option<String> {
    let unit = origin
        .units
        .first()
        .filter(|u| u.start == ByteOffset::ZERO)?;
    let member = &composite.members[unit.main(composite)?];
    let mut id = member.type_id;
    // The model has checked that such chains end.
    loop {
        id = match model.get(id) {
            Some(Type::Typedef { name, .. }) if FREE_FIRST.contains(&&**name) => return None,
            Some(Type::Typedef { target, .. } | Type::Qualified { target, .. }) => *target,
            _ => break,
        };
    }
    match model.get(id) {
        Some(Type::Composite(c)) if !FREE_FIRST.contains(&&*c.name) => {
            let first = match (base_class(model, member), &*member.name) {
                (Some(base), _) => format!("the base class `{base}` is"),
                (None, "") => "an anonymous struct is".to_owned(),
                (None, name) => format!("`{name}` is a struct"),
            };
            Some(format!(
                "{first} at offset 0: code may convert between the two"
            ))
        }
        _ => None,
    }
}

/// The name of a unit in edits.
fn unit_name(model: &TypeModel, composite: &Composite, unit: &Unit) -> Option<String> {
    let member = &composite.members[unit.main(composite)?];
    if member.name.is_empty() {
        inner_name(model, member.type_id)
    } else {
        Some(member.name.to_string())
    }
}

/// The first name inside an anonymous struct or union. Recursion: as deep as types nest.
fn inner_name(model: &TypeModel, id: TypeId) -> Option<String> {
    let members = &model.composite(id)?.members;
    members.iter().find_map(|m| {
        if m.name.is_empty() {
            inner_name(model, m.type_id)
        } else {
            Some(m.name.to_string())
        }
    })
}

/// The unit that contains the member `name`, also inside anonymous ones.
fn unit_of(
    model: &TypeModel,
    composite: &Composite,
    origin: &Origin,
    type_name: &str,
    name: &str,
) -> Result<usize, AdviseError> {
    fn holds(model: &TypeModel, id: TypeId, name: &str) -> bool {
        let members = model.composite(id).map_or(&[][..], |c| &c.members);
        members
            .iter()
            .any(|m| &*m.name == name || (m.name.is_empty() && holds(model, m.type_id, name)))
    }
    let found = origin.units.iter().position(|unit| {
        unit.members.iter().any(|i| {
            let member = &composite.members[*i];
            &*member.name == name || (member.name.is_empty() && holds(model, member.type_id, name))
        })
    });
    found.ok_or_else(|| {
        let names = composite.members.iter().map(|m| &*m.name);
        AdviseError::Pin {
            type_name: type_name.to_owned(),
            pin: name.to_owned(),
            nearest: linemate_text::nearest(name, names),
        }
    })
}

/// The placement that units require in a kernel built for one line size.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// The line size that they are for.
    pub line: LineSize,
    extents: Vec<Extent>,
    plain: Vec<bool>,
    forced: Option<Forced>,
    tail: ByteSize,
    /// By atom: its offset from the start of its unit in this kernel.
    pub within: Vec<u32>,
    /// The size of the recorded order in this kernel.
    pub original: ByteSize,
}

/// A layout: where units start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitLayout {
    /// The first byte of each unit.
    pub starts: Vec<u32>,
    pub size: ByteSize,
    pub align: ByteAlign,
}

impl UnitLayout {
    /// Where a unit starts.
    #[inline]
    pub fn start(&self, unit: usize) -> ByteOffset {
        ByteOffset(self.starts[unit].into())
    }

    /// Where an object starts within 128 bytes that started at `recorded` there: one that requests
    /// a larger alignment moves up.
    pub fn residue(&self, recorded: u8) -> ByteSize {
        ByteSize(ByteSize::from(recorded).align_up(self.align).0 % 128)
    }
}

impl Metrics {
    /// For kernels built for the line size of `layouts`, which must be without edits.
    ///
    /// # Errors
    /// If the type cannot be laid out.
    pub fn new(layouts: &mut Layouts<'_>, shape: &StructShape) -> Result<Metrics, AdviseError> {
        let line = layouts.line();
        let layout = layouts.of(shape.id)?;
        let extents = layouts.extents(shape.id)?;
        let kinds = shape.units().iter().map(|u| u.kind);
        let plain = kinds.map(|k| k != UnitKind::BitFields).collect();
        let moved = |offset: ByteOffset| layout.moved(offset).map_or(0, |o| o.0);
        let within = shape.atoms.iter().map(|atom| {
            let start = shape.units()[usize::from(atom.unit)].start;
            let at = moved(start + ByteSize(atom.within.into()));
            u32::try_from(at.saturating_sub(moved(start))).unwrap_or(u32::MAX)
        });
        Ok(Metrics {
            line,
            within: within.collect(),
            extents,
            plain,
            forced: shape.origin.forced,
            tail: shape.origin.tail,
            original: layout.size,
        })
    }

    /// Bytes of a unit.
    pub fn bytes(&self, unit: usize) -> ByteSize {
        self.extents[unit].bytes
    }

    /// Where a unit ends in a layout.
    pub fn end(&self, placed: &UnitLayout, unit: usize) -> ByteOffset {
        placed.start(unit) + self.bytes(unit)
    }

    /// The alignment that a unit's type has by itself.
    pub fn align(&self, unit: usize) -> ByteAlign {
        self.extents[unit].align
    }

    /// Lays out units in the order of `slots`, as [`Layouts`] does.
    pub fn place(&self, slots: &[Slot], into: &mut UnitLayout) {
        into.starts.clear();
        into.starts.resize(self.extents.len(), 0);
        let mut align = self.forced.map_or(ByteAlign::ONE, |f| f.on(self.line));
        let (mut cursor, mut group) = (ByteOffset::ZERO, None);
        for slot in slots {
            let extent = &self.extents[slot.unit];
            let mut forced = slot.align(self.line);
            if slot.group != group {
                // A group starts with a line, and so does what follows it: that is
                // `__cacheline_group_begin_aligned` and its end.
                forced = forced.max(self.line.into());
            }
            group = slot.group;
            let floor = cursor.align_up(forced);
            let natural = if self.plain[slot.unit] {
                floor.align_up(extent.align)
            } else {
                // A bit-field's place depends on where its storage unit would end, which a table by
                // the position modulo 16 gives.
                floor + ByteSize(extent.skip[(floor.0 % 16) as usize].into())
            };
            let start = natural + slot.gap;
            align = align.max(extent.align).max(forced);
            into.starts[slot.unit] = start.0 as u32;
            cursor = start + extent.bytes.max(slot.least) + slot.after;
        }
        into.align = align;
        // `tail` is what the recorded size has beyond its members: padding requested by the
        // declaration stays.
        let end = (cursor.align_up(align) + self.tail).align_up(align);
        into.size = end - ByteOffset::ZERO;
    }

    /// The line of an atom of `unit`, counted from a line's start before the object, which started
    /// at `residue`.
    #[inline]
    pub fn line_of(&self, placed: &UnitLayout, residue: u8, unit: usize, atom: u16) -> LineIndex {
        let within = ByteSize::from(self.within[usize::from(atom)]);
        (placed.start(unit) + placed.residue(residue) + within).line(self.line)
    }

    /// Lines of a layout whose objects start lines.
    pub fn lines(&self, placed: &UnitLayout) -> u64 {
        placed.size.lines(self.line)
    }
}
