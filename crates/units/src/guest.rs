//! The guest's memory and CPUs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bytes::ByteOffset;
use crate::line::LineSize;

/// Bytes of a page: the smallest that an x86-64 or arm64 kernel maps, and what every recorded
/// kernel uses.
pub const PAGE: u64 = 4096;

/// A guest address: virtual for kernel mappings; for an access through a user mapping, the kernel's
/// direct-map alias of the page, so that one byte of memory has one address whichever mapping an
/// access uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct GuestAddr(pub u64);

impl GuestAddr {
    /// The last address of the guest's 64 bits.
    pub const MAX: GuestAddr = GuestAddr(u64::MAX);

    /// The address that many bytes on. It wraps around: a recording may have any address.
    #[inline]
    #[must_use]
    pub fn wrapping_add(self, offset: impl Into<ByteOffset>) -> GuestAddr {
        GuestAddr(self.0.wrapping_add(offset.into().0))
    }

    /// Where what has this address at `offset` begins. It wraps around, too.
    #[inline]
    #[must_use]
    pub fn wrapping_sub(self, offset: impl Into<ByteOffset>) -> GuestAddr {
        GuestAddr(self.0.wrapping_sub(offset.into().0))
    }

    /// The first byte of its line.
    #[inline]
    #[must_use]
    pub fn line(self, size: LineSize) -> GuestAddr {
        GuestAddr(self.0 & !(size.bytes() - 1))
    }
}

/// An address as in an ELF file: where the linker put it, before the program is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElfAddr(pub u64);

/// A guest CPU, counted from 0 as QEMU and the guest do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct CpuId(pub u16);

impl fmt::Debug for GuestAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for GuestAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cpu{}", self.0)
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
