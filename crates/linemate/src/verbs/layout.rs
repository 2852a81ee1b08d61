//! `linemate layout`: where the members of a type lie, in one kernel or in several side by side.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use linemate_types::{
    FlatType, KernelImage, Layout, LineSize, NamedMember, TypeId, TypeModel, named_members, pahole,
};
use serde::Serialize;

use crate::cli::Outcome;
use crate::input;
use crate::output;

/// Version of the form that `--json` writes (docs/schema-layout.md).
const SCHEMA: &str = "linemate.layout/1";

/// The BTF of the running kernel.
const RUNNING: &str = "/sys/kernel/btf/vmlinux";

/// Print the layout of a struct or union in pahole's form; of several kernels side by side.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The type: `rq`, `struct rq`, `union sigval`, or a typedef of one
    #[arg(value_name = "TYPE", value_parser = input::type_name)]
    type_name: String,
    /// A kernel image, ELF file or BTF blob; repeat it to compare (default: the running kernel, else the
    /// one that `make setup` fetched)
    #[arg(long, value_name = "IMAGE")]
    kernel: Vec<PathBuf>,
    /// Bytes of a cache line: 64 or 128
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = input::line_size)]
    line: LineSize,
    /// Write JSON (docs/schema-layout.md)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let mut kernels = match args.kernel.as_slice() {
        [] => vec![default_kernel()?],
        paths => paths
            .iter()
            .map(|path| read_kernel(path))
            .collect::<anyhow::Result<_>>()?,
    };
    for kernel in &mut kernels {
        kernel.type_id = kernel.model.declared(&args.type_name);
    }
    if kernels.iter().all(|kernel| kernel.type_id.is_none()) {
        return Err(unknown_type(&kernels, &args.type_name));
    }
    if args.json {
        output::json(&document(&kernels, args)?)?;
    } else if let [kernel] = kernels.as_slice() {
        output::text(&single(kernel, args)?)?;
    } else {
        output::text(&side_by_side(&kernels, args)?)?;
    }
    Ok(Outcome::Fine)
}

/// A kernel with its types.
struct Kernel {
    path: PathBuf,
    release: Option<String>,
    arch: Option<&'static str>,
    model: TypeModel,
    /// The type that was asked for.
    type_id: Option<TypeId>,
}

impl Kernel {
    /// What a column is called: the release, else the file.
    fn title(&self) -> String {
        self.release
            .clone()
            .unwrap_or_else(|| self.path.display().to_string())
    }
}

