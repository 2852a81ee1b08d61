//! Struct definitions of C, C++ and Rust in real source trees: members move, everything else stays,
//! and a patch says so.
//!
//! * [`wanted`] turns a checked plan of edits into requirements on members: order, alignments,
//!   groups;
//! * [`definition`] finds definitions in a file, [`body`] reads their contents without losing a
//!   byte;
//! * [`Dialect`] makes bodies of C++ and Rust readable as C, and [`initialised`] reports what
//!   depends on the order of a C++ class's members, [`until`] what of a C struct's;
//! * [`tree`] finds the definition of a recorded type in a tree;
//! * [`proof`] says what to compile, and compares the result with the wanted layout;
//! * [`diff`], [`message`], [`excerpt`] and [`mail`] make the patch;
//! * [`remarks`] finds comments about cache lines that a new layout contradicts;
//! * [`rewrite()`] moves members with their comments and conditions, and proves on the text that
//!   none is lost.
//!
//! It uses a token reader instead of a C parser: definitions in real trees are full of conditions
//! and macros that no parser accepts before the preprocessor has run, and the text before it is
//! what matters. The compiler has the last word.
//!
//! Nothing here prints, runs a program or writes a file; [`tree`] reads files.

mod access;
mod alternatives;
mod arrange;
pub mod body;
pub mod condition;
pub mod conserve;
pub mod declaration;
pub mod definition;
mod dialect;
pub mod diff;
pub mod excerpt;
mod idiom;
pub mod initialised;
pub mod lex;
pub mod mail;
mod matching;
pub mod message;
pub mod proof;
pub mod remarks;
mod rewrite;
mod row;
mod rust_struct;
pub mod summary;
pub mod tree;
pub mod until;
mod uses;
pub mod wanted;
mod wrapped;

pub use definition::{Definition, Item, Sought};
pub use dialect::Dialect;
pub use idiom::Idiom;
pub use matching::{MAX_LEAVES, Refusal};
pub use rewrite::{
    Carriers, RewriteError, RewriteReason, carriers, check, check_rewritten, rewrite,
};
pub use uses::UsesByName;
pub use wanted::{Align, Group, Recorded, Wanted, WantedError};
