//! The frame of the file: its header, its chunks' headers, the limits. See
//! `docs/reference/recording-format.md`.

use std::fmt;
use std::io::Read;
use std::path::Path;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::cursor::Cursor;
use crate::{Error, Problem};

/// The first bytes of every recording. The high bit and the line ends reveal a file that was
/// transferred as text.
pub const MAGIC: [u8; 8] = *b"\x89LMT\r\n\x1a\n";

/// Whether the file at `path` starts like a recording. The rest may be truncated or damaged. An
/// unreadable file is not one.
#[must_use]
pub fn is_recording(path: &Path) -> bool {
    let mut start = [0; MAGIC.len()];
    let read = linemate_files::open_file(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == MAGIC
}

/// Versions of the format: what each one changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Version {
    First = 1,
    /// Marks where CPUs' turns begin.
    Turns = 2,
    /// Programs: their files, their code by content, address spaces and page mappings.
    Programs = 3,
    /// A checksum of the file's header.
    CheckedHeader = 4,
}

impl Version {
    /// What this code writes, and the latest that it reads.
    pub const LATEST: Self = Self::CheckedHeader;
}

/// The maximum number of instructions in a recording.
// A site is two bits and a number: with this limit and the next, both kinds fit in 32 bits.
pub const MAX_INSTRUCTIONS: u32 = 1 << 23;
/// The maximum number of functions in the table.
pub const MAX_FUNCTIONS: u32 = 1 << 20;
/// The maximum number of events (including switches of CPUs) in a chunk.
pub const MAX_EVENTS: u32 = 1 << 22;
/// The maximum size of a chunk, compressed or not.
pub const MAX_CHUNK_BYTES: u32 = 1 << 28;
/// The maximum length of the tool version in the file's header.
const MAX_TOOL_BYTES: usize = 255;

/// What a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChunkKind {
    /// Keys and values that describe the run. Once, first.
    Metadata,
    /// The kernel's BTF, as it was in the image. At most once.
    Btf,
    /// The kernel's symbols, as `/proc/kallsyms` prints them. At most once.
    Symbols,
    /// The function table. At most once.
    Functions,
    /// The files of the recorded programs. At most once.
    Programs,
    /// A piece of such a file.
    File,
    Instructions,
    /// Events of one lane.
    Events,
    /// A piece of the guest's memory.
    Image,
    /// Totals. Once, last: a recording without it is truncated.
    End,
}

impl ChunkKind {
    pub const ALL: [Self; 10] = [
        Self::Metadata,
        Self::Btf,
        Self::Symbols,
        Self::Functions,
        Self::Programs,
        Self::File,
        Self::Instructions,
        Self::Events,
        Self::Image,
        Self::End,
    ];

    /// The four letters in the file.
    pub fn tag(self) -> [u8; 4] {
        *match self {
            Self::Metadata => b"META",
            Self::Btf => b"BTF ",
            Self::Symbols => b"SYMS",
            Self::Functions => b"FUNC",
            Self::Programs => b"PROG",
            Self::File => b"FILE",
            Self::Instructions => b"INST",
            Self::Events => b"EVTS",
            Self::Image => b"IMAG",
            Self::End => b"END ",
        }
    }

    fn from_tag(tag: [u8; 4]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.tag() == tag)
    }
}

impl fmt::Display for ChunkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.tag()).unwrap_or("?").trim_end())
    }
}

/// Bytes of [`ChunkHeader`] in the file.
pub(crate) const CHUNK_HEADER_BYTES: u64 = 32;

/// The header of each chunk's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    pub(crate) kind: ChunkKind,
    /// The chunk's number in the file, from 0.
    pub(crate) number: u32,
    /// Bytes in the file after this header.
    pub(crate) stored: u32,
    /// Bytes of the payload before compression.
    pub(crate) raw: u32,
    /// Whether the whole payload is a zstd frame. (Columns of events are compressed one by one.)
    pub(crate) compressed: bool,
    pub(crate) checksum: u64,
}

impl ChunkHeader {
    /// Everything but the checksum.
    fn prefix(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[0..4].copy_from_slice(&self.kind.tag());
        bytes[4..8].copy_from_slice(&self.number.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.stored.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.raw.to_le_bytes());
        bytes[16..20].copy_from_slice(&u32::from(self.compressed).to_le_bytes());
        bytes
    }

