//! What `linemate check` found.

mod sarif;

use std::borrow::Cow;

use linemate_answers::{
    BrokenRule, CheckDocument, CheckedKernel, DeclaredPlace, MendedRule, RulePosition, SkippedRule,
};
use linemate_rules::{Checked, Finding, Gone, Position, Verdict};

pub use self::sarif::sarif;

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
        failing: findings.filter(|finding| !finding.is_accepted()).count(),
        mended: mended.collect(),
        kernels,
    }
}

/// What `checked` says about the kernel in the file `path`, for lines of `line` bytes; `verdict`:
/// what the baseline says about a finding, nothing without one.
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

fn broken_rule(finding: &Finding, verdict: Option<Verdict>) -> BrokenRule {
    let verdict = verdict.map(|verdict| match verdict {
        Verdict::New => "new",
        Verdict::Worse => "worse",
        Verdict::Accepted => BrokenRule::ACCEPTED,
    });
    BrokenRule {
        at: rule_position(finding.at),
        declared: finding.declared.as_ref().and_then(|at| {
            Some(DeclaredPlace {
                file: at.file.to_string(),
                line: at.line?.get(),
            })
        }),
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

fn rule_position(at: Position) -> RulePosition {
    RulePosition {
        line: at.line,
        column: at.column,
    }
}
