//! The position of a debugging information entry among those of all files and sections of a
//! program.

use std::fmt;

use gimli::{UnitOffset, UnitSectionOffset};

use crate::sections::DwarfBytes;

/// Which of a program's files: its own, the one with what `dwz` moved, or one with split units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FilePart(u32);

impl FilePart {
    /// The program's own debug information.
    pub(crate) const MAIN: FilePart = FilePart(0);
    /// What `dwz` moved, if anything.
    pub(crate) const ALTERNATE: FilePart = FilePart(1);
    /// How many parts a key can distinguish.
    const COUNT: usize = 1 << 22;

    /// The part with that number; `None` beyond what a program can have.
    pub(crate) fn new(number: usize) -> Option<FilePart> {
        let number = (number < FilePart::COUNT).then_some(number)?;
        u32::try_from(number).ok().map(FilePart)
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// An entry's place among those of all files and sections of a program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DieKey(u64);

/// Bits of an offset: sections that are read are smaller.
// With one bit for the section, 22 of 64 are left for the part.
const OFFSET_BITS: u32 = 41;
const OFFSET_MAX: u64 = (1 << OFFSET_BITS) - 1;
const TYPES_SECTION: u64 = 1 << OFFSET_BITS;

impl DieKey {
    /// The entry at `offset` in `.debug_info` of a part. An offset beyond all sections belongs to
    /// no entry.
    pub(crate) fn info(offset: usize, part: FilePart) -> DieKey {
        let part = u64::from(part.0) << (OFFSET_BITS + 1);
        DieKey((offset as u64).min(OFFSET_MAX) | part)
    }

    pub(crate) fn at(offset: UnitSectionOffset, part: FilePart) -> DieKey {
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

/// The entry at `offset` of a unit.
pub(crate) fn key_in(
    unit: &gimli::Unit<DwarfBytes<'_>>,
    offset: UnitOffset,
    part: FilePart,
) -> DieKey {
    DieKey::at(offset.to_unit_section_offset(unit), part)
}
