//! Whether a recording's bytes are as they were written.

use linemate_files::FileState;

use super::Recording;
use crate::Error;
use crate::error::io_error;
use crate::format::{ChunkKind, RunningChecksum};

impl Recording {
    /// Reads every chunk and compares checksums: the chunks' own, and that of all of them, which
    /// identifies the recording. Nothing is unpacked: [`crate::verify()`] checks the contents of
    /// chunks.
    ///
    /// `done` is called with the number of chunks read since the previous call.
    ///
    /// # Errors
    /// The first chunk that is not as written, or that the chunks are not those of the END chunk.
    pub fn check(&self, done: &dyn Fn(u64)) -> Result<(), Error> {
        let mut running = RunningChecksum::default();
        for chunk in self.frame.chunks() {
            self.frame.stored(chunk)?;
            if chunk.header.kind != ChunkKind::End {
                running.add(chunk.header.checksum);
            }
            done(1);
        }
        let found = running.value();
        match self.checksum() {
            Some(promised) if promised != found => Err(Error::RunningChecksum { promised, found }),
            _ => Ok(()),
        }
    }

    /// The number of chunks of any kind, all of them complete.
    #[must_use]
    pub fn chunk_count(&self) -> u64 {
        self.frame.chunks().len() as u64
    }

    /// The file it is read from and when that last changed; `None` if it is not in a file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn file_state(&self) -> Result<Option<FileState>, Error> {
        let state = self.frame.source.state();
        state.map_err(io_error("read the recording"))
    }
}
