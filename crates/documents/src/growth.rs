//! How accesses grow with the number of CPUs, and a series' predictions compared with a recording
//! that it does not have.

mod held_out;

use linemate_answers::{GrowthBy, GrowthDocument, GrowthRecording, GrowthRow, Noise, Prediction};
use linemate_growth::{Growth, Trend};

pub use self::held_out::held_out_check;

/// The document of a series, made by version `tool`.
#[must_use]
pub fn growth_document(tool: &str, growth: &Growth, by: GrowthBy, cpus: usize) -> GrowthDocument {
    let trends = growth.trends(by);
    let rows = trends.rows();
    let rows = rows.map(|(function, field, trend)| growth_row(function, field, trend, cpus));
    let mut rows: Vec<GrowthRow> = rows.collect();
    // Stable: ties stay in the order of their names.
    rows.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
    let recordings = growth.runs().map(|run| GrowthRecording {
        cpus: run.cpus,
        command: run.command.clone(),
        accesses: run.accesses,
    });
    GrowthDocument {
        schema: GrowthDocument::SCHEMA.into(),
        tool: tool.to_owned(),
        kernel: growth
            .runs()
            .next()
            .map_or_else(String::new, |run| run.kernel.clone()),
        recordings: recordings.collect(),
        by,
        cpus,
        noise: Noise {
            relative: trends.noise.relative,
            freedom: trends.noise.freedom,
        },
        stretch: trends.stretch,
        rows,
        against: None,
    }
}

fn growth_row(function: &str, field: &str, trend: &Trend, cpus: usize) -> GrowthRow {
    let recorded: Vec<f64> = trend.recorded().map(|(_, rate)| rate).collect();
    let curve = trend.best();
    let predicted = prediction(trend.predict(cpus));
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
fn gain(row: &GrowthRow) -> f64 {
    row.predicted.mean - row.recorded.last().copied().unwrap_or(0.0)
}

fn prediction(of: linemate_growth::Prediction) -> Prediction {
    Prediction {
        mean: of.mean,
        low: of.low,
        high: of.high,
    }
}
