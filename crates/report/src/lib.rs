//! Tables and JSON documents of all verbs.
//!
//! [`make`] gives a [`model::Report`]; [`text()`] and [`json`] print it into strings. What the other verbs print is a document here, too:
//! its values are what `--json` writes, which serde reads back, and its `text` is made of the same values. Same facts, same bytes. No analysis happens here but
//! sums: what is counted and how it is grouped is the attribution crate's.

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
pub mod model;
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

use linemate_attribution::{Analysis, Counted};
use linemate_types::LineSize;
use thiserror::Error;

pub use advice::{
    AdviceDocument, AdviceText, AdvisedLayout, AdvisedRecording, AlignedObjects, FrontPoint,
    GrownLayout, ProgramSource, SurveyDocument,
};
pub use checked::{
    BrokenRule, CheckDocument, CheckedKernel, MendedRule, RulePosition, SkippedRule,
};
pub use costs::CostsTables;
pub use differences::DiffDocument;
pub use doctor::{DoctorCheck, DoctorDocument};
pub use documents::{CostsDocument, CpuPlace, WhatIfDocument};
pub use growth::{
    GrowthDocument, GrowthRecording, GrowthRow, HeldOutCheck, HeldOutRow, HeldOutShare,
};
pub use headline::{costs_headline, report_headline, type_headline};
pub use heat::{Heat, with_heat};
pub use layouts::{KernelLayout, LayoutDocument, MemberEntry, TypeLayout};
pub use leaves::{
    ArrayExtent, BitRange, FieldMap, FieldPlace, LayoutChange, LayoutChangeError, layout_changes,
};
pub use line_starts::{KeptLineStart, line_starts, line_starts_text};
pub use machines::{CacheSize, LatencyCycles, MachineEntry, MachinesDocument};
pub use pretty::pretty;
pub use print::{relative, verdict};
pub use remedies::remedies;
pub use table::Table;
pub use tables::{ReportText, text};
pub use text::Text;
pub use verified::VerifyDocument;

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
) -> Result<model::Report, Error> {
    build::build(analysis, counted, options)
}

/// The report as JSON (docs/reference/json/report.md), with a line feed at the end.
///
/// # Errors
/// None that a report can cause.
pub fn json(report: &model::Report) -> Result<String, Error> {
    pretty(report)
}
