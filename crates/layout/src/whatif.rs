//! What-if: a recording replayed with and without edits, on one machine, under several interleavings.
//!
//! [`Study::new`] checks the edits and reads the recording once; [`Study::run`] replays it on a machine. All sides and all
//! interleavings of a run are replayed from one reading: an access is named once, then every replay takes it. Results do not
//! depend on the number of threads.

use std::collections::BTreeMap;

use linemate_attribution::Analysis;
use linemate_machine::Machine;
use linemate_recording::{Decoder, Error as RecordingError, EventChunk};
use linemate_replay::{
    AsRecorded, COPIES_MAX, Clones, Config, Interleaving, Outcome, Replay, ReplayError,
};
use linemate_types::{LineSize, TypeId, TypeModel};
use rayon::prelude::*;

use crate::arm::{Arm, ArmError, Memory};
use crate::edit::{EditFile, Subject};
use crate::effect::{self, WhatIf};
use crate::plan::{AccessRule, ObjectRule, Plan, PlanError, PlanReason, resolve, subject_name};
use crate::scene::{Scene, Step, Steps, Watch};

/// The fewest interleavings that give an error bar worth the name.
pub const INTERLEAVINGS_MIN: usize = 8;

/// How many simulated CPUs are held in memory at a time (each has its caches, some 10 to 100 KiB when used): beyond that
/// the recording is read again for the next interleavings.
const SIMULATED_CPUS_MAX: usize = 4096;

/// How many replays are held in memory at a time: each remembers every line that was touched (100 to 200 MiB for a recording of 50 M
/// accesses). Reading and naming the recording again costs a tenth of so many replays.
const REPLAYS_MAX: usize = 8;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum WhatIfError {
    /// An impossible edit.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// An edit that does not fit the recording.
    #[error(transparent)]
    Arm(#[from] ArmError),
    /// A type to report that does not exist.
    #[error("{name}: {reason}")]
    Type {
        /// Its name.
        name: String,
        /// Why.
        reason: PlanReason,
    },
    /// Nothing to compare.
    #[error("there is nothing to compare: the edits are empty")]
    NoEdits,
    /// A type that no access touches.
    #[error(
        "the recording has no access to any {0}: was it recorded with a workload that uses it?"
    )]
    Absent(String),
    /// No error bar from so few.
    #[error("{0} interleavings give no error bar: {INTERLEAVINGS_MIN} at least")]
    Interleavings(usize),
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
    /// The recording does not say how many CPUs it has.
    #[error("the recording does not tell its number of CPUs")]
    NoCpus,
    /// The recording.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The replay.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// How to run a study.
#[derive(Clone, Debug)]
pub struct Run {
    /// The machine.
    pub machine: Machine,
    /// How many CPUs to replay; `None`: as many as were recorded.
    pub cpus: Option<usize>,
    /// The first interleaving's seed; the others count up from it.
    pub seed: u64,
    /// How many interleavings.
    pub interleavings: usize,
    /// Whether to replay each edit alone, and all but it.
    pub ablate: bool,
    /// Whether each last-level cache has only the share of the CPUs that are replayed on it: a machine all of whose CPUs do the same.
    pub llc_share: bool,
}

/// A side of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Without edits.
    Without,
    /// With all.
    All,
    /// With one alone, by its number.
    Alone(usize),
    /// With all but one.
    AllBut(usize),
}

/// A recording and edits, checked, with what the recording holds of what they touch.
#[derive(Debug)]
pub struct Study<'a> {
    analysis: &'a Analysis<'a>,
    edits: &'a EditFile,
    images: &'a BTreeMap<String, TypeModel>,
    /// The types whose fields are reported: the edited ones, then those asked for.
    pub types: Vec<(String, Vec<TypeId>)>,
    scene: Scene<'a>,
    recorded: usize,
}

