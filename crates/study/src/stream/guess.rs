//! Guesses what an access is from the accesses before it. Whoever packs and whoever unpacks guess the same.

use linemate_attribution::tally::Key;
use linemate_recording::{AccessKind, CpuId, GuestAddr};
use linemate_replay::Later;

/// A row of the tally, as a stream needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) pc: GuestAddr,
    pub(super) subject: u32,
    pub(super) offset: u32,
    pub(super) kind: AccessKind,
    pub(super) size: u8,
}

impl Row {
    pub(super) fn of(keys: &[Key]) -> Vec<Row> {
        let row = |key: &Key| Row {
            pc: key.pc,
            subject: key.subject.0,
            offset: key.offset,
            kind: key.kind,
            size: key.size,
        };
        keys.iter().map(row).collect()
    }
}

/// The step as a stream has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Packed {
    pub(super) row: u32,
    pub(super) addr: u64,
    /// Instructions since the step before it in its slice.
    pub(super) gap: u32,
    pub(super) later: Later,
    /// [`NEEDED`], [`SILENT`], [`USER_MAPPING`].
    pub(super) bits: u8,
}

/// A replay of the recorded layout needs it.
pub(super) const NEEDED: u8 = 1;
/// It left memory as it was.
pub(super) const SILENT: u8 = 2;
/// It went through a user mapping.
pub(super) const USER_MAPPING: u8 = 4;

/// What a row was like last.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    addr: u64,
    /// How far it was from the time before.
    stride: u64,
    later: Later,
    gap: u32,
    /// The row after it.
    next: u32,
    bits: u8,
}

/// Remembers.
#[derive(Debug)]
pub(super) struct Guess {
    rows: Vec<Row>,
    last: Vec<Last>,
    /// The row after two rows, by a hash of them.
    next: Vec<u32>,
    /// By CPU and subject: the first byte of its latest object, plus the subject's count.
    objects: Vec<u64>,
    subjects: usize,
    /// By CPU: its two latest rows.
    before: Vec<(u32, u32)>,
}

/// Places in the table of what comes after two rows.
const PAIRS: usize = 1 << 18;

/// What is guessed of a step whose row is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    /// Addresses: the CPU's latest object of that subject; where the row was last; as far again as the last time.
    pub(super) addrs: [u64; 3],
    pub(super) gap: u32,
    pub(super) later: Later,
    pub(super) bits: u8,
}

impl Guess {
    pub(super) fn new(cpus: usize, keys: &[Key]) -> Guess {
        let rows = Row::of(keys);
        let subjects = rows.iter().map(|row| row.subject as usize + 1).max();
        let subjects = subjects.unwrap_or(0);
        Guess {
            last: vec![Last::default(); rows.len()],
            next: vec![0; PAIRS],
            objects: vec![0; cpus * subjects],
            subjects,
            before: vec![(0, 0); cpus],
            rows,
        }
    }

    pub(super) fn row(&self, row: u32) -> Option<&Row> {
        self.rows.get(row as usize)
    }

    fn pair(&self, cpu: CpuId) -> usize {
        let (a, b) = self.before[usize::from(cpu.0)];
        let mixed = (u64::from(a) << 32 | u64::from(b)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 46) as usize & (PAIRS - 1)
    }

    /// The row that the CPU comes to next: after its last two, after its last.
    #[inline]
    pub(super) fn rows(&self, cpu: CpuId) -> [u32; 2] {
        let (_, last) = self.before[usize::from(cpu.0)];
        let after = self.last.get(last as usize).map_or(0, |last| last.next);
        [self.next[self.pair(cpu)], after]
    }

    /// What a step of that row is like. The row is one that there is.
    #[inline]
    pub(super) fn expect(&self, cpu: CpuId, row: u32) -> Expected {
        let (about, last) = (&self.rows[row as usize], &self.last[row as usize]);
        let object = self.objects[usize::from(cpu.0) * self.subjects + about.subject as usize];
        Expected {
            addrs: [
                object.wrapping_add(u64::from(about.offset)),
                last.addr,
                last.addr.wrapping_add(last.stride),
            ],
            gap: last.gap,
            later: last.later,
            bits: last.bits,
        }
    }

    /// Takes note of a step.
    #[inline]
    pub(super) fn learn(&mut self, cpu: CpuId, step: &Packed) {
        let pair = self.pair(cpu);
        self.next[pair] = step.row;
        let (_, before) = self.before[usize::from(cpu.0)];
        if let Some(last) = self.last.get_mut(before as usize) {
            last.next = step.row;
        }
        self.before[usize::from(cpu.0)] = (before, step.row);
        let about = self.rows[step.row as usize];
        let at = usize::from(cpu.0) * self.subjects + about.subject as usize;
        self.objects[at] = step.addr.wrapping_sub(u64::from(about.offset));
        let last = &mut self.last[step.row as usize];
        last.stride = step.addr.wrapping_sub(last.addr);
        last.addr = step.addr;
        last.later = step.later;
        last.gap = step.gap;
        last.bits = step.bits;
    }
}
