//! Several files below one folder that get their names together.
//!
//! They are written into a separate folder inside the root, whose name starts with a dot, so that
//! no reader of the root takes them for its files; then each is renamed to its place, the last one
//! last. A reader that waits for the last one finds the others complete.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use rustix::fs::FlockOperation;
use tempfile::TempDir;

use crate::{FileError, read_file};

/// The prefix of folders with unpublished files.
const STAGING: &str = ".partial-";

/// The locked file in the root and in each staging folder.
const LOCK: &str = ".lock";

/// Whether files already existed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// At least one of them did not exist.
    New,
    /// All of them existed, with the same bytes: nothing was changed.
    Same,
}

/// Files that are to appear below a folder.
#[derive(Debug)]
pub struct FileSet {
    root: PathBuf,
    staging: TempDir,
    /// Locked as long as this lives, however it ends: if the lock can be acquired, the staging
    /// folder is abandoned.
    _alive: File,
    places: Vec<PathBuf>,
}

impl FileSet {
    /// Starts a set below `root`, which is made if it does not exist. Leftovers of killed processes
    /// are removed.
    ///
    /// # Errors
    /// The system's.
    pub fn new(root: &Path) -> Result<FileSet, FileError> {
        fs::create_dir_all(root).map_err(FileError::io("create", root))?;
        let root = fs::canonicalize(root).map_err(FileError::io("find", root))?;
        let lock = lock(&root)?;
        remove_abandoned(&root);
        let staging = tempfile::Builder::new()
            .prefix(STAGING)
            .tempdir_in(&root)
            .map_err(FileError::io("write into", &root))?;
        let alive = locked(staging.path(), FlockOperation::NonBlockingLockExclusive)?;
        drop(lock);
        Ok(FileSet {
            root,
            staging,
            _alive: alive,
            places: Vec::new(),
        })
    }

    /// Adds a file with these bytes, to appear at `place`, a relative path below the root.
    ///
    /// # Errors
    /// A place outside the root, or the system's error.
    pub fn add(&mut self, place: &Path, bytes: &[u8]) -> Result<(), FileError> {
        let inside = place
            .components()
            .all(|c| matches!(c, Component::Normal(_)));
        let target = self.root.join(place);
        if !inside || place.as_os_str().is_empty() {
            return Err(FileError::io("write", &target)(io::Error::from(
                io::ErrorKind::InvalidInput,
            )));
        }
        let draft = self.draft(self.places.len());
        let written = File::create_new(&draft).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        written.map_err(FileError::io("write", &target))?;
        self.places.push(place.to_owned());
        Ok(())
    }

    fn draft(&self, number: usize) -> PathBuf {
        self.staging.path().join(number.to_string())
    }

    /// Gives the files their names, in the order in which they were added. Existing files with the
    /// same bytes stay. Of two processes that publish at once one waits.
    ///
    /// # Errors
    /// [`FileError::Differs`] if a file exists with other bytes, or the system's error: then
    /// nothing new appears.
    pub fn publish(self) -> Result<Published, FileError> {
        let _lock = lock(&self.root)?;
        let mut absent = Vec::new();
        for (number, place) in self.places.iter().enumerate() {
            let target = self.root.join(place);
            let draft = self.draft(number);
            if !is_there(&target, &draft)? {
                absent.push((draft, target));
            }
        }
        let mut done: Vec<&Path> = Vec::new();
        for (draft, target) in &absent {
            let folder = target.parent().unwrap_or(&self.root);
            let moved = fs::create_dir_all(folder).and_then(|()| fs::rename(draft, target));
            if let Err(error) = moved {
                for path in done.iter().rev() {
                    // A file that cannot be removed is at least complete.
                    let _ = fs::remove_file(path);
                }
                return Err(FileError::io("write", target)(error));
            }
            done.push(target);
        }
        Ok(match absent.is_empty() {
            true => Published::Same,
            false => Published::New,
        })
    }
}

/// Whether `target` has the bytes of `draft`.
fn is_there(target: &Path, draft: &Path) -> Result<bool, FileError> {
    let old = match read_file(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        read => read.map_err(FileError::io("read", target))?,
    };
    let new = read_file(draft).map_err(FileError::io("read", draft))?;
    match old == new {
        true => Ok(true),
        false => Err(FileError::Differs(target.to_owned())),
    }
}

/// Waits until nobody else starts or publishes a set below `root`.
fn lock(root: &Path) -> Result<File, FileError> {
    locked(root, FlockOperation::LockExclusive)
}

fn locked(folder: &Path, how: FlockOperation) -> Result<File, FileError> {
    let path = folder.join(LOCK);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(FileError::io("write", &path))?;
    rustix::fs::flock(&file, how).map_err(FileError::io("lock", &path))?;
    Ok(file)
}

/// Removes abandoned staging folders. Only under the root's lock: one is made and locked under it.
fn remove_abandoned(root: &Path) {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let is_staging = name.to_string_lossy().starts_with(STAGING);
        if is_staging && locked(&entry.path(), FlockOperation::NonBlockingLockExclusive).is_ok() {
            // Permissions were taken away: it does no harm.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
