//! What machine code shows about its accesses before it runs: the loads that their addresses come
//! from, and which of them belong to calls and returns ([`transfers()`]).
//!
//! [`dependences`] answers it for a kernel; [`address_sources`] follows registers through one
//! function, along all of its paths. A value from outside (arguments, results of calls) is known to
//! come from there, but not from which load. Values in memory are not followed: a pointer that is
//! stored on the stack and loaded again comes from that load. Code that is patched at boot is taken
//! as in the image; what only patched jumps reach, and jumps into the middle of a function, are not
//! seen.
//!
//! Not here: reading images, the processor's behaviour.

mod flow;
mod kernel;
mod sources;
mod transfers;

pub use flow::{AddressSources, address_sources};
pub use kernel::dependences;
pub use transfers::{Transfer, Transfers, transfers};
