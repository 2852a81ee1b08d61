//! What `linemate check` found, as text and as JSON (docs/schema-check.md).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use linemate_rules::{Position, Verdict};
use linemate_text::shown;
use linemate_types::kernel_image::Arch;
use serde::Serialize;

use super::{Kernel, Report};

/// Kernel by kernel, each finding as `file:line:column: …`.
pub(super) fn text(report: &Report<'_>) -> String {
    let mut text = String::new();
    let file = report.rules.to_string_lossy();
    let file = shown(&file);
    for kernel in &report.kernels {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{}", heading(kernel));
        for finding in &kernel.checked.findings {
            let verdict = match report.verdict(kernel, finding) {
                None => "",
                Some(Verdict::New) => " [new]",
                Some(Verdict::Worse) => " [worse than the baseline]",
                Some(Verdict::Accepted) => " [accepted by the baseline]",
            };
            let _ = writeln!(
                text,
                "{file}:{}: {}, {}: {}{verdict}",
                finding.at, finding.subject, finding.rule, finding.fault
            );
            if let Some(reason) = &finding.reason {
                let _ = writeln!(text, "\tbecause {reason}");
            }
        }
        let mut skipped: BTreeMap<Position, Vec<String>> = BTreeMap::new();
        for rule in &kernel.checked.skipped {
            let name = format!("{}, {}", rule.subject, rule.rule);
            skipped.entry(rule.at).or_default().push(name);
        }
        for (at, names) in skipped {
            let names = names.join("; ");
            let _ = writeln!(
                text,
                "{file}:{at}: not checked, nothing of it is there: {names}"
            );
        }
    }
    for gone in &report.gone {
        let _ = writeln!(
            text,
            "mended since the baseline: {}, {} ({}, lines of {} bytes)",
            gone.subject,
            gone.rule,
            gone.place.arch,
            gone.place.line.bytes()
        );
    }
    text + &summary(report)
}

/// `6.12.95+deb12-powerpc64le, ppc64, lines of 128 bytes: 14 rules, 2 broken`
fn heading(kernel: &Kernel) -> String {
    let arch = match kernel.arch {
        Some(arch) => format!(", {}", arch.name()),
        None => String::new(),
    };
    let broken = match kernel.checked.findings.len() {
        0 => "all kept".to_owned(),
        n => format!("{n} broken"),
    };
    format!(
        "{}{arch}, lines of {} bytes: {}, {broken}",
        shown(&kernel.title()),
        kernel.line.bytes(),
        count(kernel.checked.compared, "rule")
    )
}

fn summary(report: &Report<'_>) -> String {
    let all = report.findings().count();
    let failing = report.failing();
    let kernels = count(report.kernels.len(), "kernel");
    let mut text = format!("{}, {kernels}", count(failing, "finding"));
    if report.baseline.is_some() {
        let _ = write!(text, ", {} accepted", all - failing);
    }
    if !report.gone.is_empty() {
        let _ = write!(
            text,
            ", {} fixed: write the baseline again to keep it so",
            report.gone.len()
        );
    }
    text + "\n"
}

fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

/// Version of the form that `--json` writes (docs/schema-check.md).
const SCHEMA: &str = "linemate.check/1";

/// What `--json` writes.
#[derive(Serialize)]
pub(super) struct Document {
    schema: &'static str,
    rules: String,
    failing: usize,
    kernels: Vec<KernelDocument>,
    mended: Vec<MendedDocument>,
}

#[derive(Serialize)]
struct KernelDocument {
    path: String,
    release: Option<String>,
    arch: Option<&'static str>,
    line: u64,
    compared: usize,
    findings: Vec<FindingDocument>,
    skipped: Vec<SkippedDocument>,
}

#[derive(Serialize)]
struct AtDocument {
    line: u32,
    column: u32,
}

#[derive(Serialize)]
struct FindingDocument {
    at: AtDocument,
    #[serde(rename = "type")]
    subject: String,
    kind: &'static str,
    rule: String,
    message: String,
    reason: Option<String>,
    measure: u64,
    members: Vec<String>,
    verdict: Option<&'static str>,
}

#[derive(Serialize)]
struct SkippedDocument {
    at: AtDocument,
    #[serde(rename = "type")]
    subject: String,
    rule: String,
}

#[derive(Serialize)]
struct MendedDocument {
    arch: String,
    line: u64,
    #[serde(rename = "type")]
    subject: String,
    rule: String,
}

fn place(at: Position) -> AtDocument {
    AtDocument {
        line: at.line,
        column: at.column,
    }
}

/// docs/schema-check.md
pub(super) fn document(report: &Report<'_>) -> Document {
    let kernels = report.kernels.iter().map(|k| kernel(report, k));
    let mended = report.gone.iter().map(|gone| MendedDocument {
        arch: gone.place.arch.clone(),
        line: gone.place.line.bytes(),
        subject: gone.subject.clone(),
        rule: gone.rule.clone(),
    });
    Document {
        schema: SCHEMA,
        rules: report.rules.display().to_string(),
        failing: report.failing(),
        kernels: kernels.collect(),
        mended: mended.collect(),
    }
}

fn kernel(report: &Report<'_>, kernel: &Kernel) -> KernelDocument {
    let findings = kernel.checked.findings.iter().map(|f| FindingDocument {
        at: place(f.at),
        subject: f.subject.clone(),
        kind: f.kind.name(),
        rule: f.rule.clone(),
        message: f.fault.to_string(),
        reason: f.reason.clone(),
        measure: f.measure(),
        members: f.members().into_iter().collect(),
        verdict: report.verdict(kernel, f).map(|verdict| match verdict {
            Verdict::New => "new",
            Verdict::Worse => "worse",
            Verdict::Accepted => "accepted",
        }),
    });
    let skipped = kernel.checked.skipped.iter().map(|s| SkippedDocument {
        at: place(s.at),
        subject: s.subject.clone(),
        rule: s.rule.clone(),
    });
    KernelDocument {
        path: kernel.path.display().to_string(),
        release: kernel.release.clone(),
        arch: kernel.arch.map(Arch::name),
        line: kernel.line.bytes(),
        compared: kernel.checked.compared,
        findings: findings.collect(),
        skipped: skipped.collect(),
    }
}
