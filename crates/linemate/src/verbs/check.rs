//! `linemate check`: whether kernels keep the rules about which members share lines, or recordings
//! the groups that types declare.

mod recorded;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use linemate_answers::{CheckedKernel, DeclaredPlace};
use linemate_documents::{check_document, checked_kernel, sarif};
use linemate_report::check_text;
use linemate_rules::{AssertionLanguage, Baseline, Checked, Rules, Where, assertions};
use linemate_types::kernel_image::Arch;
use linemate_types::{LineSize, TypeModel};

use crate::files::{InFile, OutFile, UpdatedFile};
use crate::kept::Keeping;
use crate::named_kernel;
use crate::number::{ROWS_MAX, between};
use crate::outcome::Outcome;
use crate::program;

/// Check kernels and programs against rules about which members share cache lines, or a recording
/// against the groups that the kernel's types declare
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A rules file (docs/guide/check.md)
    #[arg(value_name = "RULES", required_unless_present = "recording")]
    rules: Option<InFile>,
    /// Kernel images, ELF files, BTF blobs, or names such as debian:6.12 or debian:6.12-arm64, of
    /// any version, configuration and architecture
    #[arg(long, value_name = "IMAGE", num_args = 1..)]
    kernel: Vec<InFile>,
    /// Programs or libraries compiled with -g, or with debug files where debuggers look
    #[arg(long, value_name = "FILE", num_args = 1..)]
    program: Vec<InFile>,
    /// Cache line size for all of them, in bytes: 64 or 128 [default: what each is built for, 128
    /// for ppc64, else 64; 64 for programs]
    #[arg(long, value_name = "BYTES", value_parser = crate::input::LineSizes)]
    line: Option<LineSize>,
    /// Known findings: only new and worse ones fail
    #[arg(long, value_name = "FILE")]
    baseline: Option<UpdatedFile>,
    /// Write the findings as a baseline; with --baseline, only known ones that remain
    #[arg(long, value_name = "FILE")]
    write_baseline: Option<OutFile>,
    /// A recording: check members of the groups that types declare (`__cacheline_group_begin`)
    /// against their accesses
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["rules", "kernel", "program", "line", "baseline", "write_baseline", "sarif"]
    )]
    recording: Option<InFile>,
    /// With --recording: maximum number of misplaced members, 0 to 1000000
    #[arg(long, value_name = "N", requires = "recording", default_value_t = 40, value_parser = between(0, ROWS_MAX))]
    top: usize,
    #[command(flatten)]
    keeping: Keeping,
    /// Write JSON (docs/reference/json/check.md)
    #[arg(long, conflicts_with = "sarif")]
    json: bool,
    /// Write SARIF 2.1.0; locations are where members are declared, if that is below this folder,
    /// else in the rules file
    #[arg(long)]
    sarif: bool,
    /// Instead of checking, write the rules as compile-time assertions, for lines of 64 bytes or
    /// --line
    #[arg(long, value_name = "LANGUAGE", value_enum, conflicts_with_all = ["kernel", "program", "recording", "baseline", "write_baseline", "json", "sarif"])]
    emit: Option<Emitted>,
}

/// What `--emit` writes.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Emitted {
    C,
    Cpp,
    Rust,
}

/// One kernel or program with what it breaks.
struct Kernel {
    path: PathBuf,
    program: bool,
    release: Option<String>,
    arch: Option<Arch>,
    line: LineSize,
    checked: Checked,
}

impl Kernel {
    fn place(&self) -> Where {
        Where {
            arch: self.arch.map_or("any", Arch::name).to_owned(),
            line: self.line,
        }
    }

