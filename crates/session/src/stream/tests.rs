//! What is packed is what is unpacked, and what is damaged is not.

use std::cell::RefCell;

use linemate_attribution::SubjectId;
use linemate_attribution::tally::Key;
use linemate_machine::LineSize;
use linemate_recording::{Access, AccessKind, Accesses, CpuId, GuestAddr, VirtualTime};
use linemate_replay::{Fate, KeyId, Later, Sharing, SiteId, SliceHead, TIE_MAX};
use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use super::guess::{NEEDED, Packed, Row, SILENT, TIED, next_tie};
use super::pack::Packer;
use super::packed::Stream;
use super::unpack::Unpacker;
use crate::rounds::Rounds;
use crate::step::Step;

const CPUS: u16 = 3;

fn keys() -> Vec<Key> {
    let kinds = [AccessKind::Load, AccessKind::Store, AccessKind::Rmw];
    let key = |number: u32| Key {
        subject: SubjectId(number / 4),
        offset: 8 * (number % 4),
        pc: GuestAddr(0x1000 + 4 * u64::from(number)),
        kind: kinds[number as usize % 3],
        size: 8,
    };
    (0..12).map(key).collect()
}

/// The step that is packed as that.
fn step(cpu: CpuId, at: u32, row: &Row, packed: &Packed) -> Step {
    let bit = |bit: u8| packed.bits & bit != 0;
    Step {
        access: Access {
            time: VirtualTime(0),
            cpu,
            pc: row.pc,
            addr: packed.addr,
            size: row.size,
            kind: row.kind,
            silent: bit(SILENT),
            user_mapping: false,
        },
        subject: SubjectId(row.subject),
        offset: row.offset,
        key: KeyId(0),
        site: SiteId(0),
        sharing: Sharing::Shared,
        fate: Fate::Cached,
        at,
        tie: packed.tie,
        later: packed.later,
        needed: bit(NEEDED),
        followed: false,
    }
}

/// A step, and instructions to it from the one before.
fn steps() -> impl Strategy<Value = Vec<Packed>> {
    let addr = prop_oneof![
        4 => (0u64..64).prop_map(|word| 0xffff_8880_0000_0000 + 8 * word),
        1 => any::<u64>(),
    ];
    let words = prop_oneof![Just(0), Just(1), any::<u64>()];
    let later = (words.clone(), words).prop_map(|(touched, written)| Later { touched, written });
    let gap = prop_oneof![Just(0), 0u32..1000];
    let packed = (0u32..12, addr, gap, later, 0u8..8, 0..=TIE_MAX);
    let packed = packed.prop_map(|(row, addr, gap, later, bits, tie)| Packed {
        row,
        addr: linemate_recording::GuestAddr(addr),
        gap,
        // Nothing goes with an access that is not needed.
        later: if bits & NEEDED == 0 {
            Later::default()
        } else {
            later
        },
        bits,
        tie,
    });
    prop::collection::vec(packed, 0..40)
}

type Slice = (u16, Vec<Packed>, u32, bool);

fn rounds(slices: &[Slice]) -> Rounds {
    let rows = Row::of(&keys());
    let mut rounds = Rounds::default();
    for (cpu, steps, after, ends) in slices {
        let cpu = CpuId(*cpu);
        let (mut at, mut tie) = (0, None);
        for packed in steps {
            at += packed.gap;
            let packed = Packed {
                tie: match packed.bits & TIED {
                    0 => next_tie(tie, packed.gap),
                    _ => packed.tie,
                },
                ..*packed
            };
            tie = Some(packed.tie);
            let row = &rows[packed.row as usize];
            rounds.steps.push(step(cpu, at, row, &packed));
        }
        let end = rounds.steps.len() as u32;
        let head = SliceHead {
            cpu,
            span: at + after,
            last: (!steps.is_empty()).then_some(at),
        };
        rounds.slices.push((head, end));
        if *ends {
            rounds.rounds.push(rounds.slices.len() as u32);
        }
    }
    let slices = rounds.slices.len() as u32;
    if slices > 0 && rounds.rounds.last() != Some(&slices) {
        rounds.rounds.push(slices);
    }
    // Later and earlier than the one before, and as far apart as can be.
    let starts = [7, 3, u64::MAX, 0].map(VirtualTime).into_iter().cycle();
    rounds.starts = starts.take(rounds.rounds.len()).collect();
    rounds
}