fn read_kernel(path: &Path) -> anyhow::Result<Kernel> {
    let bytes = linemate_files::read_file(path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let image = KernelImage::parse(&bytes).with_context(|| path.display().to_string())?;
    let model = image.types().with_context(|| path.display().to_string())?;
    let arch = image.arch.map(linemate_types::kernel_image::Arch::name);
    let mut kernel = Kernel {
        path: path.to_owned(),
        release: image.release,
        arch,
        model,
        type_id: None,
    };
    if path == Path::new(RUNNING) {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
        kernel.release = release.ok().map(|text| text.trim().to_owned());
        kernel.arch = Some(std::env::consts::ARCH);
    }
    Ok(kernel)
}

fn default_kernel() -> anyhow::Result<Kernel> {
    let running = Path::new(RUNNING);
    let kernel = match std::fs::File::open(running) {
        Ok(_) => read_kernel(running)?,
        Err(error) => {
            let found = linemate_guest::cache_folder()
                .and_then(|cache| linemate_guest::default_kernel(&cache));
            let found =
                found.with_context(|| format!("{RUNNING}: {error}; give --kernel IMAGE"))?;
            read_kernel(&found.path)?
        }
    };
    // Which kernel was taken is not to be guessed; stdout is pahole's form and nothing else.
    output::tell(&format!(
        "kernel {} ({})",
        kernel.title(),
        kernel.path.display()
    ));
    Ok(kernel)
}

fn unknown_type(kernels: &[Kernel], name: &str) -> anyhow::Error {
    let titles: Vec<String> = kernels.iter().map(Kernel::title).collect();
    let titles = titles.join(", ");
    if kernels
        .iter()
        .any(|kernel| kernel.model.lookup(name).is_some())
    {
        return anyhow!("`{name}` is neither a struct nor a union in {titles}");
    }
    let nearest = kernels
        .first()
        .map(|kernel| kernel.model.nearest_names(name));
    let nearest = linemate_text::suggestion(&nearest.unwrap_or_default());
    anyhow!("no type `{name}` in {titles}{nearest}")
}

fn single(kernel: &Kernel, args: &Args) -> anyhow::Result<String> {
    let printed = kernel
        .type_id
        .and_then(|id| pahole::print(&kernel.model, id, args.line));
    printed.ok_or_else(|| unknown_type(std::slice::from_ref(kernel), &args.type_name))
}

/// One kernel's column.
struct Column {
    title: String,
    layout: Option<Layout>,
    members: Vec<NamedMember>,
}

fn column(kernel: &Kernel, line: LineSize) -> anyhow::Result<Column> {
    let layout = kernel
        .type_id
        .and_then(|id| Layout::new(&kernel.model, id, line));
    let members = match kernel.type_id {
        Some(id) => named_members(&kernel.model, id, line)?,
        None => Vec::new(),
    };
    Ok(Column {
        title: kernel.title(),
        layout,
        members,
    })
}

/// The members of all columns: the first column's order, and what only later ones have after its neighbour.
fn member_names(columns: &[Column]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for column in columns {
        let mut at = 0;
        for member in &column.members {
            match names.iter().position(|name| *name == member.name.as_str()) {
                Some(position) => at = position + 1,
                None => {
                    names.insert(at, member.name.as_str());
                    at += 1;
                }
            }
        }
    }
    names
}

const CELL: usize = 22;

/// A figure of a whole layout.
type Total = fn(&Layout, LineSize) -> u64;

fn side_by_side(kernels: &[Kernel], args: &Args) -> anyhow::Result<String> {
    let columns = kernels
        .iter()
        .map(|k| column(k, args.line))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let names = member_names(&columns);
    let name_width = names
        .iter()
        .map(|name| name.len())
        .max()
        .unwrap_or(0)
        .max(12);
    let width = columns
        .iter()
        .map(|c| c.title.len() + 2)
        .max()
        .unwrap_or(0)
        .max(CELL);
    let mut text = format!(
        "{}, lines of {} bytes; offset, size and line (from 0) of each member, * where they differ\n\n",
        args.type_name.trim(),
        args.line.bytes()
    );
    let titles = columns.iter().map(|c| c.title.clone()).collect::<Vec<_>>();
    push_row(&mut text, ("", name_width), &titles, width, false);
    let heads = vec!["offset   size  line".to_owned(); columns.len()];
    push_row(&mut text, ("member", name_width), &heads, width, false);
    for name in names {
        let cells: Vec<String> = columns
            .iter()
            .map(|c| member_cell(c, name, args.line))
            .collect();
        let differs = cells.windows(2).any(|pair| pair[0] != pair[1]);
        push_row(&mut text, (name, name_width), &cells, width, differs);
    }
    text.push('\n');
    let totals: [(&str, Total); 4] = [
        ("size", |layout, _| layout.size),
        ("lines", Layout::lines),
        ("hole bytes", |layout, _| layout.hole_bytes()),
        ("padding", |layout, _| layout.padding),
    ];
    for (name, total) in totals {
        let cell = |c: &Column| {
            let value = c
                .layout
                .as_ref()
                .map(|layout| total(layout, args.line).to_string());
            format!("{:>6}{:13}", value.unwrap_or_else(|| "-".to_owned()), "")
        };
        let cells: Vec<String> = columns.iter().map(cell).collect();
        let differs = cells.windows(2).any(|pair| pair[0] != pair[1]);
        push_row(&mut text, (name, name_width), &cells, width, differs);
    }
    Ok(text)
}

fn member_cell(column: &Column, name: &str, line: LineSize) -> String {
    let Some(member) = column.members.iter().find(|m| m.name.as_str() == name) else {
        return format!("{:>6}{:13}", "-", "");
    };
    let (offset, size) = (member.place.offset, member.place.size);
    let size = match member.place.bits {
        Some((bit, width)) => format!("{bit}:{width}"),
        None => size.to_string(),
    };
    format!("{:>6} {size:>6} {:>5}", offset.0, offset.line(line).0)
}

fn push_row(
    text: &mut String,
    (name, name_width): (&str, usize),
    cells: &[String],
    width: usize,
    differs: bool,
) {
    let mut row = format!("{} {name:name_width$}", if differs { '*' } else { ' ' });
    for cell in cells {
        // Writing to a String does not fail.
        let _ = write!(row, "  {cell:>width$}");
    }
    text.push_str(row.trim_end());
    text.push('\n');
}

/// docs/schema-layout.md
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    #[serde(rename = "type")]
    type_name: &'a str,
    line: u64,
    kernels: Vec<KernelDocument>,
}

