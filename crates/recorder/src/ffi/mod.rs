//! The interface to QEMU: all of the crate's `unsafe` code, and nothing that does not need it.
//!
//! * [`raw`] declares QEMU's plugin interface.
//! * [`guest`] gives safe views of what callbacks may read.
//! * [`entry`] has the functions that QEMU calls.
//! * [`hold`] replaces them while a guest is booted to be saved.
#![allow(unsafe_code, reason = "QEMU's plugin interface is C")]

mod entry;
mod guest;
mod hold;
mod raw;
mod turn;
