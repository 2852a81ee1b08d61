//! What `linemate whatif` writes: the effect of edits.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::costs::Potential;
use crate::event::EventCount;
use crate::layout::LayoutChange;
use crate::measure::Measure;
use crate::prediction::PredictionError;
use crate::replayed::WarmUp;
use crate::sets::SetsChange;

/// The effect of edits on each machine. *Cycles* are those of accesses that left their core (hits
/// in L1 and L2 are only in `sources`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WhatIfDocument {
    /// The schema's name and version.
    pub schema: Cow<'static, str>,
    /// The version of linemate.
    pub tool: String,
    /// The recording's description: kernel, command, CPUs, seed, …
    pub recording: BTreeMap<String, String>,
    /// Of the recording; null if it is truncated.
    pub checksum: Option<String>,
    /// The edits as text (docs/reference/edits.md).
    pub edits: String,
    /// With `--event`: the calls to divide costs by.
    #[serde(default)]
    pub event: Option<EventCount>,
    /// The edited types before and after, for each line size of the machines.
    #[serde(default)]
    pub layouts: Vec<LayoutChange>,
    /// One per machine, in the order of the options.
    pub results: Vec<WhatIf>,
}

impl WhatIfDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.whatif/2";
}

/// The answer for one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WhatIf {
    /// The machine's name, as its description has it.
    pub machine: String,
    /// Bytes of a line, 64 or 128; both sides are laid out as a kernel built for that.
    pub line_bytes: u64,
    /// The number of CPUs replayed.
    pub cpus: usize,
    /// The number of CPUs recorded.
    pub recorded_cpus: usize,
    /// How far such predictions were from recordings; only with more CPUs than were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "PredictionError"))]
    pub prediction_error: Option<PredictionError>,
    /// The first seed; the others count up.
    pub seed: u64,
    /// How many were replayed: fewer than the maximum if the intervals are narrow
    /// (docs/model/replay.md).
    pub interleavings: usize,
    /// The maximum number of interleavings.
    pub interleavings_max: usize,
    /// Whether only what the edits change was replayed, on top of a whole replay of the recorded
    /// layout (docs/model/replay.md).
    #[serde(default)]
    pub by_difference: bool,
    /// Accesses in the recording.
    pub accesses: u64,
    /// Of the reported types, without edits.
    pub potential: Potential,
    /// The sizes of the reported types, and of the variables and allocations that edits name, which
    /// count as reported types.
    pub sizes: Vec<TypeSize>,
    /// How the reported types' lines map to cache sets.
    pub sets: Vec<SetsChange>,
    /// Cycles of the reported types.
    pub types: Measure,
    /// Cycles of all accesses that left their core.
    pub whole: Measure,
    /// Misses of the last-level caches.
    pub llc_misses: LlcMisses,
    /// Whether each last-level cache, and each core's L1 and L2, was scaled to the share of the
    /// CPUs replayed on it (`--llc-share`).
    pub llc_share: bool,
    /// What filled the caches before counting began, for the recorded layout; null with `--cold`.
    pub warm_up: Option<WarmUp>,
    /// The machine's mechanisms that were replayed (`--mechanisms`), by name.
    pub mechanisms: Vec<String>,
    /// Cycles from the replay's start to its end. A round ends at a barrier, so waiting at a
    /// saturated line does not add up here; it does in `time`.
    pub duration: Measure,
    /// The time of the CPUs that do the work.
    #[serde(default)]
    pub time: WorkTime,
    /// The reported types' accesses by cause.
    pub causes: Vec<MeasuredRow>,
    /// The same by where they were served from.
    pub sources: Vec<MeasuredRow>,
    /// The same by field, largest change first.
    pub fields: Vec<MeasuredRow>,
    /// All accesses by function, largest change first.
    pub functions: Vec<MeasuredRow>,
    /// With `--ablate`: the contribution of each edit.
    pub ablation: Vec<Ablation>,
    /// Objects that got new addresses.
    pub relocated: usize,
    /// Of those, the objects that start a line now, in either half of a pair of lines that are
    /// fetched together: every second interleaving has them in the other half.
    #[serde(default)]
    pub in_either_half: usize,
    /// Accesses to the reported types in the whole recording, whether they left their core or not.
    #[serde(default)]
    pub types_accesses: u64,
    /// Accesses to the edited types, or to types that embed them, on programs' stacks, that
    /// have their names one by one: no edit moves those.
    #[serde(default)]
    pub on_stacks: u64,
    /// The pairs found by each `colocate`.
    pub paired: Vec<Paired>,
    /// The arrays found by each `skip array`.
    pub followed: Vec<Followed>,
    /// Accesses that did not happen, in the first interleaving.
    pub skipped: u64,
    /// With `--under F`: the change while F is on the stack.
    #[serde(default)]
    pub under: Option<UnderChange>,
}

