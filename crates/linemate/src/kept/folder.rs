//! The cached files of one recording.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use linemate_files::{open_file, private_folder};
use linemate_recording::Source;
use tempfile::NamedTempFile;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{ANALYSIS, say};
use crate::output;

/// The file's first bytes.
const MAGIC: [u8; 8] = *b"lmkept2\n";
/// The maximum size of all files together: the streams of some fifty recordings of 200 million
/// accesses.
const BYTES_MAX: u64 = 4 << 30;

/// The files of one recording, each with a key.
pub(super) struct Folder {
    path: PathBuf,
    checksum: u64,
    verbose: bool,
    /// Whether the note about a misplaced file was printed: one line is enough.
    warned: AtomicBool,
}

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is incomplete, or not what its name says")]
    Damaged,
}

impl Folder {
    /// The files in the folder `path` of the recording with this checksum.
    ///
    /// # Errors
    /// The folder cannot be made, or is not trusted.
    pub(super) fn new(
        path: PathBuf,
        checksum: u64,
        verbose: bool,
    ) -> Result<Folder, linemate_files::FileError> {
        private_folder(&path)?;
        Ok(Folder {
            path,
            checksum,
            verbose,
            warned: AtomicBool::new(false),
        })
    }

    fn file(&self, key: &str) -> PathBuf {
        let digest = &ANALYSIS[..16];
        self.path
            .join(format!("{:016x}-{digest}.{key}", self.checksum))
    }

    /// Everything before the content, given its checksum. It includes the key: a renamed file is
    /// not another part.
    fn head(&self, key: &str, content: u64) -> Vec<u8> {
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(ANALYSIS.as_bytes());
        head.extend_from_slice(&self.checksum.to_le_bytes());
        head.extend_from_slice(&(key.len() as u64).to_le_bytes());
        head.extend_from_slice(key.as_bytes());
        head.extend_from_slice(&content.to_le_bytes());
        head
    }

    /// The content of the file, and the head that says what it has to be. Not checked yet.
    fn unchecked(&self, key: &str, path: &Path) -> Result<(Content, Vec<u8>), Unusable> {
        let mut file = open_file(path)?;
        let mut head = vec![0; self.head(key, 0).len()];
        match file.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(Unusable::Damaged);
            }
            read => read?,
        }
        let content = Content {
            start: head.len() as u64,
            end: file.metadata()?.len().min(head.len() as u64 + BYTES_MAX),
            file,
        };
        Ok((content, head))
    }

    /// The content of the file, complete and unchanged, to be read in pieces.
    fn checked(&self, key: &str, path: &Path) -> Result<Content, Unusable> {
        let (content, head) = self.unchecked(key, path)?;
        if head != self.head(key, content.checksum()?) {
            return Err(Unusable::Damaged);
        }
        content.mark_used();
        Ok(content)
    }

    /// The same, read at once. The bytes that are checked are those that are returned.
    fn read(&self, key: &str, path: &Path) -> Result<Vec<u8>, Unusable> {
        let (content, head) = self.unchecked(key, path)?;
        let length = usize::try_from(content.length()?).map_err(|_| Unusable::Damaged)?;
        let mut bytes = vec![0; length];
        content.read_at(0, &mut bytes)?;
        if head != self.head(key, xxh3_64(&bytes)) {
            return Err(Unusable::Damaged);
        }
        content.mark_used();
        Ok(bytes)
    }

    fn write(&self, key: &str, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut file = NamedTempFile::new_in(&self.path)?;
        file.write_all(&self.head(key, xxh3_64(content)))?;
        file.write_all(content)?;
        // Another process that reads it now reads one or the other, in full.
        file.persist(path)?;
        make_room(&self.path, BYTES_MAX)
    }

    /// Whether a pipe, device, folder or link is in a file's place. It stays: linemate did not put
    /// it there.
    fn is_taken(&self, path: &Path) -> bool {
        let kind = match fs::symlink_metadata(path) {
            Ok(about) if !about.is_file() => about.file_type(),
            _ => return false,
        };
        if !self.warned.swap(true, Ordering::Relaxed) {
            let (path, kind) = (path.display(), linemate_files::kind_name(kind));
            output::to_stderr(&format!(
                "note: {path} is {kind}, not a cache file: nothing is cached there; remove it"
            ));
        }
        true
    }

    /// What was stored under this key, complete and unchanged.
    pub(super) fn load(&self, key: &str) -> Option<Vec<u8>> {
        self.usable(key, Folder::read)
    }

    /// The same, to be read in pieces.
    pub(super) fn open(&self, key: &str) -> Option<Content> {
        self.usable(key, Folder::checked)
    }

    fn usable<T>(
        &self,
        key: &str,
        read: impl Fn(&Folder, &str, &Path) -> Result<T, Unusable>,
    ) -> Option<T> {
        let path = self.file(key);
        if self.is_taken(&path) {
            return None;
        }
        match read(self, key, &path) {
            Ok(content) => Some(content),
            Err(Unusable::Io(error)) if error.kind() == io::ErrorKind::NotFound => None,
            Err(why) => {
                let path = path.display();
                say(self.verbose, &format!("{path} is rebuilt: {why}"));
                None
            }
        }
    }

    /// Stores it under this key.
    pub(super) fn store(&self, key: &str, bytes: &[u8]) {
        let path = self.file(key);
        if self.is_taken(&path) {
            return;
        }
        let named = path.display();
        match self.write(key, &path, bytes) {
            Ok(()) => say(self.verbose, &format!("cached {named}")),
            Err(why) => say(self.verbose, &format!("cannot cache {named}: {why}")),
        }
    }
}

