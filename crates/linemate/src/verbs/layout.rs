//! `linemate layout`: where the members of a type are, in one kernel or program or in several side
//! by side.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use linemate_answers::{By, KernelLayout, LayoutDocument, Report, View};
use linemate_documents::{
    ReportOptions, UnknownType, add_heat, layout_document, report_document, type_layout,
};
use linemate_report::{layout_text, with_heat};
use linemate_types::{LineSize, TypeId, TypeModel, pahole};

use crate::files::InFile;
use crate::input;
use crate::kept::Keeping;
use crate::named_kernel;
use crate::outcome::Outcome;
use crate::output;
use crate::program;

/// The BTF of the running kernel.
const RUNNING: &str = "/sys/kernel/btf/vmlinux";

/// Print the layout of a struct or union as pahole does; several kernels or programs side by side
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The type: `rq`, `struct rq`, `union sigval`, or a typedef of one
    #[arg(value_name = "TYPE", value_parser = input::type_name)]
    type_name: String,
    /// A kernel image, ELF file or BTF blob, or a name such as debian:6.12 or debian:6.12-arm64;
    /// repeat to compare [default: the kernel of the recording in linemate.data, else the running
    /// one, else the newest in the cache]
    #[arg(long, value_name = "IMAGE", conflicts_with = "input")]
    kernel: Vec<InFile>,
    /// A program or library compiled with -g, or with a debug file where debuggers look; repeat to
    /// compare
    #[arg(long, value_name = "FILE", conflicts_with_all = ["input", "kernel"])]
    program: Vec<InFile>,
    /// A recording: show the layout in its kernel, and each member's accesses [default:
    /// linemate.data, if present]
    #[arg(short, long, value_name = "FILE")]
    input: Option<InFile>,
    #[command(flatten)]
    keeping: Keeping,
    /// Cache line size in bytes: 64 or 128
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = input::LineSizes)]
    line: LineSize,
    /// Write JSON (docs/reference/json/layout.md)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    if let Some(path) = recording(args) {
        return of_recording(args, path);
    }
    let named = named_kernel::images(&args.kernel)?;
    let kernels = named.iter().map(|path| read_kernel(path));
    let programs = args.program.iter().map(|path| read_program(path));
    let mut kernels: Vec<Kernel> = kernels.chain(programs).collect::<anyhow::Result<_>>()?;
    if kernels.is_empty() {
        kernels.push(default_kernel()?);
    }
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
        output::text(&layout_text(&document(&kernels, args)?))?;
    }
    Ok(Outcome::Fine)
}

/// The recording whose kernel is meant.
fn recording(args: &Args) -> Option<&Path> {
    let usual = Path::new(input::DEFAULT);
    let is_default = || args.kernel.is_empty() && args.program.is_empty() && usual.is_file();
    args.input
        .as_deref()
        .or_else(|| is_default().then_some(usual))
}

