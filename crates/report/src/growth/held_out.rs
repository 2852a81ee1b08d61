//! A series' predictions beside a recording that it does not have.

use std::fmt::Write as _;

use linemate_study::growth::{Growth, GrowthBy, HeldOut, Prediction, SeriesCounts, SeriesError};
use linemate_text::short;
use serde::{Deserialize, Serialize};

use super::{GrowthRecording, interval, named, names};
use crate::print::{more, percent};
use crate::{Table, Text};

/// Numbers of rows, those with most accesses, that the check is told for.
const LARGEST: [usize; 3] = [20, 100, 1000];

/// How well a series predicts a recording that it does not have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOutCheck {
    /// The recording.
    pub recording: GrowthRecording,
    /// What rows are.
    pub by: GrowthBy,
    /// For the rows with most accesses.
    pub largest: Vec<HeldOutShare>,
    /// All rows, those with most accesses first.
    pub rows: Vec<HeldOutRow>,
}

/// How well the rows with most accesses are predicted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOutShare {
    /// How many rows.
    pub rows: usize,
    /// Their share of all accesses of the recording.
    pub accesses: f64,
    /// The mean of the errors' absolute values, in parts of the real count.
    pub mean_error: f64,
    /// The largest one.
    pub largest_error: f64,
    /// The mean error of a prediction without growth: each CPU does what it did in the largest recording of the series.
    pub mean_error_without: f64,
    /// The share of rows whose interval holds the real count.
    pub covered: f64,
}

/// A row of the recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOutRow {
    /// The function; empty for all of them.
    pub function: String,
    /// The field; empty for all of them.
    pub field: String,
    /// Accesses per CPU in the recording.
    pub real: f64,
    /// What is predicted.
    pub predicted: Prediction,
    /// Predicted less real, in parts of the real count; null where that is 0.
    pub error: Option<f64>,
    /// Whether the interval holds the real count.
    pub covered: bool,
    /// Accesses per CPU in the largest recording of the series.
    pub last: f64,
}

impl HeldOutRow {
    fn of(row: HeldOut, last: f64) -> HeldOutRow {
        HeldOutRow {
            error: (row.real > 0.0).then(|| row.error()),
            covered: row.is_covered(),
            function: row.function,
            field: row.field,
            real: row.real,
            predicted: row.predicted,
            last,
        }
    }
}

impl HeldOutCheck {
    /// Of what a series predicts for `other`.
    ///
    /// # Errors
    /// A recording that does not belong to the series.
    pub fn new(
        growth: &Growth,
        other: &SeriesCounts,
        by: GrowthBy,
    ) -> Result<HeldOutCheck, SeriesError> {
        let trends = growth.trends(by);
        let last = |row: &HeldOut| {
            let trend = trends.get(&row.function, &row.field);
            trend
                .and_then(|t| t.recorded().last())
                .map_or(0.0, |(_, rate)| rate)
        };
        let rows = growth.against(other, by)?;
        let rows = rows.into_iter().map(|row| {
            let last = last(&row);
            HeldOutRow::of(row, last)
        });
        let mut rows: Vec<HeldOutRow> = rows.collect();
        // Stable: ties stay in the order of their names.
        rows.sort_by(|a, b| b.real.total_cmp(&a.real));
        let run = &other.run;
        let recording = GrowthRecording {
            cpus: run.cpus,
            command: run.command.clone(),
            accesses: run.accesses,
        };
        let seen = rows.partition_point(|row| row.real > 0.0);
        let shares = LARGEST.into_iter().filter(|count| *count < seen);
        let all = run.accesses as f64 / run.cpus as f64;
        let shares = shares.chain((seen > 0).then_some(seen));
        Ok(HeldOutCheck {
            largest: shares.map(|count| share(&rows[..count], all)).collect(),
            recording,
            by,
            rows,
        })
    }

    pub(super) fn write(&self, out: &mut Text, top: usize) {
        // Writing to a text does not fail.
        let _ = writeln!(
            out,
            "\nPredictions for {} CPUs against a recording outside the series: {} accesses",
            self.recording.cpus, self.recording.accesses
        );
        let mut table = Table::of_figures(&[
            "rows with most accesses",
            "of all",
            "mean error",
            "largest error",
            "mean error without growth",
            "in their interval",
        ]);
        for share in &self.largest {
            let figures = [
                share.accesses,
                share.mean_error,
                share.largest_error,
                share.mean_error_without,
                share.covered,
            ];
            let mut cells = vec![share.rows.to_string()];
            cells.extend(figures.map(percent));
            table.add_row(cells);
        }
        out.table(table);
        let _ = writeln!(out);
        let mut header = names(self.by).to_vec();
        header.extend(["real", "predicted", "error", "in interval"]);
        let mut table = Table::new(&header);
        table.align(names(self.by).len());
        for row in self.rows.iter().take(top) {
            let mut cells = named(self.by, &row.function, &row.field);
            let error = row.error.map(|error| format!("{:+.1} %", 100.0 * error));
            let covered = if row.covered { "yes" } else { "no" };
            cells.extend([short(row.real), interval(&row.predicted)]);
            cells.push(error.unwrap_or_else(|| "-".to_owned()));
            cells.push(covered.to_owned());
            table.add_row(cells);
        }
        out.table(table);
        more(out, self.rows.len(), top);
    }
}

/// Of rows that have accesses, and there are any; `all` accesses per CPU.
fn share(rows: &[HeldOutRow], all: f64) -> HeldOutShare {
    let count = rows.len() as f64;
    let errors = || rows.iter().filter_map(|row| row.error).map(f64::abs);
    let without = rows.iter().map(|row| (row.last / row.real - 1.0).abs());
    let covered = rows.iter().filter(|row| row.covered).count() as f64;
    HeldOutShare {
        rows: rows.len(),
        accesses: rows.iter().map(|row| row.real).sum::<f64>() / all,
        mean_error: errors().sum::<f64>() / count,
        largest_error: errors().fold(0.0, f64::max),
        mean_error_without: without.sum::<f64>() / count,
        covered: covered / count,
    }
}
