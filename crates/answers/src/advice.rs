//! What `linemate advise --type T` writes: the layout that costs least, and why.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::event::EventCount;
use crate::layout::KeptLineStart;
use crate::measure::Measure;
use crate::prediction::PredictionError;
use crate::remedies::RemedyList;

/// The layout of a type that costs least, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AdviceDocument {
    /// The schema's name and version.
    pub schema: Cow<'static, str>,
    /// The version of linemate.
    pub tool: String,
    /// The recordings that the advice is based on.
    pub recordings: Vec<AdvisedRecording>,
    /// The machines' names, as their descriptions have them.
    pub machines: Vec<String>,
    /// The function of `--under`; absent without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub under: Option<String>,
    /// The type's name, as `--type` takes it.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Only for a type of a program: its language, and where it is declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "ProgramSource"))]
    pub source: Option<ProgramSource>,
    /// Members that must stay.
    pub pins: Vec<String>,
    /// Bytes by which the type may grow.
    pub max_growth: u64,
    /// The first interleaving's seed.
    pub seed: u64,
    /// The maximum; each effect has the number actually replayed.
    pub interleavings: usize,
    /// Why the first member stays, if it does.
    pub first_stays: Option<String>,
    /// Members whose line start the recommended layout keeps or ends, although the types do not
    /// show whether they ask for it; absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub line_starts: Vec<KeptLineStart>,
    /// Accesses that layouts were rated on by the fast model, by recording.
    pub events: Vec<usize>,
    /// Accesses of which those are a sample, by recording: as many where all were used.
    #[serde(default)]
    pub sampled_from: Vec<usize>,
    /// Whether a recording had more of them than are stored.
    pub cut: bool,
    /// Layouts that the search found.
    pub found: usize,
    /// Moves against gain, the fewest moves first.
    pub front: Vec<FrontPoint>,
    /// The layout; null if replay confirmed none.
    pub recommended: Option<AdvisedLayout>,
    /// The other layouts that were replayed, best first.
    pub others: Vec<AdvisedLayout>,
    /// Only if `max_growth` is 0 and one or two more lines gain noticeably more, confirmed by
    /// replay.
    #[serde(default)]
    pub with_growth: Option<GrownLayout>,
    /// Only if objects do not start lines and aligning them gains, confirmed by replay.
    #[serde(default)]
    pub aligned: Option<AlignedObjects>,
    /// Advice other than reordering members, for the first recording and machine.
    pub remedies: RemedyList,
}

impl AdviceDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.advise/2";
}

/// A recording that advice is based on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AdvisedRecording {
    /// Kernel, command, CPUs, seed, …
    pub description: BTreeMap<String, String>,
    /// Its checksum; null if it is truncated.
    pub checksum: Option<String>,
    /// With `--event`: the calls to divide figures by; absent without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "EventCount"))]
    pub event: Option<EventCount>,
    /// How far such predictions were from recordings; only with more CPUs than were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "PredictionError"))]
    pub prediction_error: Option<PredictionError>,
}

/// The language of a program's type, and where it is declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProgramSource {
    /// `C`, `C++` or `Rust`.
    pub language: String,
    /// `FILE:LINE`; null if the debug information does not say.
    pub declared: Option<String>,
}

/// A point of the front of moves against gain.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FrontPoint {
    /// Members that leave their position, and groups.
    pub moves: usize,
    /// The type's cost by the fast model, relative to the recorded order's.
    pub model: f64,
    /// The same by replay, if it was replayed.
    pub replayed: Option<f64>,
    /// Whether it is the recommended layout.
    pub recommended: bool,
}

