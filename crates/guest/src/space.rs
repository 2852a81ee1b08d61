//! Whether a disk has room for a file.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::GuestError;

/// Why `file`, which takes `needed` bytes, could not be written: its disk had less room. `None` if
/// that is not the reason.
pub(crate) fn full(doing: &'static str, file: &Path, needed: u64) -> Option<GuestError> {
    // What was written of it is used now, and was free before.
    let written = fs::metadata(file).map_or(0, |about| about.blocks() * 512);
    short(doing, file.parent()?, needed, written)
}

/// Checks that the disk of `folder` has room for files of `needed` bytes.
///
/// # Errors
/// [`GuestError::DiskFull`]. A disk that does not say has room.
pub(crate) fn check(doing: &'static str, folder: &Path, needed: u64) -> Result<(), GuestError> {
    short(doing, folder, needed, 0).map_or(Ok(()), Err)
}

fn short(doing: &'static str, folder: &Path, needed: u64, written: u64) -> Option<GuestError> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    let free = disk
        .f_bavail
        .saturating_mul(disk.f_frsize)
        .saturating_add(written);
    (free < needed).then(|| GuestError::DiskFull {
        doing,
        path: folder.to_owned(),
        needed,
        free,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_full_if_it_has_less_than_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk");
        fs::write(&file, vec![1; 1 << 20]).unwrap();
        assert!(full("a test", &file, 0).is_none());
        assert!(full("a test", &file, 1 << 20).is_none());
        let error = full("a test", &file, (1 << 60) - 1).unwrap().to_string();
        let start = format!(
            "disk full: to save a test takes {} MiB, and {} has ",
            1u64 << 40,
            folder.path().display()
        );
        assert!(error.starts_with(&start), "{error}");
        assert!(check("a test", folder.path(), 1 << 20).is_ok());
        let error = check("a test", folder.path(), (1 << 60) - 1).unwrap_err();
        assert!(error.to_string().starts_with(&start), "{error}");
    }
}
