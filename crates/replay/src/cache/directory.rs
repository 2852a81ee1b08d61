//! Who has which line: one entry per line that was ever touched, never removed.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use linemate_machine::{CoreId, DomainId, LogicalCpu, SocketId};

use crate::cache::address::Line;
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
    /// The home of its memory: the socket that touched it first.
    pub(crate) home: SocketId,
}

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

/// All entries, and per entry the set of cores that hold the line.
#[derive(Clone)]
pub(crate) struct Directory {
    slots: HashMap<Line, Slot, BuildHasherDefault<LineHasher>>,
    entries: Vec<Entry>,
    /// `words` words of 64 cores for each entry.
    sharers: Vec<u64>,
    words: usize,
}

impl Directory {
    pub(crate) fn new(cores: usize) -> Directory {
        Directory {
            slots: HashMap::default(),
            entries: Vec::new(),
            sharers: Vec::new(),
            words: cores.div_ceil(64),
        }
    }

    /// How many bytes of the host the entries take.
    pub(crate) fn size_in_memory(&self) -> usize {
        size::of_table(&self.slots) + size::of_list(&self.entries) + size::of_list(&self.sharers)
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
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
        self.slots.get(&line).copied()
    }

    /// The line's entry; a new one belongs to the requesting core and socket.
    pub(crate) fn slot(&mut self, line: Line, core: CoreId, home: SocketId) -> Slot {
        if let Some(&slot) = self.slots.get(&line) {
            return slot;
        }
        let slot = Slot::try_from(self.entries.len())
            .expect("four thousand million lines of 64 bytes each do not fit in memory");
        self.slots.insert(line, slot);
        self.entries.push(Entry {
            line,
            busy_until: 0,
            written: 0,
            ever_written: 0,
            llc: 0,
            record: 0,
            owner: NOBODY,
            forwarder: NOBODY,
            last_writer: LogicalCpu(0),
            first_core: core,
            first: History::Never,
            dirty: false,
            watched: false,
            home,
        });
        // Outside the entry, which fills a line of the host: machines of up to 64 cores need one
        // word, those of 1,024 sixteen.
        self.sharers.resize(self.sharers.len() + self.words, 0);
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

    fn word(&self, slot: Slot, core: CoreId) -> (usize, u64) {
        (
            slot as usize * self.words + usize::from(core.0) / 64,
            1 << (core.0 % 64),
        )
    }

    pub(crate) fn add_sharer(&mut self, slot: Slot, core: CoreId) {
        let (word, bit) = self.word(slot, core);
        self.sharers[word] |= bit;
    }

    pub(crate) fn remove_sharer(&mut self, slot: Slot, core: CoreId) {
        let (word, bit) = self.word(slot, core);
        self.sharers[word] &= !bit;
    }

    pub(crate) fn holds(&self, slot: Slot, core: CoreId) -> bool {
        let (word, bit) = self.word(slot, core);
        self.sharers[word] & bit != 0
    }

    /// How many cores hold the line.
    pub(crate) fn holders(&self, slot: Slot) -> u32 {
        let base = slot as usize * self.words;
        self.sharers[base..base + self.words]
            .iter()
            .map(|word| word.count_ones())
            .sum()
    }

    /// The cores other than `core` that hold the line, ascending, into `out` (cleared first).
    pub(crate) fn others(&self, slot: Slot, core: CoreId, out: &mut Vec<CoreId>) {
        out.clear();
        let base = slot as usize * self.words;
        for (index, &word) in self.sharers[base..base + self.words].iter().enumerate() {
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
