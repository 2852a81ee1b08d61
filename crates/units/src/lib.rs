//! Quantities that mean the same in every part of linemate: bytes, lines, pages, addresses, CPUs,
//! accesses, cycles, instructions.
//!
//! Only the arithmetic that keeps units straight. Crates re-export the units in their interfaces:
//! `types` its lines and bytes, `recording` its addresses and CPUs.

mod bytes;
mod counts;
mod guest;
mod line;

pub use bytes::{BitOffset, ByteAlign, ByteOffset, ByteSize};
pub use counts::{Accesses, Cycles, Instructions, Millionths};
pub use guest::{CpuId, ElfAddr, GuestAddr, PAGE};
pub use line::{LineIndex, LineSize, LineSizeError};
