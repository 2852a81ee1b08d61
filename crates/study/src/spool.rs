//! Rounds that are wanted again: packed, in memory.
//!
//! When there are more replays than fit in memory at a time, each next wave of them would have to decode, name and cut the recording
//! again. What is left of it after the cut packs into 2 to 4 bytes a step.

use linemate_attribution::SubjectId;
use linemate_recording::{Access, AccessKind, CpuId, GuestAddr, VirtualTime};
use linemate_replay::{Fate, KeyId, Later, Sharing, SiteId, SliceHead};

use crate::rounds::{LeftOut, Rounds};
use crate::scene::Step;

/// The most bytes that are kept; a longer recording is read again for each wave.
const BYTES_MAX: usize = 256 << 20;
/// zstd's fastest level but the negative ones: the columns repeat themselves so much that higher ones gain little.
const LEVEL: i32 = 1;

/// Packed rounds, in order.
#[derive(Debug, Default)]
pub(crate) struct Spool {
    blocks: Vec<Block>,
    bytes: usize,
    full: bool,
    /// What was left out of them, once they are complete.
    pub(crate) left_out: Option<LeftOut>,
}

#[derive(Debug)]
struct Block {
    packed: Vec<u8>,
    /// Bytes unpacked.
    bytes: usize,
    steps: usize,
    slices: usize,
    rounds: usize,
}

impl Spool {
    /// Adds rounds. Gives up, and forgets all, when they become too many.
    pub(crate) fn add(&mut self, rounds: &Rounds) {
        if self.full {
            return;
        }
        let bytes = pack(rounds);
        let Ok(packed) = zstd::bulk::compress(&bytes, LEVEL) else {
            return self.give_up();
        };
        self.bytes += packed.len();
        if self.bytes > BYTES_MAX {
            return self.give_up();
        }
        self.blocks.push(Block {
            packed,
            bytes: bytes.len(),
            steps: rounds.steps.len(),
            slices: rounds.slices.len(),
            rounds: rounds.rounds.len(),
        });
    }

    fn give_up(&mut self) {
        *self = Spool {
            full: true,
            ..Spool::default()
        };
    }

    /// All rounds are in.
    pub(crate) fn complete(&mut self, left_out: &LeftOut) {
        if !self.full {
            self.left_out = Some(left_out.clone());
        }
    }

    /// How many blocks there are.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Block `number`'s rounds, into `rounds`, which is emptied first.
    pub(crate) fn read(&self, number: usize, rounds: &mut Rounds) {
        rounds.clear();
        let Some(block) = self.blocks.get(number) else {
            return;
        };
        // Our own bytes, from memory: they unpack.
        let bytes = zstd::bulk::decompress(&block.packed, block.bytes).unwrap_or_default();
        unpack(&bytes, block, rounds);
    }
}

/// The columns of all steps, one after the other, then slices and rounds.
fn pack(rounds: &Rounds) -> Vec<u8> {
    let steps = &rounds.steps;
    let mut out = Vec::with_capacity(steps.len() * 52);
    let mut words = |column: &dyn Fn(&Step) -> u64| {
        for step in steps {
            out.extend_from_slice(&column(step).to_le_bytes());
        }
    };
    words(&|step| step.access.pc.0);
    words(&|step| step.later.touched);
    words(&|step| step.later.written);
    let mut before = 0;
    for step in steps {
        // Neighbours are near each other.
        let addr = step.access.addr.0;
        out.extend_from_slice(
            &addr
                .wrapping_sub(std::mem::replace(&mut before, addr))
                .to_le_bytes(),
        );
    }
    let mut halves = |column: &dyn Fn(&Step) -> u32| {
        for step in steps {
            out.extend_from_slice(&column(step).to_le_bytes());
        }
    };
    halves(&|step| step.at);
    halves(&|step| step.subject.0);
    halves(&|step| step.offset);
    halves(&|step| step.key.0);
    halves(&|step| step.site.0);
    out.extend(steps.iter().map(|step| step.access.size));
    out.extend(steps.iter().map(flags));
    for (head, end) in &rounds.slices {
        out.extend_from_slice(&u32::from(head.cpu.0).to_le_bytes());
        out.extend_from_slice(&head.span.to_le_bytes());
        out.extend_from_slice(&head.last.unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&u32::from(head.last.is_some()).to_le_bytes());
        out.extend_from_slice(&end.to_le_bytes());
    }
    for end in &rounds.rounds {
        out.extend_from_slice(&end.to_le_bytes());
    }
    out
}

/// What an access is in a few bits. Whatever is replayed goes through the caches.
fn flags(step: &Step) -> u8 {
    step.access.kind as u8
        | u8::from(step.access.silent) << 2
        | u8::from(step.access.user_mapping) << 3
        | u8::from(step.sharing == Sharing::Cloned) << 4
}

/// Reads columns.
struct Columns<'b>(&'b [u8]);

