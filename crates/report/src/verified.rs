//! What `linemate verify` found.

use std::fmt::Write as _;

use linemate_answers::VerifyDocument;
use linemate_recording::VerifyReport as Verified;
use linemate_text::shown;

/// The document of what the verifier reports, with all `findings`.
#[must_use]
pub fn verify_document(report: &Verified, findings: Vec<String>) -> VerifyDocument {
    let totals = report.totals;
    VerifyDocument {
        schema: VerifyDocument::SCHEMA.into(),
        sound: findings.is_empty(),
        findings,
        more_findings: report.more,
        chunks: report.chunks,
        accesses: totals.accesses(),
        loads: totals.loads,
        stores: totals.stores,
        rmws: totals.rmws,
        calls: totals.calls,
        returns: totals.returns,
        markers: totals.markers,
        checksum: format!("{:016x}", report.checksum),
    }
}

/// The findings, then the verdict with the totals, each line beginning with the recording's `name`.
#[must_use]
pub fn verify_text(document: &VerifyDocument, name: &str) -> String {
    let mut out = String::new();
    let name = shown(name);
    for finding in &document.findings {
        // Writing to a String does not fail.
        let _ = writeln!(out, "{name}: {}", shown(finding));
    }
    if document.more_findings > 0 {
        let _ = writeln!(out, "{name}: {} more findings", document.more_findings);
    }
    let verdict = match document.findings.as_slice() {
        [] => "sound",
        _ => "not sound",
    };
    let _ = writeln!(
        out,
        "{name}: {verdict}; {} chunks, {} accesses, {} calls, {} returns, {} markers, checksum {}",
        document.chunks,
        document.accesses,
        document.calls,
        document.returns,
        document.markers,
        document.checksum
    );
    out
}
