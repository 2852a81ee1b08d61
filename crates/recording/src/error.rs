//! What can be wrong with a recording.

use std::io;

use crate::format::ChunkKind;

/// Why a recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system returned an error (a full disk, no permission, no such file).
    #[error("cannot {doing}: {source}")]
    Io {
        doing: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// The file does not start as a recording does.
    #[error("not a linemate recording (`linemate record` makes one)")]
    NotARecording,
    /// A later linemate wrote it.
    #[error(
        "recording format {version} is newer than this linemate reads ({latest}); written by linemate {tool}: use that version or a later one"
    )]
    NewerVersion {
        /// The version in the file.
        version: u32,
        /// The latest version this code reads.
        latest: u32,
        /// The version of linemate that wrote it.
        tool: String,
    },
    /// The bytes of the file's header are not as written.
    #[error("checksum of the file's header is {found:#018x}, not {expected:#018x}")]
    HeaderChecksum {
        /// The checksum in the file.
        expected: u64,
        /// The checksum of the bytes in the file.
        found: u64,
    },
    /// The chunks are not those that the END chunk was written for.
    #[error("the chunks' checksum is {found:#018x}, not {promised:#018x} as the end says")]
    RunningChecksum {
        /// According to the END chunk.
        promised: u64,
        found: u64,
    },
    /// Bytes of a chunk are not as written.
    #[error(
        "checksum of chunk {chunk} ({kind}) at byte {offset} is {found:#018x}, not {expected:#018x}"
    )]
    Checksum {
        /// The chunk's number from 0.
        chunk: u32,
        /// What the chunk holds.
        kind: ChunkKind,
        /// Where the chunk starts in the file.
        offset: u64,
        /// The checksum in the file.
        expected: u64,
        /// The checksum of the bytes in the file.
        found: u64,
    },
    /// A chunk's checksum is right but its contents make no sense.
    #[error("chunk {chunk} ({kind}) at byte {offset}: {problem}")]
    Malformed {
        /// The chunk's number from 0.
        chunk: u32,
        /// What the chunk holds.
        kind: ChunkKind,
        /// Where the chunk starts in the file.
        offset: u64,
        problem: Problem,
    },
    /// A chunk that every recording has once is missing.
    #[error("the recording has no {kind} chunk")]
    Missing { kind: ChunkKind },
    /// The recording is finished: nothing can be appended.
    #[error("the recording is finished; nothing can be appended")]
    Finished,
    /// A value to be written exceeds the format.
    #[error("cannot write: {problem}")]
    Unwritable { problem: Problem },
    /// The writing thread has ended.
    #[error("the writing thread has stopped")]
    WriterGone,
}

impl Error {
    /// What to do about a recording that cannot be written: empty, or a suffix for the error's
    /// text.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match self {
            Error::Io { source, .. }
                if matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge) =>
            {
                ": free some space, or record a shorter run"
            }
            _ => "",
        }
    }
}

/// What is wrong inside a chunk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The bytes end inside a value.
    #[error("{what} end too early")]
    Truncated { what: &'static str },
    /// A varint of more than 64 bits.
    #[error("a varint in {what} has more than 64 bits")]
    VarintTooLong { what: &'static str },
    /// A number beyond a limit of the format.
    #[error("{what} is {value}, more than {limit}")]
    TooLarge {
        what: &'static str,
        value: u64,
        limit: u64,
    },
    /// A number of something that does not exist.
    #[error("{what} {value} is used, but only {known} are known")]
    Beyond {
        what: &'static str,
        value: u64,
        /// How many there are.
        known: u64,
    },
    /// A code without meaning.
    #[error("{what} has the unknown code {value}")]
    Unknown { what: &'static str, value: u64 },
    /// Bytes that nothing uses.
    #[error("{bytes} bytes of {what} are left over")]
    Leftover { what: &'static str, bytes: usize },
    /// A count disagrees with what it counts.
    #[error("{what}: expected {stored}, found {found}")]
    Count {
        what: &'static str,
        stored: u64,
        found: u64,
    },
    /// An order that the format requires is violated.
    #[error("{what} {value} is out of order")]
    Order {
        /// What is out of order.
        what: &'static str,
        value: u64,
    },
    /// An impossible value in the description.
    #[error("{key} is {value:?}, not {expected}")]
    Description {
        key: &'static str,
        /// The value's first characters.
        value: String,
        /// The form that its key requires.
        expected: &'static str,
    },
    /// Text that is not UTF-8 or not JSON.
    #[error("{what} is not readable: {reason}")]
    Text { what: &'static str, reason: String },
    /// The compressed bytes cannot be decompressed.
    #[error("{what} cannot be decompressed: {reason}")]
    Compressed { what: &'static str, reason: String },
}

/// Wraps an error of the system with the operation that failed.
pub(crate) fn io_error(doing: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Io { doing, source }
}
