//! The known contents of guest memory, to find stores that change nothing.
//!
//! A flat copy of guest-physical memory (pages appear when touched) and a bit per byte that says
//! whether the copy is known to be right. Bytes become known by stores through the kernel's
//! direct map and image and, if user code is recorded, by programs; they become unknown when the
//! page allocator hands out their page or they are written in ways that are not seen here. In doubt
//! a byte is unknown, so a store is called silent only if it is.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use memmap2::{MmapMut, MmapOptions};

/// Start of the kernel image's mapping; physical address 0 without address randomisation.
const IMAGE: u64 = 0xffff_ffff_8000_0000;
/// Bytes that the image mapping spans, without modules (those are vmalloc memory).
const IMAGE_SIZE: u64 = 1 << 29;
/// Where q35 puts the part of memory that does not fit below 4 GiB: never more than this above its
/// size.
const HOLE: u64 = 2 << 30;

/// Whose stores may be called silent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compared {
    /// The kernel's: the page allocator says when memory changes hands.
    pub(crate) kernel: bool,
    /// Those through user mappings: all code that uses them is recorded.
    pub(crate) programs: bool,
}

#[cfg(test)]
pub(crate) const EVERYBODY: Compared = Compared {
    kernel: true,
    programs: true,
};

/// Addresses whose contents can be known, for code that must not look at the contents: all that
/// [`Shadow`] covers, and few others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tracked {
    direct_map: u64,
    length: u64,
    programs: bool,
}

impl Tracked {
    /// What a [`Shadow`] with the same figures covers.
    pub(crate) fn new(memory: u64, direct_map: u64, compared: Compared) -> Self {
        Self {
            direct_map,
            length: memory.saturating_add(HOLE),
            programs: compared.programs,
        }
    }

    /// Whether what is stored through user mappings may be known, too.
    #[inline(always)]
    pub(crate) fn covers_programs(self) -> bool {
        self.programs
    }

    /// Whether contents may be known.
    #[inline(always)]
    pub(crate) fn may_cover(self, address: u64) -> bool {
        address.wrapping_sub(self.direct_map) < self.length
            || (address.wrapping_sub(IMAGE) < IMAGE_SIZE && self.length > 0)
    }
}

/// A [`Tracked`] that is set once, before it is needed: reading it costs two loads.
#[derive(Debug)]
pub(crate) struct TrackedCell {
    direct_map: AtomicU64,
    length: AtomicU64,
    programs: AtomicBool,
}

impl TrackedCell {
    pub(crate) const fn new() -> Self {
        Self {
            direct_map: AtomicU64::new(0),
            length: AtomicU64::new(0),
            programs: AtomicBool::new(false),
        }
    }

