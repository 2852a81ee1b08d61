//! Guesses an access from the accesses before it. Packing and unpacking guess the same.

use linemate_attribution::tally::Key;
use linemate_machine::LineSize;
use linemate_recording::{AccessKind, CpuId, GuestAddr};
use linemate_replay::{KeyId, Later, SiteId, TIE_MAX};
use linemate_types::ByteOffset;

/// A row of the tally, as a stream needs it, and where it went last: what a step needs of it comes
/// in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Row {
    pub(super) pc: GuestAddr,
    pub(super) subject: u32,
    pub(super) offset: u32,
    pub(super) kind: AccessKind,
    pub(super) size: u8,
    /// What a question counts it for.
    pub(super) key: KeyId,
    pub(super) site: SiteId,
    addr: GuestAddr,
    /// How far it was from the time before.
    stride: ByteOffset,
    /// What went with it.
    pub(super) later: Later,
}

impl Row {
    pub(super) fn new(key: &Key, counts_for: KeyId, site: SiteId) -> Row {
        Row {
            pc: key.pc,
            subject: key.subject.0,
            offset: key.offset,
            kind: key.kind,
            size: key.size,
            key: counts_for,
            site,
            addr: GuestAddr::default(),
            stride: ByteOffset::ZERO,
            later: Later::default(),
        }
    }

    /// Rows that nothing is counted for.
    pub(super) fn of(keys: &[Key]) -> Vec<Row> {
        let row = |key| Row::new(key, KeyId(0), SiteId(0));
        keys.iter().map(row).collect()
    }
}

/// The step as a stream has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Packed {
    pub(super) row: u32,
    pub(super) addr: GuestAddr,
    /// Instructions since the step before it in its slice.
    pub(super) gap: u32,
    pub(super) later: Later,
    /// Any of [`NEEDED`], [`SILENT`] and [`TIED`].
    pub(super) bits: u8,
    /// With [`TIED`]; else 0.
    pub(super) tie: u16,
}

/// A replay of the recorded layout needs it.
pub(super) const NEEDED: u8 = 1;
/// It left memory as it was.
pub(super) const SILENT: u8 = 2;
/// Its tie is another than [`next_tie`].
pub(super) const TIED: u8 = 4;
/// All of them, in the lowest three bits.
const BITS: u8 = NEEDED | SILENT | TIED;

/// The tie that a step has if all of its slice's accesses are in the stream; `before`: that of the
/// step before it in the slice.
#[inline]
pub(super) fn next_tie(before: Option<u16>, gap: u32) -> u16 {
    match before {
        Some(before) if gap == 0 => before.saturating_add(1).min(TIE_MAX),
        _ => 0,
    }
}

/// What a step of a row was like after a step of another, to the line that its CPU used last in the
/// set, or to another.
///
/// In four bytes, the lowest three bits for the step's: what each step looks up must fit into a
/// core's caches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Habit(u32);

impl Habit {
    pub(super) fn new(gap: u32, bits: u8) -> Habit {
        Habit(gap << BITS.count_ones() | u32::from(bits & BITS))
    }

    /// Without the highest bits of very long ones.
    pub(super) fn gap(self) -> u32 {
        self.0 >> BITS.count_ones()
    }

    pub(super) fn bits(self) -> u8 {
        self.0 as u8 & BITS
    }
}

/// How many of a CPU's latest objects of a subject are remembered.
pub(super) const OBJECTS: usize = 4;

/// Remembers. Rows, places, habits and what was left out are guessed from different tables, each
/// from what is known before it: a row from rows, a place from rows and places, a habit from all of
/// these. So the rows of several steps can be decoded before the first one's place.
#[derive(Debug)]
pub(super) struct Guess {
    rows: Vec<Row>,
    /// By row: the one after it.
    after: Vec<u32>,
    /// The row after some rows, by a hash of them.
    next: Vec<u32>,
    /// By a hash of the row before and the row, and of whether the line is the one used last.
    habits: Vec<Habit>,
    /// By CPU and set: the line that was used last.
    lines: Vec<u64>,
    line_bits: u32,
    /// By a hash of CPU and subject: the first bytes of its latest objects, the latest first.
    objects: Vec<[GuestAddr; OBJECTS]>,
    /// By CPU: its rows but the latest, mixed so that older ones fade out; and the latest.
    before: Vec<(u32, u32)>,
}

/// Places in the tables, as a power of two. Recordings have some 100,000 rows, and few of their
/// pairs are common.
// Not larger: with tables of some MB, each step waits for the host's memory.
const NEXT_BITS: u32 = 17;
const HABIT_BITS: u32 = 17;
const OBJECT_BITS: u32 = 15;
/// Sets, as a power of two: those of a filter for lines of 64 bytes.
const SET_BITS: u32 = 6;

