//! Without a type: where a layout can win most.

use std::fmt::Write as _;

use linemate_advise::survey::{Row, survey};
use linemate_machine::Machine;
use linemate_recording::Recording;
use linemate_remedies::Found;
use linemate_report::Table;
use linemate_study::Session;
use linemate_text::shown;
use serde::Serialize;

use super::page::of_survey;
use super::{Args, JsonRecording, TOOL, described, text};
use crate::cli::Outcome;
use crate::output;
use crate::page::PageOutput;
use crate::verbs::whatif::{cycles, percent};

/// Version of the form that `--json` writes (docs/schema-advise.md).
const SCHEMA: &str = "linemate.advise-survey/2";
/// How many types are searched.
const SEARCHED: usize = 10;

#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    tool: &'static str,
    recordings: Vec<JsonRecording<'a>>,
    machines: Vec<&'a str>,
    seed: u64,
    types: &'a [Row],
    remedies: &'a Found,
}

/// Surveys the recordings.
pub(super) fn run(
    args: &Args,
    recordings: &[Recording],
    analyses: &[&Session<'_>],
    machines: &[Machine],
    remedies: &Found,
    page: PageOutput<'_>,
) -> anyhow::Result<Outcome> {
    let mut rows = survey(
        analyses,
        machines,
        args.replaying.conditions(),
        args.replaying.seed,
        SEARCHED.min(args.top),
    )?;
    rows.truncate(args.top);
    let document = Json {
        schema: SCHEMA,
        tool: TOOL,
        recordings: described(recordings),
        machines: machines.iter().map(|m| m.name.as_str()).collect(),
        seed: args.replaying.seed,
        types: &rows,
        remedies,
    };
    page.write(|| of_survey(args, analyses[0], machines, &rows, &document))?;
    if args.json {
        output::json(&document)?;
    } else {
        let mut out = String::new();
        text::inputs(&mut out, &args.paths(), recordings);
        let names: Vec<&str> = machines.iter().map(|m| m.name.as_str()).collect();
        print(&mut out, &rows, &names.join(", "));
        out.push_str(&text::remedies(remedies));
        output::text(&out)?;
    }
    Ok(Outcome::Fine)
}

fn print(out: &mut String, rows: &[Row], machines: &str) {
    let mut list = Table::of_figures(&[
        "type",
        "cost",
        "of all cost",
        "true sharing",
        "false sharing",
        "other misses",
        "layout wins at most",
        "estimate",
        "of its cost",
        "moves",
    ]);
    for row in rows {
        let (gain, share, moves) = match (&row.estimate, &row.why_not) {
            (Some(e), _) => (cycles(e.gain), percent(e.share), e.moves.to_string()),
            (None, Some(_)) => ("no search".to_owned(), "-".to_owned(), "-".to_owned()),
            (None, None) => ("-".to_owned(), "-".to_owned(), "-".to_owned()),
        };
        list.add_row(vec![
            row.name.clone(),
            cycles(row.cost),
            percent(row.share),
            percent(row.true_sharing),
            percent(row.false_sharing),
            percent(row.other_misses),
            cycles(row.cost * (row.false_sharing + row.other_misses)),
            gain,
            share,
            moves,
        ]);
    }
    let _ = writeln!(
        out,
        "Types by what a layout can win on {machines}, in cycles of accesses that leave their core.\n\n{list}\n\n\
         At most: everything but true sharing, by a replay of the recorded layout. Estimate: the best layout of a short search without growth, by the \
         fast model; confirm it with --type."
    );
    for row in rows {
        if let Some(why) = &row.why_not {
            let _ = writeln!(out, "No search of {}: {}.", shown(&row.name), shown(why));
        }
    }
}
