//! `linemate check --recording`: the groups of members that the kernel's types declare, against
//! what was recorded.

use std::path::Path;

use linemate_documents::{DeclaringType, TypeUses, declared_document, type_uses};
use linemate_experiment::{Conditions, Seed};
use linemate_layout::EditSubject;
use linemate_machine::{Machine, Mechanism, find};
use linemate_report::declared_text;
use linemate_session::Session;
use linemate_study::costs::{CostRun, costs_of};
use linemate_types::types_with_groups;

use super::Args;
use crate::input::{self, DEFAULT_MACHINE};
use crate::outcome::Outcome;
use crate::output;

pub(super) fn run(args: &Args, path: &Path) -> anyhow::Result<Outcome> {
    let machine = find(DEFAULT_MACHINE)?;
    let machine = machine.with_only(|mechanism| mechanism == Mechanism::AdjacentLinePairs);
    let recording = input::open(path)?;
    let session = input::ask(path, &recording, args.keeping)?;
    let model = session.analysis().model();
    let (mut accessed, mut absent) = (Vec::new(), Vec::new());
    for id in types_with_groups(model) {
        let name = model.composite_name(id);
        match type_uses(session.analysis(), session.counted(), name) {
            Some(uses) => accessed.push(uses),
            None => absent.push(name.to_owned()),
        }
    }
    let types = with_costs(&session, accessed, &machine)?;
    let document = declared_document(&recording, model, &types, &machine, absent);
    if args.json {
        output::json(&document)?;
    } else {
        output::fitted(&declared_text(
            &document,
            &path.display().to_string(),
            args.top,
        ))?;
    }
    Ok(match document.findings.is_empty() {
        true => Outcome::Fine,
        false => Outcome::Findings,
    })
}

/// The types with what they cost on the machine, by one replay of the recorded layout.
fn with_costs(
    session: &Session<'_>,
    accessed: Vec<TypeUses>,
    machine: &Machine,
) -> anyhow::Result<Vec<DeclaringType>> {
    let named = accessed
        .iter()
        .map(|uses| EditSubject::Named(uses.name().to_owned()));
    let subjects: Vec<EditSubject> = named.collect();
    if subjects.is_empty() {
        return Ok(Vec::new());
    }
    let subjects: Vec<Option<&EditSubject>> = subjects.iter().map(Some).collect();
    let run = CostRun {
        machine,
        conditions: Conditions::default(),
        seed: Seed(1),
        sources: false,
    };
    let costs = costs_of(session, &subjects, run)?;
    let both = accessed.into_iter().zip(costs);
    Ok(both
        .map(|(uses, costs)| DeclaringType { uses, costs })
        .collect())
}
