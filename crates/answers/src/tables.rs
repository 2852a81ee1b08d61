//! The tables of `linemate export`: their rows, and what each column means.
//!
//! A table is declared once, as the struct of its rows. Its columns, their kinds and
//! docs/reference/columns.md are made from that. Every table starts with the column `run`, which
//! the rows leave to the writer.

mod cell;
mod rows;

pub use cell::{Cells, Column, Kind, Value};
pub use rows::{
    CostsRow, CpuPairsRow, EffectsRow, FieldsRow, FunctionsRow, LedgerRow, LineCostsRow, LinesRow,
    RunsRow, TypesRow,
};

/// The tables' name and version: it changes when a column is removed or gets another meaning.
pub const SCHEMA: &str = "linemate.export/2";

/// A row of a table.
pub trait TableRow {
    /// The table's name and columns.
    fn schema() -> Schema;

    /// The row's values, in the order of the columns after `run`.
    fn values(self) -> Vec<Value>;
}

/// A table's name and columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The table's name, and that of its folder.
    pub table: &'static str,
    /// What a row is.
    pub about: &'static str,
    /// Its columns, in order; the first is `run`.
    pub columns: Vec<Column>,
}

impl Schema {
    fn new(table: &'static str, about: &'static str, rows: Vec<Column>) -> Schema {
        let run = Column {
            name: "run",
            about: "The run's key",
            kind: Kind::Text,
            required: true,
        };
        let mut columns = vec![run];
        columns.extend(rows);
        Schema {
            table,
            about,
            columns,
        }
    }
}

/// All tables, in the order of the reference.
#[must_use]
pub fn schemas() -> [Schema; 10] {
    [
        RunsRow::schema(),
        LedgerRow::schema(),
        TypesRow::schema(),
        FieldsRow::schema(),
        LinesRow::schema(),
        FunctionsRow::schema(),
        CostsRow::schema(),
        LineCostsRow::schema(),
        CpuPairsRow::schema(),
        EffectsRow::schema(),
    ]
}
