//! Reports made of recordings, as values.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use linemate_answers::By;
use linemate_attribution::Analysis;
use linemate_documents::{ReportOptions, report_document};
use linemate_recording::Recording;
use linemate_types::LineSize;
use serde_json::Value;

/// The question: all rows, of a type if one is named.
pub(crate) fn options(by: By, type_name: Option<&str>) -> ReportOptions {
    ReportOptions {
        by,
        type_name: type_name.map(str::to_owned),
        all: true,
        top: 10,
        line: LineSize::B64,
    }
}

/// What `--json` writes.
pub(crate) fn value(recording: &Recording, options: &ReportOptions) -> Value {
    let analysis = Analysis::new(recording).unwrap();
    let counted = analysis.count().unwrap();
    serde_json::to_value(report_document(&analysis, &counted, options).unwrap()).unwrap()
}
