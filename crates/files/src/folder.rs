//! Folders whose contents are trusted: kernels that are booted, snapshots that are run.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::FileError;

/// Makes a folder, and those above it, that only its owner can enter; an existing one must be
/// trusted and is closed to others.
///
/// # Errors
/// As for [`check_trusted`], and the system's.
pub fn private_folder(path: &Path) -> Result<(), FileError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(FileError::io("create", path))?;
    check_trusted(path)?;
    let about = fs::metadata(path).map_err(FileError::io("read", path))?;
    let mine = about.uid() == rustix::process::geteuid().as_raw();
    if mine && about.mode() & 0o077 != 0 {
        rustix::fs::chmod(path, Mode::RWXU).map_err(FileError::io("close to others", path))?;
    }
    Ok(())
}

/// Checks that only this user and root can change `path` or replace it: neither it, nor what it
/// links to, nor a folder above it belongs to somebody else or is writable by others. For a path
/// that does not exist yet, the folders above it are checked.
///
/// # Errors
/// [`FileError::Foreign`] or [`FileError::Writable`] with the folder or file, or the system's.
pub fn check_trusted(path: &Path) -> Result<(), FileError> {
    let named = std::path::absolute(path).map_err(FileError::io("find", path))?;
    check_parts(&named)?;
    // Links may lead elsewhere, with other folders above.
    match fs::canonicalize(&named) {
        Ok(real) if real != named => check_parts(&real),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(FileError::io("find", path)(error)),
    }
}

/// Checks `path` and every folder above it that exists.
fn check_parts(path: &Path) -> Result<(), FileError> {
    let me = rustix::process::geteuid().as_raw();
    for part in path.ancestors() {
        let about = match fs::symlink_metadata(part) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found.map_err(FileError::io("read", part))?,
        };
        if about.uid() != 0 && about.uid() != me {
            return Err(FileError::Foreign {
                path: part.to_owned(),
                owner: about.uid(),
            });
        }
        // Anyone who can write to a sticky folder, such as /tmp, can add to it, but not replace
        // other users' files there.
        let sticky_above = part != path && about.mode() & 0o1000 != 0;
        // The mode of a link is meaningless.
        if about.mode() & 0o022 != 0 && !sticky_above && !about.is_symlink() {
            return Err(FileError::Writable(part.to_owned()));
        }
    }
    Ok(())
}

/// Makes a file that only its owner can read; an older one of that name is overwritten, a link is
/// refused.
///
/// # Errors
/// The system's.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(path)?;
    file.write_all(bytes)?;
    Ok(file)
}
