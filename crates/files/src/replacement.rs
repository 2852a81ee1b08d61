//! A file that is replaced as a whole: the new one is written next to it under another name and
//! replaces it at the end.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FlockOperation};
use rustix::process::{Gid, Uid};
use tempfile::NamedTempFile;

use crate::FileError;
use crate::input::{kind_name, open_file};

/// The maximum number of links followed from an output's name to its file, as in the system.
const LINKS_MAX: usize = 40;

/// The suffix of a draft's name.
const PARTIAL: &str = ".partial";

/// The number of bytes of an output's name that a draft's name repeats: the system allows 255 in
/// total.
const NAME_MAX: usize = 200;

/// Where a name leads.
pub(crate) enum Destination {
    /// To a regular file, or to none yet.
    File(Replacement),
    /// To a device, pipe or terminal, or to a file through an open descriptor.
    Stream,
}

/// A file that is to be replaced, or made.
#[derive(Debug)]
pub struct Replacement {
    /// The user's name for it.
    given: PathBuf,
    /// The file itself, with all links followed.
    file: PathBuf,
    folder: PathBuf,
    older: Option<Older>,
}

/// Which older files may be moved away.
#[derive(Clone, Copy, Debug)]
pub struct FileKind {
    /// The name of such a file: `a recording`.
    pub name: &'static str,
    /// Whether the file at a path is one.
    pub recognize: fn(&Path) -> bool,
}

/// The owner and permissions of an older file.
#[derive(Debug)]
struct Older {
    uid: u32,
    gid: u32,
    mode: u32,
}

impl Older {
    fn new(about: &Metadata) -> Self {
        Older {
            uid: about.uid(),
            gid: about.gid(),
            mode: about.mode() & 0o777,
        }
    }
}

/// Follows `given` and checks that it can be written.
pub(crate) fn place(given: &Path) -> Result<Destination, FileError> {
    if given.as_os_str().as_bytes().ends_with(b"/") {
        return Err(FileError::Folder(given.to_owned()));
    }
    let mut at = given.to_owned();
    for _ in 0..LINKS_MAX {
        let Some(name) = at.file_name().map(ToOwned::to_owned) else {
            return Err(FileError::Folder(given.to_owned()));
        };
        let folder = real_folder(given, &at)?;
        // Links to open descriptors have no name: /dev/stdout, and /dev/fd/63 of a shell's >(…).
        if folder.starts_with("/proc") {
            return Ok(Destination::Stream);
        }
        let file = folder.join(&name);
        let older = match fs::symlink_metadata(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(FileError::io("write", given)(error)),
            Ok(found) if found.is_symlink() => {
                let target = fs::read_link(&file).map_err(FileError::io("follow", &file))?;
                at = folder.join(target);
                continue;
            }
            Ok(found) if found.is_dir() => return Err(FileError::Folder(given.to_owned())),
            Ok(found) if !found.is_file() => return Ok(Destination::Stream),
            Ok(found) => Some(Older::new(&found)),
        };
        let replacement = Replacement {
            given: given.to_owned(),
            file,
            folder,
            older,
        };
        replacement.check_writable()?;
        return Ok(Destination::File(replacement));
    }
    Err(FileError::io("follow", given)(rustix::io::Errno::LOOP))
}

