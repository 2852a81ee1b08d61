//! `linemate diff`: two recordings field by field.

mod page;

use std::path::Path;

use anyhow::Context;
use linemate_answers::DiffSide;
use linemate_layout::EditSubject;
use linemate_machine::Machine;
use linemate_report::{diff_document, diff_text};
use linemate_study::diff::{On, fields};
use linemate_types::LineSize;

use crate::files::{InFile, MachineName};
use crate::input;
use crate::kept::Keeping;
use crate::number::{ROWS_MAX, between};
use crate::outcome::Outcome;
use crate::output;
use crate::page::{About, PageArgs};
use crate::replaying::Replaying;
use crate::showing::Showing;

/// Compare a type's fields in two recordings, for example of two kernels; fields are matched by path
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The first recording
    #[arg(value_name = "A")]
    a: InFile,
    /// The second recording
    #[arg(value_name = "B")]
    b: InFile,
    /// The type [default: all types]
    #[arg(long = "type", value_name = "T", value_parser = input::type_name)]
    type_name: Option<String>,
    /// Also compare what the fields cost on this machine: a name (see `linemate machines`), a TOML file, or `this`
    #[arg(long, value_name = "M")]
    machine: Option<MachineName>,
    /// Cache line size of the machine, in bytes: 64 or 128
    #[arg(long, value_name = "BYTES", value_parser = input::LineSizes, requires = "machine")]
    line: Option<LineSize>,
    /// Show figures per call of this function; both recordings must count its calls (`record --event`)
    #[arg(long, value_name = "FUNCTION", value_parser = input::function_name)]
    event: Option<String>,
    #[command(flatten)]
    replaying: Replaying,
    #[command(flatten)]
    keeping: Keeping,
    /// Maximum number of rows, 0 to 1000000
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = between(0, ROWS_MAX))]
    top: usize,
    #[command(flatten)]
    showing: Showing,
    #[command(flatten)]
    page: PageArgs,
    /// Write JSON (docs/reference/json/whatif.md)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    args.replaying.need_machine(args.machine.as_ref())?;
    let machine = args.machine.as_ref();
    let machine = machine
        .map(|name| args.replaying.machine(name, args.line))
        .transpose()?;
    let page_output = args.page.output()?;
    let a = Side::new(&args.a, args, machine.as_ref())?;
    let b = Side::new(&args.b, args, machine.as_ref())?;
    let document = diff_document(
        env!("CARGO_PKG_VERSION"),
        args.type_name.clone(),
        args.machine.as_deref().map(ToOwned::to_owned),
        args.replaying.seed,
        [a.fields, b.fields],
    );
    page_output.write(|| page::page(args, machine.as_ref(), &document, [&a.shown, &b.shown]))?;
    if args.json {
        output::json(&document)?;
    } else {
        let names = [&args.a, &args.b].map(|path| path.display().to_string());
        args.showing
            .print(diff_text(&document, [&names[0], &names[1]], args.top), None)?;
    }
    Ok(Outcome::Fine)
}

/// A recording's figures, and for a page what it says about the type.
struct Side {
    fields: DiffSide,
    shown: Option<About>,
}

impl Side {
    fn new(path: &Path, args: &Args, machine: Option<&Machine>) -> anyhow::Result<Side> {
        let name = || path.display().to_string();
        let recording = input::open(path)?;
        let session = args.replaying.ask(path, &recording, args.keeping)?;
        let meant = |asked: &String| EditSubject::Named(input::meant(&session, asked));
        let subject = args.type_name.as_ref().map(meant);
        let on = machine.map(|machine| On {
            machine,
            seed: args.replaying.seed,
            conditions: args.replaying.conditions(),
        });
        let shown = match args.page.is_wanted() {
            true => Some(page::shown(&session, args, machine)?),
            false => None,
        };
        Ok(Side {
            fields: fields(&session, subject.as_ref(), on, args.event.as_deref())
                .with_context(name)?,
            shown,
        })
    }
}
