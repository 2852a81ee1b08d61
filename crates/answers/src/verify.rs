//! What `linemate verify` writes: whether a recording is sound.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Whether a recording is sound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VerifyDocument {
    /// The schema's name and version.
    pub schema: Cow<'static, str>,
    /// Whether there are no findings: exit code 0, else 1.
    pub sound: bool,
    /// In file order, then what keeps `report` from reading it; at most some 1000.
    pub findings: Vec<String>,
    /// How many more there are.
    pub more_findings: u64,
    /// Complete chunks of the file.
    pub chunks: usize,
    /// Loads, stores and RMWs that could be read.
    pub accesses: u64,
    /// Accesses that only read.
    pub loads: u64,
    /// Accesses that only write.
    pub stores: u64,
    /// The number of atomic read-modify-writes.
    pub rmws: u64,
    /// Calls of watched functions.
    pub calls: u64,
    /// Returns from watched functions.
    pub returns: u64,
    /// Marks of start, stop and turns.
    pub markers: u64,
    /// Over all chunks but the end, 16 hexadecimal digits; equal for equal recordings.
    pub checksum: String,
}

impl VerifyDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.verify/1";
}
