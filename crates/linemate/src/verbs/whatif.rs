//! `linemate whatif`: what another layout would cost or gain, predicted by replay.

mod page;

use linemate_answers::WhatIfDocument;
use linemate_layout::{EditFile, EditSubject};
use linemate_machine::Machine;
use linemate_report::{whatif_document, whatif_text};
use linemate_study::{Run, Study};
use linemate_types::{LineSize, TypeModel};

use crate::editing::EditArgs;
use crate::files::MachineName;
use crate::input::{self, Input};
use crate::kept::Keeping;
use crate::next;
use crate::number::{INTERLEAVINGS_MAX, INTERLEAVINGS_MIN, ROWS_MAX, between};
use crate::outcome::Outcome;
use crate::output;
use crate::page::{PageArgs, TOOL};
use crate::replaying::Replaying;
use crate::showing::Showing;
use crate::under::UnderArgs;

/// Predict the cost or gain of another layout, with confidence intervals
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    edits: EditArgs,
    /// The machine to replay on: a name (see `linemate machines`), a TOML file, or `this`; may be repeated
    #[arg(long = "machine", value_name = "M", default_value = input::DEFAULT_MACHINE)]
    machines: Vec<MachineName>,
    #[command(flatten)]
    under: UnderArgs,
    #[command(flatten)]
    replaying: Replaying,
    #[command(flatten)]
    keeping: Keeping,
    /// Also show each edit's own effect: applied alone, and applied last
    #[arg(long)]
    ablate: bool,
    /// Also show costs per call of this function; the recording must count its calls (`record --event`)
    #[arg(long, value_name = "FUNCTION", value_parser = input::function_name)]
    event: Option<String>,
    /// Cache line size of the machines, in bytes: 64 or 128
    #[arg(long, value_name = "BYTES", value_parser = input::LineSizes)]
    line: Option<LineSize>,
    /// Maximum interleavings, 8 to 1024; stops after 4 if the confidence intervals are already narrow
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = between(INTERLEAVINGS_MIN, INTERLEAVINGS_MAX))]
    interleavings: usize,
    /// Replay all interleavings, so that several what-ifs average over the same ones
    #[arg(long)]
    all_interleavings: bool,
    /// Maximum number of rows in a table, 0 to 1000000
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = between(0, ROWS_MAX))]
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
    let (edits, _) = args.edits.edits()?;
    let images = args.edits.images(&edits)?;
    let machines: Vec<Machine> = args
        .machines
        .iter()
        .map(|name| args.replaying.machine(name, args.line))
        .collect::<anyhow::Result<_>>()?;
    let output = args.page.output()?;
    let recording = args.input.open()?;
    let session =
        args.replaying
            .ask_for(args.input.path(), &recording, args.keeping, &args.under)?;
    let (edits, report) = args.edits.meant(&session, edits)?;
    let event = input::event(args.input.path(), &session, args.event.as_deref())?;
    let located = |error| args.edits.located(&edits, error);
    let study = Study::new(&session, &edits, &images, &report).map_err(located)?;
    let study = study.with_under(args.under.find(&session)?);
    let mut results = Vec::new();
    for machine in machines.clone() {
        let run = Run {
            machine,
            conditions: args.replaying.conditions(),
            seed: args.replaying.seed,
            interleavings: args.interleavings,
            all_interleavings: args.all_interleavings,
            ablate: args.ablate,
        };
        results.push(study.run(&run).map_err(located)?);
    }
    let layouts = page::layouts(&session, &edits, &images, &results)?;
    let document = WhatIfDocument {
        event,
        ..whatif_document(TOOL, &recording, edits.to_string(), layouts, results)
    };
    output.write(|| page::page(args, &session, &machines, document.clone()))?;
    if args.json {
        output::json(&document)?;
    } else {
        let path = args.input.path().display().to_string();
        let text = whatif_text(&document, &path, args.top);
        let model = session.analysis().model();
        args.showing.print(text, next_step(args, model, &edits))?;
    }
    Ok(Outcome::Fine)
}

/// A file of edits can become a patch, if it is about layouts alone and of a type that is patched; for other edits there may be a layout
/// that costs less.
fn next_step(args: &Args, model: &TypeModel, edits: &EditFile) -> Option<String> {
    let input = next::input(args.input.path());
    if let Some(file) = args
        .edits
        .edit
        .as_ref()
        .filter(|_| linemate_patch::takes(model, edits))
    {
        let file = next::quoted(&file.to_string_lossy());
        return Some(next::step(
            "a patch of a source tree",
            &format!("patch{input} --edit {file} --source TREE"),
        ));
    }
    let named = edits.statements().find_map(|(subject, _)| match subject {
        Some(EditSubject::Named(name)) => Some(name.as_str()),
        _ => None,
    });
    let name = next::quoted(args.edits.type_name.as_deref().or(named)?);
    let machines = next::machines(&args.machines);
    Some(next::step(
        "the layout that costs least",
        &format!("advise{input} --type {name}{machines}"),
    ))
}
