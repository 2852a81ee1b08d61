//! Tables of text.

use std::fmt::{self, Display, Formatter};

use comfy_table::{CellAlignment, presets};
use linemate_text::shown;
use unicode_width::UnicodeWidthStr;

/// Columns that a narrow terminal omits, in the order in which they go: what follows from others or
/// matters to few goes first.
const LEFT_OUT: [&str; 28] = [
    "silent",
    "objects",
    "upgrades",
    "memory",
    "waited",
    "holes",
    "size",
    "RMW",
    "where",
    "capacity",
    "cold",
    "after",
    "misses before",
    "accesses before",
    "other misses",
    "HITM domain",
    "HITM socket",
    "readers",
    "writers",
    "lines",
    "bytes",
    "most by",
    "most in",
    "loads",
    "stores",
    "left the core",
    "of all",
    "of all cost",
];
/// Space between two columns, and at the ends of a row.
const PADDING: usize = 2;
/// The last column, if it is one of names, is cut or broken to no less.
const LIST_MIN: usize = 16;
/// Last columns of which the first names say most: what does not fit is cut.
const CUT: [&str; 2] = ["most by", "most in"];
/// Names are broken into no narrower pieces.
const NAME_MIN: usize = 12;

/// A table without borders. Without a width it is as wide as its cells: the same bytes everywhere.
/// Names in its cells may come from files: each cell is printed by [`shown`], in one line.
#[derive(Clone, Debug)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    align: Align,
}

/// Which columns are aligned to the right.
#[derive(Clone, Copy, Debug)]
enum Align {
    /// None.
    Left,
    /// All from the second on.
    Right,
    /// From this one on those whose cells are numbers.
    NumbersFrom(usize),
}

impl Table {
    /// A table with a header and no rows.
    #[must_use]
    pub fn new(header: &[&str]) -> Table {
        Table {
            header: header.iter().map(|&title| title.to_owned()).collect(),
            rows: Vec::new(),
            align: Align::Left,
        }
    }

    /// An empty table whose columns from the second on are aligned to the right.
    #[must_use]
    pub fn of_figures(header: &[&str]) -> Table {
        Table {
            align: Align::Right,
            ..Table::new(header)
        }
    }

    /// Adds a row of as many cells as the header has.
    pub fn add_row(&mut self, cells: Vec<String>) {
        let cells = cells.iter().map(|cell| shown(cell).to_string());
        self.rows.push(cells.collect());
    }

    /// Whether it has no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Numbers to the right: every column from `from` on whose cells are numbers.
    pub(crate) fn align(&mut self, from: usize) {
        self.align = Align::NumbersFrom(from);
    }

    /// The titles of the columns, in order.
    pub(crate) fn header(&self) -> impl Iterator<Item = &str> {
        self.header.iter().map(String::as_str)
    }

    /// The text without spaces at the lines' ends, in at most `width` columns, and the titles of
    /// the columns that are left out for that.
    pub(crate) fn fitted(&self, width: Option<usize>) -> (String, Vec<&str>) {
        let mut fit = Fit::new(self);
        if let Some(width) = width {
            fit.narrow(width);
        }
        let left_out = (0..self.header.len()).filter(|at| !fit.columns.contains(at));
        let left_out = left_out.map(|at| self.header[at].as_str()).collect();
        (fit.table().trim_fmt(), left_out)
    }

    /// Whether all cells of a column are numbers.
    fn is_numeric(&self, column: usize) -> bool {
        let numeric =
            |cell: &String| cell.is_empty() || cell.starts_with(|c: char| c.is_ascii_digit());
        self.rows
            .iter()
            .all(|row| row.get(column).is_none_or(numeric))
    }

    fn is_right(&self, column: usize) -> bool {
        match self.align {
            Align::Left => false,
            Align::Right => column > 0,
            Align::NumbersFrom(from) => column >= from && self.is_numeric(column),
        }
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fitted(None).0)
    }
}

/// Which columns of a table are shown, and how wide.
struct Fit<'t> {
    table: &'t Table,
    /// Those that are shown.
    columns: Vec<usize>,
    /// By column of the table.
    widths: Vec<usize>,
}

