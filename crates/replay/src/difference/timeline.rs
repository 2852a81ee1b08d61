//! When a replay reached some of its accesses, and what the others did to the sets of the caches
//! meanwhile.
//!
//! A round is its length, the end of the slices that have nothing in it, and for each slice its
//! operations: their size in bytes, and unless that is 0 the time at which the slice ended, and the
//! operations in order. Each starts with the cycles since the previous one, above one bit that says
//! whether earlier accesses of the slice have the same time, and two that say which operation it
//! is: 0, a followed access, with its stall; 1 and 2, an eviction from L1 or L2; 3, from a
//! last-level cache, whose domain follows. An eviction is followed by the set, for how many cycles
//! the line had not been used, and the rest of its stamp. Numbers are varints.

use std::sync::Arc;

use linemate_machine::DomainId;
use linemate_recording::cursor::{Cursor, put_varint};
use serde::{Deserialize, Serialize};

use crate::cache::array::{Evicted, Stamp};
use crate::cache::pressure::Level;
use crate::rounds::error::ReplayError;

/// A block ends with the first round that brings it to this size: small enough that appending
/// copies little.
const BLOCK: usize = 1 << 18;

/// What [`Cursor`] calls the bytes, in errors that become [`ReplayError::Timeline`].
const WHAT: &str = "timeline";

/// When a replay reached the followed accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// The rounds, encoded; a block has only complete ones.
    blocks: Vec<Vec<u8>>,
}

impl Timeline {
    /// How many bytes it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(Vec::len).sum()
    }
}

/// An operation of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// A followed access stalled for this many cycles.
    Step { stall: u64 },
    /// Lines were evicted.
    Evict { level: Level, gone: Evicted },
}

/// Builds a timeline while the recorded layout is replayed.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimelineRecorder {
    timeline: Timeline,
    block: Vec<u8>,
    /// For the current round.
    slices: Vec<SliceOps>,
}

#[derive(Clone, Debug, Default)]
struct SliceOps {
    bytes: Vec<u8>,
    /// When the last one was, from the round's start.
    at: u64,
    /// When the previous access was, followed or not, and how many had that time before it.
    last: u64,
    same: u32,
    end: u64,
}

impl TimelineRecorder {
    pub(crate) fn begin_round(&mut self, slices: usize) {
        self.slices.resize_with(slices, SliceOps::default);
        for slice in &mut self.slices {
            slice.bytes.clear();
            (slice.at, slice.end) = (0, 0);
            (slice.last, slice.same) = (u64::MAX, 0);
        }
    }

    /// The stamp of the slice's next access, which is at that time, in the round that started at
    /// `start`.
    pub(crate) fn stamp(&mut self, slice: usize, at: u64, start: u64) -> Stamp {
        let slice = &mut self.slices[slice];
        slice.same = match slice.last == at {
            true => slice.same + 1,
            false => 0,
        };
        slice.last = at;
        Stamp::new(start + at, slice.same)
    }

    fn begin(&mut self, slice: usize, now: Stamp, start: u64, tag: u64) -> &mut Vec<u8> {
        let slice = &mut self.slices[slice];
        let at = now.cycles() - start;
        let later = at - std::mem::replace(&mut slice.at, at);
        let rest = now.rest();
        put_varint(
            &mut slice.bytes,
            later << 3 | u64::from(rest > 0) << 2 | tag,
        );
        if rest > 0 {
            put_varint(&mut slice.bytes, rest);
        }
        &mut slice.bytes
    }

    /// A followed access, in the round that started at `start`.
    pub(crate) fn step(&mut self, slice: usize, now: Stamp, start: u64, stall: u64) {
        put_varint(self.begin(slice, now, start, 0), stall);
    }

    /// Evictions by an access of the slice, in the round that started at `start`.
    pub(crate) fn evicted(&mut self, slice: usize, level: Level, gone: Evicted, start: u64) {
        let now = gone.now;
        let bytes = match level {
            Level::L1 => self.begin(slice, now, start, 1),
            Level::L2 => self.begin(slice, now, start, 2),
            Level::Llc(domain) => {
                let bytes = self.begin(slice, now, start, 3);
                put_varint(bytes, u64::from(domain.0));
                bytes
            }
        };
        put_varint(bytes, u64::from(gone.set));
        put_varint(bytes, now.cycles() - gone.used.cycles());
        put_varint(bytes, gone.used.rest());
    }

    /// The slice ends this many cycles from the round's start.
    pub(crate) fn end_slice(&mut self, slice: usize, at: u64) {
        self.slices[slice].end = at;
    }