/// What a file holds after its head.
pub(super) struct Content {
    file: File,
    start: u64,
    end: u64,
}

/// How many bytes are read at a time for a checksum.
const READ_AT_ONCE: usize = 1 << 20;

impl Content {
    /// The oldest files go first: this one is young again. If its time cannot be set, it goes
    /// earlier.
    fn mark_used(&self) {
        let _ = self.file.set_modified(SystemTime::now());
    }

    fn checksum(&self) -> io::Result<u64> {
        let mut digest = Xxh3::new();
        let mut buffer = vec![0; READ_AT_ONCE];
        let (mut at, length) = (0, self.length()?);
        while at < length {
            let count = (length - at).min(READ_AT_ONCE as u64);
            let part = &mut buffer[..count as usize];
            self.read_at(at, part)?;
            digest.update(part);
            at += count;
        }
        Ok(digest.digest())
    }
}

impl Source for Content {
    fn length(&self) -> io::Result<u64> {
        Ok(self.end.saturating_sub(self.start))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let start = self.start.saturating_add(offset);
        if start.saturating_add(buffer.len() as u64) > self.end {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Source::read_at(&self.file, start, buffer)
    }
}

/// Removes the least recently used files of the folder, until the others have at most `most` bytes
/// together.
fn make_room(folder: &Path, most: u64) -> io::Result<()> {
    let mut files: Vec<(SystemTime, PathBuf, u64)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let about = entry.metadata()?;
        if about.is_file() {
            files.push((about.modified()?, entry.path(), about.len()));
        }
    }
    files.sort();
    let mut sum: u64 = files.iter().map(|(.., bytes)| bytes).sum();
    for (_, path, bytes) in files {
        if sum <= most {
            break;
        }
        // Another process may have been quicker.
        let _ = fs::remove_file(path);
        sum -= bytes;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn folder(path: &Path, checksum: u64) -> Folder {
        Folder {
            path: path.to_owned(),
            checksum,
            verbose: false,
            warned: AtomicBool::new(false),
        }
    }

    #[test]
    fn what_is_stored_is_loaded_and_nothing_else() {
        let temporary = tempfile::tempdir().unwrap();
        let kept = folder(temporary.path(), 7);
        assert_eq!(kept.load("counts"), None);
        kept.store("counts", b"content");
        assert_eq!(kept.load("counts").as_deref(), Some(&b"content"[..]));
        let path = kept.file("counts");
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, damaged).unwrap();
            assert_eq!(kept.load("counts"), None, "byte {at} is wrong");
            fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(kept.load("counts"), None, "cut after {at} bytes");
        }
        fs::write(&path, &whole).unwrap();
        // Another recording's file under this one's name.
        let other = folder(temporary.path(), 8);
        fs::copy(&path, other.file("counts")).unwrap();
        assert_eq!(other.load("counts"), None);
    }

    #[test]
    fn files_that_were_exchanged_are_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let kept = folder(temporary.path(), 7);
        // One with a key of another length, too.
        for (one, two) in [("outcomes-1", "outcomes-2"), ("counts", "outcomes-1")] {
            kept.store(one, b"one");
            kept.store(two, b"two");
            let aside = temporary.path().join("aside");
            fs::rename(kept.file(one), &aside).unwrap();
            fs::rename(kept.file(two), kept.file(one)).unwrap();
            fs::rename(&aside, kept.file(two)).unwrap();
            assert_eq!([kept.load(one), kept.load(two)], [None, None]);
        }
    }

    #[test]
    fn what_is_no_file_is_neither_read_nor_replaced() {
        let temporary = tempfile::tempdir().unwrap();
        let kept = folder(temporary.path(), 7);
        let path = kept.file("counts");
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(kept.load("counts"), None);
        kept.store("counts", b"content");
        assert!(!fs::metadata(&path).unwrap().is_file());
        assert!(kept.warned.load(Ordering::Relaxed));
        // Other parts are stored all the same.
        kept.store("stream64", b"content");
        assert_eq!(kept.load("stream64").as_deref(), Some(&b"content"[..]));
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let temporary = tempfile::tempdir().unwrap();
        let path = |name: &str| temporary.path().join(name);
        for (age, name) in [(1, "young"), (9, "old"), (5, "middle")] {
            fs::write(path(name), [0; 10]).unwrap();
            let file = File::options().write(true).open(path(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age))
                .unwrap();
        }
        make_room(temporary.path(), 25).unwrap();
        assert!(!path("old").exists() && path("middle").exists() && path("young").exists());
        make_room(temporary.path(), 0).unwrap();
        assert!(!path("middle").exists() && !path("young").exists());
    }
}
