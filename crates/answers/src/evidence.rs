//! The evidence for a patch: `linemate advise --evidence` writes it, `linemate patch` reads it.

use serde::{Deserialize, Serialize};

/// The evidence for a patch. All keys are optional.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct PatchEvidence {
    /// The edit that it supports.
    pub edit: Option<String>,
    /// What is wrong with the layout, in prose.
    pub problem: Option<String>,
    /// The recorded kernel's release.
    pub kernel: Option<String>,
    /// The recorded command.
    pub workload: Option<String>,
    /// The machine of the replay.
    pub machine: Option<String>,
    /// The recording's seed.
    pub seed: Option<String>,
    /// Why members are on one line.
    pub groups: Vec<GroupEvidence>,
    /// Figures before and after.
    pub effect: Vec<FigureChange>,
    /// What each part of the edit contributes.
    pub ablation: Vec<EditEvidence>,
    /// Anything else worth saying, one paragraph each.
    pub notes: Vec<String>,
}

/// Why the members of a group are on one line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct GroupEvidence {
    /// Its name in the edit; for `isolate` its first member.
    pub name: String,
    /// The sentence for the comment in the source.
    pub intent: Option<String>,
    /// Who reads it.
    pub read: Option<AccessSummary>,
    /// Who writes it.
    pub written: Option<AccessSummary>,
    /// Further reasons, one line each.
    pub reasons: Vec<String>,
}

/// Accesses, and the functions that make most of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct AccessSummary {
    /// Recorded accesses.
    pub accesses: u64,
    /// The functions with most of them, most first.
    pub by: Vec<String>,
}

/// A figure before and after.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FigureChange {
    /// What is counted.
    pub metric: String,
    /// Under the old layout.
    pub before: String,
    /// Under the new one.
    pub after: String,
    /// The change with its confidence interval: `-29.1 % ± 0.4`.
    #[serde(default)]
    pub change: String,
}

/// What a part of the edit contributes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EditEvidence {
    /// The part.
    pub part: String,
    /// The change with its confidence interval when only it is made.
    pub alone: String,
    /// The change with its confidence interval when everything except it is made.
    #[serde(default)]
    pub without: String,
}
