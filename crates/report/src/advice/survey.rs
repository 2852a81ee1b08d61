//! Without a type: where a layout can win most.

use std::fmt::Write as _;

use linemate_answers::SurveyDocument;
use linemate_text::shown;

use super::text;
use crate::headline::survey_headline;
use crate::print::{cycles, interleavings, percent};
use crate::{Table, Text};

/// The types, then what is not a matter of order. `paths`: the recordings' files.
#[must_use]
pub fn survey_text(survey: &SurveyDocument, paths: &[String]) -> Text {
    let mut out = Text::default();
    // Writing to a String does not fail.
    let _ = writeln!(out, "{}\n", survey_headline(survey));
    types(&mut out, survey);
    text::warn(&mut out, &survey.recordings);
    text::remedies(&mut out, &survey.remedies);
    text::inputs(&mut out, &survey.tool, paths, &survey.recordings);
    out
}

fn types(out: &mut Text, survey: &SurveyDocument) {
    let rows = &survey.types;
    let mut list = Table::of_figures(&[
        "type",
        "cost",
        "of all cost",
        "true sharing",
        "false sharing",
        "other misses",
        "not true sharing",
        "estimate",
        "of its cost",
        "moves",
    ]);
    let none = |what: &str| (what.to_owned(), "-".to_owned(), "-".to_owned());
    for row in rows {
        let (gain, share, moves) = match (&row.estimate, &row.why_not) {
            (Some(e), _) if cycles(e.gain) == cycles(0.0) => none("0"),
            (Some(e), _) => (cycles(e.gain), percent(e.share), e.moves.to_string()),
            (None, Some(_)) => none("no search"),
            (None, None) => none("-"),
        };
        let inside = row.inside.as_ref();
        list.add_row(vec![
            inside.map_or(row.name.clone(), |inside| {
                format!("{} ({inside})", row.name)
            }),
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
        "Types ranked by what a layout can gain on {}, in cycles of accesses that leave their core; {}. Nested types count as their outermost type.\n",
        survey.machines.join(", "),
        interleavings(survey.interleavings, survey.seed)
    );
    out.table(list);
    let _ = writeln!(
        out,
        "\n\
         Not true sharing: cycles in a replay of the recorded layout. Estimate: the best layout of a short search without growth, by the fast model; confirm it with --type. In brackets: the struct inside the type that it reorders. It can exceed what is not true sharing: words that are exchanged together take one transfer if they share a line, else one each."
    );
    for row in rows {
        if let Some(e) = row.estimate.filter(|e| e.sampled_from > e.rated) {
            let _ = writeln!(
                out,
                "{}: estimated on a sample, {} of the {} accesses that a layout can change.",
                shown(&row.name),
                e.rated,
                e.sampled_from
            );
        }
        if let Some(why) = &row.why_not {
            let _ = writeln!(out, "Not searched: {}: {}.", shown(&row.name), shown(why));
        }
    }
}
