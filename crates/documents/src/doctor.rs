//! What `linemate doctor` found.

use linemate_answers::{DoctorCheck, DoctorDocument};

/// The document of these answers.
#[must_use]
pub fn doctor_document(checks: Vec<DoctorCheck>) -> DoctorDocument {
    DoctorDocument {
        schema: DoctorDocument::SCHEMA.into(),
        ok: checks.iter().all(|check| check.ok || check.verb.is_some()),
        checks,
    }
}
