//! `linemate report --machine`: what a recording costs on described machines.

use anyhow::Context;
use linemate_answers::{Costs, CostsDocument};
use linemate_documents::costs_document;
use linemate_experiment::{Seed, Under};
use linemate_layout::EditSubject;
use linemate_machine::Machine;
use linemate_page::{Answered, with_narrowed};
use linemate_report::{CostsTables, costs_text};
use linemate_session::Session;
use linemate_study::costs::{CostRun, costs_of, costs_under};

use super::pictures::{self, Pictures};
use super::{Args, Rows};
use crate::next;
use crate::output::to_stderr;
use crate::page::TOOL;

pub(super) fn run(
    args: &Args,
    machines: &[Machine],
    session: &Session<'_>,
    mut pictures: Pictures<'_>,
) -> anyhow::Result<()> {
    let question = &args.question;
    let type_name = question.subject(session);
    let event = question.event(question.path(), session)?;
    let under = question.function(session)?;
    let (mut asked, mut whole) = (Vec::new(), None);
    for machine in machines {
        // A page covers all types on one machine: the same replay gives their costs.
        let with_whole = pictures.are_wanted() && asked.is_empty();
        let found = OnMachine {
            args,
            session,
            machine,
        };
        let mut found = found.costs(type_name.as_deref(), under.as_ref(), with_whole)?;
        asked.push(found.remove(0));
        whole = whole.or(found.pop());
    }
    let mut asked = asked.into_iter();
    let first = asked.next().context("no machine")?;
    let document = CostsDocument {
        event,
        ..first.with_others(asked)
    };
    let whole = whole.map(|whole| with_narrowed(whole, &document));
    let about = pictures.draw(args, session, whole.as_ref(), type_name.as_deref())?;
    if let (Some(machine), true) = (machines.get(1), pictures.are_wanted()) {
        to_stderr(&format!(
            "note: pictures are of the first machine, not of {}",
            machine.name
        ));
    }
    let tables = CostsTables {
        path: &question.place(),
        by: args.by.into(),
        top: args.showing.top,
        user: session.analysis().recording().description().user,
        all: args.all,
        ledger: args.ledger,
    };
    let next = next::step(
        "a better layout",
        &format!(
            "advise{}{}",
            question.words(type_name.as_deref()),
            next::each_machine(&question.machines)
        ),
    );
    let page = || {
        let whole = Box::new(whole.context("no costs of all types")?);
        let asked = Box::new(document.clone());
        let answered = Answered::Costs { whole, asked };
        Ok(pictures::page(args, &machines[..1], about, answered))
    };
    pictures.outputs.show(
        &document,
        page,
        || costs_text(&document, &tables),
        Some(next),
    )
}

/// A recording on one of the machines.
struct OnMachine<'q> {
    args: &'q Args,
    session: &'q Session<'q>,
    machine: &'q Machine,
}

impl OnMachine<'_> {
    /// The requested costs, and `with_whole` the costs of everything.
    fn costs(
        &self,
        type_name: Option<&str>,
        under: Option<&Under>,
        with_whole: bool,
    ) -> anyhow::Result<Vec<CostsDocument>> {
        let question = &self.args.question;
        let subject = type_name.map(|name| EditSubject::Named(name.to_owned()));
        let run = CostRun {
            machine: self.machine,
            conditions: question.conditions(),
            seed: Seed(question.seed()),
            sources: matches!(self.args.by, Rows::Source),
        };
        let mut subjects = vec![subject.as_ref()];
        if with_whole {
            subjects.push(None);
        }
        let found = match under {
            Some(under) => {
                costs_under(self.session, subject.as_ref(), run, under).map(|one| vec![one])
            }
            None => costs_of(self.session, &subjects, run),
        };
        let recording = self.session.analysis().recording();
        let document = |(number, costs): (usize, Costs)| {
            let name = type_name.filter(|_| number == 0);
            costs_document(TOOL, recording, self.machine, name, costs)
        };
        let found = found.with_context(|| question.place())?;
        Ok(found.into_iter().enumerate().map(document).collect())
    }
}
