//! What `linemate doctor` found.

use std::fmt::Write as _;

use linemate_answers::{DoctorCheck, DoctorDocument};
use linemate_text::shown;

/// The document of these answers.
#[must_use]
pub fn doctor_document(checks: Vec<DoctorCheck>) -> DoctorDocument {
    DoctorDocument {
        schema: DoctorDocument::SCHEMA.into(),
        ok: checks.iter().all(|check| check.ok || check.verb.is_some()),
        checks,
    }
}

/// A line for each check.
#[must_use]
pub fn doctor_text(document: &DoctorDocument) -> String {
    let mut out = String::new();
    for DoctorCheck {
        name,
        verb,
        ok,
        detail,
    } in &document.checks
    {
        let mark = match (ok, verb) {
            (true, _) => "ok  ",
            (false, Some(_)) => "note",
            (false, None) => "FAIL",
        };
        // Writing to a String does not fail.
        let _ = writeln!(out, "{mark}  {name:<10} {}", shown(detail));
    }
    out
}
