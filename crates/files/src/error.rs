//! Why a file cannot be read or written: what, where, remedy.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a file cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// An output that is a folder.
    #[error("{} is a folder: name a file", .0.display())]
    Folder(PathBuf),
    /// An output in a folder that does not exist.
    #[error("cannot write {}: there is no folder {}", path.display(), folder.display())]
    NoFolder { path: PathBuf, folder: PathBuf },
    /// An output that must be a file and is something else.
    #[error("{} is {kind}: name a file", path.display())]
    NotAFile { path: PathBuf, kind: &'static str },
    /// The older file cannot be moved away.
    #[error(
        "{} is in the way: the older output would be renamed to it: move it, or name another output",
        .0.display()
    )]
    InTheWay(PathBuf),
    /// An existing file that is not an older output.
    #[error("{} is not {kind} and is not replaced: name another file, or remove it", path.display())]
    NotOurs {
        path: PathBuf,
        /// What an older output would be.
        kind: &'static str,
    },
    /// An output that is an input.
    #[error("{output} would replace {}, which this command reads: name another file", input.display())]
    ReplacesInput {
        /// The output, as the user calls it.
        output: String,
        input: PathBuf,
    },
    /// Two outputs that are one file.
    #[error("{first} and {second} are the same file: name two")]
    SameOutput {
        /// One, as the user calls it.
        first: String,
        second: String,
    },
    /// An existing file with other bytes, where files are never changed.
    #[error("{} exists with other content: remove it, or write into another folder", .0.display())]
    Differs(PathBuf),
    /// Somebody else's folder or file, whose contents would be executed or booted.
    #[error(
        "{} belongs to user {owner}, and linemate would trust its contents: set LINEMATE_CACHE to a folder of your own",
        path.display()
    )]
    Foreign {
        /// The folder or file.
        path: PathBuf,
        owner: u32,
    },
    /// A folder or file that others can change, whose contents would be executed or booted.
    #[error(
        "{} is writable by others, and linemate would trust its contents: remove it, or `chmod go-w` it if you know what it holds",
        .0.display()
    )]
    Writable(PathBuf),
    #[error("cannot {doing} {}: {reason}", path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        /// The system's error.
        reason: io::Error,
    },
}

impl FileError {
    /// Whether something other than a folder is where a folder has to be.
    #[must_use]
    pub fn is_in_the_way(&self) -> bool {
        use io::ErrorKind::{AlreadyExists, NotADirectory};
        match self {
            FileError::Io { reason, .. } => {
                matches!(reason.kind(), AlreadyExists | NotADirectory)
            }
            _ => false,
        }
    }

    /// For `map_err`: the system's error with the operation that failed.
    pub(crate) fn io<E: Into<io::Error>>(
        doing: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |reason| FileError::Io {
            doing,
            path,
            reason: reason.into(),
        }
    }
}
