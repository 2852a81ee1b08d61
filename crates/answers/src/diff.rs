//! What `linemate diff` writes: two recordings field by field.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::event::EventCount;
use crate::prediction::PredictionError;

/// Two recordings field by field, matched by path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DiffDocument {
    /// The schema's name and version.
    pub schema: Cow<'static, str>,
    /// The version of linemate.
    pub tool: String,
    /// The type; null: every type, and fields are called `TYPE.PATH`, variables without a type by
    /// their names.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// The machine; null: no costs, `misses` to `sharing_cycles` are 0.
    pub machine: Option<String>,
    /// The seed of the replayed interleaving.
    pub seed: u64,
    /// The number of interleavings averaged over: 1.
    pub interleavings: usize,
    /// The first of the two recordings.
    pub a: DiffSide,
    /// The second of the two recordings.
    pub b: DiffSide,
    /// With several `--machine`: the same for those after the first; absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<MachineDiff>,
    /// With `--under F`: the function that must be on the stack for an access to count; absent
    /// without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub under: Option<String>,
}

/// Two recordings on another machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MachineDiff {
    /// The machine's name, as its description has it.
    pub machine: String,
    /// The first of the two recordings.
    pub a: DiffSide,
    /// The second of the two recordings.
    pub b: DiffSide,
}

impl DiffDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.diff/2";

    /// The document of each machine; without a machine the one of counts.
    pub fn by_machine(&self) -> impl Iterator<Item = Cow<'_, DiffDocument>> {
        let other = |other: &MachineDiff| DiffDocument {
            schema: self.schema.clone(),
            tool: self.tool.clone(),
            type_name: self.type_name.clone(),
            machine: Some(other.machine.clone()),
            seed: self.seed,
            interleavings: self.interleavings,
            a: other.a.clone(),
            b: other.b.clone(),
            others: Vec::new(),
            under: self.under.clone(),
        };
        let others = self.others.iter();
        std::iter::once(Cow::Borrowed(self)).chain(others.map(move |o| Cow::Owned(other(o))))
    }
}

/// The fields of one recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DiffSide {
    /// Bytes of the type; 0 for every type.
    pub bytes: u64,
    /// The replayed CPUs, or the recorded ones without a machine.
    pub cpus: usize,
    /// How far such predictions were from recordings; only with more CPUs than were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "PredictionError"))]
    pub prediction_error: Option<PredictionError>,
    /// All accesses, as recorded.
    pub accesses: u64,
    /// With `--event`: the calls to divide figures by.
    pub event: Option<EventCount>,
    /// The figures by path.
    pub fields: BTreeMap<String, DiffFigures>,
}

/// The figures of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DiffFigures {
    /// The number of loads, as recorded.
    pub loads: u64,
    /// Stores and atomics as recorded.
    pub stores: u64,
    /// Accesses that left their core.
    pub misses: u64,
    /// The cycles of those.
    pub cycles: u64,
    /// Those of them that happened because another core had taken the line.
    pub sharing_misses: u64,
    /// The cycles of those.
    pub sharing_cycles: u64,
}
