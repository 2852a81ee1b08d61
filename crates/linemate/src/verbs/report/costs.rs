//! `linemate report --machine`: what a recording costs on a described machine.

use anyhow::Context;
use linemate_layout::EditSubject;
use linemate_page::with_asked;
use linemate_recording::Recording;
use linemate_report::{CostsTables, costs_document, costs_headline, costs_text};
use linemate_study::costs::{CostRun, costs_of, costs_under};

use super::page::{OnMachine, Pictures};
use super::{Args, Rows};
use crate::files::MachineName;
use crate::input;
use crate::next;
use crate::outcome::Outcome;
use crate::output;
use crate::page::TOOL;

pub(super) fn run(
    args: &Args,
    machine_name: &MachineName,
    recording: &Recording,
    pictures: Pictures<'_>,
) -> anyhow::Result<Outcome> {
    let machine = args.replaying.machine(machine_name, args.line)?;
    let path = || args.input.path().display().to_string();
    let session =
        args.replaying
            .ask_for(args.input.path(), recording, args.keeping, &args.under)?;
    let type_name = args.type_name.as_ref();
    let type_name = type_name.map(|asked| input::meant(&session, asked));
    let subject = type_name.clone().map(EditSubject::Named);
    let run = CostRun {
        machine: &machine,
        conditions: args.replaying.conditions(),
        seed: args.replaying.seed,
        sources: matches!(args.by, Rows::Source),
    };
    // A page is about all types: what they cost is told by the same replay.
    let mut subjects = vec![subject.as_ref()];
    if pictures.are_wanted() {
        subjects.push(None);
    }
    let found = match args.under.find(&session)? {
        Some(under) => costs_under(&session, subject.as_ref(), run, &under).map(|one| vec![one]),
        None => costs_of(&session, &subjects, run),
    };
    let found = found.with_context(path)?;
    let document = |costs, type_name| costs_document(TOOL, recording, &machine, type_name, costs);
    let mut found = found.into_iter();
    let asked = found.next().unwrap_or_default();
    let whole = found.next().map(|costs| document(costs, None));
    let asked_name = type_name.as_deref();
    let document = document(asked, asked_name);
    let headline = costs_headline(&document);
    let about = whole.map(|whole| OnMachine {
        machine: &machine,
        document: with_asked(whole, &document),
        headline,
    });
    pictures.write(args, &session, asked_name, about)?;
    if args.json {
        output::json(&document)?;
    } else {
        let text = costs_text(
            &document,
            &CostsTables {
                path: &path(),
                by: args.by.into(),
                top: args.top,
                user: recording.description().user,
                all: args.all,
                ledger: args.ledger,
            },
        );
        let input = next::input(args.input.path());
        let about = match asked_name {
            Some(name) => format!(" --type {}", next::quoted(name)),
            None => String::new(),
        };
        let next = next::step(
            "a better layout",
            &format!(
                "advise{input}{about} --machine {}",
                next::quoted(machine_name)
            ),
        );
        args.showing.print(text, Some(next))?;
    }
    Ok(Outcome::Fine)
}
