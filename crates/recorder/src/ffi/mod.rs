//! The border to QEMU: all of the crate's `unsafe` code, and nothing that needs none.
//!
//! * [`raw`] declares QEMU's plugin interface.
//! * [`guest`] gives safe views of what callbacks may look at.
//! * [`entry`] is what QEMU calls.
//! * [`hold`] is what it calls instead while a guest is booted to be saved.
#![allow(unsafe_code, reason = "QEMU's plugin interface is C")]

mod entry;
mod guest;
mod hold;
mod raw;