/// The layout in the kernel of a recording, with how often each member is accessed.
fn of_recording(args: &Args, path: &Path) -> anyhow::Result<Outcome> {
    let recording = input::open(path)?;
    let session = input::ask(path, &recording, args.keeping)?;
    let analysis = session.analysis();
    let model = analysis.model();
    let release = recording.description().kernel.clone();
    let title = || path.display().to_string();
    let Some(id) = model.declared(&args.type_name) else {
        let unnamed = recording.description().kernel_unnamed;
        let hint = if unnamed {
            linemate_documents::UNNAMED
        } else {
            ""
        };
        return Err(unknown(
            &format!("{}{hint}", title()),
            model,
            &args.type_name,
        ));
    };
    // The user should not have to guess which kernel was used.
    output::to_stderr(&format!(
        "kernel {} ({})",
        release.as_deref().unwrap_or("of unknown release"),
        title()
    ));
    let options = ReportOptions {
        by: By::Type,
        type_name: Some(args.type_name.clone()),
        all: true,
        top: usize::MAX,
        line: args.line,
    };
    let report = report_document(analysis, session.counted(), &options);
    let view = match report {
        Ok(Report {
            view: View::Type(view),
            ..
        }) => Some(view),
        // A type without known objects: there are no counts to show.
        Ok(_) | Err(UnknownType { .. }) => None,
    };
    if args.json {
        let mut layout = type_layout(model, id, args.line)?;
        if let Some(view) = &view {
            add_heat(&mut layout, view);
        }
        let kernel = KernelLayout {
            path: title(),
            release,
            arch: None,
            layout: Some(layout),
        };
        let document = layout_document(args.type_name.trim(), args.line, vec![kernel]);
        output::json(&document)?;
        return Ok(Outcome::Fine);
    }
    let printed = pahole::print(model, id, args.line)
        .ok_or_else(|| unknown(&title(), model, &args.type_name))?;
    match &view {
        Some(view) => output::text(&with_heat(&printed, view))?,
        None => output::text(&printed)?,
    }
    Ok(Outcome::Fine)
}

/// A kernel or program with its types.
struct Kernel {
    path: PathBuf,
    release: Option<String>,
    arch: Option<&'static str>,
    model: TypeModel,
    /// The requested type.
    type_id: Option<TypeId>,
}

impl Kernel {
    /// The heading of a column: the release, else the file.
    fn title(&self) -> String {
        self.release
            .clone()
            .unwrap_or_else(|| self.path.display().to_string())
    }
}

fn read_kernel(path: &Path) -> anyhow::Result<Kernel> {
    let image = named_kernel::parse(path)?;
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

fn read_program(path: &Path) -> anyhow::Result<Kernel> {
    Ok(Kernel {
        path: path.to_owned(),
        release: None,
        arch: None,
        model: program::model(path)?,
        type_id: None,
    })
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
    // The user should not have to guess which kernel was used; stdout has only pahole's form.
    output::to_stderr(&format!(
        "kernel {} ({})",
        kernel.title(),
        kernel.path.display()
    ));
    Ok(kernel)
}

fn unknown_type(kernels: &[Kernel], name: &str) -> anyhow::Error {
    let titles: Vec<String> = kernels.iter().map(Kernel::title).collect();
    let titles = titles.join(", ");
    let named = kernels
        .iter()
        .find(|kernel| kernel.model.lookup(name).is_some());
    match named.or(kernels.first()) {
        Some(kernel) => unknown(&titles, &kernel.model, name),
        None => anyhow!("no type `{name}`"),
    }
}

/// The error for a name that no struct or union has.
fn unknown(titles: &str, model: &TypeModel, name: &str) -> anyhow::Error {
    if model.lookup(name).is_some() {
        return anyhow!("`{name}` is neither a struct nor a union in {titles}");
    }
    let nearest = linemate_text::suggestion(&model.nearest_names(name));
    anyhow!("no type `{name}` in {titles}{nearest}")
}

fn single(kernel: &Kernel, args: &Args) -> anyhow::Result<String> {
    let printed = kernel
        .type_id
        .and_then(|id| pahole::print(&kernel.model, id, args.line));
    printed.ok_or_else(|| unknown_type(std::slice::from_ref(kernel), &args.type_name))
}

fn document(kernels: &[Kernel], args: &Args) -> anyhow::Result<LayoutDocument> {
    let kernels = kernels.iter().map(|kernel| {
        let layout = kernel
            .type_id
            .map(|id| type_layout(&kernel.model, id, args.line));
        Ok(KernelLayout {
            path: kernel.path.display().to_string(),
            release: kernel.release.clone(),
            arch: kernel.arch.map(Into::into),
            layout: layout.transpose()?,
        })
    });
    let kernels = kernels.collect::<anyhow::Result<_>>()?;
    Ok(layout_document(args.type_name.trim(), args.line, kernels))
}
