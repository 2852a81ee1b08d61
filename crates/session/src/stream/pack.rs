//! Writes a stream: each step as what the guess gets wrong of it, by column.

use linemate_attribution::tally::Key;
use linemate_machine::LineSize;
use linemate_recording::cursor::{put_varint, zigzag};
use linemate_recording::{Accesses, VirtualTime};
use linemate_replay::{Later, SliceHead};
use linemate_types::ByteOffset;
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64;

use super::guess::{Guess, Habit, NEEDED, OBJECTS, ORIGIN, Packed, Row, SILENT, TIED, next_tie};
use super::packed::{Block, Index, Stream};
use crate::error::SessionError;
use crate::rounds::Rounds;
use crate::step::Step;

/// zstd's level: higher ones bring nothing, the columns are mostly zeros.
const LEVEL: i32 = 1;

/// The address follows unchanged.
pub(super) const RAW: u64 = OBJECTS as u64 + 2;

/// The columns of a block.
#[derive(Debug, Default)]
pub(super) struct Columns {
    /// 0 and 1: as guessed after some rows and after one; else the row, plus 2.
    pub(super) rows: Vec<u8>,
    /// Below [`RAW`]: which guess of [`Guess::places`]; [`RAW`]: it is in `raw`; above: the
    /// difference to where its row was last.
    pub(super) addrs: Vec<u8>,
    /// Addresses that no guess comes near.
    pub(super) raw: Vec<u8>,
    /// The difference to the guess.
    pub(super) gaps: Vec<u8>,
    /// Of steps that are needed; nothing goes with others. 0: as guessed, 1: nothing; else the
    /// words touched are in `words`, and written are 2: none of them, 3: all, 4: those in `words`.
    pub(super) later: Vec<u8>,
    /// Words touched and written.
    pub(super) words: Vec<u8>,
    /// The difference to the guess.
    pub(super) bits: Vec<u8>,
    /// Of steps whose ties are not as expected.
    pub(super) ties: Vec<u8>,
    /// Slices: CPU, steps, span, last; and whether the round ends. Before each round: how long
    /// after the one before it begins.
    pub(super) slices: Vec<u8>,
}

impl Columns {
    pub(super) fn all_mut(&mut self) -> [&mut Vec<u8>; 9] {
        let Columns {
            rows,
            addrs,
            raw,
            gaps,
            later,
            words,
            bits,
            ties,
            slices,
        } = self;
        [rows, addrs, raw, gaps, later, words, bits, ties, slices]
    }
}

/// Packs rounds, block by block.
pub(super) struct Packer<'k> {
    keys: &'k [Key],
    /// Each key's place in `keys`.
    rows: FxHashMap<Key, u32>,
    /// By row: steps that are needed.
    needed: Vec<Accesses>,
    guess: Guess,
    columns: Columns,
    /// When the last round began.
    start: VirtualTime,
    bytes: Vec<u8>,
    index: Index,
}

