//! Trends of all rows of a series, and the factors that replays of more CPUs take from them.

use std::collections::BTreeMap;

use linemate_answers::GrowthBy;
use rayon::prelude::*;

use super::fit::{Observed, Prediction, Trend};
use super::noise::Noise;
use super::series::{
    self, CountsByName, RECORDINGS_MAX, RECORDINGS_MIN, RunOfSeries, SeriesCounts, SeriesError,
};
use super::stretch;

/// Predicted accesses per CPU divided by those that there were, and its 95 % interval.
pub type Factor = Prediction;

/// Where nothing is known.
const UNKNOWN: Factor = Factor {
    mean: 1.0,
    low: 1.0,
    high: 1.0,
};

/// Trends of rows of one kind.
#[derive(Clone, Debug)]
pub struct Trends {
    /// The rows' common noise.
    pub noise: Noise,
    /// How many times as wide as by noise alone the intervals are: what rows that do not quite grow
    /// by a curve need, as the largest recording shows; 1 in a series of three, which cannot show
    /// it.
    pub stretch: f64,
    /// By function and field; one of them is empty where a row is of all of them.
    rows: BTreeMap<String, BTreeMap<String, Trend>>,
}

/// What a series of recordings shows about growth.
#[derive(Clone, Debug)]
pub struct Growth {
    /// In the order of CPUs.
    members: Vec<SeriesCounts>,
    fields: Trends,
    types: Trends,
}

impl Growth {
    /// Of recordings of one workload at several numbers of CPUs.
    ///
    /// # Errors
    /// Fewer than three, or recordings that do not belong together.
    pub fn new(mut members: Vec<SeriesCounts>) -> Result<Growth, SeriesError> {
        Growth::check_number(members.len())?;
        // Stable: of recordings that do not belong together, the first given one is reported first.
        members.sort_by_key(|member| member.run.cpus);
        // Neighbours only: being of one series is the same kernel and a command in proportion, both
        // of which carry over.
        for pair in members.windows(2) {
            pair[0].run.check(&pair[1].run)?;
        }
        let of = |counts: fn(&SeriesCounts) -> &CountsByName| Trends::of(&members, counts);
        Ok(Growth {
            fields: of(|member| &member.fields),
            types: of(|member| &member.types),
            members,
        })
    }

    /// Whether a series can have that many recordings.
    ///
    /// # Errors
    /// [`SeriesError::Number`].
    pub fn check_number(recordings: usize) -> Result<(), SeriesError> {
        match (RECORDINGS_MIN..=RECORDINGS_MAX).contains(&recordings) {
            true => Ok(()),
            false => Err(SeriesError::Number(recordings)),
        }
    }

    /// The series' recordings, in the order of CPUs.
    pub fn runs(&self) -> impl Iterator<Item = &RunOfSeries> {
        self.members.iter().map(|member| &member.run)
    }

    /// By how much a function's accesses to a field grow from `from` CPUs to `to`: predicted
    /// accesses per CPU on `to` divided by those on `from`; 1 for what no recording of the series
    /// has. The field is named as by `FieldNames::field`, or is a type (`FieldNames::subject`).
    pub fn factor(&self, function: &str, field: &str, from: usize, to: usize) -> Factor {
        let trend = self.fields.get(function, field);
        // By field first. The key of a type that a question does not divide has the type's name,
        // which no field has.
        let trend = trend.or_else(|| self.types.get(function, field));
        let ratio = trend.and_then(|trend| trend.ratio(from, to));
        ratio.unwrap_or(UNKNOWN)
    }

    /// All trends of rows of one kind.
    pub fn trends(&self, by: GrowthBy) -> Trends {
        match by {
            GrowthBy::Access => self.fields.clone(),
            by => {
                let summed = self.members.iter().map(|member| sum_by(by, &member.fields));
                let summed: Vec<CountsByName> = summed.collect();
                let cpus = self.members.iter().map(|member| member.run.cpus);
                Trends::fitted(cpus.zip(&summed).collect())
            }
        }
    }
}

/// Counts of the rows of this kind.
pub(crate) fn sum_by(by: GrowthBy, counts: &CountsByName) -> CountsByName {
    let mut sums = CountsByName::new();
    for (function, fields) in counts {
        for (field, accesses) in fields {
            let (function, field) = match by {
                GrowthBy::Access => (function.as_str(), field.as_str()),
                GrowthBy::Field => ("", field.as_str()),
                GrowthBy::Function => (function.as_str(), ""),
            };
            series::add(&mut sums, function, field, *accesses);
        }
    }
    sums
}

impl Trends {
    fn of(members: &[SeriesCounts], counts: fn(&SeriesCounts) -> &CountsByName) -> Trends {
        let counts = members.iter().map(|m| (m.run.cpus, counts(m)));
        Trends::fitted(counts.collect())
    }

    /// Counts that a recording has not are 0.
    fn fitted(members: Vec<(usize, &CountsByName)>) -> Trends {
        let mut rows: BTreeMap<(&str, &str), Vec<Observed>> = BTreeMap::new();
        // A row that a recording lacks is a count of 0 there, not a missing point: most often it is
        // work that begins with more CPUs.
        let nothing: Vec<Observed> = members
            .iter()
            .map(|(cpus, _)| Observed {
                cpus: *cpus as f64,
                accesses: 0.0,
            })
            .collect();
        for (at, (_, counts)) in members.iter().enumerate() {
            for (function, fields) in *counts {
                for (field, accesses) in fields {
                    let row = rows.entry((function, field));
                    let row = row.or_insert_with(|| nothing.clone());
                    row[at].accesses = *accesses as f64;
                }
            }
        }
        rows.retain(|_, row| row.iter().any(|at| at.accesses > 0.0));
        let all: Vec<&[Observed]> = rows.values().map(Vec::as_slice).collect();
        let noise = Noise::of(&all);
        let stretch = stretch::stretch(&all);
        let fitted: Vec<((&str, &str), Trend)> = rows
            .into_par_iter()
            .map(|(name, row)| (name, Trend::new(row, noise, stretch)))
            .collect();
        let mut trends = Trends {
            noise,
            stretch,
            rows: BTreeMap::new(),
        };
        for ((function, field), trend) in fitted {
            let fields = trends.rows.entry(function.to_owned()).or_default();
            fields.insert(field.to_owned(), trend);
        }
        trends
    }

    /// The trend of a function's accesses to a field; one of them is empty where rows are of all of
    /// them.
    pub fn get(&self, function: &str, field: &str) -> Option<&Trend> {
        self.rows.get(function)?.get(field)
    }

    /// All rows: function, field, trend; in the order of their names.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &str, &Trend)> {
        self.rows.iter().flat_map(|(function, fields)| {
            let row = move |(field, trend)| (function.as_str(), String::as_str(field), trend);
            fields.iter().map(row)
        })
    }
}
