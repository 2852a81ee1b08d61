//! `linemate export`: a run as tables that one query over many runs can read.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, bail};
use linemate_answers::{MachinesDocument, Report, WhatIfDocument};
use linemate_export::{Accesses, Facts, Run, SCHEMA_FILE, WithLines, check_schema, schema_text};
use linemate_files::{FileSet, Published};
use linemate_machine::Machine;
use linemate_recording::Recording;
use linemate_report::{By, Options, costs_document, machines_document, whatif_document};
use linemate_study::costs::{CostRun, costs};
use linemate_study::{Run as StudyRun, Session, Study};
use linemate_types::LineSize;

use crate::editing::EditArgs;
use crate::files::{MachineName, OutFolder};
use crate::input::{self, Input};
use crate::kept::Keeping;
use crate::number::{INTERLEAVINGS_MAX, INTERLEAVINGS_MIN, between};
use crate::outcome::Outcome;
use crate::output::tell;
use crate::page::TOOL;
use crate::replaying::Replaying;

/// Add a run to a folder of Parquet tables: a recording; with --machine a replay of it; with edits a what-if
/// (docs/reference/tables.md)
///
/// The same run writes the same bytes to the same files; existing files stay. A run is written completely or not at
/// all.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// The folder of the tables; created if missing
    #[arg(long, value_name = "FOLDER")]
    parquet: OutFolder,
    /// Name of the workload in the tables [default: the command's program]
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// Export a replay on this machine: a name (see `linemate machines`), a TOML file, or `this`
    #[arg(long, value_name = "M")]
    machine: Option<MachineName>,
    #[command(flatten)]
    edits: EditArgs,
    /// Also write the tables of cache lines, which are large
    #[arg(long)]
    lines: bool,
    /// Cache line size in bytes, 64 or 128 [default: the machine's, else 64]
    #[arg(long, value_name = "BYTES", value_parser = input::LineSizes)]
    line: Option<LineSize>,
    /// Maximum interleavings of a what-if, 8 to 1024; stops after 4 if the confidence intervals are already narrow
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = between(INTERLEAVINGS_MIN, INTERLEAVINGS_MAX))]
    interleavings: usize,
    #[command(flatten)]
    replaying: Replaying,
    #[command(flatten)]
    keeping: Keeping,
    #[command(flatten)]
    failure: FailureArgs,
}

/// A run that failed, of which there is no recording.
#[derive(clap::Args, Debug)]
struct FailureArgs {
    /// Add a failed run, with the reason; no recording is read
    #[arg(
        long = "failed",
        help_heading = "Failure",
        value_name = "REASON",
        requires_all = ["workload", "kernel_name", "guest_seed"],
        conflicts_with_all = ["recording", "input", "edit", "statements", "layout_from", "lines"]
    )]
    reason: Option<String>,
    /// The kernel's release, or the name it was requested by
    #[arg(
        long,
        help_heading = "Failure",
        value_name = "NAME",
        requires = "reason"
    )]
    kernel_name: Option<String>,
    /// Seed of the failed recording, 0 to 4294967295
    #[arg(long, help_heading = "Failure", value_name = "N", requires = "reason", value_parser = between(0, u32::MAX))]
    guest_seed: Option<u32>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    args.replaying.need_machine(args.machine.as_ref())?;
    if args.edits.type_name.is_some() && !args.edits.are_given() {
        bail!("--type is for edits: without them all types are exported");
    }
    if args.edits.are_given() && args.machine.is_none() {
        bail!("edits need --machine: without one nothing is replayed");
    }
    if args.edits.are_given() && args.lines {
        bail!("--lines: a what-if has no table of lines");
    }
    check_folder(&args.parquet)?;
    let machine = args.machine.as_ref();
    let machine = machine.map(|name| args.replaying.machine(name, args.line));
    let machine = machine.transpose()?;
    let described = machine.clone();
    let described = described.map(|machine| machines_document(&[machine], None));
    if let Some(reason) = &args.failure.reason {
        let run = failed(args, reason, described.as_ref());
        return write(args, &run, &Facts::Failure);
    }
    let recording = args.input.open()?;
    let place = || args.input.path().display().to_string();
    let checksum = recording.checksum().map(|sum| format!("{sum:016x}"));
    let workload = args.workload.as_deref();
    let run = Run::of_recording(recording.metadata(), checksum, workload).with_context(place)?;
    let mut run = Run {
        machine: described.as_ref(),
        ..run
    };
    let Some(machine) = machine else {
        let session = input::ask(args.input.path(), &recording, args.keeping)?;
        let line = args.line.unwrap_or(LineSize::B64);
        run.options
            .insert("line".to_owned(), line.bytes().to_string());
        let accesses = accesses(&session, line, args.lines)?;
        return write(args, &run, &Facts::Recording(&accesses));
    };
    let session = args
        .replaying
        .ask(args.input.path(), &recording, args.keeping)?;
    run.options = options(args)?;
    if args.edits.are_given() {
        let document = whatif(args, &session, &recording, machine)?;
        run.edits = Some(document.edits.clone());
        return write(args, &run, &Facts::WhatIf(&document));
    }
    let conditions = CostRun {
        machine: &machine,
        conditions: args.replaying.conditions(),
        seed: args.replaying.seed,
        sources: false,
    };
    let found = costs(&session, None, conditions).with_context(place)?;
    let document = costs_document(TOOL, &recording, &machine, None, found);
    let lines = match args.lines {
        true => WithLines::Yes,
        false => WithLines::No,
    };
    write(args, &run, &Facts::Replay(&document, lines))
}

