//! The guest's memory and CPUs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Bytes of a page: the smallest that an x86-64 or arm64 kernel maps, and what every recorded
/// kernel uses.
pub const PAGE: u64 = 4096;

/// A guest address: virtual for kernel mappings; for an access through a user mapping, the kernel's direct-map alias of the page, so
/// that one byte of memory has one address whichever mapping an access uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct GuestAddr(pub u64);

/// An address as in an ELF file: where the linker put it, before the program is loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElfAddr(pub u64);

/// A guest CPU, counted from 0 as QEMU and the guest do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
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
