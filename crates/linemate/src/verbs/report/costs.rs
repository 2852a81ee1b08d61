//! `linemate report --machine`: what a recording costs on a described machine.

use anyhow::Context;
use linemate_layout::EditSubject;
use linemate_recording::Recording;
use linemate_report::{CostsDocument, CostsTables};
use linemate_study::costs::{CostRun, costs};

use super::Args;
use super::page::Pictures;
use crate::cli::Outcome;
use crate::next;
use crate::output;

/// Replays and prints.
pub(super) fn run(
    args: &Args,
    machine_name: &str,
    recording: &Recording,
    pictures: Pictures<'_>,
) -> anyhow::Result<Outcome> {
    let machine = args.replaying.machine(machine_name, args.line)?;
    let path = || args.input.path().display().to_string();
    let session = args
        .replaying
        .ask(args.input.path(), recording, args.keeping)?;
    let subject = args.type_name.clone().map(EditSubject::Named);
    let run = CostRun {
        machine: &machine,
        conditions: args.replaying.conditions(),
        seed: args.replaying.seed,
    };
    let found = costs(&session, subject.as_ref(), run).with_context(path)?;
    pictures.write(args, &session, recording, Some(run))?;
    let (tool, type_name) = (env!("CARGO_PKG_VERSION"), args.type_name.as_deref());
    let document = CostsDocument::new(tool, recording, &machine, type_name, found);
    if args.json {
        output::json(&document)?;
    } else {
        let text = document.text(&CostsTables {
            path: &path(),
            by: args.by.into(),
            top: args.top,
            user: recording.description().user,
            all: args.all,
            ledger: args.ledger,
        });
        let input = next::input(args.input.path());
        let name = next::quoted(args.type_name.as_deref().unwrap_or("T"));
        let next = next::step(
            "a better layout",
            &format!(
                "advise{input} --type {name} --machine {}",
                next::quoted(machine_name)
            ),
        );
        args.showing.print(text, Some(next))?;
    }
    Ok(Outcome::Fine)
}
