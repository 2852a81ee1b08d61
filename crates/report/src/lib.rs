//! Tables and JSON over an analysed recording.
//!
//! [`make`] gives a [`model::Report`]; [`text`] and [`json`] print it into strings. Same recording, same bytes. No analysis
//! happens here but sums: what is counted and how it is grouped is the attribution crate's.

mod build;
pub mod case;
mod documents;
mod leaves;
pub mod model;
mod parts;
mod remedies;
mod resolve;
mod sums;
mod table;
mod tables;
mod typeview;

use linemate_attribution::{Analysis, Counted};
use linemate_types::LineSize;
use thiserror::Error;

pub use documents::{CostsDocument, CpuPlace, WhatIfDocument};
pub use leaves::{
    ArrayShape, Bits, FieldMap, FieldPlace, LayoutChange, LayoutChangeError, layout_changes,
};
pub use remedies::remedies;
pub use table::Table;
pub use tables::text;

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
    /// The most rows.
    pub top: usize,
    /// The size of a line.
    pub line: LineSize,
}

/// Why there is no report.
#[derive(Debug, Error)]
pub enum Error {
    /// No such type in the recording.
    #[error(
        "no type or typed variable {name:?} in the recording{}",
        linemate_text::suggestion(nearest)
    )]
    UnknownType {
        /// What was asked for.
        name: String,
        /// Names that look like it.
        nearest: Vec<String>,
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

/// The report as JSON (docs/schema-report.md), with a line feed at the end.
///
/// # Errors
/// None that a report can cause.
pub fn json(report: &model::Report) -> Result<String, Error> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    Ok(text)
}