impl<'k> Packer<'k> {
    pub(super) fn new(cpus: usize, keys: &'k [Key], line: LineSize) -> Packer<'k> {
        Packer {
            keys,
            rows: keys.iter().copied().zip(0..).collect(),
            needed: vec![Accesses::ZERO; keys.len()],
            guess: Guess::new(cpus, Row::of(keys), line),
            columns: Columns::default(),
            start: VirtualTime(0),
            bytes: Vec::new(),
            index: Index {
                cpus: cpus as u16,
                wide: line == LineSize::B128,
                ..Index::default()
            },
        }
    }

    /// Adds a block.
    ///
    /// # Errors
    /// A step of a row that was not counted.
    pub(super) fn add(&mut self, rounds: &Rounds) -> Result<(), SessionError> {
        for (start, round) in rounds.starts.iter().zip(rounds.iter()) {
            let later = start.0.wrapping_sub(self.start.0);
            put_varint(&mut self.columns.slices, zigzag(later));
            self.start = *start;
            let mut round = round.peekable();
            while let Some((head, steps)) = round.next() {
                self.slice(head, steps, round.peek().is_none())?;
            }
        }
        let before = self.bytes.len();
        for column in self.columns.all_mut() {
            let packed = zstd::bulk::compress(column, LEVEL).map_err(|_| SessionError::Kept)?;
            // By column: bytes of one kind compress better together, and the reader overlaps their
            // look-ups.
            put(&mut self.bytes, column.len() as u32);
            put(&mut self.bytes, packed.len() as u32);
            self.bytes.extend_from_slice(&packed);
            column.clear();
        }
        self.index.blocks.push(Block {
            packed: (self.bytes.len() - before) as u32,
            steps: rounds.steps.len() as u32,
            slices: rounds.slices.len() as u32,
            rounds: rounds.rounds.len() as u32,
            checksum: xxh3_64(&self.bytes[before..]),
        });
        Ok(())
    }

    fn slice(&mut self, head: SliceHead, steps: &[Step], ends: bool) -> Result<(), SessionError> {
        let slices = &mut self.columns.slices;
        put(slices, u32::from(head.cpu.0) << 1 | u32::from(ends));
        put(slices, steps.len() as u32);
        put(slices, head.span);
        // A slice's last cached access is mostly its last.
        let left = head.last.map_or(0, |last| u64::from(head.span - last) + 1);
        put(slices, left);
        let (mut before, mut tie) = (0, None);
        for step in steps {
            let gap = step.at - std::mem::replace(&mut before, step.at);
            let expected = next_tie(tie.replace(step.tie), gap);
            let tied = Some(step.tie).filter(|tie| *tie != expected);
            self.step(step, gap, tied)?;
        }
        Ok(())
    }

    /// The step's row, and how it is encoded.
    fn row(&self, step: &Step) -> Result<(u32, u64), SessionError> {
        let key = Key {
            subject: step.subject,
            offset: step.offset,
            pc: step.access.pc,
            kind: step.access.kind,
            size: step.access.size,
        };
        let cpu = step.access.cpu;
        let guesses = [self.guess.after_some(cpu), self.guess.after_one(cpu)];
        for (how, row) in (0..).zip(guesses) {
            if self.keys.get(row as usize) == Some(&key) {
                return Ok((row, how));
            }
        }
        // A row that was not counted: the file is another one now.
        let row = self.rows.get(&key).ok_or(SessionError::Changed)?;
        Ok((*row, u64::from(*row) + 2))
    }

    /// `tied`: its tie, unless that is as expected.
    fn step(&mut self, step: &Step, gap: u32, tied: Option<u16>) -> Result<(), SessionError> {
        let (row, how) = self.row(step)?;
        let packed = Packed {
            row,
            addr: step.access.addr,
            gap,
            later: step.later,
            bits: bits(step) | if tied.is_some() { TIED } else { 0 },
            tie: tied.unwrap_or(0),
        };
        self.needed[row as usize] += Accesses(step.needed.into());
        let (cpu, columns) = (step.access.cpu, &mut self.columns);
        put_varint(&mut columns.rows, how);
        let before = self.guess.learn_row(cpu, row);
        let places = self.guess.places(cpu, row);
        let known = places.iter().position(|addr| *addr == packed.addr);
        let away = packed.addr.wrapping_sub(ByteOffset(places[ORIGIN].0)).0;
        match (known, zigzag(away).checked_add(RAW + 1)) {
            (Some(known), _) => columns.addrs.push(known as u8),
            // The numbers up to `RAW` are guesses, so differences follow them; the few that do not
            // fit 64 bits then are written out.
            (None, Some(away)) => put_varint(&mut columns.addrs, away),
            (None, None) => {
                put_varint(&mut columns.addrs, RAW);
                columns.raw.extend_from_slice(&packed.addr.0.to_le_bytes());
            }
        }
        self.guess.learn_place(cpu, row, packed.addr);
        let habit = self.guess.habit(cpu, before, row, packed.addr);
        let expected = std::mem::replace(habit, Habit::new(packed.gap, packed.bits));
        // Exclusive or: as guessed is 0, and columns of zeros cost next to nothing.
        columns.bits.push(packed.bits ^ expected.bits());
        if let Some(tie) = tied {
            put(&mut columns.ties, tie);
        }
        let late = packed.gap.wrapping_sub(expected.gap()) as i32;
        put_varint(&mut columns.gaps, zigzag(late as u64));
        // Learnt from each step, written for needed ones only: the reader learns the empty one for
        // the others, which is what they have.
        let expected = std::mem::replace(self.guess.later(row), packed.later);
        if step.needed {
            later(columns, packed.later, expected);
        }
        Ok(())
    }

    /// The stream of these steps alone: nothing was left out of it.
    ///
    /// # Errors
    /// None is to be expected: see [`Packer::finish`].
    pub(super) fn finish_alone(self) -> Result<Stream, SessionError> {
        let counts = self.needed.clone();
        self.finish(counts.into_iter(), Accesses::ZERO)
    }

    /// The stream, given how many accesses through the caches each row has in the recording, and
    /// how many go to devices.
    ///
    /// # Errors
    /// A row has more steps that are needed than accesses.
    pub(super) fn finish(
        mut self,
        counts: impl Iterator<Item = Accesses>,
        uncached: Accesses,
    ) -> Result<Stream, SessionError> {
        let left_out = counts.zip(&self.needed);
        let left_out = left_out.map(|(count, needed)| count.checked_sub(*needed));
        let left_out: Option<Vec<Accesses>> = left_out.collect();
        self.index.left_out = left_out.ok_or(SessionError::Changed)?;
        self.index.uncached = uncached;
        let index = postcard::to_stdvec(&self.index).map_err(|_| SessionError::Kept)?;
        let mut bytes = self.bytes;
        bytes.extend_from_slice(&index);
        bytes.extend_from_slice(&(index.len() as u64).to_le_bytes());
        Ok(Stream::new(bytes, self.index))
    }
}

/// Block's columns have less than 2^32 of anything: a block is at most a round longer than `BLOCK`.
fn put(column: &mut Vec<u8>, number: impl Into<u64>) {
    put_varint(column, number.into());
}

fn later(columns: &mut Columns, later: Later, expected: Later) {
    let mut how = |how| columns.later.push(how);
    if later == expected {
        return how(0);
    }
    if later == Later::default() {
        return how(1);
    }
    let Later { touched, written } = later;
    columns.words.extend_from_slice(&touched.to_le_bytes());
    if written == 0 {
        how(2);
    } else if written == touched {
        how(3);
    } else {
        how(4);
        columns.words.extend_from_slice(&written.to_le_bytes());
    }
}

fn bits(step: &Step) -> u8 {
    let bit = |set, bit| if set { bit } else { 0 };
    bit(step.needed, NEEDED) | bit(step.access.silent, SILENT)
}
