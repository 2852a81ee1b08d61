//! Reports made of recordings, as values.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use linemate_attribution::Analysis;
use linemate_recording::Recording;
use linemate_report::{By, Options, json, make};
use linemate_types::LineSize;
use serde_json::Value;

/// What is asked: all rows, of a type if one is named.
pub(crate) fn options(by: By, type_name: Option<&str>) -> Options {
    Options {
        by,
        type_name: type_name.map(str::to_owned),
        all: true,
        top: 10,
        line: LineSize::B64,
    }
}

/// What `--json` writes.
pub(crate) fn value(recording: &Recording, options: &Options) -> Value {
    let analysis = Analysis::new(recording).unwrap();
    let counted = analysis.count().unwrap();
    serde_json::from_str(&json(&make(&analysis, &counted, options).unwrap()).unwrap()).unwrap()
}
