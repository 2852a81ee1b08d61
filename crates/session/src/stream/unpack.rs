//! Reads a stream: guesses each step as the writer did, and corrects it.

use linemate_attribution::SubjectId;
use linemate_attribution::tally::Key;
use linemate_recording::cursor::{Cursor, unzigzag};
use linemate_recording::{Access, Accesses, CpuId, GuestAddr, VirtualTime};
use linemate_replay::{Fate, KeyId, Later, SiteId, SliceHead, TIE_MAX};
use linemate_types::ByteOffset;

use super::guess::{Guess, Habit, NEEDED, ORIGIN, Packed, Row, SILENT, TIED, next_tie};
use super::pack::{Columns, RAW};
use super::packed::{Block, Stream};
use crate::error::SessionError;
use crate::ownership::Ownership;
use crate::rounds::{LeftOut, Rounds};
use crate::step::Step;

/// The stream's rows, with what a question counts them for.
#[derive(Debug)]
pub struct Tables {
    rows: Vec<Row>,
}

impl Tables {
    pub fn new(rows: &[Key], counts_for: impl Fn(&Key) -> (KeyId, SiteId)) -> Tables {
        let row = |key: &Key| {
            let (counts_for, site) = counts_for(key);
            Row::new(key, counts_for, site)
        };
        Tables {
            rows: rows.iter().map(row).collect(),
        }
    }
}

/// Which accesses are wanted, with a flag for each subject.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'s> {
    /// What replays need, and all of those subjects.
    NeededAnd(&'s [bool]),
    /// All of those subjects, and nothing else.
    Only(&'s [bool]),
}

impl Wanted<'_> {
    /// Whether all of a subject's are.
    #[inline]
    fn all_of(self, subject: u32) -> bool {
        let (Wanted::NeededAnd(flags) | Wanted::Only(flags)) = self;
        flags.get(subject as usize).copied().unwrap_or(false)
    }

    #[inline]
    fn wants(self, subject: u32, needed: bool) -> bool {
        let needed = needed && matches!(self, Wanted::NeededAnd(_));
        needed || self.all_of(subject)
    }
}

/// Gives a stream's rounds, from the first one on.
pub struct Reader<'s> {
    unpacker: Unpacker<'s>,
    chosen: Chosen<'s>,
    left_out: &'s [Accesses],
    uncached: Accesses,
}

/// Makes steps of what is wanted.
struct Chosen<'s> {
    ownership: &'s Ownership,
    tables: &'s Tables,
    wanted: Wanted<'s>,
}

impl<'s> Reader<'s> {
    pub fn new(
        stream: &'s Stream,
        ownership: &'s Ownership,
        tables: &'s Tables,
        wanted: Wanted<'s>,
    ) -> Reader<'s> {
        Reader {
            // A copy, since the guess changes its rows as it goes; the question's keys are in them,
            // so that a step needs no second table.
            unpacker: Unpacker::new(stream, tables.rows.clone()),
            chosen: Chosen {
                ownership,
                tables,
                wanted,
            },
            left_out: &stream.index.left_out,
            uncached: stream.index.uncached,
        }
    }

    /// What is not returned, for the question's keys.
    pub fn left_out(&self) -> LeftOut {
        let mut left_out = LeftOut {
            uncached: self.uncached,
            ..LeftOut::default()
        };
        for (row, count) in self.chosen.tables.rows.iter().zip(self.left_out) {
            // Of a moved subject, all accesses were returned.
            if *count > Accesses::ZERO && !self.chosen.wanted.all_of(row.subject) {
                left_out.add(row.key, row.site, row.kind, *count);
            }
        }
        left_out
    }

    /// The next block's rounds, into `out`, which is emptied first. `false` after the last.
    pub fn next(&mut self, out: &mut Rounds) -> Result<bool, SessionError> {
        out.clear();
        let chosen = &self.chosen;
        let step = |out: &mut Rounds, cpu, at, row: &Row, step: &Packed| {
            if chosen.wanted.wants(row.subject, step.bits & NEEDED != 0) {
                out.steps.push(chosen.step(cpu, at, row, step));
            }
        };
        self.unpacker.next(out, step).ok_or(SessionError::Kept)
    }
}

impl Chosen<'_> {
    #[inline]
    fn step(&self, cpu: CpuId, at: u32, row: &Row, step: &Packed) -> Step {
        let (subject, addr) = (SubjectId(row.subject), step.addr);
        Step {
            access: Access {
                // The cut is made and the access has a subject: nobody asks for its time or its
                // mapping any more.
                time: VirtualTime(0),
                cpu,
                pc: row.pc,
                addr,
                size: row.size,
                kind: row.kind,
                silent: step.bits & SILENT != 0,
                user_mapping: false,
            },
            subject,
            offset: row.offset,
            key: row.key,
            site: row.site,
            sharing: self.ownership.sharing(subject, addr, row.offset),
            fate: Fate::Cached,
            at,
            tie: step.tie,
            later: step.later,
            needed: step.bits & NEEDED != 0,
            followed: false,
        }
    }
}

