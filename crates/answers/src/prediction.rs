//! How far predictions for more CPUs than were recorded are from recordings of that many.

use serde::{Deserialize, Serialize};

/// A recording replayed as more CPUs, compared with a recording of that many.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Comparison {
    workload: &'static str,
    recorded: usize,
    replayed: usize,
    /// Whether a series showed what grows with the CPUs.
    with_series: bool,
    /// By how much the cycles of a field were missed: the mean over the 20 fields for which the
    /// recording pays most because another core had taken the line.
    percent: f64,
}

const fn compared(
    workload: &'static str,
    recorded: usize,
    replayed: usize,
    with_series: bool,
    percent: f64,
) -> Comparison {
    Comparison {
        workload,
        recorded,
        replayed,
        with_series,
        percent,
    }
}

/// All that were made; evidence/scaling.md has the same rows, which a test compares.
const COMPARISONS: [Comparison; 8] = [
    compared("sleepers", 8, 32, true, 34.3),
    compared("hackbench", 8, 32, true, 27.6),
    compared("rtpinned", 8, 32, true, 16.8),
    compared("sleepers", 8, 32, false, 54.2),
    compared("sleepers", 32, 128, false, 61.0),
    compared("sleepers", 8, 128, false, 78.0),
    compared("sleepers", 24, 240, false, 75.3),
    compared("sleepers", 8, 240, false, 82.8),
];

impl Comparison {
    fn copies(&self) -> usize {
        self.replayed / self.recorded
    }
}

/// How far predictions for more CPUs than were recorded were from recordings of that many: of the
/// compared ones, those for as many copies of each recorded CPU, or else for the next larger
/// number. If no larger one was compared, `copies` exceeds `compared_copies`: so far ahead nothing
/// is known of the error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PredictionError {
    /// The number of CPUs replayed.
    pub cpus: usize,
    /// The number of CPUs recorded.
    pub recorded_cpus: usize,
    /// How many CPUs each recorded one represents.
    pub copies: usize,
    /// Whether `--series` was given, here and in the compared predictions.
    pub with_series: bool,
    /// How many CPUs each recorded one represented in the compared predictions.
    pub compared_copies: usize,
    /// The CPUs of the recordings that those were compared with.
    pub compared_cpus: Vec<usize>,
    /// The smallest and the largest error of a workload: by how many per cent the cycles of a field
    /// were missed, mean of the 20 fields for which the recording pays most because another core
    /// had taken the line.
    pub percent: [f64; 2],
}

impl PredictionError {
    /// Of a recording of `recorded_cpus` replayed as `cpus`; `None` for as many as were recorded.
    #[must_use]
    pub fn new(recorded_cpus: usize, cpus: usize, with_series: bool) -> Option<PredictionError> {
        let copies = cpus.checked_div(recorded_cpus)?;
        if copies < 2 {
            return None;
        }
        let made = || {
            let made = COMPARISONS.iter();
            made.filter(move |one| one.with_series == with_series)
        };
        // The error grows with the copies: a comparison with fewer would promise too much.
        let next = made().map(Comparison::copies).filter(|c| *c >= copies);
        let compared_copies = next.min().or(made().map(Comparison::copies).max())?;
        let with = || made().filter(|one| one.copies() == compared_copies);
        let mut compared_cpus: Vec<usize> = with().map(|one| one.replayed).collect();
        compared_cpus.sort_unstable();
        compared_cpus.dedup();
        let percents = || with().map(|one| one.percent);
        Some(PredictionError {
            cpus,
            recorded_cpus,
            copies,
            with_series,
            compared_copies,
            compared_cpus,
            percent: [
                percents().fold(f64::INFINITY, f64::min),
                percents().fold(0.0, f64::max),
            ],
        })
    }

    /// Whether predictions for as many copies were compared, or for more.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.copies <= self.compared_copies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVIDENCE: &str = include_str!("../../../evidence/scaling.md");

    /// The rows of the evidence: workload, `8 → 32`, the series, the mean error of cycles.
    fn rows() -> Vec<(String, usize, usize, bool, f64)> {
        let head = "| workload | CPUs | series | error of cycles, mean |";
        let lines = EVIDENCE.lines().skip_while(|line| !line.starts_with(head));
        let rows = lines.skip(2).take_while(|line| line.starts_with('|'));
        rows.map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let (from, to) = cells[2].split_once(" → ").unwrap();
            let percent = cells[4].strip_suffix(" %").unwrap();
            let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
            let series = cells[3] != "none";
            (
                cells[1].to_owned(),
                from,
                to,
                series,
                percent.parse().unwrap(),
            )
        })
        .collect()
    }

    #[test]
    fn comparisons_are_those_of_the_evidence() {
        let made = COMPARISONS.map(|one| {
            let name = one.workload.to_owned();
            (
                name,
                one.recorded,
                one.replayed,
                one.with_series,
                one.percent,
            )
        });
        assert_eq!(rows(), made);
    }

    #[test]
    fn there_is_one_with_and_without_a_series() {
        for with_series in [false, true] {
            assert!(PredictionError::new(8, 480, with_series).is_some());
        }
    }

    #[test]
    fn as_many_as_were_recorded_are_no_prediction() {
        for cpus in [0, 1, 8] {
            assert_eq!(PredictionError::new(8, cpus, true), None);
        }
        assert_eq!(PredictionError::new(0, 8, true), None);
    }

    #[test]
    fn the_next_distance_that_was_compared_counts() {
        for with_series in [false, true] {
            let known = COMPARISONS
                .iter()
                .filter(|one| one.with_series == with_series);
            let mut known: Vec<usize> = known.map(Comparison::copies).collect();
            known.sort_unstable();
            let farthest = *known.last().unwrap();
            for copies in 2..=farthest + 1 {
                let error = PredictionError::new(8, 8 * copies, with_series).unwrap();
                let next = known.iter().find(|known| **known >= copies);
                assert_eq!(error.compared_copies, *next.unwrap_or(&farthest));
                assert_eq!(error.is_measured(), copies <= farthest, "{copies}");
            }
        }
    }

    #[test]
    fn the_range_is_that_of_its_workloads() {
        let error = PredictionError::new(8, 32, true).unwrap();
        let four = COMPARISONS
            .iter()
            .filter(|one| one.with_series && one.copies() == 4);
        for one in four.clone() {
            assert!(error.percent[0] <= one.percent && one.percent <= error.percent[1]);
            assert!(error.compared_cpus.contains(&one.replayed));
        }
        for end in error.percent {
            assert!(
                four.clone()
                    .any(|one| one.percent.to_bits() == end.to_bits())
            );
        }
    }
}
