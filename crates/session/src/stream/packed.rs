//! A packed stream: its bytes, and the index at their end.

use std::borrow::Cow;
use std::fmt;

use linemate_machine::LineSize;
use linemate_recording::{Accesses, Source};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::guess::{Guess, Row};

/// The most steps of a block: a block ends with a round, and a round has at most
/// [`linemate_replay::ROUND_ACCESSES_MAX`] and one slice more.
const BLOCK_MAX: u32 = 1 << 24;

/// A packed stream, as stored on the shelf.
#[derive(Debug)]
pub struct Stream {
    /// Packed blocks, then the index.
    bytes: Bytes,
    pub(super) index: Index,
}

/// Where a stream's bytes are.
enum Bytes {
    InMemory(Vec<u8>),
    /// Where they are read from, block by block: a billion accesses are hundreds of megabytes.
    Stored(Box<dyn Source>),
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bytes::InMemory(_) => "InMemory",
            Bytes::Stored(_) => "Stored",
        })
    }
}

/// What the stream does not hold in its blocks.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Index {
    /// How many CPUs were recorded.
    pub(super) cpus: u16,
    /// Whether it is for lines of 128 bytes.
    pub(super) wide: bool,
    /// By row: accesses through the caches that replays as recorded do without.
    pub(super) left_out: Vec<Accesses>,
    /// Accesses to device registers, which no cache holds.
    pub(super) uncached: Accesses,
    pub(super) blocks: Vec<Block>,
}

/// A block: where it is, and how much is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Block {
    /// How many bytes it has, packed.
    pub(super) packed: u32,
    pub(super) steps: u32,
    pub(super) slices: u32,
    pub(super) rounds: u32,
    /// Of the packed bytes: those of a stored stream may change after it was opened.
    pub(super) checksum: u64,
}

/// Bytes of the index's length, at the end.
const LENGTH: usize = 8;

impl Stream {
    pub(super) fn new(bytes: Vec<u8>, index: Index) -> Stream {
        Stream {
            bytes: Bytes::InMemory(bytes),
            index,
        }
    }

    /// What [`Stream::bytes`] returned, of a recording with that many rows; it stays where it is.
    pub fn open(bytes: Box<dyn Source>, rows: usize) -> Option<Stream> {
        let index = index_of(&*bytes, rows)?;
        Some(Stream {
            bytes: Bytes::Stored(bytes),
            index,
        })
    }

    /// The packed bytes of a block, which begins there; `None` if they are not what they were.
    pub(super) fn block(&self, at: u64, block: &Block) -> Option<Cow<'_, [u8]>> {
        let length = block.packed as usize;
        let bytes = match &self.bytes {
            Bytes::InMemory(bytes) => {
                let at = usize::try_from(at).ok()?;
                Cow::from(bytes.get(at..at.checked_add(length)?)?)
            }
            Bytes::Stored(source) => {
                let mut bytes = vec![0; length];
                source.read_at(at, &mut bytes).ok()?;
                Cow::from(bytes)
            }
        };
        (xxh3_64(&bytes) == block.checksum).then_some(bytes)
    }

    /// Accesses that replays of the recorded layout do without.
    pub fn left_out(&self) -> Accesses {
        let left_out = self.index.left_out.iter();
        left_out.fold(Accesses::ZERO, |sum, count| sum.saturating_add(*count))
    }

    /// How many blocks it has.
    pub fn blocks(&self) -> usize {
        self.index.blocks.len()
    }

    pub(super) fn guess(&self, rows: Vec<Row>) -> Guess {
        let line = match self.index.wide {
            true => LineSize::B128,
            false => LineSize::B64,
        };
        Guess::new(usize::from(self.index.cpus), rows, line)
    }

    /// What [`Stream::open`] makes a stream of; `None` if it is not in memory.
    pub fn bytes(&self) -> Option<&[u8]> {
        match &self.bytes {
            Bytes::InMemory(bytes) => Some(bytes),
            Bytes::Stored(_) => None,
        }
    }
}

/// The index at the end of a stream of a recording with that many rows.
fn index_of(bytes: &dyn Source, rows: usize) -> Option<Index> {
    let read = |at: u64, length: usize| {
        let mut part = vec![0; length];
        bytes.read_at(at, &mut part).ok().map(|()| part)
    };
    let end = bytes.length().ok()?.checked_sub(LENGTH as u64)?;
    let length = u64::from_le_bytes(read(end, LENGTH)?.try_into().ok()?);
    let start = end.checked_sub(length)?;
    let index: Index = postcard::from_bytes(&read(start, usize::try_from(length).ok()?)?).ok()?;
    let packed: u64 = index.blocks.iter().map(|b| u64::from(b.packed)).sum();
    // Before anything is allocated by these numbers.
    let small = |b: &Block| b.steps.max(b.slices).max(b.rounds) <= BLOCK_MAX;
    let sound = packed == start && index.left_out.len() == rows && index.blocks.iter().all(small);
    sound.then_some(index)
}