/// Where a step of a row may go: in the CPU's latest objects of the row's subject; where the row
/// was last; as far again as the last time.
pub(super) type Guesses = [GuestAddr; OBJECTS + 2];

/// The place that differences are taken to.
pub(super) const ORIGIN: usize = OBJECTS;

impl Guess {
    pub(super) fn new(cpus: usize, rows: Vec<Row>, line: LineSize) -> Guess {
        Guess {
            after: vec![0; rows.len()],
            next: vec![0; 1 << NEXT_BITS],
            habits: vec![Habit::default(); 1 << HABIT_BITS],
            lines: vec![0; cpus << SET_BITS],
            line_bits: line.bytes().trailing_zeros(),
            objects: vec![[GuestAddr::default(); OBJECTS]; 1 << OBJECT_BITS],
            before: vec![(0, 0); cpus],
            rows,
        }
    }

    pub(super) fn row(&self, row: u32) -> Option<&Row> {
        self.rows.get(row as usize)
    }

    /// The row that the CPU comes to next, after its last few.
    #[inline]
    pub(super) fn after_some(&self, cpu: CpuId) -> u32 {
        let (a, b) = self.before[usize::from(cpu.0)];
        self.next[place(a, b, NEXT_BITS)]
    }

    /// The row that the CPU comes to next, after its last.
    #[inline]
    pub(super) fn after_one(&self, cpu: CpuId) -> u32 {
        let (_, b) = self.before[usize::from(cpu.0)];
        self.after.get(b as usize).copied().unwrap_or(0)
    }

    /// Takes note of the row that the CPU came to. Gives the one before.
    #[inline]
    pub(super) fn learn_row(&mut self, cpu: CpuId, row: u32) -> u32 {
        let (a, before) = self.before[usize::from(cpu.0)];
        self.next[place(a, before, NEXT_BITS)] = row;
        if let Some(after) = self.after.get_mut(before as usize) {
            *after = row;
        }
        // Three shifts, and a row is out of it.
        let mixed = (a << 11).wrapping_mul(0x9e37_79b1) ^ before;
        self.before[usize::from(cpu.0)] = (mixed, row);
        before
    }

    /// Where a step of that row may go. The row is one that there is.
    #[inline]
    pub(super) fn places(&self, cpu: CpuId, row: u32) -> Guesses {
        let about = &self.rows[row as usize];
        let objects = &self.objects[place(u32::from(cpu.0), about.subject, OBJECT_BITS)];
        let mut places = Guesses::default();
        for (place, object) in places.iter_mut().zip(objects) {
            // A function that goes through an object's fields is guessed by the object: the row has
            // the offset, so only the base must be remembered.
            *place = object.wrapping_add(about.offset);
        }
        places[ORIGIN] = about.addr;
        places[ORIGIN + 1] = about.addr.wrapping_add(about.stride);
        places
    }

    /// Takes note of where a step of that row went.
    #[inline]
    pub(super) fn learn_place(&mut self, cpu: CpuId, row: u32, addr: GuestAddr) {
        let about = &mut self.rows[row as usize];
        about.stride = ByteOffset(addr.0.wrapping_sub(about.addr.0));
        about.addr = addr;
        let object = addr.wrapping_sub(about.offset);
        let at = place(u32::from(cpu.0), about.subject, OBJECT_BITS);
        let objects = &mut self.objects[at];
        let known = objects.iter().position(|known| *known == object);
        let older = known.unwrap_or(OBJECTS - 1);
        // Move to front; a new object displaces the one used longest ago.
        objects.copy_within(..older, 1);
        objects[0] = object;
    }

    /// What a step of that row to that address is like, when `before` is the row before it: to be
    /// replaced by what it was. Takes note of the line.
    #[inline]
    pub(super) fn habit(
        &mut self,
        cpu: CpuId,
        before: u32,
        row: u32,
        addr: GuestAddr,
    ) -> &mut Habit {
        let line = addr.0 >> self.line_bits;
        let set = line as usize & ((1 << SET_BITS) - 1);
        let last = &mut self.lines[usize::from(cpu.0) << SET_BITS | set];
        // What is left out never changes which line was used last, and is always to that line.
        let same = u32::from(std::mem::replace(last, line) == line);
        &mut self.habits[place(before, row << 1 | same, HABIT_BITS)]
    }

    /// What was left out after the row's step before, to be replaced by what was after this one.
    /// The row is one that there is.
    #[inline]
    pub(super) fn later(&mut self, row: u32) -> &mut Later {
        &mut self.rows[row as usize].later
    }
}

/// Two rows' place in a table of that many bits (multiplicative hashing with the golden ratio,
/// Knuth).
#[inline]
fn place(a: u32, b: u32, bits: u32) -> usize {
    let both = u64::from(a) << 32 | u64::from(b);
    (both.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
}
