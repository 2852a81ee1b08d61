//! Reads a stream.

use linemate_attribution::SubjectId;
use linemate_recording::{Access, CpuId, GuestAddr, VirtualTime};
use linemate_replay::{Fate, KeyId, Later, SiteId, SliceHead};

use super::guess::{Guess, NEEDED, Packed, SILENT, USER_MAPPING};
use super::pack::Columns;
use super::{Block, Stream};
use crate::experiment::ExperimentError;
use crate::ownership::Ownership;
use crate::rounds::{LeftOut, Rounds};
use crate::scene::{Scene, Step};

/// What a question counts the stream's rows for.
#[derive(Debug)]
pub(crate) struct Tables {
    keys: Vec<(KeyId, SiteId)>,
}

impl Tables {
    pub(crate) fn new(scene: &Scene<'_>) -> Tables {
        let rows = scene.session.rows().iter();
        Tables {
            keys: rows
                .map(|row| (scene.key(row.subject.0, row.offset), scene.site(row.pc)))
                .collect(),
        }
    }
}

/// Which accesses are wanted, with a flag for each subject.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'s> {
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
pub(crate) struct Reader<'s> {
    stream: &'s Stream,
    scene: &'s Scene<'s>,
    ownership: &'s Ownership,
    tables: &'s Tables,
    wanted: Wanted<'s>,
    guess: Guess,
    columns: Columns,
    block: usize,
    at: usize,
}

/// Kept bytes that cannot be: they were checked, so the file was changed since.
const DAMAGED: ExperimentError = ExperimentError::Kept;

impl<'s> Reader<'s> {
    pub(crate) fn new(
        stream: &'s Stream,
        scene: &'s Scene<'s>,
        tables: &'s Tables,
        wanted: Wanted<'s>,
    ) -> Result<Reader<'s>, ExperimentError> {
        Ok(Reader {
            stream,
            scene,
            ownership: scene.session.ownership()?,
            tables,
            wanted,
            guess: Guess::new(usize::from(stream.index.cpus), scene.session.rows()),
            columns: Columns::default(),
            block: 0,
            at: 0,
        })
    }

    /// What is not handed out, for the question's keys.
    pub(crate) fn left_out(&self) -> LeftOut {
        let mut left_out = LeftOut {
            uncached: self.stream.index.uncached,
            ..LeftOut::default()
        };
        let rows = self.scene.session.rows().iter();
        let counts = rows.zip(&self.stream.index.left_out).zip(&self.tables.keys);
        for ((row, count), (key, _)) in counts {
            if *count > 0 && !self.wanted.all_of(row.subject.0) {
                left_out.add(*key, row.kind, *count);
            }
        }
        left_out
    }

    /// The next block's rounds, into `out`, which is emptied first. `false` after the last.
    pub(crate) fn next(&mut self, out: &mut Rounds) -> Result<bool, ExperimentError> {
        out.clear();
        let Some(block) = self.stream.index.blocks.get(self.block).copied() else {
            return Ok(false);
        };
        self.block += 1;
        let end = self.at + block.packed as usize;
        let bytes = self.stream.bytes.get(self.at..end).ok_or(DAMAGED)?;
        self.at = end;
        let mut bytes = Bytes(bytes);
        for column in self.columns.all_mut() {
            *column = bytes.column(block).ok_or(DAMAGED)?;
        }
        let columns = std::mem::take(&mut self.columns);
        let done = self.rounds(&columns, block, out);
        self.columns = columns;
        done.ok_or(DAMAGED)?;
        Ok(true)
    }

    fn rounds(&mut self, columns: &Columns, block: Block, out: &mut Rounds) -> Option<()> {
        let mut slices = Bytes(&columns.slices);
        let mut streams = Streams {
            rows: Bytes(&columns.rows),
            addrs: Bytes(&columns.addrs),
            gaps: Bytes(&columns.gaps),
            later: Bytes(&columns.later),
            words: Bytes(&columns.words),
            bits: Bytes(&columns.bits),
        };
        for _ in 0..block.slices {
            let first = slices.varint()?;
            let steps = slices.varint()?;
            let span = u32::try_from(slices.varint()?).ok()?;
            let last = match slices.varint()? {
                0 => None,
                behind => Some(span.checked_sub(u32::try_from(behind - 1).ok()?)?),
            };
            let cpu = CpuId(u16::try_from(first >> 1).ok()?);
            if cpu.0 >= self.stream.index.cpus {
                return None;
            }
            let mut at = 0u32;
            for _ in 0..steps {
                let step = streams.step(&mut self.guess, cpu)?;
                at = at.checked_add(step.gap)?;
                self.hand_out(cpu, at, &step, out)?;
            }
            let end = out.steps.len() as u32;
            out.slices.push((SliceHead { cpu, span, last }, end));
            if first & 1 == 1 {
                out.rounds.push(out.slices.len() as u32);
            }
        }
        Some(())
    }

    #[inline]
    fn hand_out(&self, cpu: CpuId, at: u32, step: &Packed, out: &mut Rounds) -> Option<()> {
        let row = self.guess.row(step.row)?;
        let needed = step.bits & NEEDED != 0;
        if !self.wanted.wants(row.subject, needed) {
            return Some(());
        }
        let (key, site) = self.tables.keys[step.row as usize];
        let (subject, addr) = (SubjectId(row.subject), GuestAddr(step.addr));
        out.steps.push(Step {
            access: Access {
                // The cut is made: nobody asks for the time any more.
                time: VirtualTime(0),
                cpu,
                pc: row.pc,
                addr,
                size: row.size,
                kind: row.kind,
                silent: step.bits & SILENT != 0,
                user_mapping: step.bits & USER_MAPPING != 0,
            },
            subject,
            offset: row.offset,
            key,
            site,
            sharing: self.ownership.sharing(subject, addr, row.offset),
            fate: Fate::Cached,
            at,
            later: step.later,
            needed,
        });
        Some(())
    }
}

