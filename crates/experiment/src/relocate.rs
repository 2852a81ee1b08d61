//! New addresses for objects that do not fit their old ones any more.
//!
//! They come from address space that no kernel maps: the top of the lower half. An object keeps its
//! place within 1 MiB, rounded up to its alignment, so that it falls into the same sets of L1 and
//! L2 as before; objects that lay directly one after the other (elements of an array, neighbours in
//! a slab) still do, so that they share the lines at their borders as before.
//!
//! Where lines are fetched in pairs, an object that starts a line now and did not as recorded has
//! no place to keep: which half of a pair the allocator would give it is chance. Such objects are
//! apart ([`Halves`]), so that a variant can have them in either half.
//!
//! Per-CPU memory is apart: addresses follow each other there, but each page is in a frame of its
//! own ([`Frames`]), as the per-CPU allocator's pages are.

use linemate_machine::LineSize;
use linemate_recording::{CpuId, GuestAddr, PAGE};
use linemate_types::{ByteAlign, ByteOffset, ByteSize};

use crate::conditions::Seed;

/// The first address that is given away: below bit 56 (the sign of a 57-bit address), above all
/// that Linux maps for a process unless it asks.
const START: GuestAddr = GuestAddr(0x00e0_0000_0000_0000);
/// What an object's place is kept within.
const KEPT: ByteSize = ByteSize(1 << 20);

/// Where objects are whose half of a pair of lines is chance.
const EITHER_HALF: GuestAddr = GuestAddr(START.0 + (1 << 51));
/// Where per-CPU memory is: beyond all else that is given away.
const PERCPU: GuestAddr = GuestAddr(START.0 + (1 << 52));
/// Its bytes: as many pages as a [`Frames`] distinguishes.
const PERCPU_BYTES: ByteSize = ByteSize(PAGE << u32::BITS);

/// Address space to give away.
#[derive(Clone, Debug)]
pub struct Area {
    line: LineSize,
    next: GuestAddr,
    next_either: GuestAddr,
    next_percpu: GuestAddr,
}

/// In which half of a pair of lines the objects are that can be in either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Halves {
    /// That of the next line as recorded.
    #[default]
    Next,
    /// The other one, with lines of this size.
    Other(LineSize),
}

impl Halves {
    /// Where an address is.
    #[inline]
    pub fn place(self, addr: GuestAddr) -> GuestAddr {
        match self {
            Halves::Other(line) if Area::is_in_either_half(addr) => {
                addr.wrapping_add(ByteOffset(line.bytes()))
            }
            _ => addr,
        }
    }
}

/// In which frame each page of per-CPU memory is: pseudo-random, by a seed; no two pages in one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    seed: u32,
}

impl Frames {
    /// The frames of that seed.
    pub fn new(seed: Seed) -> Frames {
        Frames {
            seed: mix((seed.0 ^ (seed.0 >> 32)) as u32),
        }
    }

    /// Where an address is: a place in a frame, if it is per-CPU memory.
    #[inline]
    pub fn place(self, addr: GuestAddr) -> GuestAddr {
        match addr.0.checked_sub(PERCPU.0) {
            Some(offset) if offset < PERCPU_BYTES.0 => {
                // A permutation of 32-bit numbers, since each step of `mix` can be undone: no two
                // pages get one frame, without a table of those that are taken.
                let frame = mix((offset / PAGE) as u32 ^ self.seed);
                GuestAddr(PERCPU.0 + u64::from(frame) * PAGE + offset % PAGE)
            }
            _ => addr,
        }
    }
}

/// The last step of MurmurHash3, which gives each number another one.
fn mix(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x85eb_ca6b);
    x ^= x >> 13;
    x = x.wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

impl Area {
    /// The whole area, with nothing taken.
    pub fn new(line: LineSize) -> Area {
        Area {
            line,
            next: START,
            next_either: EITHER_HALF,
            next_percpu: PERCPU,
        }
    }

