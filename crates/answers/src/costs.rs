//! What `linemate report --machine` writes: the cost of a recording on a machine, without edits.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::event::EventCount;
use crate::grid::TimeGrid;
use crate::groups::{GroupCosts, LockCost};
use crate::lines::LineCost;
use crate::prediction::PredictionError;
use crate::replayed::{MachinePlaces, WarmUp};
use crate::sets::TypeSets;

/// Costs of a recording on a machine. *Cycles* are core cycles of latency, waiting included, of
/// accesses that left their core: hits in L1 and L2 are the same in every layout. One replay under
/// one interleaving, of the recorded layout: no confidence intervals, which belong to differences
/// (`whatif`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CostsDocument {
    /// The schema's name and version.
    pub schema: Cow<'static, str>,
    /// The version of linemate.
    pub tool: String,
    /// The recording's description: kernel, command, CPUs, seed, …
    pub recording: BTreeMap<String, String>,
    /// Of the recording; null if it is truncated.
    pub checksum: Option<String>,
    /// The type given with `--type`: `fields`, `lines`, `places`, `sets` and `potential` are then
    /// about it, wherever it is: in objects of its own and inside other types.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// Where each replayed CPU is, in the order of the recorded CPUs and then their copies.
    #[serde(default)]
    pub cpus: Vec<CpuPlace>,
    /// What accesses cost on the machine.
    pub costs: Costs,
    /// With several `--machine`: the answers for those after the first; absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<MachineCosts>,
    /// With `--event`: the calls to divide figures by; absent without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "EventCount"))]
    pub event: Option<EventCount>,
}

/// The cost of a recording on another machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MachineCosts {
    /// Where each replayed CPU is, in the order of the recorded CPUs and then their copies.
    pub cpus: Vec<CpuPlace>,
    /// What accesses cost on the machine.
    pub costs: Costs,
}

impl CostsDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.costs/5";

    /// Merges the documents of one question on several machines.
    #[must_use]
    pub fn with_others(mut self, others: impl IntoIterator<Item = CostsDocument>) -> CostsDocument {
        let others = others.into_iter().map(|other| MachineCosts {
            cpus: other.cpus,
            costs: other.costs,
        });
        self.others.extend(others);
        self
    }

    /// The document of each machine.
    pub fn by_machine(&self) -> impl Iterator<Item = Cow<'_, CostsDocument>> {
        let other = |other: &MachineCosts| CostsDocument {
            schema: self.schema.clone(),
            tool: self.tool.clone(),
            recording: self.recording.clone(),
            checksum: self.checksum.clone(),
            type_name: self.type_name.clone(),
            cpus: other.cpus.clone(),
            costs: other.costs.clone(),
            others: Vec::new(),
            event: self.event.clone(),
        };
        let others = self.others.iter();
        std::iter::once(Cow::Borrowed(self)).chain(others.map(move |o| Cow::Owned(other(o))))
    }
}

/// Where a replayed CPU is on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CpuPlace {
    /// The recorded CPU, and which of its copies.
    pub cpu: (usize, usize),
    /// Its last-level cache's domain.
    pub domain: u16,
    /// The number of its socket.
    pub socket: u16,
}

