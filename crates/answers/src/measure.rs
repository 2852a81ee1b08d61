//! Figures with confidence intervals.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// A figure without and with edits, over all interleavings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Measure {
    /// Without the edits, mean over the interleavings.
    pub without: f64,
    /// With the edits, likewise.
    pub with: f64,
    /// Mean of the paired differences, with minus without.
    pub difference: f64,
    /// Half the width of the difference's 95 % confidence interval (Student's t). It covers the
    /// noise of interleavings, not that of the model or of the workload.
    pub ci95: f64,
    /// Whether that interval excludes 0.
    pub significant: bool,
}

/// A change of a mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Change {
    /// In per cent of the mean without it.
    pub percent: f64,
    /// Half the width of its 95 % confidence interval, likewise; null for fewer than three runs on
    /// either side.
    pub ci95: Option<f64>,
}

impl Display for Change {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.ci95 {
            Some(ci95) => write!(f, "{:+.1} ± {ci95:.1} %", self.percent),
            None => write!(f, "{:+.1} %", self.percent),
        }
    }
}
