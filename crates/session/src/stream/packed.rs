//! A packed stream: its bytes, and the index at their end.

use linemate_machine::LineSize;
use linemate_recording::Accesses;
use serde::{Deserialize, Serialize};

use super::guess::{Guess, Row};

/// The most steps of a block: a block ends with a round, and a round has at most [`linemate_replay::ROUND_ACCESSES_MAX`] and one slice more.
const BLOCK_MAX: u32 = 1 << 24;

/// A packed stream, as stored on the shelf.
#[derive(Debug)]
pub struct Stream {
    /// Packed blocks, then the index.
    pub(super) bytes: Vec<u8>,
    pub(super) index: Index,
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
}

/// Bytes of the index's length, at the end.
const LENGTH: usize = 8;

impl Stream {
    /// What [`Stream::bytes`] returned, of a recording with that many rows.
    pub fn read(bytes: Vec<u8>, rows: usize) -> Option<Stream> {
        let (rest, length) = bytes.split_last_chunk::<LENGTH>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let start = rest.len().checked_sub(length)?;
        let index: Index = postcard::from_bytes(&rest[start..]).ok()?;
        let packed: u64 = index.blocks.iter().map(|b| u64::from(b.packed)).sum();
        // Before anything is allocated by these numbers.
        let small = |b: &Block| b.steps.max(b.slices).max(b.rounds) <= BLOCK_MAX;
        let sound = packed == start as u64
            && index.left_out.len() == rows
            && index.blocks.iter().all(small);
        sound.then_some(Stream { bytes, index })
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

    /// What [`Stream::read`] makes a stream of.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
