//! What remedies would gain: replays with each of them, beside the same replays without.
//!
//! All candidates share the replays without edits, and each interleaving is one reading of the recording. Differences are paired by
//! interleaving, as in a what-if.

use std::collections::BTreeMap;

use linemate_answers::{Gain, RemedyEffect};
use linemate_attribution::{Analysis, SubjectId};
use linemate_layout::nesting::embeds;
use linemate_layout::parse;
use linemate_layout::plan::{ObjectRule, Plan, resolve};
use linemate_replay::Outcome;
use linemate_study::experiment::{line_of, seeds};
use linemate_study::scene::Scene;
use linemate_study::stats::{all_narrow, paired};
use linemate_study::variant::{Setting, Variant};
use linemate_study::{Cpus, Experiment, ExperimentError};
use linemate_types::{TypeId, TypeModel};

use super::RemedyOptions;

/// A type pair whose objects a scene has matched.
pub(crate) type Pair = (Vec<TypeId>, Vec<TypeId>);

/// One candidate's variant, and what it is measured by.
struct TrialVariant {
    variant: Variant,
    /// By key: whether its accesses belong to the edited types.
    concerned: Vec<bool>,
}

/// Tries edits on a recording.
pub(crate) struct Trials<'a> {
    pub(crate) analysis: &'a Analysis<'a>,
    pub(crate) scene: &'a Scene<'a>,
    /// What the scene has matched, in its order.
    pub(crate) pairs: &'a [Pair],
    pub(crate) options: &'a RemedyOptions,
    pub(crate) cpus: Cpus,
}

impl Trials<'_> {
    /// The effect of each text of edits; what cannot be applied says why.
    ///
    /// # Errors
    /// A damaged recording.
    pub(crate) fn run(&self, texts: &[String]) -> Result<Vec<RemedyEffect>, ExperimentError> {
        let none = match self.variant("") {
            Ok(none) => none,
            Err(why) => return Ok(vec![RemedyEffect::Refused { why }; texts.len()]),
        };
        let built: Vec<Result<TrialVariant, String>> =
            texts.iter().map(|text| self.variant(text)).collect();
        let mut variants: Vec<&TrialVariant> = vec![&none];
        variants.extend(built.iter().filter_map(|variant| variant.as_ref().ok()));
        let outcomes = self.replay(&variants)?;
        let mut tried = (1..variants.len()).map(|number| gain(&outcomes, number));
        let effect = |variant: &Result<TrialVariant, String>| match variant {
            Ok(_) => tried
                .next()
                .map_or(RemedyEffect::NotTried, RemedyEffect::Tried),
            Err(why) => RemedyEffect::Refused { why: why.clone() },
        };
        Ok(built.iter().map(effect).collect())
    }

    fn variant(&self, text: &str) -> Result<TrialVariant, String> {
        let model = self.analysis.model();
        let line = line_of(&self.options.machine);
        let edits = parse(text).map_err(|e| e.to_string())?;
        let images = BTreeMap::new();
        let mut plan = Plan::new(model, line, &edits, &images).map_err(|e| e.to_string())?;
        let questions: Vec<usize> = plan
            .objects
            .iter()
            .filter_map(|rule| match rule {
                ObjectRule::Colocate(a, b) => self.pairs.iter().position(|(x, y)| x == a && y == b),
                _ => None,
            })
            .collect();
        let variant = Variant::new(
            &mut plan,
            self.scene,
            self.analysis,
            &Setting {
                cpus: self.cpus.recorded,
                seed: self.options.seed,
                questions: &questions,
            },
        )
        .map_err(|e| e.to_string())?;
        // Whole objects move or are copied; fields change wherever their type is inside another one.
        let mut moved: Vec<TypeId> = Vec::new();
        for rule in &plan.objects {
            match rule {
                ObjectRule::Colocate(a, b) => moved.extend(a.iter().chain(b)),
                ObjectRule::Percpu(ids)
                | ObjectRule::AllocatePercpu(ids)
                | ObjectRule::BaseAlign(ids, _) => moved.extend(ids),
            }
        }
        let named = plan.types.iter().flat_map(|(_, ids)| ids).copied();
        let edited: Vec<TypeId> = named.filter(|id| !moved.contains(id)).collect();
        let concerned = |id: &Option<TypeId>| {
            id.is_some_and(|id| moved.contains(&id) || embeds(model, id, &edited))
        };
        // The scene watches no fields, so keys are subjects: fine enough to tell the edited types from all others.
        let mut keys = vec![false; self.scene.keys.len()];
        for (subject, id) in (0u32..).map(SubjectId).zip(self.scene.types) {
            if let Some(key) = self.scene.subject_key(subject) {
                keys[key.0 as usize] = concerned(id);
            }
        }
        Ok(TrialVariant {
            variant,
            concerned: keys,
        })
    }

    /// Figures by variant, then by interleaving.
    fn replay(&self, variants: &[&TrialVariant]) -> Result<Vec<Vec<Figures>>, ExperimentError> {
        let options = self.options;
        let experiment = Experiment::new(self.scene, &options.machine, options.conditions)?;
        let placed: Vec<&Variant> = variants.iter().map(|variant| &variant.variant).collect();
        let seeds = seeds(options.seed, options.interleavings);
        let keep = |_, outcome: Outcome| Figures::new(&outcome, variants);
        let enough = |without: &[Figures], with: &[Figures], number: usize| {
            let types = |f: &Figures| f.concerned.get(number).map_or(0.0, |of| of.0 as f64);
            all_narrow(without, with, &[&types, &|f| f.whole as f64])
        };
        experiment.run(&placed, &seeds, keep, enough)
    }
}

