//! The reference of the tables: docs/reference/columns.md.

use std::fmt::Write as _;

use super::markdown::{in_cell, wrapped};
use crate::tables::{Column, SCHEMA, Schema, schemas};

const HEAD: &str = "\
# The columns of the tables

[How the tables are laid out](tables.md). Every table has the column `run`. Cycles are core cycles
of accesses that left their core ([costs](json/costs.md)); sizes and offsets are bytes; shares go
from 0 to 1. The tables are declared in `crates/answers/src/tables`; this page is generated from
them: `UPDATE=1 cargo test -p linemate-answers`.
";

/// The page's path and text.
pub(super) fn page() -> (String, String) {
    let mut text = HEAD.to_owned();
    // Writing to a String does not fail.
    let _ = writeln!(text, "\nThe schema is `{SCHEMA}`.");
    for schema in schemas() {
        text.push_str(&section(&schema));
    }
    ("docs/reference/columns.md".to_owned(), text)
}

fn section(schema: &Schema) -> String {
    let mut out = format!("\n## {}\n\n{}\n", schema.table, wrapped(schema.about));
    out.push_str("| column | type | meaning |\n|---|---|---|\n");
    for column in &schema.columns {
        let Column { name, .. } = column;
        let about = column.about.trim().trim_end_matches('.');
        let _ = writeln!(out, "| `{name}` | {} | {} |", kind(column), in_cell(about));
    }
    out
}

fn kind(column: &Column) -> String {
    match column.required {
        true => column.kind.name().to_owned(),
        false => format!("{} or null", column.kind.name()),
    }
}