/// A layout that was replayed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AdvisedLayout {
    /// The edit as text (docs/reference/edits.md).
    pub edits: String,
    /// Members that leave their position, and groups.
    pub moves: usize,
    /// The type's cost by the fast model, relative to the recorded order's.
    pub model: f64,
    /// Whether replay confirms a gain.
    pub confirmed: bool,
    /// Whether its objects start lines, which the recorded layout does not request: part of the
    /// gain can come from that, whatever the order.
    #[serde(default)]
    pub starts_lines: bool,
    /// By recording and then machine.
    pub effects: Vec<Vec<LayoutEffect>>,
    /// Size and lines, for lines of 64 and of 128 bytes.
    pub footprints: Vec<FootprintChange>,
    /// The layout's groups, and why.
    pub groups: Vec<GroupReasons>,
}

/// What a layout changes on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LayoutEffect {
    /// Number of interleavings replayed.
    pub interleavings: usize,
    /// Cycles of the type's accesses that left their core.
    pub types: Measure,
    /// Cycles of all accesses that left their core.
    pub whole: Measure,
    /// Cycles from the replay's start to its end.
    pub duration: Measure,
    /// With `--under F`: cycles of accesses that left their core while F was on the stack; absent
    /// without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Measure"))]
    pub under: Option<Measure>,
    /// Objects that start a line only because of the layout, where lines are fetched in pairs:
    /// every second interleaving has them in the other half of a pair.
    #[serde(default)]
    pub in_either_half: usize,
}

/// The size of a layout, before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FootprintChange {
    /// Bytes of a line.
    pub line_bytes: u64,
    /// Of the recorded order.
    pub before: Footprint,
    /// Of the new order.
    pub after: Footprint,
}

/// A layout's figures in a kernel for one line size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Footprint {
    /// The type's size in bytes, as `sizeof` gives it.
    pub bytes: u64,
    /// Lines of an object that starts one.
    pub lines: u64,
    /// Gaps between members, and at the end.
    pub holes: u64,
    /// The bytes in those.
    pub hole_bytes: u64,
    /// Lines that are touched at all, over all objects of the recordings.
    pub touched: u64,
    /// Of those: lines that only one CPU touches.
    pub alone: u64,
}

/// A group of an advised layout, with reasons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GroupReasons {
    /// Its name in the edit; for the one that shares its last line with the rest, its first member.
    pub name: String,
    /// Whether nothing else is on its lines.
    pub sealed: bool,
    /// Its members that are accessed, in order.
    pub members: Vec<MemberUse>,
    /// Members that only fill its last line: they are rarely used.
    pub fills: Vec<String>,
    /// Loads per store or atomic; null if never written.
    pub loads_per_write: Option<f64>,
    /// Functions that read it most, most first.
    pub read_in: Vec<String>,
    /// Functions that write it most, most first.
    pub written_in: Vec<String>,
    /// What its members save by sharing a line, as a share of the type's cost, by the fast model.
    pub saves: f64,
    /// Members it is kept from, most expensive first.
    pub kept_from: Vec<KeptApart>,
}

/// How a member is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemberUse {
    /// Its name in the edit.
    pub name: String,
    /// Loads in the recordings.
    pub loads: u64,
    /// Plain stores in the recordings.
    pub stores: u64,
    /// Atomic read-modify-writes in the recordings.
    pub rmws: u64,
    /// CPUs that read it: the maximum over the recordings.
    pub readers: u32,
    /// CPUs that write it: the maximum over the recordings.
    pub writers: u32,
}

/// A member that a group is kept from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KeptApart {
    /// The member's name, as the type declares it.
    pub name: String,
    /// The cost of sharing one line with it, as a share of the type's cost, by the fast model.
    pub share: f64,
}

/// A layout that needs more room than was allowed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GrownLayout {
    /// The `--max-growth` that allows it, in bytes.
    pub max_growth: u64,
    /// The advised layout of the larger type.
    pub layout: AdvisedLayout,
}

/// Objects that start lines, with members in the recorded order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AlignedObjects {
    /// The edit as text (docs/reference/edits.md).
    pub edits: String,
    /// How to align them, in one line.
    pub advice: String,
    /// Objects with accesses that a layout can affect.
    pub objects: usize,
    /// Those of them that do not start a line in the recording.
    pub astray: usize,
    /// By recording and then machine.
    pub effects: Vec<Vec<LayoutEffect>>,
}