#[derive(Serialize)]
struct KernelDocument {
    path: String,
    release: Option<String>,
    arch: Option<&'static str>,
    layout: Option<LayoutDocument>,
}

#[derive(Serialize)]
struct LayoutDocument {
    size: u64,
    lines: u64,
    holes: u32,
    hole_bytes: u64,
    bit_holes: u32,
    padding: u64,
    bit_padding: u64,
    forced_alignment: u64,
    members: Vec<MemberDocument>,
    fields: Vec<FieldDocument>,
}

#[derive(Serialize)]
struct MemberDocument {
    name: String,
    #[serde(rename = "type")]
    type_name: String,
    offset: u64,
    size: u64,
    bits: Option<BitsDocument>,
    line: u32,
    hole: u64,
    bit_hole: u64,
    forced_alignment: u64,
}

#[derive(Serialize)]
struct BitsDocument {
    start: u64,
    width: u32,
}

#[derive(Serialize)]
struct FieldDocument {
    path: String,
    #[serde(rename = "type")]
    type_name: String,
    offset: u64,
    size: u64,
    bits: Option<BitsDocument>,
    line: u32,
    arrays: Vec<ArrayDocument>,
}

#[derive(Serialize)]
struct ArrayDocument {
    stride: u64,
    count: u64,
}

fn document<'a>(kernels: &[Kernel], args: &'a Args) -> anyhow::Result<Document<'a>> {
    let kernels = kernels
        .iter()
        .map(|kernel| {
            Ok(KernelDocument {
                path: kernel.path.display().to_string(),
                release: kernel.release.clone(),
                arch: kernel.arch,
                layout: kernel
                    .type_id
                    .map(|id| layout_document(kernel, id, args.line))
                    .transpose()?,
            })
        })
        .collect::<anyhow::Result<_>>()?;
    Ok(Document {
        schema: SCHEMA,
        type_name: args.type_name.trim(),
        line: args.line.bytes(),
        kernels,
    })
}

fn layout_document(kernel: &Kernel, id: TypeId, line: LineSize) -> anyhow::Result<LayoutDocument> {
    let Some(layout) = Layout::new(&kernel.model, id, line) else {
        bail!("type {id} has no layout")
    };
    let members = named_members(&kernel.model, id, line)?
        .into_iter()
        .map(|member| {
            let place = member.place;
            MemberDocument {
                name: member.name.to_string(),
                type_name: kernel.model.type_name(member.type_id),
                offset: place.offset.0,
                size: place.size,
                bits: place
                    .bits
                    .map(|(start, width)| BitsDocument { start, width }),
                line: place.offset.line(line).0,
                hole: place.hole,
                bit_hole: place.bit_hole,
                forced_alignment: place.forced_alignment,
            }
        });
    let flat = FlatType::new(&kernel.model, id)?;
    let fields = flat.leaves().iter().map(|leaf| FieldDocument {
        path: leaf.path.clone(),
        type_name: kernel.model.type_name(leaf.type_id),
        offset: leaf.offset.0,
        size: leaf.size,
        bits: leaf.bits.map(|(start, width)| BitsDocument {
            start: start.0 % 8,
            width,
        }),
        line: leaf.offset.line(line).0,
        arrays: leaf
            .arrays
            .iter()
            .map(|(stride, count)| ArrayDocument {
                stride: *stride,
                count: *count,
            })
            .collect(),
    });
    Ok(LayoutDocument {
        size: layout.size,
        lines: layout.lines(line),
        holes: layout.holes,
        hole_bytes: layout.hole_bytes(),
        bit_holes: layout.bit_holes,
        padding: layout.padding,
        bit_padding: layout.bit_padding,
        forced_alignment: layout.forced_alignment,
        members: members.collect(),
        fields: fields.collect(),
    })
}