impl<'a> Study<'a> {
    /// Checks `edits` and reads the recording once. `report` names further types whose fields to tell apart; `images` holds the
    /// types of the kernels that `layout-from` names.
    ///
    /// # Errors
    /// An impossible edit, an absent type, a damaged recording.
    pub fn new(
        analysis: &'a Analysis<'a>,
        edits: &'a EditFile,
        images: &'a BTreeMap<String, TypeModel>,
        report: &[Subject],
    ) -> Result<Study<'a>, WhatIfError> {
        if edits.is_empty() {
            return Err(WhatIfError::NoEdits);
        }
        let model = analysis.model();
        let plan = Plan::new(model, LineSize::B64, edits, images)?;
        let mut types = plan.types.clone();
        for subject in report {
            let name = subject_name(subject);
            let ids = resolve(model, subject).map_err(|reason| WhatIfError::Type {
                name: name.clone(),
                reason,
            })?;
            if types.iter().all(|(_, known)| *known != ids) {
                types.push((name, ids));
            }
        }
        let recorded = recorded_cpus(analysis)?;
        let pairs = plan.objects.iter().filter_map(|rule| match rule {
            ObjectRule::Colocate(a, b) => Some((a.clone(), b.clone())),
            _ => None,
        });
        let chases = plan.accesses.iter().filter_map(|rule| match rule {
            AccessRule::SkipArray(chase) => Some(chase.clone()),
            _ => None,
        });
        let watch = Watch {
            types: types.iter().map(|(_, ids)| ids.clone()).collect(),
            every: false,
            pairs: pairs.collect(),
            chases: chases.collect(),
        };
        let scene = Scene::new(analysis, recorded, &watch)?;
        for (number, (name, _)) in types.iter().enumerate() {
            if scene.keys.iter().all(|key| key.watched != Some(number)) {
                return Err(WhatIfError::Absent(name.clone()));
            }
        }
        Ok(Study {
            analysis,
            edits,
            images,
            types,
            scene,
            recorded,
        })
    }

    /// How many CPUs were recorded.
    pub fn recorded_cpus(&self) -> usize {
        self.recorded
    }

    /// The recording's types.
    pub(crate) fn model(&self) -> &'a TypeModel {
        self.analysis.model()
    }

    /// The edits as they are written, in order.
    pub(crate) fn statements(&self) -> Vec<String> {
        self.edits
            .statements()
            .map(|(_, statement)| statement.edit.to_string())
            .collect()
    }

    /// What the recording holds.
    pub fn scene(&self) -> &Scene<'a> {
        &self.scene
    }

    /// Replays on a machine. Both sides lie as a kernel lies that is built for the machine's line size.
    ///
    /// # Errors
    /// CPUs that cannot be, edits that do not fit the recording, a damaged recording.
    pub fn run(&self, run: &Run) -> Result<WhatIf, WhatIfError> {
        if run.interleavings < INTERLEAVINGS_MIN {
            return Err(WhatIfError::Interleavings(run.interleavings));
        }
        let copies = self.copies(run.cpus)?;
        let line = match run.machine.line {
            linemate_machine::LineSize::B64 => LineSize::B64,
            linemate_machine::LineSize::B128 => LineSize::B128,
        };
        let mut sides = vec![Side::Without, Side::All];
        if run.ablate && self.edits.len() > 1 {
            sides.extend((0..self.edits.len()).map(Side::Alone));
            sides.extend((0..self.edits.len()).map(Side::AllBut));
        }
        let mut arms: Vec<(Side, Result<Arm, String>)> = Vec::new();
        let mut layouts = Vec::new();
        for side in sides {
            let built = self.arm(side, line);
            match (built, side) {
                (Ok((arm, sizes)), _) => {
                    if matches!(side, Side::Without | Side::All) {
                        layouts.push(sizes);
                    }
                    arms.push((side, Ok(arm)));
                }
                // An edit that needs another one cannot stand alone: that is an answer, too.
                (Err(why), Side::Alone(_) | Side::AllBut(_)) => {
                    arms.push((side, Err(why.to_string())))
                }
                (Err(why), _) => return Err(why),
            }
        }
        let usable: Vec<&Arm> = arms
            .iter()
            .filter_map(|(_, arm)| arm.as_ref().ok())
            .collect();
        let outcomes = self.replay(run, copies, &usable)?;
        let facts = effect::Facts {
            study: self,
            run,
            copies,
            line,
            layouts,
            arms: &arms,
            outcomes,
        };
        Ok(effect::whatif(&facts))
    }

    fn copies(&self, wanted: Option<usize>) -> Result<u16, WhatIfError> {
        copies(self.recorded, wanted)
    }

    /// One side, and the size in bytes of each reported type in it.
    fn arm(&self, side: Side, line: LineSize) -> Result<(Arm, Vec<u64>), WhatIfError> {
        let edits = self.edits.filtered(|number| match side {
            Side::Without => false,
            Side::All => true,
            Side::Alone(chosen) => number == chosen,
            Side::AllBut(left_out) => number != left_out,
        });
        let mut plan = Plan::new(self.analysis.model(), line, &edits, self.images)?;
        // The scene counted neighbours for the `colocate` edits of the whole file, in order.
        let questions = self.questions(&plan);
        let arm = Arm::new(
            &mut plan,
            &self.scene,
            self.analysis,
            self.recorded,
            &questions,
        )?;
        let size = |plan: &mut Plan<'_>, ids: &[TypeId]| {
            ids.first()
                .and_then(|id| plan.layouts.of(*id).ok())
                .map_or(0, |layout| layout.size)
        };
        let sizes = self
            .types
            .iter()
            .map(|(_, ids)| size(&mut plan, ids))
            .collect();
        Ok((arm, sizes))
    }

    /// Which of the scene's questions each `colocate` of the plan is.
    fn questions(&self, plan: &Plan<'_>) -> Vec<usize> {
        let all = self.edits.statements().filter_map(|(_, s)| match &s.edit {
            crate::edit::Edit::Colocate(a, b) => Some((a, b)),
            _ => None,
        });
        let model = self.analysis.model();
        let ids = |name: &String| resolve(model, &Subject::Named(name.clone())).unwrap_or_default();
        let known: Vec<_> = all.map(|(a, b)| (ids(a), ids(b))).collect();
        let asked = plan.objects.iter().filter_map(|rule| match rule {
            ObjectRule::Colocate(a, b) => known.iter().position(|(x, y)| x == a && y == b),
            _ => None,
        });
        asked.collect()
    }

    /// Outcomes by arm, then by interleaving.
    fn replay(
        &self,
        run: &Run,
        copies: u16,
        arms: &[&Arm],
    ) -> Result<Vec<Vec<Outcome>>, WhatIfError> {
        let cpus = self.recorded * usize::from(copies);
        let replays = REPLAYS_MAX.min(SIMULATED_CPUS_MAX / cpus.max(1));
        let at_once = (replays / arms.len().max(1)).clamp(1, run.interleavings);
        let seeds: Vec<u64> = (0..run.interleavings as u64)
            .map(|i| run.seed.wrapping_add(i))
            .collect();
        let mut outcomes: Vec<Vec<Outcome>> = arms.iter().map(|_| Vec::new()).collect();
        for wave in seeds.chunks(at_once) {
            let mut runners = Vec::new();
            for seed in wave {
                for arm in arms {
                    let config = Config {
                        recorded_cpus: self.recorded,
                        cpus: None,
                        interleaving: Interleaving::Seeded(*seed),
                        lines: false,
                    };
                    let replay = Replay::new(&run.machine, &config, AsRecorded, Clones { copies })?;
                    let replay = match run.llc_share {
                        true => replay.with_llc_share(&run.machine),
                        false => replay,
                    };
                    runners.push(Runner {
                        arm,
                        memory: Memory::default(),
                        replay,
                    });
                }
            }
            self.feed(&mut runners)?;
            for (number, runner) in runners.into_iter().enumerate() {
                outcomes[number % arms.len()].push(runner.replay.finish().0);
            }
        }
        Ok(outcomes)
    }

    /// Hands the recording to all runners, batch by batch.
    fn feed(&self, runners: &mut [Runner<'_>]) -> Result<(), WhatIfError> {
        let recording = self.analysis.recording();
        let decode = |decoder: &mut Decoder, chunk: &EventChunk| {
            let mut steps = Steps {
                scene: &self.scene,
                steps: Vec::new(),
            };
            recording.visit(chunk, decoder, &mut steps)?;
            Ok(steps.steps)
        };
        let batch_size = rayon::current_num_threads().max(1);
        for batch in recording.chunks().chunks(batch_size) {
            let steps: Vec<Result<Vec<Step>, RecordingError>> =
                batch.par_iter().map_init(Decoder::new, decode).collect();
            let steps = steps.into_iter().collect::<Result<Vec<_>, _>>()?;
            runners
                .par_iter_mut()
                .try_for_each(|runner| runner.take(&steps))?;
        }
        Ok(())
    }
}

/// How many times the recorded CPUs have to be replayed to give the wanted ones; once, if none are wanted.
pub(crate) fn copies(recorded: usize, wanted: Option<usize>) -> Result<u16, WhatIfError> {
    let wanted = wanted.unwrap_or(recorded);
    let copies = wanted / recorded;
    if copies == 0 || copies * recorded != wanted || copies > usize::from(COPIES_MAX) {
        let nearest =
            recorded * ((wanted + recorded / 2) / recorded).clamp(1, usize::from(COPIES_MAX));
        return Err(WhatIfError::Cpus {
            wanted,
            recorded,
            nearest,
        });
    }
    Ok(copies as u16)
}

/// The number of CPUs that the recording's description tells.
pub(crate) fn recorded_cpus(analysis: &Analysis<'_>) -> Result<usize, WhatIfError> {
    let cpus = analysis.recording().description().cpus;
    cpus.map(usize::from).ok_or(WhatIfError::NoCpus)
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