    /// Room for `bytes` bytes from an address on that is within its 1 MiB as `like` is, rounded up
    /// to `align`.
    pub fn take(&mut self, bytes: ByteSize, like: GuestAddr, align: ByteAlign) -> GuestAddr {
        let before = (like.0 % KEPT.0).next_multiple_of(align.bytes());
        // Aligned to lines and not to pairs, from an address that says nothing about it.
        let either = align.bytes() == self.line.bytes() && like.0 % align.bytes() != 0;
        let next = match either {
            true => &mut self.next_either,
            false => &mut self.next,
        };
        let start = GuestAddr(next.0 + before);
        // One more than needed: a gap, so that nothing that is moved shares a line or a pair of
        // lines with what is moved next.
        let slots = (before + bytes.0).div_ceil(KEPT.0) + 1;
        next.0 += slots * KEPT.0;
        start
    }

    /// Whether an address that was given away can be in either half of a pair of lines.
    pub fn is_in_either_half(addr: GuestAddr) -> bool {
        (EITHER_HALF..PERCPU).contains(&addr)
    }

    /// Room for `bytes` bytes of per-CPU memory, from a page's start on.
    pub fn take_percpu(&mut self, bytes: ByteSize) -> GuestAddr {
        let start = self.next_percpu;
        self.next_percpu.0 += bytes.0.next_multiple_of(PAGE);
        start
    }
}

/// Old addresses and new ones.
pub type Moves = Vec<(GuestAddr, GuestAddr)>;

/// How the objects of a type change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resize {
    /// Bytes of an object as recorded.
    pub old: ByteSize,
    /// Bytes from now on.
    pub new: ByteSize,
    /// What their new addresses must be multiples of.
    pub align: ByteAlign,
}

/// Old and new addresses of those of the objects at `bases` (ascending) that must move.
pub fn relocate(bases: &[GuestAddr], resize: Resize, area: &mut Area) -> Moves {
    let Resize { old, new, align } = resize;
    let mut moved = Vec::new();
    let mut rest = bases;
    while let Some(first) = rest.first() {
        let follows = |pair: &[GuestAddr]| pair[1].0 - pair[0].0 == old.0 && old > ByteSize::ZERO;
        let run = 1 + rest.windows(2).take_while(|pair| follows(pair)).count();
        let (now, later) = rest.split_at(run);
        rest = later;
        let misplaced = now.iter().any(|base| base.0 % align.bytes() != 0);
        // One that shrinks or keeps its size stays, unless neighbours in an array would be left
        // with a gap.
        if new > old || misplaced || (new != old && run > 1) {
            let stride = new.align_up(align);
            let start = area.take(times(stride, run), *first, align);
            moved.extend(now.iter().copied().zip(every(start, stride)));
        }
    }
    moved
}

/// What an object of `size` bytes has for itself when objects of its type are at `bases`
/// (ascending): the least distance between two in one page, which is what the allocator gave each.
/// Its own size where no two are so close.
pub fn slot(bases: impl Iterator<Item = GuestAddr>, size: ByteSize) -> ByteSize {
    let mut last: Option<GuestAddr> = None;
    let mut least: Option<ByteSize> = None;
    for base in bases {
        let gap = last.replace(base).map(|last| ByteSize(base.0 - last.0));
        // Slots that an allocator gives out one after the other are in one page.
        let gap = gap.filter(|gap| gap.0 < PAGE && *gap >= size);
        least = least.into_iter().chain(gap).min();
    }
    least.unwrap_or(size)
}

/// Room for that many, as far as there are addresses.
pub(crate) fn times(stride: ByteSize, count: usize) -> ByteSize {
    ByteSize(stride.0.saturating_mul(count as u64))
}

/// Addresses at that distance.
pub(crate) fn every(start: GuestAddr, stride: ByteSize) -> impl Iterator<Item = GuestAddr> {
    (0u64..).map(move |i| GuestAddr(start.0 + i * stride.0))
}

