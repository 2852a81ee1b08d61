//! Without a type: where a layout can win most.

use std::borrow::Cow;
use std::fmt::Write as _;

use linemate_advise::survey::Row;
use linemate_recording::Recording;
use linemate_remedies::RemedyList;
use linemate_text::shown;
use serde::{Deserialize, Serialize};

use super::{AdvisedRecording, text};
use crate::print::{cycles, interleavings, percent};
use crate::{Table, Text};

/// What `linemate advise --json` writes without a type (docs/reference/json/advise.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SurveyDocument {
    /// [`SurveyDocument::SCHEMA`].
    pub schema: Cow<'static, str>,
    /// The version of linemate.
    pub tool: String,
    /// What the advice rests on.
    pub recordings: Vec<AdvisedRecording>,
    /// The machines' names.
    pub machines: Vec<String>,
    /// The first interleaving's seed.
    pub seed: u64,
    /// Over how many interleavings the types' costs are a mean: one. Remedies say how many theirs are of.
    pub interleavings: usize,
    /// The types, by the larger of the estimate and the cycles of false sharing.
    pub types: Vec<Row>,
    /// Advice other than reordering members, for the first recording and machine.
    pub remedies: RemedyList,
}

impl SurveyDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.advise-survey/2";

    /// The document of the survey of `recordings` on the machines of these names, made by version `tool`.
    pub fn new(
        tool: &str,
        recordings: &[Recording],
        machines: Vec<String>,
        seed: u64,
        types: Vec<Row>,
        remedies: RemedyList,
    ) -> Self {
        SurveyDocument {
            schema: Self::SCHEMA.into(),
            tool: tool.to_owned(),
            recordings: recordings.iter().map(AdvisedRecording::new).collect(),
            machines,
            seed,
            interleavings: 1,
            types,
            remedies,
        }
    }

    /// The types, then what is not a matter of order. `paths`: the recordings' files.
    #[must_use]
    pub fn text(&self, paths: &[String]) -> Text {
        let mut out = Text::default();
        types(&mut out, self);
        text::remedies(&mut out, &self.remedies);
        text::inputs(&mut out, &self.tool, paths, &self.recordings);
        out
    }
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
        "Types ranked by what a layout can gain on {}, in cycles of accesses that leave their core; {}. Nested types count for the outermost.\n",
        survey.machines.join(", "),
        interleavings(survey.interleavings, survey.seed)
    );
    out.table(list);
    let _ = writeln!(
        out,
        "\n\
         Not true sharing: cycles in a replay of the recorded layout. Estimate: the best layout of a short search without growth, by the fast model; confirm it with --type. It can exceed the former: words that are exchanged together take one transfer if they share a line, else one each."
    );
    for row in rows {
        if let Some(why) = &row.why_not {
            let _ = writeln!(out, "Not searched: {}: {}.", shown(&row.name), shown(why));
        }
    }
}