/// What errors of [`Cursor`] would say, which nobody reads: all of them are
/// [`SessionError::Kept`].
const WHAT: &str = "kept stream";

/// Unpacks a stream, block by block.
pub(super) struct Unpacker<'s> {
    stream: &'s Stream,
    guess: Guess,
    columns: Columns,
    together: Together,
    block: usize,
    at: u64,
    /// When the last round began.
    start: VirtualTime,
}

impl<'s> Unpacker<'s> {
    pub(super) fn new(stream: &'s Stream, rows: Vec<Row>) -> Unpacker<'s> {
        Unpacker {
            stream,
            guess: stream.guess(rows),
            columns: Columns::default(),
            together: Together::default(),
            block: 0,
            at: 0,
            start: VirtualTime(0),
        }
    }

    /// The next block: `step` puts its steps into `out`, given CPU, time in the slice and row;
    /// slices and rounds follow here. `false` after the last; `None` for bytes that cannot be.
    pub(super) fn next(
        &mut self,
        out: &mut Rounds,
        step: impl FnMut(&mut Rounds, CpuId, u32, &Row, &Packed),
    ) -> Option<bool> {
        let Some(block) = self.stream.index.blocks.get(self.block).copied() else {
            return Some(false);
        };
        self.block += 1;
        let packed = self.stream.block(self.at, &block)?;
        let mut bytes = Cursor::new(&packed, WHAT);
        self.at += u64::from(block.packed);
        for into in self.columns.all_mut() {
            *into = column(&mut bytes, block)?;
        }
        let columns = std::mem::take(&mut self.columns);
        let done = self.rounds(&columns, block, out, step);
        self.columns = columns;
        done.map(|()| true)
    }

    fn rounds(
        &mut self,
        columns: &Columns,
        block: Block,
        out: &mut Rounds,
        mut take: impl FnMut(&mut Rounds, CpuId, u32, &Row, &Packed),
    ) -> Option<()> {
        let mut slices = Cursor::new(&columns.slices, WHAT);
        let mut streams = Streams::new(columns);
        let guess = &mut self.guess;
        let together = &mut self.together;
        together.clear();
        let mut begins = true;
        for _ in 0..block.slices {
            if begins {
                let later = unzigzag(slices.varint().ok()?);
                self.start = VirtualTime(self.start.0.wrapping_add(later));
                out.starts.push(self.start);
            }
            let (head, mut steps, ends) = slice(&mut slices, self.stream.index.cpus)?;
            while steps > 0 {
                let room = TOGETHER - together.steps.len();
                let now = steps.min(room as u64);
                together.add(head.cpu, now as usize);
                steps -= now;
                if now as usize == room {
                    together.unpack(&mut streams, guess)?;
                    together.hand_over(guess, out, &mut take)?;
                }
            }
            together.ends.push((together.steps.len(), head, ends));
            begins = ends;
        }
        together.unpack(&mut streams, guess)?;
        together.hand_over(guess, out, &mut take)
    }
}

/// A slice's head, its steps, and whether it ends the round.
fn slice(slices: &mut Cursor<'_>, cpus: u16) -> Option<(SliceHead, u64, bool)> {
    let first = slices.varint().ok()?;
    let steps = slices.varint().ok()?;
    let span = u32::try_from(slices.varint().ok()?).ok()?;
    let last = match slices.varint().ok()? {
        0 => None,
        left => Some(span.checked_sub(u32::try_from(left - 1).ok()?)?),
    };
    let cpu = CpuId(u16::try_from(first >> 1).ok()?);
    (cpu.0 < cpus).then_some((SliceHead { cpu, span, last }, steps, first & 1 == 1))
}

/// How many steps are unpacked together. What each one's guesses need is read from tables of some
/// MB: column by column those reads overlap, step by step each waits for the one before.
const TOGETHER: usize = 256;

/// Steps on their way.
#[derive(Debug, Default)]
struct Together {
    /// The CPU of each, and the row before its own.
    from: Vec<(CpuId, u32)>,
    steps: Vec<Packed>,
    /// Slices that end here: after how many of the steps, with which head, and whether the round
    /// ends, too.
    ends: Vec<(usize, SliceHead, bool)>,
    /// Instructions from the start of the slice that continues.
    at: u32,
    /// Its last step's tie.
    tie: Option<u16>,
}

impl Together {
    fn clear(&mut self) {
        self.from.clear();
        self.steps.clear();
        self.ends.clear();
        (self.at, self.tie) = (0, None);
    }

    /// Makes room for the CPU's next steps.
    fn add(&mut self, cpu: CpuId, steps: usize) {
        let all = self.steps.len() + steps;
        self.from.resize(all, (cpu, 0));
        self.steps.resize(all, Packed::default());
    }

