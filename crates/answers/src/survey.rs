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
    /// The recordings that the ranking is based on.
    pub recordings: Vec<AdvisedRecording>,
    /// The machines' names, as their descriptions have them.
    pub machines: Vec<String>,
    /// The first interleaving's seed.
    pub seed: u64,
    /// The number of interleavings that the types' costs are averaged over: 1. Remedies have their
    /// own number.
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

/// The cost of a type, and the possible gain from a layout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SurveyRow {
    /// The type; what is inside an object of another type counts for that one.
    pub name: String,
    /// Cycles over all recordings and machines: for one recording and machine those of its row in
    /// `linemate.costs`.
    pub cost: f64,
    /// Its share of all cycles.
    pub share: f64,
    /// The share of its cost that is true sharing.
    pub true_sharing: f64,
    /// The share of its cost that is false sharing.
    pub false_sharing: f64,
    /// The share of its cost that is neither. Not a bound: a layout also saves true sharing if it
    /// brings words that are exchanged together onto one line.
    pub other_misses: f64,
    /// The part of `other_misses` that is cold and capacity misses, which the fast model does not
    /// have.
    pub capacity: f64,
    /// The result of a short search; null if not searched.
    pub estimate: Option<Estimate>,
    /// The struct by value inside it that the estimate is of; null: the type itself.
    #[serde(default)]
    pub inside: Option<String>,
    /// Why it could not be searched.
    pub why_not: Option<String>,
}

/// The result of a short search for a type.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Estimate {
    /// Cycles that the best layout found saves, by the fast model.
    pub gain: f64,
    /// The same as a share of its cost.
    pub share: f64,
    /// Members that it moves.
    pub moves: usize,
    /// Accesses, of all recordings, that layouts were rated on.
    pub rated: usize,
    /// Accesses of which those are a sample: as many where all were used.
    pub sampled_from: usize,
}
