//! The border to QEMU: all of the crate's `unsafe` code, and nothing that needs none.
//!
//! * [`raw`] declares QEMU's plugin interface.
//! * [`guest`] gives safe views of what callbacks may look at.
//! * [`entry`] is what QEMU calls.
#![allow(unsafe_code, reason = "QEMU's plugin interface is C")]

mod entry;
mod guest;
mod raw;

pub(crate) use guest::{Block, MAX_INSTRUCTION, MemoryAccess, Registers};
