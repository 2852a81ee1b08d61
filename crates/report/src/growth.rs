//! How accesses grow with the number of CPUs.

mod held_out;

use std::borrow::Cow;
use std::fmt::Write as _;

use linemate_study::growth::{Exponent, Growth, GrowthBy, Noise, Prediction, Trend};
use linemate_text::{short, shown};
use serde::{Deserialize, Serialize};

pub use self::held_out::{HeldOutCheck, HeldOutRow, HeldOutShare};
use crate::print::{more, percent};
use crate::{Table, Text};

/// What `linemate growth --json` writes (docs/reference/json/growth.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrowthDocument {
    /// [`GrowthDocument::SCHEMA`].
    pub schema: Cow<'static, str>,
    /// The version of linemate.
    pub tool: String,
    /// The checksum of the kernel's image, or its release.
    pub kernel: String,
    /// The series, in the order of CPUs.
    pub recordings: Vec<GrowthRecording>,
    /// What rows are.
    pub by: GrowthBy,
    /// The number of CPUs that is predicted.
    pub cpus: usize,
    /// The rows' common noise.
    pub noise: Noise,
    /// How many times as wide as by noise alone the intervals are.
    pub stretch: f64,
    /// The rows, those that grow most first.
    pub rows: Vec<GrowthRow>,
    /// What became of predictions in a recording that the series does not have.
    pub against: Option<HeldOutCheck>,
}

/// A recording of a series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrowthRecording {
    /// CPUs.
    pub cpus: usize,
    /// What ran.
    pub command: String,
    /// Accesses in all.
    pub accesses: u64,
}

/// Accesses of a function to a field, or of all functions, or to all fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrowthRow {
    /// The function; empty for all of them.
    pub function: String,
    /// The field; empty for all of them.
    pub field: String,
    /// Accesses per CPU as recorded, in the order of the recordings.
    pub recorded: Vec<f64>,
    /// The best curve: its a,
    pub a: f64,
    /// its b,
    pub b: f64,
    /// its c,
    pub c: f64,
    /// and its share of the prediction.
    pub share: f64,
    /// Its distance from the recorded rates: root mean square, in parts of the mean rate.
    pub residual: f64,
    /// Accesses per CPU that are predicted.
    pub predicted: Prediction,
    /// Those divided by what the recording with the most CPUs has; null where that has none.
    pub times: Option<f64>,
}

impl GrowthRow {
    fn of(function: &str, field: &str, trend: &Trend, cpus: usize) -> GrowthRow {
        let recorded: Vec<f64> = trend.recorded().map(|(_, rate)| rate).collect();
        let curve = trend.best();
        let predicted = trend.predict(cpus);
        let last = recorded.last().copied().filter(|rate| *rate > 0.0);
        GrowthRow {
            function: function.to_owned(),
            field: field.to_owned(),
            a: curve.a,
            b: curve.b,
            c: curve.exponent.value(),
            share: curve.share,
            residual: trend.residual(),
            predicted,
            times: last.map(|last| predicted.mean / last),
            recorded,
        }
    }

    /// Accesses per CPU that are predicted beyond those of the recording with the most CPUs.
    fn gain(&self) -> f64 {
        self.predicted.mean - self.recorded.last().copied().unwrap_or(0.0)
    }
}

impl GrowthDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.growth/1";

    /// The document of a series, made by version `tool`.
    #[must_use]
    pub fn new(tool: &str, growth: &Growth, by: GrowthBy, cpus: usize) -> GrowthDocument {
        let trends = growth.trends(by);
        let rows = trends.rows();
        let rows = rows.map(|(function, field, trend)| GrowthRow::of(function, field, trend, cpus));
        let mut rows: Vec<GrowthRow> = rows.collect();
        // Stable: ties stay in the order of their names.
        rows.sort_by(|a, b| b.gain().total_cmp(&a.gain()));
        let recordings = growth.runs().map(|run| GrowthRecording {
            cpus: run.cpus,
            command: run.command.clone(),
            accesses: run.accesses,
        });
        GrowthDocument {
            schema: Self::SCHEMA.into(),
            tool: tool.to_owned(),
            kernel: growth
                .runs()
                .next()
                .map_or_else(String::new, |run| run.kernel.clone()),
            recordings: recordings.collect(),
            by,
            cpus,
            noise: trends.noise,
            stretch: trends.stretch,
            rows,
            against: None,
        }
    }

    /// At most `top` rows, the check, then the series.
    #[must_use]
    pub fn text(&self, top: usize) -> Text {
        let mut out = Text::default();
        out.table(self.table(top));
        more(&mut out, self.rows.len(), top);
        if let Some(against) = &self.against {
            against.write(&mut out, top);
        }
        self.series(&mut out);
        out
    }

    /// What the figures rest on.
    fn series(&self, out: &mut Text) {
        // Writing to a text does not fail.
        let _ = writeln!(
            out,
            "\nlinemate {}, kernel {}",
            self.tool,
            shown(&self.kernel)
        );
        for recording in &self.recordings {
            let _ = writeln!(
                out,
                "  {} CPUs: `{}`, {} accesses, {} for each CPU",
                recording.cpus,
                shown(&recording.command),
                recording.accesses,
                short(recording.accesses as f64 / recording.cpus as f64)
            );
        }
        let _ = writeln!(
            out,
            "  run-to-run noise {} (prior: {:.1} d.f.); intervals {:.2} times as wide as from noise alone",
            percent(self.noise.relative),
            self.noise.freedom,
            self.stretch
        );
    }

    fn table(&self, top: usize) -> Table {
        let mut header: Vec<String> = self.names().iter().map(|n| (*n).to_owned()).collect();
        let recorded = self.recordings.iter();
        header.extend(recorded.map(|recording| format!("on {}", recording.cpus)));
        header.extend(["a", "b", "c", "weight", "residual"].map(str::to_owned));
        header.extend([format!("on {} predicted", self.cpus), "times".to_owned()]);
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let mut table = Table::new(&header);
        table.align(self.names().len());
        for row in self.rows.iter().take(top) {
            let mut cells = named(self.by, &row.function, &row.field);
            cells.extend(row.recorded.iter().map(|rate| short(*rate)));
            cells.extend([short(row.a), short(row.b), exponent(row.c)]);
            cells.extend([percent(row.share), percent(row.residual)]);
            cells.push(interval(&row.predicted));
            cells.push(
                row.times
                    .map_or_else(|| "-".to_owned(), |t| format!("{t:.2}")),
            );
            table.add_row(cells);
        }
        table
    }

    fn names(&self) -> &'static [&'static str] {
        names(self.by)
    }
}

/// The titles of the columns that name a row.
fn names(by: GrowthBy) -> &'static [&'static str] {
    match by {
        GrowthBy::Access => &["function", "field"],
        GrowthBy::Field => &["field"],
        GrowthBy::Function => &["function"],
    }
}

/// A row's names, in those columns.
fn named(by: GrowthBy, function: &str, field: &str) -> Vec<String> {
    let names = match by {
        GrowthBy::Access => vec![function, field],
        GrowthBy::Field => vec![field],
        GrowthBy::Function => vec![function],
    };
    names.into_iter().map(str::to_owned).collect()
}

fn interval(predicted: &Prediction) -> String {
    let [mean, low, high] = [predicted.mean, predicted.low, predicted.high].map(short);
    format!("{mean} ({low} to {high})")
}

/// c as it is written on paper.
fn exponent(c: f64) -> String {
    match c == Exponent::Half.value() {
        true => "1/2".to_owned(),
        false => format!("{c:.0}"),
    }
}
