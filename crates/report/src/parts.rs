//! Sums with the names of their largest parts, and the row of a field made of one.

use std::collections::BTreeMap;

use linemate_attribution::tally::{Count, Key};
use linemate_types::LineSize;

use crate::model::FieldRow;
use crate::resolve::{FieldName, count};
use crate::sums::{Sum, largest};

/// A sum with the names of its largest parts.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) sum: Sum,
    pub(crate) parts: BTreeMap<String, u64>,
}

impl Parts {
    pub(crate) fn add(&mut self, key: &Key, counts: &Count, owned: bool, part: &str) {
        self.sum.add(key.kind, counts, owned);
        count(&mut self.parts, part, counts.count);
    }
}

/// The row of a field of this type.
pub(crate) fn field_row(
    type_name: &str,
    field: &FieldName,
    parts: &Parts,
    line: LineSize,
) -> FieldRow {
    FieldRow {
        type_name: type_name.to_owned(),
        field: field.path.clone(),
        aliases: field.aliases.clone(),
        offset: field.offset,
        size: field.size,
        line: field.offset / line.bytes(),
        figures: parts.sum.figures(),
        functions: largest(&parts.parts),
    }
}
