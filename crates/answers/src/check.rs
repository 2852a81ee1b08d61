//! What `linemate check` writes: the rules that kernels break.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The rules that kernels break.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CheckDocument {
    /// The schema's name and version.
    pub schema: Cow<'static, str>,
    /// The file of rules.
    pub rules: String,
    /// Findings that the baseline does not accept; all without a baseline. Exit code 1 if it is not
    /// 0 (except with only `--write-baseline`, which accepts all).
    pub failing: usize,
    /// One per `--kernel`, then per `--program`, in that order.
    pub kernels: Vec<CheckedKernel>,
    /// Findings of the baseline that are gone.
    pub mended: Vec<MendedRule>,
}

impl CheckDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.check/1";
}

/// A kernel or program, and the rules that it breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CheckedKernel {
    /// The file that was read.
    pub path: String,
    /// Whether it is a program: `release` and `arch` are null then.
    #[serde(default)]
    pub program: bool,
    /// `uname -r` of the kernel, if the file says so.
    pub release: Option<String>,
    /// As printed by `uname -m`, if the file says so.
    pub arch: Option<Cow<'static, str>>,
    /// Bytes of a line, 64 or 128.
    pub line: u64,
    /// Rules that were checked; `apart A from B C` counts as two.
    pub compared: usize,
    /// Rules that are broken, in their order.
    pub findings: Vec<BrokenRule>,
    /// Rules whose members are all missing in this kernel, but optional.
    pub skipped: Vec<SkippedRule>,
}

impl CheckedKernel {
    /// Its name in messages: the release, else the file.
    #[must_use]
    pub fn title(&self) -> &str {
        self.release.as_ref().unwrap_or(&self.path)
    }
}

/// A rule that a kernel breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BrokenRule {
    /// Where the rule is.
    pub at: RulePosition,
    /// Where the source declares the last of the members involved, else the type: of programs, if
    /// the debug information says so.
    #[serde(default)]
    pub declared: Option<DeclaredPlace>,
    /// The type, as the rules call it.
    #[serde(rename = "type")]
    pub subject: String,
    /// `group`, `apart`, `isolate`, `start`, `size` or `hole`.
    pub kind: Cow<'static, str>,
    /// The rule without its list of members: `group clocks`, `apart rto_mask from cpupri`,
    /// `size in lines`.
    pub rule: String,
    /// What is wrong, as a sentence; lines and bytes are counted from 0.
    pub message: String,
    /// The reason that the rule gives with `because`.
    pub reason: Option<String>,
    /// How bad: `group` lines too many, `apart` lines that are shared, `size` the size in its unit,
    /// `hole` bytes of the largest, else 1.
    pub measure: u64,
    /// Members away from where most of the group is, those that share or intrude, those before
    /// holes.
    pub members: Vec<String>,
    /// The baseline's verdict: `new`, `worse`, `accepted`; null without one.
    pub verdict: Option<Cow<'static, str>>,
}

impl BrokenRule {
    /// The verdict on a finding that the baseline has.
    pub const ACCEPTED: &str = "accepted";

    /// Whether the baseline has it at least as bad.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.verdict.as_deref() == Some(Self::ACCEPTED)
    }
}

/// A line of a program's source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DeclaredPlace {
    /// As passed to the compiler, with its folder if that is known.
    pub file: String,
    /// The line's number in the file, counted from 1.
    pub line: u32,
}

/// A rule that does not apply to a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SkippedRule {
    /// Where the rule is.
    pub at: RulePosition,
    /// The type, as the rules call it.
    #[serde(rename = "type")]
    pub subject: String,
    /// The rule without its list of members.
    pub rule: String,
}

/// A finding of the baseline that is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MendedRule {
    /// As printed by `uname -m`; `any` if the image does not say.
    pub arch: String,
    /// Bytes of a line.
    pub line: u64,
    /// The type, as the rules call it.
    #[serde(rename = "type")]
    pub subject: String,
    /// The rule without its list of members.
    pub rule: String,
}

/// Where a rule is in the file of rules, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RulePosition {
    /// The number of the line.
    pub line: u32,
    /// The column in that line.
    pub column: u32,
}

/// Accepted findings (`linemate check --baseline`), sorted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BaselineDocument {
    /// The schema's name and version.
    pub schema: String,
    /// The accepted findings; for several kernels the worst measure and the members of all.
    pub findings: Vec<BaselineEntry>,
}

impl BaselineDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.check-baseline/1";
}

/// A finding that the baseline accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BaselineEntry {
    /// As printed by `uname -m`; `any` for a BTF blob.
    pub arch: String,
    /// Bytes of a line.
    pub line: u64,
    /// The type, as the rules call it.
    #[serde(rename = "type")]
    pub subject: String,
    /// The rule without its list of members.
    pub rule: String,
    /// How bad it is, as in a finding.
    pub measure: u64,
    /// The members that the finding is about.
    pub members: Vec<String>,
}
