//! When the accesses of a replay stalled, and which lines left which sets of the caches then.
//!
//! That is enough to know when each access was due: a CPU's clock advances by its instructions, and
//! by what it stalls. Accesses that do not stall are not in it, so one timeline serves every
//! question.
//!
//! A round is its length, the number of its slices, and for each slice the size of its operations
//! in bytes, above a bit that says whether a CPU ran it; if so, its start, its end and the
//! operations in order. Each is an access that stalled: the cycles since the previous one, or since
//! the slice's start, above a bit for a tie and one for evictions; the tie
//! ([`Item::tie`](crate::Item::tie)) if it is not 0; the stall; and the evictions with their
//! number. Each of these is the cache and the use within the access, for a last-level cache the
//! domain; the set; for how many cycles the line had not been used; and the rest of its stamp.
//! Numbers are varints.

use std::sync::Arc;

use linemate_machine::DomainId;
use linemate_recording::cursor::{Cursor, put_varint};
use serde::{Deserialize, Serialize};

use crate::cache::pressure::Level;
use crate::cache::stamp::{Evicted, Stamp, TIE_MAX};
use crate::rounds::error::ReplayError;

/// A block ends with the first round that brings it to this size: small enough that appending
/// copies little.
const BLOCK: usize = 1 << 18;

/// What [`Cursor`] calls the bytes, in errors that become [`ReplayError::Timeline`].
const WHAT: &str = "timeline";

/// When the accesses of a replay stalled.
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

/// An access that stalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stalled {
    /// When it was due, in cycles from its round's start.
    pub(crate) at: u64,
    pub(crate) tie: u16,
    /// For how many cycles.
    pub(crate) stall: u64,
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
    /// When its first instruction is, from the round's start; none if no CPU runs it.
    start: Option<u64>,
    /// When the last operation was.
    at: u64,
    end: u64,
}

impl TimelineRecorder {
    pub(crate) fn begin_round(&mut self, slices: usize) {
        self.slices.resize_with(slices, SliceOps::default);
        for slice in &mut self.slices {
            slice.bytes.clear();
            (slice.start, slice.at, slice.end) = (None, 0, 0);
        }
    }

    /// A CPU runs the slice, whose first instruction is then; without effect if that is known.
    #[inline]
    pub(crate) fn begin_slice(&mut self, slice: usize, start: u64) {
        let slice = &mut self.slices[slice];
        if slice.start.is_none() {
            (slice.start, slice.at) = (Some(start), start);
        }
    }

    /// The slice's access stalled, and evicted these.
    pub(crate) fn stalled(&mut self, slice: usize, of: Stalled, evicted: &[(Level, Evicted)]) {
        let slice = &mut self.slices[slice];
        let later = of.at - std::mem::replace(&mut slice.at, of.at);
        let (ties, evicts) = (of.tie > 0, !evicted.is_empty());
        let bytes = &mut slice.bytes;
        put_varint(bytes, later << 2 | u64::from(ties) << 1 | u64::from(evicts));
        if ties {
            put_varint(bytes, of.tie.into());
        }
        put_varint(bytes, of.stall);
        if evicts {
            put_varint(bytes, evicted.len() as u64);
        }
        for (level, gone) in evicted {
            let within = gone.now.within() << 2;
            match level {
                Level::L1 => put_varint(bytes, within),
                Level::L2 => put_varint(bytes, within | 1),
                Level::Llc(domain) => {
                    put_varint(bytes, within | 2);
                    put_varint(bytes, u64::from(domain.0));
                }
            }
            put_varint(bytes, u64::from(gone.set));
            put_varint(bytes, gone.now.cycles() - gone.used.cycles());
            put_varint(bytes, gone.used.rest());
        }
    }

    /// The slice ends this many cycles from the round's start.
    pub(crate) fn end_slice(&mut self, slice: usize, at: u64) {
        self.slices[slice].end = at;
    }

    pub(crate) fn end_round(&mut self, length: u64) {
        put_varint(&mut self.block, length);
        put_varint(&mut self.block, self.slices.len() as u64);
        for slice in &self.slices {
            let runs = u64::from(slice.start.is_some());
            put_varint(&mut self.block, (slice.bytes.len() as u64) << 1 | runs);
            if let Some(start) = slice.start {
                put_varint(&mut self.block, start);
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
    /// The slices that CPUs ran, in order.
    pub(crate) slices: Vec<TimelineSlice<'t>>,
}

/// A slice that a CPU ran.
pub(crate) struct TimelineSlice<'t> {
    /// Its number in the round.
    pub(crate) number: usize,
    /// The cycle of the round in which it began.
    pub(crate) start: u64,
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
    let (length, counted) = (number()?, number()?);
    if counted != slices as u64 {
        return None;
    }
    let mut found = Vec::new();
    for number in 0..slices {
        let first = cursor.varint().ok()?;
        if first & 1 == 1 {
            let (start, end) = (cursor.varint().ok()?, cursor.varint().ok()?);
            let bytes = usize::try_from(first >> 1).ok()?;
            found.push(TimelineSlice {
                number,
                start,
                end,
                ops: Cursor::new(cursor.bytes(bytes).ok()?, WHAT),
                at: start,
            });
        }
    }
    Some(TimelineRound {
        length,
        slices: found,
    })
}

impl TimelineSlice<'_> {
    /// The next access that stalled, in the round that started at `start`, and its evictions into
    /// `evicted`, which is empty; `None` after the last.
    pub(crate) fn next(
        &mut self,
        start: u64,
        evicted: &mut Vec<(Level, Evicted)>,
    ) -> Result<Option<Stalled>, ReplayError> {
        if self.ops.left() == 0 {
            return Ok(None);
        }
        let read = self.read(start, evicted);
        read.ok_or(ReplayError::Timeline).map(Some)
    }

    fn read(&mut self, start: u64, evicted: &mut Vec<(Level, Evicted)>) -> Option<Stalled> {
        let ops = &mut self.ops;
        let first = ops.varint().ok()?;
        self.at = self.at.checked_add(first >> 2)?;
        let tie = match first >> 1 & 1 {
            0 => 0,
            _ => tie(ops.varint().ok()?)?,
        };
        let stall = ops.varint().ok().filter(|stall| *stall > 0)?;
        let evictions = match first & 1 {
            0 => 0,
            _ => ops.varint().ok()?,
        };
        let cycles = start.checked_add(self.at)?;
        for _ in 0..evictions {
            evicted.push(eviction(ops, Stamp::new(cycles, self.number, tie))?);
        }
        Some(Stalled {
            at: self.at,
            tie,
            stall,
        })
    }
}

fn tie(number: u64) -> Option<u16> {
    let tie = u16::try_from(number).ok()?;
    (tie <= TIE_MAX).then_some(tie)
}

/// What an access evicted, given its stamp.
fn eviction(ops: &mut Cursor<'_>, now: Stamp) -> Option<(Level, Evicted)> {
    let first = ops.varint().ok()?;
    let level = match first & 3 {
        0 => Level::L1,
        1 => Level::L2,
        _ => Level::Llc(DomainId(u16::try_from(ops.varint().ok()?).ok()?)),
    };
    let set = ops.varint_u32().ok()?;
    let cycles = now.cycles().checked_sub(ops.varint().ok()?)?;
    let used = Stamp::with_rest(cycles, ops.varint().ok()?);
    let now = now.with_within(first >> 2);
    Some((level, Evicted { set, used, now }))
}
