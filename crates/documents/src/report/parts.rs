//! Sums with the names of their largest parts, and the row of a field made of one.

use std::collections::BTreeMap;

use linemate_answers::{FieldRow, LineMember, LineRow};
use linemate_attribution::tally::{Count, Key};
use linemate_types::LineSize;

use super::resolve::{FieldName, count};
use super::sums::{Sum, largest};

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

/// A line's sum, and those of what is in it.
#[derive(Default)]
pub(crate) struct LineParts {
    parts: Parts,
    members: BTreeMap<FieldName, Sum>,
}

impl LineParts {
    /// Adds a row of the tally; `field`: none of what has no fields.
    pub(crate) fn add(
        &mut self,
        key: &Key,
        counts: &Count,
        owned: bool,
        field: Option<&FieldName>,
    ) {
        let name = field.map_or("", |field| &field.path);
        self.parts.add(key, counts, owned, name);
        if let Some(field) = field {
            match self.members.get_mut(field) {
                Some(sum) => sum.add(key.kind, counts, owned),
                None => {
                    let sum = self.members.entry(field.clone()).or_default();
                    sum.add(key.kind, counts, owned);
                }
            }
        }
    }

    /// The row of this line of the type.
    pub(crate) fn row(&self, type_name: &str, line: u64) -> LineRow {
        let member = |(field, sum): (&FieldName, &Sum)| {
            let figures = sum.figures();
            LineMember {
                field: field.path.clone(),
                offset: field.offset,
                size: field.size,
                accesses: figures.accesses,
                readers: figures.readers,
                writers: figures.writers,
            }
        };
        LineRow {
            type_name: type_name.to_owned(),
            line,
            figures: self.parts.sum.figures(),
            fields: largest(&self.parts.parts),
            members: self.members.iter().map(member).collect(),
        }
    }
}