/// The folder of `at`, without links.
fn real_folder(given: &Path, at: &Path) -> Result<PathBuf, FileError> {
    let folder = match at.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    match fs::canonicalize(folder) {
        Ok(folder) if folder.is_dir() => Ok(folder),
        Ok(_) => Err(FileError::io("write", given)(rustix::io::Errno::NOTDIR)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(FileError::NoFolder {
            path: given.to_owned(),
            folder: folder.to_owned(),
        }),
        Err(error) => Err(FileError::io("write", given)(error)),
    }
}

impl Replacement {
    /// Follows `path` through links to a regular file, which need not exist, and checks that it can
    /// be replaced. Must be called before the work whose result it receives.
    ///
    /// # Errors
    /// A folder, a device or pipe, a folder that is missing or cannot be written to, a
    /// write-protected file.
    pub fn new(path: &Path) -> Result<Self, FileError> {
        match place(path)? {
            Destination::File(file) => Ok(file),
            Destination::Stream => Err(FileError::NotAFile {
                path: path.to_owned(),
                kind: fs::metadata(path).map_or("a device", |m| match m.is_file() {
                    true => "an open descriptor",
                    false => kind_name(m.file_type()),
                }),
            }),
        }
    }

    /// The file, with all links followed.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.file
    }

    fn check_writable(&self) -> Result<(), FileError> {
        let refused = |path: &Path, access| {
            rustix::fs::access(path, access).map_err(FileError::io("write", path))
        };
        refused(&self.folder, Access::WRITE_OK | Access::EXEC_OK)?;
        let Some(older) = &self.older else {
            return Ok(());
        };
        refused(&self.file, Access::WRITE_OK)?;
        // In a sticky folder such as /tmp only its owner can replace a file.
        let folder = fs::metadata(&self.folder).map_err(FileError::io("write", &self.folder))?;
        let me = rustix::process::geteuid().as_raw();
        let may = [0, older.uid, folder.uid()].contains(&me);
        if folder.mode() & 0o1000 != 0 && !may {
            let error = io::Error::from(io::ErrorKind::PermissionDenied);
            return Err(FileError::io("replace", &self.file)(error));
        }
        Ok(())
    }

    /// Whether there is a file with contents, which [`Draft::replace_keeping_old`] would keep.
    #[must_use]
    pub fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.file).is_ok_and(|file| file.len() > 0)
    }

    /// The name that an older output gets: `.old` after its own.
    fn old(&self) -> PathBuf {
        let mut name = self.file.clone().into_os_string();
        name.push(".old");
        PathBuf::from(name)
    }

    /// Checks that the existing file is an older output, and that it can be kept as `.old`, where
    /// only a still older one is replaced.
    ///
    /// # Errors
    /// [`FileError::NotOurs`] or [`FileError::InTheWay`] for a file that is not of this kind.
    pub fn check_old(&self, kind: FileKind) -> Result<(), FileError> {
        let moves = self.is_there();
        if moves && !(kind.recognize)(&self.file) {
            return Err(FileError::NotOurs {
                path: self.given.clone(),
                kind: kind.name,
            });
        }
        let old = self.old();
        let blocks = match fs::symlink_metadata(&old) {
            Ok(found) if !found.is_file() => true,
            Ok(found) => moves && found.len() > 0 && !(kind.recognize)(&old),
            Err(_) => false,
        };
        match blocks {
            true => Err(FileError::InTheWay(old)),
            false => Ok(()),
        }
    }

    /// Gives a file of this kind the name of an older output.
    fn move_away(&self, kind: FileKind) -> Result<(), FileError> {
        if !self.is_there() {
            return Ok(());
        }
        self.check_old(kind)?;
        match fs::rename(&self.file, self.old()) {
            // Another run that ended at the same moment has moved it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            moved => moved.map_err(FileError::io("write", &self.given)),
        }
    }

    /// Abandoned drafts of this output: their writers were killed.
    #[must_use]
    pub fn abandoned(&self) -> Vec<PathBuf> {
        let start = self.draft_prefix();
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = entries
            .filter(|entry| {
                let name = entry.file_name();
                let name = name.as_bytes();
                name.starts_with(start.as_bytes()) && name.ends_with(PARTIAL.as_bytes())
            })
            .map(|entry| entry.path())
            .filter(|path| {
                open_file(path).is_ok_and(|file| {
                    rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_ok()
                })
            })
            .collect();
        found.sort();
        found
    }

    /// `linemate.data.` of `linemate.data.k3XzQq.partial`.
    fn draft_prefix(&self) -> OsString {
        let name = self.file.file_name().unwrap_or_default().as_bytes();
        let mut prefix = name.get(..NAME_MAX).unwrap_or(name).to_owned();
        prefix.push(b'.');
        std::os::unix::ffi::OsStringExt::from_vec(prefix)
    }

    /// Starts the new file next to the older one, under a unique name. It has the older one's owner
    /// and permissions; without one, those that the umask leaves.
    ///
    /// # Errors
    /// The system's.
    pub fn draft(self) -> Result<Draft, FileError> {
        let rights = if self.older.is_some() { 0o600 } else { 0o666 };
        let failed = |error: io::Error| FileError::io("write", &self.given)(error);
        let file = tempfile::Builder::new()
            .prefix(&self.draft_prefix())
            .suffix(PARTIAL)
            .permissions(Permissions::from_mode(rights))
            .tempfile_in(&self.folder)
            .map_err(failed)?;
        if let Some(older) = &self.older {
            take_rights(file.as_file(), older).map_err(failed)?;
        }
        // Locked as long as the draft lives, however its writer ends. Without lock support, nothing
        // counts as abandoned.
        let _ = rustix::fs::flock(file.as_file(), FlockOperation::NonBlockingLockExclusive);
        Ok(Draft { of: self, file })
    }
}

