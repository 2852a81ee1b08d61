//! The programs of a recording: what their files say of addresses, and what their instructions say of accesses.
//!
//! * [`Image`]: an ELF file's segments and symbols;
//! * [`UserInstruction`]: what an instruction reaches memory by;
//! * [`Programs`]: all of a recording's, asked by code address.
//!
//! Not here: types and lines of the source (debug information), processes, what an access is named.

mod image;
mod operand;
mod set;

pub use image::{Image, ImageError, Segment, Symbol, ThreadStorage};
pub use linemate_insn::x86_64::{Base, Operand};
pub use linemate_types::ElfAddr;
pub use operand::{UserInstruction, decode};
pub use set::{CodePlace, Programs, ProgramsError};
