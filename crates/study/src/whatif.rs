//! What-if: a recording replayed with and without edits, on one machine, under several
//! interleavings.
//!
//! [`Study::new`] checks the edits and reads the recording once; [`Study::run`] replays it on a
//! machine.

use std::collections::{BTreeMap, BTreeSet};

use linemate_answers::{SetsChange, TypeSets, WhatIf};
use linemate_experiment::ranges;
use linemate_experiment::scene::{Scene, TypePair, Watch};
use linemate_experiment::under::{Under, UnderCounts};
use linemate_experiment::variant::{Variant, VariantError};
use linemate_experiment::{Experiment, ExperimentError, INTERLEAVINGS_MIN, Seed, seeds};
use linemate_layout::edit::{EditFile, EditSubject};
use linemate_layout::plan::{
    AccessRule, ObjectRule, Plan, PlanError, PlanReason, resolve, subject_name,
};
use linemate_recording::Error as RecordingError;
use linemate_replay::{Counts, Outcome};
use linemate_session::{EventError, Session, recorded_cpus};
use linemate_stats::Precision;
use linemate_types::{ByteSize, LineSize, TypeId, TypeModel};

use crate::closed_queue::Worked;
use crate::compare::{Comparison, Edited, Figure};
use crate::effect;
pub use crate::effect::{Run, VariantKind};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum WhatIfError {
    /// An edit that the types do not allow.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// An edit that does not fit the recording.
    #[error(transparent)]
    Variant(#[from] VariantError),
    /// A type to report that does not exist.
    #[error("{name}: {reason}")]
    Type {
        /// The type, as requested.
        name: String,
        /// What the name means, or that it means nothing.
        reason: PlanReason,
    },
    /// Edits that are empty: there is nothing to compare.
    #[error("nothing to compare: there are no edits")]
    NoEdits,
    /// A type that no access touches.
    #[error(
        "the recording has no access to any {0}: was it recorded with a workload that uses it?"
    )]
    Absent(String),
    /// A type that is not accessed while a function is on the stack.
    #[error("the recording has no access to any {name} while {function} is on the stack")]
    AbsentUnder {
        /// The requested type.
        name: String,
        /// The function that it is not accessed under.
        function: String,
    },
    /// Too few for a confidence interval.
    #[error(
        "{0} interleavings are too few for a 95 % confidence interval: at least {INTERLEAVINGS_MIN}"
    )]
    Interleavings(usize),
    /// An event whose calls cannot be counted.
    #[error(transparent)]
    Event(#[from] EventError),
    /// A replay of a variant failed.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The recording cannot be read to its end.
    #[error(transparent)]
    Recording(#[from] RecordingError),
}

/// What is kept of a replay.
struct KeptReplay {
    outcome: Outcome,
    /// While the requested function was on the stack.
    under: Counts,
    worked: Worked,
}

/// The variants of a run.
#[derive(Default)]
struct Built {
    /// With why they are not possible.
    variants: Vec<(VariantKind, Result<Variant, String>)>,
    /// Sizes of what is reported, types first: without edits, with all.
    layouts: Vec<Vec<ByteSize>>,
}

/// A recording and edits, checked, with what the recording holds of what they touch.
#[derive(Debug)]
pub struct Study<'a> {
    session: &'a Session<'a>,
    edits: &'a EditFile,
    images: &'a BTreeMap<String, TypeModel>,
    /// The types whose fields are reported: the edited ones, then the requested ones.
    pub types: Vec<(String, Vec<TypeId>)>,
    /// How many of those are edited: the first.
    edited: usize,
    /// Variables and allocations of programs that edits name, which are reported as a whole.
    memory: Vec<String>,
    scene: Scene<'a>,
    recorded: usize,
    under: Option<Under>,
}

