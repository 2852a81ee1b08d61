//! Machine instructions: what one reads, writes and jumps to, by architecture.
//!
//! * [`x86_64`] decodes them: the only architecture that is recorded. Another one is a module with the same questions;
//! * [`Dependences`] is what is known of a kernel's code before a replay: from which loads addresses come.
//!
//! Facts about single instructions. What they mean to a recorder, a debugger's tables or a replay is for those.

mod dependences;
pub mod x86_64;

pub use dependences::{Dependence, Dependences};
