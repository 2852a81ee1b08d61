//! The attributes of debugging information entries that this crate uses.

use std::num::NonZeroU32;

use gimli::{AttributeValue, EntriesRaw, constants as dw};

use crate::sections::DwarfBytes;
use crate::units::Units;
use crate::{DieKey, DwarfError};

/// A member's location: a number of bytes, or an expression that finds it at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location<'d> {
    Bytes(u64),
    Expression(gimli::Expression<DwarfBytes<'d>>),
}

/// The attributes of an entry that the types need.
#[derive(Clone, Default)]
pub(crate) struct Attributes<'d> {
    pub(crate) name: Option<AttributeValue<DwarfBytes<'d>>>,
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
    pub(crate) line: Option<NonZeroU32>,
    pub(crate) declaration: bool,
    pub(crate) external: bool,
    pub(crate) is_virtual: bool,
    pub(crate) artificial: bool,
}

impl<'d> Attributes<'d> {
    /// Reads the attributes of the entry at the cursor `entries`. `unit` is the index of its unit
    /// in `units`.
    pub(crate) fn read(
        entries: &mut EntriesRaw<'_, '_, DwarfBytes<'d>>,
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
        value: AttributeValue<DwarfBytes<'d>>,
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
            // Signed, because a field of a packed struct can start before its storage unit.
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
            dw::DW_AT_decl_line => self.line = line_number(&value),
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

/// The line that an attribute gives. Compilers write 0 for none, and no file has one that needs
/// more than 32 bits.
pub(crate) fn line_number(value: &AttributeValue<DwarfBytes<'_>>) -> Option<NonZeroU32> {
    let line = u32::try_from(value.udata_value()?).ok()?;
    NonZeroU32::new(line)
}

/// Number of elements of an array's dimension; 0 if it has no bound, or one known only at run time.
pub(crate) fn elements(attributes: &Attributes<'_>) -> u64 {
    if let Some(count) = attributes.count {
        return count;
    }
    let lower = attributes.lower_bound.unwrap_or(0);
    match attributes.upper_bound {
        // Compilers write -1 for arrays without elements.
        Some(upper) => (upper as i64).wrapping_sub(lower).wrapping_add(1).max(0) as u64,
        None => 0,
    }
}

fn bound(value: &AttributeValue<DwarfBytes<'_>>) -> Option<u64> {
    match value {
        // The bound of an array without elements, -1, in four bytes without a sign.
        AttributeValue::Data4(u32::MAX) => Some(u64::MAX),
        _ => value
            .udata_value()
            .or_else(|| value.sdata_value().map(|v| v as u64)),
    }
}

/// The value of an enumerator. Fixed-size forms do not show the sign; the reader of the enum
/// decides it.
fn constant(value: &AttributeValue<DwarfBytes<'_>>) -> Option<i64> {
    match value {
        AttributeValue::Sdata(value) => Some(*value),
        _ => value.udata_value().map(|value| value as i64),
    }
}

fn location<'d>(value: &AttributeValue<DwarfBytes<'d>>) -> Option<Location<'d>> {
    match value {
        AttributeValue::Exprloc(expression) => Some(Location::Expression(*expression)),
        // DWARF 2 and 3 have expressions in blocks.
        AttributeValue::Block(bytes) => Some(Location::Expression(gimli::Expression(*bytes))),
        _ => value.udata_value().map(Location::Bytes),
    }
}
