//! Where a recording's bytes come from.

use std::fs::File;
use std::io;

use linemate_files::FileState;

/// Bytes that several threads can read at any offset at once.
pub trait Source: Send + Sync {
    /// The number of bytes.
    ///
    /// # Errors
    /// Any error of the operating system.
    fn length(&self) -> io::Result<u64>;

    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// Any error of the operating system; [`io::ErrorKind::UnexpectedEof`] if there are not that
    /// many bytes.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// The file's identity and when it last changed; `None` for bytes that are not in a file.
    ///
    /// # Errors
    /// Any error of the operating system.
    fn state(&self) -> io::Result<Option<FileState>> {
        Ok(None)
    }
}

impl Source for File {
    fn length(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, buffer, offset)
    }

    fn state(&self) -> io::Result<Option<FileState>> {
        FileState::of(self).map(Some)
    }
}

impl Source for Vec<u8> {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(buffer.len());
        let bytes = self.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}
