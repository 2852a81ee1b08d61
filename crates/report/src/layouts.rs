//! Where the members of a type are, in one kernel or in several side by side.

use std::fmt::Write as _;

use linemate_answers::{KernelLayout, LayoutDocument, MemberEntry, TypeLayout};

/// What a column is called: the release, else the file.
fn title(kernel: &KernelLayout) -> &str {
    kernel.release.as_ref().unwrap_or(&kernel.path)
}

fn members(kernel: &KernelLayout) -> &[MemberEntry] {
    match &kernel.layout {
        Some(layout) => &layout.members,
        None => &[],
    }
}

/// A figure of a whole layout.
type Total = fn(&TypeLayout) -> u64;

/// The members of all kernels side by side.
#[must_use]
pub fn layout_text(document: &LayoutDocument) -> String {
    let names = member_names(document);
    let longest = names.iter().map(|name| name.len()).max();
    let titles: Vec<String> = document
        .kernels
        .iter()
        .map(|k| title(k).to_owned())
        .collect();
    let widest = titles.iter().map(|title| title.len() + 2).max();
    let mut table = SideBySide {
        text: format!(
            "{}, lines of {} bytes; offset, size and line (from 0) of each member, * where they differ\n\n",
            document.type_name, document.line
        ),
        names: longest.unwrap_or(0).max(12),
        cells: widest.unwrap_or(0).max(CELL),
    };
    table.push("", &titles, false);
    let heads = vec!["offset   size  line".to_owned(); document.kernels.len()];
    table.push("member", &heads, false);
    for name in names {
        table.compare(name, document.kernels.iter().map(|k| member_cell(k, name)));
    }
    table.text.push('\n');
    let totals: [(&str, Total); 4] = [
        ("size", |layout| layout.size),
        ("lines", |layout| layout.lines),
        ("hole bytes", |layout| layout.hole_bytes),
        ("padding", |layout| layout.padding),
    ];
    for (name, total) in totals {
        let cell = |kernel: &KernelLayout| {
            let value = kernel.layout.as_ref().map(|l| total(l).to_string());
            format!("{:>6}{:13}", value.unwrap_or_else(|| "-".to_owned()), "")
        };
        table.compare(name, document.kernels.iter().map(cell));
    }
    table.text
}

/// The members of all kernels: the first one's order, and what only later ones have after its
/// neighbour.
fn member_names(document: &LayoutDocument) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for kernel in &document.kernels {
        let mut at = 0;
        for member in members(kernel) {
            match names.iter().position(|name| *name == member.name) {
                Some(position) => at = position + 1,
                None => {
                    names.insert(at, &member.name);
                    at += 1;
                }
            }
        }
    }
    names
}

/// The least width of a kernel's column.
const CELL: usize = 22;

/// Kernels side by side: a column of names, and one for each kernel.
struct SideBySide {
    text: String,
    names: usize,
    cells: usize,
}

impl SideBySide {
    /// Adds a row, marked if its cells differ.
    fn compare(&mut self, name: &str, cells: impl Iterator<Item = String>) {
        let cells: Vec<String> = cells.collect();
        let differs = cells.windows(2).any(|pair| pair[0] != pair[1]);
        self.push(name, &cells, differs);
    }

    fn push(&mut self, name: &str, cells: &[String], differs: bool) {
        let mark = if differs { '*' } else { ' ' };
        let mut row = format!("{mark} {name:width$}", width = self.names);
        for cell in cells {
            // Writing to a String does not fail.
            let _ = write!(row, "  {cell:>width$}", width = self.cells);
        }
        self.text.push_str(row.trim_end());
        self.text.push('\n');
    }
}

fn member_cell(kernel: &KernelLayout, name: &str) -> String {
    let Some(member) = members(kernel).iter().find(|m| m.name == name) else {
        return format!("{:>6}{:13}", "-", "");
    };
    let size = match member.bits {
        Some(bits) => format!("{}:{}", bits.start, bits.width),
        None => member.size.to_string(),
    };
    format!("{:>6} {size:>6} {:>5}", member.offset, member.line)
}
