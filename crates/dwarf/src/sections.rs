//! The bytes of sections, unpacked if they are compressed.

use std::borrow::Cow;
use std::io::Read;

use gimli::{EndianSlice, RunTimeEndian, SectionId};
use object::read::elf::ElfSection64;
use object::{CompressionFormat, ObjectSection};

use crate::DwarfError;

/// The bytes that DWARF is read from.
pub(crate) type DwarfBytes<'d> = EndianSlice<'d, RunTimeEndian>;

/// The largest section that is unpacked, in bytes: offsets of 32-bit DWARF end there.
const UNPACKED_MAX: u64 = 1 << 32;
/// The maximum expansion of zlib and zstd per byte.
const RATIO_MAX: u64 = 1 << 15;

/// How much debug information was unpacked, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Length {
    /// Bytes of all sections together.
    pub(crate) all: u64,
    /// Of tables of abbreviations.
    pub(crate) abbreviations: u64,
}

/// The bytes of a section.
pub(crate) fn contents<'d>(
    section: &ElfSection64<'d, '_>,
    id: SectionId,
    length: &mut Length,
) -> Result<Cow<'d, [u8]>, DwarfError> {
    let data = section.compressed_data()?;
    // The size in the header of a compressed section is only a claim: it is checked before memory
    // is allocated for it.
    let believable = (data.data.len() as u64).saturating_mul(RATIO_MAX);
    let limit = believable.min(UNPACKED_MAX);
    if data.format != CompressionFormat::None && data.uncompressed_size > limit {
        return Err(DwarfError::TooLarge {
            section: id.name(),
            size: data.uncompressed_size,
            limit,
        });
    }
    let bytes = match data.format {
        CompressionFormat::None => Cow::Borrowed(data.data),
        CompressionFormat::Zlib => {
            let reader = flate2::read::ZlibDecoder::new(data.data);
            unpacked(reader, data.uncompressed_size, id)?
        }
        CompressionFormat::Zstandard => {
            let reader = zstd::stream::read::Decoder::new(data.data);
            let reader = reader.map_err(|error| broken_section(id, &error))?;
            unpacked(reader, data.uncompressed_size, id)?
        }
        other => {
            let error = std::io::Error::other(format!("{other:?} is not known"));
            return Err(broken_section(id, &error));
        }
    };
    length.all += bytes.len() as u64;
    if id == SectionId::DebugAbbrev {
        length.abbreviations += bytes.len() as u64;
    }
    Ok(bytes)
}

/// Exactly `size` bytes, or an error before much more is unpacked.
fn unpacked<'d>(reader: impl Read, size: u64, id: SectionId) -> Result<Cow<'d, [u8]>, DwarfError> {
    let mut bytes = Vec::new();
    // One more than claimed, so that an excess is noticed and not cut.
    let read = reader.take(size + 1).read_to_end(&mut bytes);
    read.map_err(|error| broken_section(id, &error))?;
    match bytes.len() as u64 {
        length if length == size => Ok(Cow::Owned(bytes)),
        length => {
            let text = format!("{length} bytes or more instead of {size}");
            Err(broken_section(id, &std::io::Error::other(text)))
        }
    }
}

fn broken_section(id: SectionId, error: &std::io::Error) -> DwarfError {
    DwarfError::Packed {
        section: id.name(),
        error: error.to_string(),
    }
}