fn packed(blocks: &[Rounds], line: LineSize) -> Vec<u8> {
    let keys = keys();
    let mut packer = Packer::new(usize::from(CPUS), &keys, line);
    for rounds in blocks {
        packer.add(rounds).unwrap();
    }
    let plenty = keys.iter().map(|_| Accesses(u64::MAX));
    let stream = packer.finish(plenty, Accesses(0)).unwrap();
    stream.bytes().unwrap().to_vec()
}

/// `None` for bytes that cannot be.
fn unpacked(bytes: &[u8]) -> Option<Vec<Rounds>> {
    unpacked_of(&Stream::open(Box::new(bytes.to_vec()), keys().len())?)
}

fn unpacked_of(stream: &Stream) -> Option<Vec<Rounds>> {
    let mut unpacker = Unpacker::new(stream, Row::of(&keys()));
    let mut blocks = Vec::new();
    loop {
        let mut rounds = Rounds::default();
        let take = |out: &mut Rounds, cpu, at, row: &Row, packed: &Packed| {
            out.steps.push(step(cpu, at, row, packed));
        };
        if !unpacker.next(&mut rounds, take)? {
            return Some(blocks);
        }
        blocks.push(rounds);
    }
}

fn blocks() -> impl Strategy<Value = Vec<Vec<Slice>>> {
    let slice = (0..CPUS, steps(), 0u32..100, any::<bool>());
    prop::collection::vec(prop::collection::vec(slice, 0..6), 1..4)
}

proptest! {
    #[test]
    fn what_is_unpacked_is_what_was_packed(blocks in blocks(), wide in any::<bool>()) {
        let blocks: Vec<Rounds> = blocks.iter().map(|slices| rounds(slices)).collect();
        let line = if wide { LineSize::B128 } else { LineSize::B64 };
        prop_assert_eq!(unpacked(&packed(&blocks, line)), Some(blocks));
    }

    /// The shelf's checksum finds damage; without it nothing may panic all the same.
    #[test]
    fn damage_does_no_harm(blocks in blocks(), at in any::<prop::sample::Index>(), bit in 0u8..8, cut in any::<bool>()) {
        let blocks: Vec<Rounds> = blocks.iter().map(|slices| rounds(slices)).collect();
        let mut bytes = packed(&blocks, LineSize::B64);
        let at = at.index(bytes.len());
        let packed: u32 = Stream::open(Box::new(bytes.clone()), keys().len()).unwrap().index.blocks.iter().map(|block| block.packed).sum();
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 1 << bit;
        }
        let found = unpacked(&bytes);
        prop_assert!(at >= packed as usize || found.is_none(), "a changed block is noticed");
        if let Some(mut stream) = Stream::open(Box::new(bytes.clone()), keys().len()) {
            let mut rest = bytes.as_slice();
            for block in &mut stream.index.blocks {
                let (now, after) = rest.split_at(block.packed as usize);
                (block.checksum, rest) = (xxh3_64(now), after);
            }
            // Somebody may have made the block's checksum as well.
            let _ = unpacked_of(&stream);
        }
    }

    #[test]
    fn a_stored_stream_is_read_where_it_is(blocks in blocks(), cut in any::<prop::sample::Index>()) {
        let blocks: Vec<Rounds> = blocks.iter().map(|slices| rounds(slices)).collect();
        let bytes = packed(&blocks, LineSize::B64);
        let stored = Stream::open(Box::new(bytes.clone()), keys().len()).unwrap();
        prop_assert_eq!(unpacked_of(&stored), Some(blocks));
        prop_assert!(stored.bytes().is_none());
        let less = bytes[..cut.index(bytes.len())].to_vec();
        let found = Stream::open(Box::new(less), keys().len());
        prop_assert!(found.is_none_or(|stream| unpacked_of(&stream).is_none()));
    }
}