/// Two objects that become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectPair {
    /// The CPU that makes more than half of the accesses to the first, if any does.
    pub owner: Option<CpuId>,
    /// Where the first is.
    pub first: GuestAddr,
    /// Where the second is.
    pub second: GuestAddr,
}

/// New addresses for pairs of objects that become one: per owner, one after the other in per-CPU
/// memory; those without one come last. Gives the old and new addresses of the first of each pair,
/// and of the second.
pub fn colocate(
    pairs: &[ObjectPair],
    first: Resize,
    second: Resize,
    area: &mut Area,
) -> (Moves, Moves) {
    let align = first.align.max(second.align);
    let second_at = first.new.align_up(second.align);
    let stride = (second_at + second.new).align_up(align);
    let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
    let mut sorted = pairs.to_vec();
    // By recorded address within an owner: which objects become neighbours does not depend on the
    // order in which pairs were found.
    sorted.sort_unstable_by_key(|pair| (pair.owner.is_none(), pair.owner, pair.first, pair.second));
    for owner in sorted.chunk_by(|a, b| a.owner == b.owner) {
        let start = area.take_percpu(times(stride, owner.len()));
        for (pair, new) in owner.iter().zip(every(start, stride)) {
            firsts.push((pair.first, new));
            seconds.push((pair.second, GuestAddr(new.0 + second_at.0)));
        }
    }
    (firsts, seconds)
}

/// An object that one CPU makes more than half of the accesses to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owned {
    pub owner: CpuId,
    /// Its first byte, as recorded.
    pub base: GuestAddr,
}

