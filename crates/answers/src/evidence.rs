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
    /// The command that was recorded.
    pub workload: Option<String>,
    /// The machine of the replay.
    pub machine: Option<String>,
    /// The seed that the recording was made with.
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
    /// The accesses that read it, and their functions.
    pub read: Option<AccessSummary>,
    /// The accesses that write it, and their functions.
    pub written: Option<AccessSummary>,
    /// Further reasons, one line each.
    pub reasons: Vec<String>,
}

/// Accesses, and the functions that make most of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct AccessSummary {
    /// The number of recorded accesses.
    pub accesses: u64,
    /// The functions with most of them, most first.
    pub by: Vec<String>,
}

/// A figure before and after.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FigureChange {
    /// What is counted, in words.
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
    /// What this part of the edits does, in words.
    pub part: String,
    /// The change with its confidence interval when only it is made.
    pub alone: String,
    /// The change with its confidence interval when everything except it is made.
    #[serde(default)]
    pub without: String,
}
