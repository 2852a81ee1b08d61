//! What `linemate check` found, as a document and as text.

mod sarif;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use linemate_rules::{Checked, Finding, Gone, Position, Verdict};
use linemate_text::shown;
use serde::{Deserialize, Serialize};

use crate::print::counted;

/// What `linemate check --json` writes (docs/reference/json/check.md).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckDocument {
    /// [`CheckDocument::SCHEMA`].
    pub schema: Cow<'static, str>,
    /// The file of rules.
    pub rules: String,
    /// Findings that the baseline does not accept.
    pub failing: usize,
    /// What each kernel breaks, in the order given.
    pub kernels: Vec<CheckedKernel>,
    /// Findings of the baseline that are gone.
    pub mended: Vec<MendedRule>,
}

/// One kernel or program with what it breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedKernel {
    /// The file that was read.
    pub path: String,
    /// Whether it is a program.
    #[serde(default)]
    pub program: bool,
    /// The kernel's release, where the file tells.
    pub release: Option<String>,
    /// As `uname -m` has it, where the file tells.
    pub arch: Option<Cow<'static, str>>,
    /// Bytes of a line.
    pub line: u64,
    /// Rules that were checked.
    pub compared: usize,
    /// Rules that are broken, in their order.
    pub findings: Vec<BrokenRule>,
    /// Rules all of whose members this kernel lacks, as it may.
    pub skipped: Vec<SkippedRule>,
}

/// Where a rule is in the file of rules, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RulePosition {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// A rule that is broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenRule {
    /// Where the rule is.
    pub at: RulePosition,
    /// The type, as the rules call it.
    #[serde(rename = "type")]
    pub subject: String,
    /// The word that the rule starts with.
    pub kind: Cow<'static, str>,
    /// The rule without its list of members.
    pub rule: String,
    /// What is wrong, as a sentence.
    pub message: String,
    /// The rule's `because`.
    pub reason: Option<String>,
    /// How bad it is, in the kind's unit.
    pub measure: u64,
    /// Who is part of it.
    pub members: Vec<String>,
    /// What the baseline says: `new`, `worse`, `accepted`; none without one.
    pub verdict: Option<Cow<'static, str>>,
}

/// A rule that was not checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
pub struct MendedRule {
    /// As `uname -m` has it; `any` where the image does not tell.
    pub arch: String,
    /// Bytes of a line.
    pub line: u64,
    /// The type, as the rules call it.
    #[serde(rename = "type")]
    pub subject: String,
    /// The rule without its list of members.
    pub rule: String,
}

impl CheckDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.check/1";

    /// The document of these kernels, checked with the file `rules`.
    #[must_use]
    pub fn new(rules: String, kernels: Vec<CheckedKernel>, gone: &[Gone]) -> Self {
        let findings = kernels.iter().flat_map(|kernel| &kernel.findings);
        let mended = gone.iter().map(|gone| MendedRule {
            arch: gone.place.arch.clone(),
            line: gone.place.line.bytes(),
            subject: gone.subject.clone(),
            rule: gone.rule.clone(),
        });
        CheckDocument {
            schema: Self::SCHEMA.into(),
            rules,
            failing: findings.filter(|finding| !finding.is_accepted()).count(),
            mended: mended.collect(),
            kernels,
        }
    }

    /// Kernel by kernel, each finding as `file:line:column: …`; `baseline`: whether there was one.
    #[must_use]
    pub fn text(&self, baseline: bool) -> String {
        let mut text = String::new();
        let file = shown(&self.rules).to_string();
        for kernel in &self.kernels {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{}", kernel.heading());
            for finding in &kernel.findings {
                finding.text(&mut text, &file);
            }
            kernel.skipped_text(&mut text, &file);
        }
        for gone in &self.mended {
            let _ = writeln!(
                text,
                "fixed since the baseline: {}, {} ({}, lines of {} bytes)",
                gone.subject, gone.rule, gone.arch, gone.line
            );
        }
        text + &self.summary(baseline)
    }

    fn summary(&self, baseline: bool) -> String {
        let all: usize = self.kernels.iter().map(|k| k.findings.len()).sum();
        let mut text = counted(self.failing, "finding");
        for (is_program, what) in [(false, "kernel"), (true, "program")] {
            let kind = self.kernels.iter().filter(|k| k.program == is_program);
            match kind.count() {
                0 => {}
                count => text.push_str(&format!(", {}", counted(count, what))),
            }
        }
        if baseline {
            let _ = write!(text, ", {} accepted", all - self.failing);
        }
        if !self.mended.is_empty() {
            let _ = write!(
                text,
                ", {} fixed: write the baseline again to keep it so",
                self.mended.len()
            );
        }
        text + "\n"
    }
}