/// The columns of steps, read side by side.
struct Streams<'b> {
    rows: Bytes<'b>,
    addrs: Bytes<'b>,
    gaps: Bytes<'b>,
    later: Bytes<'b>,
    words: Bytes<'b>,
    bits: Bytes<'b>,
}

impl Streams<'_> {
    #[inline]
    fn step(&mut self, guess: &mut Guess, cpu: CpuId) -> Option<Packed> {
        let row = match self.rows.varint()? {
            0 => guess.rows(cpu)[0],
            1 => guess.rows(cpu)[1],
            row => u32::try_from(row - 2).ok()?,
        };
        guess.row(row)?;
        let expected = guess.expect(cpu, row);
        let addr = match self.addrs.varint()? {
            known @ 0..=2 => expected.addrs[known as usize],
            3 => self.words.word()?,
            away => expected.addrs[1].wrapping_add(unzigzag(away - 4)),
        };
        let late = unzigzag(self.gaps.varint()?) as u32;
        let later = match self.later.byte()? {
            0 => expected.later,
            1 => Later::default(),
            _ => Later {
                touched: self.words.word()?,
                written: self.words.word()?,
            },
        };
        let step = Packed {
            row,
            addr,
            gap: expected.gap.wrapping_add(late),
            later,
            bits: expected.bits ^ self.bits.byte()?,
        };
        guess.learn(cpu, &step);
        Some(step)
    }
}

fn unzigzag(value: u64) -> u64 {
    value >> 1 ^ (value & 1).wrapping_neg()
}

/// Bytes that are read from the front.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn word(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    #[inline]
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn column(&mut self, block: Block) -> Option<Vec<u8>> {
        let unpacked = usize::try_from(self.varint()?).ok()?;
        let packed = usize::try_from(self.varint()?).ok()?;
        // A step takes at most 24 bytes of a column, a slice at most 40.
        let most = 24 * block.steps as usize + 40 * block.slices as usize;
        if packed > self.0.len() || unpacked > most {
            return None;
        }
        let (column, rest): (&'b [u8], &'b [u8]) = self.0.split_at(packed);
        self.0 = rest;
        zstd::bulk::decompress(column, unpacked).ok()
    }
}
