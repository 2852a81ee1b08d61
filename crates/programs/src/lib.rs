//! The programs of a recording: what their files say about addresses, and their instructions about
//! accesses.
//!
//! * [`Image`]: an ELF file's segments and symbols;
//! * [`UserInstruction`]: how an instruction addresses memory;
//! * [`Programs`]: all programs of a recording, looked up by code address.
//!
//! Not here: types and source lines (debug information), processes, names of accesses.

mod image;
mod operand;
mod set;

pub use image::{Image, ImageError, Segment, Symbol};
pub use linemate_insn::x86_64::{Base, Operand};
pub use linemate_types::ElfAddr;
pub use operand::{UserInstruction, decode};
pub use set::{CodePlace, Programs, ProgramsError};
