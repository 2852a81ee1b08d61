//! `linemate advise --html`.

use std::collections::BTreeMap;

use linemate_advise::{Advice, Tried};
use linemate_answers::{Page, SurveyRow};
use linemate_layout::Plan;
use linemate_machine::Machine;
use linemate_page::empty_page;
use linemate_report::{layout_changes, relative, verdict};
use linemate_study::Session;
use linemate_study::experiment::line_of;
use linemate_text::shown;
use linemate_types::LineSize;
use serde::Serialize;

use super::{Args, TOOL};
use crate::page::{about, settings};

/// The page of advice about a type: its layout now and as recommended.
pub(super) fn of_advice(
    args: &Args,
    session: &Session<'_>,
    machines: &[Machine],
    advice: &Advice,
    document: &impl Serialize,
) -> anyhow::Result<Page> {
    let asked = args.type_name.as_slice();
    let mut page = page(args, session, machines, asked, document)?;
    page.type_name = page.types.first().map(|page| page.view.name.clone());
    page.headline = match advice.recommended() {
        None => format!(
            "Replay confirmed no gain for any of the {} candidates.",
            advice.tried.len()
        ),
        Some(best) => headline(best, machines),
    };
    if let (Some(best), Some(machine)) = (advice.recommended(), machines.first()) {
        let (line, model) = (line_of(machine), session.analysis().model());
        let mut plan = Plan::new(model, line, &best.edits, &BTreeMap::new())?;
        page.layouts = layout_changes(&mut plan, line)?;
    }
    Ok(page)
}

fn headline(best: &Tried, machines: &[Machine]) -> String {
    let effects = best.effects.iter().flatten().zip(machines.iter().cycle());
    let effects = effects.map(|(effect, machine)| {
        let types = &effect.types;
        format!(
            "{} of its cycles on {}, {}",
            relative(types, types.without),
            shown(&machine.name),
            verdict(types)
        )
    });
    let effects: Vec<String> = effects.collect();
    let moves = best.moves();
    let word = if moves == 1 { "move" } else { "moves" };
    format!("A layout with {moves} {word}: {}", effects.join("; "))
}

/// The page of a survey.
pub(super) fn of_survey(
    args: &Args,
    session: &Session<'_>,
    machines: &[Machine],
    rows: &[SurveyRow],
    document: &impl Serialize,
) -> anyhow::Result<Page> {
    let names: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
    let mut page = page(args, session, machines, &names, document)?;
    let not_true = |row: &SurveyRow| row.cost * (row.false_sharing + row.other_misses);
    page.headline = match rows.first() {
        None => "No type of the recording can be laid out.".to_owned(),
        Some(row) => format!(
            "A layout can gain most in {}: {:.0} of its {:.0} cycles are not true sharing",
            shown(&row.name),
            not_true(row),
            row.cost
        ),
    };
    Ok(page)
}

/// What both have: the first recording's types, `names` first.
fn page(
    args: &Args,
    session: &Session<'_>,
    machines: &[Machine],
    names: &[String],
    document: &impl Serialize,
) -> anyhow::Result<Page> {
    let line = machines.first().map_or(LineSize::B64, line_of);
    let about = about(session, line, None, names)?;
    let machines: Vec<&Machine> = machines.iter().collect();
    let mut settings = settings(&machines, &args.replaying);
    settings.insert("interleavings".to_owned(), args.interleavings.to_string());
    settings.insert("trials".to_owned(), args.trials.to_string());
    let files: Vec<String> = args
        .paths()
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let subject = args.type_name.as_deref().unwrap_or("survey");
    Ok(Page {
        report: Some(about.report),
        rows_left_out: about.rows_left_out,
        types: about.types,
        advise: Some(serde_json::to_value(document)?),
        ..empty_page(
            TOOL,
            format!("{subject}: advice from {}", files.join(", ")),
            settings,
        )
    })
}
