//! Machine instructions: what one reads, writes and jumps to, by architecture.
//!
//! * [`x86_64`] decodes them: the only architecture that is recorded. Another one would be a module
//!   with the same interface;
//! * [`Dependences`] is what is known of a kernel's code before a replay: the loads that addresses
//!   come from.
//!
//! This crate knows facts about single instructions. Its users decide what they mean to a recorder,
//! a debugger's tables or a replay.

mod dependences;
pub mod x86_64;

pub use dependences::{Dependence, Dependences};
