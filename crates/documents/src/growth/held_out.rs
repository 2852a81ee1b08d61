//! A series' predictions compared with a recording that it does not have.

use linemate_answers::{GrowthBy, GrowthRecording, HeldOutCheck, HeldOutRow, HeldOutShare};
use linemate_growth::{Growth, HeldOut, SeriesCounts, SeriesError};

use super::prediction;

/// Numbers of rows, those with most accesses, that the check reports.
const LARGEST: [usize; 3] = [20, 100, 1000];

/// Of what a series predicts for `other`.
///
/// # Errors
/// A recording that does not belong to the series.
pub fn held_out_check(
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
        held_out_row(row, last)
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

fn held_out_row(row: HeldOut, last: f64) -> HeldOutRow {
    HeldOutRow {
        error: (row.real > 0.0).then(|| row.error()),
        covered: row.is_covered(),
        function: row.function,
        field: row.field,
        real: row.real,
        predicted: prediction(row.predicted),
        last,
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
