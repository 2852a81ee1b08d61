//! Replay decides: several layouts of a type against the recorded one, under the same interleavings.

use std::collections::BTreeMap;

use linemate_answers::{LayoutEffect, Measure};
use linemate_attribution::Analysis;
use linemate_layout::{EditFile, Plan};
use linemate_machine::Machine;
use linemate_replay::Outcome;
use linemate_study::WhatIfError;
use linemate_study::experiment::{Conditions, Experiment, line_of};
use linemate_study::scene::Scene;
use linemate_study::stats::{all_narrow, paired};
use linemate_study::variant::{Setting, Variant};
use linemate_types::LineSize;

use crate::error::AdviseError;

/// Whether replay confirms a gain: measurably better somewhere, measurably worse nowhere, neither for the type nor in all. By recording and then
/// machine.
pub(crate) fn is_confirmed(effects: &[Vec<LayoutEffect>]) -> bool {
    let all = || effects.iter().flatten();
    let better = all().any(|e| e.types.significant && e.types.difference < 0.0);
    let worse = all().any(|e| {
        let up = |m: &Measure| m.significant && m.difference > 0.0;
        up(&e.types) || up(&e.whole)
    });
    better && !worse
}

/// The mean over recordings and machines of the type's cost relative to what it is without the edit.
pub(crate) fn relative(effects: &[Vec<LayoutEffect>]) -> f64 {
    let part = |e: &LayoutEffect| {
        if e.types.without > 0.0 {
            e.types.with / e.types.without
        } else {
            1.0
        }
    };
    let all = effects.iter().flatten();
    let (sum, count) = all.fold((0.0, 0.0), |(s, n), e| (s + part(e), n + 1.0));
    if count > 0.0 { sum / count } else { 1.0 }
}

/// A recording and the type's names in it.
#[derive(Debug)]
pub struct Confirmation<'a> {
    /// The recording.
    pub analysis: &'a Analysis<'a>,
    /// What it holds.
    pub scene: &'a Scene<'a>,
    /// Recorded CPUs.
    pub cpus: usize,
}

impl Confirmation<'_> {
    /// Replays the recorded layout and `layouts` under the interleavings of `seeds`. Gives, for each layout, its effect.
    ///
    /// # Errors
    /// An impossible edit, a machine that is too small, a damaged recording.
    pub fn compare(
        &self,
        layouts: &[EditFile],
        machine: &Machine,
        conditions: Conditions,
        seeds: &[u64],
    ) -> Result<Vec<LayoutEffect>, AdviseError> {
        let line = line_of(machine);
        let empty = EditFile::default();
        let edits = std::iter::once(&empty).chain(layouts);
        let variants: Vec<Variant> = edits
            .map(|edits| self.variant(edits, line))
            .collect::<Result<_, _>>()?;
        let experiment = Experiment::new(self.scene, machine, conditions)?;
        let variants: Vec<&Variant> = variants.iter().collect();
        let keep = |_, outcome: Outcome| self.figures(&outcome);
        let enough = |without: &[Figures], with: &[Figures], _| {
            all_narrow(without, with, &[&|f| f.types, &|f| f.whole])
        };
        let outcomes = experiment.run(&variants, seeds, keep, enough)?;
        let (without, with) = outcomes.split_at(1);
        let effect = |variant: &Vec<Figures>| {
            let measure = |figure: fn(&Figures) -> f64| {
                let series = |variant: &[Figures]| variant.iter().map(figure).collect::<Vec<f64>>();
                paired(&series(&without[0]), &series(variant))
            };
            LayoutEffect {
                interleavings: variant.len(),
                types: measure(|f| f.types),
                whole: measure(|f| f.whole),
                duration: measure(|f| f.duration),
            }
        };
        Ok(with.iter().map(effect).collect())
    }

    fn variant(&self, edits: &EditFile, line: LineSize) -> Result<Variant, AdviseError> {
        let images = BTreeMap::new();
        let mut plan = Plan::new(self.analysis.model(), line, edits, &images)?;
        let setting = Setting {
            cpus: self.cpus,
            // Layouts place nothing on pages of their own.
            seed: 0,
            questions: &[],
        };
        let variant = Variant::new(&mut plan, self.scene, self.analysis, &setting);
        variant.map_err(|e| WhatIfError::from(e).into())
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