impl<'t> Fit<'t> {
    fn new(table: &'t Table) -> Fit<'t> {
        let width = |column: usize| {
            let cells = table.rows.iter().filter_map(|row| row.get(column));
            let title = table.header.get(column);
            cells.chain(title).map(|cell| cell.width()).max()
        };
        let columns: Vec<usize> = (0..table.header.len()).collect();
        let widths = columns.iter().map(|column| width(*column).unwrap_or(0));
        Fit {
            table,
            widths: widths.collect(),
            columns,
        }
    }

    fn total(&self) -> usize {
        let widths = self.columns.iter().map(|column| self.widths[*column]);
        widths.map(|width| width + PADDING).sum()
    }

    /// Cuts the last column's names, then leaves columns out, then breaks names, until it fits.
    fn narrow(&mut self, width: usize) {
        self.shrink_last(width);
        for title in LEFT_OUT {
            if self.total() <= width {
                break;
            }
            self.columns
                .retain(|column| self.table.header[*column] != title);
            self.shrink_last(width);
        }
        // Where a wide one went there may be room for others again.
        for title in LEFT_OUT.iter().rev() {
            self.take_back(title, width);
        }
        self.shrink_names(width);
        while self.total() > width && self.columns.len() > 1 {
            self.columns.pop();
        }
        // Never wider than asked, even if names are then broken after each letter.
        self.shrink(0, width, 1);
    }

    /// Makes columns of names narrower, the widest first.
    fn shrink_names(&mut self, width: usize) {
        let mut names: Vec<usize> = self.columns.clone();
        names.retain(|column| *column == 0 || !self.table.is_right(*column));
        names.sort_by_key(|column| std::cmp::Reverse(self.widths[*column]));
        for column in names {
            self.shrink(column, width, NAME_MIN);
        }
    }

    fn take_back(&mut self, title: &str, width: usize) {
        let Some(column) = self.table.header.iter().position(|known| known == title) else {
            return;
        };
        let needed = self.total() + self.widths[column] + PADDING;
        if needed <= width && !self.columns.contains(&column) {
            let at = self.columns.partition_point(|shown| *shown < column);
            self.columns.insert(at, column);
        }
    }

    /// Makes the last column narrower if it is one of names.
    fn shrink_last(&mut self, width: usize) {
        match self.columns.last() {
            Some(&last) if last > 0 && !self.table.is_right(last) => {
                self.shrink(last, width, LIST_MIN);
            }
            _ => {}
        }
    }

    fn shrink(&mut self, column: usize, width: usize, least: usize) {
        let over = self.total().saturating_sub(width);
        let natural = self.widths[column];
        self.widths[column] = natural.saturating_sub(over).max(least.min(natural));
    }

    fn table(&self) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        let titles = self
            .columns
            .iter()
            .map(|column| self.cell(*column, &self.table.header));
        table
            .load_preset(presets::NOTHING)
            .set_header(titles.collect::<Vec<String>>());
        for row in &self.table.rows {
            let cells = self.columns.iter().map(|column| self.cell(*column, row));
            table.add_row(cells.collect::<Vec<String>>());
        }
        for (column, shown) in self.columns.iter().zip(table.column_iter_mut()) {
            if self.table.is_right(*column) {
                shown.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }

    /// The cell of a row, in lines if it does not fit.
    fn cell(&self, column: usize, row: &[String]) -> String {
        let Some(cell) = row.get(column) else {
            return String::new();
        };
        let width = self.widths[column];
        match self.table.header[column].as_str() {
            title if CUT.contains(&title) => cut(cell, width),
            _ => broken(cell, width).join("\n"),
        }
    }
}

/// The text if it fits, else as many of its words as do, at least a part of the first one, and `…`.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for word in text.split(' ') {
        if kept.width() + word.width() + 2 > width {
            break;
        }
        kept.push_str(word);
        kept.push(' ');
    }
    for letter in text.chars() {
        if !kept.is_empty() && (kept.ends_with(' ') || kept.width() + 2 > width) {
            break;
        }
        kept.push(letter);
    }
    kept.push('…');
    kept
}

