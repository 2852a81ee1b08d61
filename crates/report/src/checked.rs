//! What `linemate check` found, as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use linemate_answers::{BrokenRule, CheckDocument, CheckedKernel, RulePosition};
use linemate_text::shown;

use crate::print::counted;

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
            ", {} fixed: rewrite the baseline to lock that in",
            document.mended.len()
        );
    }
    text + "\n"
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
        shown(kernel.title()),
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

fn finding_text(broken: &BrokenRule, text: &mut String, file: &str) {
    let verdict = match broken.verdict.as_deref() {
        None => String::new(),
        Some("worse") => " [worse than the baseline]".to_owned(),
        Some(BrokenRule::ACCEPTED) => " [accepted by the baseline]".to_owned(),
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
