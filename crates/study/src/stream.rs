//! The accesses that replays need, kept: the recording's rounds without what hits in L1 whatever the interleaving, but with every
//! access to an object that has a type, because an edit may move it.
//!
//! An access is a row of the tally (its instruction, subject, offset, kind and size), an address, a time and what was left out after it.
//! [`pack`] writes those as what a guess from the accesses before gets wrong; the rest is zstd's.

mod guess;
mod pack;
#[cfg(test)]
mod tests;
mod unpack;

use linemate_attribution::tally::Key;
use linemate_machine::LineSize;
use linemate_recording::Access;
use linemate_replay::Fate;
use serde::{Deserialize, Serialize};

use crate::experiment::{ExperimentError, recorded_cpus};
use crate::progress;
use crate::rounds::{Cutter, Rounds};
use crate::session::Session;
use crate::steps;

use guess::{Guess, Row};
use pack::Packer;
pub(crate) use unpack::{Reader, Tables, Wanted};

/// How many steps are packed together.
const BLOCK: usize = 1 << 16;
/// The most steps of a block: a block ends with a round, and a round has at most [`linemate_replay::ROUND_ACCESSES_MAX`] and one slice more.
const BLOCK_MAX: u32 = 1 << 24;

/// A packed stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Packed blocks, then the index.
    bytes: Vec<u8>,
    index: Index,
}

/// What the stream does not hold in its blocks.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Index {
    /// Recorded CPUs.
    cpus: u16,
    /// Whether it is for lines of 128 bytes.
    wide: bool,
    /// By row: accesses through the caches that replays as recorded do without.
    left_out: Vec<u64>,
    /// Accesses to devices.
    uncached: u64,
    blocks: Vec<Block>,
}

/// A block: where it is, and how much is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Block {
    /// Bytes, packed.
    packed: u32,
    steps: u32,
    slices: u32,
    rounds: u32,
}

/// Bytes of the index's length, at the end.
const LENGTH: usize = 8;

impl Stream {
    /// Reads the recording once.
    pub(crate) fn make(session: &Session<'_>, line: LineSize) -> Result<Stream, ExperimentError> {
        let cpus = recorded_cpus(session.analysis())?;
        let ownership = session.ownership()?;
        let names = session.analysis().names()?;
        let name = |access: &Access| ownership.step(names, access);
        let typed = ownership.typed();
        let mut cutter = Cutter::new(cpus, Some(line), &typed);
        let mut packer = Packer::new(cpus, session.rows(), line);
        let mut rounds = Rounds::default();
        let accesses = session.counted().tally.ledger().total();
        session.progress().begin(progress::Step::Choosing, accesses);
        steps::for_each(session.analysis().recording(), &name, |block| {
            session.progress().advance(block.len() as u64);
            cutter.take(block, &mut rounds)?;
            if rounds.size() >= BLOCK {
                packer.add(&rounds)?;
                rounds.clear();
            }
            Ok::<(), ExperimentError>(())
        })?;
        let uncached = cutter.finish(&mut rounds).uncached;
        packer.add(&rounds)?;
        let cached = |key: &Key| ownership.fate(key.subject) == Fate::Cached;
        let rows = session.counted().tally.rows();
        let counts = rows.iter().map(|(key, count)| match cached(key) {
            true => count.count,
            false => 0,
        });
        packer.finish(counts, uncached)
    }

    /// What [`Stream::bytes`] gave, of a recording with so many rows.
    pub(crate) fn read(bytes: Vec<u8>, rows: usize) -> Option<Stream> {
        let (rest, length) = bytes.split_last_chunk::<LENGTH>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let start = rest.len().checked_sub(length)?;
        let index: Index = postcard::from_bytes(&rest[start..]).ok()?;
        let packed: u64 = index.blocks.iter().map(|b| u64::from(b.packed)).sum();
        let small = |b: &Block| b.steps.max(b.slices).max(b.rounds) <= BLOCK_MAX;
        let sound = packed == start as u64
            && index.left_out.len() == rows
            && index.blocks.iter().all(small);
        sound.then_some(Stream { bytes, index })
    }

    /// Accesses that replays of the recorded layout do without.
    pub(crate) fn left_out(&self) -> u64 {
        let left_out = self.index.left_out.iter();
        left_out.fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// How many blocks it has.
    pub(crate) fn blocks(&self) -> usize {
        self.index.blocks.len()
    }

    fn guess(&self, rows: Vec<Row>) -> Guess {
        let line = match self.index.wide {
            true => LineSize::B128,
            false => LineSize::B64,
        };
        Guess::new(usize::from(self.index.cpus), rows, line)
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