impl CheckedKernel {
    /// What `checked` says about the kernel in the file `path`, for lines of `line` bytes; `verdict`: what the baseline says about a
    /// finding, nothing without one.
    #[must_use]
    pub fn new(
        path: String,
        release: Option<String>,
        arch: Option<&'static str>,
        line: u64,
        checked: &Checked,
        verdict: impl Fn(&Finding) -> Option<Verdict>,
    ) -> Self {
        let findings = checked.findings.iter();
        let skipped = checked.skipped.iter().map(|skipped| SkippedRule {
            at: RulePosition::new(skipped.at),
            subject: skipped.subject.clone(),
            rule: skipped.rule.clone(),
        });
        CheckedKernel {
            path,
            program: false,
            release,
            arch: arch.map(Cow::from),
            line,
            compared: checked.compared,
            findings: findings
                .map(|finding| BrokenRule::new(finding, verdict(finding)))
                .collect(),
            skipped: skipped.collect(),
        }
    }

    /// What it is called: the release, else the file.
    fn title(&self) -> &str {
        self.release.as_ref().unwrap_or(&self.path)
    }

    /// `6.12.95+deb12-powerpc64le, ppc64, lines of 128 bytes: 14 rules, 2 broken`
    fn heading(&self) -> String {
        let arch = match &self.arch {
            Some(arch) => format!(", {arch}"),
            None => String::new(),
        };
        let broken = match self.findings.len() {
            0 => "all kept".to_owned(),
            n => format!("{n} broken"),
        };
        format!(
            "{}{arch}, lines of {} bytes: {}, {broken}",
            shown(self.title()),
            self.line,
            counted(self.compared, "rule")
        )
    }

    fn skipped_text(&self, text: &mut String, file: &str) {
        let mut skipped: BTreeMap<RulePosition, Vec<String>> = BTreeMap::new();
        for rule in &self.skipped {
            let name = format!("{}, {}", rule.subject, rule.rule);
            skipped.entry(rule.at).or_default().push(name);
        }
        for (at, names) in skipped {
            let _ = writeln!(
                text,
                "{file}:{}:{}: not checked, not found: {}",
                at.line,
                at.column,
                names.join("; ")
            );
        }
    }
}

impl BrokenRule {
    fn new(finding: &Finding, verdict: Option<Verdict>) -> Self {
        let verdict = verdict.map(|verdict| match verdict {
            Verdict::New => "new",
            Verdict::Worse => "worse",
            Verdict::Accepted => ACCEPTED,
        });
        BrokenRule {
            at: RulePosition::new(finding.at),
            subject: finding.subject.clone(),
            kind: finding.kind.name().into(),
            rule: finding.rule.clone(),
            message: finding.fault.to_string(),
            reason: finding.reason.clone(),
            measure: finding.measure(),
            members: finding.members().into_iter().collect(),
            verdict: verdict.map(Cow::from),
        }
    }

    fn is_accepted(&self) -> bool {
        self.verdict.as_deref() == Some(ACCEPTED)
    }

    fn text(&self, text: &mut String, file: &str) {
        let verdict = match self.verdict.as_deref() {
            None => String::new(),
            Some("worse") => " [worse than the baseline]".to_owned(),
            Some(ACCEPTED) => " [accepted by the baseline]".to_owned(),
            Some(other) => format!(" [{other}]"),
        };
        let _ = writeln!(
            text,
            "{file}:{}:{}: {}, {}: {}{verdict}",
            self.at.line, self.at.column, self.subject, self.rule, self.message
        );
        if let Some(reason) = &self.reason {
            let _ = writeln!(text, "\tbecause {reason}");
        }
    }
}

/// The verdict on a finding that the baseline has.
const ACCEPTED: &str = "accepted";

impl RulePosition {
    fn new(at: Position) -> Self {
        RulePosition {
            line: at.line,
            column: at.column,
        }
    }
}
