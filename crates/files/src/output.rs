//! Where a verb writes a text.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::FileError;
use crate::input::kind_name;
use crate::replacement::{self, Destination, Replacement};

/// The destination of a text: a file that is replaced as a whole, or a device or pipe that is
/// written to.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    to: To,
}

#[derive(Debug)]
enum To {
    File(Replacement),
    Stream(File),
}

impl Output {
    /// Checks that `path` can be written. Must be called before the work whose result it receives.
    ///
    /// # Errors
    /// What [`Replacement::new`] refuses, except devices, pipes and terminals, which are opened.
    pub fn new(path: &Path) -> Result<Self, FileError> {
        let to = match replacement::place(path)? {
            Destination::File(file) => To::File(file),
            Destination::Stream => To::Stream(open_stream(path)?),
        };
        Ok(Output {
            path: path.to_owned(),
            to,
        })
    }

    /// Writes the whole text. A file is unchanged until this has succeeded.
    ///
    /// # Errors
    /// The system's.
    pub fn write(self, text: &str) -> Result<(), FileError> {
        match self.to {
            To::Stream(mut stream) => stream
                .write_all(text.as_bytes())
                .map_err(FileError::io("write", &self.path)),
            To::File(file) => {
                let draft = file.draft()?;
                let mut handle = draft.file();
                handle
                    .write_all(text.as_bytes())
                    .and_then(|()| handle.sync_all())
                    .map_err(FileError::io("write", &self.path))?;
                draft.replace()
            }
        }
    }
}

/// Opens a destination that is written to. A pipe without a reader waits for one, as in a shell.
fn open_stream(path: &Path) -> Result<File, FileError> {
    let kind = fs::metadata(path)
        .map_err(FileError::io("write", path))?
        .file_type();
    if kind.is_block_device() || kind.is_socket() {
        return Err(FileError::NotAFile {
            path: path.to_owned(),
            kind: kind_name(kind),
        });
    }
    OpenOptions::new()
        .append(true)
        .custom_flags(OFlags::NOCTTY.bits() as i32)
        .open(path)
        .map_err(FileError::io("write", path))
}
