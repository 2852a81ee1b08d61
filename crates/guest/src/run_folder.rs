//! The folder of a run's files: removed when the run ends, and after a run that was killed, by the next one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use tempfile::TempDir;

use crate::error::GuestError;

/// Held as long as a run lives; the system lets go of it when the process ends, however it does.
const LOCK: &str = "lock";

/// A folder of its own in the cache's `runs`.
#[derive(Debug)]
pub(crate) struct RunFolder {
    folder: TempDir,
    _lock: File,
}

impl RunFolder {
    /// Makes one, and removes those of runs that were killed.
    pub(crate) fn new(cache: &Path) -> Result<Self, GuestError> {
        let parent = cache.join("runs");
        fs::create_dir_all(&parent).map_err(GuestError::io("create", &parent))?;
        for left_over in abandoned(&parent) {
            // Another run may be removing it as well.
            let _ = fs::remove_dir_all(left_over);
        }
        let folder =
            TempDir::new_in(&parent).map_err(GuestError::io("create a folder in", &parent))?;
        let path = folder.path().join(LOCK);
        let lock = File::create(&path).map_err(GuestError::io("create", &path))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|e| GuestError::io("lock", &path)(e.into()))?;
        Ok(RunFolder {
            folder,
            _lock: lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Folders whose lock nobody holds. One without a lock file is just being made.
fn abandoned(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|folder| {
            File::open(folder.join(LOCK)).is_ok_and(|lock| {
                rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_run_left_is_removed_and_what_lives_is_not() {
        let cache = tempfile::tempdir().unwrap();
        let living = RunFolder::new(cache.path()).unwrap();
        let left = cache.path().join("runs/left");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join(LOCK), "").unwrap();
        let second = RunFolder::new(cache.path()).unwrap();
        assert!(!left.exists() && living.path().exists() && second.path().exists());
        let path = second.path().to_owned();
        drop(second);
        assert!(!path.exists());
    }
}
