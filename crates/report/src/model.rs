//! The report as values: what `--json` writes (docs/reference/json/report.md) and what the tables show.
//!
//! A field that is added here is added to the schema's document; a change of a field's meaning is a new [`SCHEMA`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use linemate_recording::TimeGrid;
use serde::{Deserialize, Serialize};

use crate::leaves::FieldMap;

/// The schema's name and version.
pub const SCHEMA: &str = "linemate.report/2";

/// A report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: Cow<'static, str>,
    /// Where the figures come from.
    pub inputs: Inputs,
    /// Every access, by bucket.
    pub ledger: LedgerView,
    /// What was asked for.
    #[serde(flatten)]
    pub view: View,
}

/// Where the figures come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// The version of linemate that makes this report.
    pub tool: String,
    /// The version of linemate that made the recording.
    pub recorded_by: String,
    /// What the recording says about its run: kernel, workload, machine, seed.
    pub recording: BTreeMap<String, String>,
    /// The recording's checksum; none if it is cut.
    pub checksum: Option<String>,
    /// Why the recording has no end, if it has none: the figures are of what is there.
    pub cut: Option<String>,
}

/// The ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerView {
    /// Accesses the recording says it has.
    pub recorded: u64,
    /// Accesses in the ledger: the same number.
    pub total: u64,
    /// Share of the accesses whose type is known, among those that are not to stacks, page tables, struct pages or page contents.
    pub typed_share: f64,
    /// The same of what is programs' own, their heap blocks and variables; `None` where no accesses to such were recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<ProgramsShare>,
    /// Share of the accesses of which nothing is known.
    pub unknown_share: f64,
    /// The lines of the ledger, in fixed order.
    pub groups: Vec<LedgerGroup>,
}

/// Accesses to programs' heap blocks and variables.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramsShare {
    /// How many, by the programs and by the kernel for them.
    pub accesses: u64,
    /// Share of those whose type is known.
    pub typed_share: f64,
}

/// A line of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerGroup {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Accesses.
    pub accesses: u64,
    /// Of the total.
    pub share: f64,
    /// What it consists of.
    pub buckets: Vec<LedgerBucket>,
}

/// A part of a line of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerBucket {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Accesses.
    pub accesses: u64,
    /// Of the total.
    pub share: f64,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// `--by type`
    Types(Vec<TypeRow>),
    /// `--by field`
    Fields(Vec<FieldRow>),
    /// `--by line`
    Lines(Vec<LineRow>),
    /// `--by function`
    Functions(Vec<FunctionRow>),
    /// `--by source`
    Sources(Vec<SourceRow>),
    /// `--by cpu`
    Cpus(Vec<CpuRow>),
    /// `--type T`
    Type(Box<TypeView>),
}

/// Counts of accesses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// All.
    pub accesses: u64,
    /// Accesses that only read.
    pub loads: u64,
    /// Accesses that only write.
    pub stores: u64,
    /// Atomic read-modify-writes.
    pub rmws: u64,
    /// Stores and RMWs that are known to have left memory as it was.
    pub silent: u64,
    /// Share of the accesses that other CPUs than the object's owner made; none where objects have no owner.
    pub remote_share: Option<f64>,
    /// CPUs that read (RMWs count).
    pub readers: u32,
    /// CPUs that write (RMWs count).
    pub writers: u32,
}

/// A type over all its objects, a variable without one, or the untyped objects of a cache and site. What is inside an object of another type
/// counts for that one, the outermost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypeRow {
    /// Its name.
    pub name: String,
    /// The bucket; of a type that is in several places that of the one with most accesses.
    pub kind: Cow<'static, str>,
    /// The variable, or where untyped objects were allocated; else empty. As `kind` of the place with most accesses.
    pub place: String,
    /// The places of a type that is in several, most accesses first; together the row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<TypePlace>,
    /// Bytes of the type, if there is one.
    pub size: Option<u64>,
    /// Objects that were accessed, told apart by their addresses, elements of arrays too, if the type is one of heap objects.
    pub objects: Option<u64>,
    /// Accesses to bytes of an object that come from another CPU: loads of what it wrote, writes to what it used. None where each CPU was
    /// recorded on its own, so that no order among them is known.
    #[serde(default)]
    pub shared: Option<u64>,
    /// Counts.
    #[serde(flatten)]
    pub figures: Figures,
    /// The functions with most accesses.
    pub functions: Vec<Share>,
}

/// One of the places that objects of a type are in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypePlace {
    /// The bucket.
    pub kind: Cow<'static, str>,
    /// The variable; empty for other objects.
    pub place: String,
    /// Accesses to what is there.
    pub accesses: u64,
}

/// A field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldRow {
    /// The type (or the variable, where there is none).
    pub type_name: String,
    /// The path from the type on.
    pub field: String,
    /// Other names of the same bytes: the other members of a union.
    pub aliases: Vec<String>,
    /// Bytes from the type's start.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// The line, from 0, if the type starts at a line's start.
    pub line: u64,
    /// Counts.
    #[serde(flatten)]
    pub figures: Figures,
    /// The functions with most accesses.
    pub functions: Vec<Share>,
}

