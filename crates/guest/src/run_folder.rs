//! Folders for the files of runs and snapshots in progress: nobody else can enter them, and the
//! next run removes one whose owner was killed.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linemate_files::{private_folder, write_private};
use rustix::fs::FlockOperation;
use tempfile::TempDir;

use crate::error::GuestError;

/// Locked while the folder is used; the system releases the lock when the process ends, for
/// whatever reason.
pub(crate) const LOCK: &str = "lock";

/// Its name until it is locked.
const UNLOCKED: &str = "lock.new";

/// The prefix of folders of runs, in the cache's `runs`.
pub(crate) const RUN: &str = ".tmp";

/// The prefix of folders in which a snapshot is made, in the cache's `snapshots`.
pub(crate) const MAKING: &str = ".making-";

/// A folder without a lock is just being made, unless it is older than this.
const YOUNG: Duration = Duration::from_secs(24 * 3600);

/// A private folder. Removed when dropped.
#[derive(Debug)]
pub(crate) struct RunFolder {
    folder: TempDir,
    _lock: File,
}

impl RunFolder {
    /// Makes one in `parent` with the name prefix `prefix`, and removes those whose owners were
    /// killed.
    pub(crate) fn new(parent: &Path, prefix: &str) -> Result<Self, GuestError> {
        private_folder(parent)?;
        for left_over in abandoned(parent, prefix) {
            // Another run may be removing it as well.
            let _ = fs::remove_dir_all(left_over);
        }
        let folder = tempfile::Builder::new()
            .prefix(prefix)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(parent)
            .map_err(GuestError::io("create a folder in", parent))?;
        // Locked before it has its name: another run that found it unlocked would consider the
        // folder abandoned.
        let path = folder.path().join(UNLOCKED);
        let lock = write_private(&path, b"").map_err(GuestError::io("create", &path))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|e| GuestError::io("lock", &path)(e.into()))?;
        fs::rename(&path, folder.path().join(LOCK)).map_err(GuestError::io("rename", &path))?;
        Ok(RunFolder {
            folder,
            _lock: lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Renames it to its final name.
    pub(crate) fn rename(self, to: &Path) -> io::Result<()> {
        // Until it has its name it is a folder without a lock, which is left alone while it is
        // young.
        fs::remove_file(self.path().join(LOCK))?;
        fs::rename(self.path(), to)
    }
}

/// Folders with a lock that nobody holds.
fn abandoned(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let ours = |name: &OsStr| name.as_bytes().starts_with(prefix.as_bytes());
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries
        .filter(|entry| ours(&entry.file_name()))
        .map(|entry| entry.path())
        .filter(|folder| match File::open(folder.join(LOCK)) {
            // A lock dies with its process, so one that can be acquired is nobody's.
            Ok(lock) => rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
            Err(error) => error.kind() == io::ErrorKind::NotFound && is_old(folder),
        })
        .collect()
}

fn is_old(folder: &Path) -> bool {
    let changed = fs::metadata(folder).and_then(|about| about.modified());
    changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > YOUNG))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn what_a_killed_run_left_is_removed_and_what_lives_is_not() {
        let cache = tempfile::tempdir().unwrap();
        let parent = cache.path().join("snapshots");
        let living = RunFolder::new(&parent, MAKING).unwrap();
        assert_eq!(
            fs::metadata(living.path()).unwrap().permissions().mode() & 0o777,
            0o700
        );
        let left = parent.join(".making-left");
        let old = parent.join(".making-old");
        let young = parent.join(".making-young");
        let snapshot = parent.join("0123");
        for folder in [&left, &old, &young, &snapshot] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(left.join(LOCK), "").unwrap();
        let long_ago = SystemTime::now() - 2 * YOUNG;
        for folder in [&old, &snapshot] {
            File::open(folder).unwrap().set_modified(long_ago).unwrap();
        }
        let second = RunFolder::new(&parent, MAKING).unwrap();
        assert!(!left.exists() && !old.exists() && young.exists() && snapshot.exists());
        assert!(living.path().exists() && second.path().exists());
        let path = second.path().to_owned();
        drop(second);
        assert!(!path.exists());
        let kept = parent.join("4567");
        living.rename(&kept).unwrap();
        assert!(kept.exists() && !kept.join(LOCK).exists());
    }

    #[test]
    fn runs_that_start_at_once_leave_each_other_alone() {
        let cache = tempfile::tempdir().unwrap();
        let parent = cache.path().join("runs");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        let run = RunFolder::new(&parent, RUN).unwrap();
                        assert!(run.path().join(LOCK).exists());
                    }
                });
            }
        });
    }
}
