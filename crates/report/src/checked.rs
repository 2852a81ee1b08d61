//! What `linemate check` found, as a document and as text.

mod sarif;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use linemate_answers::{
    BrokenRule, CheckDocument, CheckedKernel, MendedRule, RulePosition, SkippedRule,
};
use linemate_rules::{Checked, Finding, Gone, Position, Verdict};
use linemate_text::shown;

pub use self::sarif::sarif;
use crate::print::counted;

/// The document of these kernels, checked with the file `rules`.
#[must_use]
pub fn check_document(rules: String, kernels: Vec<CheckedKernel>, gone: &[Gone]) -> CheckDocument {
    let findings = kernels.iter().flat_map(|kernel| &kernel.findings);
    let mended = gone.iter().map(|gone| MendedRule {
        arch: gone.place.arch.clone(),
        line: gone.place.line.bytes(),
        subject: gone.subject.clone(),
        rule: gone.rule.clone(),
    });
    CheckDocument {
        schema: CheckDocument::SCHEMA.into(),
        rules,
        failing: findings.filter(|finding| !is_accepted(finding)).count(),
        mended: mended.collect(),
        kernels,
    }
}

/// Kernel by kernel, each finding as `file:line:column: …`; `baseline`: whether there was one.
#[must_use]
pub fn check_text(document: &CheckDocument, baseline: bool) -> String {
    let mut text = String::new();
    let file = shown(&document.rules).to_string();
    for kernel in &document.kernels {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{}", heading(kernel));
        for finding in &kernel.findings {
            finding_text(finding, &mut text, &file);
        }
        skipped_text(kernel, &mut text, &file);
    }
    for gone in &document.mended {
        let _ = writeln!(
            text,
            "fixed since the baseline: {}, {} ({}, lines of {} bytes)",
            gone.subject, gone.rule, gone.arch, gone.line
        );
    }
    text + &summary(document, baseline)
}

fn summary(document: &CheckDocument, baseline: bool) -> String {
    let all: usize = document.kernels.iter().map(|k| k.findings.len()).sum();
    let mut text = counted(document.failing, "finding");
    for (is_program, what) in [(false, "kernel"), (true, "program")] {
        let kind = document.kernels.iter().filter(|k| k.program == is_program);
        match kind.count() {
            0 => {}
            count => text.push_str(&format!(", {}", counted(count, what))),
        }
    }
    if baseline {
        let _ = write!(text, ", {} accepted", all - document.failing);
    }
    if !document.mended.is_empty() {
        let _ = write!(
            text,
            ", {} fixed: write the baseline again to keep it so",
            document.mended.len()
        );
    }
    text + "\n"
}

/// What `checked` says about the kernel in the file `path`, for lines of `line` bytes; `verdict`: what the baseline says about a
/// finding, nothing without one.
#[must_use]
pub fn checked_kernel(
    path: String,
    release: Option<String>,
    arch: Option<&'static str>,
    line: u64,
    checked: &Checked,
    verdict: impl Fn(&Finding) -> Option<Verdict>,
) -> CheckedKernel {
    let findings = checked.findings.iter();
    let skipped = checked.skipped.iter().map(|skipped| SkippedRule {
        at: rule_position(skipped.at),
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
            .map(|finding| broken_rule(finding, verdict(finding)))
            .collect(),
        skipped: skipped.collect(),
    }
}

/// What it is called: the release, else the file.
fn title(kernel: &CheckedKernel) -> &str {
    kernel.release.as_ref().unwrap_or(&kernel.path)
}

/// `6.12.95+deb12-powerpc64le, ppc64, lines of 128 bytes: 14 rules, 2 broken`
fn heading(kernel: &CheckedKernel) -> String {
    let arch = match &kernel.arch {
        Some(arch) => format!(", {arch}"),
        None => String::new(),
    };
    let broken = match kernel.findings.len() {
        0 => "all kept".to_owned(),
        n => format!("{n} broken"),
    };
    format!(
        "{}{arch}, lines of {} bytes: {}, {broken}",
        shown(title(kernel)),
        kernel.line,
        counted(kernel.compared, "rule")
    )
}

fn skipped_text(kernel: &CheckedKernel, text: &mut String, file: &str) {
    let mut skipped: BTreeMap<RulePosition, Vec<String>> = BTreeMap::new();
    for rule in &kernel.skipped {
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

fn broken_rule(finding: &Finding, verdict: Option<Verdict>) -> BrokenRule {
    let verdict = verdict.map(|verdict| match verdict {
        Verdict::New => "new",
        Verdict::Worse => "worse",
        Verdict::Accepted => ACCEPTED,
    });
    BrokenRule {
        at: rule_position(finding.at),
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

fn is_accepted(broken: &BrokenRule) -> bool {
    broken.verdict.as_deref() == Some(ACCEPTED)
}

fn finding_text(broken: &BrokenRule, text: &mut String, file: &str) {
    let verdict = match broken.verdict.as_deref() {
        None => String::new(),
        Some("worse") => " [worse than the baseline]".to_owned(),
        Some(ACCEPTED) => " [accepted by the baseline]".to_owned(),
        Some(other) => format!(" [{other}]"),
    };
    let _ = writeln!(
        text,
        "{file}:{}:{}: {}, {}: {}{verdict}",
        broken.at.line, broken.at.column, broken.subject, broken.rule, broken.message
    );
    if let Some(reason) = &broken.reason {
        let _ = writeln!(text, "\tbecause {reason}");
    }
}

/// The verdict on a finding that the baseline has.
const ACCEPTED: &str = "accepted";

fn rule_position(at: Position) -> RulePosition {
    RulePosition {
        line: at.line,
        column: at.column,
    }
}
