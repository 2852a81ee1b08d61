//! What came out of a case: what results.json holds (docs/reference/cases.md) and results.md shows.

mod compared;
mod markdown;

use std::borrow::Cow;
use std::collections::BTreeMap;

use linemate_machine::Mechanism;
use linemate_study::stats::Measure;
use serde::{Deserialize, Serialize};

pub use self::compared::{Compared, EventRuns, Figure, Spread, Verdict, change_text};
pub use self::markdown::markdown;

/// The schema's name and version.
pub const SCHEMA: &str = "linemate.case/5";

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: Cow<'static, str>,
    /// The version of linemate.
    pub tool: String,
    /// The case.
    pub case: String,
    /// What it is about.
    pub summary: String,
    /// `quick` or `full`.
    pub mode: Cow<'static, str>,
    /// How it was replayed.
    #[serde(default)]
    pub replay: ReplayedAs,
    /// What was recorded.
    pub inputs: Inputs,
    /// By type: what the unmodified kernel shows.
    pub found: Vec<FoundType>,
    /// By edit and machine: what it would change on the unmodified kernel.
    pub predicted: Vec<Predicted>,
    /// By edit with patches and machine: the prediction and the kernel that was built.
    pub rebuilt: Vec<Rebuilt>,
    /// Checks passed by the patched kernels.
    pub checked: Vec<Checked>,
    /// The published figures and ours.
    pub published: Vec<PublishedRow>,
}

/// How recordings were replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayedAs {
    /// With empty caches in the beginning.
    pub cold: bool,
    /// The machines' mechanisms that were replayed, by their keys in a description.
    pub mechanisms: Vec<String>,
    /// Whether the CPUs had only their share of each cache, in predictions.
    pub llc_share: bool,
    /// On how many CPUs, where that is not as many as were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<usize>,
}

impl Default for ReplayedAs {
    fn default() -> ReplayedAs {
        ReplayedAs {
            cold: false,
            mechanisms: vec![Mechanism::AdjacentLinePairs.key().to_owned()],
            llc_share: false,
            cpus: None,
        }
    }
}

/// What was recorded of the unmodified kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// What the recording says about its run.
    pub recording: BTreeMap<String, String>,
    /// Its checksum.
    pub checksum: String,
    /// Its accesses.
    pub accesses: u64,
}

/// A type on the unmodified kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoundType {
    /// The type.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Accesses to its objects.
    pub accesses: u64,
    /// Its groups of fields, most used first.
    pub groups: Vec<FoundGroup>,
    /// The machine of the costs.
    pub machine: String,
    /// Cycles of its accesses that left their core.
    pub cycles: f64,
    /// The part of them that is true sharing, from 0 to 1: no layout changes it.
    pub true_sharing: f64,
    /// The part of them that is false sharing.
    pub false_sharing: f64,
    /// The fields that cost most.
    pub contended: Vec<Contended>,
}

/// Fields that are used together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoundGroup {
    /// `atomic`, `read by others` or `own`.
    pub class: String,
    /// The fields, most used first.
    pub fields: Vec<String>,
    /// Of the type's accesses, from 0 to 1.
    pub share: f64,
    /// Absent without stores.
    pub loads_per_store: Option<f64>,
    /// The lines that they are on.
    pub lines: Vec<u64>,
}

/// A field that costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contended {
    /// The field.
    pub field: String,
    /// Cycles of its accesses that left their core.
    pub cycles: u64,
    /// Loads.
    pub loads: u64,
    /// Stores and atomics.
    pub stores: u64,
    /// Modified lines that came from other cores.
    pub hitm: u64,
    /// Average cycles of a load that left its core, in lines that went between cores.
    pub cycles_per_load: Option<f64>,
}

/// Two sides of a what-if.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Without the edit.
    pub without: f64,
    /// With it.
    pub with: f64,
    /// The mean of the paired differences.
    pub difference: f64,
    /// Half the width of its 95 % confidence interval.
    pub ci95: f64,
}

/// What an edit would change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// The edit.
    pub edit: String,
    /// The machine.
    pub machine: String,
    /// CPUs replayed.
    pub cpus: u64,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// The edited types with their lines without and with the edit.
    pub sizes: Vec<(String, u64, u64)>,
    /// Cycles of the edited types.
    pub types: Measured,
    /// Cycles of everything.
    pub whole: Measured,
    /// Accesses of kernel code that missed the last-level cache.
    pub llc_misses: Measured,
    /// The loads among them.
    #[serde(default)]
    pub llc_load_misses: Measured,
    /// Cycles by function, for the functions that published figures are about.
    pub functions: BTreeMap<String, Measured>,
    /// Accesses that would not happen.
    pub skipped: u64,
    /// Accesses to the edited types that were recorded.
    #[serde(default)]
    pub accesses: u64,
}

/// What became of an edit in the kernel that was built with its patches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rebuilt {
    /// The edit.
    pub edit: String,
    /// The machine.
    pub machine: String,
    /// The types whose cost is compared.
    pub types: Vec<String>,
    /// How often each of both kernels was recorded.
    pub runs: usize,
    /// What figures are told per, if the case names an event.
    pub event: Option<EventRuns>,
    /// Cycles of the types.
    pub cost: Figure,
    /// Accesses to the types that were recorded: where there are [far more](Figure::is_renamed) in one kernel, costs are not compared.
    #[serde(default)]
    pub accesses: Figure,
    /// Cycles of everything.
    pub whole: Figure,
    /// Accesses of kernel code that missed the last-level cache.
    pub llc_misses: Figure,
    /// The loads among them.
    #[serde(default)]
    pub llc_load_misses: Figure,
    /// Cycles by function, for the functions that published figures are about; one that is inlined in either kernel has none.
    pub functions: BTreeMap<String, Figure>,
}

/// A check that a kernel with patches has passed: a case whose check fails has no results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// The edit.
    pub edit: String,
    /// The check.
    pub check: String,
    /// Fragments that were laid over the configuration for it.
    pub config: Vec<String>,
    /// The last line that it said.
    pub said: String,
}

/// A published figure beside ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedRow {
    /// What was measured.
    pub key: String,
    /// The published figure.
    pub published: String,
    /// Where it is from.
    pub source: String,
    /// Ours on the unmodified kernel.
    pub found: Option<String>,
    /// Ours, predicted.
    pub predicted: Option<String>,
    /// Ours, from the rebuilt kernel.
    pub rerecorded: Option<String>,
}

impl FoundGroup {
    /// The lines as a table has them: `0, 3`.
    #[must_use]
    pub fn line_list(&self) -> String {
        let words: Vec<String> = self.lines.iter().map(u64::to_string).collect();
        words.join(", ")
    }
}

impl From<Measure> for Measured {
    fn from(measure: Measure) -> Measured {
        Measured {
            without: measure.without,
            with: measure.with,
            difference: measure.difference,
            ci95: measure.ci95,
        }
    }
}

impl Measured {
    /// A figure that the edit does not change.
    #[must_use]
    pub fn same(figure: f64) -> Measured {
        Measured {
            without: figure,
            with: figure,
            difference: 0.0,
            ci95: 0.0,
        }
    }

    /// Difference and confidence interval in per cent of the side without the edit; `None` when that is nothing.
    #[must_use]
    pub fn relative(&self) -> Option<(f64, f64)> {
        let percent = |figure: f64| 100.0 * figure / self.without;
        (self.without > 0.0).then(|| (percent(self.difference), percent(self.ci95)))
    }
}
