//! Newtypes for the numbers that cross this crate's border. No arithmetic beyond what keeps units straight.

use std::fmt;

/// A type's number in its [`crate::TypeModel`]. For BTF it is the BTF type id; 0 is `void`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(pub u32);

impl TypeId {
    /// `void`.
    pub const VOID: TypeId = TypeId(0);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for TypeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Bytes from the start of the outermost type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteOffset(pub u64);

impl ByteOffset {
    /// The line of the outermost type (which is taken to start at a line's start) that this byte is in.
    pub fn line(self, size: LineSize) -> LineIndex {
        LineIndex(u32::try_from(self.0 / size.bytes()).unwrap_or(u32::MAX))
    }
}

impl fmt::Display for ByteOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Bits from the start of the enclosing type, counted as BTF and little-endian C compilers do: bit 0 is the
/// least significant bit of byte 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BitOffset(pub u64);

impl BitOffset {
    /// The byte that holds the bit.
    pub fn byte(self) -> ByteOffset {
        ByteOffset(self.0 / 8)
    }
}

/// A line of an object, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineIndex(pub u32);

/// The size of a cache line: 64 or 128 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineSize(u16);

/// Not a line size that linemate knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a line size: 64 or 128 bytes are")]
pub struct LineSizeError(pub u64);

impl LineSize {
    /// x86 and most arm64 machines.
    pub const B64: LineSize = LineSize(64);
    /// POWER, some arm64 machines, and x86's adjacent-line prefetcher.
    pub const B128: LineSize = LineSize(128);

    /// A line size of `bytes`.
    ///
    /// # Errors
    /// Any number but 64 and 128.
    pub fn new(bytes: u64) -> Result<LineSize, LineSizeError> {
        match bytes {
            64 => Ok(Self::B64),
            128 => Ok(Self::B128),
            other => Err(LineSizeError(other)),
        }
    }

    /// The size in bytes.
    pub fn bytes(self) -> u64 {
        u64::from(self.0)
    }
}

impl Default for LineSize {
    fn default() -> Self {
        Self::B64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_64_and_128_are_line_sizes() {
        assert_eq!(LineSize::new(64), Ok(LineSize::B64));
        assert_eq!(LineSize::new(128), Ok(LineSize::B128));
        for bad in [0, 1, 32, 63, 65, 96, 256, u64::MAX] {
            assert_eq!(LineSize::new(bad), Err(LineSizeError(bad)));
        }
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
