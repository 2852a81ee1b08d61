//! The files that one command reads and writes: no output replaces an input, and no two outputs are
//! one file.
//!
//! Files are compared by identity (device and inode), so links do not hide one behind another name.
//! A file that does not exist yet is identified by its name in its future folder.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::FileError;
use crate::replacement::{self, Destination};

/// The target of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    /// An existing file.
    File(FileNumber),
    /// A name that no file in this folder has yet.
    Name(FileNumber, OsString),
}

/// A file or folder, under any name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileNumber {
    device: u64,
    inode: u64,
}

impl FileNumber {
    fn of(about: &Metadata) -> Self {
        FileNumber {
            device: about.dev(),
            inode: about.ino(),
        }
    }
}

impl Identity {
    /// `None` for what no output can replace (a folder, a device, a pipe), and for what cannot be
    /// examined: opening it reports why.
    fn of(path: &Path) -> Option<Identity> {
        if let Ok(about) = fs::metadata(path) {
            return about
                .is_file()
                .then(|| Identity::File(FileNumber::of(&about)));
        }
        let Ok(Destination::File(file)) = replacement::place(path) else {
            return None;
        };
        let folder = fs::metadata(file.path().parent()?).ok()?;
        let name = file.path().file_name()?.to_owned();
        Some(Identity::Name(FileNumber::of(&folder), name))
    }
}

/// An output, and the user's name for it.
#[derive(Clone, Debug)]
struct Claim {
    called: String,
    path: PathBuf,
    identity: Option<Identity>,
}

/// All files of a command.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    inputs: Vec<(PathBuf, Option<Identity>)>,
    sources: Vec<PathBuf>,
    outputs: Vec<Claim>,
}

impl Claims {
    /// The command reads `path`.
    pub fn read(&mut self, path: &Path) {
        self.inputs.push((path.to_owned(), Identity::of(path)));
    }

    /// The command reads the C sources below `folder`. Other files there may be outputs.
    pub fn read_sources(&mut self, folder: &Path) {
        self.sources.extend(fs::canonicalize(folder));
    }

    /// The command writes `path`, which the user calls `called`, such as `--html x.html`.
    pub fn write(&mut self, called: String, path: &Path) {
        self.outputs.push(Claim {
            called,
            path: path.to_owned(),
            identity: Identity::of(path),
        });
    }

    /// Refuses the command if an output would replace an input or another output.
    ///
    /// # Errors
    /// [`FileError::ReplacesInput`] or [`FileError::SameOutput`], with the user's names.
    pub fn check(&self) -> Result<(), FileError> {
        for (number, output) in self.outputs.iter().enumerate() {
            if let Some(input) = self.replaced(output) {
                return Err(FileError::ReplacesInput {
                    output: output.called.clone(),
                    input,
                });
            }
            let mut earlier = self.outputs[..number].iter();
            let same =
                |other: &&Claim| output.identity.is_some() && output.identity == other.identity;
            if let Some(other) = earlier.find(same) {
                return Err(FileError::SameOutput {
                    first: other.called.clone(),
                    second: output.called.clone(),
                });
            }
        }
        Ok(())
    }

    /// The input that `output` would replace.
    fn replaced(&self, output: &Claim) -> Option<PathBuf> {
        let wanted = output.identity.as_ref()?;
        let read = |(_, identity): &&(PathBuf, Option<Identity>)| identity.as_ref() == Some(wanted);
        if let Some((path, _)) = self.inputs.iter().find(read) {
            return Some(path.clone());
        }
        let real = fs::canonicalize(&output.path).ok()?;
        let is_source = ["c", "h"]
            .map(OsStr::new)
            .map(Some)
            .contains(&real.extension());
        let is_read = is_source && self.sources.iter().any(|folder| real.starts_with(folder));
        is_read.then_some(real)
    }
}
