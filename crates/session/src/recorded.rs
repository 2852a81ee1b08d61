//! What a recording says about its run, checked where a question needs it.

use linemate_attribution::Analysis;

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
