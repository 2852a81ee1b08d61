//! Debugging information entries: which one, and the attributes of it that matter here.

use std::fmt;

use gimli::{AttributeValue, EntriesRaw, UnitOffset, UnitSectionOffset, constants as dw};

use crate::DwarfError;
use crate::file::Slice;
use crate::units::Units;

/// Which of a program's files: its own, the one with what `dwz` moved, or one with split units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Part(u32);

impl Part {
    /// The program's own debug information.
    pub(crate) const MAIN: Part = Part(0);
    /// What `dwz` moved, if it moved anything.
    pub(crate) const ALTERNATE: Part = Part(1);
    /// How many parts a key can tell apart.
    const COUNT: usize = 1 << 22;

    /// The part of that number; `None` for more than a program has.
    pub(crate) fn new(number: usize) -> Option<Part> {
        let number = (number < Part::COUNT).then_some(number)?;
        u32::try_from(number).ok().map(Part)
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// An entry's place among those of all files and sections of a program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DieKey(u64);

/// Bits of an offset: sections that are read are smaller.
const OFFSET_BITS: u32 = 41;
const OFFSET_MAX: u64 = (1 << OFFSET_BITS) - 1;
const TYPES_SECTION: u64 = 1 << OFFSET_BITS;

impl DieKey {
    /// The entry at `offset` in `.debug_info` of a part. An offset beyond all sections is that of no entry.
    pub(crate) fn info(offset: usize, part: Part) -> DieKey {
        let part = u64::from(part.0) << (OFFSET_BITS + 1);
        DieKey((offset as u64).min(OFFSET_MAX) | part)
    }

    pub(crate) fn at(offset: UnitSectionOffset, part: Part) -> DieKey {
        match offset {
            UnitSectionOffset::DebugInfoOffset(offset) => DieKey::info(offset.0, part),
            UnitSectionOffset::DebugTypesOffset(offset) => {
                DieKey(DieKey::info(offset.0, part).0 | TYPES_SECTION)
            }
        }
    }

    /// Offset in its section.
    pub fn offset(self) -> u64 {
        self.0 & OFFSET_MAX
    }

    /// Number of the part that it is in.
    fn part(self) -> u64 {
        self.0 >> (OFFSET_BITS + 1)
    }
}

impl fmt::Display for DieKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.offset())?;
        if self.0 & TYPES_SECTION != 0 {
            f.write_str(" (.debug_types)")?;
        }
        match self.part() {
            0 => Ok(()),
            1 => f.write_str(" (alternate file)"),
            _ => f.write_str(" (split)"),
        }
    }
}

impl fmt::Debug for DieKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A member's place: a number of bytes, or an expression that finds it when the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location<'d> {
    Bytes(u64),
    Expression(gimli::Expression<Slice<'d>>),
}

/// The attributes of an entry that the types need.
#[derive(Clone, Default)]
pub(crate) struct Attributes<'d> {
    pub(crate) name: Option<AttributeValue<Slice<'d>>>,
    pub(crate) type_ref: Option<DieKey>,
    pub(crate) signature: Option<DieKey>,
    pub(crate) specification: Option<DieKey>,
    pub(crate) containing: Option<DieKey>,
    pub(crate) byte_size: Option<u64>,
    pub(crate) bit_size: Option<u64>,
    pub(crate) bit_offset: Option<i64>,
    pub(crate) data_bit_offset: Option<u64>,
    pub(crate) location: Option<Location<'d>>,
    pub(crate) count: Option<u64>,
    pub(crate) upper_bound: Option<u64>,
    pub(crate) lower_bound: Option<i64>,
    pub(crate) const_value: Option<i64>,
    pub(crate) encoding: Option<dw::DwAte>,
    pub(crate) alignment: Option<u64>,
    pub(crate) file: Option<u64>,
    pub(crate) line: Option<u64>,
    pub(crate) declaration: bool,
    pub(crate) external: bool,
    pub(crate) is_virtual: bool,
    pub(crate) artificial: bool,
}

