//! Units and their tables of abbreviations, cached so that units that share a table do not parse it
//! again.

use std::collections::HashMap;
use std::sync::Arc;

use gimli::{Dwarf, Section as _, Unit, UnitHeader, UnitSectionOffset};

use crate::sections::{DwarfBytes, Length};
use crate::{DwarfError, ProgramFiles};

/// How many bytes of abbreviations may be read per byte present: units share tables, but no
/// compiler makes them overlap.
const ABBREVIATIONS_READ: u64 = 64;

/// All abbreviation tables read so far from a program's files.
#[derive(Default)]
pub(crate) struct Abbreviations {
    /// By their address in memory: pieces of a package may be the same bytes.
    known: HashMap<usize, Arc<gimli::Abbreviations>>,
    bytes: u64,
    length: Length,
}

impl Abbreviations {
    /// The tables of `files`, none of them read yet.
    pub(crate) fn new(files: &ProgramFiles<'_>) -> Abbreviations {
        Abbreviations::of_length(files.length())
    }

    /// The same for files with this much debug information.
    pub(crate) fn of_length(length: Length) -> Abbreviations {
        Abbreviations {
            length,
            ..Abbreviations::default()
        }
    }

    /// The table of a unit.
    pub(crate) fn of(
        &mut self,
        dwarf: &Dwarf<DwarfBytes<'_>>,
        header: &UnitHeader<DwarfBytes<'_>>,
    ) -> Result<Arc<gimli::Abbreviations>, DwarfError> {
        let offset = header.debug_abbrev_offset().0;
        let section = dwarf.debug_abbrev.reader().slice();
        let place = (section.as_ptr() as usize).wrapping_add(offset);
        if let Some(known) = self.known.get(&place) {
            return Ok(Arc::clone(known));
        }
        // Before the table is parsed: units that each start one byte further into one long table
        // would have it parsed as many times.
        self.bytes += extent(section.get(offset..).unwrap_or(&[]));
        if self.bytes > ABBREVIATIONS_READ * self.length.abbreviations {
            return Err(DwarfError::Bloated {
                what: "abbreviations",
                bytes: self.bytes,
                length: self.length.all,
            });
        }
        let table = dwarf.abbreviations(header)?;
        self.known.insert(place, Arc::clone(&table));
        Ok(table)
    }
}

/// Where a unit starts in its section.
pub(crate) fn offset(header: &UnitHeader<DwarfBytes<'_>>) -> u64 {
    match header.offset() {
        UnitSectionOffset::DebugInfoOffset(offset) => offset.0 as u64,
        UnitSectionOffset::DebugTypesOffset(offset) => offset.0 as u64,
    }
}

/// A unit without the contents of its entries.
pub(crate) fn unit<'d>(
    dwarf: &Dwarf<DwarfBytes<'d>>,
    header: UnitHeader<DwarfBytes<'d>>,
    abbreviations: &mut Abbreviations,
) -> Result<Unit<DwarfBytes<'d>>, DwarfError> {
    let table = abbreviations.of(dwarf, &header)?;
    Unit::new_with_abbreviations(dwarf, header, table).map_err(|source| DwarfError::Unit {
        unit: offset(&header),
        source,
    })
}

/// An upper bound of the length of the abbreviation table at the start of `bytes`: up to three
/// zeros in a row, which end its last abbreviation and the table.
fn extent(bytes: &[u8]) -> u64 {
    // Too many bytes rather than too few: a sum that bounds work may be generous, and finding the
    // true end is that very work.
    let end = bytes.windows(3).position(|three| three == [0, 0, 0]);
    end.map_or(bytes.len(), |at| at + 3) as u64
}