impl<'a> Study<'a> {
    /// Checks `edits` and reads the recording once. `report` names further types whose fields to
    /// distinguish; `images` holds the types of the kernels that `layout-from` names.
    ///
    /// # Errors
    /// An impossible edit, an absent type, a damaged recording.
    pub fn new(
        session: &'a Session<'a>,
        edits: &'a EditFile,
        images: &'a BTreeMap<String, TypeModel>,
        report: &[EditSubject],
    ) -> Result<Study<'a>, WhatIfError> {
        if edits.is_empty() {
            return Err(WhatIfError::NoEdits);
        }
        let model = session.analysis().model();
        // Only to check the edits and to learn which types they name: `run` plans again for the
        // machine's line size.
        let plan = Plan::new(model, LineSize::B64, edits, images)?;
        let mut types = plan.types.clone();
        let edited = types.len();
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
        let recorded = recorded_cpus(session.analysis()).map_err(ExperimentError::from)?;
        let pairs = plan.objects.iter().filter_map(|rule| match rule {
            ObjectRule::Colocate(a, b) => Some(TypePair {
                first: a.clone(),
                second: b.clone(),
            }),
            _ => None,
        });
        let chases = plan.accesses.iter().filter_map(|rule| match rule {
            AccessRule::SkipArray(chase) => Some(chase.clone()),
            _ => None,
        });
        let memory = plan.memory().map(|(name, _)| name.to_owned());
        let memory: BTreeSet<String> = memory.collect();
        let memory: Vec<String> = memory.into_iter().collect();
        let watch = Watch {
            types: types.iter().map(|(_, ids)| ids.clone()).collect(),
            memory: memory.clone(),
            pairs: pairs.collect(),
            chases: chases.collect(),
            ..Watch::default()
        };
        let scene = Scene::new(session, &watch)?;
        for (number, (name, _)) in types.iter().enumerate() {
            if scene.keys.iter().all(|key| key.watched != Some(number)) {
                return Err(WhatIfError::Absent(name.clone()));
            }
        }
        Ok(Study {
            session,
            edits,
            images,
            types,
            edited,
            memory,
            scene,
            recorded,
            under: None,
        })
    }

    /// Asks also what the edits change while a function is on the stack.
    #[must_use]
    pub fn with_under(self, under: Option<Under>) -> Study<'a> {
        Study { under, ..self }
    }

    /// How many CPUs were recorded.
    pub fn recorded_cpus(&self) -> usize {
        self.recorded
    }

    /// The types of the recorded kernel and programs.
    pub(crate) fn model(&self) -> &'a TypeModel {
        self.session.analysis().model()
    }

    /// The edits as written, in order.
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

    /// Replays on a machine. All variants are laid out as in a kernel built for the machine's line
    /// size.
    ///
    /// # Errors
    /// CPUs that cannot be, edits that do not fit the recording, a damaged recording.
    pub fn run(&self, run: &Run) -> Result<WhatIf, WhatIfError> {
        if run.interleavings < INTERLEAVINGS_MIN {
            return Err(WhatIfError::Interleavings(run.interleavings));
        }
        let line = run.machine.line;
        let Built { variants, layouts } = self.build(run, line)?;
        let usable: Vec<&Variant> = variants
            .iter()
            .filter_map(|(_, variant)| variant.as_ref().ok())
            .collect();
        let experiment = Experiment {
            under: self.under.as_ref(),
            ..Experiment::new(&self.scene, &run.machine, run.conditions)?
        };
        let seeds = seeds(run.seed, run.interleavings);
        let watched = self.scene.watched();
        let keep = |_, mut outcome: Outcome| {
            let split = |_| UnderCounts::take(&mut outcome, &self.scene).total();
            let under = self.under.as_ref().map(split).unwrap_or_default();
            // There are a hundred times as many others, for each of many replays.
            let worked = Worked::new(&outcome, &run.machine);
            let keys = std::mem::take(&mut outcome.keys);
            let of = |key: &usize| keys.get(*key).cloned().unwrap_or_default();
            outcome.keys = watched.iter().map(of).collect();
            outcome.held = Vec::new();
            KeptReplay {
                outcome,
                under,
                worked,
            }
        };
        let comparison = Comparison {
            experiment: &experiment,
            variants: &usable,
            seeds: &seeds,
            // Each edit's share is shown with the whole: of the same interleavings.
            until: (!run.all_interleavings && !run.ablate).then_some(Precision::NARROW),
        };
        let figures: [Figure<'_, KeptReplay>; 3] = [
            &|kept, _| effect::types_cost(&kept.outcome),
            &|kept, _| effect::cost(&kept.outcome.totals),
            &|kept, _| effect::cost(&kept.under),
        ];
        let answers = comparison.run(keep, &figures)?;
        let worked = answers
            .iter()
            .map(|of| of.iter().map(|kept| kept.worked).collect());
        let worked: Vec<Vec<Worked>> = worked.collect();
        let split = |kept: KeptReplay| (kept.outcome, kept.under);
        let (outcomes, under) = answers
            .into_iter()
            .map(|of| of.into_iter().map(split).unzip())
            .unzip();
        let sets = self.sets(&experiment, &variants)?;
        let edited = self.types.iter().take(self.edited);
        let edited: Vec<TypeId> = edited.flat_map(|(_, ids)| ids.iter().copied()).collect();
        let facts = effect::Facts {
            on_stacks: self.scene.accesses_on_stacks(&edited),
            model: self.model(),
            scene: &self.scene,
            types: &self.types,
            memory: &self.memory,
            statements: self.statements(),
            run,
            cpus: experiment.cpus,
            line,
            layouts,
            sets,
            variants: &variants,
            watched,
            outcomes,
            worked,
            under: self.under.as_ref().map(|function| (function, under)),
        };
        Ok(effect::whatif(&facts))
    }

    /// All variants that the run replays; those without edits and with all must be possible.
    fn build(&self, run: &Run, line: LineSize) -> Result<Built, WhatIfError> {
        let mut kinds = vec![VariantKind::Without, VariantKind::All];
        if run.ablate && self.edits.len() > 1 {
            // Of a single edit both would be the comparison that is made anyway.
            kinds.extend((0..self.edits.len()).map(VariantKind::Alone));
            kinds.extend((0..self.edits.len()).map(VariantKind::AllBut));
        }
        let mut built = Built::default();
        for kind in kinds {
            match (self.variant(kind, line, run.seed), kind) {
                (Ok((variant, sizes)), _) => {
                    if matches!(kind, VariantKind::Without | VariantKind::All) {
                        built.layouts.push(sizes);
                    }
                    built.variants.push((kind, Ok(variant)));
                }
                // An edit that needs another one has no effect of its own: that is an answer, too.
                (Err(why), VariantKind::Alone(_) | VariantKind::AllBut(_)) => {
                    built.variants.push((kind, Err(why.to_string())))
                }
                (Err(why), _) => return Err(why),
            }
        }
        Ok(built)
    }

    /// The sets that the lines of the reported types reach, without edits and with all.
    fn sets(
        &self,
        experiment: &Experiment<'_>,
        variants: &[(VariantKind, Result<Variant, String>)],
    ) -> Result<Vec<SetsChange>, ExperimentError> {
        let of = |wanted: VariantKind| {
            let found = variants.iter().find(|(kind, _)| *kind == wanted);
            found.and_then(|(_, variant)| variant.as_ref().ok())
        };
        let (Some(without), Some(with)) = (of(VariantKind::Without), of(VariantKind::All)) else {
            return Ok(Vec::new());
        };
        let type_of: Vec<Option<usize>> = self.scene.keys.iter().map(|key| key.watched).collect();
        let names = self.types.iter().map(|(name, _)| name).chain(&self.memory);
        let count = self.types.len() + self.memory.len();
        let found = experiment.sets(&[without, with], count, &type_of)?;
        let change = |(name, sets): (&String, Vec<Option<TypeSets>>)| {
            let side = |number: usize| sets.get(number).copied().flatten();
            SetsChange {
                name: name.clone(),
                without: side(0),
                with: side(1),
            }
        };
        Ok(names.zip(found).map(change).collect())
    }

    /// One variant, and the size in bytes of each reported type in it, then of named memory.
    fn variant(
        &self,
        kind: VariantKind,
        line: LineSize,
        seed: Seed,
    ) -> Result<(Variant, Vec<ByteSize>), WhatIfError> {
        let edits = self.edits.filtered(|number| match kind {
            VariantKind::Without => false,
            VariantKind::All => true,
            VariantKind::Alone(chosen) => number == chosen,
            VariantKind::AllBut(left_out) => number != left_out,
        });
        let edited = Edited::new(&self.scene, &edits, self.images, line, seed)?;
        let Edited { mut plan, variant } = edited;
        let size = |plan: &mut Plan<'_>, ids: &[TypeId]| {
            ids.first()
                .and_then(|id| plan.layouts.of(*id).ok())
                .map_or(ByteSize::ZERO, |layout| layout.size)
        };
        let sizes = self.types.iter().map(|(_, ids)| size(&mut plan, ids));
        let mut sizes: Vec<ByteSize> = sizes.collect();
        sizes.extend(self.memory.iter().map(|name| {
            // As in the replay, the last statement counts.
            let padded = plan.memory().filter(|(padded, _)| padded == name);
            ranges::size(
                self.session,
                name,
                padded.filter_map(|(_, align)| align).last(),
            )
        }));
        Ok((variant, sizes))
    }
}
