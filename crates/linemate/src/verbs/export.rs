//! `linemate export`: a run as tables for one query over many runs.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, bail};
use linemate_answers::{By, MachinesDocument, PredictionError, Report, WhatIfDocument};
use linemate_documents::{
    ReportOptions, costs_document, machines_document, report_document, whatif_document,
};
use linemate_experiment::Seed;
use linemate_export::{Accesses, Facts, Run, SCHEMA_FILE, WithLines, check_schema, schema_text};
use linemate_files::{FileSet, Published};
use linemate_layout::EditSubject;
use linemate_machine::Machine;
use linemate_report::prediction_errors;
use linemate_session::Session;
use linemate_study::costs::{CostRun, costs};
use linemate_study::{Run as StudyRun, Study};
use linemate_types::LineSize;

use crate::files::OutFolder;
use crate::input;
use crate::number::between;
use crate::outcome::Outcome;
use crate::output::to_stderr;
use crate::page::TOOL;
use crate::question::edits::EditArgs;
use crate::question::{self, Question, recordings};

/// Add a run to a folder of Parquet tables: a recording; with --machine a replay of it; with edits
/// a what-if (docs/reference/tables.md)
///
/// The same run writes the same bytes to the same files; existing files stay. A run is written
/// completely or not at all. Several machines are several runs.
#[derive(clap::Args, Debug)]
#[command(
    mut_arg("recordings", recordings::one),
    mut_arg("inputs", recordings::one_as_option)
)]
#[command(mut_args(question::without_calls))]
#[command(mut_arg("type_name", |arg| arg.help(TYPE)), mut_arg("machines", |arg| arg.help(MACHINE)))]
pub(crate) struct Args {
    #[command(flatten)]
    question: Question,
    /// The folder of the tables; created if missing
    #[arg(long, value_name = "FOLDER")]
    parquet: OutFolder,
    /// Name of the workload in the tables [default: the command's program]
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    #[command(flatten)]
    edits: EditArgs,
    /// Also write the tables of cache lines, which are large
    #[arg(long)]
    lines: bool,
    #[command(flatten)]
    failure: FailureArgs,
}

const TYPE: &str = "The type that -e and --layout-from edit, and whose fields are exported";

const MACHINE: &str = "Export a replay on this machine: a name (see `linemate machines`), a TOML file, or `this`; may be \
repeated";

