//! What `linemate verify` found.

use std::fmt::Write as _;

use linemate_answers::VerifyDocument;
use linemate_text::shown;

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
