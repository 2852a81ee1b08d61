//! Inputs and outputs: options, advice, errors.

use linemate_experiment::{Conditions, ExperimentError, INTERLEAVINGS_MIN};
use linemate_machine::Machine;
use linemate_recording::Error as RecordingError;

/// How to search for remedies.
#[derive(Clone, Debug)]
pub struct RemedyOptions {
    /// The machine for costs and effects.
    pub machine: Machine,
    /// CPUs and caches of the replays.
    pub conditions: Conditions,
    /// The first interleaving's seed; the others count up from it.
    pub seed: u64,
    /// How many interleavings a predicted effect is averaged over.
    pub interleavings: usize,
    /// Whether all of them are replayed, even if fewer give narrow intervals.
    pub all_interleavings: bool,
    /// How many remedies of each kind to list.
    pub per_kind: usize,
    /// How many remedies to try by replay; the best of each kind come first. `None`: two, and up to
    /// six of which each has a twentieth of all cost at stake.
    pub trials: Option<usize>,
    /// Only for this type or variable; `None`: everything.
    pub focus: Option<String>,
}

impl RemedyOptions {
    /// The usual options for a machine: 8 interleavings from seed 1, eight remedies of each kind,
    /// those tried that are worth it.
    #[must_use]
    pub fn new(machine: Machine) -> RemedyOptions {
        RemedyOptions {
            machine,
            conditions: Conditions::default(),
            seed: 1,
            interleavings: INTERLEAVINGS_MIN,
            all_interleavings: false,
            per_kind: 8,
            trials: None,
            focus: None,
        }
    }
}

/// Why there is no advice.
#[derive(Debug, thiserror::Error)]
pub enum RemedyError {
    #[error(transparent)]
    Recording(#[from] RecordingError),
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// Too few for a confidence interval.
    #[error(
        "{0} interleavings are too few for a 95 % confidence interval: at least {INTERLEAVINGS_MIN}"
    )]
    Interleavings(usize),
    /// Nothing with that name was touched.
    #[error("the recording has no access to any type or variable `{0}`")]
    Absent(String),
}
