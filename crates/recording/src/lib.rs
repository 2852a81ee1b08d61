//! The file a recorded run leaves.

mod event;
mod function;

pub use event::*;
pub use function::*;
