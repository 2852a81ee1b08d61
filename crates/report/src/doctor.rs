//! What `linemate doctor` found.

use std::fmt::Write as _;

use linemate_answers::{DoctorCheck, DoctorDocument};
use linemate_text::shown;

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
