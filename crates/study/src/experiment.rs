//! The one road from a recording to outcomes: a scene's variants, each under several interleavings, on one machine.
//!
//! ```text
//!   recording ─► steps, named (all threads) ─► rounds, without what no replay needs (one thread)
//!                                                    │
//!                        variant × interleaving: each replay takes every round (all threads)
//! ```
//!
//! Results do not depend on the number of threads.

use linemate_attribution::Analysis;
use linemate_machine::{LineSize, Machine};
use linemate_recording::Error as RecordingError;
use linemate_replay::{
    AsRecorded, COPIES_MAX, Clones, Config, Interleaving, Outcome, Placed, Replay, ReplayError,
    keeps_exact,
};
use rayon::prelude::*;

use crate::rounds::{Cutter, LeftOut, Rounds};
use crate::scene::{Scene, Step};
use crate::spool::Spool;
use crate::steps;
use crate::variant::{Memory, Variant};

/// How many simulated CPUs are held in memory at a time: each has its caches, some 10 to 100 KiB when used.
const SIMULATED_CPUS_MAX: usize = 4096;

/// How many replays are held in memory at a time: each remembers every line that was touched.
const REPLAYS_MAX: usize = 8;

/// How many steps are gathered before the replays take them: waking threads for fewer costs more than it gains.
const STEPS_AT_ONCE: usize = 1 << 18;

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The recording does not say how many CPUs it has.
    #[error("the recording does not tell its number of CPUs")]
    NoCpus,
    /// A number of CPUs that cloning cannot give.
    #[error(
        "{wanted} CPUs are not a multiple of the {recorded} recorded ones: the nearest is {nearest}"
    )]
    Cpus {
        /// What was asked for.
        wanted: usize,
        /// Recorded CPUs.
        recorded: usize,
        /// The nearest multiple.
        nearest: usize,
    },
    /// The recording.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The replay.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// How many CPUs were recorded, and how many are replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// CPUs in the recording.
    pub recorded: usize,
    /// How many CPUs each of them stands for.
    pub copies: u16,
}

impl Cpus {
    /// `wanted` CPUs; as many as were recorded, if it is `None`.
    ///
    /// # Errors
    /// A recording that does not tell its CPUs; a number that is not a multiple of the recorded ones.
    pub fn new(analysis: &Analysis<'_>, wanted: Option<usize>) -> Result<Cpus, ExperimentError> {
        let recorded = recorded_cpus(analysis)?;
        let wanted = wanted.unwrap_or(recorded);
        let most = usize::from(COPIES_MAX);
        let copies = wanted / recorded;
        if copies == 0 || copies * recorded != wanted || copies > most {
            let nearest = recorded * ((wanted + recorded / 2) / recorded).clamp(1, most);
            return Err(ExperimentError::Cpus {
                wanted,
                recorded,
                nearest,
            });
        }
        Ok(Cpus {
            recorded,
            copies: copies as u16,
        })
    }

    /// How many CPUs are replayed.
    pub fn replayed(self) -> usize {
        self.recorded * usize::from(self.copies)
    }
}

/// The number of CPUs that the recording's description tells.
///
/// # Errors
/// If it tells none.
pub fn recorded_cpus(analysis: &Analysis<'_>) -> Result<usize, ExperimentError> {
    let cpus = analysis.recording().description().cpus;
    cpus.map(usize::from)
        .filter(|cpus| *cpus > 0)
        .ok_or(ExperimentError::NoCpus)
}

/// The line size of a machine as layouts know it.
pub fn line_of(machine: &Machine) -> linemate_types::LineSize {
    match machine.line {
        LineSize::B64 => linemate_types::LineSize::B64,
        LineSize::B128 => linemate_types::LineSize::B128,
    }
}

/// The seeds of so many interleavings.
pub fn seeds(first: u64, count: usize) -> Vec<u64> {
    (0..count as u64).map(|i| first.wrapping_add(i)).collect()
}

/// How to replay, whatever the question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// How many CPUs; `None`: as many as were recorded.
    pub cpus: Option<usize>,
    /// Whether each last-level cache has only the share of the CPUs that are replayed on it: a machine all of whose CPUs do the
    /// same.
    pub llc_share: bool,
    /// Whether every access is replayed, also those that hit in L1 whatever happens: slower, for the same figures where layouts are as
    /// recorded.
    pub exact: bool,
}