impl<'b> Columns<'b> {
    fn take<const N: usize>(&mut self, count: usize) -> impl Iterator<Item = [u8; N]> + 'b {
        let (column, rest) = self.0.split_at((count * N).min(self.0.len()));
        self.0 = rest;
        column.chunks_exact(N).map(|bytes| {
            let mut word = [0; N];
            word.copy_from_slice(bytes);
            word
        })
    }

    fn words(&mut self, count: usize) -> impl Iterator<Item = u64> + 'b {
        self.take(count).map(u64::from_le_bytes)
    }

    fn halves(&mut self, count: usize) -> impl Iterator<Item = u32> + 'b {
        self.take(count).map(u32::from_le_bytes)
    }
}

fn unpack(bytes: &[u8], block: &Block, rounds: &mut Rounds) {
    let mut columns = Columns(bytes);
    let count = block.steps;
    let (mut pcs, mut touched) = (columns.words(count), columns.words(count));
    let (mut written, addrs) = (columns.words(count), columns.words(count));
    let (mut ats, mut subjects) = (columns.halves(count), columns.halves(count));
    let (mut offsets, mut keys) = (columns.halves(count), columns.halves(count));
    let mut sites = columns.halves(count);
    let (mut sizes, mut flags) = (columns.take::<1>(count), columns.take::<1>(count));
    let mut addr = 0u64;
    rounds.steps.extend(addrs.map_while(|difference| {
        addr = addr.wrapping_add(difference);
        let [bits] = flags.next()?;
        let access = Access {
            // The cut is made: nobody asks for the time any more.
            time: VirtualTime(0),
            cpu: CpuId(0),
            pc: GuestAddr(pcs.next()?),
            addr: GuestAddr(addr),
            size: sizes.next()?[0],
            kind: match bits & 3 {
                0 => AccessKind::Load,
                1 => AccessKind::Store,
                _ => AccessKind::Rmw,
            },
            silent: bits & 4 != 0,
            user_mapping: bits & 8 != 0,
        };
        Some(Step {
            access,
            subject: SubjectId(subjects.next()?),
            offset: offsets.next()?,
            key: KeyId(keys.next()?),
            site: SiteId(sites.next()?),
            sharing: if bits & 16 != 0 {
                Sharing::Cloned
            } else {
                Sharing::Shared
            },
            fate: Fate::Cached,
            at: ats.next()?,
            later: Later {
                touched: touched.next()?,
                written: written.next()?,
            },
        })
    }));
    let mut first = 0;
    for slice in columns.take::<20>(block.slices) {
        let mut fields = Columns(&slice).halves(5);
        let mut field = || fields.next().unwrap_or(0);
        let (cpu, span, last, some, end) = (field(), field(), field(), field(), field());
        let cpu = CpuId(cpu as u16);
        for step in &mut rounds.steps[first..end as usize] {
            step.access.cpu = cpu;
        }
        first = end as usize;
        let last = (some != 0).then_some(last);
        rounds.slices.push((SliceHead { cpu, span, last }, end));
    }
    rounds.rounds.extend(columns.halves(block.rounds));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let words = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
        let halves = (
            any::<u32>(),
            any::<u32>(),
            any::<u32>(),
            any::<u32>(),
            any::<u32>(),
        );
        let bits = (
            1u8..=64,
            0u8..3,
            any::<bool>(),
            any::<bool>(),
            any::<bool>(),
        );
        let step = (words, halves, bits).prop_map(|(words, halves, bits)| Step {
            access: Access {
                time: VirtualTime(0),
                cpu: CpuId(0),
                pc: GuestAddr(words.0),
                addr: GuestAddr(words.1),
                size: bits.0,
                kind: [AccessKind::Load, AccessKind::Store, AccessKind::Rmw][usize::from(bits.1)],
                silent: bits.2,
                user_mapping: bits.3,
            },
            subject: SubjectId(halves.0),
            offset: halves.1,
            key: KeyId(halves.2),
            site: SiteId(halves.3),
            sharing: if bits.4 {
                Sharing::Cloned
            } else {
                Sharing::Shared
            },
            fate: Fate::Cached,
            at: halves.4,
            later: Later {
                touched: words.2,
                written: words.3,
            },
        });
        prop::collection::vec(step, 0..40)
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_added(
            slices in prop::collection::vec((steps(), 0u16..9, any::<u32>(), any::<Option<u32>>()), 1..6),
        ) {
            let mut rounds = Rounds::default();
            for (steps, cpu, span, last) in slices {
                let cpu = CpuId(cpu);
                rounds.steps.extend(steps.into_iter().map(|step| Step {
                    access: Access { cpu, ..step.access },
                    ..step
                }));
                let end = rounds.steps.len() as u32;
                rounds.slices.push((SliceHead { cpu, span, last }, end));
            }
            rounds.rounds = vec![1, rounds.slices.len() as u32];
            let mut spool = Spool::default();
            spool.add(&rounds);
            spool.add(&Rounds::default());
            let mut again = Rounds::default();
            spool.read(0, &mut again);
            prop_assert_eq!(&again, &rounds);
            spool.read(1, &mut again);
            prop_assert_eq!(again, Rounds::default());
        }
    }
}
