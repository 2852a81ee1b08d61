//! What `linemate report --type T` writes about the type.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::grid::TimeGrid;
use crate::layout::{FieldMap, Heat};
use crate::report::{FieldRow, Figures, LineRow};

/// Everything about one type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TypeView {
    /// The type's name, as `--type` takes it.
    pub name: String,
    /// The type's size in bytes.
    pub size: u64,
    /// Bytes of a line.
    pub line_size: u64,
    /// Counts over all its places.
    pub figures: Figures,
    /// Where objects of the type are. Those without `inside` add up to the type's row of `types`.
    pub places: Vec<Place>,
    /// Its fields that are accessed, over all places, by offset.
    pub fields: Vec<FieldRow>,
    /// Every field of the type, accessed or not.
    #[serde(default)]
    pub layout: FieldMap,
    /// All its lines, over all places.
    pub lines: Vec<LineRow>,
    /// Fields that are used together, most used first.
    pub groups: Vec<GroupRow>,
    /// When it is accessed, and by which CPUs.
    #[serde(default)]
    pub times: TypeTimes,
}

impl TypeView {
    /// Of the accesses that start in the `size` bytes from `offset` on.
    #[must_use]
    pub fn heat(&self, offset: u64, size: u64) -> Heat {
        let mut heat = Heat::default();
        let bytes = offset..offset.saturating_add(size);
        let fields = self.fields.iter();
        for row in fields.filter(|row| bytes.contains(&row.offset)) {
            heat.loads += row.figures.loads;
            heat.stores += row.figures.stores;
            heat.rmws += row.figures.rmws;
        }
        heat
    }
}

/// Where objects of a type are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Place {
    /// `heap`, `per-CPU runqueues`, `global init_task`, `task_struct.se`, `[]` for any element of
    /// an array; a variable or a member is a name that `--type` takes.
    pub owner: String,
    /// The outer type; absent for objects of the type's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub inside: Option<String>,
    /// Counts of the accesses in this row.
    #[serde(flatten)]
    pub figures: Figures,
    /// The fields there, by offset.
    pub fields: Vec<FieldRow>,
}

/// Fields that are used together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GroupRow {
    /// `atomic` (locks and the like), `read by others` (than the owner, more than the type on
    /// average), `shared` (objects without an owner, from another CPU in at least one access in
    /// 100), or `own`.
    pub class: Cow<'static, str>,
    /// All array elements as one: `pri_to_cpu[].count`; most used first, union members adjacent.
    pub fields: Vec<String>,
    /// Their share of the type's accesses.
    pub share: f64,
    /// Loads per store (an RMW is both); null without stores.
    pub loads_per_store: Option<f64>,
    /// Lines of the type that they are on.
    pub lines: Vec<u64>,
    /// Counts of the accesses in this row.
    #[serde(flatten)]
    pub figures: Figures,
}

/// A type's accesses over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FieldTimes {
    /// The path from the type on.
    pub field: String,
    /// Bytes from the type's start.
    pub offset: u64,
    /// A list of counts for each row of CPUs, one for each part of the time up to the last one with
    /// any.
    pub accesses: Vec<Vec<u64>>,
}

/// A line's accesses over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LineTimes {
    /// The line's number, from 0.
    pub line: u64,
    /// As those of a field.
    pub accesses: Vec<Vec<u64>>,
}