/// Gives `file` the owner, group and mode of the file that it replaces.
fn take_rights(file: &File, older: &Older) -> io::Result<()> {
    let mut mode = older.mode;
    let new = Older::new(&file.metadata()?);
    if (new.uid, new.gid) != (older.uid, older.gid) {
        let (uid, gid) = (Uid::from_raw(older.uid), Gid::from_raw(older.gid));
        // Only root can give away a file. Permissions of another group must not pass to this one.
        if rustix::fs::fchown(file, Some(uid), Some(gid)).is_err() {
            mode &= 0o707;
        }
    }
    file.set_permissions(Permissions::from_mode(mode))
}

/// A new file that will replace an older one; removed when dropped.
#[derive(Debug)]
pub struct Draft {
    of: Replacement,
    file: NamedTempFile,
}

impl Draft {
    #[must_use]
    pub fn file(&self) -> &File {
        self.file.as_file()
    }

    /// The new file's temporary path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Replaces the older file by the new one.
    ///
    /// # Errors
    /// The system's; then the older file is unchanged.
    pub fn replace(self) -> Result<(), FileError> {
        let path = self.of.file;
        self.file
            .persist(&path)
            .map_err(|error| FileError::io("write", &self.of.given)(error.error))?;
        Ok(())
    }

    /// Like [`Draft::replace`], but first renames an older file with contents to its name plus
    /// `.old`.
    ///
    /// # Errors
    /// As for [`Replacement::check_old`], because others may have written there since, and the
    /// system's. Then the new file is at [`Draft::path`], and nothing is lost.
    pub fn replace_keeping_old(self, kind: FileKind) -> Result<(), FileError> {
        if let Err(error) = self.of.move_away(kind) {
            // Dropping the file would remove it.
            let _ = self.file.keep();
            return Err(error);
        }
        self.file.persist(&self.of.file).map(drop).map_err(|error| {
            let _ = error.file.keep();
            FileError::io("write", &self.of.given)(error.error)
        })
    }

    /// Keeps an unfinished file, and returns its path: at the output's place if there was nothing,
    /// else under the draft's own name.
    ///
    /// # Errors
    /// The system's.
    pub fn keep(self) -> Result<PathBuf, FileError> {
        let (given, there) = (self.of.given.clone(), self.of.is_there());
        let kept = if there {
            self.file.keep().map(|(_, path)| path)
        } else {
            match self.file.persist_noclobber(&self.of.file) {
                Ok(_) => return Ok(given),
                Err(error) => error.file.keep().map(|(_, path)| path),
            }
        };
        kept.map_err(|error| FileError::io("keep", &given)(error.error))
    }
}
