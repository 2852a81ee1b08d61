//! Replay disposes: several layouts of a type against the recorded one, under the same interleavings.
//!
//! Like [`linemate_layout::Study`], for more than two sides at once: the recording is named once for all of them.

use std::collections::BTreeMap;

use linemate_attribution::Analysis;
use linemate_layout::arm::{Arm, Memory};
use linemate_layout::scene::{Scene, Step, Steps};
use linemate_layout::stats::{Measure, paired};
use linemate_layout::{EditFile, Plan, WhatIfError};
use linemate_machine::Machine;
use linemate_recording::{Decoder, Error as RecordingError, EventChunk};
use linemate_replay::{AsRecorded, Clones, Config, Interleaving, Outcome, Replay, ReplayError};
use linemate_types::LineSize;
use rayon::prelude::*;
use serde::Serialize;

use crate::error::AdviseError;

/// Replays that are held in memory at a time: each remembers every line it has met, 200 to 300 MiB for 50 M accesses of a kernel. Naming
/// the accesses again for the next ones takes about a quarter of four replays' time.
const AT_ONCE: usize = 4;
/// The same for recordings of more than [`LONG`] accesses.
const AT_ONCE_LONG: usize = 2;
/// Accesses that make a recording long.
const LONG: u64 = 120_000_000;

/// What a layout changes on one machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// Cycles of the type's accesses that left their core.
    pub types: Measure,
    /// Cycles of everything's.
    pub whole: Measure,
    /// Cycles from the replay's start to its end.
    pub duration: Measure,
}

/// A recording and the type's names in it.
#[derive(Debug)]
pub struct Arena<'a> {
    /// The recording.
    pub analysis: &'a Analysis<'a>,
    /// What it holds.
    pub scene: &'a Scene<'a>,
    /// Recorded CPUs.
    pub cpus: usize,
}

impl Arena<'_> {
    /// Replays the recorded layout and `layouts` under `interleavings` seeds from `seed` on. Gives, for each layout, its effect.
    ///
    /// # Errors
    /// An impossible edit, a machine that is too small, a damaged recording.
    pub fn contest(
        &self,
        layouts: &[EditFile],
        machine: &Machine,
        seed: u64,
        interleavings: usize,
    ) -> Result<Vec<Effect>, AdviseError> {
        let line = match machine.line {
            linemate_machine::LineSize::B64 => LineSize::B64,
            linemate_machine::LineSize::B128 => LineSize::B128,
        };
        let empty = EditFile::default();
        let sides = std::iter::once(&empty).chain(layouts);
        let arms: Vec<Arm> = sides
            .map(|edits| self.arm(edits, line))
            .collect::<Result<_, _>>()?;
        // All sides of a seed, then the next seed: outcomes come in the order of the seeds.
        let jobs: Vec<(u64, usize)> = (0..interleavings as u64)
            .flat_map(|i| (0..arms.len()).map(move |arm| (seed.wrapping_add(i), arm)))
            .collect();
        let mut outcomes: Vec<Vec<Figures>> = arms.iter().map(|_| Vec::new()).collect();
        let at_once = if self.scene.accesses > LONG {
            AT_ONCE_LONG
        } else {
            AT_ONCE
        };
        for wave in jobs.chunks(at_once) {
            let runner = |(seed, arm): &(u64, usize)| self.runner(&arms[*arm], machine, *seed);
            let mut runners = wave.iter().map(runner).collect::<Result<Vec<_>, _>>()?;
            self.feed(&mut runners)?;
            for ((_, arm), runner) in wave.iter().zip(runners) {
                let outcome = runner.replay.finish().0;
                outcomes[*arm].push(self.figures(&outcome));
            }
        }
        let (without, with) = outcomes.split_at(1);
        let effect = |side: &Vec<Figures>| {
            let measure = |figure: fn(&Figures) -> f64| {
                let series = |side: &[Figures]| side.iter().map(figure).collect::<Vec<f64>>();
                paired(&series(&without[0]), &series(side))
            };
            Effect {
                types: measure(|f| f.types),
                whole: measure(|f| f.whole),
                duration: measure(|f| f.duration),
            }
        };
        Ok(with.iter().map(effect).collect())
    }

    fn arm(&self, edits: &EditFile, line: LineSize) -> Result<Arm, AdviseError> {
        let images = BTreeMap::new();
        let mut plan = Plan::new(self.analysis.model(), line, edits, &images)?;
        let arm = Arm::new(&mut plan, self.scene, self.analysis, self.cpus, &[]);
        arm.map_err(|e| WhatIfError::from(e).into())
    }

    fn runner<'s>(
        &self,
        arm: &'s Arm,
        machine: &Machine,
        seed: u64,
    ) -> Result<Runner<'s>, ReplayError> {
        let config = Config {
            recorded_cpus: self.cpus,
            cpus: None,
            interleaving: Interleaving::Seeded(seed),
            lines: false,
        };
        Ok(Runner {
            arm,
            memory: Memory::default(),
            replay: Replay::new(machine, &config, AsRecorded, Clones { copies: 1 })?,
        })
    }

    /// Hands the recording to all runners, batch by batch.
    fn feed(&self, runners: &mut [Runner<'_>]) -> Result<(), AdviseError> {
        let recording = self.analysis.recording();
        let decode = |decoder: &mut Decoder, chunk: &EventChunk| {
            let mut steps = Steps {
                scene: self.scene,
                steps: Vec::new(),
            };
            recording.visit(chunk, decoder, &mut steps)?;
            Ok(steps.steps)
        };
        for batch in recording
            .chunks()
            .chunks(rayon::current_num_threads().max(1))
        {
            let steps: Vec<Result<Vec<Step>, RecordingError>> =
                batch.par_iter().map_init(Decoder::new, decode).collect();
            let steps = steps.into_iter().collect::<Result<Vec<_>, _>>()?;
            runners
                .par_iter_mut()
                .try_for_each(|runner| runner.take(&steps))?;
        }
        Ok(())
    }

    fn figures(&self, outcome: &Outcome) -> Figures {
        let keys = self.scene.keys.iter().zip(&outcome.keys);
        let watched = keys.filter(|(name, _)| name.watched.is_some());
        Figures {
            types: watched
                .map(|(_, counts)| counts.left_core().cycles)
                .sum::<u64>() as f64,
            whole: outcome.totals.left_core().cycles as f64,
            duration: outcome.cycles as f64,
        }
    }
}

/// What is kept of a replay.
struct Figures {
    types: f64,
    whole: f64,
    duration: f64,
}

/// A replay of one side under one interleaving.
struct Runner<'s> {
    arm: &'s Arm,
    memory: Memory,
    replay: Replay<AsRecorded, Clones>,
}

impl Runner<'_> {
    fn take(&mut self, chunks: &[Vec<Step>]) -> Result<(), ReplayError> {
        let Runner {
            arm,
            memory,
            replay,
        } = self;
        for step in chunks.iter().flatten() {
            arm.apply(step, memory, |access, placed| {
                replay.push_placed(access, placed)
            })?;
        }
        Ok(())
    }
}
