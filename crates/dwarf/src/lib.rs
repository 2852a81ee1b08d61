//! DWARF of programs: their types in the common type model, and what their code shows about
//! accesses.
//!
//! * [`Companions`] and [`Skeleton`] say which other files hold a program's debug information;
//! * [`ProgramFiles`] unpacks the sections of those files;
//! * [`ProgramTypes`] has all types of a program, each once, as a [`linemate_types::TypeModel`];
//! * [`ProgramCode`] has functions, globals, source lines, and the targets of registers.
//!
//! Everything here is a pure function of its input bytes: no file is opened, nothing is printed.
//! Input is hostile until proven otherwise: each reader returns an error that carries the offending
//! value, never panics, does not recurse, and bounds its memory by the size of its input.

mod abbreviations;
mod code;
mod demangle;
mod die;
mod error;
mod file;
mod key;
mod relocated;
mod sections;
mod split;
mod split_file;
mod types;
mod units;

pub use code::{
    FramePlace, FrameVariable, Function, FunctionInstance, FunctionParameter, Global, PointedTo,
    ProgramCode, Register, SourceFrame, SourceLines, Storage, TypeParameter, VariableAt,
};
pub use demangle::demangled;
pub use error::{DwarfError, MissingUnits};
pub use file::{Companions, ProgramFiles, debug_link_checksum};
pub use key::DieKey;
pub use linemate_types::ElfAddr;
pub use relocated::relocated;
pub use split::{Skeleton, skeletons, split_ids};
pub use types::ProgramTypes;