impl<'d> Attributes<'d> {
    /// Reads the attributes of the entry that `entries` is at. `unit` is the index of its unit in `units`.
    pub(crate) fn read(
        entries: &mut EntriesRaw<'_, '_, Slice<'d>>,
        abbreviation: &gimli::Abbreviation,
        units: &Units<'d>,
        unit: usize,
    ) -> Result<Attributes<'d>, DwarfError> {
        let mut read = Attributes::default();
        for specification in abbreviation.attributes() {
            let attribute = entries
                .read_attribute(*specification)
                .map_err(|source| units.error(unit, source))?;
            read.note(attribute.name(), attribute.value(), units, unit)?;
        }
        Ok(read)
    }

    fn note(
        &mut self,
        name: dw::DwAt,
        value: AttributeValue<Slice<'d>>,
        units: &Units<'d>,
        unit: usize,
    ) -> Result<(), DwarfError> {
        match name {
            dw::DW_AT_name => self.name = Some(value),
            dw::DW_AT_type => self.type_ref = units.reference(unit, &value)?,
            dw::DW_AT_signature => self.signature = units.reference(unit, &value)?,
            dw::DW_AT_specification => self.specification = units.reference(unit, &value)?,
            dw::DW_AT_containing_type => self.containing = units.reference(unit, &value)?,
            dw::DW_AT_byte_size => self.byte_size = value.udata_value(),
            dw::DW_AT_bit_size => self.bit_size = value.udata_value(),
            dw::DW_AT_bit_offset => self.bit_offset = value.sdata_value(),
            dw::DW_AT_data_bit_offset => self.data_bit_offset = value.udata_value(),
            dw::DW_AT_data_member_location => self.location = location(&value),
            dw::DW_AT_count => self.count = value.udata_value(),
            dw::DW_AT_upper_bound => self.upper_bound = bound(&value),
            dw::DW_AT_lower_bound => self.lower_bound = value.sdata_value(),
            dw::DW_AT_const_value => self.const_value = constant(&value),
            dw::DW_AT_alignment => self.alignment = value.udata_value(),
            dw::DW_AT_decl_file => {
                self.file = match value {
                    AttributeValue::FileIndex(index) => Some(index),
                    _ => value.udata_value(),
                }
            }
            dw::DW_AT_decl_line => self.line = value.udata_value(),
            dw::DW_AT_encoding => {
                if let AttributeValue::Encoding(encoding) = value {
                    self.encoding = Some(encoding);
                }
            }
            dw::DW_AT_declaration => self.declaration = value == AttributeValue::Flag(true),
            dw::DW_AT_external => self.external = value == AttributeValue::Flag(true),
            dw::DW_AT_artificial => self.artificial = value == AttributeValue::Flag(true),
            dw::DW_AT_virtuality => {
                self.is_virtual = value == AttributeValue::Virtuality(dw::DW_VIRTUALITY_virtual);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Number of elements of an array's dimension; 0 when it has no bound, or one that only the running program knows.
pub(crate) fn elements(attributes: &Attributes<'_>) -> u64 {
    if let Some(count) = attributes.count {
        return count;
    }
    let lower = attributes.lower_bound.unwrap_or(0);
    match attributes.upper_bound {
        // Compilers write -1 for arrays of no elements.
        Some(upper) => (upper as i64).wrapping_sub(lower).wrapping_add(1).max(0) as u64,
        None => 0,
    }
}

fn bound(value: &AttributeValue<Slice<'_>>) -> Option<u64> {
    match value {
        AttributeValue::Data4(u32::MAX) => Some(u64::MAX),
        _ => value
            .udata_value()
            .or_else(|| value.sdata_value().map(|v| v as u64)),
    }
}

/// The value of an enumerator. Fixed-size forms say nothing of the sign; the reader of the enum settles it.
fn constant(value: &AttributeValue<Slice<'_>>) -> Option<i64> {
    match value {
        AttributeValue::Sdata(value) => Some(*value),
        _ => value.udata_value().map(|value| value as i64),
    }
}

fn location<'d>(value: &AttributeValue<Slice<'d>>) -> Option<Location<'d>> {
    match value {
        AttributeValue::Exprloc(expression) => Some(Location::Expression(*expression)),
        AttributeValue::Block(bytes) => Some(Location::Expression(gimli::Expression(*bytes))),
        _ => value.udata_value().map(Location::Bytes),
    }
}

/// The entry at `offset` of a unit.
pub(crate) fn key_in(unit: &gimli::Unit<Slice<'_>>, offset: UnitOffset, part: Part) -> DieKey {
    DieKey::at(offset.to_unit_section_offset(unit), part)
}