/// A failed run, without a recording.
#[derive(clap::Args, Debug)]
struct FailureArgs {
    /// Add a failed run, with the reason; no recording is read
    #[arg(
        long = "failed",
        help_heading = "Failure",
        value_name = "REASON",
        requires_all = ["workload", "kernel_name", "guest_seed"],
        conflicts_with_all = ["recordings", "inputs", "edit", "statements", "layout_from", "lines"]
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

impl Args {
    /// Refuses what no table holds.
    fn check(&self) -> anyhow::Result<()> {
        let (question, with_edits) = (&self.question, self.edits.are_given());
        question.need_machine()?;
        if question.type_name.is_some() && !with_edits {
            bail!("--type is for edits: without them all types are exported");
        }
        if with_edits && question.machines.is_empty() {
            bail!("edits need --machine: without one nothing is replayed");
        }
        if with_edits && self.lines {
            bail!("--lines: a what-if has no table of lines");
        }
        check_folder(&self.parquet)
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    args.check()?;
    let question = &args.question;
    let machines = question.machines()?;
    if let Some(reason) = &args.failure.reason {
        for machine in on_each(&machines) {
            let described = machine.map(described);
            let run = failed(args, reason, described.as_ref());
            write(args, &run, &Facts::Failure)?;
        }
        return Ok(Outcome::Fine);
    }
    let recording = input::open(question.path())?;
    let session = question.ask(question.path(), &recording)?;
    for machine in on_each(&machines) {
        let described = machine.map(described);
        let checksum = recording.checksum().map(|sum| format!("{sum:016x}"));
        let workload = args.workload.as_deref();
        let run = Run::of_recording(recording.metadata(), checksum, workload);
        let run = Run {
            machine: described.as_ref(),
            ..run.with_context(|| question.place())?
        };
        export(args, &session, run, machine)?;
    }
    Ok(Outcome::Fine)
}

/// Each machine; once none where there is none.
fn on_each(machines: &[Machine]) -> impl Iterator<Item = Option<&Machine>> {
    let none = machines.is_empty().then_some(None);
    none.into_iter().chain(machines.iter().map(Some))
}

fn described(machine: &Machine) -> MachinesDocument {
    machines_document(std::slice::from_ref(machine), None)
}

/// Writes a run: with a machine, what edits change or what everything costs; without one, what is
/// accessed.
fn export(
    args: &Args,
    session: &Session<'_>,
    mut run: Run<'_>,
    machine: Option<&Machine>,
) -> anyhow::Result<()> {
    let question = &args.question;
    let Some(machine) = machine else {
        let line = question.line();
        run.options
            .insert("line".to_owned(), line.bytes().to_string());
        let accesses = accesses(session, line, args.lines)?;
        return write(args, &run, &Facts::Recording(&accesses));
    };
    let recording = session.analysis().recording();
    let subject = question.subject(session);
    run.options = options(args, subject.as_deref())?;
    if args.edits.are_given() {
        let document = whatif(args, session, subject, machine.clone())?;
        run.edits = Some(document.edits.clone());
        let results = document.results.iter();
        warn_of_copies(results.map(|result| &result.prediction_error));
        return write(args, &run, &Facts::WhatIf(&document));
    }
    let conditions = CostRun {
        machine,
        conditions: question.conditions(),
        seed: Seed(question.seed()),
        sources: false,
    };
    let found = costs(session, None, conditions).with_context(|| question.place())?;
    let document = costs_document(TOOL, recording, machine, None, found);
    let lines = match args.lines {
        true => WithLines::Yes,
        false => WithLines::No,
    };
    warn_of_copies([&document.costs.prediction_error]);
    write(args, &run, &Facts::Replay(&document, lines))
}

/// Prints how far predictions for more CPUs were off, which no table has.
fn warn_of_copies<'e>(errors: impl IntoIterator<Item = &'e Option<PredictionError>>) {
    for sentence in prediction_errors(errors) {
        to_stderr(&sentence);
    }
}

/// Refuses a folder with tables of another version before any work is done.
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

/// The settings of a replay, other than recording, machine and edits, that determine its figures.
/// Replaying every access does not change them.
fn options(args: &Args, subject: Option<&str>) -> anyhow::Result<BTreeMap<String, String>> {
    let question = &args.question;
    let replaying = &question.replaying;
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
        options.insert("interleavings", replaying.interleavings.to_string());
        if replaying.all_interleavings {
            options.insert("all-interleavings", true.to_string());
        }
        options.insert("type", subject.unwrap_or_default().to_owned());
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
        let options = ReportOptions {
            by,
            type_name: None,
            all: true,
            top: usize::MAX,
            line,
        };
        let made = report_document(session.analysis(), session.counted(), &options);
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
    subject: Option<String>,
    machine: Machine,
) -> anyhow::Result<WhatIfDocument> {
    let question = &args.question;
    let edits = args.edits.edits(question.type_name.as_deref())?;
    let images = args.edits.images(&edits)?;
    let model = session.analysis().model();
    let edits = args.edits.meant(edits, subject.as_deref())?;
    let report: Vec<EditSubject> = subject.into_iter().map(EditSubject::Named).collect();
    let edits = args.edits.as_declared(edits, model, &images)?;
    let located = |error| args.edits.located(&edits, error);
    let study = Study::new(session, &edits, &images, &report).map_err(located)?;
    let run = StudyRun {
        machine,
        conditions: question.conditions(),
        seed: Seed(question.seed()),
        interleavings: question.replaying.interleavings,
        all_interleavings: question.replaying.all_interleavings,
        ablate: false,
    };
    let result = study.run(&run).map_err(located)?;
    let (text, results) = (edits.to_string(), vec![result]);
    Ok(whatif_document(
        TOOL,
        session.analysis().recording(),
        text,
        Vec::new(),
        results,
    ))
}

/// Writes the tables into the folder, and prints where the run is.
fn write(args: &Args, run: &Run<'_>, facts: &Facts<'_>) -> anyhow::Result<()> {
    let files = linemate_export::files(run, TOOL, facts)?;
    let mut set = FileSet::new(&args.parquet)?;
    set.add(Path::new(SCHEMA_FILE), schema_text().as_bytes())?;
    for file in &files {
        set.add(&file.place, &file.bytes)?;
    }
    let bytes: usize = files.iter().map(|file| file.bytes.len()).sum();
    let published = set.publish()?;
    to_stderr(&format!(
        "run {}: {} tables, {bytes} bytes{}",
        run.key()?,
        files.len(),
        match published {
            Published::New => "",
            Published::Same => ", already there",
        }
    ));
    Ok(())
}
