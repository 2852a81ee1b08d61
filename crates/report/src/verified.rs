//! What `linemate verify` found.

use std::borrow::Cow;
use std::fmt::Write as _;

use linemate_recording::VerifyReport as Verified;
use linemate_text::shown;
use serde::{Deserialize, Serialize};

/// What `linemate verify --json` writes (docs/reference/json/verify.md).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyDocument {
    /// [`VerifyDocument::SCHEMA`].
    pub schema: Cow<'static, str>,
    /// Whether there are no findings.
    pub sound: bool,
    /// What is wrong, a sentence each.
    pub findings: Vec<String>,
    /// Findings beyond those that are listed.
    pub more_findings: u64,
    /// Chunks of the file.
    pub chunks: usize,
    /// Loads, stores and RMWs.
    pub accesses: u64,
    /// Accesses that only read.
    pub loads: u64,
    /// Accesses that only write.
    pub stores: u64,
    /// Atomic read-modify-writes.
    pub rmws: u64,
    /// Calls of watched functions.
    pub calls: u64,
    /// Returns from them.
    pub returns: u64,
    /// Markers.
    pub markers: u64,
    /// Over all chunks, 16 hexadecimal digits; equal for equal recordings.
    pub checksum: String,
}

impl VerifyDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.verify/1";

    /// The document of what the verifier reports, with all `findings`.
    #[must_use]
    pub fn new(report: &Verified, findings: Vec<String>) -> Self {
        let totals = report.totals;
        VerifyDocument {
            schema: Self::SCHEMA.into(),
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
    pub fn text(&self, name: &str) -> String {
        let mut out = String::new();
        let name = shown(name);
        for finding in &self.findings {
            // Writing to a String does not fail.
            let _ = writeln!(out, "{name}: {}", shown(finding));
        }
        if self.more_findings > 0 {
            let _ = writeln!(out, "{name}: {} more findings", self.more_findings);
        }
        let verdict = match self.findings.as_slice() {
            [] => "sound",
            _ => "not sound",
        };
        let _ = writeln!(
            out,
            "{name}: {verdict}; {} chunks, {} accesses, {} calls, {} returns, {} markers, checksum {}",
            self.chunks, self.accesses, self.calls, self.returns, self.markers, self.checksum
        );
        out
    }
}
