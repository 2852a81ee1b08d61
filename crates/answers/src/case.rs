//! What `linemate case run` writes: the results of an experiment.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::case_compared::Rebuilt;
use crate::measure::Measure;

/// The results of an experiment (docs/guide/cases.md). They contain no time and no path of the
/// computer: the same inputs give the same bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CaseResults {
    /// The schema's name and version.
    pub schema: Cow<'static, str>,
    /// The version of linemate.
    pub tool: String,
    /// The case's name in case.toml.
    pub case: String,
    /// A summary of the case.
    pub summary: String,
    /// `quick`, `predicted` (`--predict`) or `full`.
    pub mode: Cow<'static, str>,
    /// How it was replayed.
    #[serde(default)]
    pub replay: ReplayedAs,
    /// The recording of the unmodified kernel.
    pub inputs: CaseInputs,
    /// By type: the findings on the unmodified kernel.
    pub found: Vec<FoundType>,
    /// By edit and machine: the predicted change on the unmodified kernel.
    pub predicted: Vec<Predicted>,
    /// By edit with patches and machine: the prediction and the rebuilt kernel.
    pub rebuilt: Vec<Rebuilt>,
    /// Checks passed by the patched kernels.
    pub checked: Vec<Checked>,
    /// The published figures next to linemate's.
    pub published: Vec<PublishedRow>,
}

impl CaseResults {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.case/5";
}

/// How recordings were replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReplayedAs {
    /// Whether replays started with empty caches.
    pub cold: bool,
    /// The machines' mechanisms that were replayed, by name.
    pub mechanisms: Vec<String>,
    /// Whether the CPUs had only their share of each cache, in predictions.
    pub llc_share: bool,
    /// With `--cpus`: the number of CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "usize"))]
    pub cpus: Option<usize>,
}

impl Default for ReplayedAs {
    fn default() -> ReplayedAs {
        ReplayedAs {
            cold: false,
            mechanisms: vec!["adjacent_line_pairs".to_owned()],
            llc_share: false,
            cpus: None,
        }
    }
}

/// The recording of the unmodified kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CaseInputs {
    /// The recording's description: kernel, command, CPUs, seed, …
    pub recording: BTreeMap<String, String>,
    /// The checksum of the examined recording.
    pub checksum: String,
    /// Accesses in the recording.
    pub accesses: u64,
}

/// A type on the unmodified kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FoundType {
    /// The type's name, as `--type` takes it.
    pub name: String,
    /// The type's size in bytes.
    pub bytes: u64,
    /// Accesses to its objects.
    pub accesses: u64,
    /// Its groups of fields, most used first.
    pub groups: Vec<FoundGroup>,
    /// The machine of the costs.
    pub machine: String,
    /// Cycles of its accesses that left their core.
    pub cycles: f64,
    /// The share of them that is true sharing.
    pub true_sharing: f64,
    /// The share of them that is false sharing.
    pub false_sharing: f64,
    /// The fields that cost most.
    pub contended: Vec<Contended>,
}

/// Fields that are used together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FoundGroup {
    /// `atomic`, `read by others`, `shared` or `own`.
    pub class: String,
    /// The fields, most used first.
    pub fields: Vec<String>,
    /// Their share of the type's accesses.
    pub share: f64,
    /// Loads per store; null without stores.
    pub loads_per_store: Option<f64>,
    /// The lines that they are on.
    pub lines: Vec<u64>,
}

impl FoundGroup {
    /// The lines as a table prints them: `0, 3`.
    #[must_use]
    pub fn line_list(&self) -> String {
        let words: Vec<String> = self.lines.iter().map(u64::to_string).collect();
        words.join(", ")
    }
}

/// A field that costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Contended {
    /// The path from the type on.
    pub field: String,
    /// Cycles of its accesses that left their core.
    pub cycles: u64,
    /// The number of loads.
    pub loads: u64,
    /// Stores and atomic read-modify-writes.
    pub stores: u64,
    /// Modified lines fetched from other cores.
    pub hitm: u64,
    /// Average cycles of a load that left its core, in lines that moved between cores.
    pub cycles_per_load: Option<f64>,
}

/// The predicted change by an edit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Predicted {
    /// The edit's name in case.toml.
    pub edit: String,
    /// The machine's name, as its description has it.
    pub machine: String,
    /// The number of CPUs replayed.
    pub cpus: u64,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// The edited types with their lines without and with the edit.
    pub sizes: Vec<(String, u64, u64)>,
    /// Cycles of the edited types.
    pub types: Measured,
    /// Cycles of all accesses, of this type or not.
    pub whole: Measured,
    /// Accesses of kernel code that missed the last-level cache.
    pub llc_misses: Measured,
    /// The loads among them.
    #[serde(default)]
    pub llc_load_misses: Measured,
    /// Cycles by function, for the functions in published figures.
    pub functions: BTreeMap<String, Measured>,
    /// Accesses that would not happen.
    pub skipped: u64,
    /// Accesses to the edited types that were recorded.
    #[serde(default)]
    pub accesses: u64,
}

/// Both sides of a what-if.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Measured {
    /// The figure without the edit.
    pub without: f64,
    /// The figure with the edit.
    pub with: f64,
    /// The mean of the paired differences.
    pub difference: f64,
    /// Half the width of its 95 % confidence interval.
    pub ci95: f64,
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

    /// Difference and confidence interval in per cent of the side without the edit; null if that is
    /// 0.
    #[must_use]
    pub fn relative(&self) -> Option<(f64, f64)> {
        let percent = |figure: f64| 100.0 * figure / self.without;
        (self.without > 0.0).then(|| (percent(self.difference), percent(self.ci95)))
    }
}

/// A check that a patched kernel has passed: a case whose check fails has no results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Checked {
    /// The edit's name in case.toml.
    pub edit: String,
    /// The check's name in case.toml.
    pub check: String,
    /// Fragments added to the configuration for it.
    pub config: Vec<String>,
    /// The last line of its output.
    pub said: String,
}

/// A published figure and linemate's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PublishedRow {
    /// What was measured, in words.
    pub key: String,
    /// The published figure, as the source has it.
    pub published: String,
    /// Where it is from.
    pub source: String,
    /// linemate's on the unmodified kernel.
    pub found: Option<String>,
    /// linemate's, predicted for the unmodified kernel.
    pub predicted: Option<String>,
    /// linemate's for the rebuilt kernel, per event if there is one.
    pub rerecorded: Option<String>,
}