/// What a recording's accesses cost on one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Costs {
    /// The machine's name, as its description has it.
    pub machine: String,
    /// Bytes of a line, 64 or 128.
    pub line_bytes: u64,
    /// The number of CPUs replayed.
    pub cpus: usize,
    /// The number of CPUs recorded.
    pub recorded_cpus: usize,
    /// The seed of the replayed interleaving.
    pub seed: u64,
    /// The number of interleavings averaged over: 1.
    pub interleavings: usize,
    /// Accesses in the recording.
    pub accesses: u64,
    /// Of those, the ones to device registers: no cache holds these, so they are in no row.
    pub device_accesses: u64,
    /// What filled the caches before counting began; null with `--cold`.
    pub warm_up: Option<WarmUp>,
    /// The machine's mechanisms that were replayed (`--mechanisms`, docs/model/replay.md), by name.
    pub mechanisms: Vec<String>,
    /// Cycles that no CPU waited because misses overlapped; they are in no row.
    pub overlapped: u64,
    /// Cycles from the replay's start to its end.
    pub duration: u64,
    /// The causes of the type's cost, or of all cost without `--type`.
    pub potential: Potential,
    /// The cost of all accesses together.
    pub whole: Cost,
    /// Where the first of `types`, or the type given with `--type`, costs most; absent without
    /// lines that moved between cores, and with `under`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "HotPlace"))]
    pub hottest: Option<HotPlace>,
    /// How the lines of the type given with `--type` map to the caches' sets; null without a type.
    pub sets: Option<TypeSets>,
    /// By type and variable, and everything that is neither; most cycles first, as everywhere. What
    /// is inside an object of another type counts for that one, the outermost: a row `cfs_rq` has
    /// nothing of what is inside `rq`. Memory of a slab cache with an unknown object type is
    /// `slab(CACHE)`. All rows add up to `whole`.
    pub types: Vec<Cost>,
    /// By field: those of the type given with `--type`, wherever it is, or all by outermost type;
    /// these add up to `whole`.
    pub fields: Vec<Cost>,
    /// For the type given with `--type`: the row with its name is objects of its own, the row
    /// `rq.cfs` what is inside that member of `rq`. Together they are the type's total cost; absent
    /// without a type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<Cost>,
    /// By function. All rows add up to `whole`.
    pub functions: Vec<Cost>,
    /// With `--by source`: by line of programs' source and the functions there, by function if no
    /// line is known; adds up to `whole`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Cost>,
    /// By pair of CPUs, most cycles first.
    pub pairs: Vec<PairCost>,
    /// What the numbers in a line's `pairs` refer to.
    #[serde(default)]
    pub pairs_by: MachinePlaces,
    /// The grid of `times` of cells.
    #[serde(default)]
    pub time: TimeGrid,
    /// Lines by type and place. A type's lines add up to the type, all lines to `whole`, a line's
    /// cells to the line.
    pub lines: Vec<LineCost>,
    /// With `--mechanisms locks`: time spent waiting for locks, most cycles first; in no other
    /// figure but `duration`. Absent if no CPU waited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lock_waits: Vec<LockCost>,
    /// Interactions of CPU groups; only with more CPUs than were recorded (docs/model/scaling.md).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "GroupCosts"))]
    pub groups: Option<GroupCosts>,
    /// How far such predictions were from recordings; only with more CPUs than were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "PredictionError"))]
    pub prediction_error: Option<PredictionError>,
    /// With `--under F` (docs/guide/under.md): `types`, `fields`, `functions` and `potential` then
    /// cover accesses while F is on the stack, `whole` still covers everything, `pairs` and `lines`
    /// are empty, `sets` is null.
    #[serde(default)]
    pub under: Option<UnderCost>,
}

/// The causes of a type's cost without edits. The shares are from 0 to 1; a layout changes
/// `true_sharing` only if words that are exchanged together share a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Potential {
    /// The cost in cycles.
    pub cost: f64,
    /// Words that cores really exchange. Writing less helps, or fetching several of them with one
    /// line.
    pub true_sharing: f64,
    /// Lines taken away although no word is exchanged.
    pub false_sharing: f64,
    /// Lines fetched for the first time.
    pub cold: f64,
    /// Lines evicted for lack of room.
    pub capacity: f64,
    /// Upgrades although no other core had a copy.
    pub unshared: f64,
}

/// Where something costs most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HotPlace {
    /// The row in `types`, or the type given with `--type`.
    pub name: String,
    /// The function with most of its cycles.
    pub function: String,
    /// The line of a program's source and the functions there; absent if no line is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub source: Option<String>,
}

impl HotPlace {
    /// The line, or the function if none is known.
    pub fn at(&self) -> &str {
        self.source.as_deref().unwrap_or(&self.function)
    }
}

