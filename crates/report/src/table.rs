//! Tables of text.

use std::fmt::{self, Display, Formatter};

use comfy_table::{CellAlignment, presets};
use linemate_text::shown;

/// A table without borders that is never wrapped to a terminal's width: the same bytes everywhere. Names in its cells may come from
/// files: each cell is printed by [`shown`], in one line.
#[derive(Clone, Debug)]
pub struct Table(comfy_table::Table);

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(header: &[&str]) -> Table {
        let mut table = comfy_table::Table::new();
        table
            .load_preset(presets::NOTHING)
            .set_header(header.to_vec());
        Table(table)
    }

    /// An empty table whose columns from the second on are aligned to the right.
    #[must_use]
    pub fn of_figures(header: &[&str]) -> Table {
        let mut table = Table::new(header);
        for column in table.0.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    /// Adds a row.
    pub fn add_row(&mut self, cells: Vec<String>) {
        let cells = cells.iter().map(|cell| shown(cell).to_string());
        self.0.add_row(cells.collect::<Vec<String>>());
    }

    /// Numbers to the right: every column from `from` on whose cells are numbers.
    pub(crate) fn align(&mut self, from: usize) {
        let rows: Vec<Vec<String>> = self
            .0
            .row_iter()
            .map(|r| r.cell_iter().map(|c| c.content()).collect())
            .collect();
        for (index, column) in self.0.column_iter_mut().enumerate().skip(from) {
            let numeric =
                |cell: &String| cell.is_empty() || cell.starts_with(|c: char| c.is_ascii_digit());
            if rows.iter().all(|r| r.get(index).is_none_or(numeric)) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
    }

    /// The text without spaces at the lines' ends.
    pub(crate) fn trimmed(&self) -> String {
        self.0.trim_fmt()
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