/// A recording on a machine.
#[derive(Clone, Copy, Debug)]
pub struct Experiment<'a> {
    /// The recording.
    pub analysis: &'a Analysis<'a>,
    /// What its accesses are counted for.
    pub scene: &'a Scene<'a>,
    /// The machine.
    pub machine: &'a Machine,
    /// CPUs.
    pub cpus: Cpus,
    /// Caches, and what is replayed of the recording.
    pub conditions: Conditions,
    /// Whether lines are looked into ([`Outcome::lines`]).
    pub lines: bool,
}

impl<'a> Experiment<'a> {
    /// Of a recording on a machine; lines are not looked into.
    ///
    /// # Errors
    /// A recording that does not tell its CPUs; a number of CPUs that is not a multiple of the recorded ones.
    pub fn new(
        analysis: &'a Analysis<'a>,
        scene: &'a Scene<'a>,
        machine: &'a Machine,
        conditions: Conditions,
    ) -> Result<Experiment<'a>, ExperimentError> {
        Ok(Experiment {
            analysis,
            scene,
            machine,
            cpus: Cpus::new(analysis, conditions.cpus)?,
            conditions,
            lines: false,
        })
    }

    /// Replays each variant under each seed's interleaving. `keep` takes from an outcome what is wanted, given the variant's number:
    /// outcomes are large. Gives that by variant, then by seed.
    ///
    /// # Errors
    /// CPUs that do not fit the machine, a damaged recording.
    pub fn run<T>(
        &self,
        variants: &[&Variant],
        seeds: &[u64],
        mut keep: impl FnMut(usize, Outcome) -> T,
    ) -> Result<Vec<Vec<T>>, ExperimentError> {
        let stays: Vec<bool> = (0..self.scene.types.len())
            .map(|subject| variants.iter().any(|variant| variant.edits(subject)))
            .collect();
        let jobs: Vec<(u64, usize)> = seeds
            .iter()
            .flat_map(|seed| (0..variants.len()).map(|variant| (*seed, variant)))
            .collect();
        let at_once = (SIMULATED_CPUS_MAX / self.cpus.replayed()).clamp(1, REPLAYS_MAX);
        let mut kept: Vec<Vec<T>> = variants.iter().map(|_| Vec::new()).collect();
        // Only what is wanted again is worth packing.
        let mut spool = (jobs.len() > at_once).then(Spool::default);
        for wave in jobs.chunks(at_once) {
            let mut runners = Vec::new();
            for (seed, variant) in wave {
                runners.push(self.runner(variants[*variant], *seed)?);
            }
            let left_out = match spool.as_ref().filter(|spool| spool.left_out.is_some()) {
                Some(spool) => feed_again(&mut runners, spool)?,
                None => self.feed(&mut runners, &stays, spool.as_mut())?,
            };
            for (runner, (_, variant)) in runners.into_iter().zip(wave) {
                let outcome = runner.finish(&left_out)?;
                kept[*variant].push(keep(*variant, outcome));
            }
        }
        Ok(kept)
    }

    /// Replays the recorded layout once, under the seed's interleaving.
    ///
    /// # Errors
    /// As [`Experiment::run`].
    pub fn as_recorded(&self, seed: u64) -> Result<Outcome, ExperimentError> {
        let variant = Variant::as_recorded(self.scene);
        let mut runner = self.runner(&variant, seed)?;
        let stays = vec![false; self.scene.types.len()];
        let left_out = self.feed(std::slice::from_mut(&mut runner), &stays, None)?;
        Ok(runner.finish(&left_out)?)
    }

    /// Replays every access of the recorded layout once, each counted for what `place` says, which is asked in the recording's order.
    ///
    /// # Errors
    /// As [`Experiment::run`].
    pub fn placed(
        &self,
        seed: u64,
        mut place: impl FnMut(&Step) -> Placed,
    ) -> Result<Outcome, ExperimentError> {
        let mut replay = self.replay(seed)?;
        steps::for_each(self.analysis, self.scene, |steps| {
            for step in steps {
                replay.push_placed(&step.access, place(step))?;
            }
            Ok::<(), ExperimentError>(())
        })?;
        Ok(replay.finish().0)
    }

    fn runner<'s>(&self, variant: &'s Variant, seed: u64) -> Result<Runner<'s>, ReplayError> {
        Ok(Runner {
            variant,
            memory: Memory::default(),
            replay: self.replay(seed)?,
        })
    }

    fn replay(&self, seed: u64) -> Result<Replay<AsRecorded, Clones>, ReplayError> {
        let config = Config {
            recorded_cpus: self.cpus.recorded,
            cpus: None,
            interleaving: Interleaving::Seeded(seed),
            lines: self.lines,
        };
        let clones = Clones {
            copies: self.cpus.copies,
        };
        let replay = Replay::new(self.machine, &config, AsRecorded, clones)?;
        Ok(match self.conditions.llc_share {
            true => replay.with_llc_share(self.machine),
            false => replay,
        })
    }

    /// The lines for which what hits in L1 whatever happens can be left out, with the same outcome.
    fn filter(&self) -> Option<LineSize> {
        let exact = self.conditions.exact || !keeps_exact(self.machine, self.cpus.replayed());
        (!exact).then_some(self.machine.line)
    }

    /// Hands the recording to all runners, and to the spool.
    fn feed(
        &self,
        runners: &mut [Runner<'_>],
        stays: &[bool],
        mut spool: Option<&mut Spool>,
    ) -> Result<LeftOut, ExperimentError> {
        let mut cutter = Cutter::new(self.cpus.recorded, self.filter(), stays);
        let mut rounds = Rounds::default();
        steps::for_each(self.analysis, self.scene, |steps| {
            cutter.take(steps, &mut rounds)?;
            if rounds.steps.len() >= STEPS_AT_ONCE {
                take_all(runners, &rounds, spool.as_deref_mut())?;
                rounds.clear();
            }
            Ok::<(), ExperimentError>(())
        })?;
        let left_out = cutter.finish(&mut rounds);
        take_all(runners, &rounds, spool.as_deref_mut())?;
        if let Some(spool) = spool {
            spool.complete(&left_out);
        }
        Ok(left_out)
    }
}