/// Refuses a folder with tables of another version before anything is worked out.
fn check_folder(folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(SCHEMA_FILE);
    match linemate_files::read_text(&path) {
        Ok(text) => check_schema(&text).with_context(|| folder.display().to_string()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn failed<'m>(args: &Args, reason: &str, machine: Option<&'m MachinesDocument>) -> Run<'m> {
    let seed = args.failure.guest_seed;
    Run {
        kernel: args.failure.kernel_name.clone().unwrap_or_default(),
        workload: args.workload.clone().unwrap_or_default(),
        seed: seed.map(|seed| seed.to_string()).unwrap_or_default(),
        machine,
        recording: None,
        options: BTreeMap::new(),
        edits: None,
        reason: Some(reason.to_owned()),
    }
}

/// What decides a replay's figures besides recording, machine and edits. That every access is replayed does not.
fn options(args: &Args) -> anyhow::Result<BTreeMap<String, String>> {
    let replaying = &args.replaying;
    let mut options = BTreeMap::from([
        ("seed", replaying.seed.to_string()),
        ("mechanisms", replaying.mechanisms.names()),
        ("llc-share", replaying.llc_share.to_string()),
        ("cold", replaying.cold.to_string()),
    ]);
    if let Some(cpus) = replaying.cpus {
        options.insert("cpus", cpus.to_string());
        options.insert("groups", replaying.groups.text());
    }
    if args.edits.are_given() {
        options.insert("interleavings", args.interleavings.to_string());
        let subject = args.edits.type_name.clone();
        options.insert("type", subject.unwrap_or_default());
    }
    let series = replaying.series.iter().map(|path| {
        let checksum = input::open(path)?.checksum();
        let checksum = checksum.with_context(|| format!("{} is cut", path.display()))?;
        Ok(format!("{checksum:016x}"))
    });
    let series = series.collect::<anyhow::Result<Vec<_>>>()?;
    if !series.is_empty() {
        options.insert("series", series.join(","));
    }
    let owned = options
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    Ok(owned.collect())
}

/// The reports of the recording, with all rows.
fn accesses(session: &Session<'_>, line: LineSize, lines: bool) -> anyhow::Result<Accesses> {
    let report = |by| -> anyhow::Result<Report> {
        let options = Options {
            by,
            type_name: None,
            all: true,
            top: usize::MAX,
            line,
        };
        let made = linemate_report::make(session.analysis(), session.counted(), &options);
        Ok(made?)
    };
    Ok(Accesses {
        types: report(By::Type)?,
        fields: report(By::Field)?,
        functions: report(By::Function)?,
        lines: lines.then(|| report(By::Line)).transpose()?,
    })
}

fn whatif(
    args: &Args,
    session: &Session<'_>,
    recording: &Recording,
    machine: Machine,
) -> anyhow::Result<WhatIfDocument> {
    let (edits, report) = args.edits.edits()?;
    let images = args.edits.images(&edits)?;
    let located = |error| args.edits.located(&edits, error);
    let study = Study::new(session, &edits, &images, &report).map_err(located)?;
    let run = StudyRun {
        machine,
        conditions: args.replaying.conditions(),
        seed: args.replaying.seed,
        interleavings: args.interleavings,
        all_interleavings: false,
        ablate: false,
    };
    let result = study.run(&run).map_err(located)?;
    let (text, results) = (edits.to_string(), vec![result]);
    Ok(whatif_document(TOOL, recording, text, Vec::new(), results))
}

/// Puts the tables into the folder, and says where the run is.
fn write(args: &Args, run: &Run<'_>, facts: &Facts<'_>) -> anyhow::Result<Outcome> {
    let files = linemate_export::files(run, TOOL, facts)?;
    let mut set = FileSet::new(&args.parquet)?;
    set.add(Path::new(SCHEMA_FILE), schema_text().as_bytes())?;
    for file in &files {
        set.add(&file.place, &file.bytes)?;
    }
    let bytes: usize = files.iter().map(|file| file.bytes.len()).sum();
    let published = set.publish()?;
    tell(&format!(
        "run {}: {} tables, {bytes} bytes{}",
        run.key()?,
        files.len(),
        match published {
            Published::New => "",
            Published::Same => ", already there",
        }
    ));
    Ok(Outcome::Fine)
}
