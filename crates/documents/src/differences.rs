//! Two recordings field by field.

use linemate_answers::{DiffDocument, DiffSide};

/// The document of two recordings' fields, made by version `tool`.
#[must_use]
pub fn diff_document(
    tool: &str,
    type_name: Option<String>,
    machine: Option<String>,
    seed: u64,
    [a, b]: [DiffSide; 2],
) -> DiffDocument {
    DiffDocument {
        schema: DiffDocument::SCHEMA.into(),
        tool: tool.to_owned(),
        type_name,
        machine,
        seed,
        interleavings: 1,
        a,
        b,
        others: Vec::new(),
        under: None,
    }
}
