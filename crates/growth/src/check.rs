//! A series against a recording that it does not have.

use std::collections::BTreeSet;

use linemate_answers::GrowthBy;

use super::fit::Prediction;
use super::model::{Growth, sum_by};
use super::series::{SeriesCounts, SeriesError};

/// A row of a recording that the series does not have, and what the series predicts for it.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldOut {
    /// The function; empty for all of them.
    pub function: String,
    /// The field; empty for all of them.
    pub field: String,
    /// Accesses per CPU in the recording.
    pub real: f64,
    /// What is predicted; 0 for what the series has never seen.
    pub predicted: Prediction,
}

impl HeldOut {
    /// Predicted less real, in parts of what is real; infinite where nothing is.
    pub fn error(&self) -> f64 {
        self.predicted.mean / self.real - 1.0
    }

    /// Whether the interval holds the real count.
    pub fn is_covered(&self) -> bool {
        self.predicted.covers(self.real)
    }
}

impl Growth {
    /// Each row that the series or the other recording has, in the order of their names.
    ///
    /// # Errors
    /// A recording that does not belong to the series, or has as many CPUs as one of it.
    pub fn against(&self, other: &SeriesCounts, by: GrowthBy) -> Result<Vec<HeldOut>, SeriesError> {
        for run in self.runs() {
            run.check(&other.run)?;
        }
        let trends = self.trends(by);
        let counts = sum_by(by, &other.fields);
        let seen = counts.iter().flat_map(|(function, fields)| {
            fields
                .keys()
                .map(move |field| (function.as_str(), field.as_str()))
        });
        let mut names: BTreeSet<(&str, &str)> = seen.collect();
        // Rows of either side: what the series predicts and the recording lacks is an error, too.
        names.extend(trends.rows().map(|(function, field, _)| (function, field)));
        let cpus = other.run.cpus;
        let row = |(function, field): (&str, &str)| {
            let real = counts.get(function).and_then(|fields| fields.get(field));
            let trend = trends.get(function, field);
            HeldOut {
                function: function.to_owned(),
                field: field.to_owned(),
                real: real.copied().unwrap_or(0) as f64 / cpus as f64,
                predicted: trend.map_or(Prediction::NOTHING, |trend| trend.predict(cpus)),
            }
        };
        Ok(names.into_iter().map(row).collect())
    }
}
