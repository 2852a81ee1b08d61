//! The documents of all verbs as text: tables, headlines, results.md.
//!
//! For each document of the answers crate there is a function that shows it, of the document's
//! values and nothing else, so that text and JSON have the same figures. [`pretty()`] writes JSON.
//! Same documents, same bytes.

mod advice;
pub mod case;
mod changes;
mod checked;
mod costs;
mod coverage;
mod declared;
mod differences;
mod doctor;
mod growth;
mod headline;
mod heat;
mod layouts;
mod legend;
mod line_starts;
mod machines;
mod prediction;
mod pretty;
mod print;
mod remedies;
mod sets;
mod strip;
mod table;
mod tables;
mod text;
mod verified;
mod whatifs;

pub use advice::{AdviceText, advice_text, no_gain, source_advice, survey_text};
pub use checked::check_text;
pub use costs::{CostsTables, costs_text};
pub use coverage::coverage_text;
pub use declared::declared_text;
pub use differences::diff_text;
pub use doctor::doctor_text;
pub use growth::growth_text;
pub use headline::{costs_headline, report_headline, survey_headline, type_headline};
pub use heat::with_heat;
pub use layouts::layout_text;
pub use machines::machines_text;
pub use prediction::prediction_errors;
pub use pretty::pretty;
pub use print::{relative, verdict};
pub use remedies::remedies;
pub use table::Table;
pub use tables::{ReportText, text};
pub use text::Text;
pub use verified::verify_text;
pub use whatifs::whatif_text;
