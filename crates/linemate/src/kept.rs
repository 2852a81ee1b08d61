//! Results about recordings, cached for the next question.
//!
//! A file is named by the recording's checksum, the digest of the analysing code and its contents,
//! so that another recording or another program never uses it, and contains all three and its own
//! checksum. A defective file or folder is treated as absent: the answer comes later, but is the
//! same.

mod folder;
mod sound;

use std::time::SystemTime;

use linemate_guest::cache_folder;
use linemate_recording::{Recording, Source};
use linemate_session::progress::{Progress, Step, StepParts};
use linemate_session::shelf::{Nothing, Part, Shelf};

use crate::output;
use folder::Folder;

/// The digest of the analysing code: computed by the build script.
const ANALYSIS: &str = env!("LINEMATE_ANALYSIS");

/// Whether to cache results.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct Keeping {
    /// Do not read or write the analysis cache
    #[arg(long)]
    no_cache: bool,
    /// Report on standard error what is cached, or why not
    #[arg(short, long)]
    verbose: bool,
}

impl Keeping {
    /// Where results about a recording are cached. The recording is checked first: what was cached
    /// when it was sound must not answer for it when it no longer is.
    ///
    /// # Errors
    /// A recording that is not as it was written.
    pub(crate) fn shelf(
        self,
        recording: &Recording,
        progress: &dyn Progress,
    ) -> Result<Box<dyn Shelf>, linemate_recording::Error> {
        let folder = self.folder(recording);
        let known = match &folder {
            Some(folder) => sound::is_known(folder, recording)?,
            None => false,
        };
        if !known {
            // Taken first: a file that changes while it is checked is in another state afterwards,
            // and is not noted as sound.
            let before = recording.file_state()?;
            progress.begin(Step::Checking, StepParts(recording.chunk_count()));
            recording.check(&|chunks| progress.advance(StepParts(chunks)))?;
            if let (Some(folder), Some(before)) = (&folder, before) {
                sound::remember(folder, recording, before, SystemTime::now())?;
            }
        }
        Ok(match folder {
            Some(folder) => Box::new(Kept(folder)),
            None => Box::new(Nothing),
        })
    }

    fn folder(self, recording: &Recording) -> Option<Folder> {
        if self.no_cache {
            return None;
        }
        let Some(checksum) = recording.checksum() else {
            say(
                self.verbose,
                "nothing is cached: the recording is truncated",
            );
            return None;
        };
        let path = match cache_folder() {
            Ok(cache) => cache.join("questions"),
            Err(why) => {
                say(self.verbose, &format!("nothing is cached: {why}"));
                return None;
            }
        };
        match Folder::new(path, checksum, self.verbose) {
            Ok(folder) => Some(folder),
            Err(why) => {
                let line = format!("nothing is cached: {why}");
                // A missing permission may be intended; a pipe or file where the cache should be is
                // not.
                match why.is_in_the_way() {
                    true => {
                        output::to_stderr(&format!("note: {line}; remove what is in its place"))
                    }
                    false => say(self.verbose, &line),
                }
                None
            }
        }
    }
}

fn say(verbose: bool, text: &str) {
    if verbose {
        output::to_stderr(text);
    }
}

/// The cached parts of one recording.
struct Kept(Folder);

impl Shelf for Kept {
    fn load(&self, part: Part) -> Option<Vec<u8>> {
        self.0.load(&part.to_string())
    }

    fn open(&self, part: Part) -> Option<Box<dyn Source>> {
        let content = self.0.open(&part.to_string())?;
        Some(Box::new(content))
    }

    fn store(&self, part: Part, bytes: &[u8]) {
        self.0.store(&part.to_string(), bytes);
    }
}
