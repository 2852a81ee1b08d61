//! Edits against the recorded layout: the one way in which what-ifs, advice and remedies replay
//! edits and measure what they change.
//!
//! The layout without edits and those with edits are replayed under the same interleavings, until
//! the requested figures are narrow; differences are paired by interleaving (see
//! [`linemate_stats`]).

use std::collections::BTreeMap;

use linemate_answers::Measure;
use linemate_attribution::SubjectId;
use linemate_experiment::scene::Scene;
use linemate_experiment::under::UnderCounts;
use linemate_experiment::variant::Variant;
use linemate_experiment::{Experiment, ExperimentError, Seed, seeds};
use linemate_layout::edit::EditFile;
use linemate_layout::nesting::embeds;
use linemate_layout::plan::{ObjectRule, Plan};
use linemate_machine::Machine;
use linemate_recording::{Accesses, Cycles};
use linemate_replay::Outcome;
use linemate_stats::{Precision, paired};
use linemate_types::{LineSize, TypeId, TypeModel};

use crate::whatif::WhatIfError;

/// The interleavings of a comparison.
#[derive(Clone, Debug)]
pub struct Interleavings {
    /// The seed of each.
    pub seeds: Vec<Seed>,
    /// How well the figures of fewer have to be known so that no more are replayed; `None`: all
    /// are.
    pub until: Option<Precision>,
}

impl Interleavings {
    /// At most that many.
    pub fn new(first: Seed, count: usize, until: Option<Precision>) -> Interleavings {
        Interleavings {
            seeds: seeds(first, count),
            until,
        }
    }
}

/// What edits change on a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// Interleavings replayed: fewer than allowed if their figures are narrow enough.
    pub interleavings: usize,
    /// Cycles of the affected types' accesses that left their core.
    pub types: Measure,
    /// How many such accesses.
    pub misses: Measure,
    /// Cycles of all accesses that left their core.
    pub whole: Measure,
    /// Cycles from the replay's start to its end.
    pub duration: Measure,
    /// Cycles of accesses that left their core while the experiment's function was on the stack, if
    /// it has one.
    pub under: Option<Measure>,
    /// Recorded accesses that did not happen, under the first interleaving.
    pub skipped: Accesses,
    /// Objects that start a line only because of the edits, so that every second interleaving has
    /// them in the other half of a pair of lines; 0 where lines are not fetched in pairs.
    pub in_either_half: usize,
}

/// How many objects start a line only because of the variant's edits, on a machine that fetches
/// lines in pairs: which half of a pair they get is chance, so every second interleaving has them
/// in the other one.
pub(crate) fn in_either_half(machine: &Machine, variant: &Variant) -> usize {
    match machine.adjacent_line_pairs {
        true => variant.in_either_half(),
        false => 0,
    }
}

/// Replays the layout without edits and with each of `edits`. Gives by edits what they change, or
/// why they cannot be applied to the recording.
///
/// What they are measured by is the types that the scene watches; where it watches none, the types
/// that the edits are about.
///
/// # Errors
/// CPUs that do not fit the machine, a damaged recording.
pub fn compare(
    experiment: &Experiment<'_>,
    edits: &[EditFile],
    interleavings: &Interleavings,
) -> Result<Vec<Result<Effect, WhatIfError>>, WhatIfError> {
    let scene = experiment.scene;
    let line = experiment.machine.line;
    let images = BTreeMap::new();
    let seeds = &interleavings.seeds;
    let first = seeds.first().copied().unwrap_or_default();
    let edited = |edits: &EditFile| Edited::new(scene, edits, &images, line, first);
    // Laid out by the same code as the edited ones, for the machine's line size: what differs is
    // the edits alone.
    let without = edited(&EditFile::default())?;
    let built: Vec<Result<Edited<'_>, WhatIfError>> = edits.iter().map(edited).collect();
    let mut variants = vec![&without.variant];
    let mut concerned = vec![Vec::new()];
    for edited in built.iter().flatten() {
        variants.push(&edited.variant);
        concerned.push(edited.concerned(scene));
    }
    let comparison = Comparison {
        experiment,
        variants: &variants,
        seeds,
        until: interleavings.until,
    };
    let keep = |_, mut outcome: Outcome| {
        let split = |_| UnderCounts::take(&mut outcome, scene).total().left_core();
        let under = experiment.under.map(split);
        Figures {
            under: under.map(|left| left.cycles),
            ..Figures::new(&outcome, &concerned)
        }
    };
    // The first variant's figures are taken for each other variant's keys, because edits of
    // different types are compared with it.
    let types = |figures: &Figures, number: usize| figures.concerned[number].cycles;
    let whole = |figures: &Figures, _: usize| figures.whole;
    let under = |figures: &Figures, _: usize| figures.under.unwrap_or_default();
    let kept = comparison.run(keep, &[&types, &whole, &under])?;
    let mut number = 0;
    let mut effect = |edited: Result<Edited<'_>, WhatIfError>| {
        edited.map(|edited| {
            // Only edits that could be built are replayed: the others take no number.
            number += 1;
            let halves = in_either_half(experiment.machine, &edited.variant);
            effect(&kept[0], &kept[number], number, halves)
        })
    };
    Ok(built.into_iter().map(&mut effect).collect())
}

/// Edits, applied to a recording.
pub(crate) struct Edited<'m> {
    pub(crate) plan: Plan<'m>,
    pub(crate) variant: Variant,
}

