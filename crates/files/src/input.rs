//! Files that a user names to be read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// The maximum size of a text: edits, rules, evidence and descriptions are far smaller.
pub const TEXT_MAX: u64 = 16 << 20;

/// Opens a regular file. Never blocks, as a named pipe would.
///
/// # Errors
/// The system's error, or it is not a regular file.
pub fn open_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("it is {}, not a file", kind_name(kind)),
    ))
}

/// Reads a regular file: a recording, an image.
///
/// # Errors
/// As for [`open_file`], and any error from reading.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a text of at most [`TEXT_MAX`] bytes. A pipe is fine: `--edit <(…)`.
///
/// # Errors
/// The system's error, or the text is too long or not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?
        .take(TEXT_MAX + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > TEXT_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "it has more than {} MiB, too large for a text file",
                TEXT_MAX >> 20
            ),
        ));
    }
    Ok(text)
}

/// The name of a kind of file that is not a regular one.
#[must_use]
pub fn kind_name(kind: fs::FileType) -> &'static str {
    if kind.is_symlink() {
        "a link"
    } else if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_char_device() || kind.is_block_device() {
        "a device"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a special file"
    }
}