    pub(crate) fn to_bytes(self) -> [u8; CHUNK_HEADER_BYTES as usize] {
        let mut bytes = [0; CHUNK_HEADER_BYTES as usize];
        bytes[..24].copy_from_slice(&self.prefix());
        bytes[24..].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    /// The header, or `None` if these bytes cannot be one.
    pub(crate) fn from_bytes(bytes: &[u8; CHUNK_HEADER_BYTES as usize]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes, "a chunk's header");
        let tag = cursor.u32().ok()?.to_le_bytes();
        let header = Self {
            kind: ChunkKind::from_tag(tag)?,
            number: cursor.u32().ok()?,
            stored: cursor.u32().ok()?,
            raw: cursor.u32().ok()?,
            compressed: match cursor.u32().ok()? {
                0 => false,
                1 => true,
                _ => return None,
            },
            checksum: {
                // Reserved: a reader must not ignore what a later version writes there.
                if cursor.u32().ok()? != 0 {
                    return None;
                }
                cursor.u64().ok()?
            },
        };
        // Before anything trusts a length: the checksum is known only after that many bytes have
        // been read.
        (header.stored.max(header.raw) <= MAX_CHUNK_BYTES).then_some(header)
    }

    /// XXH3-64 of the header without its checksum, then the payload as in the file.
    pub(crate) fn checksum_of(&self, payload: &[u8]) -> u64 {
        let mut hash = Xxh3::new();
        // Includes the header, so that no chunk can take another's place, kind or length.
        hash.update(&self.prefix());
        hash.update(payload);
        hash.digest()
    }
}

/// The checksum of a recording so far: XXH3-64 over the checksums of its chunks.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunningChecksum(u64);

impl RunningChecksum {
    pub(crate) fn add(&mut self, chunk: u64) {
        // A chain, not a sum: the order of the chunks matters.
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.0.to_le_bytes());
        bytes[8..].copy_from_slice(&chunk.to_le_bytes());
        self.0 = xxh3_64(&bytes);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0
    }
}

/// The file's header: magic, version, the linemate version that wrote it, and a checksum of these.
pub(crate) fn file_header(tool: &str) -> Result<Vec<u8>, Error> {
    if tool.len() > MAX_TOOL_BYTES {
        return Err(Error::Unwritable {
            problem: Problem::TooLarge {
                what: "the length of the tool's version",
                value: tool.len() as u64,
                limit: MAX_TOOL_BYTES as u64,
            },
        });
    }
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&(Version::LATEST as u32).to_le_bytes());
    bytes.extend_from_slice(&(tool.len() as u32).to_le_bytes());
    bytes.extend_from_slice(tool.as_bytes());
    bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
    Ok(bytes)
}

/// Bytes of the checksum at the file header's end.
const HEADER_CHECKSUM_BYTES: usize = 8;
/// Longest possible file header.
pub(crate) const MAX_FILE_HEADER_BYTES: usize = 16 + MAX_TOOL_BYTES + HEADER_CHECKSUM_BYTES;

/// The contents of the file's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) version: Version,
    /// The version of linemate that wrote the file.
    pub(crate) tool: String,
    /// Bytes of the header.
    pub(crate) length: u64,
}

/// The header, from the first [`MAX_FILE_HEADER_BYTES`] of a file (or fewer).
pub(crate) fn parse_file_header(bytes: &[u8]) -> Result<FileHeader, Error> {
    let mut cursor = Cursor::new(bytes, "the file's header");
    if cursor.bytes(8).ok() != Some(&MAGIC[..]) {
        return Err(Error::NotARecording);
    }
    let mut fields = || -> Result<(u32, String, usize), Problem> {
        let version = cursor.u32()?;
        let length = cursor.u32()? as usize;
        // A name that is too long may be a newer version's: the version is checked first.
        let tool = cursor.bytes(length.min(MAX_TOOL_BYTES))?;
        Ok((version, String::from_utf8_lossy(tool).into_owned(), length))
    };
    let (version, tool, length) = fields().map_err(|_| Error::NotARecording)?;
    let latest = Version::LATEST as u32;
    if version > latest {
        return Err(Error::NewerVersion {
            version,
            latest,
            tool,
        });
    }
    // The version is trusted before the checksum: a newer format may have another one, and the
    // error should name it.
    let version = match version {
        1 => Version::First,
        2 => Version::Turns,
        3 => Version::Programs,
        4 => Version::CheckedHeader,
        _ => return Err(Error::NotARecording),
    };
    if length > MAX_TOOL_BYTES {
        return Err(Error::NotARecording);
    }
    let mut end = 16 + length;
    if version >= Version::CheckedHeader {
        check_header(&bytes[..end], &mut cursor)?;
        end += HEADER_CHECKSUM_BYTES;
    }
    Ok(FileHeader {
        version,
        tool,
        length: end as u64,
    })
}

/// Compares the checksum, which comes next, with that of the header before it.
fn check_header(header: &[u8], checksum: &mut Cursor<'_>) -> Result<(), Error> {
    let expected = checksum.u64().map_err(|_| Error::NotARecording)?;
    let found = xxh3_64(header);
    if found != expected {
        return Err(Error::HeaderChecksum { expected, found });
    }
    Ok(())
}
