//! Tables of all verbs, and their JSON documents made of what analysis found.
//!
//! [`make`] gives a [`Report`]; [`text()`] and [`json`] print it into strings. For each other document of the answers crate there are a function
//! that makes it and one that shows it as text, of the same values. Same facts, same bytes. No analysis happens here but sums: what is counted and how
//! it is grouped is the attribution crate's.

mod advice;
mod build;
pub mod case;
mod changes;
mod checked;
mod costs;
mod differences;
mod doctor;
mod documents;
mod growth;
mod headline;
mod heat;
mod layouts;
mod leaves;
mod legend;
mod line_starts;
mod machines;
mod parts;
mod pretty;
mod print;
mod remedies;
mod resolve;
mod sets;
mod strip;
mod sums;
mod table;
mod tables;
mod text;
mod timeview;
mod typeview;
mod verified;
mod whatifs;

use linemate_answers::Report;
use linemate_attribution::{Analysis, Counted};
use linemate_types::LineSize;
use thiserror::Error;

pub use advice::{
    AdviceText, advice_document, advice_text, source_advice, survey_document, survey_text,
};
pub use checked::{check_document, check_text, checked_kernel, sarif};
pub use costs::{CostsTables, costs_text};
pub use differences::{diff_document, diff_text};
pub use doctor::{doctor_document, doctor_text};
pub use documents::{costs_document, whatif_document};
pub use growth::{growth_document, growth_text, held_out_check};
pub use headline::{costs_headline, report_headline, type_headline};
pub use heat::{add_heat, with_heat};
pub use layouts::{layout_document, layout_text, type_layout};
pub use leaves::{LayoutChangeError, layout_changes};
pub use line_starts::{line_starts, line_starts_text};
pub use machines::{machines_document, machines_text};
pub use pretty::pretty;
pub use print::{relative, verdict};
pub use remedies::remedies;
pub use table::Table;
pub use tables::{ReportText, text};
pub use text::Text;
pub use verified::{verify_document, verify_text};
pub use whatifs::whatif_text;

/// What rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Types, variables, caches.
    Type,
    /// Fields of all types.
    Field,
    /// Lines of all types.
    Line,
    /// Functions.
    Function,
    /// Lines of programs' source; functions where there are none.
    Source,
    /// CPUs.
    Cpu,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// What rows are, if no type is chosen.
    pub by: By,
    /// The type to show everything of.
    pub type_name: Option<String>,
    /// Whether rows are also of what cannot be laid out: stacks, pages, memory without a type.
    pub all: bool,
    /// The most rows.
    pub top: usize,
    /// The size of a line.
    pub line: LineSize,
}

/// Why a recording may not have the type that is asked for.
pub const UNNAMED: &str = ", which has no kernel types (recorded with --kernel-types no)";

/// Why there is no report.
#[derive(Debug, Error)]
pub enum Error {
    /// No such type in the recording.
    #[error(
        "no type or typed variable {name:?} in the recording{}{}",
        if *unnamed { UNNAMED } else { "" },
        linemate_text::suggestion(nearest)
    )]
    UnknownType {
        /// What was asked for.
        name: String,
        /// Names that look like it.
        nearest: Vec<String>,
        /// Whether the recording leaves the kernel's types out.
        unnamed: bool,
    },
    /// The report could not be written as JSON.
    #[error("cannot write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Makes the report from what the recording counts.
///
/// # Errors
/// An unknown type.
pub fn make(
    analysis: &Analysis<'_>,
    counted: &Counted,
    options: &Options,
) -> Result<Report, Error> {
    build::build(analysis, counted, options)
}

/// The report as JSON (docs/reference/json/report.md), with a line feed at the end.
///
/// # Errors
/// None that a report can cause.
pub fn json(report: &Report) -> Result<String, Error> {
    pretty(report)
}