/// A line of a type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LineRow {
    /// The type.
    pub type_name: String,
    /// From 0.
    pub line: u64,
    /// Counts.
    #[serde(flatten)]
    pub figures: Figures,
    /// The fields with most accesses.
    pub fields: Vec<Share>,
    /// Everything in it that is accessed, by offset; nothing of what has no fields.
    #[serde(default)]
    pub members: Vec<LineMember>,
}

/// A field in a line, by accesses that begin there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LineMember {
    /// The path from the type on.
    pub field: String,
    /// Bytes from the type's start.
    pub offset: u64,
    /// Bytes, which may reach into the next line.
    pub size: u64,
    /// Accesses.
    pub accesses: u64,
    /// CPUs that read it (RMWs count).
    pub readers: u32,
    /// CPUs that write it (RMWs count).
    pub writers: u32,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionRow {
    /// Its symbol.
    pub name: String,
    /// Counts.
    #[serde(flatten)]
    pub figures: Figures,
    /// The types with most accesses.
    pub types: Vec<Share>,
}

/// A line of a program's source, or a function of which no lines are known, such as the kernel's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceRow {
    /// All of what follows in one text: the same as in the costs of a machine.
    pub name: String,
    /// The file as the debug information calls it; none where no line is known.
    pub file: Option<String>,
    /// From 1; none where no line is known.
    pub line: Option<u32>,
    /// The function of the line first, then those that it is inlined into.
    pub functions: Vec<String>,
    /// Counts.
    #[serde(flatten)]
    pub figures: Figures,
    /// The types with most accesses.
    pub types: Vec<Share>,
}

/// A CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuRow {
    /// Its number.
    pub cpu: u32,
    /// The last one of those that the row is of: another one only for one type, in recordings of more than 16 CPUs.
    #[serde(default)]
    pub last: u32,
    /// All accesses.
    pub accesses: u64,
    /// Accesses that only read.
    pub loads: u64,
    /// Accesses that only write.
    pub stores: u64,
    /// Atomic read-modify-writes.
    pub rmws: u64,
    /// Share of the accesses that went to what another CPU owns; not known for one type.
    pub remote_share: Option<f64>,
}

/// A part of a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Of what.
    pub name: String,
    /// Accesses.
    pub accesses: u64,
}

/// Everything about one type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TypeView {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Bytes of a line.
    pub line_size: u64,
    /// Counts over all its places.
    pub figures: Figures,
    /// Where objects of the type are: the heap, variables, inside other types.
    pub places: Vec<Place>,
    /// Its fields, over all places, by offset.
    pub fields: Vec<FieldRow>,
    /// All its fields with their places, touched or not.
    #[serde(default)]
    pub layout: FieldMap,
    /// Its lines, over all places, from 0.
    pub lines: Vec<LineRow>,
    /// Groups of fields that are used together, most used first.
    pub groups: Vec<GroupRow>,
    /// When it is accessed, and by which CPUs.
    #[serde(default)]
    pub times: TypeTimes,
}

/// A type's accesses over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeTimes {
    /// The parts of the time, and the rows of CPUs.
    #[serde(flatten)]
    pub grid: TimeGrid,
    /// Its fields, by offset.
    pub fields: Vec<FieldTimes>,
    /// Its lines, from 0.
    pub lines: Vec<LineTimes>,
}

/// A field's accesses over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldTimes {
    /// The path from the type on.
    pub field: String,
    /// Bytes from the type's start.
    pub offset: u64,
    /// By row of CPUs, then part of the time, up to the last one that has any.
    pub accesses: Vec<Vec<u64>>,
}

/// A line's accesses over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineTimes {
    /// From 0.
    pub line: u64,
    /// By row of CPUs, then part of the time, up to the last one that has any.
    pub accesses: Vec<Vec<u64>>,
}

/// Where objects of a type are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// `heap`, `per-CPU runqueues`, `global init_task`, or the path inside an outer type, such as `task_struct.se`.
    pub owner: String,
    /// The outer type whose objects have it inside; none for objects of the type's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<String>,
    /// Counts.
    #[serde(flatten)]
    pub figures: Figures,
    /// The fields there, by offset.
    pub fields: Vec<FieldRow>,
}

/// Fields that are used together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupRow {
    /// `atomic` (locks and the like), `read by others` (than the owner, more than the type on average), `shared` (of objects without an owner:
    /// goes from CPU to CPU), or `own`.
    pub class: Cow<'static, str>,
    /// Their names, most used first; members of a union that share the place follow one another.
    pub fields: Vec<String>,
    /// Share of the type's accesses.
    pub share: f64,
    /// Loads for each store (an RMW is both); none if there is no store.
    pub loads_per_store: Option<f64>,
    /// Lines of the type that they are on.
    pub lines: Vec<u64>,
    /// Counts.
    #[serde(flatten)]
    pub figures: Figures,
}
