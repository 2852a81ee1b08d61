//! The data of a page that `--html` writes: the documents of `--json`, side by side.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::advice::AdviceDocument;
use crate::case::CaseResults;
use crate::costs::CostsDocument;
use crate::diff::DiffDocument;
use crate::layout::LayoutChange;
use crate::report::Report;
use crate::survey::SurveyDocument;
use crate::type_view::TypeView;
use crate::whatif::WhatIfDocument;

/// The data of a page that `--html` writes. Keys that a verb does not fill are null or empty.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Page {
    /// The schema's name and version.
    pub schema: Cow<'static, str>,
    /// The version of linemate.
    pub tool: String,
    /// The title that the page shows first.
    pub title: String,
    /// The answer in one sentence.
    pub headline: String,
    /// How far predictions like this one were from recordings: a sentence for each recording that
    /// is replayed as more CPUs than it has.
    #[serde(default)]
    pub prediction_errors: Vec<String>,
    /// The type of `--type`.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// Every setting in effect, by the name of its option.
    pub settings: BTreeMap<String, String>,
    /// `linemate report --json` by type, the rows of 400 names.
    pub report: Option<Report>,
    /// Rows of `linemate report --all --json` that `report` leaves out.
    #[serde(default)]
    pub rows_left_out: usize,
    /// The type given with `--type` and the 24 types that cost most (without a machine: that are
    /// accessed most).
    pub types: Vec<PageType>,
    /// `linemate report --machine M --json` for everything; `fields` (with cycles) and `lines` only
    /// those of `types`, no `functions`, `neighbours` from a hundredth of their line's cycles on.
    pub costs: Option<CostsDocument>,
    /// What `linemate whatif --json` writes.
    pub whatif: Option<WhatIfDocument>,
    /// `linemate advise --json`, with or without a type.
    pub advise: Option<Advised>,
    /// What `linemate diff --json` writes.
    pub diff: Option<DiffDocument>,
    /// Two layouts of a type: before and after the edits; for `diff`, those of both kernels.
    pub layouts: Vec<LayoutChange>,
    /// `linemate case run --json`, the case that was run first.
    pub cases: Vec<CaseResults>,
}

impl Page {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.page/1";
}

/// A type, as in `linemate report --type T --json`, without `lines` and the fields of single
/// places. `fields` has the 400 with most accesses; `times` has the 24 fields and 24 lines with
/// most accesses of the type given with `--type`, 8 and 8 of others.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PageType {
    /// As in `linemate report --type T --json`, without `lines` and the fields of single places.
    /// `fields` has those with most accesses, and so has `times`.
    #[serde(flatten)]
    pub view: TypeView,
    /// The number of accessed fields missing in `fields`.
    #[serde(default)]
    pub rest: FieldColumns,
    /// The sums of its lines.
    #[serde(default)]
    pub line_sums: LineColumns,
    /// How many accessed fields `times` leaves out.
    #[serde(default)]
    pub fields_without_times: usize,
    /// How many accessed lines `times` leaves out.
    #[serde(default)]
    pub lines_without_times: usize,
}

/// Fields in columns: the n-th entry of each belongs to the n-th field. Accesses are the sum of
/// loads, stores and RMWs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FieldColumns {
    /// The path from the type on.
    pub field: Vec<String>,
    /// Bytes from the type's start.
    pub offset: Vec<u64>,
    /// The number of bytes.
    pub size: Vec<u64>,
    /// Accesses that only read.
    pub loads: Vec<u64>,
    /// Accesses that only write.
    pub stores: Vec<u64>,
    /// The number of atomic read-modify-writes.
    pub rmws: Vec<u64>,
    /// Stores and RMWs known to have left memory unchanged.
    pub silent: Vec<u64>,
    /// Share of accesses by CPUs other than the object's owner; null if objects have no owner.
    pub remote_share: Vec<Option<f64>>,
    /// The number of CPUs that read.
    pub readers: Vec<u32>,
    /// The number of CPUs that write.
    pub writers: Vec<u32>,
}

/// Lines in columns, by where accesses start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LineColumns {
    /// From 0; lines without accesses are left out.
    pub line: Vec<u64>,
    /// Accesses that only read.
    pub loads: Vec<u64>,
    /// Accesses that only write.
    pub stores: Vec<u64>,
    /// The number of atomic read-modify-writes.
    pub rmws: Vec<u64>,
}

/// What `linemate advise --json` writes, with or without a type.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Advised {
    /// The advice for the type given.
    Advice(Box<AdviceDocument>),
    /// The ranking of types, where none was given.
    Survey(Box<SurveyDocument>),
}