    /// What it breaks, with what the baseline says about each finding.
    fn document(&self, baseline: Option<&Baseline>) -> CheckedKernel {
        let place = self.place();
        let kernel = checked_kernel(
            self.path.display().to_string(),
            self.release.clone(),
            self.arch.map(Arch::name),
            self.line.bytes(),
            &self.checked,
            |finding| baseline.map(|baseline| baseline.verdict(&place, finding)),
        );
        CheckedKernel {
            program: self.program,
            ..kernel
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    match (&args.recording, &args.rules) {
        (Some(recording), _) => recorded::run(args, recording),
        (None, Some(rules)) => check_rules(args, rules),
        // The parser asks for one of them.
        (None, None) => bail!("nothing to check against: name a file of rules"),
    }
}

/// A file of rules.
struct RulesFile<'r> {
    path: &'r Path,
    rules: Rules,
}

fn check_rules(args: &Args, path: &InFile) -> anyhow::Result<Outcome> {
    let text = read_text(path)?;
    let rules = linemate_rules::parse(&text).map_err(|e| anyhow!("{}:{e}", path.display()))?;
    let rules = RulesFile { path, rules };
    if let Some(language) = args.emit {
        return emit(&rules, language, args.line);
    }
    if args.kernel.is_empty() && args.program.is_empty() {
        bail!(
            "{}: nothing to check: give --kernel IMAGE, --program FILE or, to write assertions, --emit LANGUAGE",
            path.display()
        );
    }
    let baseline = args.baseline.as_deref().map(read_baseline).transpose()?;
    if let (Some(path), None) = (&args.write_baseline, &baseline) {
        if path.exists() {
            bail!(
                "{}: already exists: give it to --baseline, too, to shrink it, or remove it to start over",
                path.display()
            );
        }
    }
    let output = args.write_baseline.as_ref().map(OutFile::output);
    let output = output.transpose()?;
    let named = named_kernel::images(&args.kernel)?;
    let kernels = named.iter().map(|path| kernel(path, &rules, args));
    let programs = args.program.iter().map(|path| program(path, &rules, args));
    let kernels = kernels
        .chain(programs)
        .collect::<anyhow::Result<Vec<_>>>()?;

    let places: BTreeSet<Where> = kernels.iter().map(Kernel::place).collect();
    let mut found = Baseline::default();
    for kernel in &kernels {
        for finding in &kernel.checked.findings {
            found.add(&kernel.place(), finding);
        }
    }
    let gone = match &baseline {
        Some(baseline) => baseline.gone(&places, &found),
        None => Vec::new(),
    };
    let written = match &baseline {
        Some(baseline) => baseline.tightened(&places, &found),
        None => found,
    };
    let documents = kernels.iter().map(|k| k.document(baseline.as_ref()));
    let rules = rules.path.display().to_string();
    let document = check_document(rules, documents.collect(), &gone);
    if let Some(output) = output {
        output.write(&written.to_json())?;
    }
    if args.json {
        crate::output::json(&document)?;
    } else if args.sarif {
        crate::output::json(&sarif(
            &document,
            env!("CARGO_PKG_VERSION"),
            below_this_folder,
        ))?;
    } else {
        crate::output::text(&check_text(&document, baseline.is_some()))?;
    }
    let is_adopted = args.write_baseline.is_some() && baseline.is_none();
    match document.failing {
        0 => Ok(Outcome::Fine),
        _ if is_adopted => Ok(Outcome::Fine),
        _ => Ok(Outcome::Findings),
    }
}

/// The file of a declaration, relative to this folder, if it is in it: in CI, the checkout.
fn below_this_folder(declared: &DeclaredPlace) -> Option<PathBuf> {
    let folder = std::env::current_dir().ok()?;
    let file = std::fs::canonicalize(&declared.file).ok()?;
    let folder = std::fs::canonicalize(folder).ok()?;
    file.strip_prefix(folder).ok().map(Path::to_owned)
}

fn emit(
    file: &RulesFile<'_>,
    language: Emitted,
    line: Option<LineSize>,
) -> anyhow::Result<Outcome> {
    let language = match language {
        Emitted::C => AssertionLanguage::C,
        Emitted::Cpp => AssertionLanguage::Cpp,
        Emitted::Rust => AssertionLanguage::Rust,
    };
    let path = file.path.display().to_string();
    let found = assertions(&file.rules, language, line.unwrap_or(LineSize::B64), &path);
    if found.asserted == 0 {
        bail!(
            "{path}: no rule in it can be an assertion: give --kernel or --program instead of --emit"
        );
    }
    crate::output::text(&found.text)?;
    if found.left_out > 0 {
        crate::output::to_stderr(&format!(
            "{} of {} rules cannot be assertions; comments name them, and `linemate check --program` checks them",
            found.left_out,
            found.asserted + found.left_out
        ));
    }
    Ok(Outcome::Fine)
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    linemate_files::read_text(path).with_context(|| format!("cannot read {}", path.display()))
}

fn read_baseline(path: &Path) -> anyhow::Result<Baseline> {
    Baseline::from_json(&read_text(path)?).with_context(|| path.display().to_string())
}

fn kernel(path: &Path, rules: &RulesFile<'_>, args: &Args) -> anyhow::Result<Kernel> {
    let image = named_kernel::parse(path)?;
    let model = image.types().with_context(|| path.display().to_string())?;
    let own = match image.arch {
        Some(arch) => arch.line(),
        None => Some(LineSize::B64),
    };
    let Some(line) = args.line.or(own) else {
        bail!(
            "{}: its lines have 256 bytes, which rules do not support: give --line 64 or --line 128",
            path.display()
        );
    };
    Ok(Kernel {
        path: path.to_owned(),
        program: false,
        release: image.release,
        arch: image.arch,
        line,
        checked: checked(path, &model, line, rules)?,
    })
}

fn program(path: &Path, rules: &RulesFile<'_>, args: &Args) -> anyhow::Result<Kernel> {
    let model = program::model(path)?;
    let line = args.line.unwrap_or(LineSize::B64);
    Ok(Kernel {
        path: path.to_owned(),
        program: true,
        release: None,
        arch: None,
        line,
        checked: checked(path, &model, line, rules)?,
    })
}

fn checked(
    path: &Path,
    model: &TypeModel,
    line: LineSize,
    rules: &RulesFile<'_>,
) -> anyhow::Result<Checked> {
    linemate_rules::check(&rules.rules, model, line)
        .map_err(|error| anyhow!("{}:{error} ({})", rules.path.display(), path.display()))
}
