//! True and false sharing, after Dubois, Skeppstedt, Ricciulli, Ramamurthy and Stenström, "The
//! detection and elimination of useless misses in multiprocessors" (ISCA 1993).
//!
//! A *lifetime* of a line in a core starts with a miss and ends when the copy is invalidated or
//! evicted. A coherence miss is **true sharing** if during its lifetime the core touches at least
//! one word that another core wrote since the core's last essential miss on that line, else **false
//! sharing**: the miss brought nothing that the core used. The class is known at the first such
//! touch, or at the end of the lifetime.
//!
//! Per line and core this takes one bit per word, *pending*: another core wrote the word and the
//! core has not received it. A write sets the bit for every other core that ever had the line; an
//! essential touch clears all bits of the core, because the miss delivered the whole line. The
//! owner's writes are collected in the directory and become pending when it loses the line: before
//! that nobody can look.

use std::num::NonZeroU32;

use linemate_machine::CoreId;

use crate::accounts::misses::MissNumber;
use crate::cache::directory::{Entry, History};
use crate::size;

/// A coherence miss whose class is not known yet, with what its caller needs to account for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissTag {
    /// What to charge the miss to.
    pub key: u32,
    /// The second thing to charge it to.
    pub site: u32,
    /// Cycles of the miss, which go to its cause.
    pub cycles: u64,
    /// Its number, where misses are listed one by one.
    pub miss: Option<MissNumber>,
}

/// The state of one core and one line: 16 bytes, because machines of hundreds of cores have
/// millions of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoreRecord {
    pub(crate) pending: u64,
    /// The miss that is open: its place in [`OpenMisses`], plus 1.
    open: Option<NonZeroU32>,
    pub(crate) core: CoreId,
    pub(crate) history: History,
}

const _: () = assert!(size_of::<CoreRecord>() == 16);

impl CoreRecord {
    fn new(core: CoreId, history: History) -> CoreRecord {
        CoreRecord {
            pending: 0,
            open: None,
            core,
            history,
        }
    }
}

/// Misses whose class is not known yet, apart from their records: few records have one at a time.
#[derive(Clone, Default)]
struct OpenMisses {
    tags: Vec<MissTag>,
    free: Vec<NonZeroU32>,
}

impl OpenMisses {
    fn add(&mut self, tag: MissTag) -> NonZeroU32 {
        if let Some(place) = self.free.pop() {
            self.tags[place.get() as usize - 1] = tag;
            return place;
        }
        self.tags.push(tag);
        NonZeroU32::new(self.tags.len() as u32)
            .expect("as many open misses as 32 bits number do not fit in memory")
    }

    fn take(&mut self, place: NonZeroU32) -> MissTag {
        self.free.push(place);
        self.tags[place.get() as usize - 1]
    }
}

/// From this many cores on, a line's records are found by a table: replays of hundreds of CPUs
/// would spend their time searching hundreds of records for each of hundreds of sharers.
const TABLE_FROM: usize = 16;

/// No record, in a table.
const NONE: u16 = u16::MAX;

/// The cores that touched a line.
#[derive(Clone, Default)]
struct LineRecords {
    /// In order of arrival.
    records: Vec<CoreRecord>,
    /// By core: the number of its record; empty while there are few.
    table: Vec<u16>,
}

impl LineRecords {
    #[inline]
    fn find(&mut self, core: CoreId) -> Option<&mut CoreRecord> {
        if self.table.is_empty() {
            return self.records.iter_mut().find(|record| record.core == core);
        }
        let at = self
            .table
            .get(usize::from(core.0))
            .filter(|at| **at != NONE);
        at.map(|at| &mut self.records[usize::from(*at)])
    }

    fn push(&mut self, record: CoreRecord) {
        self.records.push(record);
        if self.records.len() < TABLE_FROM {
            return;
        }
        let new = match self.table.is_empty() {
            true => 0,
            false => self.records.len() - 1,
        };
        for (number, record) in self.records.iter().enumerate().skip(new) {
            let core = usize::from(record.core.0);
            if core >= self.table.len() {
                self.table.resize(core + 1, NONE);
            }
            // Cores have numbers of 16 bits, and one record each.
            self.table[core] = number as u16;
        }
    }
}

/// The records of all lines that more than one core touched.
#[derive(Clone, Default)]
pub(crate) struct Sharing {
    lines: Vec<LineRecords>,
    open: OpenMisses,
}

impl Sharing {
    /// The size of the records in bytes of the host.
    pub(crate) fn size_in_memory(&self) -> usize {
        let line = |line: &LineRecords| size::of_list(&line.records) + size::of_list(&line.table);
        let open = size::of_list(&self.open.tags) + size::of_list(&self.open.free);
        size::of_list(&self.lines) + self.lines.iter().map(line).sum::<usize>() + open
    }

