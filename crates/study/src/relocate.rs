//! New addresses for objects that do not fit their old ones any more.
//!
//! They come from address space that no kernel maps: the top of the lower half. An object keeps its place within 1 MiB, rounded up
//! to its alignment, so that it falls into the same sets of L1 and L2 as before; objects that lay directly one after the
//! other (elements of an array, neighbours in a slab) still do, so that they share the lines at their borders as before.
//!
//! Per-CPU memory is apart: addresses follow each other there, but each page is in a frame of its own ([`Frames`]), as the per-CPU
//! allocator's pages are.

/// The first address that is given away: below bit 56 (the sign of a 57-bit address), above all that Linux maps for a process unless it asks.
const START: u64 = 0x00e0_0000_0000_0000;
/// What an object's place is kept within.
const KEPT: u64 = 1 << 20;

/// Slots that an allocator gives out side by side are in one page.
pub(crate) const PAGE: u64 = 4096;

/// Where per-CPU memory is: beyond all else that is given away.
const PERCPU: u64 = START + (1 << 52);
/// Its bytes: as many pages as a [`Frames`] tells apart.
const PERCPU_BYTES: u64 = PAGE << u32::BITS;

/// Address space to give away.
#[derive(Clone, Debug)]
pub struct Area {
    next: u64,
    next_percpu: u64,
}

