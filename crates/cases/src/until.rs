//! How many runs a case wants: a fixed number, or more until the recorded changes are known well
//! enough.
//!
//! The rule looks at results alone, after each whole batch, so it gives the same number of runs
//! however many steps run side by side and wherever a run was interrupted.

use std::cmp::Ordering;
use std::fmt;

use linemate_answers::{Change, Rebuilt, Verdict};

use crate::case::{Case, NarrowEnough, RunCount};
use crate::plan::Plan;

/// How many runs are added at a time. With fewer, results would be looked at more often, and a look
/// that finds a narrow interval by chance ends the runs.
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

/// A case wants more runs than it has.
#[derive(Clone, Debug, PartialEq)]
pub struct MoreRuns {
    /// How many runs of each kernel, those that there are included.
    pub runs: u16,
    /// The widest interval, because of which there are to be more.
    pub widest: Interval,
}

/// The interval of a recorded change.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// The edit's name.
    pub edit: String,
    /// The machine's name.
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

/// Whether more runs are wanted after those of the plan, of which this is what the rebuilt kernels
/// cost. `None`: every recorded change is known well enough, there are as many runs as there may
/// be, or the case has a fixed number.
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

/// The interval of what an edit's types cost in the rebuilt kernel. `None` where runs cannot narrow
/// it: nothing is compared.
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
