//! JSON documents made from what analysis found.
//!
//! For each document of the answers crate there is a function that makes it; the report crate shows
//! it as text. Same facts, same bytes. No analysis happens here but sums.

mod advice;
mod checks;
mod coverage;
mod declared;
mod differences;
mod doctor;
mod error;
mod growth;
mod layouts;
mod leaves;
mod line_starts;
mod machines;
mod replayed;
mod report;
mod verified;

pub use advice::{advice_document, survey_document};
pub use checks::{check_document, checked_kernel, sarif};
pub use coverage::{CoverageFacts, coverage_document, covered_members, covered_recording};
pub use declared::{DeclaringType, declared_document};
pub use differences::diff_document;
pub use doctor::doctor_document;
pub use error::{UNNAMED, UnknownType};
pub use growth::{growth_document, held_out_check};
pub use layouts::{add_heat, layout_document, type_layout};
pub use leaves::{LayoutChangeError, layout_changes};
pub use line_starts::line_starts;
pub use machines::machines_document;
pub use replayed::{costs_document, whatif_document};
pub use report::{ReportOptions, TypeUses, report_document, type_uses};
pub use verified::verify_document;
