//! Object files: their debug information as if they were linked at address 0.

use object::read::elf::ElfFile64;
use object::{
    CompressionFormat, Object, ObjectSection, ObjectSymbol, RelocationKind, RelocationTarget,
};

use crate::DwarfError;

/// Where an ELF file says what it is, and what an object and a program are there: ELF, figure 1-3.
const TYPE: std::ops::Range<usize> = 16..18;
const RELOCATABLE: u16 = 1;
const EXECUTABLE: u16 = 2;

/// The bytes of an object file with the holes in its debug information filled, so that its types
/// can be read; any other file as it is.
///
/// # Errors
/// If it is an object file that cannot be parsed, or its debug information is compressed.
pub fn relocated(mut bytes: Vec<u8>) -> Result<Vec<u8>, DwarfError> {
    if bytes.get(TYPE) != Some(&RELOCATABLE.to_le_bytes()[..]) {
        return Ok(bytes);
    }
    for hole in holes(&bytes)? {
        let value = hole.value.to_le_bytes();
        if let Some(place) = bytes.get_mut(hole.place) {
            let length = place.len();
            place.copy_from_slice(&value[..length]);
        }
    }
    bytes[TYPE].copy_from_slice(&EXECUTABLE.to_le_bytes());
    Ok(bytes)
}

/// Bytes for the linker to fill.
struct Hole {
    place: std::ops::Range<usize>,
    value: u64,
}

fn holes(bytes: &[u8]) -> Result<Vec<Hole>, DwarfError> {
    let file: ElfFile64<'_> = ElfFile64::parse(bytes)?;
    let mut found = Vec::new();
    for section in file.sections() {
        let is_debug = section.name().is_ok_and(|name| name.starts_with(".debug_"));
        let Some((start, _)) = section.file_range().filter(|_| is_debug) else {
            continue;
        };
        if section.compressed_file_range()?.format != CompressionFormat::None {
            return Err(DwarfError::NotLinked);
        }
        for (offset, relocation) in section.relocations() {
            let length = usize::from(relocation.size() / 8);
            let address = match relocation.target() {
                RelocationTarget::Symbol(index) => file.symbol_by_index(index)?.address(),
                _ => 0,
            };
            let place = start
                .checked_add(offset)
                .and_then(|at| usize::try_from(at).ok());
            let place = place.and_then(|at| Some(at..at.checked_add(length)?));
            let absolute = relocation.kind() == RelocationKind::Absolute && length <= 8;
            found.extend(place.filter(|_| absolute).map(|place| Hole {
                place,
                value: address.wrapping_add_signed(relocation.addend()),
            }));
        }
    }
    Ok(found)
}