impl<'m> Edited<'m> {
    /// For a kernel built for such lines. `seed` decides in which frames pages of per-CPU memory
    /// are.
    pub(crate) fn new(
        scene: &Scene<'m>,
        edits: &EditFile,
        images: &BTreeMap<String, TypeModel>,
        line: LineSize,
        seed: Seed,
    ) -> Result<Edited<'m>, WhatIfError> {
        let model = scene.session.analysis().model();
        let mut plan = Plan::new(model, line, edits, images)?;
        let variant = Variant::new(&mut plan, scene, seed)?;
        Ok(Edited { plan, variant })
    }

    /// The keys that the edits are measured by.
    fn concerned(&self, scene: &Scene<'_>) -> Vec<usize> {
        let watched = scene.watched();
        if !watched.is_empty() {
            return watched;
        }
        // Whole objects move or are copied; fields change wherever their type is inside another
        // one.
        let mut moved: Vec<TypeId> = Vec::new();
        let mut ranges = false;
        for rule in &self.plan.objects {
            match rule {
                ObjectRule::Colocate(a, b) => moved.extend(a.iter().chain(b)),
                ObjectRule::Percpu(ids)
                | ObjectRule::AllocatePercpu(ids)
                | ObjectRule::BaseAlign(ids, _) => moved.extend(ids),
                ObjectRule::PadRanges(..) | ObjectRule::SkipSilentIn(_) => ranges = true,
            }
        }
        let named = self.plan.types.iter().flat_map(|(_, ids)| ids).copied();
        // A type of which whole objects move is concerned where it has objects, not where another
        // type embeds it: such a part stays.
        let edited: Vec<TypeId> = named.filter(|id| !moved.contains(id)).collect();
        let model = self.plan.layouts.model();
        let is_concerned = |id: TypeId| moved.contains(&id) || embeds(model, id, &edited);
        // Keys are whole subjects here: fine enough to distinguish the edited types from all
        // others.
        let subjects = (0u32..).map(SubjectId).zip(scene.types);
        // What has a name only is edited as that.
        let by_name = |subject: SubjectId| ranges && self.variant.edits(subject.index());
        let subjects =
            subjects.filter(|(subject, id)| id.is_some_and(is_concerned) || by_name(*subject));
        let keys = subjects.filter_map(|(subject, _)| scene.subject_key(subject));
        keys.map(|key| key.0 as usize).collect()
    }
}

/// Variants that are replayed against the first of them.
pub(crate) struct Comparison<'c, 'a> {
    pub(crate) experiment: &'c Experiment<'a>,
    pub(crate) variants: &'c [&'c Variant],
    pub(crate) seeds: &'c [Seed],
    /// How well the figures have to be known to stop before the last seed; `None`: never.
    pub(crate) until: Option<Precision>,
}

/// A figure of a replay, given the number of the variant that it is compared for.
pub(crate) type Figure<'f, T> = &'f dyn Fn(&T, usize) -> Cycles;

impl Comparison<'_, '_> {
    /// What `keep` takes from each outcome, by variant, then by seed. Each variant is replayed
    /// until its `figures` are known well enough.
    pub(crate) fn run<T>(
        &self,
        keep: impl FnMut(usize, Outcome) -> T,
        figures: &[Figure<'_, T>],
    ) -> Result<Vec<Vec<T>>, ExperimentError> {
        let enough = |without: &[T], with: &[T], number: usize| {
            let known = |until: Precision| {
                let of = |kept: &T, figure: &Figure<'_, T>| figure(kept, number).into();
                let mut figures = figures.iter();
                figures.all(|figure| until.is_reached(without, with, |kept| of(kept, figure)))
            };
            self.until.is_some_and(known)
        };
        self.experiment.run(self.variants, self.seeds, keep, enough)
    }
}

/// The change of a figure from one variant's replays to another's.
pub(crate) fn measure<T, F: Into<f64>>(
    without: &[T],
    with: &[T],
    figure: impl Fn(&T) -> F,
) -> Measure {
    let series = |kept: &[T]| -> Vec<f64> { kept.iter().map(|kept| figure(kept).into()).collect() };
    paired(&series(without), &series(with))
}

/// Misses of the types that edits concern.
#[derive(Clone, Copy, Debug, Default)]
struct Misses {
    cycles: Cycles,
    count: Accesses,
}

/// What is kept of a replay: its counts by key are thousands of times larger.
struct Figures {
    /// By variant: of the keys that it is measured by.
    concerned: Vec<Misses>,
    whole: Cycles,
    duration: Cycles,
    /// While the experiment's function was on the stack.
    under: Option<Cycles>,
    skipped: Accesses,
}

impl Figures {
    /// `concerned`: by variant, the keys that it is measured by.
    fn new(outcome: &Outcome, concerned: &[Vec<usize>]) -> Figures {
        let sum = |keys: &Vec<usize>| {
            let counts = keys.iter().filter_map(|key| outcome.keys.get(*key));
            counts.fold(Misses::default(), |sum, counts| {
                let left = counts.left_core();
                Misses {
                    cycles: sum.cycles + left.cycles,
                    count: sum.count + left.count,
                }
            })
        };
        Figures {
            // An edit's effect on what it does not name is in `whole`.
            concerned: concerned.iter().map(sum).collect(),
            whole: outcome.totals.left_core().cycles,
            duration: outcome.cycles,
            under: None,
            skipped: outcome.skipped,
        }
    }
}

/// What the variant of that number changes.
fn effect(without: &[Figures], with: &[Figures], number: usize, in_either_half: usize) -> Effect {
    Effect {
        interleavings: with.len(),
        types: measure(without, with, |f| f.concerned[number].cycles),
        misses: measure(without, with, |f| f.concerned[number].count),
        whole: measure(without, with, |f| f.whole),
        duration: measure(without, with, |f| f.duration),
        under: with
            .first()
            .and_then(|figures| figures.under)
            .map(|_| measure(without, with, |f| f.under.unwrap_or_default())),
        skipped: with
            .first()
            .map_or(Accesses::ZERO, |figures| figures.skipped),
        in_either_half,
    }
}
