//! Why there is no outcome, and why edits do not fit a recording.

use linemate_recording::Error as RecordingError;
use linemate_replay::ReplayError;
use linemate_session::SessionError;

/// Why a plan does not fit a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VariantError {
    /// A function without code of its own.
    #[error(
        "there is no function `{name}` with code of its own: if it is inlined, name a caller{}",
        linemate_text::suggestion(nearest)
    )]
    NoFunction {
        /// The requested function.
        name: String,
        /// The names most like it.
        nearest: Vec<String>,
    },
    /// The recording has no object of the type.
    #[error("the recording has no access to any {0}")]
    NoObjects(String),
    /// No variable or block of a program has the name.
    #[error(
        "the recording has no access to any {name} to {purpose}{}",
        linemate_text::suggestion(nearest)
    )]
    NoMemory {
        /// The name.
        name: String,
        /// What the edit does with it.
        purpose: &'static str,
        /// The names most like it.
        nearest: Vec<String>,
    },
    /// No array was found that a pointer leads to.
    #[error(
        "no array of `{path}` to skip: of {owners} objects whose `{path}` is loaded, none can be identified from the next accesses"
    )]
    NoArray {
        /// The pointer, as `TYPE.FIELD`.
        path: String,
        /// Objects whose pointer was loaded.
        owners: usize,
    },
}

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// A number of CPUs that cloning cannot give.
    #[error(
        "{wanted} CPUs are not a multiple of the {recorded} recorded ones: the nearest is {nearest}"
    )]
    Cpus {
        /// What was requested.
        wanted: usize,
        /// How many CPUs were recorded.
        recorded: usize,
        /// The nearest number that is possible.
        nearest: usize,
    },
    /// Nothing says which of the kernel's memory more CPUs would share.
    #[error("--cpus needs kernel types: record without `--kernel-types no`")]
    Unnamed,
    /// More CPUs than were recorded, on a machine with locks: they wait by
    /// [`crate::Groups::locks`].
    #[error("--mechanisms locks is for the recorded CPUs: with {0} CPUs use --groups locks")]
    Locks(usize),
    /// More CPUs than were recorded are replayed warm only.
    #[error("{0} CPUs, more than were recorded, can only be replayed warm: omit --cold")]
    Cold(usize),
    /// The recording cannot answer.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The replay refused the machine or an access.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

impl From<RecordingError> for ExperimentError {
    fn from(error: RecordingError) -> ExperimentError {
        ExperimentError::Session(error.into())
    }
}
