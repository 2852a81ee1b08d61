//! What a verb prints: prose and tables, which fit a terminal if there is one.

use std::fmt::{self, Display, Formatter, Write};

use unicode_width::UnicodeWidthStr;

use crate::legend;
use crate::strip::{self, Strip};
use crate::table::{Table, broken};

/// Prose and tables in their order. Prose is written to it.
#[derive(Clone, Debug, Default)]
pub struct Text {
    blocks: Vec<TextBlock>,
}

#[derive(Clone, Debug)]
enum TextBlock {
    Prose(String),
    Table(Table),
    Strips(Vec<Strip>),
}

impl Text {
    /// Adds a table, which begins on a line of its own.
    pub fn table(&mut self, table: Table) {
        self.blocks.push(TextBlock::Table(table));
    }

    /// Adds lines of memory, drawn to scale.
    pub(crate) fn strips(&mut self, strips: Vec<Strip>) {
        self.blocks.push(TextBlock::Strips(strips));
    }

    /// Adds all of another text.
    pub fn append(&mut self, other: Text) {
        self.blocks.extend(other.blocks);
    }

    /// Adds what the columns of its tables mean.
    pub fn explain(&mut self) {
        let tables = self.blocks.iter().filter_map(|block| match block {
            TextBlock::Table(table) => Some(table),
            TextBlock::Prose(_) | TextBlock::Strips(_) => None,
        });
        let lines = legend::lines(tables.flat_map(Table::header));
        // Writing to a text does not fail.
        let _ = write!(self, "\nThe columns\n{lines}");
    }

    /// As lines of at most `width` columns; a line below each table lists what is not shown for
    /// that. `None`: unlimited width.
    #[must_use]
    pub fn fitted(&self, width: Option<usize>) -> String {
        self.in_columns(width, width)
    }

    /// For a file or another program: tables of at most `width` columns; prose unwrapped, a line
    /// for each, for text search.
    #[must_use]
    pub fn piped(&self, width: usize) -> String {
        self.in_columns(None, Some(width))
    }

    fn in_columns(&self, prose_width: Option<usize>, table_width: Option<usize>) -> String {
        let mut out = String::new();
        for block in &self.blocks {
            match block {
                TextBlock::Prose(prose) => wrap(&mut out, prose, prose_width),
                TextBlock::Strips(strips) => out.push_str(&strip::drawn(strips, table_width)),
                TextBlock::Table(table) => {
                    let (text, left_out) = table.fitted(table_width);
                    out.push_str(&text);
                    out.push('\n');
                    if !left_out.is_empty() {
                        let told = format!(
                            "(columns hidden: {}; --json has all)\n",
                            left_out.join(", ")
                        );
                        wrap(&mut out, &told, prose_width);
                    }
                }
            }
        }
        out
    }
}

/// Adds prose, its lines broken at `width`.
fn wrap(out: &mut String, prose: &str, width: Option<usize>) {
    let Some(width) = width else {
        out.push_str(prose);
        return;
    };
    for line in prose.split_inclusive('\n') {
        let (text, end) = match line.strip_suffix('\n') {
            Some(text) => (text, "\n"),
            None => (line, ""),
        };
        if text.width() <= width {
            out.push_str(text);
        } else {
            out.push_str(&broken(text, width).join("\n"));
        }
        out.push_str(end);
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        match self.blocks.last_mut() {
            Some(TextBlock::Prose(prose)) => prose.push_str(text),
            _ => self.blocks.push(TextBlock::Prose(text.to_owned())),
        }
        Ok(())
    }
}

impl Display for Text {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fitted(None))
    }
}
