//! Cache lines.

/// A line of an object, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineIndex(pub u32);

/// The size of a cache line: 64 or 128 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LineSize {
    /// x86-64 and most of Arm.
    #[default]
    B64,
    /// POWER, some of Arm, and the pairs of lines that x86's adjacent-line prefetcher fetches.
    B128,
}

/// Not a line size that linemate supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a line size: must be 64 or 128")]
pub struct LineSizeError(pub u64);

impl LineSize {
    /// A line size of `bytes`.
    ///
    /// # Errors
    /// Any number but 64 and 128.
    pub const fn new(bytes: u64) -> Result<LineSize, LineSizeError> {
        match bytes {
            64 => Ok(Self::B64),
            128 => Ok(Self::B128),
            other => Err(LineSizeError(other)),
        }
    }

    /// The size in bytes.
    #[inline]
    pub const fn bytes(self) -> u64 {
        1 << self.shift()
    }

    /// The size's base-2 logarithm: `address >> shift` is the line's number.
    #[inline]
    pub const fn shift(self) -> u32 {
        match self {
            LineSize::B64 => 6,
            LineSize::B128 => 7,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ByteOffset;

    #[test]
    fn only_64_and_128_are_line_sizes() {
        assert_eq!(LineSize::new(64), Ok(LineSize::B64));
        assert_eq!(LineSize::new(128), Ok(LineSize::B128));
        for bad in [0, 1, 32, 63, 65, 96, 256, u64::MAX] {
            assert_eq!(LineSize::new(bad), Err(LineSizeError(bad)));
        }
        assert_eq!(
            [LineSize::B64, LineSize::B128].map(LineSize::bytes),
            [64, 128]
        );
    }

    #[test]
    fn line_of_a_byte() {
        assert_eq!(ByteOffset(63).line(LineSize::B64), LineIndex(0));
        assert_eq!(ByteOffset(64).line(LineSize::B64), LineIndex(1));
        assert_eq!(ByteOffset(127).line(LineSize::B128), LineIndex(0));
        assert_eq!(
            ByteOffset(u64::MAX).line(LineSize::B64),
            LineIndex(u32::MAX)
        );
    }
}
