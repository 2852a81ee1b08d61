//! Who has which line: one entry per line that was ever touched, never removed.

use std::hash::Hasher;
use std::num::NonZeroU32;
use std::ops::Range;

use linemate_machine::{CoreId, DomainId, LogicalCpu, SocketId};

use crate::cache::address::Line;
use crate::numbers::NumberTable;
use crate::size;

/// The value for no core.
const NOBODY: u16 = u16::MAX;

/// Index of a line's entry.
pub(crate) type Slot = u32;

/// What is known about a line, apart from the set of cores that hold it.
#[derive(Clone, Debug)]
// Never removed, because the fate of copies and the written words outlive the copies: without them
// every miss would be a cold one. One line of the host each.
#[repr(align(64))]
pub(crate) struct Entry {
    pub(crate) line: Line,
    /// Until when the line is being handed over; later requesters wait for it.
    pub(crate) busy_until: u64,
    /// Words that the owner wrote since it became owner.
    pub(crate) written: u64,
    /// Words ever written by a core that has lost the line again.
    pub(crate) ever_written: u64,
    /// LLC domains that have the line, one bit each. While a core owns the line its domain's copy
    /// may be stale; it is used again only after the owner wrote back.
    pub(crate) llc: u64,
    /// Index + 1 of the line's sharing record; zero while one core alone has touched it.
    pub(crate) record: u32,
    /// Where the set of cores that hold the line is, plus 1; `None` while the first core alone has
    /// ever held it.
    sharers: Option<NonZeroU32>,
    owner: u16,
    forwarder: u16,
    /// The logical CPU that wrote last.
    pub(crate) last_writer: LogicalCpu,
    /// The core that touched it first.
    pub(crate) first_core: CoreId,
    /// The fate of the first core's copy, while there is no sharing record.
    pub(crate) first: History,
    /// The owner's copy is modified.
    pub(crate) dirty: bool,
    /// The line has moved from one core to another: its accesses are counted by place (see
    /// `lines`).
    pub(crate) watched: bool,
    /// While `sharers` is not there: whether the first core holds it.
    first_holds: bool,
    /// The home of its memory: the socket that touched it first.
    pub(crate) home: SocketId,
}

const _: () = assert!(size_of::<Entry>() == 64);

/// The fate of a core's copy of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum History {
    /// The core never had it.
    Never,
    /// The core's caches have a copy.
    Held,
    /// Its caches had no room for it.
    Evicted,
    /// Another core's write took it away.
    Invalidated,
}

impl Entry {
    /// The core whose copy is exclusive (E or M).
    #[inline]
    pub(crate) fn owner(&self) -> Option<CoreId> {
        (self.owner != NOBODY).then_some(CoreId(self.owner))
    }

    #[inline]
    pub(crate) fn set_owner(&mut self, core: Option<CoreId>) {
        self.owner = core.map_or(NOBODY, |core| core.0);
    }

    /// The core that answers for a shared clean line (F).
    pub(crate) fn forwarder(&self) -> Option<CoreId> {
        (self.forwarder != NOBODY).then_some(CoreId(self.forwarder))
    }

    pub(crate) fn set_forwarder(&mut self, core: Option<CoreId>) {
        self.forwarder = core.map_or(NOBODY, |core| core.0);
    }

    pub(crate) fn in_llc(&self, domain: DomainId) -> bool {
        // A description has at most 64 domains (`DOMAINS_MAX` in linemate_machine), so one word
        // holds them.
        self.llc & (1 << domain.0) != 0
    }
}

/// All entries, and the sets of cores that hold a line.
#[derive(Clone)]
pub(crate) struct Directory {
    slots: NumberTable,
    entries: Vec<Entry>,
    /// `words` words of 64 cores for each line that several cores have held: most lines are one
    /// core's for good.
    sharers: Vec<u64>,
    words: usize,
}

