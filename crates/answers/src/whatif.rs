//! What `linemate whatif` writes: what edits change.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::costs::Potential;
use crate::event::EventCount;
use crate::layout::LayoutChange;
use crate::measure::Measure;
use crate::replayed::WarmUp;
use crate::sets::SetsChange;

/// What edits change on each machine. *Cycles* are those of accesses that left their core (hits in L1 and L2
/// are not in them, except in `sources`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WhatIfDocument {
    /// The schema's name and version.
    pub schema: Cow<'static, str>,
    /// The version of linemate.
    pub tool: String,
    /// The recording's description: kernel, command, CPUs, seed, …
    pub recording: BTreeMap<String, String>,
    /// Of the recording; null when it is cut.
    pub checksum: Option<String>,
    /// The edits as text (docs/reference/edits.md).
    pub edits: String,
    /// With `--event`: what costs can be divided by.
    #[serde(default)]
    pub event: Option<EventCount>,
    /// The edited types before and after, for each line size of the machines.
    #[serde(default)]
    pub layouts: Vec<LayoutChange>,
    /// One for each machine, in the order of the flags.
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
    /// The machine's name.
    pub machine: String,
    /// Bytes of a line, 64 or 128; both sides are laid out as a kernel built for that.
    pub line_bytes: u64,
    /// The number of CPUs replayed.
    pub cpus: usize,
    /// The number of CPUs recorded.
    pub recorded_cpus: usize,
    /// The first seed; the others count up.
    pub seed: u64,
    /// How many were replayed: fewer than allowed where the intervals are narrow (docs/model/replay.md).
    pub interleavings: usize,
    /// The most that are allowed.
    pub interleavings_max: usize,
    /// Whether the edits were replayed by what they change, on top of the recorded layout replayed whole (docs/model/replay.md).
    #[serde(default)]
    pub by_difference: bool,
    /// Accesses in the recording.
    pub accesses: u64,
    /// Of the reported types, without edits.
    pub potential: Potential,
    /// The reported types' sizes.
    pub sizes: Vec<TypeSize>,
    /// How the reported types' lines fall into the caches' sets.
    pub sets: Vec<SetsChange>,
    /// Cycles of the reported types.
    pub types: Measure,
    /// Cycles of everything.
    pub whole: Measure,
    /// Misses of the last-level caches.
    pub llc_misses: LlcMisses,
    /// Whether each last-level cache, and each core's L1 and L2, had only the share of the CPUs that are
    /// replayed on it (`--llc-share`).
    pub llc_share: bool,
    /// What filled the caches before counting began, on the recorded layout; null with `--cold`.
    pub warm_up: Option<WarmUp>,
    /// The machine's mechanisms that were replayed (`--mechanisms`), by their keys in its description.
    pub mechanisms: Vec<String>,
    /// Cycles from the replay's start to its end.
    pub duration: Measure,
    /// The reported types' accesses by cause.
    pub causes: Vec<MeasuredRow>,
    /// The same by where they were served from.
    pub sources: Vec<MeasuredRow>,
    /// The same by field, largest change first.
    pub fields: Vec<MeasuredRow>,
    /// All accesses by function, largest change first.
    pub functions: Vec<MeasuredRow>,
    /// With `--ablate`: what each edit contributes.
    pub ablation: Vec<Ablation>,
    /// Objects that got new addresses.
    pub relocated: usize,
    /// Accesses to the reported types in the whole recording, whether they left their core or not.
    #[serde(default)]
    pub types_accesses: u64,
    /// Accesses to the edited types, or to what embeds them, on programs' stacks: no edit moves those.
    #[serde(default)]
    pub on_stacks: u64,
    /// What each `colocate` paired.
    pub paired: Vec<Paired>,
    /// What each `skip array` found.
    pub followed: Vec<Followed>,
    /// Accesses that did not happen, in the first interleaving.
    pub skipped: u64,
    /// With `--under F`: what changes while F is on the stack.
    #[serde(default)]
    pub under: Option<UnderChange>,
}

/// The size of a type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TypeSize {
    /// The type's name.
    pub name: String,
    /// Bytes in the recorded kernel.
    pub recorded_bytes: u64,
    /// Bytes without edits, built for the machine's lines.
    pub without_bytes: u64,
    /// Bytes with the edits.
    pub with_bytes: u64,
    /// Lines without edits, of an object that starts a line.
    pub without_lines: u64,
    /// Lines with the edits, likewise.
    pub with_lines: u64,
}

/// Accesses that missed the last-level cache of their domain: served from another domain or socket, by a cache
/// or a core there, or from memory. Not counted: what a core of the same domain served, requests for
/// permission, and lines that only a prefetcher fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LlcMisses {
    /// Of the reported types.
    pub types: Measure,
    /// Of everything that was recorded.
    pub whole: Measure,
    /// Of all that kernel code did: everything but what programs' own code accessed.
    pub kernel: Measure,
    /// Its loads: what processors' counters of load misses count.
    pub kernel_loads: Measure,
    /// Its plain stores.
    pub kernel_stores: Measure,
    /// Its atomic read-modify-writes.
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

/// What an edit contributes to the reported types' cycles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ablation {
    /// The edit, as it is written.
    pub edit: String,
    /// This edit against none; null: it needs others.
    pub alone: Option<Measure>,
    /// All edits against all but this one; null: others need it.
    pub last: Option<Measure>,
    /// Why there is no figure.
    pub why_not: Option<String>,
}

/// What a `colocate` paired.
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

/// What a `skip array` found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Followed {
    /// The pointer: `TYPE.FIELD`.
    pub pointer: String,
    /// Objects whose pointer was loaded.
    pub owners: usize,
    /// Of how many of them the array is known.
    pub arrays: usize,
}

/// What changes while a function is on the stack: of it and its callees.
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
    /// All its cycles: one for each instruction, and the waiting.
    pub cycles: Measure,
    /// The same of the whole recording.
    pub all_cycles: Measure,
}
