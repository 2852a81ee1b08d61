//! `linemate case run`: a whole experiment, end to end, resumed where it was interrupted.

mod files;
mod guest_run;
mod page;
mod replay;
mod steps;
mod workflow;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, anyhow, bail};
use clap::Subcommand;
use linemate_answers::CaseResults;
use linemate_cases::{Case, CaseReplay, KernelSource, Key, Mode, Plan, more_runs, parse, results};
use linemate_files::Output;
use linemate_guest::cache_folder;
use linemate_report::case::markdown;

use crate::files::{CaseFolder, OtherPath, OutFolder};
use crate::outcome::Outcome;
use crate::output::{self, to_stderr};
use crate::page::PageArgs;
use files::Files;
use replay::ReplayArgs;
use steps::Steps;
use workflow::{Profile, Workflow};

/// Run a whole experiment: record, report, predict, build, boot and compare
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    Run(RunArgs),
}

/// Run the case in FOLDER and write results.md and results.json; finished steps are not repeated
#[derive(clap::Args, Debug)]
struct RunArgs {
    /// The folder with case.toml (docs/guide/cases.md)
    #[arg(value_name = "FOLDER")]
    folder: CaseFolder,
    /// Skip what needs a kernel build: report and predict, record no patched kernel
    #[arg(long)]
    quick: bool,
    /// Skip patched kernels: like --quick, but build the examined kernel if the case needs it
    #[arg(long, conflicts_with = "quick")]
    predict: bool,
    #[command(flatten)]
    replay: ReplayArgs,
    /// Where to write results.md and results.json [default: FOLDER]
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<OutFolder>,
    /// Where recordings and kernels are stored [default: `cases` in linemate's cache]
    #[arg(long, value_name = "FOLDER")]
    cache: Option<OtherPath>,
    /// Where steps run: `local`, `slurm`, or a folder with Snakemake's config.yaml
    /// (docs/guide/cases.md)
    #[arg(long, value_name = "PROFILE", default_value = "local")]
    profile: Profile,
    #[command(flatten)]
    page: PageArgs,
    /// Also write results.json to standard output
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let Action::Run(args) = &args.action;
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancel);
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))
        .context("cannot catch Ctrl-C")?;
    let mut case = read(&args.folder)?;
    let mode = match (args.quick, args.predict) {
        (true, _) => Mode::Quick,
        (false, true) => Mode::Predicted,
        (false, false) => Mode::Full,
    };
    if args.quick && case.kernel == KernelSource::Built {
        bail!(
            "{}: the examined kernel has to be built, and --quick builds none: run without --quick",
            case.name
        );
    }
    let cache = match &args.cache {
        Some(folder) => folder.to_path_buf(),
        None => cache_folder()?.join("cases"),
    };
    // Kernels that are kept there are booted.
    linemate_files::private_folder(&cache)?;
    let cache = fs::canonicalize(&cache).with_context(|| cache.display().to_string())?;
    let replay = args.replay.of(&case);
    let folder = replay::folder(&args.folder, args.output.as_deref(), &replay)?;
    let mut files = Files::new(&args.folder)?;
    replay::keep_machines(&mut case, &replay, &files)?;
    let is_new = !folder.exists();
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let json_output = Output::new(&folder.join("results.json"))?;
    let text_output = Output::new(&folder.join("results.md"))?;
    let page_output = args.page.output()?;
    let experiment = Experiment {
        case: &case,
        mode,
        replay,
        cache: &cache,
        profile: &args.profile,
        cancel: &cancel,
    };
    let results = experiment.carry_out(&mut files);
    // A folder that was made to see whether results can be written is not left empty.
    let unused = |_: &anyhow::Error| {
        if is_new {
            let _ = fs::remove_dir(&folder);
        }
    };
    let results = results.inspect_err(unused)?;
    let json = serde_json::to_string_pretty(&results)? + "\n";
    json_output.write(&json)?;
    text_output.write(&markdown(&results))?;
    to_stderr(&format!("wrote {}", folder.join("results.md").display()));
    page_output.write(|| Ok(page::page(&folder, results)))?;
    if args.json {
        output::json_text(&json)?;
    }
    Ok(Outcome::Fine)
}

fn read(folder: &Path) -> anyhow::Result<Case> {
    let path = folder.join("case.toml");
    let text = linemate_files::read_text(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).map_err(|error| anyhow!("{}:{error}", path.display()))
}

/// A case, and how it is carried out.
struct Experiment<'e> {
    case: &'e Case,
    mode: Mode,
    replay: CaseReplay,
    cache: &'e Path,
    profile: &'e Profile,
    cancel: &'e AtomicBool,
}

impl Experiment<'_> {
    /// All steps of the case, with as many runs as it wants.
    fn carry_out(&self, files: &mut Files) -> anyhow::Result<CaseResults> {
        let case = self.case;
        let mut plan = Plan::new(case, self.mode).replayed(self.replay.clone());
        let mut reported = BTreeSet::new();
        loop {
            let keys = keys(case, &plan, files)?;
            let steps = Steps {
                case,
                plan: &plan,
                keys: &keys,
                cache: self.cache,
            };
            let workflow = Workflow {
                steps,
                profile: self.profile,
                cancel: self.cancel,
            };
            let outputs = workflow.carry_out(files, &mut reported)?;
            let version = env!("CARGO_PKG_VERSION");
            let results = results(version, case, self.mode, &plan, &outputs)?;
            let Some(more) = more_runs(case, &plan, &results.rebuilt) else {
                return Ok(results);
            };
            to_stderr(&format!("{}: up to {} runs", more.widest, more.runs));
            plan = Plan::with_runs(case, self.mode, more.runs).replayed(self.replay.clone());
        }
    }
}

/// The key of every step. Everything that any step is made of is read here, so that a missing file
/// is reported before the first one starts.
fn keys(case: &Case, plan: &Plan<'_>, files: &mut Files) -> anyhow::Result<Vec<Key>> {
    let mut keys = Vec::new();
    for step in &plan.steps {
        let failed = || format!("{}: {}", case.name, step.title);
        keys.push(plan.key(step, &keys, files).with_context(failed)?);
    }
    Ok(keys)
}
