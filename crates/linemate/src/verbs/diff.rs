//! `linemate diff`: two recordings field by field.

use std::path::Path;

use anyhow::Context;
use linemate_answers::{DiffDocument, DiffSide, MachineDiff, Page};
use linemate_documents::diff_document;
use linemate_experiment::Seed;
use linemate_layout::EditSubject;
use linemate_machine::Machine;
use linemate_page::{About, Answered, Frame};
use linemate_report::diff_text;
use linemate_study::diff::{On, fields};

use crate::input;
use crate::outcome::Outcome;
use crate::page::{PageArgs, TOOL, about, frame};
use crate::question::{self, Question, recordings};
use crate::show::Showing;

/// Compare a type's fields in two recordings, for example of two kernels; fields are matched by
/// path
#[derive(clap::Args, Debug)]
#[command(mut_arg("recordings", recordings::two))]
#[command(mut_args(question::without_interleavings))]
#[command(mut_arg("machines", |arg| arg.help(MACHINE)), mut_arg("line", |arg| arg.requires("machines")))]
pub(crate) struct Args {
    #[command(flatten)]
    question: Question,
    #[command(flatten)]
    showing: Showing,
    #[command(flatten)]
    page: PageArgs,
}

const MACHINE: &str = "Also compare what the fields cost on this machine: a name (see `linemate machines`), a TOML file, \
or `this`; may be repeated";

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let question = &args.question;
    question.need_machine()?;
    let machines = question.machines()?;
    let outputs = args.showing.with_page(&args.page)?;
    let [a, b] = question.two()?;
    let with_page = outputs.has_page();
    let first = Side::new(a, question, &machines, with_page)?;
    let second = Side::new(b, question, &machines, with_page)?;
    let document = document(question, first.on, second.on)?;
    let page = || {
        Ok(page(
            question,
            &machines,
            document.clone(),
            [first.about, second.about],
        ))
    };
    let names = [a, b].map(|path| path.display().to_string());
    let text = || diff_text(&document, [&names[0], &names[1]], args.showing.top);
    outputs.show(&document, page, text, None)?;
    Ok(Outcome::Fine)
}

/// The document of both sides, by machine.
fn document(
    question: &Question,
    a: Vec<DiffSide>,
    b: Vec<DiffSide>,
) -> anyhow::Result<DiffDocument> {
    let mut names = question.machines.iter().map(|name| name.to_string());
    let mut sides = a.into_iter().zip(b);
    let (a, b) = sides.next().context("nothing is compared")?;
    let (name, seed) = (question.type_name.clone(), question.seed());
    let first = diff_document(TOOL, name, names.next(), seed, [a, b]);
    let others = names.zip(sides);
    let others = others.map(|(machine, (a, b))| MachineDiff { machine, a, b });
    Ok(DiffDocument {
        others: others.collect(),
        under: question.under.clone(),
        ..first
    })
}

/// A recording's figures, and for a page its view of the type.
struct Side {
    /// By machine; without one those of the recording alone.
    on: Vec<DiffSide>,
    about: Option<About>,
}

impl Side {
    fn new(
        path: &Path,
        question: &Question,
        machines: &[Machine],
        with_page: bool,
    ) -> anyhow::Result<Side> {
        let recording = input::open(path)?;
        let session = question.ask(path, &recording)?;
        let subject = question.subject(&session).map(EditSubject::Named);
        let under = question.function(&session)?;
        let line = machines
            .first()
            .map_or(question.line(), |machine| machine.line);
        let asked = question.type_name.as_slice();
        let about = with_page.then(|| about(&session, line, None, asked));
        let about = about.transpose()?;
        let on = |machine| On {
            machine,
            seed: Seed(question.seed()),
            conditions: question.conditions(),
            under: under.as_ref(),
        };
        let event = question.event.as_deref();
        let side = |on| fields(&session, subject.as_ref(), on, event);
        let on: Result<Vec<DiffSide>, _> = match machines {
            [] => side(None).map(|side| vec![side]),
            machines => machines
                .iter()
                .map(|machine| side(Some(on(machine))))
                .collect(),
        };
        Ok(Side {
            on: on.with_context(|| path.display().to_string())?,
            about,
        })
    }
}

/// The page: the fields of both, and the type in both kernels. Accesses and the ledger are those of
/// the first.
fn page(
    question: &Question,
    machines: &[Machine],
    document: DiffDocument,
    [first, second]: [Option<About>; 2],
) -> Page {
    let types = first.as_ref().map_or(&[][..], |about| &about.types);
    let asked = question.type_name.as_ref().and(types.first());
    let [a, b] = [0, 1].map(|side| question.paths()[side].display().to_string());
    let frame = Frame {
        settings: question.settings(machines.get(..1).unwrap_or_default()),
        type_name: asked.map(|page| page.view.name.clone()),
        ..frame(format!("A {a}, B {b}"))
    };
    let answered = Answered::Diff {
        document: Box::new(document),
        others: second.map_or(Vec::new(), |about| about.types),
    };
    linemate_page::page(frame, first, answered)
}
