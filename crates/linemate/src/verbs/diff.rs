//! `linemate diff`: two recordings field by field.

mod page;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use linemate_layout::Subject;
use linemate_machine::Machine;
use linemate_report::Table;
use linemate_study::diff::{Fields, Figures, On, Row, compare, fields};
use linemate_text::shown;
use linemate_types::LineSize;
use serde::Serialize;

use crate::cli::Outcome;
use crate::input;
use crate::kept::Keeping;
use crate::output;
use crate::page::{About, PageArgs};
use crate::replaying::Replaying;
use crate::verbs::whatif::percent;

/// Version of the form that `--json` writes (docs/schema-whatif.md).
const SCHEMA: &str = "linemate.diff/2";

/// Compare a type's fields in two recordings, of two kernels for example, matched by field path
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The first recording
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The second recording
    #[arg(value_name = "B")]
    b: PathBuf,
    /// The type; all types if none is given
    #[arg(long = "type", value_name = "T", value_parser = input::type_name)]
    type_name: Option<String>,
    /// Also compare what the fields cost on this machine: a name (see `linemate machines`), a TOML file, or `this`
    #[arg(long, value_name = "M")]
    machine: Option<String>,
    /// Cache line size of the machine, in bytes
    #[arg(long, value_name = "BYTES", value_parser = input::line_size, requires = "machine")]
    line: Option<LineSize>,
    #[command(flatten)]
    replaying: Replaying,
    #[command(flatten)]
    keeping: Keeping,
    /// Maximum number of rows
    #[arg(long, value_name = "N", default_value_t = 40)]
    top: usize,
    #[command(flatten)]
    page: PageArgs,
    /// Write JSON (docs/schema-whatif.md)
    #[arg(long)]
    json: bool,
}

/// What `--json` writes.
#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    tool: &'static str,
    #[serde(rename = "type")]
    type_name: Option<&'a str>,
    machine: Option<&'a str>,
    seed: u64,
    a: &'a Fields,
    b: &'a Fields,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    args.replaying.need_machine(args.machine.as_deref())?;
    let machine = args.machine.as_deref();
    let machine = machine
        .map(|name| args.replaying.machine(name, args.line))
        .transpose()?;
    let page_output = args.page.output()?;
    let a = Side::new(&args.a, args, machine.as_ref())?;
    let b = Side::new(&args.b, args, machine.as_ref())?;
    let document = Json {
        schema: SCHEMA,
        tool: env!("CARGO_PKG_VERSION"),
        type_name: args.type_name.as_deref(),
        machine: args.machine.as_deref(),
        seed: args.replaying.seed,
        a: &a.fields,
        b: &b.fields,
    };
    page_output.write(|| page::page(args, machine.as_ref(), &document, [&a.shown, &b.shown]))?;
    if args.json {
        output::json(&document)?;
    } else {
        output::text(&text(args, &a.fields, &b.fields))?;
    }
    Ok(Outcome::Fine)
}

/// A recording's figures, and for a page what it says about the type.
struct Side {
    fields: Fields,
    shown: Option<About>,
}

impl Side {
    fn new(path: &Path, args: &Args, machine: Option<&Machine>) -> anyhow::Result<Side> {
        let name = || path.display().to_string();
        let recording = input::open(path)?;
        let session = input::ask(path, &recording, args.keeping)?;
        let subject = args.type_name.clone().map(Subject::Named);
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
            fields: fields(&session, subject.as_ref(), on).with_context(name)?,
            shown,
        })
    }
}

fn text(args: &Args, a: &Fields, b: &Fields) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "linemate {}, {}",
        env!("CARGO_PKG_VERSION"),
        args.type_name.as_deref().unwrap_or("all types")
    );
    for (side, path, fields) in [("A", &args.a, a), ("B", &args.b, b)] {
        let touched: u64 = fields.fields.values().map(|f| f.loads + f.stores).sum();
        let share = touched as f64 / fields.accesses.max(1) as f64;
        let _ = writeln!(
            out,
            "  {side}: {}: {} CPUs, {} bytes, {touched} of {} accesses ({})",
            shown(&path.to_string_lossy()),
            fields.cpus,
            fields.bytes,
            fields.accesses,
            percent(share)
        );
    }
    let mut header = vec!["field", "loads A", "loads B", "stores A", "stores B"];
    if let Some(machine) = &args.machine {
        let _ = writeln!(
            out,
            "  cycles of accesses that leave their core, on {machine}, interleaving {}",
            args.replaying.seed
        );
        header.extend(["cycles A", "cycles B", "change"]);
    }
    let mut table = Table::of_figures(&header);
    let rows = compare(a, b);
    for row in rows.iter().take(args.top) {
        table.add_row(cells(row, args.machine.is_some()));
    }
    let _ = writeln!(out, "\n{table}");
    if rows.len() > args.top {
        let _ = writeln!(out, "({} more; --top N shows more)", rows.len() - args.top);
    }
    out
}

fn cells(row: &Row, costs: bool) -> Vec<String> {
    let show = |side: &Option<Figures>, figure: fn(&Figures) -> u64| {
        side.as_ref()
            .map_or_else(|| "-".to_owned(), |f| figure(f).to_string())
    };
    let mut cells = vec![row.path.clone()];
    for figure in [|f: &Figures| f.loads, |f: &Figures| f.stores] {
        cells.push(show(&row.a, figure));
        cells.push(show(&row.b, figure));
    }
    if costs {
        let of = |side: &Option<Figures>| side.map_or(0, |f| f.cycles);
        cells.push(show(&row.a, |f| f.cycles));
        cells.push(show(&row.b, |f| f.cycles));
        cells.push(format!(
            "{:+}",
            i128::from(of(&row.b)) - i128::from(of(&row.a))
        ));
    }
    cells
}
