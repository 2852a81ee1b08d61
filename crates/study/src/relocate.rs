//! New addresses for objects that do not fit their old ones any more.
//!
//! They come from address space that no kernel maps: the top of the lower half. An object keeps its place within 1 MiB, rounded up
//! to its alignment, so that it falls into the same sets of L1 and L2 as before; objects that lay directly one after the
//! other (elements of an array, neighbours in a slab) still do, so that they share the lines at their borders as before.

/// The first address that is given away: below bit 56 (the sign of a 57-bit address), above all that Linux maps for a process unless it asks.
const START: u64 = 0x00e0_0000_0000_0000;
/// What an object's place is kept within.
const KEPT: u64 = 1 << 20;

/// Slots that an allocator gives out side by side are in one page.
const PAGE: u64 = 4096;

/// Address space to give away.
#[derive(Clone, Debug)]
pub struct Area {
    next: u64,
}

impl Default for Area {
    fn default() -> Area {
        Area { next: START }
    }
}

impl Area {
    /// Room for `bytes` bytes from an address on that is within its 1 MiB as `like` is, rounded up to `align`.
    pub fn take(&mut self, bytes: u64, like: u64, align: u64) -> u64 {
        let start = self.next + (like % KEPT).next_multiple_of(align.max(1));
        let slots = (start - self.next + bytes).div_ceil(KEPT) + 1;
        self.next += slots * KEPT;
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

/// New addresses for pairs of objects that become one: per owner, one after the other. Gives the old and new addresses of the
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
        let start = area.take(stride.saturating_mul(owner.len() as u64), 0, align);
        for ((_, a, b), i) in owner.iter().zip(0u64..) {
            firsts.push((*a, start + i * stride));
            seconds.push((*b, start + i * stride + second_at));
        }
    }
    (firsts, seconds)
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
        let cpu1 = START + 3 * MIB - MIB;
        assert_eq!(
            firsts,
            [(0x3000, START), (0x7000, START + 640), (0x9000, cpu1)]
        );
        assert_eq!(
            seconds,
            [
                (0x4000, START + 512),
                (0x6000, START + 1152),
                (0x5000, cpu1 + 512)
            ]
        );
    }
}