/// Hands what the spool holds to all runners: the next block is unpacked while they take the last one.
fn feed_again(runners: &mut [Runner<'_>], spool: &Spool) -> Result<LeftOut, ReplayError> {
    let (mut now, mut next) = (Rounds::default(), Rounds::default());
    spool.read(0, &mut now);
    for block in 0..spool.blocks() {
        let (taken, ()) = rayon::join(
            || take_all(runners, &now, None),
            || spool.read(block + 1, &mut next),
        );
        taken?;
        std::mem::swap(&mut now, &mut next);
    }
    Ok(spool.left_out.clone().unwrap_or_default())
}

fn take_all(
    runners: &mut [Runner<'_>],
    rounds: &Rounds,
    spool: Option<&mut Spool>,
) -> Result<(), ReplayError> {
    let mut take = || {
        runners
            .par_iter_mut()
            .try_for_each(|runner| runner.take(rounds))
    };
    match spool {
        Some(spool) => rayon::join(take, || spool.add(rounds)).0,
        None => take(),
    }
}

/// A replay of one variant under one interleaving.
struct Runner<'s> {
    variant: &'s Variant,
    memory: Memory,
    replay: Replay<AsRecorded, Clones>,
}

impl Runner<'_> {
    fn take(&mut self, rounds: &Rounds) -> Result<(), ReplayError> {
        let Runner {
            variant,
            memory,
            replay,
        } = self;
        for round in rounds.iter() {
            for (head, steps) in round {
                replay.begin_slice(head)?;
                for step in steps {
                    variant.apply(step, memory, |item, placed| replay.add(item, placed))?;
                }
            }
            replay.end_round();
        }
        Ok(())
    }

    fn finish(mut self, left_out: &LeftOut) -> Result<Outcome, ReplayError> {
        for (key, kinds) in left_out.by_key() {
            self.replay.add_hits(key, kinds)?;
        }
        self.replay.add_uncached(left_out.uncached);
        Ok(self.replay.finish().0)
    }
}
