//! `linemate whatif`: what another layout would cost or gain, predicted by replay.

mod page;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, bail};
use linemate_layout::{Edit, EditFile, EditSubject, parse, parse_flags};
use linemate_machine::Machine;
use linemate_report::WhatIfDocument;
use linemate_study::variant::VariantError;
use linemate_study::{Run, Study, WhatIfError};
use linemate_types::{KernelImage, LineSize, TypeModel};

use crate::cli::Outcome;
use crate::input::{self, Input};
use crate::kept::Keeping;
use crate::next;
use crate::output;
use crate::page::{PageArgs, TOOL};
use crate::replaying::Replaying;
use crate::showing::Showing;
use crate::under::UnderArgs;

/// Predict what another layout would cost or gain, with confidence intervals
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// The type that -e and --layout-from are about, and whose fields are reported
    #[arg(long = "type", value_name = "T", value_parser = input::type_name)]
    type_name: Option<String>,
    /// A file of edits (docs/edits.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["statements", "layout_from"])]
    edit: Option<PathBuf>,
    /// An edit, such as 'isolate __lock'; may be repeated
    #[arg(short = 'e', value_name = "EDIT", conflicts_with = "layout_from")]
    statements: Vec<String>,
    /// Another kernel, whose layout of the type is tried
    #[arg(long, value_name = "IMAGE")]
    layout_from: Option<String>,
    /// The machine to replay on: a name (see `linemate machines`), a TOML file, or `this`; may be repeated
    #[arg(long = "machine", value_name = "M", default_value = "gnr-2s-480")]
    machines: Vec<String>,
    #[command(flatten)]
    under: UnderArgs,
    #[command(flatten)]
    replaying: Replaying,
    #[command(flatten)]
    keeping: Keeping,
    /// Also give each edit's own share: alone, and last
    #[arg(long)]
    ablate: bool,
    /// Also tell costs per call of this function, whose calls were counted (`record --event`)
    #[arg(long, value_name = "FUNCTION")]
    event: Option<String>,
    /// Cache line size of the machines, in bytes
    #[arg(long, value_name = "BYTES", value_parser = input::line_size)]
    line: Option<LineSize>,
    /// The most interleavings, at least 8; fewer are replayed where the intervals are narrow after 4
    #[arg(long, value_name = "N", default_value_t = 8)]
    interleavings: usize,
    /// Replay all interleavings, so that figures of several what-ifs are means over the same
    #[arg(long)]
    all_interleavings: bool,
    /// Maximum number of rows in a table
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    #[command(flatten)]
    showing: Showing,
    #[command(flatten)]
    page: PageArgs,
    /// Write JSON (docs/schema-whatif.md)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let (edits, report) = edits(args)?;
    let images = images(args, &edits)?;
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
    let event = input::event(args.input.path(), &session, args.event.as_deref())?;
    let located = |error| located(args, &edits, error);
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
        ..WhatIfDocument::new(TOOL, &recording, edits.to_string(), layouts, results)
    };
    output.write(|| page::page(args, &session, &machines, document.clone()))?;
    if args.json {
        output::json(&document)?;
    } else {
        let path = args.input.path().display().to_string();
        let text = document.text(&path, args.top);
        args.showing.print(text, Some(next_step(args)))?;
    }
    Ok(Outcome::Fine)
}

/// A file of edits can become a patch; other edits go into a file first.
fn next_step(args: &Args) -> String {
    match &args.edit {
        Some(edit) => {
            let edit = next::quoted(&edit.to_string_lossy());
            next::step(
                "a patch of a source tree",
                &format!("patch --edit {edit} --source TREE"),
            )
        }
        None => {
            let input = next::input(args.input.path());
            let name = next::quoted(args.type_name.as_deref().unwrap_or("T"));
            next::step(
                "the layout that costs least",
                &format!("advise{input} --type {name}"),
            )
        }
    }
}

/// The edits, and the types to report beyond those that they edit.
fn edits(args: &Args) -> anyhow::Result<(EditFile, Vec<EditSubject>)> {
    let report: Vec<EditSubject> = args
        .type_name
        .iter()
        .cloned()
        .map(EditSubject::Named)
        .collect();
    if let Some(path) = &args.edit {
        let name = path.display().to_string();
        let text =
            linemate_files::read_text(path).with_context(|| format!("cannot read {name}"))?;
        let edits = parse(&text).map_err(|error| anyhow::anyhow!("{name}:{error}"))?;
        if edits.is_empty() {
            bail!("{name}: it has no edits (docs/edits.md)");
        }
        return Ok((edits, report));
    }
    let mut flags = args.statements.clone();
    if let Some(image) = &args.layout_from {
        flags.push(Edit::LayoutFrom(image.clone()).to_string());
    }
    let edits = match report.first() {
        Some(subject) => parse_flags(subject.clone(), &flags),
        None => parse(&flags.join("\n")),
    };
    let edits = edits.map_err(|error| anyhow::anyhow!("-e {error}"))?;
    if edits.is_empty() {
        bail!("nothing to compare: give edits with --edit FILE, -e EDIT or --layout-from IMAGE");
    }
    Ok((edits, report))
}

/// What errors about a place in the edits begin with.
fn origin(args: &Args) -> String {
    match &args.edit {
        Some(path) => format!("{}:", path.display()),
        None => "-e ".to_owned(),
    }
}

/// An error with the place of the statement that it is about, if it is about one.
fn located(args: &Args, edits: &EditFile, error: WhatIfError) -> anyhow::Error {
    let origin = origin(args);
    match error {
        WhatIfError::Plan(error) => anyhow::anyhow!("{origin}{error}"),
        WhatIfError::Variant(VariantError::NoFunction { ref name, .. }) => {
            let names =
                |edit: &Edit| matches!(edit, Edit::Reuse { function, .. } if function == name);
            match edits.statements().find(|(_, s)| names(&s.edit)) {
                Some((_, statement)) => anyhow::anyhow!("{origin}{}: {error}", statement.at),
                None => error.into(),
            }
        }
        error => error.into(),
    }
}

/// The types of the kernels that the edits name.
fn images(args: &Args, edits: &EditFile) -> anyhow::Result<BTreeMap<String, TypeModel>> {
    let mut images = BTreeMap::new();
    for (_, statement) in edits.statements() {
        let Edit::LayoutFrom(path) = &statement.edit else {
            continue;
        };
        if !images.contains_key(path) {
            let place = || match args.layout_from {
                Some(_) => path.clone(),
                None => format!("{}{}: {path}", origin(args), statement.at),
            };
            let bytes = linemate_files::read_file(path.as_ref()).with_context(place)?;
            let image = KernelImage::parse(&bytes).with_context(place)?;
            images.insert(path.clone(), image.types().with_context(place)?);
        }
    }
    Ok(images)
}
