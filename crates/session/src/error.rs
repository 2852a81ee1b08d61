//! Why a recording cannot answer.

use linemate_recording::Error as RecordingError;
use linemate_replay::ReplayError;

/// Why a recording cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The recording does not say how many CPUs it has.
    #[error("the recording does not contain its number of CPUs")]
    NoCpus,
    /// The recording cannot be read to its end.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// It has accesses now that it had not when it was opened.
    #[error("the recording changed while it was read: run the command again")]
    Changed,
    /// What was kept of it.
    #[error(
        "the cached stream of the recording cannot be packed, read or unpacked: use --no-cache and --exact"
    )]
    Kept,
    /// An access that no replay takes.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}
