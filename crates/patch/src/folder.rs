//! Files and folders that cannot be read or made.

use std::io;

/// A file or folder that cannot be read or made.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing}")]
pub struct FolderError {
    /// With the path: `read /tmp/x`.
    pub doing: String,
    pub source: io::Error,
}

/// For `map_err`.
pub(crate) fn cannot(doing: impl FnOnce() -> String) -> impl FnOnce(io::Error) -> FolderError {
    |source| FolderError {
        doing: doing(),
        source,
    }
}