    pub(crate) fn set(&self, tracked: Tracked) {
        self.direct_map.store(tracked.direct_map, Ordering::Relaxed);
        self.length.store(tracked.length, Ordering::Relaxed);
        self.programs.store(tracked.programs, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> Tracked {
        Tracked {
            direct_map: self.direct_map.load(Ordering::Relaxed),
            length: self.length.load(Ordering::Relaxed),
            programs: self.programs.load(Ordering::Relaxed),
        }
    }
}

/// Known contents of guest memory.
#[derive(Debug)]
pub(crate) struct Shadow {
    bytes: MmapMut,
    known: MmapMut,
    direct_map: u64,
    compared: Compared,
}

impl Shadow {
    /// For a guest of `memory` bytes whose direct map starts at `direct_map`. Only reserves address
    /// space.
    ///
    /// # Errors
    /// If the address space is not available.
    pub(crate) fn new(memory: u64, direct_map: u64, compared: Compared) -> io::Result<Self> {
        let length = usize::try_from(memory.saturating_add(HOLE)).map_err(io::Error::other)?;
        // Anonymous pages that the host provides when they are touched: a guest of many GiB costs
        // what it uses.
        let map = |length| MmapOptions::new().len(length).no_reserve_swap().map_anon();
        // Eight bytes more, so that a value's bits can always be read as two whole words.
        Ok(Self {
            bytes: map(length)?,
            known: map(length / 8 + 16)?,
            direct_map,
            compared,
        })
    }

    /// Whether a store that changes nothing may be called silent: one through a user mapping, or
    /// the kernel's.
    #[inline]
    pub(crate) fn compares(&self, user_mapping: bool) -> bool {
        match user_mapping {
            true => self.compared.programs,
            false => self.compared.kernel,
        }
    }

    /// The physical address of a permanently mapped kernel address.
    #[inline]
    fn physical(&self, address: u64) -> Option<usize> {
        let image = address.wrapping_sub(IMAGE);
        let physical = if image < IMAGE_SIZE {
            image
        } else {
            address.wrapping_sub(self.direct_map)
        };
        usize::try_from(physical)
            .ok()
            .filter(|p| *p < self.bytes.len().saturating_sub(16))
    }

    /// Records a store or a load of `size` ≤ 16 bytes; returns whether they were already known to
    /// be there.
    #[inline]
    pub(crate) fn learn(&mut self, address: u64, size: u8, value: u128) -> bool {
        let Some(start) = self.physical(address) else {
            return false;
        };
        let size = usize::from(size.min(16));
        // Sixteen bytes are always there (see `physical`), and one masked word is faster than a
        // copy of `size` bytes.
        let Some(bytes) = self
            .bytes
            .get_mut(start..)
            .and_then(|rest| rest.first_chunk_mut::<16>())
        else {
            return false;
        };
        let old = u128::from_le_bytes(*bytes);
        let mask = if size == 16 {
            u128::MAX
        } else {
            (1u128 << (8 * size)) - 1
        };
        let change = (old ^ value) & mask;
        if change != 0 {
            *bytes = (old ^ change).to_le_bytes();
        }
        // Marked in any case: the first store makes the bytes known, the second can be silent.
        self.mark_known(start, size) && change == 0
    }

    /// [`Shadow::learn`] for 2^`size_log2` ≤ 8 bytes; the part of `value` above them is
    /// meaningless. This covers nearly all stores: two words of a host's register size instead of
    /// five.
    #[inline]
    pub(crate) fn learn_word(&mut self, address: u64, size_log2: u8, value: u64) -> bool {
        let size = 1u32 << size_log2.min(3);
        let Some(start) = self.physical(address) else {
            return false;
        };
        let (place, first) = (start / 8, start % 8);
        let bytes = self
            .bytes
            .get_mut(start..)
            .and_then(<[u8]>::first_chunk_mut::<8>);
        let known = self
            .known
            .get_mut(place..)
            .and_then(<[u8]>::first_chunk_mut::<2>);
        let (Some(bytes), Some(known)) = (bytes, known) else {
            return false;
        };
        let old = u64::from_le_bytes(*bytes);
        let change = (old ^ value) & u64::MAX >> (64 - 8 * size);
        if change != 0 {
            *bytes = (old ^ change).to_le_bytes();
        }
        let before = u16::from_le_bytes(*known);
        let bits = ((1u16 << size) - 1) << first;
        if before & bits != bits {
            *known = (before | bits).to_le_bytes();
            return false;
        }
        change == 0
    }

    /// Marks bytes known; returns whether all already were.
    #[inline]
    fn mark_known(&mut self, start: usize, size: usize) -> bool {
        let first = start / 64 * 8;
        let bits = ((1u128 << size) - 1) << (start % 64);
        let Some(word) = self.known.get_mut(first..first + 8) else {
            return false;
        };
        let known = word_at(word);
        let low = bits as u64;
        let mut all = known & low == low;
        if !all {
            word.copy_from_slice(&(known | low).to_le_bytes());
        }
        let high = (bits >> 64) as u64;
        if high != 0 {
            if let Some(word) = self.known.get_mut(first + 8..first + 16) {
                let known = word_at(word);
                all &= known & high == high;
                word.copy_from_slice(&(known | high).to_le_bytes());
            }
        }
        all
    }

    /// Forgets the contents after a store of unknown value at a kernel address.
    #[inline]
    pub(crate) fn forget(&mut self, address: u64, size: u8) {
        let Some(start) = self.physical(address) else {
            return;
        };
        let known = self.known.get_mut(start / 8..);
        if let (0..=8, Some(known)) = (size, known.and_then(<[u8]>::first_chunk_mut::<2>)) {
            let bits = ((1u16 << size) - 1) << (start % 8);
            *known = (u16::from_le_bytes(*known) & !bits).to_le_bytes();
        } else {
            self.forget_physical(start as u64..start as u64 + u64::from(size));
        }
    }

    /// Forgets a range of physical memory. Bounds outside memory are clamped.
    pub(crate) fn forget_physical(&mut self, range: Range<u64>) {
        let limit = self.bytes.len() as u64;
        let (mut at, end) = (
            range.start.min(limit) as usize,
            range.end.min(limit) as usize,
        );
        while at < end {
            let in_byte = at % 8;
            if in_byte == 0 && end - at >= 8 {
                let whole = (end - at) / 8;
                if let Some(known) = self.known.get_mut(at / 8..at / 8 + whole) {
                    known.fill(0);
                }
                at += whole * 8;
                continue;
            }
            let take = (8 - in_byte).min(end - at);
            let bits = (((1u32 << take) - 1) << in_byte) as u8;
            if let Some(known) = self.known.get_mut(at / 8) {
                *known &= !bits;
            }
            at += take;
        }
    }
}

#[inline]
fn word_at(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk::<8>()
        .map_or(0, |b| u64::from_le_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: u64 = 0xffff_8880_0000_0000;

    fn shadow() -> Shadow {
        Shadow::new(1 << 20, MAP, EVERYBODY).unwrap()
    }

    #[test]
    fn a_store_is_silent_only_when_all_its_bytes_were_known() {
        let mut shadow = shadow();
        assert!(
            !shadow.learn(MAP + 64, 8, 0),
            "zero is no better known than any value"
        );
        assert!(shadow.learn(MAP + 64, 8, 0));
        assert!(!shadow.learn(MAP + 64, 8, 1));
        assert!(shadow.learn(MAP + 64, 4, 1));
        assert!(!shadow.learn(MAP + 68, 8, 0), "its upper half is unknown");
        assert!(shadow.learn(MAP + 64, 8, 1));
    }

    #[test]
    fn bytes_are_distinguished_across_the_words_of_the_bit_map() {
        let mut shadow = shadow();
        let value = 0x1122_3344_5566_7788_99aa_bbcc_ddee_ff00_u128;
        for at in 0..64 {
            let address = MAP + 0x1000 + at * 256 + at;
            assert!(!shadow.learn(address, 16, value));
            assert!(shadow.learn(address, 16, value));
            assert!(shadow.learn(address + 15, 1, 0x11));
            assert!(!shadow.learn(address + 16, 1, 0));
        }
    }

    #[test]
    fn words_are_learnt_as_any_other_values() {
        // The same pseudo-random stores both ways; the bits above a value's size are noise.
        let (mut one, mut other) = (shadow(), shadow());
        let mut state = 1u64;
        let mut silent = 0;
        for _ in 0..20_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (address, size_log2) = (MAP + (state >> 40) % 300, (state >> 60) as u8 % 4);
            let value = (state >> 33) % 2 * 0x0101_0101_0101_0101;
            let bits = 8 << size_log2;
            let whole = value & u64::MAX >> (64 - bits);
            let noise = if bits == 64 { 0 } else { state << bits };
            let known = one.learn(address, 1 << size_log2, whole.into());
            assert_eq!(other.learn_word(address, size_log2, whole | noise), known);
            silent += u32::from(known);
            if state >> 50 & 15 == 0 {
                one.forget(address, 3);
                other.forget(address, 3);
            }
        }
        assert!((1000..19_000).contains(&silent), "{silent}");
        assert!(!other.learn_word(0xffff_c900_0000_1000, 3, 5));
        assert!(!other.learn_word(0xffff_c900_0000_1000, 3, 5));
    }

    #[test]
    fn image_and_direct_map_are_the_same_memory() {
        let mut shadow = shadow();
        assert!(!shadow.learn(IMAGE + 0x1_0000, 4, 7));
        assert!(shadow.learn(MAP + 0x1_0000, 4, 7));
    }

    #[test]
    fn addresses_that_may_be_remapped_are_never_known() {
        let mut shadow = shadow();
        for address in [
            0xffff_c900_0000_1000,
            0xffff_ea00_0000_0000,
            0x7fff_0000,
            u64::MAX - 3,
        ] {
            assert!(!shadow.learn(address, 8, 5), "{address:#x}");
            assert!(!shadow.learn(address, 8, 5), "{address:#x}");
        }
    }

    #[test]
    fn forgotten_ranges_are_exact() {
        let mut shadow = shadow();
        for i in 0..64 {
            shadow.learn(MAP + i, 1, 1);
        }
        shadow.forget(MAP + 3, 2);
        shadow.forget_physical(13..45);
        let known: Vec<u64> = (0..64).filter(|i| shadow.learn(MAP + i, 1, 1)).collect();
        let expected: Vec<u64> = (0..64)
            .filter(|i| !(3..5).contains(i) && !(13..45).contains(i))
            .collect();
        assert_eq!(known, expected);
        shadow.forget_physical(u64::MAX - 5..u64::MAX);
    }
}
