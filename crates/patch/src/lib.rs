//! An edit as a patch of a source tree, proven by compiling both sides.
//!
//! 1. [`read_edits`] and [`read_evidence`] read the inputs of the patch;
//! 2. [`Draft::new`] finds the definitions, puts alignments where every config has them, rewrites
//!    the members and refuses to leave a comment that the new layout contradicts;
//! 3. [`Draft::prove`] has a [`Compiler`] compile the unpatched and the patched tree, and compares
//!    both with the recorded and the edit's layout;
//! 4. [`Proven::mail`] writes the patch.
//!
//! The tree is never written to: the compiled folder has links to it, with the changed files in
//! place. [`Toolchain`] is the compiler that users have; tests have one that runs no program.

mod change;
mod comments;
mod compiler;
mod draft;
mod error;
mod folder;
mod input;
mod kernel_config;
mod mail;
mod places;
mod program;
mod prove;
mod request;
mod settle;
mod together;

#[cfg(test)]
mod tests;

pub use comments::rewording;
pub use compiler::{CompileError, CompileUnit, Compiler, Compilers, Toolchain, ToolchainError};
pub use draft::Draft;
pub use error::{PatchError, ProofError};
pub use folder::FolderError;
pub use input::{read_edits, read_evidence};
pub use kernel_config::KernelConfig;
pub use linemate_source::tree::SourceTree;
pub use mail::{Letter, date, subject};
pub use program::{program_source, takes};
pub use prove::{Proof, Proven};
pub use request::Request;
pub use together::{Fault, Parted};
