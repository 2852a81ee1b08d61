//! Costs by line: a type's lines, over all its objects, and the fields in them.

use serde::{Deserialize, Serialize};

/// A line of a type, over all objects of the type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LineCost {
    /// The type, the variable, or another kind of memory.
    pub name: String,
    /// Bytes from the object's start to the line's, negative if the object starts inside the line;
    /// 0 for what is not an object.
    pub start: i64,
    /// How many such lines moved between cores.
    pub lines: u64,
    /// Modified lines that accesses to this type fetched.
    pub hitm: u64,
    /// Accesses to this type that left their core.
    pub misses: u64,
    /// The cycles of those accesses.
    pub cycles: u64,
    /// The type's fields in it, by offset: together exactly the row's figures.
    pub cells: Vec<CellCost>,
    /// Cells of other types on those of the lines that moved between cores, at any time: they count
    /// in the rows of their own types.
    pub neighbours: Vec<CellCost>,
    /// `[from, to, hitm]`: the last writer, the CPU that took the line, the number of modified
    /// lines in accesses to this type; numbers as `pairs_by` says; they add up to `hitm`.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Vec<(u16, u16, u64)>"))]
    pub pairs: Vec<LinePair>,
}

/// Modified lines that moved from one place on the machine to another; in JSON three numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u16, u16, u64)", into = "(u16, u16, u64)")]
pub struct LinePair {
    /// The last writer: a number of [`super::Costs::pairs_by`].
    pub from: u16,
    /// The CPU that took it.
    pub to: u16,
    /// How many modified lines.
    pub hitm: u64,
}

impl From<(u16, u16, u64)> for LinePair {
    fn from((from, to, hitm): (u16, u16, u64)) -> LinePair {
        LinePair { from, to, hitm }
    }
}

impl From<LinePair> for (u16, u16, u64) {
    fn from(pair: LinePair) -> (u16, u16, u64) {
        (pair.from, pair.to, pair.hitm)
    }
}

/// A field in a line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CellCost {
    /// Bytes from the line's start.
    pub offset: u8,
    /// All names of its bytes: `a | b` in unions and for bit-fields of one storage unit.
    pub field: String,
    /// Modified lines that its accesses fetched.
    pub hitm: u64,
    /// Loads that left their core.
    pub loads: u64,
    /// Cycles that each of these loads takes on average.
    pub cycles_per_load: f64,
    /// Stores and atomics that left their core.
    pub stores: u64,
    /// Requests for permission to write.
    pub upgrades: u64,
    /// Cycles of loads and stores that left their core.
    pub cycles: u64,
    /// At most three functions, most cycles first.
    pub functions: Vec<String>,
    /// Its HITM over time, a list of counts for each row of recorded CPUs with their copies, up to
    /// the last part of the time with any; absent if `hitm` is 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub times: Vec<Vec<u64>>,
}
