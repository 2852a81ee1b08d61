//! What `linemate verify` found.

use linemate_answers::VerifyDocument;
use linemate_recording::VerifyReport;

/// The document of what the verifier reports, with all `findings`.
#[must_use]
pub fn verify_document(report: &VerifyReport, findings: Vec<String>) -> VerifyDocument {
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
