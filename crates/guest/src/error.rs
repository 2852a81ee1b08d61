//! Why a guest could not be set up, run or recorded: each cause with its remedy, in one line.

use std::io;
use std::path::{Path, PathBuf};

use linemate_files::FileError;
use thiserror::Error;

use crate::program::ProgramError;
use crate::qmp::QmpError;
use crate::shape::ShapeError;

/// What to do if QEMU is missing or unsuitable. An installed linemate has no checkout whose set-up
/// could do it.
const QEMU_REMEDY: &str = "install QEMU 9.2 or later with plugins (Debian's packages qemu-system-x86 and qemu-utils; on Debian 12 from bookworm-backports)";

#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GuestError {
    #[error("{program} is not installed: {QEMU_REMEDY}")]
    QemuMissing {
        /// The program that was searched for.
        program: String,
    },
    /// A QEMU without what the recorder needs.
    #[error("{program} is version {found}, which is too old: {QEMU_REMEDY}")]
    QemuTooOld { program: String, found: String },
    /// A QEMU built without plugins.
    #[error("{program} was built without plugins (--enable-plugins): {QEMU_REMEDY}")]
    QemuWithoutPlugins { program: String },
    /// A QEMU that does not print its version.
    #[error("{program} does not report its version (it prints {said:?}): is it QEMU?")]
    QemuUnknown { program: String, said: String },
    /// QEMU ended on its own.
    #[error("QEMU ended unexpectedly while {doing}: {words}")]
    QemuDied {
        /// What it was doing.
        doing: &'static str,
        /// Its last output.
        words: String,
    },
    #[error(transparent)]
    Qmp(#[from] QmpError),
    #[error("the recorder {} is missing: run `make build`, or set LINEMATE_RECORDER to it", .0.display())]
    RecorderMissing(PathBuf),
    /// No kernel to boot.
    #[error(
        "no kernel image: {running} cannot be used ({reason}) and there is none in {cache}: give --kernel, an image or a name such as debian:6.12"
    )]
    NoKernel {
        /// The running kernel's image.
        running: PathBuf,
        /// Why it cannot be used.
        reason: String,
        /// Where pinned ones are.
        cache: PathBuf,
    },
    /// An image that is not a kernel or has no types.
    #[error("{path}: {reason}")]
    KernelUnusable {
        path: PathBuf,
        /// The problem, and what to do.
        reason: String,
    },
    #[error("{0}: the guest's set-up needs it: install Debian's package busybox-static")]
    Busybox(String),
    /// Hardware that cannot be built.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A program that cannot be copied into the guest.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// `--file` that cannot be placed.
    #[error("--file {given}: {reason}")]
    File {
        given: String,
        /// The problem, and what to do.
        reason: String,
    },
    /// A malformed `--allocator`.
    #[error(
        "--allocator {given}: must be FUNCTION:ARGUMENT, where ARGUMENT is the number of the size argument, 1 to 6"
    )]
    Allocator { given: String },
    /// An allocator that no program of the run has.
    #[error(
        "--allocator {0}: no program in the guest has a function of this name: give its symbol as `nm` prints it"
    )]
    NoAllocator(String),
    /// Programs that a recording cannot list.
    #[error("the programs of the run: {0}")]
    Programs(String),
    /// No folder for snapshots.
    #[error("this user has no home folder for a cache: set LINEMATE_CACHE to a folder of your own")]
    NoCache,
    /// An output that cannot be written, or a folder that cannot be trusted.
    #[error(transparent)]
    Files(#[from] FileError),
    /// An error of the file system.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The guest kernel panicked.
    #[error("the guest kernel panicked while {doing}: {words}")]
    Panic {
        /// What it was doing.
        doing: &'static str,
        words: String,
    },
    /// The guest ended without a panic.
    #[error(
        "the guest exited while {doing} (console: {console}): check the kernel options in --append"
    )]
    Ended {
        /// What it was doing.
        doing: &'static str,
        /// The console's last line.
        console: String,
    },
    /// The kernel never started the agent.
    #[error(
        "the guest did not reach its first process within {seconds} s (console: {console}): is it an x86-64 kernel with initramfs support and an 8250 console?"
    )]
    NeverReached {
        seconds: u64,
        /// The console's last line.
        console: String,
    },
    /// The boot makes no progress.
    #[error(
        "the guest hangs while booting: after {started} of {cpus} CPUs, no CPU started and the console printed nothing for {seconds} s of processor time (console: {console}): check the kernel options in --append"
    )]
    BootHangs {
        /// CPUs that the kernel had started.
        started: u16,
        cpus: u16,
        /// Processor time of QEMU.
        seconds: u64,
        /// The console's last line.
        console: String,
    },
    #[error(
        "the guest was still {doing} after {seconds} s: raise --timeout, or give the command less to do"
    )]
    Timeout {
        /// What it was doing.
        doing: &'static str,
        seconds: u64,
    },
    /// The guest's processors make no progress.
    #[error(
        "the guest made no progress for {seconds} s while {doing}: it hangs (console: {console})"
    )]
    Stalled {
        /// What it was doing.
        doing: &'static str,
        seconds: u64,
        /// The console's last line.
        console: String,
    },
    /// The kernel killed a process for memory.
    #[error("the guest ran out of memory ({words}): raise --memory")]
    OutOfMemory { words: String },
    /// The agent could not continue.
    #[error("the guest could not be set up: {0}")]
    Agent(String),
    #[error("the set-up script failed ({status}): its output is above")]
    Setup { status: String },
    /// The agent and the host do not understand each other.
    #[error("unexpected message from the guest while {doing}: {message:?}")]
    Protocol {
        /// What the guest was doing.
        doing: &'static str,
        message: String,
    },
    /// Nobody reads the command's output any more.
    #[error(
        "cannot pass on the command's output: {reason}: the run has ended and left no recording; send the output to a file or to /dev/null"
    )]
    Output {
        /// The system's error.
        reason: io::Error,
    },
    /// The disk is full.
    #[error(
        "disk full: to save {doing} takes {} MiB, and {} has {} MiB left: free some space, or set LINEMATE_CACHE to a folder on another disk",
        needed.div_ceil(1 << 20), path.display(), free >> 20
    )]
    DiskFull {
        doing: &'static str,
        path: PathBuf,
        /// Bytes needed.
        needed: u64,
        /// Bytes that were available.
        free: u64,
    },
    #[error("interrupted while {doing}")]
    Interrupted {
        /// What the guest was doing.
        doing: &'static str,
    },
    /// The snapshot's symbols are unusable.
    #[error("the guest kernel's symbols: {0}")]
    Symbols(String),
    /// Calls of a function cannot be counted.
    #[error(transparent)]
    Event(#[from] crate::functions::EventRefusal),
    /// The recorder cannot continue.
    #[error("{0}")]
    Recorder(String),
    /// The recording cannot be written.
    #[error("{path}: {reason}")]
    Recording { path: PathBuf, reason: String },
    /// Guest memory does not have the expected contents.
    #[error("guest memory: {0}")]
    Memory(String),
}

impl GuestError {
    /// For `map_err`: an I/O error with the operation that failed.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| GuestError::Io {
            doing,
            path,
            source,
        }
    }
}
