//! `linemate report`: what is hot, who reads it, who writes it, and with a machine, what it costs
//! there.

mod costs;
mod pictures;

use anyhow::bail;
use clap::ValueEnum;
use linemate_answers::{By, Report};
use linemate_documents::{ReportOptions, report_document};
use linemate_page::Answered;
use linemate_report::ReportText;
use linemate_session::Session;

use crate::files::OutFile;
use crate::input;
use crate::next;
use crate::outcome::Outcome;
use crate::page::PageArgs;
use crate::question::{self, Question, recordings};
use crate::show::Showing;
use pictures::Pictures;

/// What rows are.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Rows {
    /// Types, variables, caches
    Type,
    /// Fields of all types
    Field,
    /// Cache lines of all types; with --machine the fields inside lines that move between cores
    Line,
    /// Functions
    Function,
    /// Source lines of programs (`record --program`), with inlined functions; functions where lines
    /// are unknown, such as the kernel's
    Source,
    /// CPUs; with --machine pairs of CPUs
    Cpu,
}

impl Rows {
    /// The kind of code in the rows, if they are code.
    fn code(self) -> Option<&'static str> {
        match self {
            Rows::Function => Some("function"),
            Rows::Source => Some("source"),
            Rows::Type | Rows::Field | Rows::Line | Rows::Cpu => None,
        }
    }
}

impl From<Rows> for By {
    fn from(rows: Rows) -> By {
        match rows {
            Rows::Type => By::Type,
            Rows::Field => By::Field,
            Rows::Line => By::Line,
            Rows::Function => By::Function,
            Rows::Source => By::Source,
            Rows::Cpu => By::Cpu,
        }
    }
}

/// Show a recording's hottest types, fields, cache lines, functions, source lines or CPUs; or what
/// the accesses cost on a machine
#[derive(clap::Args, Debug)]
#[command(
    mut_arg("recordings", recordings::one),
    mut_arg("inputs", recordings::one_as_option)
)]
#[command(mut_args(question::without_interleavings))]
#[command(mut_arg("type_name", |arg| arg.help(TYPE)), mut_arg("machines", |arg| arg.help(MACHINE)))]
pub(crate) struct Args {
    /// What the rows are; with --type, of that type only
    #[arg(long, value_enum, default_value = "type")]
    by: Rows,
    #[command(flatten)]
    question: Question,
    /// Also list memory that has no layout: stacks, pages, untyped memory
    #[arg(long, conflicts_with = "type_name")]
    all: bool,
    /// Show at the end how the run was recorded, and the ledger of all accesses
    #[arg(long)]
    ledger: bool,
    #[command(flatten)]
    showing: Showing,
    #[command(flatten)]
    page: PageArgs,
    /// Also write the type's memory layout as an SVG picture
    #[arg(
        long,
        help_heading = "Page",
        value_name = "FILE",
        requires = "type_name"
    )]
    svg: Option<OutFile>,
}

const TYPE: &str = "Show everything about one type: fields, cache lines, field groups; with --by only its fields, lines, \
functions, source lines or CPUs";

const MACHINE: &str = "Show what the accesses cost on this machine, by replay: a name (see `linemate machines`), a TOML \
file, or `this`; may be repeated";

impl Args {
    /// Refuses what no replay can show.
    fn check(&self) -> anyhow::Result<()> {
        let question = &self.question;
        question.need_machine()?;
        if question.under.is_some() {
            if self.page.is_wanted() || self.svg.is_some() {
                bail!("--under does not support --html and --svg: use --json");
            }
            if matches!(self.by, Rows::Line | Rows::Cpu) {
                bail!(
                    "--under supports types, fields and functions only: lines and CPUs mix in accesses of other callers"
                );
            }
        }
        match self.by.code() {
            Some(code) if !question.machines.is_empty() && question.type_name.is_some() => bail!(
                "--by {code}: a type's cost is known by field and line only; leave out --machine to count its accesses by {code}"
            ),
            _ => Ok(()),
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    args.check()?;
    let pictures = Pictures::new(args)?;
    let machines = args.question.machines()?;
    let path = args.question.path();
    let recording = input::open(path)?;
    let session = args.question.ask(path, &recording)?;
    match machines.is_empty() {
        true => counts(args, &session, pictures)?,
        false => costs::run(args, &machines, &session, pictures)?,
    }
    Ok(Outcome::Fine)
}

/// How often everything is accessed.
fn counts(args: &Args, session: &Session<'_>, mut pictures: Pictures<'_>) -> anyhow::Result<()> {
    let question = &args.question;
    let type_name = question.subject(session);
    let options = ReportOptions {
        by: args.by.into(),
        type_name: type_name.clone(),
        all: args.all,
        top: args.showing.top,
        line: question.line(),
    };
    let report = Report {
        event: question.event(question.path(), session)?,
        ..report_document(session.analysis(), session.counted(), &options)?
    };
    let about = pictures.draw(args, session, None, type_name.as_deref())?;
    let show = ReportText {
        top: args.showing.top,
        ledger: args.ledger,
        line_bytes: options.line.bytes(),
    };
    let next = next::step(
        "what it costs, and why",
        &format!(
            "report{} --machine gnr-2s-480",
            question.words(type_name.as_deref())
        ),
    );
    pictures.outputs.show(
        &report,
        || Ok(pictures::page(args, &[], about, Answered::Counts)),
        || linemate_report::text(&report, &show),
        Some(next),
    )
}
