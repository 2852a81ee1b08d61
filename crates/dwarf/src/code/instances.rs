//! Which functions are inlined where, and the functions' type parameters.

use std::ops::Range;

use gimli::constants as dw;
use linemate_types::{ElfAddr, Language, Name, TypeId};

use super::functions::{EntryPlace, HOPS, describe, names, ranges};
use crate::key::key_in;
use crate::units::{Names, Units};
use crate::{DieKey, DwarfError, ProgramTypes};

/// The maximum number of inlined pieces stored per function: no compiler makes as many.
const PIECES_MAX: usize = 1 << 20;

/// A function as compiled: with the types of its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionInstance {
    pub name: String,
    /// The language it is written in, if that is C, C++ or Rust.
    pub language: Option<Language>,
    /// Its return type; void if the debug information does not say.
    pub result: TypeId,
    /// Its type parameters, in Rust including those of the type it is a method of, and their
    /// arguments.
    pub type_parameters: Vec<TypeParameter>,
}

/// A type parameter of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeParameter {
    pub name: Name,
    /// Its argument, a type.
    pub type_id: TypeId,
}

/// Code of a function inlined into another.
#[derive(Clone, Debug)]
pub(crate) struct Inlined {
    range: Range<ElfAddr>,
    /// How many entries enclose it.
    depth: isize,
    function: DieKey,
}

/// The functions of `inlined` whose code is at `pc`, innermost first.
pub(crate) fn at(inlined: &[Inlined], pc: ElfAddr) -> Vec<DieKey> {
    let here = inlined.iter().filter(|piece| piece.range.contains(&pc));
    let mut here: Vec<&Inlined> = here.collect();
    here.sort_by_key(|piece| std::cmp::Reverse(piece.depth));
    here.into_iter().map(|piece| piece.function).collect()
}

/// Reads what is inlined into the function at `entry`.
pub(crate) fn read(units: &Units<'_>, entry: &EntryPlace) -> Result<Box<[Inlined]>, DwarfError> {
    let unit = entry.unit;
    let broken = |source| units.error(unit, source);
    let one = &units.list[unit].unit;
    let mut found = Vec::new();
    let mut entries = one.entries_raw(Some(entry.offset)).map_err(broken)?;
    let outermost = entries.next_depth();
    while !entries.is_empty() {
        let (offset, depth) = (entries.next_offset(), entries.next_depth());
        // The entry itself is at that depth; the next one there is its sibling.
        if depth <= outermost && offset != entry.offset {
            break;
        }
        let Some(abbreviation) = entries.read_abbreviation().map_err(broken)? else {
            continue;
        };
        if abbreviation.tag() == dw::DW_TAG_inlined_subroutine {
            let inlined = one.entry(offset).map_err(broken)?;
            let origin = inlined.attr_value(dw::DW_AT_abstract_origin);
            let origin = origin.map_err(broken)?;
            let function = match origin {
                Some(value) => units.reference(unit, &value)?,
                None => None,
            };
            if let Some(function) = function {
                let ranges = ranges(units, unit, &inlined).map_err(broken)?;
                found.extend(ranges.into_iter().map(|range| Inlined {
                    range,
                    depth,
                    function,
                }));
            }
            if found.len() > PIECES_MAX {
                return Err(DwarfError::Bloated {
                    what: "inlined functions",
                    bytes: found.len() as u64,
                    length: units.length,
                });
            }
        }
        entries
            .skip_attributes(abbreviation.attributes())
            .map_err(broken)?;
    }
    Ok(found.into_boxed_slice())
}

/// The position of a function's entry among those of all units.
pub(crate) fn key(units: &Units<'_>, entry: &EntryPlace) -> DieKey {
    let one = &units.list[entry.unit];
    key_in(&one.unit, entry.offset, one.part)
}

/// What the entry at `key`, and those it refers to, say about a function.
pub(crate) fn instance(
    units: &Units<'_>,
    types: &ProgramTypes,
    key: DieKey,
) -> Result<Option<FunctionInstance>, DwarfError> {
    let Some((unit, offset)) = units.locate(key) else {
        return Ok(None);
    };
    let described = describe(units, unit, offset)?;
    let type_id = |key: Option<DieKey>| {
        let known = key.and_then(|key| types.type_of(key));
        known.unwrap_or(TypeId::VOID)
    };
    let mut type_parameters = Vec::new();
    let mut at = EntryPlace { unit, offset };
    let mut known = Names::default();
    for _ in 0..HOPS {
        for child in type_parameters_of(units, at)? {
            let parameter = describe(units, at.unit, child)?;
            type_parameters.push(TypeParameter {
                name: known.name(parameter.name.as_deref().unwrap_or(""), units.length)?,
                type_id: type_id(parameter.type_ref),
            });
        }
        // An entry that refers to another takes that one's attributes.
        match (type_parameters.is_empty(), referred(units, at)?) {
            (true, Some(next)) => at = next,
            _ => break,
        }
    }
    let (name, _) = names(&described);
    Ok(Some(FunctionInstance {
        name,
        language: units.list[unit].language,
        result: type_id(described.type_ref),
        type_parameters,
    }))
}

/// The entry that this one is an instance or the definition of.
fn referred(units: &Units<'_>, at: EntryPlace) -> Result<Option<EntryPlace>, DwarfError> {
    let broken = |source| units.error(at.unit, source);
    let entry = units.list[at.unit].unit.entry(at.offset).map_err(broken)?;
    // An instance refers first to its abstract function, which refers to its declaration.
    for name in [dw::DW_AT_abstract_origin, dw::DW_AT_specification] {
        if let Some(value) = entry.attr_value(name).map_err(broken)? {
            let next = units.reference(at.unit, &value)?;
            let next = next.and_then(|key| units.locate(key));
            return Ok(next.map(|(unit, offset)| EntryPlace { unit, offset }));
        }
    }
    Ok(None)
}

/// The entries of a function's type parameters.
fn type_parameters_of(
    units: &Units<'_>,
    at: EntryPlace,
) -> Result<Vec<gimli::UnitOffset>, DwarfError> {
    let broken = |source| units.error(at.unit, source);
    let one = &units.list[at.unit].unit;
    let mut entries = one.entries_raw(Some(at.offset)).map_err(broken)?;
    let function = entries.next_depth();
    let mut found = Vec::new();
    // They may follow everything inlined into it.
    while !entries.is_empty() {
        let (offset, depth) = (entries.next_offset(), entries.next_depth());
        if depth <= function && offset != at.offset {
            break;
        }
        let Some(abbreviation) = entries.read_abbreviation().map_err(broken)? else {
            continue;
        };
        if depth == function + 1 && abbreviation.tag() == dw::DW_TAG_template_type_parameter {
            found.push(offset);
        }
        entries
            .skip_attributes(abbreviation.attributes())
            .map_err(broken)?;
    }
    Ok(found)
}
