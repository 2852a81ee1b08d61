//! Bytes and bits: counts and positions.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use crate::counts::quantity;
use crate::line::{LineIndex, LineSize};

/// Bytes from the start of the outermost type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteOffset(pub u64);

impl ByteOffset {
    /// The line that holds this byte, if the outermost type starts at a line's start.
    #[inline]
    pub fn line(self, size: LineSize) -> LineIndex {
        LineIndex(u32::try_from(self.0 >> size.shift()).unwrap_or(u32::MAX))
    }
}

impl ByteOffset {
    pub const ZERO: ByteOffset = ByteOffset(0);

    /// The first multiple of `align` from here on.
    #[inline]
    pub fn align_up(self, align: ByteAlign) -> ByteOffset {
        ByteOffset(round_up(self.0, align))
    }

    /// Whether it is a multiple of `align`.
    #[inline]
    pub fn is_aligned(self, align: ByteAlign) -> bool {
        self.0 & (align.0 - 1) == 0
    }

    /// The distance from `start`; `None` if it is before `start`.
    #[inline]
    pub fn after(self, start: ByteOffset) -> Option<ByteSize> {
        self.0.checked_sub(start.0).map(ByteSize)
    }

    #[inline]
    pub fn bit(self) -> BitOffset {
        BitOffset(8 * self.0)
    }
}

impl From<u32> for ByteOffset {
    #[inline]
    fn from(bytes: u32) -> ByteOffset {
        ByteOffset(bytes.into())
    }
}

impl From<ByteSize> for ByteOffset {
    #[inline]
    fn from(from_start: ByteSize) -> ByteOffset {
        from_start.end()
    }
}

impl Add<ByteSize> for ByteOffset {
    type Output = ByteOffset;

    #[inline]
    fn add(self, bytes: ByteSize) -> ByteOffset {
        ByteOffset(self.0 + bytes.0)
    }
}

impl AddAssign<ByteSize> for ByteOffset {
    #[inline]
    fn add_assign(&mut self, bytes: ByteSize) {
        self.0 += bytes.0;
    }
}

impl Sub for ByteOffset {
    type Output = ByteSize;

    /// The distance from `start`, which must not be after it.
    #[inline]
    fn sub(self, start: ByteOffset) -> ByteSize {
        ByteSize(self.0 - start.0)
    }
}

impl fmt::Display for ByteOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A number of bytes: a size, a gap, a distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

impl ByteSize {
    /// The end of something of this size that starts at 0.
    #[inline]
    pub fn end(self) -> ByteOffset {
        ByteOffset(self.0)
    }

    /// How many lines something of this size has that starts at a line's start.
    #[inline]
    pub fn lines(self, size: LineSize) -> u64 {
        self.0.div_ceil(size.bytes())
    }

    /// The size rounded up to a multiple of `align`.
    #[inline]
    pub fn align_up(self, align: ByteAlign) -> ByteSize {
        ByteSize(round_up(self.0, align))
    }

    /// Whether it is a multiple of `align`.
    #[inline]
    pub fn is_aligned(self, align: ByteAlign) -> bool {
        self.0 & (align.0 - 1) == 0
    }
}

quantity!(ByteSize);

impl From<u8> for ByteSize {
    #[inline]
    fn from(bytes: u8) -> ByteSize {
        ByteSize(bytes.into())
    }
}

/// An alignment: a power of two, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteAlign(u64);

impl ByteAlign {
    /// The alignment of a byte, which everything has.
    pub const ONE: ByteAlign = ByteAlign(1);

    /// The alignment of a `long`: 8 bytes.
    pub const WORD: ByteAlign = ByteAlign(8);

    /// An alignment to `bytes`; `None` unless that is a power of two.
    #[inline]
    pub const fn new(bytes: u64) -> Option<ByteAlign> {
        if bytes.is_power_of_two() {
            Some(ByteAlign(bytes))
        } else {
            None
        }
    }

    /// The largest alignment that divides `size`; that of a byte for 0.
    #[inline]
    pub fn of_size(size: ByteSize) -> ByteAlign {
        match size.0 {
            0 => ByteAlign::ONE,
            bytes => ByteAlign(1 << bytes.trailing_zeros()),
        }
    }

    /// The alignment as a number of bytes.
    #[inline]
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl Default for ByteAlign {
    #[inline]
    fn default() -> ByteAlign {
        ByteAlign::ONE
    }
}

impl From<LineSize> for ByteAlign {
    #[inline]
    fn from(line: LineSize) -> ByteAlign {
        ByteAlign(line.bytes())
    }
}

impl fmt::Display for ByteAlign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// `value` rounded up to a multiple of `align`. Sizes are at most 2^48 bytes, so nothing overflows.
#[inline]
fn round_up(value: u64, align: ByteAlign) -> u64 {
    (value + (align.0 - 1)) & !(align.0 - 1)
}

/// Bits from the start of the enclosing type, counted as BTF and little-endian C compilers do: bit
/// 0 is the least significant bit of byte 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitOffset(pub u64);

impl BitOffset {
    /// The byte that holds the bit.
    #[inline]
    pub fn byte(self) -> ByteOffset {
        ByteOffset(self.0 / 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alignments_are_powers_of_two() {
        for bad in [0, 3, 6, 65, u64::MAX] {
            assert_eq!(ByteAlign::new(bad), None);
        }
        for good in [1, 2, 64, 4096] {
            assert_eq!(ByteAlign::new(good).map(ByteAlign::bytes), Some(good));
        }
        assert_eq!(ByteAlign::of_size(ByteSize(0)), ByteAlign::ONE);
        assert_eq!(ByteAlign::of_size(ByteSize(24)).bytes(), 8);
        assert_eq!(ByteAlign::from(LineSize::B128).bytes(), 128);
    }

    #[test]
    fn places_are_rounded_up() {
        let eight = ByteAlign::of_size(ByteSize(8));
        for (from, to) in [(0, 0), (1, 8), (7, 8), (8, 8), (9, 16)] {
            assert_eq!(ByteOffset(from).align_up(eight), ByteOffset(to));
            assert_eq!(ByteSize(from).align_up(eight), ByteSize(to));
            assert_eq!(ByteOffset(from).is_aligned(eight), from == to);
            assert_eq!(ByteSize(from).is_aligned(eight), from == to);
        }
    }
}
