//! Results of a case: predictions next to the rebuilt kernel.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measure::Change;

/// From this ratio of accesses on, the cost of a type in two kernels is not the cost of the same
/// thing: a patch changes the cost of an access and saves some, but does not double them. A name
/// does: an object from before the recording has a type only if its slab cache is of one type, and
/// the kernel merges caches of one size, which a patch may change.
const RENAMED: f64 = 2.0;

/// The result of an edit in the kernel built with its patches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Rebuilt {
    /// The edit's name in case.toml.
    pub edit: String,
    /// The machine's name, as its description has it.
    pub machine: String,
    /// The types whose cost is compared.
    pub types: Vec<String>,
    /// How often each of both kernels was recorded.
    pub runs: usize,
    /// The event for figures per event; null without `[event]`.
    pub event: Option<EventRuns>,
    /// Cycles of the types.
    pub cost: Figure,
    /// Recorded accesses to the types: if one kernel has far more, costs are not compared.
    #[serde(default)]
    pub accesses: Figure,
    /// Cycles of all accesses, of this type or not.
    pub whole: Figure,
    /// Accesses of kernel code that missed the last-level cache.
    pub llc_misses: Figure,
    /// The loads among them.
    #[serde(default)]
    pub llc_load_misses: Figure,
    /// Cycles by function, for the functions in published figures; a function inlined in either
    /// kernel has none.
    pub functions: BTreeMap<String, Figure>,
}

/// A figure of whole recordings, and per event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Figure {
    /// The comparison of whole recordings, not of each event.
    pub sum: Compared,
    /// Per event; null without `[event]`.
    pub per_event: Option<Compared>,
}

impl Figure {
    /// The figure to read a change from: per event if there are any, because they do not depend on
    /// the course of the workload.
    #[must_use]
    pub fn best(&self) -> &Compared {
        self.per_event.as_ref().unwrap_or(&self.sum)
    }

    /// For a figure that counts accesses to types: whether one kernel has so much larger a number
    /// that the types' names do not mean the same objects in both.
    #[must_use]
    pub fn is_renamed(&self) -> bool {
        let compared = self.best();
        let (without, rerecorded) = (compared.without.mean, compared.rerecorded.mean);
        // Zero is twice zero, which is not a difference.
        without.max(rerecorded) >= RENAMED * without.min(rerecorded) && without != rerecorded
    }

    /// The same figure, without a verdict.
    #[must_use]
    pub fn not_comparable(mut self) -> Figure {
        for compared in self.per_event.iter_mut().chain([&mut self.sum]) {
            compared.verdict = Some(Verdict::NotComparable);
        }
        self
    }
}

/// A figure of the kernel without patches, predicted from it, and of the kernel with them; each
/// run's is the mean over its interleavings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Compared {
    /// The kernel built without patches.
    pub without: Spread,
    /// Predicted from that kernel.
    pub predicted: Spread,
    /// The kernel with the patches.
    pub rerecorded: Spread,
    /// From the first to the second: for the same recordings, run by run; null if there is nothing
    /// to change.
    pub predicted_change: Option<Change>,
    /// From the first to the third: between recordings of two kernels.
    pub recorded_change: Option<Change>,
    /// Whether the second agrees with the third.
    pub verdict: Option<Verdict>,
}

impl Compared {
    /// Predicted minus recorded figure, in per cent of the recorded one.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        let (predicted, rerecorded) = (self.predicted.mean, self.rerecorded.mean);
        (rerecorded > 0.0).then(|| 100.0 * (predicted - rerecorded) / rerecorded)
    }
}

/// Whether a prediction agrees with the cost of the rebuilt kernel (docs/guide/cases.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Verdict {
    /// The predicted and the recorded interval overlap.
    #[serde(rename = "agrees")]
    Agrees,
    /// The two intervals do not overlap.
    #[serde(rename = "differs")]
    Differs,
    /// They do, but no change at all would fit as well; or there are no intervals.
    #[serde(rename = "inconclusive")]
    Inconclusive,
    /// One of the kernels accesses the types so much more often that they are not the same objects
    /// there.
    #[serde(rename = "not comparable")]
    NotComparable,
}

impl Verdict {
    /// As printed in tables.
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
    /// Over the runs' figures.
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
    /// The event's name in case.toml.
    pub name: String,
    /// The function whose calls are counted.
    pub function: String,
    /// The symbols counted in the kernel without patches: `f`, `f.isra.0`.
    pub copies: Vec<String>,
    /// The symbols counted in the kernel with them.
    pub patched_copies: Vec<String>,
    /// Calls in recordings of the kernel without patches.
    pub without: Spread,
    /// Calls in recordings of the one with them.
    pub rerecorded: Spread,
    /// From one to the other.
    pub change: Option<Change>,
}
