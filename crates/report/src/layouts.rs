//! Where the members of a type are, in one kernel or in several side by side.

use std::borrow::Cow;
use std::fmt::Write as _;

use linemate_types::{FlattenError, Layout, LineSize, TypeId, TypeModel, named_members};
use serde::{Deserialize, Serialize};

use crate::heat::Heat;
use crate::leaves::{BitRange, FieldMap, FieldPlace};

/// What `linemate layout --json` writes (docs/reference/json/layout.md).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutDocument {
    /// [`LayoutDocument::SCHEMA`].
    pub schema: Cow<'static, str>,
    /// The type that was asked for.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Bytes of a line.
    pub line: u64,
    /// The type in each kernel, in the order given.
    pub kernels: Vec<KernelLayout>,
}

/// A kernel and what the type is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelLayout {
    /// The file that was read.
    pub path: String,
    /// The kernel's release, where the file tells.
    pub release: Option<String>,
    /// As `uname -m` has it, where the file tells.
    pub arch: Option<Cow<'static, str>>,
    /// None: this kernel has no such type.
    pub layout: Option<TypeLayout>,
}

/// The layout of a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeLayout {
    /// `sizeof`.
    pub size: u64,
    /// Lines that it touches when it starts at the start of one.
    pub lines: u64,
    /// Gaps between direct members.
    pub holes: u32,
    /// Bytes in them.
    pub hole_bytes: u64,
    /// Gaps between bit-fields.
    pub bit_holes: u32,
    /// Unused bytes at the end.
    pub padding: u64,
    /// Unused bits of the last bit-field's storage unit.
    pub bit_padding: u64,
    /// The alignment that the declaration seems to force, 0 for none.
    pub forced_alignment: u64,
    /// The named members in declaration order, those of anonymous structs and unions in their place.
    pub members: Vec<MemberEntry>,
    /// The field paths down to scalars, in declaration order.
    pub fields: Vec<FieldPlace>,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberEntry {
    /// Its name.
    pub name: String,
    /// Its C type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Its first byte; of a bit-field its storage unit's.
    pub offset: u64,
    /// Its bytes, likewise.
    pub size: u64,
    /// The bits of a bit-field, in its storage unit.
    pub bits: Option<BitRange>,
    /// The line of its first byte, from 0.
    pub line: u32,
    /// Unused bytes after it.
    pub hole: u64,
    /// Unused bits after it.
    pub bit_hole: u64,
    /// The alignment that its declaration seems to force, 0 for none.
    pub forced_alignment: u64,
    /// How often it is accessed, where a recording says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heat: Option<Heat>,
}

impl TypeLayout {
    /// The layout of the struct or union `id`, with lines of that size.
    ///
    /// # Errors
    /// No struct or union, or too many members (hostile types only).
    pub fn new(model: &TypeModel, id: TypeId, line: LineSize) -> Result<Self, FlattenError> {
        let layout = Layout::new(model, id, line).ok_or(FlattenError::NoSuchType(id))?;
        let members = named_members(model, id, line)?.into_iter().map(|member| {
            let place = member.place;
            MemberEntry {
                name: member.name.to_string(),
                type_name: model.type_name(member.type_id),
                offset: place.offset.0,
                size: place.size,
                bits: place.bits.map(|(start, width)| BitRange { start, width }),
                line: place.offset.line(line).0,
                hole: place.hole,
                bit_hole: place.bit_hole,
                forced_alignment: place.forced_alignment,
                heat: None,
            }
        });
        Ok(TypeLayout {
            size: layout.size,
            lines: layout.lines(line),
            holes: layout.holes,
            hole_bytes: layout.hole_bytes(),
            bit_holes: layout.bit_holes,
            padding: layout.padding,
            bit_padding: layout.bit_padding,
            forced_alignment: layout.forced_alignment,
            members: members.collect(),
            fields: FieldMap::new(model, id)?.fields,
        })
    }
}

impl KernelLayout {
    /// What a column is called: the release, else the file.
    fn title(&self) -> &str {
        self.release.as_ref().unwrap_or(&self.path)
    }

    fn members(&self) -> &[MemberEntry] {
        match &self.layout {
            Some(layout) => &layout.members,
            None => &[],
        }
    }
}

/// A figure of a whole layout.
type Total = fn(&TypeLayout) -> u64;

impl LayoutDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.layout/2";

    /// The document of these kernels.
    #[must_use]
    pub fn new(type_name: &str, line: LineSize, kernels: Vec<KernelLayout>) -> Self {
        LayoutDocument {
            schema: Self::SCHEMA.into(),
            type_name: type_name.to_owned(),
            line: line.bytes(),
            kernels,
        }
    }

    /// The members of all kernels side by side.
    #[must_use]
    pub fn text(&self) -> String {
        let names = self.member_names();
        let longest = names.iter().map(|name| name.len()).max();
        let titles: Vec<String> = self.kernels.iter().map(|k| k.title().to_owned()).collect();
        let widest = titles.iter().map(|title| title.len() + 2).max();
        let mut table = SideBySide {
            text: format!(
                "{}, lines of {} bytes; offset, size and line (from 0) of each member, * where they differ\n\n",
                self.type_name, self.line
            ),
            names: longest.unwrap_or(0).max(12),
            cells: widest.unwrap_or(0).max(CELL),
        };
        table.push("", &titles, false);
        let heads = vec!["offset   size  line".to_owned(); self.kernels.len()];
        table.push("member", &heads, false);
        for name in names {
            table.compare(name, self.kernels.iter().map(|k| member_cell(k, name)));
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
            table.compare(name, self.kernels.iter().map(cell));
        }
        table.text
    }

    /// The members of all kernels: the first one's order, and what only later ones have after its neighbour.
    fn member_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for kernel in &self.kernels {
            let mut at = 0;
            for member in kernel.members() {
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
    let Some(member) = kernel.members().iter().find(|m| m.name == name) else {
        return format!("{:>6}{:13}", "-", "");
    };
    let size = match member.bits {
        Some(bits) => format!("{}:{}", bits.start, bits.width),
        None => member.size.to_string(),
    };
    format!("{:>6} {size:>6} {:>5}", member.offset, member.line)
}
