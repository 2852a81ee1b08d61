//! What `linemate advise` writes without a type: where a layout can win most.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::advice::AdvisedRecording;
use crate::remedies::RemedyList;

/// The types where a layout can win most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SurveyDocument {
    /// The schema's name and version.
    pub schema: Cow<'static, str>,
    /// The version of linemate.
    pub tool: String,
    /// What the ranking rests on.
    pub recordings: Vec<AdvisedRecording>,
    /// The machines' names.
    pub machines: Vec<String>,
    /// The first interleaving's seed.
    pub seed: u64,
    /// Over how many interleavings the types' costs are a mean: 1. Remedies have a number of their own.
    pub interleavings: usize,
    /// The types, by the larger of the estimate and the cycles of false sharing.
    pub types: Vec<SurveyRow>,
    /// Advice other than reordering members, for the first recording and machine.
    pub remedies: RemedyList,
}

impl SurveyDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.advise-survey/2";
}

/// What a type costs, and what a layout could win.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SurveyRow {
    /// The type; what is inside an object of another type counts for that one.
    pub name: String,
    /// Cycles over all recordings and machines: of one recording and machine those of its row in
    /// `linemate.costs`.
    pub cost: f64,
    /// Its share of all cycles.
    pub share: f64,
    /// The share of its cost that is true sharing.
    pub true_sharing: f64,
    /// The share of its cost that is false sharing.
    pub false_sharing: f64,
    /// The share of its cost that is neither. No bound: a layout also saves true sharing where it brings words
    /// that are exchanged together to one line.
    pub other_misses: f64,
    /// The part of `other_misses` that is cold and capacity misses, which the fast model does not have.
    pub capacity: f64,
    /// What a short search finds; null: not searched.
    pub estimate: Option<Estimate>,
    /// Why it could not be searched.
    pub why_not: Option<String>,
}

/// What a short search finds for a type.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Estimate {
    /// Cycles that the best layout found saves, by the fast model.
    pub gain: f64,
    /// The same as a share of its cost.
    pub share: f64,
    /// Members that it moves.
    pub moves: usize,
}
