//! The variables of one function, and where each is at which of its instructions.

use std::ops::Range;

use gimli::{AttributeValue, Encoding, Expression, UnitOffset, constants as dw};
use linemate_types::{CompositeKind, ElfAddr, Name, Type, TypeId, TypeModel};

use super::functions::{EntryPlace, describe, fixed_place, ranges};
use super::place::{Where, pieces, place};
use crate::sections::DwarfBytes;
use crate::units::{Names, Units};
use crate::{DwarfError, ProgramTypes};

/// The maximum stored per function: no compiler makes as much.
const INTERVALS_MAX: usize = 1 << 20;

/// The longest range of code in which a variable stays at one location: GCC 12 writes negative
/// lengths in split units of DWARF 4, for ranges that end at the byte before they start.
const LENGTH_MAX: u64 = i32::MAX as u64;

/// A variable's location within a range of code.
#[derive(Clone, Debug)]
pub(crate) struct Interval {
    pub(crate) range: Range<ElfAddr>,
    pub(crate) place: Where,
    pub(crate) type_id: TypeId,
    pub(crate) name: Name,
    /// How many scopes enclose it.
    pub(crate) depth: u32,
}

/// Where a variable is, or the pointer at this offset in it.
#[derive(Clone, Copy, Debug)]
struct Held {
    place: Where,
    part: Option<u64>,
}

/// A function, block or inlined function around a variable.
struct Scope {
    depth: isize,
    ranges: Vec<Range<ElfAddr>>,
}

/// Reads the variables of the function at `entry`, including those of inlined functions.
pub(crate) fn read(
    units: &Units<'_>,
    types: &ProgramTypes,
    entry: &EntryPlace,
) -> Result<Box<[Interval]>, DwarfError> {
    let unit = entry.unit;
    let broken = |source| units.error(unit, source);
    let one = &units.list[unit].unit;
    let function = one.entry(entry.offset).map_err(broken)?;
    let base = function.attr_value(dw::DW_AT_frame_base).map_err(broken)?;
    let mut reader = VariableReader {
        units,
        types,
        unit,
        frame_base: base.and_then(|value| fixed_place(units, unit, &value)),
        names: Names::default(),
        scopes: Vec::new(),
        found: Vec::new(),
    };
    let mut entries = one.entries_raw(Some(entry.offset)).map_err(broken)?;
    let outermost = entries.next_depth();
    while !entries.is_empty() {
        let offset = entries.next_offset();
        let depth = entries.next_depth();
        if depth <= outermost && offset != entry.offset {
            break;
        }
        let Some(abbreviation) = entries.read_abbreviation().map_err(broken)? else {
            continue;
        };
        // Scopes that end before this entry: it is no deeper than they are.
        while reader
            .scopes
            .last()
            .is_some_and(|scope| scope.depth >= depth)
        {
            reader.scopes.pop();
        }
        reader.entry(offset, depth, abbreviation.tag())?;
        entries
            .skip_attributes(abbreviation.attributes())
            .map_err(broken)?;
    }
    Ok(reader.found.into_boxed_slice())
}

struct VariableReader<'u, 'd> {
    units: &'u Units<'d>,
    types: &'u ProgramTypes,
    unit: usize,
    frame_base: Option<Where>,
    names: Names,
    scopes: Vec<Scope>,
    found: Vec<Interval>,
}

