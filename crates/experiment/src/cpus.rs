//! How many CPUs are replayed, and where they sit.

use linemate_answers::PredictionError;
use linemate_attribution::Analysis;
use linemate_machine::{LogicalCpu, Machine, ThreadsPerCore};
use linemate_replay::{COPIES_MAX, Mixing, ReplayError, Scaling};
use linemate_session::{Session, recorded_cpus, recorded_threads};

use crate::error::ExperimentError;

/// How many CPUs were recorded, and how many are replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// CPUs in the recording.
    pub recorded: usize,
    /// How many consecutive recorded CPUs are the threads of one core.
    pub threads: ThreadsPerCore,
    /// How many CPUs each of them represents.
    pub copies: u16,
}

impl Cpus {
    /// `wanted` CPUs; as many as were recorded, if it is `None`.
    ///
    /// # Errors
    /// A recording without its number of CPUs; a number that is not a multiple of the recorded
    /// ones; more than those, of a recording in which the kernel's memory has no names.
    pub fn new(analysis: &Analysis<'_>, wanted: Option<usize>) -> Result<Cpus, ExperimentError> {
        let recorded = recorded_cpus(analysis)?;
        let wanted = wanted.unwrap_or(recorded);
        let most = usize::from(COPIES_MAX);
        let copies = wanted / recorded;
        if copies == 0 || copies * recorded != wanted || copies > most {
            // Rounded, so that the number in the message is the closest one that works.
            let nearest = recorded * ((wanted + recorded / 2) / recorded).clamp(1, most);
            return Err(ExperimentError::Cpus {
                wanted,
                recorded,
                nearest,
            });
        }
        let unnamed = analysis.recording().description().kernel_unnamed;
        if copies > 1 && unnamed {
            return Err(ExperimentError::Unnamed);
        }
        Ok(Cpus {
            recorded,
            threads: recorded_threads(analysis.recording()),
            copies: copies as u16,
        })
    }

    /// How many CPUs are replayed.
    pub fn replayed(self) -> usize {
        self.recorded * usize::from(self.copies)
    }

    /// How far such predictions were from recordings; `None` for as many CPUs as were recorded.
    pub fn prediction_error(self, session: &Session<'_>) -> Option<PredictionError> {
        PredictionError::new(self.recorded, self.replayed(), session.growth().is_some())
    }

    /// Where they sit on the machine: recorded CPU c's copy n is number c x copies + n.
    ///
    /// # Errors
    /// More CPUs than the machine has.
    pub fn places(self, machine: &Machine, mixing: Mixing) -> Result<Vec<LogicalCpu>, ReplayError> {
        let scaling = Scaling {
            mixing,
            threads: self.threads,
            ..Scaling::new(self.copies)
        };
        scaling.cpus(machine, self.recorded)
    }
}
