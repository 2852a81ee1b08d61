//! What `linemate growth` writes: how accesses grow with the number of CPUs.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// How accesses per CPU grow with the number of CPUs (docs/model/scaling.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GrowthDocument {
    /// The schema's name and version.
    pub schema: Cow<'static, str>,
    /// The version of linemate.
    pub tool: String,
    /// The SHA-256 of the kernel's image; its release if the recordings have no checksum.
    pub kernel: String,
    /// The series, by number of CPUs.
    pub recordings: Vec<GrowthRecording>,
    /// The kind of rows.
    pub by: GrowthBy,
    /// The number of CPUs to predict for.
    pub cpus: usize,
    /// The noise common to all rows.
    pub noise: Noise,
    /// How many times wider intervals are than from noise alone; 1 for a series of three.
    pub stretch: f64,
    /// All rows; those that gain most accesses per CPU from the largest recording to `cpus` first.
    pub rows: Vec<GrowthRow>,
    /// With `--against`: how well a recording outside the series is predicted.
    pub against: Option<HeldOutCheck>,
}

impl GrowthDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.growth/1";
}

/// A recording of a series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GrowthRecording {
    /// The number of its CPUs.
    pub cpus: usize,
    /// The command that ran.
    pub command: String,
    /// Accesses of all CPUs.
    pub accesses: u64,
}

/// Accesses of a function to a field, and the curve `a + b·n^c` with the largest share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GrowthRow {
    /// The function; empty for all functions.
    pub function: String,
    /// `TYPE.PATH`, a variable, or another kind of memory; empty for all fields.
    pub field: String,
    /// Accesses per CPU, in the order of `recordings`.
    pub recorded: Vec<f64>,
    /// The curve's constant part.
    pub a: f64,
    /// The factor of its growing part.
    pub b: f64,
    /// Its exponent: -1, 0, 0.5 or 1.
    pub c: f64,
    /// The curve's share of the prediction; all curves' shares add up to 1.
    pub share: f64,
    /// Root mean square of the distances between curve and recorded rates, relative to the mean
    /// rate.
    pub residual: f64,
    /// Accesses per CPU on `cpus` CPUs.
    pub predicted: Prediction,
    /// `predicted.mean` divided by the rate of the largest recording; null if that has none.
    pub times: Option<f64>,
}

/// How well a series predicts a recording outside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HeldOutCheck {
    /// The recording that was held out.
    pub recording: GrowthRecording,
    /// The kind of rows.
    pub by: GrowthBy,
    /// For the 20, 100, 1000 rows with most accesses in the recording, and for all with any.
    pub largest: Vec<HeldOutShare>,
    /// All rows, those with most accesses first.
    pub rows: Vec<HeldOutRow>,
}

/// How well the rows with most accesses are predicted. Errors are relative to the real count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HeldOutShare {
    /// The number of rows.
    pub rows: usize,
    /// Their share of all accesses of the recording.
    pub accesses: f64,
    /// The mean of the errors' absolute values.
    pub mean_error: f64,
    /// The largest of those.
    pub largest_error: f64,
    /// The mean error of assuming the largest recording's rate.
    pub mean_error_without: f64,
    /// The share of rows whose interval contains the real count.
    pub covered: f64,
}

/// A row, predicted and real.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HeldOutRow {
    /// The function; empty for all functions.
    pub function: String,
    /// The field; empty for all fields.
    pub field: String,
    /// Accesses per CPU in the recording.
    pub real: f64,
    /// What the series predicts.
    pub predicted: Prediction,
    /// Predicted minus real, relative to the real count; null if that is 0.
    pub error: Option<f64>,
    /// Whether the interval contains the real count.
    pub covered: bool,
    /// Accesses per CPU in the largest recording of the series.
    pub last: f64,
}

/// The kind of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GrowthBy {
    /// A function's accesses to a field.
    Access,
    /// All accesses to a field.
    Field,
    /// All accesses of a function.
    Function,
}

/// The noise common to all rows of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Noise {
    /// The standard deviation of a large count, relative to it.
    pub relative: f64,
    /// How many degrees of freedom of a row's own noise that is worth; 0 if nothing is known from
    /// other rows.
    pub freedom: f64,
}

/// A predicted figure and the 95 % interval of one recording.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Prediction {
    /// The mean of the curves by share.
    pub mean: f64,
    /// The lower end, 0 or more.
    pub low: f64,
    /// The upper end of the 95 % interval.
    pub high: f64,
}
