//! Which folders are trusted. Other users' files are only tested as root.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use linemate_files::{FileError, check_trusted, private_folder, write_private};
use tempfile::tempdir;

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_private_folder_is_closed_to_others() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a/b");
    private_folder(&path).unwrap();
    assert_eq!(
        (mode(&path), mode(&folder.path().join("a"))),
        (0o700, 0o700)
    );
    chmod(&path, 0o755);
    private_folder(&path).unwrap();
    assert_eq!(mode(&path), 0o700);
}

#[test]
fn what_others_can_write_to_is_refused() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a/b");
    fs::create_dir_all(&path).unwrap();
    for open in [0o777, 0o1777, 0o775] {
        chmod(&path, open);
        let error = private_folder(&path).unwrap_err();
        assert!(
            matches!(&error, FileError::Writable(at) if *at == path),
            "{error}"
        );
        chmod(&path, 0o700);
    }
    chmod(&folder.path().join("a"), 0o777);
    let error = check_trusted(&path).unwrap_err();
    assert!(matches!(&error, FileError::Writable(at) if *at == folder.path().join("a")));
    // Nobody can replace this user's files in a sticky folder.
    chmod(&folder.path().join("a"), 0o1777);
    check_trusted(&path).unwrap();
    check_trusted(&folder.path().join("a/not/yet")).unwrap();
}

#[test]
fn what_belongs_to_somebody_else_is_refused() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("theirs");
    fs::create_dir(&path).unwrap();
    if chown(&path, Some(61184), None).is_err() {
        // Only root can give away a folder.
        return;
    }
    let link = folder.path().join("link");
    symlink(&path, &link).unwrap();
    for refused in [&path, &link, &path.join("not/yet")] {
        let error = check_trusted(refused).unwrap_err();
        assert!(
            matches!(error, FileError::Foreign { owner: 61184, .. }),
            "{error}"
        );
        assert!(error.to_string().contains("set LINEMATE_CACHE"), "{error}");
    }
}

#[test]
fn a_private_file_follows_no_link() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("file");
    write_private(&path, b"secret").unwrap();
    assert_eq!(mode(&path), 0o600);
    let link = folder.path().join("link");
    symlink(&path, &link).unwrap();
    write_private(&link, b"x").unwrap_err();
    assert_eq!(fs::read(&path).unwrap(), b"secret");
}
