//! Whether a file is still the same.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

/// How long two changes of a file may have the same time: file systems that count in seconds, and a
/// tick of others.
const SAME_TIME: Duration = Duration::from_secs(2);

/// A file's identity, and when it last changed. The system sets the change time (`ctime`) at every
/// write and at every change of name, owner or modification time, and no program can set it back:
/// two equal states mean one file with one content. Corruption of the medium changes no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileState {
    /// That of an open file.
    ///
    /// # Errors
    /// The system's.
    pub fn of(file: &File) -> io::Result<FileState> {
        let about = file.metadata()?;
        Ok(FileState {
            device: about.dev(),
            inode: about.ino(),
            bytes: about.len(),
            modified: (about.mtime(), about.mtime_nsec()),
            changed: (about.ctime(), about.ctime_nsec()),
        })
    }

    /// The file, whatever its contents: its device and inode.
    #[must_use]
    pub fn file(&self) -> String {
        format!("{:x}-{:x}", self.device, self.inode)
    }

    /// Whether another change at `now` would have another time. A file that has just changed could
    /// change again and have the same state, so results about it must not be cached.
    #[must_use]
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let Ok(now) = now.duration_since(SystemTime::UNIX_EPOCH) else {
            return false;
        };
        let (seconds, nanoseconds) = self.changed;
        let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(seconds), u32::try_from(nanoseconds))
        else {
            return true;
        };
        now.checked_sub(Duration::new(seconds, nanoseconds))
            .is_some_and(|since| since > SAME_TIME)
    }
}

impl fmt::Display for FileState {
    /// All of it, in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, bytes) = (self.file(), self.bytes);
        let ((ms, mns), (cs, cns)) = (self.modified, self.changed);
        write!(f, "{file} {bytes} {ms}.{mns:09} {cs}.{cns:09}")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn every_write_changes_the_state_even_if_the_time_of_modification_is_set_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "one").unwrap();
        let mut file = File::options().read(true).write(true).open(&path).unwrap();
        let before = FileState::of(&file).unwrap();
        assert_eq!(FileState::of(&File::open(&path).unwrap()).unwrap(), before);
        let modified = file.metadata().unwrap().modified().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        file.write_all(b"two").unwrap();
        file.set_modified(modified).unwrap();
        let after = FileState::of(&file).unwrap();
        assert_eq!(after.modified, before.modified);
        assert_ne!(after, before);
        assert_ne!(after.to_string(), before.to_string());
        assert_eq!(after.file(), before.file());
        let copy = folder.path().join("copy");
        fs::copy(&path, &copy).unwrap();
        let copy = FileState::of(&File::open(&copy).unwrap()).unwrap();
        assert_ne!(copy.file(), after.file());
    }

    #[test]
    fn a_file_is_settled_when_the_clock_has_advanced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "one").unwrap();
        let file = File::open(&path).unwrap();
        let state = FileState::of(&file).unwrap();
        let now = file.metadata().unwrap().modified().unwrap();
        assert!(!state.is_settled(now));
        assert!(state.is_settled(now + 2 * SAME_TIME));
        assert!(
            !state.is_settled(now - Duration::from_secs(60)),
            "a clock that goes wrong"
        );
    }
}
