//! Of a case: predictions beside what a rebuilt kernel showed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measure::Change;

/// From this many times as many accesses on, what a type costs in two kernels is not the same thing: a patch changes what an access costs and
/// spares some, but does not double them. A name does: an object of before the recording has a type only where its slab cache is of one type, and the kernel
/// merges caches of one size, which a patch may change.
const RENAMED: f64 = 2.0;

/// What became of an edit in the kernel that was built with its patches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Rebuilt {
    /// The edit's name.
    pub edit: String,
    /// The machine's name.
    pub machine: String,
    /// The types whose cost is compared.
    pub types: Vec<String>,
    /// How often each of both kernels was recorded.
    pub runs: usize,
    /// What figures are also given for each of; null without `[event]`.
    pub event: Option<EventRuns>,
    /// Cycles of the types.
    pub cost: Figure,
    /// Accesses to the types that were recorded: where there are far more in one kernel, costs are not
    /// compared.
    #[serde(default)]
    pub accesses: Figure,
    /// Cycles of everything.
    pub whole: Figure,
    /// Accesses of kernel code that missed the last-level cache.
    pub llc_misses: Figure,
    /// The loads among them.
    #[serde(default)]
    pub llc_load_misses: Figure,
    /// Cycles by function, for the functions that published figures are about; one that is inlined in either
    /// kernel has none.
    pub functions: BTreeMap<String, Figure>,
}

/// A figure of whole recordings, and for each event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Figure {
    /// Of whole recordings.
    pub sum: Compared,
    /// For each event; null without `[event]`.
    pub per_event: Option<Compared>,
}

impl Figure {
    /// What a change is read from: events where there are any, for the course of a workload is not in them.
    #[must_use]
    pub fn best(&self) -> &Compared {
        self.per_event.as_ref().unwrap_or(&self.sum)
    }

    /// Of a figure that counts accesses to types: whether there are so many more in one kernel that not the same objects have the types' names in both.
    #[must_use]
    pub fn is_renamed(&self) -> bool {
        let compared = self.best();
        let (without, rerecorded) = (compared.without.mean, compared.rerecorded.mean);
        without.max(rerecorded) >= RENAMED * without.min(rerecorded) && without != rerecorded
    }

    /// The same figure, of which no verdict is to be read.
    #[must_use]
    pub fn not_comparable(mut self) -> Figure {
        for compared in self.per_event.iter_mut().chain([&mut self.sum]) {
            compared.verdict = Some(Verdict::NotComparable);
        }
        self
    }
}

/// A figure of the kernel without patches, predicted from it, and of the kernel with them; each run's is the
/// mean over its interleavings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Compared {
    /// The kernel built without patches.
    pub without: Spread,
    /// Predicted from that kernel.
    pub predicted: Spread,
    /// The kernel with the patches.
    pub rerecorded: Spread,
    /// From the first to the second: of the same recordings, run by run; null where there is nothing to change.
    pub predicted_change: Option<Change>,
    /// From the first to the third: of recordings of two kernels.
    pub recorded_change: Option<Change>,
    /// Whether the second fits the third.
    pub verdict: Option<Verdict>,
}

impl Compared {
    /// How far the predicted figure is from the re-recorded one, in per cent of the re-recorded.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        let (predicted, rerecorded) = (self.predicted.mean, self.rerecorded.mean);
        (rerecorded > 0.0).then(|| 100.0 * (predicted - rerecorded) / rerecorded)
    }
}

/// Whether a prediction fits what the rebuilt kernel cost (docs/guide/cases.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Verdict {
    /// Both intervals overlap.
    #[serde(rename = "agrees")]
    Agrees,
    /// They do not.
    #[serde(rename = "differs")]
    Differs,
    /// They do, but no change at all would fit as well; or there are no intervals.
    #[serde(rename = "inconclusive")]
    Inconclusive,
    /// The types are accessed so much more often in one of the kernels that they are not the same objects there.
    #[serde(rename = "not comparable")]
    NotComparable,
}

impl Verdict {
    /// As tables have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Differs => "differs",
            Verdict::Inconclusive => "inconclusive",
            Verdict::NotComparable => "not comparable",
        }
    }
}

/// A figure of several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Spread {
    /// The mean of all runs.
    pub mean: f64,
    /// The smallest of all runs.
    pub least: f64,
    /// The largest of all runs.
    pub most: f64,
}

impl Spread {
    /// Of the runs' figures.
    #[must_use]
    pub fn of(figures: &[f64]) -> Spread {
        let end = |pick: fn(f64, f64) -> f64| figures.iter().copied().reduce(pick).unwrap_or(0.0);
        Spread {
            mean: figures.iter().sum::<f64>() / figures.len().max(1) as f64,
            least: end(f64::min),
            most: end(f64::max),
        }
    }
}

/// How often an event happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EventRuns {
    /// What it is called.
    pub name: String,
    /// The function whose calls it is.
    pub function: String,
    /// The symbols that were counted in the kernel without patches: `f`, `f.isra.0`.
    pub copies: Vec<String>,
    /// The symbols that were counted in the one with them.
    pub patched_copies: Vec<String>,
    /// Calls in recordings of the kernel without patches.
    pub without: Spread,
    /// Calls in recordings of the one with them.
    pub rerecorded: Spread,
    /// From one to the other.
    pub change: Option<Change>,
}