/// Numbers without a pattern (xorshift, Marsaglia).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

const STEPS: usize = 24_000;

/// Steps are unpacked some hundred together, regardless of slices.
#[test]
fn slices_end_anywhere_among_steps_that_are_unpacked_together() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let lengths = [0, 255, 1, 256, 0, 257, 600, 3, 0, 511, 512, 513];
    let slices = lengths.map(|length| {
        let steps = (0..length).map(|_| Packed {
            row: random.below(12) as u32,
            addr: match random.below(8) {
                0 => linemate_recording::GuestAddr(random.below(u64::MAX)),
                _ => linemate_recording::GuestAddr(0xffff_8880_0000_0000 + 8 * random.below(64)),
            },
            gap: random.below(100) as u32,
            later: Later {
                touched: random.below(4),
                written: 0,
            },
            bits: NEEDED | (random.below(2) as u8 * SILENT),
            tie: 0,
        });
        let steps: Vec<Packed> = steps.collect();
        let (cpu, ends) = (random.below(CPUS.into()) as u16, random.below(2) == 0);
        (cpu, steps, 7, ends)
    });
    let blocks = vec![rounds(&slices), rounds(&slices[4..])];
    assert_eq!(unpacked(&packed(&blocks, LineSize::B64)), Some(blocks));
}

/// The bytes of a stream of steps in slices of 40, the CPUs in turn. Rows and lines have no
/// pattern; `like` determines gap and bits of a step from the row before it, its row and whether
/// its CPU used its line last, of the two in the set.
fn size_where(like: impl Fn(u32, u32, bool) -> (u32, u8)) -> usize {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut last = vec![(0, [None; 2]); usize::from(CPUS)];
    let slices: Vec<Slice> = (0..STEPS / 40)
        .map(|number| {
            let cpu = number as u16 % CPUS;
            let (before, lines) = &mut last[usize::from(cpu)];
            let steps = (0..40).map(|_| {
                let (row, set, line) = (random.below(12) as u32, random.below(2), random.below(2));
                let same = lines[set as usize].replace(line) == Some(line);
                let (gap, bits) = like(std::mem::replace(before, row), row, same);
                Packed {
                    row,
                    // Lines that are as far apart as there are sets are in one set.
                    addr: linemate_recording::GuestAddr(
                        0xffff_8880_0000_0000 + 64 * set + 4096 * line,
                    ),
                    gap,
                    later: Later::default(),
                    bits: NEEDED | bits,
                    tie: 0,
                }
            });
            (cpu, steps.collect(), 0, false)
        })
        .collect();
    packed(&[rounds(&slices)], LineSize::B64).len()
}

#[test]
fn what_follows_from_rows_and_lines_takes_no_room() {
    let alike = size_where(|_, _, _| (1, 0));
    // Up to 1,000 instructions, any bits: more than a byte for each step if it had to be written
    // down.
    let from = |seed: u64| {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.below(1 << 20);
        (random.below(1000) as u32, random.below(2) as u8 * SILENT)
    };
    let of_rows = size_where(|before, row, _| from(u64::from(12 * before + row) + 1));
    let of_both = size_where(|before, row, same| {
        from(u64::from(24 * before + 2 * row) + u64::from(same) + 1)
    });
    let numbers = RefCell::new(Random(77));
    let free = size_where(|_, _, _| from(1 + numbers.borrow_mut().below(1 << 40)));
    // What each pair of rows is like must be written once, here for every hundredth step.
    let most = alike + (free - alike) / 10;
    assert!(of_rows < most, "{alike} <= {of_rows} < {free}");
    assert!(of_both < most, "{alike} <= {of_both} < {free}");
    assert!(free > alike + STEPS, "{free}, {alike}");
}
