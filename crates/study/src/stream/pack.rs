//! Writes a stream.

use linemate_attribution::tally::Key;
use linemate_replay::{Later, SliceHead};

use super::guess::{Guess, NEEDED, Packed, SILENT, USER_MAPPING};
use super::{Block, Index, Stream};
use crate::rounds::{LeftOut, Rounds};
use crate::scene::Step;

/// zstd's level: the columns are mostly zeros, and higher levels gain little.
const LEVEL: i32 = 3;

/// The columns of a block.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// 0 and 1: as guessed after two rows and after one; else the row, plus 2.
    pub(super) rows: Vec<u8>,
    /// 0, 1, 2: the guesses of [`super::guess::Expected`]; 3: it is in `words`; else the difference to the second, plus 4.
    pub(super) addrs: Vec<u8>,
    /// The difference to the guess.
    pub(super) gaps: Vec<u8>,
    /// 0: as guessed, 1: nothing; 2: the words are in `words`.
    pub(super) later: Vec<u8>,
    /// Words touched and written; addresses.
    pub(super) words: Vec<u8>,
    /// The difference to the guess.
    pub(super) bits: Vec<u8>,
    /// Slices: CPU, steps, span, last; and whether the round ends.
    pub(super) slices: Vec<u8>,
}

impl Columns {
    pub(super) fn all_mut(&mut self) -> [&mut Vec<u8>; 7] {
        let Columns {
            rows,
            addrs,
            gaps,
            later,
            words,
            bits,
            slices,
        } = self;
        [rows, addrs, gaps, later, words, bits, slices]
    }
}

/// Packs rounds.
pub(super) struct Packer {
    guess: Guess,
    columns: Columns,
    bytes: Vec<u8>,
    index: Index,
}

impl Packer {
    pub(super) fn new(cpus: usize, keys: &[Key]) -> Packer {
        Packer {
            guess: Guess::new(cpus, keys),
            columns: Columns::default(),
            bytes: Vec::new(),
            index: Index {
                cpus: cpus as u16,
                left_out: vec![0; keys.len()],
                ..Index::default()
            },
        }
    }

    /// Adds a block. The steps' keys are rows.
    pub(super) fn add(&mut self, rounds: &Rounds) {
        for round in rounds.iter() {
            let mut round = round.peekable();
            while let Some((head, steps)) = round.next() {
                self.slice(head, steps, round.peek().is_none());
            }
        }
        let before = self.bytes.len();
        for column in self.columns.all_mut() {
            // To memory: there is nothing that can fail.
            let packed = zstd::bulk::compress(column, LEVEL).unwrap_or_default();
            varint(&mut self.bytes, column.len() as u64);
            varint(&mut self.bytes, packed.len() as u64);
            self.bytes.extend_from_slice(&packed);
            column.clear();
        }
        self.index.blocks.push(Block {
            packed: (self.bytes.len() - before) as u32,
            steps: rounds.steps.len() as u32,
            slices: rounds.slices.len() as u32,
            rounds: rounds.rounds.len() as u32,
        });
    }

    fn slice(&mut self, head: SliceHead, steps: &[Step], ends: bool) {
        let slices = &mut self.columns.slices;
        varint(slices, u64::from(head.cpu.0) << 1 | u64::from(ends));
        varint(slices, steps.len() as u64);
        varint(slices, u64::from(head.span));
        // A slice's last cached access is mostly its last.
        let behind = head.last.map_or(0, |last| u64::from(head.span - last) + 1);
        varint(slices, behind);
        let mut before = 0;
        for step in steps {
            let gap = step.at - std::mem::replace(&mut before, step.at);
            self.step(step, gap);
        }
    }

    fn step(&mut self, step: &Step, gap: u32) {
        let packed = Packed {
            row: step.key.0,
            addr: step.access.addr.0,
            gap,
            later: step.later,
            bits: bits(step),
        };
        if !step.needed {
            self.index.left_out[packed.row as usize] += 1;
        }
        let (cpu, columns) = (step.access.cpu, &mut self.columns);
        let row = match self.guess.rows(cpu) {
            [first, _] if first == packed.row => 0,
            [_, second] if second == packed.row => 1,
            _ => u64::from(packed.row) + 2,
        };
        varint(&mut columns.rows, row);
        let expected = self.guess.expect(cpu, packed.row);
        let known = expected.addrs.iter().position(|addr| *addr == packed.addr);
        let away = packed.addr.wrapping_sub(expected.addrs[1]);
        match (known, zigzag(away).checked_add(4)) {
            (Some(known), _) => columns.addrs.push(known as u8),
            (None, Some(away)) => varint(&mut columns.addrs, away),
            (None, None) => {
                columns.addrs.push(3);
                columns.words.extend_from_slice(&packed.addr.to_le_bytes());
            }
        }
        let late = packed.gap.wrapping_sub(expected.gap) as i32;
        varint(&mut columns.gaps, zigzag(late as u64));
        columns.later.push(match packed.later {
            later if later == expected.later => 0,
            later if later == Later::default() => 1,
            Later { touched, written } => {
                columns.words.extend_from_slice(&touched.to_le_bytes());
                columns.words.extend_from_slice(&written.to_le_bytes());
                2
            }
        });
        columns.bits.push(packed.bits ^ expected.bits);
        self.guess.learn(cpu, &packed);
    }

    /// The stream; `left_out` is by row.
    pub(super) fn finish(mut self, left_out: &LeftOut) -> Stream {
        for (row, kinds) in left_out.by_key() {
            self.index.left_out[row.0 as usize] += kinds.iter().sum::<u64>();
        }
        self.index.uncached = left_out.uncached;
        let index = postcard::to_stdvec(&self.index).unwrap_or_default();
        let mut bytes = self.bytes;
        bytes.extend_from_slice(&index);
        bytes.extend_from_slice(&(index.len() as u64).to_le_bytes());
        Stream {
            bytes,
            index: self.index,
        }
    }
}

fn bits(step: &Step) -> u8 {
    let bit = |set, bit| if set { bit } else { 0 };
    bit(step.needed, NEEDED)
        | bit(step.access.silent, SILENT)
        | bit(step.access.user_mapping, USER_MAPPING)
}

/// Small numbers for small differences of either sign.
fn zigzag(difference: u64) -> u64 {
    let signed = difference as i64;
    (signed << 1 ^ signed >> 63) as u64
}

/// Seven bits to a byte, the lowest first.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
