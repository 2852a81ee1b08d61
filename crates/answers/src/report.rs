//! What `linemate report` writes: how often what was accessed, and by whom.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::event::EventCount;
use crate::type_view::TypeView;

/// What was accessed, how often and by whom. Shares are fractions from 0 to 1; offsets and sizes
/// are bytes; lines count from 0. The same recording gives the same bytes. Next to `inputs` and
/// `ledger` there is one of `types`, `fields`, `lines`, `functions`, `sources`, `cpus` (at most
/// `--top` rows: types by `shared`, the others by accesses) or `type`. With `--type` and another
/// `--by` than `type`, the rows are of that type alone, wherever its objects are, also inside other
/// types; the `types` of functions and sources are then its fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// The schema's name and version.
    pub schema: Cow<'static, str>,
    /// Where the figures come from.
    pub inputs: Inputs,
    /// Every access, by bucket.
    pub ledger: LedgerView,
    /// With `--event`: what figures can be divided by; absent without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "EventCount"))]
    pub event: Option<EventCount>,
    /// Rows of one kind, or one type.
    #[serde(flatten)]
    pub view: View,
}

impl Report {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.report/2";
}

/// What the rows of a report are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A row for each type, variable and cache.
    Type,
    /// Fields of all types.
    Field,
    /// Lines of all types.
    Line,
    /// A row for each function.
    Function,
    /// Lines of programs' source; functions where there are none.
    Source,
    /// A row for each CPU.
    Cpu,
}

/// Where the figures come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Inputs {
    /// The version of linemate that made the report.
    pub tool: String,
    /// The version of linemate that made the recording.
    pub recorded_by: String,
    /// The recording's description: kernel, command, machine, seed, …
    pub recording: BTreeMap<String, String>,
    /// The recording's checksum; null if it is truncated.
    pub checksum: Option<String>,
    /// Why the recording has no end, null if it has one; the figures cover what is there.
    pub cut: Option<String>,
}

/// Every access, by bucket (docs/model/attribution.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LedgerView {
    /// Accesses in the recording.
    pub recorded: u64,
    /// Accesses in the ledger: the same number.
    pub total: u64,
    /// Share of accesses whose type is known, among those not to stacks, page tables,
    /// `struct page`s or page contents.
    pub typed_share: f64,
    /// Accesses to programs' heap blocks and variables; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "ProgramsShare"))]
    pub programs: Option<ProgramsShare>,
    /// Share of accesses about which nothing is known.
    pub unknown_share: f64,
    /// In fixed order. Recordings with `--kernel-types no` have one more,
    /// `kernel memory, not named`, which is in neither share.
    pub groups: Vec<LedgerGroup>,
}

/// Accesses to programs' heap blocks and variables.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProgramsShare {
    /// How many, by the programs and by the kernel on their behalf.
    pub accesses: u64,
    /// Share of those whose type is known.
    pub typed_share: f64,
}

/// A section of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LedgerGroup {
    /// The name, as the ledger prints it.
    pub name: Cow<'static, str>,
    /// The number of accesses.
    pub accesses: u64,
    /// Their share of the total.
    pub share: f64,
    /// The parts that the group consists of.
    pub buckets: Vec<LedgerBucket>,
}

impl LedgerGroup {
    /// Objects from allocators whose type is unknown.
    pub const HEAP: &str = "heap block, type unknown";
    /// Pages of processes, files, pipes and sockets.
    pub const CONTENTS: &str = "page contents";
    /// What programs' allocators use themselves; only where they were recorded.
    pub const ALLOCATOR: &str = "bookkeeping of an allocator";
    /// Accesses about which nothing is known.
    pub const UNKNOWN: &str = "unknown";
    /// Kernel memory of a recording with `--kernel-types no`.
    pub const UNNAMED: &str = "kernel memory, not named";
}

/// A part of a section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LedgerBucket {
    /// The name, as the ledger prints it.
    pub name: Cow<'static, str>,
    /// The number of accesses.
    pub accesses: u64,
    /// Their share of the total.
    pub share: f64,
}

/// The subject of a report: rows of one kind, or one type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// The rows of `--by type`.
    Types(Vec<TypeRow>),
    /// The rows of `--by field`.
    Fields(Vec<FieldRow>),
    /// The rows of `--by line`.
    Lines(Vec<LineRow>),
    /// The rows of `--by function`.
    Functions(Vec<FunctionRow>),
    /// The rows of `--by source`.
    Sources(Vec<SourceRow>),
    /// The rows of `--by cpu`.
    Cpus(Vec<CpuRow>),
    /// The one type of `--type T`.
    Type(Box<TypeView>),
}

/// Counts of accesses: part of every row except those of `cpus`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Figures {
    /// Accesses of all kinds.
    pub accesses: u64,
    /// Accesses that only read.
    pub loads: u64,
    /// Accesses that only write.
    pub stores: u64,
    /// The number of atomic read-modify-writes.
    pub rmws: u64,
    /// Stores and RMWs known to have left memory unchanged.
    pub silent: u64,
    /// Share of accesses by CPUs other than the object's owner; null if objects have no owner.
    pub remote_share: Option<f64>,
    /// CPUs that read (RMWs count).
    pub readers: u32,
    /// CPUs that write (RMWs count).
    pub writers: u32,
}

