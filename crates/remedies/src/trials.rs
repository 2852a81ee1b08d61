//! What remedies would gain: replays with each of them, compared with the same replays without.
//!
//! All candidates share the replays without edits, and each interleaving is one pass over the
//! recording. Differences are paired by interleaving, as in a what-if.

use linemate_answers::{Gain, RemedyEffect};
use linemate_experiment::scene::Scene;
use linemate_experiment::{Experiment, ExperimentError, Seed};
use linemate_layout::plan::resolve;
use linemate_layout::{EditFile, parse};
use linemate_study::{Effect, Interleavings, Precision, WhatIfError, compare};
use linemate_types::{TypeId, TypeModel};

use super::model::RemedyOptions;

/// The effect of each text of edits on the recording of a scene, or why it cannot be applied.
///
/// # Errors
/// A damaged recording.
pub(crate) fn try_all(
    scene: &Scene<'_>,
    options: &RemedyOptions,
    texts: &[String],
) -> Result<Vec<RemedyEffect>, ExperimentError> {
    let experiment = Experiment::new(scene, &options.machine, options.conditions)?;
    let parsed: Vec<Result<EditFile, String>> = texts
        .iter()
        .map(|text| parse(text).map_err(|e| e.to_string()))
        .collect();
    // Those that parse, in order: only they have effects, and each text takes the next one.
    let edits: Vec<EditFile> = parsed.iter().flatten().cloned().collect();
    // It ranks and refutes; a what-if of the edit gives the figure to quote.
    let until = (!options.all_interleavings).then_some(Precision::ROUGH);
    let interleavings = Interleavings::new(Seed(options.seed), options.interleavings, until);
    let mut effects = match compare(&experiment, &edits, &interleavings) {
        Ok(effects) => effects.into_iter(),
        Err(WhatIfError::Experiment(why)) => return Err(why),
        Err(why) => {
            let why = why.to_string();
            return Ok(vec![RemedyEffect::Refused { why }; texts.len()]);
        }
    };
    let mut effect = |edits: Result<EditFile, String>| {
        let tried = edits.map(|_| effects.next());
        match tried {
            Ok(Some(Ok(effect))) => RemedyEffect::Tried(gain(effect)),
            Ok(Some(Err(why))) => RemedyEffect::Refused {
                why: why.to_string(),
            },
            Ok(None) => RemedyEffect::NotTried,
            Err(why) => RemedyEffect::Refused { why },
        }
    };
    Ok(parsed.into_iter().map(&mut effect).collect())
}

/// A comparison's result for a remedy.
fn gain(effect: Effect) -> Gain {
    Gain {
        interleavings: effect.interleavings,
        types: effect.types,
        misses: effect.misses,
        whole: effect.whole,
        skipped: effect.skipped.0,
        in_either_half: effect.in_either_half,
    }
}

/// The ids that a type's name in the edit language means.
pub(crate) fn ids_of(model: &TypeModel, name: &str) -> Vec<TypeId> {
    resolve(model, &linemate_layout::EditSubject::Named(name.to_owned())).unwrap_or_default()
}
