//! `linemate whatif`: what another layout would cost or gain, predicted by replay.

mod coverage;

use std::collections::BTreeMap;

use anyhow::bail;
use linemate_answers::{LayoutChange, WhatIf, WhatIfDocument};
use linemate_documents::{layout_changes, whatif_document};
use linemate_experiment::Seed;
use linemate_layout::{EditFile, EditSubject, Plan};
use linemate_machine::Machine;
use linemate_page::{Answered, Frame};
use linemate_report::whatif_text;
use linemate_session::Session;
use linemate_study::{Run, Study};
use linemate_types::{LineSize, TypeModel};

use crate::files::SourceFolder;
use crate::input;
use crate::next;
use crate::outcome::Outcome;
use crate::page::{PageArgs, TOOL, about, frame};
use crate::question::edits::EditArgs;
use crate::question::{self, Question};
use crate::show::{self, Showing};

/// Predict the cost or gain of another layout, with confidence intervals
#[derive(clap::Args, Debug)]
#[command(
    mut_arg("machines", question::always_on_a_machine),
    mut_arg("top", show::few)
)]
#[command(mut_arg("type_name", |arg| arg.help(TYPE)))]
pub(crate) struct Args {
    #[command(flatten)]
    question: Question,
    #[command(flatten)]
    edits: EditArgs,
    /// Also show each edit's own effect: applied alone, and applied last
    #[arg(long)]
    ablate: bool,
    /// New neighbours, who uses them, and which pairs no recording exercises; takes several
    /// recordings
    #[arg(long, conflicts_with_all = ["ablate", "html", "under", "event"])]
    coverage: bool,
    /// With --coverage: also functions of this source that name the fields
    #[arg(long, value_name = "TREE", requires = "coverage")]
    source: Option<SourceFolder>,
    #[command(flatten)]
    showing: Showing,
    #[command(flatten)]
    page: PageArgs,
}

const TYPE: &str = "The type that -e and --layout-from edit, and whose fields are reported";

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let question = &args.question;
    if args.coverage {
        return coverage::run(args);
    }
    if let [_, second, ..] = question.paths() {
        bail!(
            "{}: whatif takes one recording, several only with --coverage",
            second.display()
        );
    }
    let edits = args.edits.edits(question.type_name.as_deref())?;
    let images = args.edits.images(&edits)?;
    let machines = question.machines()?;
    let outputs = args.showing.with_page(&args.page)?;
    let path = question.path();
    let recording = input::open(path)?;
    let session = question.ask(path, &recording)?;
    let subject = question.subject(&session);
    let edits = args.edits.meant(edits, subject.as_deref())?;
    let model = session.analysis().model();
    let edits = args.edits.as_declared(edits, model, &images)?;
    let report: Vec<EditSubject> = subject.into_iter().map(EditSubject::Named).collect();
    let event = question.event(path, &session)?;
    let located = |error| args.edits.located(&edits, error);
    let study = Study::new(&session, &edits, &images, &report).map_err(located)?;
    let study = study.with_under(question.function(&session)?);
    let mut results = Vec::new();
    for machine in machines.clone() {
        results.push(study.run(&args.on(machine)).map_err(located)?);
    }
    let layouts = layouts(&session, &edits, &images, &results)?;
    let document = WhatIfDocument {
        event,
        ..whatif_document(TOOL, &recording, edits.to_string(), layouts, results)
    };
    outputs.show(
        &document,
        || page(args, &session, &machines, document.clone()),
        || whatif_text(&document, &question.place(), args.showing.top),
        next_step(args, &edits),
    )?;
    Ok(Outcome::Fine)
}

impl Args {
    fn on(&self, machine: Machine) -> Run {
        let replaying = &self.question.replaying;
        Run {
            machine,
            conditions: replaying.conditions(),
            seed: Seed(replaying.seed),
            interleavings: replaying.interleavings,
            all_interleavings: replaying.all_interleavings,
            ablate: self.ablate,
        }
    }
}

/// The edited types before and after, for each line size of the results once.
fn layouts(
    session: &Session<'_>,
    edits: &EditFile,
    images: &BTreeMap<String, TypeModel>,
    results: &[WhatIf],
) -> anyhow::Result<Vec<LayoutChange>> {
    let model = session.analysis().model();
    let mut changes = Vec::new();
    for line in [LineSize::B64, LineSize::B128] {
        if results.iter().any(|r| r.line_bytes == line.bytes()) {
            let mut plan = Plan::new(model, line, edits, images)?;
            changes.extend(layout_changes(&mut plan, line)?);
        }
    }
    Ok(changes)
}

/// The page of a what-if: the edited types first.
fn page(
    args: &Args,
    session: &Session<'_>,
    machines: &[Machine],
    document: WhatIfDocument,
) -> anyhow::Result<linemate_answers::Page> {
    let sizes = document.results.first().map(|result| &result.sizes);
    let sizes = || sizes.into_iter().flatten();
    let types = sizes().filter(|size| !size.memory);
    let types: Vec<String> = types.map(|size| size.name.clone()).collect();
    let edited: Vec<&str> = sizes().map(|size| size.name.as_str()).collect();
    let line = machines
        .first()
        .map_or(LineSize::B64, |machine| machine.line);
    let about = about(session, line, None, &types)?;
    let (question, edited) = (&args.question, edited.join(", "));
    let mut frame = Frame {
        settings: question.settings(machines),
        type_name: types.into_iter().next(),
        ..frame(format!("{edited}: edits tried on {}", question.place()))
    };
    let interleavings = question.replaying.interleavings.to_string();
    frame.set("interleavings", interleavings);
    frame.set("ablate", args.ablate.to_string());
    let answered = Answered::WhatIf(Box::new(document));
    Ok(linemate_page::page(frame, Some(about), answered))
}

/// A file of edits can become a patch, if it concerns only layouts and a type that can be patched;
/// for other edits there may be a layout that costs less.
fn next_step(args: &Args, edits: &EditFile) -> Option<String> {
    let question = &args.question;
    let input = question.words(None);
    let file = args.edits.edit.as_ref();
    if let Some(file) = file.filter(|_| linemate_patch::takes(edits)) {
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
    let name = question.type_name.as_deref().or(named)?;
    let (about, machines) = (
        question.words(Some(name)),
        next::machines(&question.machines),
    );
    Some(next::step(
        "the layout that costs least",
        &format!("advise{about}{machines}"),
    ))
}