    /// The core's record, if the line has one for it.
    pub(crate) fn find(&mut self, entry: &Entry, core: CoreId) -> Option<&mut CoreRecord> {
        let index = entry.record.checked_sub(1)?;
        self.lines[index as usize].find(core)
    }

    /// The fate of the core's copy.
    pub(crate) fn history(&mut self, entry: &Entry, core: CoreId) -> History {
        match self.find(entry, core) {
            Some(record) => record.history,
            None if entry.record == 0 && entry.first_core == core => entry.first,
            None => History::Never,
        }
    }

    /// Sets the fate of the core's copy, adding a record if needed.
    pub(crate) fn set_history(&mut self, entry: &mut Entry, core: CoreId, history: History) {
        if let Some(record) = self.find(entry, core) {
            record.history = history;
            return;
        }
        let new = CoreRecord::new(core, history);
        if entry.record != 0 {
            self.lines[entry.record as usize - 1].push(new);
        } else if entry.first_core == core {
            entry.first = history;
        } else {
            let mut line = LineRecords {
                // Most lines have two for good.
                records: Vec::with_capacity(2),
                ..LineRecords::default()
            };
            line.push(CoreRecord::new(entry.first_core, entry.first));
            line.push(new);
            // Only one core touches most lines. Their history is in the directory's entry, so that
            // they need no list of their own.
            self.lines.push(line);
            // At most one record per directory entry, whose number fits 32 bits.
            entry.record = self.lines.len() as u32;
        }
    }

    /// The owner loses the line: what it wrote becomes pending for everybody else.
    pub(crate) fn publish(&mut self, entry: &mut Entry) {
        let written = std::mem::take(&mut entry.written);
        entry.ever_written |= written;
        let (Some(index), Some(owner)) = (entry.record.checked_sub(1), entry.owner()) else {
            return;
        };
        if written == 0 {
            return;
        }
        // Without a record no other core has had the line, so nobody can have missed a word. What
        // it would have missed is in `ever_written`, for machines that have run for long.
        for record in &mut self.lines[index as usize].records {
            if record.core != owner {
                record.pending |= written;
            }
        }
    }

    /// Treats the core as one that had the line before: everything ever written is pending.
    pub(crate) fn owe_all(&mut self, entry: &mut Entry, core: CoreId) {
        self.set_history(entry, core, History::Invalidated);
        // It is unknown which of the words were written since the core had the line; all of them
        // errs towards true sharing.
        let pending = entry.ever_written;
        if let Some(record) = self.find(entry, core) {
            record.pending = pending;
        }
    }

    /// The core's miss of the line is open: its class is not known yet.
    pub(crate) fn open(&mut self, entry: &Entry, core: CoreId, tag: MissTag) {
        // A coherence miss always finds a record: it follows an invalidation, which made one for
        // each core that had the line.
        if self.find(entry, core).is_none() {
            return;
        }
        let place = self.open.add(tag);
        let record = self.find(entry, core);
        let before = record.and_then(|record| record.open.replace(place));
        if let Some(before) = before {
            self.open.take(before);
        }
    }

    /// The core's open miss of the line, which is no longer open.
    pub(crate) fn take_open(&mut self, entry: &Entry, core: CoreId) -> Option<MissTag> {
        let place = self.find(entry, core)?.open.take()?;
        Some(self.open.take(place))
    }

    /// All open misses, in the order of lines and of the cores that came to each; this closes them.
    pub(crate) fn drain_open(&mut self) -> Vec<MissTag> {
        let records = self.lines.iter_mut().flat_map(|line| &mut line.records);
        let places = records.filter_map(|record| record.open.take());
        let tags = std::mem::take(&mut self.open).tags;
        places.map(|place| tags[place.get() as usize - 1]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_found_however_many_there_are() {
        let mut line = LineRecords::default();
        let cores: Vec<u16> = (0..300).map(|at| at * 7 % 307).collect();
        for (count, core) in cores.iter().enumerate() {
            assert!(line.find(CoreId(*core)).is_none(), "{count}");
            line.push(CoreRecord {
                pending: u64::from(*core),
                ..CoreRecord::new(CoreId(*core), History::Held)
            });
            for known in &cores[..=count] {
                let found = line.find(CoreId(*known)).map(|record| record.pending);
                assert_eq!(found, Some(u64::from(*known)), "{count}");
            }
        }
        assert!(line.find(CoreId(307)).is_none());
    }
}