    /// Reads the steps, column by column.
    fn unpack(&mut self, streams: &mut Streams<'_>, guess: &mut Guess) -> Option<()> {
        for ((cpu, before), step) in self.from.iter_mut().zip(&mut self.steps) {
            step.row = match streams.rows.varint().ok()? {
                0 => guess.after_some(*cpu),
                1 => guess.after_one(*cpu),
                row => u32::try_from(row - 2).ok()?,
            };
            guess.row(step.row)?;
            *before = guess.learn_row(*cpu, step.row);
        }
        for ((cpu, _), step) in self.from.iter().zip(&mut self.steps) {
            // Rows are learnt for all steps before the first place: nothing about rows is guessed
            // from places, which is what lets columns be read one after the other.
            let places = guess.places(*cpu, step.row);
            step.addr = match streams.addrs.varint().ok()? {
                RAW => GuestAddr(streams.raw.u64().ok()?),
                known @ 0..RAW => places[known as usize],
                away => places[ORIGIN].wrapping_add(ByteOffset(unzigzag(away - RAW - 1))),
            };
            guess.learn_place(*cpu, step.row, step.addr);
        }
        for ((cpu, before), step) in self.from.iter().zip(&mut self.steps) {
            let habit = guess.habit(*cpu, *before, step.row, step.addr);
            step.bits = habit.bits() ^ streams.bits.u8().ok()?;
            let late = unzigzag(streams.gaps.varint().ok()?) as u32;
            step.gap = habit.gap().wrapping_add(late);
            step.tie = match step.bits & TIED {
                0 => 0,
                _ => u16::try_from(streams.ties.varint().ok()?).ok()?,
            };
            if step.tie > TIE_MAX {
                return None;
            }
            *habit = Habit::new(step.gap, step.bits);
        }
        for step in &mut self.steps {
            let later = guess.later(step.row);
            *later = match step.bits & NEEDED {
                0 => Later::default(),
                _ => streams.later(*later)?,
            };
            step.later = *later;
        }
        Some(())
    }

    /// Puts the steps and the slices that end here into `out`.
    fn hand_over(
        &mut self,
        guess: &Guess,
        out: &mut Rounds,
        take: &mut impl FnMut(&mut Rounds, CpuId, u32, &Row, &Packed),
    ) -> Option<()> {
        let mut done = 0;
        let (mut at, mut tie) = (self.at, self.tie);
        let mut steps = self.from.iter().zip(&mut self.steps);
        let mut some = |out: &mut Rounds, at: &mut u32, tie: &mut Option<u16>, count: usize| {
            for ((cpu, _), step) in steps.by_ref().take(count) {
                *at = at.checked_add(step.gap)?;
                if step.bits & TIED == 0 {
                    step.tie = next_tie(*tie, step.gap);
                }
                *tie = Some(step.tie);
                take(out, *cpu, *at, guess.row(step.row)?, step);
            }
            Some(())
        };
        for (end, head, ends) in &self.ends {
            some(out, &mut at, &mut tie, end - done)?;
            done = *end;
            (at, tie) = (0, None);
            out.slices.push((*head, out.steps.len() as u32));
            if *ends {
                out.rounds.push(out.slices.len() as u32);
            }
        }
        some(out, &mut at, &mut tie, TOGETHER)?;
        self.clear();
        // A slice may continue in the next 256 steps: its time does as well.
        (self.at, self.tie) = (at, tie);
        Some(())
    }
}

/// The columns of steps, read side by side.
struct Streams<'b> {
    rows: Cursor<'b>,
    addrs: Cursor<'b>,
    raw: Cursor<'b>,
    gaps: Cursor<'b>,
    later: Cursor<'b>,
    words: Cursor<'b>,
    bits: Cursor<'b>,
    ties: Cursor<'b>,
}

impl<'b> Streams<'b> {
    fn new(columns: &'b Columns) -> Streams<'b> {
        Streams {
            rows: Cursor::new(&columns.rows, WHAT),
            addrs: Cursor::new(&columns.addrs, WHAT),
            raw: Cursor::new(&columns.raw, WHAT),
            gaps: Cursor::new(&columns.gaps, WHAT),
            later: Cursor::new(&columns.later, WHAT),
            words: Cursor::new(&columns.words, WHAT),
            bits: Cursor::new(&columns.bits, WHAT),
            ties: Cursor::new(&columns.ties, WHAT),
        }
    }

    fn later(&mut self, expected: Later) -> Option<Later> {
        let how = self.later.u8().ok()?;
        if how < 2 {
            return Some(if how == 0 { expected } else { Later::default() });
        }
        let touched = self.words.u64().ok()?;
        let written = match how {
            2 => 0,
            3 => touched,
            _ => self.words.u64().ok()?,
        };
        Some(Later { touched, written })
    }
}

/// The next column of a block.
fn column(bytes: &mut Cursor<'_>, block: Block) -> Option<Vec<u8>> {
    let unpacked = usize::try_from(bytes.varint().ok()?).ok()?;
    let packed = usize::try_from(bytes.varint().ok()?).ok()?;
    // A step takes at most 24 bytes of a column, a slice at most 40, a round 10.
    let slices = 40 * block.slices as usize + 10 * block.rounds as usize;
    let most = 24 * block.steps as usize + slices;
    let column = bytes.bytes(packed).ok()?;
    // A damaged length must not ask for more memory than the block's numbers, which were checked,
    // can need.
    let small = unpacked <= most;
    small.then(|| zstd::bulk::decompress(column, unpacked).ok())?
}
