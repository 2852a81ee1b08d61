//! What `linemate whatif --coverage` writes: what an edit brings together, and which recordings
//! exercise that.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::measure::Measure;
use crate::prediction::PredictionError;

/// Which new neighbours edits make, who uses them in each recording, and what the edits change
/// there. Lines are those of an object that starts a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CoverageDocument {
    /// The schema's name and version.
    pub schema: Cow<'static, str>,
    /// The version of linemate.
    pub tool: String,
    /// The edits as text.
    pub edits: String,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// In the order of the options.
    pub recordings: Vec<CoveredRecording>,
    /// Fields that get or lose neighbours, or whose accesses the edits change.
    pub fields: Vec<CoveredField>,
    /// Fields that share a line after the edits and not before; those that fewest recordings
    /// exercise first.
    pub pairs: Vec<NewPair>,
}

impl CoverageDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.coverage/1";
}

/// A recording that the edits are asked of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CoveredRecording {
    /// The recording's file, as given.
    pub path: String,
    /// Its description: kernel, command, CPUs, seed, …
    pub recording: BTreeMap<String, String>,
    /// Null if it is truncated.
    pub checksum: Option<String>,
    /// Whether it uses more objects, fields and CPUs than are distinguished: `pairs` count it up to
    /// there.
    pub cut: bool,
    /// How far such predictions were from recordings; only with more CPUs than were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "PredictionError"))]
    pub prediction_error: Option<PredictionError>,
    /// What the edits change, one per machine.
    pub results: Vec<CoveredChange>,
}

/// What edits change on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CoveredChange {
    /// The machine's name, as its description has it.
    pub machine: String,
    /// The number of CPUs replayed.
    pub cpus: usize,
    /// Cycles of the edited types' accesses that left their core.
    pub types: Measure,
    /// Cycles of all such accesses.
    pub whole: Measure,
}

/// A field that edits concern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CoveredField {
    /// The type's name, as `--type` takes it.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The field's path from the type on.
    pub field: String,
    /// Whether it gets other lines, or accesses to it change; else others come to its line or leave
    /// it.
    pub changed: bool,
    /// The lines that it is on without the edit.
    pub from: LineSpan,
    /// Its lines after; null if it is removed.
    pub to: Option<LineSpan>,
    /// Fields that share a line with it after and not before.
    pub joins: Vec<String>,
    /// Fields that share one before and not after.
    pub leaves: Vec<String>,
    /// By recording: the functions that access it, most accesses first; without accesses to
    /// programs' stacks that have their names one by one: no edit moves those.
    pub functions: Vec<Vec<FieldFunction>>,
    /// With `--source`: functions that access it in no recording and have `->NAME` or `.NAME` of
    /// its direct member in the source, whatever the type before it. Those inlined into others are
    /// here, too, and those that pass it on.
    pub unseen: Vec<String>,
}

/// Lines of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LineSpan {
    /// The first line's number, counted from 0.
    pub first: u64,
    /// The same for a field of one line.
    pub last: u64,
}

/// A function's accesses to a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FieldFunction {
    /// The function's name, as tables show it.
    pub name: String,
    /// Accesses that only read.
    pub loads: u64,
    /// Accesses that only write.
    pub stores: u64,
    /// The number of atomic read-modify-writes.
    pub rmws: u64,
}

impl FieldFunction {
    /// Loads, stores and atomics together.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        let parts = [self.loads, self.stores, self.rmws];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

/// Two fields that share a line only because of the edit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NewPair {
    /// The type's name, as `--type` takes it.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The field that comes first in the declaration.
    pub first: String,
    /// The path of the other field.
    pub second: String,
    /// In how many recordings the pair is exercised: at least one of 100 accesses is contended.
    pub exercised: usize,
    /// Functions with at least one of 100 accesses to the pair in a recording that exercise it in
    /// none, as reader or as writer; in the order of `functions`, by their sums over the
    /// recordings.
    pub alone: Vec<String>,
    /// By recording: who uses it.
    pub uses: Vec<PairUses>,
}

/// Accesses to a pair in a recording: those to a line that both fields are on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PairUses {
    /// Accesses to the first field.
    pub first: u64,
    /// Accesses to the second field.
    pub second: u64,
    /// Of both: accesses that the neighbour alone makes a miss. Another CPU has written the other
    /// field since this CPU's last access to the pair in the object, and none has written this
    /// field since this CPU's last access to it.
    pub contended: u64,
    /// By function; those first that use both fields most, then by accesses.
    pub functions: Vec<PairFunction>,
}

/// A function's accesses to a pair.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PairFunction {
    /// The function's name, as tables show it.
    pub name: String,
    /// Accesses to the first field.
    pub first: u64,
    /// Accesses to the second field.
    pub second: u64,
    /// Accesses to either field that are contended.
    pub contended: u64,
    /// Contended accesses of other CPUs after a write by this function.
    pub caused: u64,
}

/// An access in that many makes a pair exercised: as for fields that are shared
/// (docs/model/attribution.md).
const ACCESSES_PER_CONTENTION: u64 = 100;

fn is_much(part: u64, accesses: u64) -> bool {
    part > 0 && part.saturating_mul(ACCESSES_PER_CONTENTION) >= accesses
}

impl PairUses {
    /// Accesses to either of the two fields.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        self.first.saturating_add(self.second)
    }

    /// Whether the recording exercises the pair.
    #[must_use]
    pub fn is_exercised(&self) -> bool {
        is_much(self.contended, self.accesses())
    }

    /// Whether the function makes at least 1 % of the accesses.
    #[must_use]
    pub fn is_frequent(&self, function: &PairFunction) -> bool {
        is_much(function.accesses(), self.accesses())
    }
}

impl PairFunction {
    /// Accesses to either of the two fields.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        self.first.saturating_add(self.second)
    }

    /// Whether it exercises the pair, as reader or as writer.
    #[must_use]
    pub fn is_exercising(&self) -> bool {
        is_much(self.contended.saturating_add(self.caused), self.accesses())
    }
}
