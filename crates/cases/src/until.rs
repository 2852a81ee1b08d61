//! How many runs a case needs: a fixed number, or more until the intervals of the recorded changes
//! are narrow.
//!
//! The rule reads results alone, after each whole batch, so the number of runs depends neither on
//! how many steps run in parallel nor on interruptions.

use std::cmp::Ordering;
use std::fmt;

use linemate_answers::{Change, Rebuilt, Verdict};

use crate::case::{Case, NarrowEnough, RunCount};
use crate::plan::Plan;

/// How many runs are added at a time. Fewer would mean more looks, each of which may find an
/// interval that is narrow by chance and end the runs.
const BATCH: u16 = 5;

impl RunCount {
    /// The runs before any result is known.
    #[must_use]
    pub(crate) fn first(self) -> u16 {
        match self {
            RunCount::Fixed(runs) => runs,
            RunCount::Until(enough) => enough.at_most.min(BATCH),
        }
    }
}

/// A case needs more runs than it has.
#[derive(Clone, Debug, PartialEq)]
pub struct MoreRuns {
    /// The runs of each kernel, existing ones included.
    pub runs: u16,
    /// The widest interval, which is why.
    pub widest: Interval,
}

/// The interval of a recorded change.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// The edit's name in case.toml.
    pub edit: String,
    /// The machine's name in case.toml.
    pub machine: String,
    /// Half the width in per cent; `None` of fewer than three runs.
    pub ci95: Option<f64>,
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Interval { edit, machine, .. } = self;
        match self.ci95 {
            Some(ci95) => write!(f, "{edit} on {machine} is known to ± {ci95:.1} %"),
            None => write!(f, "{edit} on {machine} has no interval"),
        }
    }
}

/// Whether more runs are needed after the plan's, which gave these costs of the rebuilt kernels.
/// `None`: every interval is narrow enough, the maximum is reached, or the number is fixed.
#[must_use]
pub fn more_runs(case: &Case, plan: &Plan<'_>, rebuilt: &[Rebuilt]) -> Option<MoreRuns> {
    let RunCount::Until(enough) = case.guest.runs else {
        return None;
    };
    if plan.runs >= enough.at_most {
        return None;
    }
    let widths = rebuilt.iter().filter_map(interval);
    let widest = widths.max_by(|a, b| width(a).total_cmp(&width(b)))?;
    (!enough.is_met_by(&widest)).then(|| MoreRuns {
        runs: enough.at_most.min(plan.runs.saturating_add(BATCH)),
        widest,
    })
}

impl NarrowEnough {
    fn is_met_by(self, interval: &Interval) -> bool {
        width(interval).total_cmp(&self.percent) != Ordering::Greater
    }
}

fn width(interval: &Interval) -> f64 {
    interval.ci95.unwrap_or(f64::INFINITY)
}

/// The interval of the recorded change of an edit's types. `None` if nothing is compared, so that
/// no run can narrow it.
fn interval(rebuilt: &Rebuilt) -> Option<Interval> {
    let compared = rebuilt.cost.best();
    if compared.verdict == Some(Verdict::NotComparable) {
        return None;
    }
    let Change { ci95, .. } = compared.recorded_change?;
    Some(Interval {
        edit: rebuilt.edit.clone(),
        machine: rebuilt.machine.clone(),
        ci95,
    })
}
