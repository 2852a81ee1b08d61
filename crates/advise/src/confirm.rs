//! Replay decides: several layouts of a type against the recorded one, under the same
//! interleavings.

use linemate_answers::{LayoutEffect, Measure};
use linemate_experiment::Experiment;
use linemate_layout::EditFile;
use linemate_study::{Interleavings, compare};

use crate::error::AdviseError;

/// Whether replay confirms a gain: measurably better somewhere, measurably worse nowhere, neither
/// for the type nor in total. By recording and then machine.
pub(crate) fn is_confirmed(effects: &[Vec<LayoutEffect>]) -> bool {
    let all = || effects.iter().flatten();
    let better = all().any(|e| e.types.significant && e.types.difference < 0.0);
    let worse = all().any(|e| {
        let up = |m: &Measure| m.significant && m.difference > 0.0;
        // The total as well: a type that gets cheaper by pushing its neighbours onto contended
        // lines is not a gain.
        up(&e.types) || up(&e.whole)
    });
    better && !worse
}

/// The mean over recordings and machines of the type's cost relative to that without the edit.
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

/// A comparison's result for a layout.
fn layout_effect(effect: linemate_study::Effect) -> LayoutEffect {
    LayoutEffect {
        interleavings: effect.interleavings,
        types: effect.types,
        whole: effect.whole,
        duration: effect.duration,
        under: effect.under,
        in_either_half: effect.in_either_half,
    }
}

/// What each of `layouts` changes in an experiment's recording.
///
/// # Errors
/// An impossible edit, a machine that is too small, a damaged recording.
pub(crate) fn confirm(
    experiment: &Experiment<'_>,
    layouts: &[EditFile],
    interleavings: &Interleavings,
) -> Result<Vec<LayoutEffect>, AdviseError> {
    let effects = compare(experiment, layouts, interleavings)?.into_iter();
    effects.map(|effect| Ok(layout_effect(effect?))).collect()
}