/// New addresses for the objects that each CPU uses: per owner, one after the other in per-CPU
/// memory. Gives old and new addresses.
pub fn gather(owned: &[Owned], resize: Resize, area: &mut Area) -> Moves {
    let stride = resize.new.align_up(resize.align);
    let mut sorted = owned.to_vec();
    sorted.sort_unstable();
    let mut moved = Vec::new();
    for owner in sorted.chunk_by(|a, b| a.owner == b.owner) {
        let start = area.take_percpu(times(stride, owner.len()));
        let bases = owner.iter().map(|owned| owned.base);
        moved.extend(bases.zip(every(start, stride)));
    }
    moved
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn space() -> Area {
        Area::new(LineSize::B64)
    }

    const MIB: u64 = 1 << 20;

    fn resize(old: u64, new: u64, align: u64) -> Resize {
        Resize {
            old: ByteSize(old),
            new: ByteSize(new),
            align: ByteAlign::new(align).unwrap(),
        }
    }

    fn plus(addr: GuestAddr, bytes: u64) -> GuestAddr {
        GuestAddr(addr.0 + bytes)
    }

    fn moves<const N: usize>(moves: [(u64, GuestAddr); N]) -> Moves {
        moves.map(|(old, new)| (GuestAddr(old), new)).to_vec()
    }

    #[test]
    fn an_object_that_grows_keeps_its_place_within_a_mebibyte() {
        let mut area = space();
        let resize = resize(64, 128, 64);
        let bases = [0xffff_8880_0012_3440, 0xffff_8880_0022_3440].map(GuestAddr);
        let moved = relocate(&bases, resize, &mut area);
        assert_eq!(
            moved,
            [
                (bases[0], plus(START, 0x2_3440)),
                (bases[1], plus(START, 2 * MIB + 0x2_3440))
            ]
        );
    }

    #[test]
    fn what_fits_stays() {
        let mut area = space();
        let bases = [0x1040, 0x2080].map(GuestAddr);
        assert_eq!(relocate(&bases, resize(64, 64, 64), &mut area), []);
        assert_eq!(relocate(&bases, resize(64, 40, 8), &mut area), []);
        let aligned = relocate(&bases, resize(64, 64, 128), &mut area);
        assert_eq!(
            aligned,
            moves([(0x1040, plus(START, 0x1080))]),
            "0x2080 is a multiple of 128"
        );
    }

    #[test]
    fn what_starts_a_line_now_can_be_in_either_half_of_a_pair() {
        let mut area = space();
        let bases = [0x1010, 0x2040].map(GuestAddr);
        let moved = relocate(&bases, resize(48, 64, 64), &mut area);
        let either: Vec<bool> = moved
            .iter()
            .map(|(_, new)| Area::is_in_either_half(*new))
            .collect();
        assert_eq!(either, [true, false], "the second started a line before");
        let other = Halves::Other(LineSize::B64);
        let places = moved.iter().map(|(_, new)| other.place(*new));
        let places: Vec<u64> = places.map(|addr| addr.0 % 128).collect();
        assert_eq!(moved[0].1.0 % 128, 64, "the next line");
        assert_eq!(places, [0, 64]);
        assert_eq!(Halves::Next.place(moved[0].1), moved[0].1);
        // Aligned to pairs, or to less than a line.
        for align in [128, 32] {
            let moved = relocate(&bases[..1], resize(48, 256, align), &mut area);
            assert!(!Area::is_in_either_half(moved[0].1), "{align}");
        }
        // Per-CPU memory has its place.
        let percpu = area.take_percpu(ByteSize(64));
        assert_eq!(other.place(percpu), percpu);
    }

    #[test]
    fn neighbours_stay_neighbours() {
        let mut area = space();
        let bases = [0x1000, 0x1028, 0x1050, 0x2000].map(GuestAddr);
        let moved = relocate(&bases, resize(40, 48, 8), &mut area);
        let at = plus(START, 0x1000);
        let next = plus(START, 2 * MIB + 0x2000);
        assert_eq!(
            moved,
            moves([
                (0x1000, at),
                (0x1028, plus(at, 48)),
                (0x1050, plus(at, 96)),
                (0x2000, next)
            ])
        );
        let mut area = space();
        let shrunk = relocate(&bases[..2], resize(40, 32, 8), &mut area);
        assert_eq!(
            shrunk,
            moves([(0x1000, at), (0x1028, plus(at, 32))]),
            "an array has no gaps"
        );
    }

    #[test]
    fn a_slot_is_what_lies_between_neighbours() {
        let slot =
            |bases: &[u64], size| slot(bases.iter().copied().map(GuestAddr), ByteSize(size)).0;
        assert_eq!(slot(&[0x1000, 0x1400, 0x1600, 0x9000], 0x100), 0x200);
        assert_eq!(slot(&[0x1000, 0x1100], 0x100), 0x100);
        assert_eq!(slot(&[0x1000, 0x2000], 0x100), 0x100, "two pages");
        assert_eq!(slot(&[0x1000, 0x1080], 0x100), 0x100, "one in the other");
        assert_eq!(slot(&[0x1000], 0x100), 0x100);
    }

    #[test]
    fn pairs_become_one_object_each() {
        let mut area = space();
        let first = resize(512, 512, 64);
        let second = resize(100, 100, 8);
        let pair = |owner: Option<u16>, first, second| ObjectPair {
            owner: owner.map(CpuId),
            first: GuestAddr(first),
            second: GuestAddr(second),
        };
        let pairs = [
            pair(None, 0x1000, 0x2000),
            pair(Some(1), 0x9000, 0x5000),
            pair(Some(0), 0x7000, 0x6000),
            pair(Some(0), 0x3000, 0x4000),
        ];
        let (firsts, seconds) = colocate(&pairs, first, second, &mut area);
        let cpu1 = plus(PERCPU, PAGE);
        let nobody = plus(cpu1, PAGE);
        assert_eq!(
            firsts,
            moves([
                (0x3000, PERCPU),
                (0x7000, plus(PERCPU, 640)),
                (0x9000, cpu1),
                (0x1000, nobody)
            ])
        );
        assert_eq!(
            seconds,
            moves([
                (0x4000, plus(PERCPU, 512)),
                (0x6000, plus(PERCPU, 1152)),
                (0x5000, plus(cpu1, 512)),
                (0x2000, plus(nobody, 512))
            ])
        );
    }

    /// In which sets of gnr-2s-480's L2 the first lines of one CPU's merged objects are: 1111
    /// groups' queues and entities, 1 KiB a pair.
    #[test]
    fn merged_objects_reach_sets_as_pages_at_random_do() {
        let half = resize(512, 512, 64);
        let pair = |i: u64| ObjectPair {
            owner: Some(CpuId(0)),
            first: GuestAddr(i * 8192),
            second: GuestAddr(i * 8192 + 512),
        };
        let pairs: Vec<ObjectPair> = (0..1111).map(pair).collect();
        let (firsts, _) = colocate(&pairs, half, half, &mut space());
        let machine = linemate_machine::find("gnr-2s-480").unwrap();
        let l2 = |frames: Option<Frames>| {
            let place = |(_, new): &(GuestAddr, GuestAddr)| match frames {
                Some(frames) => frames.place(*new),
                None => *new,
            };
            linemate_replay::sets_reached(&machine, firsts.iter().map(place)).l2
        };
        // At a perfect stride of 1 KiB: 128 sets, each with the same number or one more.
        let perfect = l2(None);
        assert_eq!((perfect.reached, perfect.fullest), (128, 9));
        // 278 pages in 32 groups of sets at random: 8.7 in each on average, and each with four of
        // the lines. The fullest of 32 such groups has between 11 and 22 in all but about one of a
        // thousand cases.
        for seed in 1..=8 {
            let scattered = l2(Some(Frames::new(Seed(seed))));
            assert_eq!((scattered.lines, scattered.reached), (1111, 128), "{seed}");
            assert!(
                (11..=22).contains(&scattered.fullest),
                "{seed}: {scattered:?}"
            );
        }
        assert_ne!(
            l2(Some(Frames::new(Seed(1)))),
            l2(Some(Frames::new(Seed(2))))
        );
    }

    #[test]
    fn objects_of_a_cpu_are_packed_for_it() {
        let mut area = space();
        let resize = resize(40, 48, 64);
        let owned = [(1, 0x9000), (0, 0x7000), (0, 0x3000)].map(|(cpu, base)| Owned {
            owner: CpuId(cpu),
            base: GuestAddr(base),
        });
        let moved = gather(&owned, resize, &mut area);
        let expected = moves([
            (0x3000, PERCPU),
            (0x7000, plus(PERCPU, 64)),
            (0x9000, plus(PERCPU, PAGE)),
        ]);
        assert_eq!(moved, expected);
    }

    #[test]
    fn pages_of_percpu_memory_are_in_frames_of_their_own() {
        let (one, other) = (Frames::new(Seed(1)), Frames::new(Seed(2)));
        let pages = (0..4096).map(|page| plus(PERCPU, page * PAGE));
        let pages: Vec<GuestAddr> = pages.collect();
        let end = plus(PERCPU, PERCPU_BYTES.0);
        let frames: std::collections::BTreeSet<GuestAddr> =
            pages.iter().map(|page| one.place(*page)).collect();
        assert_eq!(frames.len(), pages.len());
        assert!(
            frames
                .iter()
                .all(|frame| frame.0 % PAGE == 0 && (PERCPU..end).contains(frame))
        );
        let page = pages[7];
        assert_eq!(one.place(plus(page, 100)), plus(one.place(page), 100));
        assert_ne!(one.place(page), other.place(page));
        // Nothing else moves.
        let before = GuestAddr(PERCPU.0 - 1);
        for addr in [GuestAddr(0), START, before, end, GuestAddr(u64::MAX)] {
            assert_eq!(one.place(addr), addr);
        }
    }
}
