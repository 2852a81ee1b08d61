//! The event for costs per event.

use serde::{Deserialize, Serialize};

/// How often a function was called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EventCount {
    /// The function of `--event`.
    pub function: String,
    /// Its copies in this kernel: `f`, `f.isra.0`.
    pub symbols: Vec<String>,
    /// Calls of all of them, never 0. Figures are not divided by it.
    pub calls: u64,
}