/// The text in lines of at most `width` columns, the later ones indented; broken after spaces and
/// dots where that is possible.
pub(crate) fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for piece in text.split_inclusive([' ', '.', '|']) {
        if !line.trim().is_empty() && line.width() + piece.trim_end().width() > width {
            lines.push(std::mem::replace(&mut line, indent(width)));
        }
        for letter in piece.chars() {
            // A space at the end takes no room.
            if letter != ' ' && line.width() + letter_width(letter) > width {
                lines.push(std::mem::replace(&mut line, indent(width)));
            }
            line.push(letter);
        }
    }
    lines.push(line);
    for line in &mut lines {
        line.truncate(line.trim_end().len());
    }
    lines
}

fn letter_width(letter: char) -> usize {
    letter.encode_utf8(&mut [0; 4]).width()
}

/// What a line after the first one begins with.
fn indent(width: usize) -> String {
    match width {
        0..=4 => String::new(),
        _ => "  ".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide() -> Table {
        let mut table = Table::new(&["field", "accesses", "silent", "RMW", "most by"]);
        table.align(1);
        for (field, accesses) in [
            ("cfs.avg.util_est_of_a_member_with_a_long_name", 123_456),
            ("lock", 7),
        ] {
            table.add_row(vec![
                field.to_owned(),
                accesses.to_string(),
                "0".to_owned(),
                "12".to_owned(),
                "first_function second_function third_function".to_owned(),
            ]);
        }
        table
    }

    #[test]
    fn no_row_is_wider_than_requested() {
        let table = wide();
        for width in 1..140 {
            let (text, _) = table.fitted(Some(width));
            let widest = text.lines().map(UnicodeWidthStr::width).max();
            // Padding alone takes two columns, and a letter one.
            assert!(widest <= Some(width.max(3)), "{width}:\n{text}");
        }
    }

    #[test]
    fn what_is_left_out_is_reported() {
        let table = wide();
        let (whole, left_out) = table.fitted(None);
        assert!(left_out.is_empty());
        assert!(whole.lines().all(|line| line.width() <= 130), "{whole}");
        let (text, left_out) = table.fitted(Some(80));
        assert_eq!(left_out, ["silent"]);
        assert!(text.contains("first_function …"), "{text}");
        let (text, left_out) = table.fitted(Some(60));
        assert_eq!(left_out, ["silent", "RMW", "most by"]);
        assert!(text.contains("cfs.avg.util_est_of_a_member_with_a_long_name"));
        let (text, _) = table.fitted(Some(40));
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(
            lines[1..4],
            [
                "cfs.avg.                        123456",
                "util_est_of_a_member_with_",
                "a_long_name"
            ]
        );
    }

    #[test]
    fn a_long_name_in_any_column_leaves_room_for_figures() {
        let mut table = Table::new(&["offset", "field", "cycles"]);
        table.align(0);
        let name = "a_union | of | many | members | at | one | place";
        table.add_row(vec!["2432".to_owned(), name.to_owned(), "12".to_owned()]);
        let (text, left_out) = table.fitted(Some(30));
        assert!(left_out.is_empty(), "{left_out:?}");
        assert!(text.contains("12"), "{text}");
        assert!(text.lines().all(|line| line.width() <= 30), "{text}");
    }

    #[test]
    fn names_are_cut_after_the_first_ones() {
        assert_eq!(cut("one two three", 13), "one two three");
        assert_eq!(cut("one two three", 12), "one two …");
        assert_eq!(cut("function_of_a_long_name next", 12), "function_of…");
        let mut table = Table::new(&["share", "fields"]);
        table.add_row(vec![
            "1 %".to_owned(),
            "first second third fourth".to_owned(),
        ]);
        let (text, _) = table.fitted(Some(25));
        assert_eq!(
            text,
            " share  fields\n 1 %    first second\n          third fourth"
        );
    }

    #[test]
    fn text_breaks_at_words() {
        assert_eq!(broken("one two three", 8), ["one two", "  three"]);
        assert_eq!(broken("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(broken("", 3), [""]);
    }
}
