//! What a recording says about its run, checked where a question needs it.

use linemate_attribution::Analysis;
use linemate_machine::ThreadsPerCore;
use linemate_recording::Recording;

use crate::error::SessionError;

/// The number of CPUs in the recording's description.
///
/// # Errors
/// If the description has none.
pub fn recorded_cpus(analysis: &Analysis<'_>) -> Result<usize, SessionError> {
    let cpus = analysis.recording().description().cpus;
    cpus.map(usize::from)
        .filter(|cpus| *cpus > 0)
        .ok_or(SessionError::NoCpus)
}

/// How many consecutive CPUs of the recording are the threads of one core: one, if its description
/// does not say, or says what its number of CPUs is not a multiple of.
#[must_use]
pub fn recorded_threads(recording: &Recording) -> ThreadsPerCore {
    let description = recording.description();
    let cpus = description.cpus.unwrap_or_default();
    let threads = description.threads.filter(|threads| cpus % *threads == 0);
    threads.map_or_else(ThreadsPerCore::default, ThreadsPerCore)
}
