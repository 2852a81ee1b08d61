//! How linemate handles files that are not its own.
//!
//! * [`Output`] is the destination of a text, [`Replacement`] a file that is replaced as a whole,
//!   with a [`Draft`] until then;
//! * [`FileSet`] is several files that appear together;
//! * [`Claims`] has all files of one command: none is both read and replaced;
//! * [`open_file`], [`read_file`] and [`read_text`] read files that the user names;
//! * [`FileState`] says whether a file is still the same and unchanged;
//! * [`private_folder`] and [`check_trusted`] are for folders whose contents are executed or
//!   booted;
//! * [`Recipe`] makes cache keys.
//!
//! The contents of files are unknown here.

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