impl<'d> VariableReader<'_, 'd> {
    fn entry(
        &mut self,
        offset: UnitOffset,
        depth: isize,
        tag: gimli::DwTag,
    ) -> Result<(), DwarfError> {
        match tag {
            dw::DW_TAG_subprogram
            | dw::DW_TAG_inlined_subroutine
            | dw::DW_TAG_lexical_block
            | dw::DW_TAG_try_block
            | dw::DW_TAG_catch_block => self.scope(offset, depth),
            dw::DW_TAG_variable | dw::DW_TAG_formal_parameter => self.variable(offset),
            _ => Ok(()),
        }
    }

    fn scope(&mut self, offset: UnitOffset, depth: isize) -> Result<(), DwarfError> {
        let broken = |source| self.units.error(self.unit, source);
        let entry = self.units.list[self.unit]
            .unit
            .entry(offset)
            .map_err(broken)?;
        let mut ranges = ranges(self.units, self.unit, &entry).map_err(broken)?;
        // A block without addresses is part of its enclosing scope.
        if let (true, Some(outer)) = (ranges.is_empty(), self.scopes.last()) {
            ranges.clone_from(&outer.ranges);
        }
        self.scopes.push(Scope { depth, ranges });
        Ok(())
    }

    fn variable(&mut self, offset: UnitOffset) -> Result<(), DwarfError> {
        let broken = |source| self.units.error(self.unit, source);
        let one = &self.units.list[self.unit].unit;
        let entry = one.entry(offset).map_err(broken)?;
        let location = entry.attr_value(dw::DW_AT_location).map_err(broken)?;
        let Some(location) = location else {
            return Ok(());
        };
        let mut places = Vec::new();
        match location {
            AttributeValue::Exprloc(_) => {
                let held = match fixed_place(self.units, self.unit, &location) {
                    Some(place) => vec![Held { place, part: None }],
                    None => location
                        .exprloc_value()
                        .map_or_else(Vec::new, |expression| in_pieces(expression, one.encoding())),
                };
                // A location without a list holds throughout the scope.
                let scope = self.scopes.last();
                let ranges = scope.map_or(&[][..], |scope| &scope.ranges);
                for range in ranges {
                    places.extend(held.iter().map(|held| (range.clone(), *held)));
                }
            }
            // A list has its own ranges, which are within the scope's.
            _ => self.listed(location, &mut places)?,
        }
        places.retain_mut(|(_, held)| match self.resolved(held.place) {
            Some(resolved) => {
                held.place = resolved;
                true
            }
            None => false,
        });
        if places.is_empty() {
            return Ok(());
        }
        let described = describe(self.units, self.unit, offset)?;
        let type_id = described.type_ref.and_then(|key| self.types.type_of(key));
        let name = described.name.as_deref().unwrap_or("");
        let name = self.names.name(name, self.units.length)?;
        let depth = u32::try_from(self.scopes.len()).unwrap_or(u32::MAX);
        let type_id = type_id.unwrap_or(TypeId::VOID);
        for (range, held) in places {
            let type_id = match held.part {
                None => type_id,
                Some(offset) => match pointer_in(self.types.model(), type_id, offset) {
                    Some(pointer) => pointer,
                    None => continue,
                },
            };
            self.found.push(Interval {
                range,
                place: held.place,
                type_id,
                name: name.clone(),
                depth,
            });
        }
        // Checked after each variable: the lists of one variable are bounded by themselves.
        match self.found.len() {
            length if length > INTERVALS_MAX => Err(DwarfError::Bloated {
                what: "locations of variables",
                bytes: length as u64,
                length: self.units.length,
            }),
            _ => Ok(()),
        }
    }

    /// The locations in a list.
    fn listed(
        &self,
        location: AttributeValue<DwarfBytes<'d>>,
        places: &mut Vec<(Range<ElfAddr>, Held)>,
    ) -> Result<(), DwarfError> {
        let one = &self.units.list[self.unit].unit;
        let dwarf = self.units.dwarf_of(self.unit);
        let broken = |source| self.units.error(self.unit, source);
        let Some(offset) = dwarf.attr_locations_offset(one, location).map_err(broken)? else {
            return Ok(());
        };
        let mut list = dwarf.locations(one, offset).map_err(broken)?;
        while let Some(entry) = list.next().map_err(broken)? {
            let found = place(entry.data, one.encoding(), |index| {
                dwarf.address(one, index).ok()
            });
            let (start, end) = (entry.range.begin, entry.range.end);
            // An unreadable one is left out alone; the rest of the list is right.
            let is_sound = start < end && end - start <= LENGTH_MAX;
            if !is_sound || places.len() > INTERVALS_MAX {
                continue;
            }
            let held = match found {
                Some(place) => vec![Held { place, part: None }],
                None => in_pieces(entry.data, one.encoding()),
            };
            let range = ElfAddr(start)..ElfAddr(end);
            places.extend(held.into_iter().map(|held| (range.clone(), held)));
        }
        Ok(())
    }

    /// Replaces a location relative to the frame base by what the frame base is relative to.
    /// Globals are found by their address.
    fn resolved(&self, place: Where) -> Option<Where> {
        let offset = match place {
            Where::Frame(offset) => offset,
            Where::Static(_) | Where::ThreadLocal(_) => return None,
            place => return Some(place),
        };
        // Most functions compiled by GCC count from the canonical frame address, by Clang from
        // `rbp` or `rsp`.
        match self.frame_base? {
            Where::Cfa(base) => Some(Where::Cfa(base.checked_add(offset)?)),
            Where::Register(register) => Some(Where::Based(register, offset)),
            Where::Based(register, base) => Some(Where::Based(register, base.checked_add(offset)?)),
            _ => None,
        }
    }
}

fn in_pieces(expression: Expression<DwarfBytes<'_>>, encoding: Encoding) -> Vec<Held> {
    let held = |(part, place)| Held {
        place,
        part: Some(part),
    };
    pieces(expression, encoding).into_iter().map(held).collect()
}

/// Types of Rust's library whose pointer does not point to its declared target: a vector's points
/// to bytes whatever its elements are, a hash table's points past the element.
const UNTRUE: [&str; 2] = ["alloc::raw_vec::RawVec", "hashbrown::raw::"];

/// The pointer at this offset in a value of a type: a slice's, a string's. None in a union, only
/// one member of which is valid.
fn pointer_in(model: &TypeModel, id: TypeId, offset: u64) -> Option<TypeId> {
    let (mut id, mut offset) = (model.strip(id), offset);
    // As deep as a model's types may nest.
    for _ in 0..linemate_types::MAX_DEPTH {
        match model.get(id)? {
            Type::Pointer { .. } => return (offset == 0).then_some(id),
            Type::Composite(composite) => {
                let untrue = UNTRUE.iter().any(|start| composite.name.starts_with(start));
                if untrue || composite.kind == CompositeKind::Union {
                    return None;
                }
                let mut members = composite.members.iter();
                // The first that contains the offset: in a struct whose members do not overlap it
                // is the only one.
                (id, offset) = members.find_map(|member| {
                    let within = offset.checked_sub(member.offset.0 / 8)?;
                    let holds = within < model.size_of(member.type_id)?;
                    let whole = member.bits.is_none() && holds;
                    whole.then(|| (model.strip(member.type_id), within))
                })?;
            }
            _ => return None,
        }
    }
    None
}