/// One of the three largest parts of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Share {
    /// The function, field or type.
    pub name: String,
    /// Its part of the accesses.
    pub accesses: u64,
}

/// A type over all its objects, a variable without one, or the untyped objects of a cache and site.
/// What is inside an object of another type counts for that one, the outermost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TypeRow {
    /// The name of the type or variable.
    pub name: String,
    /// The bucket; for a type in several places, that of the place with most accesses.
    pub kind: Cow<'static, str>,
    /// The variable, or the allocation site of untyped objects; else empty.
    pub place: String,
    /// The places of a type with several, most accesses first; together the row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<TypePlace>,
    /// Bytes of the type, if there is one.
    pub size: Option<u64>,
    /// Heap objects that were accessed, by their addresses, including elements of arrays; null if
    /// it is not about heap objects.
    pub objects: Option<u64>,
    /// Accesses to bytes of an object that come from another CPU: loads of what it wrote since this
    /// CPU last used it, writes to what it used since they were last written. So what one CPU sets
    /// up and another uses from then on counts once, and objects of which each CPU has its own do
    /// not count. Exact except for what docs/model/attribution.md lists, each of which only leaves
    /// accesses out. Null if the order among CPUs was not recorded (`--parallel`), and for unnamed
    /// stacks, page tables and contents of pages.
    #[serde(default)]
    pub shared: Option<u64>,
    /// Counts of the accesses in this row.
    #[serde(flatten)]
    pub figures: Figures,
    /// The functions with most accesses.
    pub functions: Vec<Share>,
}

/// One of the places of a type's objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TypePlace {
    /// The ledger's bucket of these objects.
    pub kind: Cow<'static, str>,
    /// The variable; empty for other objects.
    pub place: String,
    /// Accesses to what is there.
    pub accesses: u64,
}

/// A row of `--by field`: accesses to a field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FieldRow {
    /// The type, or the variable if there is none.
    pub type_name: String,
    /// The path from the type on.
    pub field: String,
    /// Other names of the same bytes in a union.
    pub aliases: Vec<String>,
    /// Bytes from the type's start.
    pub offset: u64,
    /// The number of bytes.
    pub size: u64,
    /// The line, if the type starts at a line's start.
    pub line: u64,
    /// Counts of the accesses in this row.
    #[serde(flatten)]
    pub figures: Figures,
    /// The functions with most accesses.
    pub functions: Vec<Share>,
}

/// A row of `--by line`: accesses to a line of a type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LineRow {
    /// The type's name, as `--type` takes it.
    pub type_name: String,
    /// The line's number, from 0.
    pub line: u64,
    /// Counts of the accesses in this row.
    #[serde(flatten)]
    pub figures: Figures,
    /// The fields with most accesses.
    pub fields: Vec<Share>,
    /// Everything accessed in it, by offset, except what has no fields.
    #[serde(default)]
    pub members: Vec<LineMember>,
}

/// A field in a line, by accesses that start there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LineMember {
    /// The path from the type on.
    pub field: String,
    /// Bytes from the type's start.
    pub offset: u64,
    /// Bytes, which may extend into the next line.
    pub size: u64,
    /// The number of accesses.
    pub accesses: u64,
    /// CPUs that read it (RMWs count).
    pub readers: u32,
    /// CPUs that write it (RMWs count).
    pub writers: u32,
}

/// A row of `--by function`: accesses by a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FunctionRow {
    /// The function's name, as tables show it.
    pub name: String,
    /// Counts of the accesses in this row.
    #[serde(flatten)]
    pub figures: Figures,
    /// The types with most accesses.
    pub types: Vec<Share>,
}

/// A line of a program's source, or a function without known lines, such as the kernel's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SourceRow {
    /// The rest as one text, the same as in `linemate.costs`.
    pub name: String,
    /// The file as the debug information names it; null if no line is known.
    pub file: Option<String>,
    /// The line's number, from 1; null if no line is known.
    pub line: Option<u32>,
    /// The function of the line first, then those it is inlined into, without standard libraries'
    /// at either end; without a line, the function of `--by function`.
    pub functions: Vec<String>,
    /// Counts of the accesses in this row.
    #[serde(flatten)]
    pub figures: Figures,
    /// The types with most accesses.
    pub types: Vec<Share>,
}

/// A row of `--by cpu`: accesses by a CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CpuRow {
    /// The CPU's number in the guest.
    pub cpu: u32,
    /// The last CPU of the row: different only for a single type, in recordings of more than 16
    /// CPUs.
    #[serde(default)]
    pub last: u32,
    /// Accesses of all kinds.
    pub accesses: u64,
    /// Accesses that only read.
    pub loads: u64,
    /// Accesses that only write.
    pub stores: u64,
    /// The number of atomic read-modify-writes.
    pub rmws: u64,
    /// Share of its accesses to objects owned by another CPU; null for a single type.
    pub remote_share: Option<f64>,
}