    pub(crate) fn end_round(&mut self, length: u64) {
        let quiet = self.slices.iter().filter(|slice| slice.bytes.is_empty());
        let others = quiet.map(|slice| slice.end).max().unwrap_or(0);
        put_varint(&mut self.block, length);
        put_varint(&mut self.block, others);
        for slice in &self.slices {
            put_varint(&mut self.block, slice.bytes.len() as u64);
            if !slice.bytes.is_empty() {
                put_varint(&mut self.block, slice.end);
                self.block.extend_from_slice(&slice.bytes);
            }
        }
        if self.block.len() >= BLOCK {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        let block = std::mem::take(&mut self.block);
        self.timeline
            .blocks
            .push(block.into_boxed_slice().into_vec());
    }

    /// The timeline so far; what follows goes into a new one.
    pub(crate) fn take(&mut self) -> Timeline {
        if !self.block.is_empty() {
            self.end_block();
        }
        std::mem::take(&mut self.timeline)
    }
}

/// Yields a timeline's rounds, from the first one on.
#[derive(Clone, Debug)]
pub struct TimelineReader {
    timeline: Arc<Timeline>,
    block: usize,
    at: usize,
}

/// A round of a timeline.
pub(crate) struct TimelineRound<'t> {
    /// The round's length in cycles.
    pub(crate) length: u64,
    /// When the last of the slices without operations ended.
    pub(crate) others_end: u64,
    /// The slices with operations, in order.
    pub(crate) slices: Vec<TimelineSlice<'t>>,
}

/// A slice with operations.
pub(crate) struct TimelineSlice<'t> {
    /// Its number in the round.
    pub(crate) number: usize,
    /// The cycle of the round in which it ended.
    pub(crate) end: u64,
    ops: Cursor<'t>,
    /// When the previous operation was.
    at: u64,
}

impl TimelineReader {
    /// From the first round on.
    #[must_use]
    pub fn new(timeline: Arc<Timeline>) -> TimelineReader {
        TimelineReader {
            timeline,
            block: 0,
            at: 0,
        }
    }

    /// The next round, which has this many slices.
    pub(crate) fn round(&mut self, slices: usize) -> Result<TimelineRound<'_>, ReplayError> {
        let TimelineReader {
            timeline,
            block,
            at,
        } = self;
        if timeline
            .blocks
            .get(*block)
            .is_some_and(|block| *at == block.len())
        {
            (*block, *at) = (*block + 1, 0);
        }
        let bytes = timeline
            .blocks
            .get(*block)
            .and_then(|block| block.get(*at..));
        let bytes = bytes.ok_or(ReplayError::Timeline)?;
        let mut cursor = Cursor::new(bytes, WHAT);
        let round = round(&mut cursor, slices).ok_or(ReplayError::Timeline)?;
        *at += bytes.len() - cursor.left();
        Ok(round)
    }
}

fn round<'t>(cursor: &mut Cursor<'t>, slices: usize) -> Option<TimelineRound<'t>> {
    let mut number = || cursor.varint().ok();
    let (length, others_end) = (number()?, number()?);
    let mut found = Vec::new();
    for number in 0..slices {
        let bytes = usize::try_from(cursor.varint().ok()?).ok()?;
        if bytes > 0 {
            let end = cursor.varint().ok()?;
            let ops = Cursor::new(cursor.bytes(bytes).ok()?, WHAT);
            found.push(TimelineSlice {
                number,
                end,
                ops,
                at: 0,
            });
        }
    }
    Some(TimelineRound {
        length,
        others_end,
        slices: found,
    })
}

impl TimelineSlice<'_> {
    /// The next operation and when it was, in the round that started at `start`; `None` after the
    /// last.
    pub(crate) fn next(&mut self, start: u64) -> Result<Option<(Stamp, Op)>, ReplayError> {
        if self.ops.left() == 0 {
            return Ok(None);
        }
        self.read(start).ok_or(ReplayError::Timeline).map(Some)
    }

    fn read(&mut self, start: u64) -> Option<(Stamp, Op)> {
        let ops = &mut self.ops;
        let first = ops.varint().ok()?;
        self.at = self.at.checked_add(first >> 3)?;
        let rest = match first >> 2 & 1 {
            0 => 0,
            _ => ops.varint().ok()?,
        };
        let cycles = start.checked_add(self.at)?;
        let now = Stamp::with_rest(cycles, rest);
        let level = match first & 3 {
            0 => {
                let stall = ops.varint().ok()?;
                return Some((now, Op::Step { stall }));
            }
            1 => Level::L1,
            2 => Level::L2,
            _ => Level::Llc(DomainId(u16::try_from(ops.varint().ok()?).ok()?)),
        };
        let set = ops.varint_u32().ok()?;
        let cycles = cycles.checked_sub(ops.varint().ok()?)?;
        let used = Stamp::with_rest(cycles, ops.varint().ok()?);
        let gone = Evicted { set, used, now };
        Some((now, Op::Evict { level, gone }))
    }
}