/// What is kept of a replay: its counts by subject are thousands of times larger.
struct Figures {
    /// By variant: cycles and number of the misses of the types that the variant's edits concern.
    concerned: Vec<(u64, u64)>,
    /// Cycles of all misses.
    whole: u64,
    skipped: u64,
}

impl Figures {
    fn new(outcome: &Outcome, variants: &[&TrialVariant]) -> Figures {
        let concerned = |variant: &&TrialVariant| {
            let mut sum = (0, 0);
            for (counts, concerned) in outcome.keys.iter().zip(&variant.concerned) {
                if *concerned {
                    let left = counts.left_core();
                    sum.0 += left.cycles;
                    sum.1 += left.count;
                }
            }
            sum
        };
        Figures {
            concerned: variants.iter().map(concerned).collect(),
            whole: outcome.totals.left_core().cycles,
            skipped: outcome.skipped,
        }
    }
}

/// What variant `number` gains over variant 0.
fn gain(outcomes: &[Vec<Figures>], number: usize) -> Gain {
    let measure = |figure: &dyn Fn(&Figures) -> u64| {
        let series = |variant: usize| -> Vec<f64> {
            let list = outcomes.get(variant).map_or(&[][..], Vec::as_slice);
            list.iter().map(|f| figure(f) as f64).collect()
        };
        paired(&series(0), &series(number))
    };
    let concerned = |f: &Figures| f.concerned.get(number).copied().unwrap_or_default();
    Gain {
        interleavings: outcomes.get(number).map_or(0, Vec::len),
        types: measure(&|f| concerned(f).0),
        misses: measure(&|f| concerned(f).1),
        whole: measure(&|f| f.whole),
        skipped: outcomes
            .get(number)
            .and_then(|list| list.first())
            .map_or(0, |f| f.skipped),
    }
}

/// The ids that the edit language's name of a type means.
pub(crate) fn ids_of(model: &TypeModel, name: &str) -> Vec<TypeId> {
    resolve(model, &linemate_layout::EditSubject::Named(name.to_owned())).unwrap_or_default()
}
