//! `linemate report`: what is hot, who reads, who writes, and with a machine, what it costs there.

mod costs;
mod page;

use anyhow::bail;
use clap::ValueEnum;
use linemate_report::{By, Options, ReportText};
use linemate_types::LineSize;

use crate::files::{MachineName, OutFile};
use crate::input::{self, Input};
use crate::kept::Keeping;
use crate::next;
use crate::number::{ROWS_MAX, between};
use crate::outcome::Outcome;
use crate::output;
use crate::page::PageArgs;
use crate::replaying::Replaying;
use crate::showing::Showing;
use crate::under::UnderArgs;

/// What rows are.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Rows {
    /// Types, variables, caches
    Type,
    /// Fields of all types
    Field,
    /// Cache lines of all types
    Line,
    /// Functions
    Function,
    /// Source lines of programs (`record --program`), with inlined functions; functions where lines are unknown, such
    /// as the kernel's
    Source,
    /// CPUs
    Cpu,
}

impl Rows {
    /// What is asked for, if that is code.
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

/// Show a recording's hottest types, fields, cache lines, functions, source lines or CPUs; or what the accesses cost
/// on a machine
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// What the rows are; with --type, of that type only
    #[arg(long, value_enum, default_value = "type")]
    by: Rows,
    /// Show everything about one type: fields, cache lines, field groups; with --by only its fields, lines,
    /// functions, source lines or CPUs
    #[arg(long = "type", value_name = "T", value_parser = input::type_name)]
    type_name: Option<String>,
    /// Also list memory that has no layout: stacks, pages, untyped memory
    #[arg(long, conflicts_with = "type_name")]
    all: bool,
    /// Show at the end how the run was recorded, and the ledger of all accesses
    #[arg(long)]
    ledger: bool,
    /// Maximum number of rows, 0 to 1000000
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = between(0, ROWS_MAX))]
    top: usize,
    /// Cache line size in bytes, 64 or 128 [default: the machine's, else 64]
    #[arg(long, value_name = "BYTES", value_parser = input::LineSizes)]
    line: Option<LineSize>,
    /// Show what the accesses cost on this machine, by replay: a name (see `linemate machines`), a TOML file, or
    /// `this`. Rows by `cpu` are then pairs of CPUs, rows by `line` the fields inside lines that move between cores
    #[arg(long, value_name = "M")]
    machine: Option<MachineName>,
    #[command(flatten)]
    under: UnderArgs,
    #[command(flatten)]
    replaying: Replaying,
    #[command(flatten)]
    keeping: Keeping,
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
    /// Write JSON (docs/reference/json/report.md; with a machine docs/reference/json/costs.md)
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Refuses what cannot be told of a function.
    fn check_under(&self) -> anyhow::Result<()> {
        if self.under.function.is_none() {
            return Ok(());
        }
        if self.machine.is_none() {
            bail!("--under needs --machine: it shows what a function costs there");
        }
        if self.page.is_wanted() || self.svg.is_some() {
            bail!("--under does not support --html and --svg: use --json");
        }
        if matches!(self.by, Rows::Line | Rows::Cpu) {
            bail!(
                "--under supports types, fields and functions only: lines and CPUs mix in accesses of other callers"
            );
        }
        Ok(())
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    args.check_under()?;
    args.replaying.need_machine(args.machine.as_ref())?;
    if args.machine.is_some() && args.type_name.is_some() {
        if let Some(code) = args.by.code() {
            bail!(
                "--by {code}: a type's cost is known by field and line only; leave out --machine to count its accesses by {code}"
            );
        }
    }
    let pictures = page::Pictures::new(args)?;
    let recording = args.input.open()?;
    if let Some(machine) = &args.machine {
        return costs::run(args, machine, &recording, pictures);
    }
    let session = input::ask(args.input.path(), &recording, args.keeping)?;
    let type_name = args.type_name.as_ref();
    let type_name = type_name.map(|asked| input::meant(&session, asked));
    let options = Options {
        by: args.by.into(),
        type_name: type_name.clone(),
        all: args.all,
        top: args.top,
        line: args.line.unwrap_or(LineSize::B64),
    };
    let report = linemate_report::make(session.analysis(), session.counted(), &options)?;
    pictures.write(args, &session, type_name.as_deref(), None)?;
    if args.json {
        output::json_text(&linemate_report::json(&report)?)?;
    } else {
        let show = ReportText {
            top: args.top,
            ledger: args.ledger,
            line: options.line,
        };
        let input = next::input(args.input.path());
        let about = match &type_name {
            Some(name) => format!(" --type {}", next::quoted(name)),
            None => String::new(),
        };
        let next = next::step(
            "what it costs there, and why",
            &format!("report{input}{about} --machine gnr-2s-480"),
        );
        args.showing
            .print(linemate_report::text(&report, &show), Some(next))?;
    }
    Ok(Outcome::Fine)
}