impl Default for Area {
    fn default() -> Area {
        Area {
            next: START,
            next_percpu: PERCPU,
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
    pub fn new(seed: u64) -> Frames {
        Frames {
            seed: mix((seed ^ (seed >> 32)) as u32),
        }
    }

    /// Where an address is: a place in a frame, if it is per-CPU memory.
    #[inline]
    pub fn place(self, addr: u64) -> u64 {
        match addr.checked_sub(PERCPU) {
            Some(offset) if offset < PERCPU_BYTES => {
                let frame = mix((offset / PAGE) as u32 ^ self.seed);
                PERCPU + u64::from(frame) * PAGE + offset % PAGE
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
    /// Room for `bytes` bytes from an address on that is within its 1 MiB as `like` is, rounded up to `align`.
    pub fn take(&mut self, bytes: u64, like: u64, align: u64) -> u64 {
        let start = self.next + (like % KEPT).next_multiple_of(align.max(1));
        let slots = (start - self.next + bytes).div_ceil(KEPT) + 1;
        self.next += slots * KEPT;
        start
    }

    /// Room for `bytes` bytes of per-CPU memory, from a page's start on.
    pub fn take_percpu(&mut self, bytes: u64) -> u64 {
        let start = self.next_percpu;
        self.next_percpu += bytes.next_multiple_of(PAGE);
        start
    }
}

/// Old addresses and new ones.
pub type Moves = Vec<(u64, u64)>;

/// How the objects of a type change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resize {
    /// Bytes so far.
    pub old: u64,
    /// Bytes from now on.
    pub new: u64,
    /// What their addresses have to be multiples of from now on.
    pub align: u64,
}

/// Old and new addresses of those of the objects at `bases` (ascending) that have to move.
pub fn relocate(bases: &[u64], resize: Resize, area: &mut Area) -> Moves {
    let Resize { old, new, align } = resize;
    let mut moved = Vec::new();
    let mut rest = bases;
    while let Some(first) = rest.first() {
        let follows = |pair: &[u64]| pair[1] - pair[0] == old && old > 0;
        let run = 1 + rest.windows(2).take_while(|pair| follows(pair)).count();
        let (now, later) = rest.split_at(run);
        rest = later;
        let misplaced = now.iter().any(|base| base % align.max(1) != 0);
        if new > old || misplaced || (new != old && run > 1) {
            let stride = new.next_multiple_of(align.max(1));
            let start = area.take(stride.saturating_mul(run as u64), *first, align);
            moved.extend(
                now.iter()
                    .zip(0u64..)
                    .map(|(base, i)| (*base, start + i * stride)),
            );
        }
    }
    moved
}

/// What an object of `size` bytes has for itself when objects of its type are at `bases` (ascending): the least distance between two in
/// one page, which is what the allocator gave each. Its own size where no two are so close.
pub fn slot(bases: impl Iterator<Item = u64>, size: u64) -> u64 {
    let mut last = None;
    let mut least = None;
    for base in bases {
        let gap = last.replace(base).map_or(u64::MAX, |last| base - last);
        if gap < PAGE && gap >= size {
            least = Some(least.map_or(gap, |least: u64| least.min(gap)));
        }
    }
    least.unwrap_or(size)
}

/// New addresses for pairs of objects that become one: per owner, one after the other in per-CPU memory. Gives the old and new addresses of the
/// first of each pair, and of the second.
pub fn colocate(
    pairs: &[(u16, u64, u64)],
    first: Resize,
    second: Resize,
    area: &mut Area,
) -> (Moves, Moves) {
    let align = first.align.max(second.align).max(1);
    let second_at = first.new.next_multiple_of(second.align.max(1));
    let stride = (second_at + second.new).next_multiple_of(align);
    let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
    let mut sorted = pairs.to_vec();
    sorted.sort_unstable();
    for owner in sorted.chunk_by(|a, b| a.0 == b.0) {
        let start = area.take_percpu(stride.saturating_mul(owner.len() as u64));
        for ((_, a, b), i) in owner.iter().zip(0u64..) {
            firsts.push((*a, start + i * stride));
            seconds.push((*b, start + i * stride + second_at));
        }
    }
    (firsts, seconds)
}

/// New addresses for the objects that each CPU uses: per owner, one after the other in per-CPU memory. Gives old and new addresses.
pub fn gather(owned: &[(u16, u64)], resize: Resize, area: &mut Area) -> Moves {
    let stride = resize.new.next_multiple_of(resize.align.max(1));
    let mut sorted = owned.to_vec();
    sorted.sort_unstable();
    let mut moved = Vec::new();
    for owner in sorted.chunk_by(|a, b| a.0 == b.0) {
        let start = area.take_percpu(stride.saturating_mul(owner.len() as u64));
        moved.extend(
            owner
                .iter()
                .zip(0u64..)
                .map(|((_, base), i)| (*base, start + i * stride)),
        );
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn an_object_that_grows_keeps_its_place_within_a_mebibyte() {
        let mut area = Area::default();
        let resize = Resize {
            old: 64,
            new: 128,
            align: 64,
        };
        let bases = [0xffff_8880_0012_3440, 0xffff_8880_0022_3440];
        let moved = relocate(&bases, resize, &mut area);
        assert_eq!(
            moved,
            [
                (bases[0], START + 0x2_3440),
                (bases[1], START + 2 * MIB + 0x2_3440)
            ]
        );
    }

    #[test]
    fn what_fits_stays() {
        let mut area = Area::default();
        let bases = [0x1040, 0x2080];
        assert_eq!(
            relocate(
                &bases,
                Resize {
                    old: 64,
                    new: 64,
                    align: 64
                },
                &mut area
            ),
            []
        );
        assert_eq!(
            relocate(
                &bases,
                Resize {
                    old: 64,
                    new: 40,
                    align: 8
                },
                &mut area
            ),
            []
        );
        let aligned = relocate(
            &bases,
            Resize {
                old: 64,
                new: 64,
                align: 128,
            },
            &mut area,
        );
        assert_eq!(
            aligned,
            [(0x1040, START + 0x1080)],
            "0x2080 is a multiple of 128"
        );
    }

    #[test]
    fn neighbours_stay_neighbours() {
        let mut area = Area::default();
        let bases = [0x1000, 0x1028, 0x1050, 0x2000];
        let moved = relocate(
            &bases,
            Resize {
                old: 40,
                new: 48,
                align: 8,
            },
            &mut area,
        );
        let at = START + 0x1000;
        let next = START + 2 * MIB + 0x2000;
        assert_eq!(
            moved,
            [
                (0x1000, at),
                (0x1028, at + 48),
                (0x1050, at + 96),
                (0x2000, next)
            ]
        );
        let mut area = Area::default();
        let shrunk = relocate(
            &bases[..2],
            Resize {
                old: 40,
                new: 32,
                align: 8,
            },
            &mut area,
        );
        assert_eq!(
            shrunk,
            [(0x1000, at), (0x1028, at + 32)],
            "an array has no gaps"
        );
    }

    #[test]
    fn a_slot_is_what_lies_between_neighbours() {
        let slot = |bases: &[u64], size| slot(bases.iter().copied(), size);
        assert_eq!(slot(&[0x1000, 0x1400, 0x1600, 0x9000], 0x100), 0x200);
        assert_eq!(slot(&[0x1000, 0x1100], 0x100), 0x100);
        assert_eq!(slot(&[0x1000, 0x2000], 0x100), 0x100, "two pages");
        assert_eq!(slot(&[0x1000, 0x1080], 0x100), 0x100, "one in the other");
        assert_eq!(slot(&[0x1000], 0x100), 0x100);
    }

    #[test]
    fn pairs_become_one_object_each() {
        let mut area = Area::default();
        let first = Resize {
            old: 512,
            new: 512,
            align: 64,
        };
        let second = Resize {
            old: 100,
            new: 100,
            align: 8,
        };
        let pairs = [
            (1, 0x9000, 0x5000),
            (0, 0x7000, 0x6000),
            (0, 0x3000, 0x4000),
        ];
        let (firsts, seconds) = colocate(&pairs, first, second, &mut area);
        let cpu1 = PERCPU + PAGE;
        assert_eq!(
            firsts,
            [(0x3000, PERCPU), (0x7000, PERCPU + 640), (0x9000, cpu1)]
        );
        assert_eq!(
            seconds,
            [
                (0x4000, PERCPU + 512),
                (0x6000, PERCPU + 1152),
                (0x5000, cpu1 + 512)
            ]
        );
    }

    /// In which sets of gnr-2s-480's L2 the first lines of one CPU's merged objects are: 1111 groups' queues and entities, 1 KiB a pair.
    #[test]
    fn merged_objects_reach_sets_as_pages_at_random_do() {
        let half = Resize {
            old: 512,
            new: 512,
            align: 64,
        };
        let pairs: Vec<(u16, u64, u64)> =
            (0..1111).map(|i| (0, i * 8192, i * 8192 + 512)).collect();
        let (firsts, _) = colocate(&pairs, half, half, &mut Area::default());
        let machine = linemate_machine::find("gnr-2s-480").unwrap();
        let l2 = |frames: Option<Frames>| {
            let place = |(_, new): &(u64, u64)| match frames {
                Some(frames) => linemate_recording::GuestAddr(frames.place(*new)),
                None => linemate_recording::GuestAddr(*new),
            };
            linemate_replay::sets_reached(&machine, firsts.iter().map(place)).l2
        };
        // At a perfect stride of 1 KiB: 128 sets, each with the same number or one more.
        let perfect = l2(None);
        assert_eq!((perfect.reached, perfect.fullest), (128, 9));
        // 278 pages in 32 groups of sets at random: 8.7 in each on average, and each with four of the lines. The fullest of 32 such groups has
        // between 11 and 22 in all but about one of a thousand cases.
        for seed in 1..=8 {
            let scattered = l2(Some(Frames::new(seed)));
            assert_eq!((scattered.lines, scattered.reached), (1111, 128), "{seed}");
            assert!(
                (11..=22).contains(&scattered.fullest),
                "{seed}: {scattered:?}"
            );
        }
        assert_ne!(l2(Some(Frames::new(1))), l2(Some(Frames::new(2))));
    }

    #[test]
    fn objects_of_a_cpu_are_packed_for_it() {
        let mut area = Area::default();
        let resize = Resize {
            old: 40,
            new: 48,
            align: 64,
        };
        let owned = [(1, 0x9000), (0, 0x7000), (0, 0x3000)];
        let moved = gather(&owned, resize, &mut area);
        let expected = [
            (0x3000, PERCPU),
            (0x7000, PERCPU + 64),
            (0x9000, PERCPU + PAGE),
        ];
        assert_eq!(moved, expected);
    }

    #[test]
    fn pages_of_percpu_memory_are_in_frames_of_their_own() {
        let (one, other) = (Frames::new(1), Frames::new(2));
        let pages: Vec<u64> = (0..4096).map(|page| PERCPU + page * PAGE).collect();
        let frames: std::collections::BTreeSet<u64> =
            pages.iter().map(|page| one.place(*page)).collect();
        assert_eq!(frames.len(), pages.len());
        assert!(
            frames
                .iter()
                .all(|frame| frame % PAGE == 0 && (PERCPU..PERCPU + PERCPU_BYTES).contains(frame))
        );
        let page = pages[7];
        assert_eq!(one.place(page + 100), one.place(page) + 100);
        assert_ne!(one.place(page), other.place(page));
        // Nothing else moves.
        for addr in [0, START, PERCPU - 1, PERCPU + PERCPU_BYTES, u64::MAX] {
            assert_eq!(one.place(addr), addr);
        }
    }
}
