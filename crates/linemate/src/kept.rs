//! What was worked out about recordings, kept in the cache folder for the next question.
//!
//! A file is named by the recording's checksum and the digest of what analyses, so that another recording or another program never
//! meets it, and carries both and a checksum of its own. Whatever is wrong with a file, or with the folder, is as if it were not there: the
//! answer comes later, but is the same.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use linemate_guest::cache_folder;
use linemate_recording::Recording;
use linemate_study::shelf::{Nothing, Part, Shelf};
use tempfile::NamedTempFile;
use xxhash_rust::xxh3::xxh3_64;

/// The digest of what analyses: made by the build script.
const ANALYSIS: &str = env!("LINEMATE_ANALYSIS");
/// The file's first bytes.
const MAGIC: [u8; 8] = *b"lmkept1\n";
/// The most bytes of all files together: the streams of some fifty recordings of 200 million accesses.
const BYTES_MAX: u64 = 4 << 30;

/// Whether to keep what is worked out.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct Keeping {
    /// Neither use nor keep what is worked out about the recording
    #[arg(long)]
    no_cache: bool,
    /// Say on the error output what is kept, and why not
    #[arg(short, long)]
    verbose: bool,
}

impl Keeping {
    /// Where what is worked out about a recording goes.
    pub(crate) fn shelf(self, recording: &Recording) -> Box<dyn Shelf> {
        if self.no_cache {
            return Box::new(Nothing);
        }
        match Folder::new(recording, self.verbose) {
            Ok(folder) => Box::new(folder),
            Err(why) => {
                say(self.verbose, &format!("nothing is kept: {why}"));
                Box::new(Nothing)
            }
        }
    }
}

#[allow(clippy::print_stderr, reason = "what --verbose asks for")]
fn say(verbose: bool, text: &str) {
    if verbose {
        eprintln!("linemate: {text}");
    }
}

/// The files of one recording.
struct Folder {
    path: PathBuf,
    checksum: u64,
    verbose: bool,
}

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is not whole, or not of this recording")]
    Damaged,
}

impl Folder {
    fn new(recording: &Recording, verbose: bool) -> anyhow::Result<Folder> {
        let Some(checksum) = recording.checksum() else {
            anyhow::bail!("the recording is cut");
        };
        let path = cache_folder()?.join("questions");
        linemate_files::private_folder(&path)?;
        Ok(Folder {
            path,
            checksum,
            verbose,
        })
    }

    fn file(&self, part: Part) -> PathBuf {
        let digest = &ANALYSIS[..16];
        self.path
            .join(format!("{:016x}-{digest}.{part}", self.checksum))
    }

    /// Everything before the content, given its checksum.
    fn head(&self, content: u64) -> Vec<u8> {
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(ANALYSIS.as_bytes());
        head.extend_from_slice(&self.checksum.to_le_bytes());
        head.extend_from_slice(&content.to_le_bytes());
        head
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, Unusable> {
        let mut file = File::open(path)?;
        let mut head = vec![0; self.head(0).len()];
        file.read_exact(&mut head)?;
        let mut content = Vec::new();
        Read::by_ref(&mut file)
            .take(BYTES_MAX)
            .read_to_end(&mut content)?;
        if head != self.head(xxh3_64(&content)) {
            return Err(Unusable::Damaged);
        }
        // The oldest go first: this one is young again. If it cannot be, it goes earlier.
        let _ = file.set_modified(SystemTime::now());
        Ok(content)
    }

    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut file = NamedTempFile::new_in(&self.path)?;
        file.write_all(&self.head(xxh3_64(content)))?;
        file.write_all(content)?;
        // Whoever reads it now reads the one or the other, whole.
        file.persist(path)?;
        make_room(&self.path, BYTES_MAX)
    }
}

impl Shelf for Folder {
    fn load(&self, part: Part) -> Option<Vec<u8>> {
        let path = self.file(part);
        match self.read(&path) {
            Ok(content) => Some(content),
            Err(Unusable::Io(error)) if error.kind() == io::ErrorKind::NotFound => None,
            Err(why) => {
                let path = path.display();
                say(self.verbose, &format!("{path} is made again: {why}"));
                None
            }
        }
    }

    fn store(&self, part: Part, bytes: &[u8]) {
        let path = self.file(part);
        let named = path.display();
        match self.write(&path, bytes) {
            Ok(()) => say(self.verbose, &format!("kept {named}")),
            Err(why) => say(self.verbose, &format!("cannot keep {named}: {why}")),
        }
    }
}

/// Removes the files of the folder that were not used for longest, until the others have `most` bytes together.
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

    fn folder(path: &Path) -> Folder {
        Folder {
            path: path.to_owned(),
            checksum: 7,
            verbose: false,
        }
    }

    #[test]
    fn what_is_stored_is_loaded_and_nothing_else() {
        let temporary = tempfile::tempdir().unwrap();
        let shelf = folder(temporary.path());
        assert_eq!(shelf.load(Part::Counts), None);
        shelf.store(Part::Counts, b"content");
        assert_eq!(shelf.load(Part::Counts).as_deref(), Some(&b"content"[..]));
        let path = shelf.file(Part::Counts);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, damaged).unwrap();
            assert_eq!(shelf.load(Part::Counts), None, "byte {at} is wrong");
            fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(shelf.load(Part::Counts), None, "cut after {at} bytes");
        }
        fs::write(&path, &whole).unwrap();
        // Another recording's file under this one's name.
        let other = Folder {
            checksum: 8,
            ..folder(temporary.path())
        };
        fs::copy(&path, other.file(Part::Counts)).unwrap();
        assert_eq!(other.load(Part::Counts), None);
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
