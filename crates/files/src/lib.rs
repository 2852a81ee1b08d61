//! How linemate touches files that are not its own.
//!
//! * [`Output`] is where a text goes, [`Replacement`] a file that is replaced as a whole, with a [`Draft`] until then;
//! * [`FileSet`] is several files that appear together;
//! * [`Claims`] are all files of one command: none is both read and replaced;
//! * [`open_file`], [`read_file`] and [`read_text`] read what a user names;
//! * [`FileState`] says whether a file is the one that it was, unchanged;
//! * [`private_folder`] and [`check_trusted`] are for folders whose content is executed or booted;
//! * [`Recipe`] makes the key under which a thing is kept.
//!
//! What a file holds is not known here.

mod claims;
mod error;
mod folder;
mod input;
mod output;
mod recipe;
mod replacement;
mod set;
mod state;

pub use claims::Claims;
pub use error::FileError;
pub use folder::{check_trusted, private_folder, write_private};
pub use input::{TEXT_MAX, kind_name, open_file, read_file, read_text};
pub use output::Output;
pub use recipe::Recipe;
pub use replacement::{Draft, FileKind, Replacement};
pub use set::{FileSet, Published};
pub use state::FileState;
