//! What an experiment is made of; how it is replayed is its parent's.

use linemate_machine::Machine;

use crate::conditions::Conditions;
use crate::cpus::Cpus;
use crate::error::ExperimentError;
use crate::scene::Scene;
use crate::supply;
use crate::under::Under;

/// A recording on a machine.
#[derive(Clone, Copy, Debug)]
pub struct Experiment<'a> {
    /// What the recording's accesses are counted for.
    pub scene: &'a Scene<'a>,
    /// The machine that is replayed on.
    pub machine: &'a Machine,
    /// How many CPUs were recorded and are replayed.
    pub cpus: Cpus,
    /// Caches, and what is replayed of the recording.
    pub conditions: Conditions,
    /// Whether lines are looked into ([`linemate_replay::Outcome::lines`]).
    pub lines: bool,
    /// A function: what is accessed while it is on the stack counts for keys and sites of its own
    /// ([`crate::under::UnderCounts`]).
    pub under: Option<&'a Under>,
    /// How many bytes all replays that are held at a time may take, about; two are held in any
    /// case. Decides nothing but time.
    pub memory: usize,
    /// Whether everything is replayed whole even where a difference, or another question's replay,
    /// would do: to compare both.
    pub whole: bool,
}

impl<'a> Experiment<'a> {
    /// Of a recording on a machine; lines are not looked into.
    ///
    /// # Errors
    /// A recording without its number of CPUs; a number of CPUs that is not a multiple of the
    /// recorded ones; more CPUs than were recorded with empty caches, or on a machine with locks.
    pub fn new(
        scene: &'a Scene<'a>,
        machine: &'a Machine,
        conditions: Conditions,
    ) -> Result<Experiment<'a>, ExperimentError> {
        let cpus = Cpus::new(scene.session.analysis(), conditions.cpus)?;
        if conditions.cold && cpus.copies > 1 {
            return Err(ExperimentError::Cold(cpus.replayed()));
        }
        if machine.locks && cpus.copies > 1 {
            return Err(ExperimentError::Locks(cpus.replayed()));
        }
        Ok(Experiment {
            scene,
            machine,
            cpus,
            conditions,
            lines: false,
            under: None,
            memory: supply::memory(),
            whole: false,
        })
    }
}