/// A row of costs, over all replayed CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cost {
    /// The type, field, function or place.
    pub name: String,
    /// All loads, whether they left their core or not.
    pub loads: u64,
    /// All stores and atomic read-modify-writes, likewise.
    pub stores: u64,
    /// Accesses that left their core: the sum of `hitm`, `upgrades`, `llc`, `forwards` and `dram`.
    pub misses: u64,
    /// The cycles of those: the sum of `causes`.
    pub cycles: u64,
    /// The part of the cycles spent waiting for others to be done with the line.
    pub waited: u64,
    /// Modified lines fetched from a core of the domain, of the socket, of another socket.
    pub hitm: [u64; 3],
    /// Requests for write permission.
    pub upgrades: u64,
    /// Clean lines fetched from the domain's last-level cache, or from another core of the domain.
    pub llc: u64,
    /// Clean lines fetched from another domain, of the socket or of another one.
    pub forwards: u64,
    /// Lines fetched from memory.
    pub dram: u64,
    /// The cycles by cause.
    pub causes: Causes,
}

impl Cost {
    /// The sum of rows, called `name`.
    #[must_use]
    pub fn sum<'c>(name: &str, rows: impl IntoIterator<Item = &'c Cost>) -> Cost {
        let mut sum = Cost {
            name: name.to_owned(),
            ..Cost::default()
        };
        rows.into_iter().for_each(|row| sum.add(row));
        sum
    }

    /// Adds another row to this one.
    pub fn add(&mut self, other: &Cost) {
        self.loads += other.loads;
        self.stores += other.stores;
        self.misses += other.misses;
        self.cycles += other.cycles;
        self.waited += other.waited;
        self.upgrades += other.upgrades;
        self.llc += other.llc;
        self.forwards += other.forwards;
        self.dram += other.dram;
        for (mine, theirs) in self.hitm.iter_mut().zip(other.hitm) {
            *mine += theirs;
        }
        let (mine, theirs) = (&mut self.causes, &other.causes);
        mine.cold += theirs.cold;
        mine.capacity += theirs.capacity;
        mine.true_sharing += theirs.true_sharing;
        mine.false_sharing += theirs.false_sharing;
        mine.unshared += theirs.unshared;
    }
}

/// Cycles by the reason why an access left its core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Causes {
    /// The core never had the line.
    pub cold: u64,
    /// Its caches had no room for it.
    pub capacity: u64,
    /// Words that are exchanged between cores.
    pub true_sharing: u64,
    /// The line is exchanged, but no word of it.
    pub false_sharing: u64,
    /// Write permission requested although no other core had a copy.
    pub unshared: u64,
}

/// Modified lines that one CPU took from another. CPUs are `[recorded CPU, copy]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PairCost {
    /// The CPU that wrote last.
    pub from: (usize, usize),
    /// The CPU that took the line.
    pub to: (usize, usize),
    /// The number of modified lines.
    pub hitm: u64,
    /// Their cost in cycles.
    pub cycles: u64,
}

/// The inclusive cost of a function and its callees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UnderCost {
    /// A row with the function's name.
    pub cost: Cost,
    /// How often it came onto a stack that it was not on.
    pub entered: u64,
    /// Cycles while it is on the stack.
    pub cycles: CycleSum,
    /// All cycles of the recording.
    pub all_cycles: CycleSum,
    /// How well the calls and returns of the recording match.
    pub balance: Balance,
}

/// Cycles of a part of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CycleSum {
    /// Instructions of all replayed CPUs: one cycle each, which is also what a hit in L1 takes.
    pub instructions: u64,
    /// Cycles that accesses take beyond a hit in L1.
    pub stalls: u64,
}

impl CycleSum {
    /// Instructions and stalls together.
    #[must_use]
    pub fn sum(self) -> u64 {
        self.instructions + self.stalls
    }
}

impl From<CycleSum> for f64 {
    /// All of them; exact up to 2^53.
    fn from(cycles: CycleSum) -> f64 {
        cycles.sum() as f64
    }
}

/// Calls and returns of the recorded kernel code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Balance {
    /// The number of calls.
    pub calls: u64,
    /// The number of returns.
    pub returns: u64,
    /// Of those, the ones that end a recorded call.
    pub matched: u64,
}
