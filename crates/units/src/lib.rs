//! Quantities that every part of linemate means the same by: bytes, lines, pages, addresses, CPUs.
//!
//! No arithmetic beyond what keeps units straight. The crates whose borders they cross hand them on: layouts are in `types`' lines and
//! bytes, events in `recording`'s addresses and CPUs.

mod bytes;
mod guest;
mod line;

pub use bytes::{BitOffset, ByteAlign, ByteOffset, ByteSize};
pub use guest::{CpuId, ElfAddr, GuestAddr, PAGE};
pub use line::{LineIndex, LineSize, LineSizeError};
