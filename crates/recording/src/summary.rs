//! Numbers of events: in a chunk, in a recording.

use crate::cursor::Cursor;
use crate::{LaneId, Problem, VirtualTime};

/// How many events there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Accesses that only read.
    pub loads: u64,
    /// Accesses that only write.
    pub stores: u64,
    pub rmws: u64,
    pub calls: u64,
    pub returns: u64,
    pub markers: u64,
}

impl Totals {
    /// Loads, stores and RMWs.
    pub fn accesses(&self) -> u64 {
        self.loads
            .saturating_add(self.stores)
            .saturating_add(self.rmws)
    }

    /// Adds another part of the recording.
    pub fn add(&mut self, other: &Self) {
        for (sum, (_, part)) in self.each_mut().into_iter().zip(other.named()) {
            *sum = sum.saturating_add(part);
        }
    }

    /// Each count with its name.
    pub fn named(&self) -> [(&'static str, u64); 6] {
        [
            ("loads", self.loads),
            ("stores", self.stores),
            ("RMWs", self.rmws),
            ("calls", self.calls),
            ("returns", self.returns),
            ("markers", self.markers),
        ]
    }

    fn each_mut(&mut self) -> [&mut u64; 6] {
        [
            &mut self.loads,
            &mut self.stores,
            &mut self.rmws,
            &mut self.calls,
            &mut self.returns,
            &mut self.markers,
        ]
    }

    /// Whether these counted events are as many as `stored` promises.
    pub(crate) fn compare(&self, stored: &Self) -> Result<(), Problem> {
        for ((what, found), (_, stored)) in self.named().into_iter().zip(stored.named()) {
            if found != stored {
                return Err(Problem::Count {
                    what,
                    stored,
                    found,
                });
            }
        }
        Ok(())
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        for (_, count) in self.named() {
            out.extend_from_slice(&count.to_le_bytes());
        }
    }

    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Self, Problem> {
        let mut totals = Self::default();
        for count in totals.each_mut() {
            *count = cursor.u64()?;
        }
        Ok(totals)
    }
}

/// The contents of a chunk of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkSummary {
    /// The lane of these events.
    pub lane: LaneId,
    /// Time of the first event.
    pub first: VirtualTime,
    /// Time of the last event.
    pub last: VirtualTime,
    /// One more than the highest instruction number that occurs; 0 if none does.
    pub instructions: u32,
    /// Number of events of each kind.
    pub totals: Totals,
}

/// Bytes of a [`ChunkSummary`] at the start of an EVENTS payload.
pub(crate) const SUMMARY_BYTES: usize = 4 + 4 + 8 + 8 + 6 * 8;

impl ChunkSummary {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.lane.0.to_le_bytes());
        out.extend_from_slice(&self.instructions.to_le_bytes());
        out.extend_from_slice(&self.first.0.to_le_bytes());
        out.extend_from_slice(&self.last.0.to_le_bytes());
        self.totals.write(out);
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Problem> {
        let mut cursor = Cursor::new(bytes, "an events summary");
        Ok(Self {
            lane: LaneId(cursor.u32()?),
            instructions: cursor.u32()?,
            first: VirtualTime(cursor.u64()?),
            last: VirtualTime(cursor.u64()?),
            totals: Totals::read(&mut cursor)?,
        })
    }
}