impl Directory {
    pub(crate) fn new(cores: usize) -> Directory {
        Directory {
            slots: NumberTable::default(),
            entries: Vec::new(),
            sharers: Vec::new(),
            words: cores.div_ceil(64),
        }
    }

    /// How many bytes of the host the entries take.
    pub(crate) fn size_in_memory(&self) -> usize {
        self.slots.size_in_memory() + size::of_list(&self.entries) + size::of_list(&self.sharers)
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The lines by slot.
    pub(crate) fn into_lines(self) -> Vec<Line> {
        self.entries.iter().map(|entry| entry.line).collect()
    }

    /// No line is being handed over.
    // Between a warm-up and the replay of groups, whose clock starts at 0 again: a time left over
    // from the warm-up would make the first requests wait for it.
    pub(crate) fn end_transfers(&mut self) {
        for entry in &mut self.entries {
            entry.busy_until = 0;
        }
    }

    pub(crate) fn get(&self, line: Line) -> Option<Slot> {
        let is = |slot: Slot| self.entries[slot as usize].line == line;
        self.slots.find(hash_of(line), is)
    }

    /// The line's entry; a new one belongs to the requesting core and socket.
    pub(crate) fn slot(&mut self, line: Line, core: CoreId, home: SocketId) -> Slot {
        if let Some(slot) = self.get(line) {
            return slot;
        }
        let slot = Slot::try_from(self.entries.len())
            .expect("four thousand million lines of 64 bytes each do not fit in memory");
        self.slots.add(hash_of(line), slot);
        self.entries.push(Entry {
            line,
            busy_until: 0,
            written: 0,
            ever_written: 0,
            llc: 0,
            record: 0,
            sharers: None,
            owner: NOBODY,
            forwarder: NOBODY,
            last_writer: LogicalCpu(0),
            first_core: core,
            first: History::Never,
            dirty: false,
            watched: false,
            first_holds: false,
            home,
        });
        slot
    }

    #[inline]
    pub(crate) fn entry(&self, slot: Slot) -> &Entry {
        &self.entries[slot as usize]
    }

    #[inline]
    pub(crate) fn entry_mut(&mut self, slot: Slot) -> &mut Entry {
        &mut self.entries[slot as usize]
    }

    /// Where the set of cores that hold the line is, if it has one.
    fn sharers(&self, slot: Slot) -> Option<Range<usize>> {
        let number = self.entry(slot).sharers?.get() as usize;
        Some((number - 1) * self.words..number * self.words)
    }

    /// The core's word of such a set, and its bit there.
    fn word(set: &Range<usize>, core: CoreId) -> (usize, u64) {
        (set.start + usize::from(core.0) / 64, 1 << (core.0 % 64))
    }

    /// A set for a line that only the first core has held.
    fn make_sharers(&mut self, slot: Slot) -> Range<usize> {
        let set = self.sharers.len()..self.sharers.len() + self.words;
        // Outside the entry, which fills a line of the host: machines of up to 64 cores need one
        // word, those of 1,024 sixteen.
        self.sharers.resize(set.end, 0);
        let entry = &mut self.entries[slot as usize];
        // At most one for each entry, whose number fits 32 bits.
        entry.sharers = NonZeroU32::new((set.end / self.words) as u32);
        if entry.first_holds {
            let (word, bit) = Directory::word(&set, entry.first_core);
            self.sharers[word] |= bit;
        }
        set
    }

    pub(crate) fn add_sharer(&mut self, slot: Slot, core: CoreId) {
        let set = match self.sharers(slot) {
            Some(set) => set,
            None if self.entry(slot).first_core == core => {
                self.entry_mut(slot).first_holds = true;
                return;
            }
            None => self.make_sharers(slot),
        };
        let (word, bit) = Directory::word(&set, core);
        self.sharers[word] |= bit;
    }

    pub(crate) fn remove_sharer(&mut self, slot: Slot, core: CoreId) {
        if let Some(set) = self.sharers(slot) {
            let (word, bit) = Directory::word(&set, core);
            self.sharers[word] &= !bit;
        } else if self.entry(slot).first_core == core {
            self.entry_mut(slot).first_holds = false;
        }
    }

    pub(crate) fn holds(&self, slot: Slot, core: CoreId) -> bool {
        let Some(set) = self.sharers(slot) else {
            let entry = self.entry(slot);
            return entry.first_holds && entry.first_core == core;
        };
        let (word, bit) = Directory::word(&set, core);
        self.sharers[word] & bit != 0
    }

    /// How many cores hold the line.
    pub(crate) fn holders(&self, slot: Slot) -> u32 {
        let Some(set) = self.sharers(slot) else {
            return u32::from(self.entry(slot).first_holds);
        };
        let words = self.sharers[set].iter();
        words.map(|word| word.count_ones()).sum()
    }

    /// The cores other than `core` that hold the line, ascending, into `out` (cleared first).
    pub(crate) fn others(&self, slot: Slot, core: CoreId, out: &mut Vec<CoreId>) {
        out.clear();
        let Some(set) = self.sharers(slot) else {
            let entry = self.entry(slot);
            out.extend(Some(entry.first_core).filter(|first| entry.first_holds && *first != core));
            return;
        };
        for (index, &word) in self.sharers[set].iter().enumerate() {
            let mut word = word;
            while word != 0 {
                let other = CoreId((index * 64) as u16 + word.trailing_zeros() as u16);
                word &= word - 1;
                if other != core {
                    out.push(other);
                }
            }
        }
    }
}

/// The line's hash.
#[inline]
fn hash_of(line: Line) -> u64 {
    let mut hasher = LineHasher::default();
    hasher.write_u64(line);
    hasher.finish()
}

/// A multiplication spreads line numbers well enough; the standard hasher's resistance to attack
/// costs more than the whole look-up.
#[derive(Default)]
pub(crate) struct LineHasher(u64);

impl Hasher for LineHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        // The rotation prevents the parts of a key of several numbers from cancelling out; 26 is a
        // choice. The high half is folded into the low one because the table takes the bucket from
        // the low bits, which in a product depend only on the value's low bits: lines of one offset
        // in many pages would collide.
        let mixed = (self.0.rotate_left(26) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(u64::from(value));
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn others(directory: &Directory, slot: Slot, core: u16) -> Vec<u16> {
        let mut found = Vec::new();
        directory.others(slot, CoreId(core), &mut found);
        found.into_iter().map(|core| core.0).collect()
    }

    #[test]
    fn lines_of_one_core_and_of_several_have_the_holders_that_were_added() {
        let mut directory = Directory::new(240);
        let slots =
            [5, 200].map(|core| directory.slot(Line::from(core), CoreId(core), SocketId(0)));
        for (slot, first) in slots.into_iter().zip([5, 200]) {
            assert_eq!(directory.holders(slot), 0);
            directory.add_sharer(slot, CoreId(first));
            assert!(directory.holds(slot, CoreId(first)) && !directory.holds(slot, CoreId(6)));
            assert_eq!(
                (others(&directory, slot, first), others(&directory, slot, 6)),
                (vec![], vec![first])
            );
        }
        assert!(directory.sharers.is_empty(), "one core needs no set");
        let [slot, other] = slots;
        directory.add_sharer(slot, CoreId(239));
        directory.add_sharer(slot, CoreId(64));
        assert_eq!(
            others(&directory, slot, 64),
            [5, 239],
            "the first is still there"
        );
        directory.remove_sharer(slot, CoreId(5));
        directory.remove_sharer(slot, CoreId(7));
        assert_eq!(
            (directory.holders(slot), others(&directory, slot, 0)),
            (2, vec![64, 239])
        );
        directory.remove_sharer(other, CoreId(200));
        directory.add_sharer(other, CoreId(1));
        assert_eq!(others(&directory, other, 0), [1], "the first is gone");
        assert_eq!(directory.get(200), Some(other));
        assert_eq!(directory.get(201), None);
    }
}
