//! `linemate layout`: where the members of a type lie, in one kernel or in several side by side.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use linemate_report::{KernelLayout, LayoutDocument, TypeLayout};
use linemate_types::{KernelImage, LineSize, TypeId, TypeModel, pahole};

use crate::cli::Outcome;
use crate::input;
use crate::output;

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
        output::text(&document(&kernels, args)?.text())?;
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

fn document(kernels: &[Kernel], args: &Args) -> anyhow::Result<LayoutDocument> {
    let kernels = kernels.iter().map(|kernel| {
        let layout = kernel
            .type_id
            .map(|id| TypeLayout::new(&kernel.model, id, args.line));
        Ok(KernelLayout {
            path: kernel.path.display().to_string(),
            release: kernel.release.clone(),
            arch: kernel.arch.map(Into::into),
            layout: layout.transpose()?,
        })
    });
    let kernels = kernels.collect::<anyhow::Result<_>>()?;
    Ok(LayoutDocument::new(
        args.type_name.trim(),
        args.line,
        kernels,
    ))
}
