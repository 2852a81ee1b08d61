//! What machine code tells about its accesses before it runs: from which loads their addresses come, and which of them are those of calls and
//! returns ([`transfers()`]).
//!
//! [`dependences`] answers it for a kernel; [`address_sources`] follows registers through one function, along all of its paths. What comes from outside (arguments, what called
//! functions return) is known to come from there, not from which load. What goes through memory is not followed: a pointer that is kept
//! on the stack and loaded again comes from that load. Code that is patched when the kernel starts is taken as it is in the image; what
//! only patched jumps lead to, and jumps into the middle of a function, are not seen.
//!
//! Not here: reading images, what a processor makes of it.

mod flow;
mod kernel;
mod sources;
mod transfers;

pub use flow::{AddressSources, address_sources};
pub use kernel::dependences;
pub use transfers::{Transfer, Transfers, transfers};
