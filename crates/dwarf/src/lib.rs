//! DWARF of programs: their types as the one type model, and what their code says about accesses.
//!
//! * [`Companions`] and [`Skeleton`] tell which other files hold a program's debug information;
//! * [`ProgramFiles`] unpacks the sections of those files;
//! * [`ProgramTypes`] are all types of a program, each once, as a [`linemate_types::TypeModel`];
//! * [`ProgramCode`] tells functions, globals, source lines, and what registers point to.
//!
//! Everything here is a pure function of the bytes it is handed: no file is opened, nothing is printed. Input is hostile
//! until proven otherwise: each reader returns an error that carries the offending value, never panics, does not recurse,
//! and bounds its memory by the size of its input.

mod abbreviations;
mod code;
mod demangle;
mod die;
mod error;
mod file;
mod key;
mod sections;
mod split;
mod split_file;
mod types;
mod units;

pub use code::{
    Function, FunctionInstance, FunctionParameter, Global, PointedTo, ProgramCode, Register,
    SourceFrame, SourceLines, Storage, TypeParameter, VariableAt,
};
pub use demangle::demangled;
pub use error::{DwarfError, MissingUnits};
pub use file::{Companions, ProgramFiles, debug_link_checksum};
pub use key::DieKey;
pub use linemate_types::ElfAddr;
pub use split::{Skeleton, skeletons, split_ids};
pub use types::ProgramTypes;