/// The time of the CPUs that do the work, which wait for lines as in a closed queue: a line that is
/// always held delays all of them, however the recording's turns fell (docs/model/time.md). The
/// change of work done in a time is the reverse of the change of `cycles`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkTime {
    /// How many CPUs share the work: (sum of x)^2 / (sum of x^2) over their instructions x.
    pub cpus: usize,
    /// Cycles of all CPUs: instructions, stalls, and waiting for lines.
    pub cycles: Measure,
    /// Of those, waiting for lines that other CPUs hold.
    pub waiting: Measure,
    /// What `cycles` cannot be below: the larger of what they are without any waiting and of what
    /// the line that is held most is held for, times the CPUs.
    pub bound: Measure,
    /// The share of time, 0 to 1, for which the line that is held most is held.
    pub busiest: Measure,
    /// The share of `cycles`, 0 to 1, that is not instructions, without the edits. In the model no
    /// layout saves more than that.
    pub memory: f64,
}

/// The size of a reported type, variable or allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TypeSize {
    /// The type's name, as `--type` takes it.
    pub name: String,
    /// Bytes in the recorded kernel or program.
    pub recorded_bytes: u64,
    /// Bytes without edits, built for the machine's lines.
    pub without_bytes: u64,
    /// Bytes with the edits.
    pub with_bytes: u64,
    /// Lines without edits, of an object that starts a line.
    pub without_lines: u64,
    /// Lines with the edits, likewise.
    pub with_lines: u64,
    /// Whether it is a variable or an allocation of a program, which an edit names, not a type. Its
    /// bytes end at the last one that was accessed; of several blocks they are the largest's.
    #[serde(default)]
    pub memory: bool,
}

/// Accesses that missed the last-level cache of their domain: served from another domain or socket,
/// by a cache or a core there, or from memory. Not counted: those that a core of the same domain
/// served, upgrades, and lines that only a prefetcher fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LlcMisses {
    /// Of the reported types.
    pub types: Measure,
    /// Of everything that was recorded.
    pub whole: Measure,
    /// Of all kernel code: everything except what programs' own code accessed.
    pub kernel: Measure,
    /// Its loads: what processors' counters of load misses count.
    pub kernel_loads: Measure,
    /// The kernel's stores that are not atomic.
    pub kernel_stores: Measure,
    /// The kernel's atomic read-modify-writes.
    pub kernel_rmws: Measure,
    /// Loads of programs; none without `record --user`.
    pub user_loads: Measure,
}

/// A figure that changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MeasuredRow {
    /// The field, cause, source or function.
    pub name: String,
    /// Accesses that left their core; in `sources` all accesses.
    pub count: Measure,
    /// The cycles of those.
    pub cycles: Measure,
}

/// The contribution of an edit to the reported types' cycles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ablation {
    /// The edit, as it is written.
    pub edit: String,
    /// With only this edit, against none; null if it needs others.
    pub alone: Option<Measure>,
    /// All edits, against all but this one; null if others need it.
    pub last: Option<Measure>,
    /// Why there is no figure.
    pub why_not: Option<String>,
}

/// The pairs found by a `colocate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Paired {
    /// The number of pairs.
    pub pairs: usize,
    /// Objects of the first type without a partner.
    pub first_alone: usize,
    /// Objects of the second type without one.
    pub second_alone: usize,
}

/// The arrays found by a `skip array`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Followed {
    /// The pointer's field, as `TYPE.FIELD`.
    pub pointer: String,
    /// Objects whose pointer was loaded.
    pub owners: usize,
    /// For how many of them the array is known.
    pub arrays: usize,
}

/// The change while a function is on the stack: in it and its callees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UnderChange {
    /// The function of `--under`.
    pub function: String,
    /// How often it came onto a stack that it was not on.
    pub entered: u64,
    /// Cycles of accesses that left their core.
    pub cost: Measure,
    /// Misses of the last-level caches.
    pub llc_misses: Measure,
    /// All its cycles: one per instruction, plus the waiting.
    pub cycles: Measure,
    /// The same for the whole recording.
    pub all_cycles: Measure,
}
