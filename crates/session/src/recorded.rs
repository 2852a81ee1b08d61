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

/// Which CPUs of the recording are threads of one core: none, if its description does not say.
#[must_use]
pub fn recorded_threads(recording: &Recording) -> ThreadsPerCore {
    let threads = recording.description().threads;
    threads.map_or_else(ThreadsPerCore::default, ThreadsPerCore)
}
