//! The pipes that hold a guest.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The capacity of the barrier's pipe, and what the agent writes to it: one byte more, which
/// blocks.
pub(crate) const PIPE_BYTES: usize = 4096;
/// What the agent writes to the barrier.
pub(crate) const BARRIER_BYTES: usize = PIPE_BYTES + 1;

pub(crate) fn make_pipe(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode};
    Ok(rustix::fs::mknodat(
        CWD,
        path,
        FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )?)
}

/// A pipe that holds [`PIPE_BYTES`], open on both sides so that nobody waits for the other to open
/// it.
pub(crate) fn make_barrier(path: &Path) -> io::Result<File> {
    make_pipe(path)?;
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let pipe = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(path)?;
    // A pipe holds at least a page: the less it holds, the fewer bytes the guest has to write.
    rustix::pipe::fcntl_setpipe_size(&pipe, PIPE_BYTES)?;
    Ok(pipe)
}
