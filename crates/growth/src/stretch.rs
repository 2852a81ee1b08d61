//! How much wider intervals must be than noise alone makes them, since no row grows exactly by one
//! of the curves: the series itself shows it, by a prediction of its largest recording from the
//! others (split conformal prediction with normalised residuals: J. Lei and others, Journal of the
//! American Statistical Association 113, 2018, section 5.2).

use rayon::prelude::*;

use super::fit::{Observed, Trend};
use super::noise::{Noise, largest};

/// The share of rows that intervals are to hold.
const SHARE: f64 = 0.95;
/// With fewer rows that share cannot be determined.
const ROWS_MIN: usize = 20;
/// Recordings, so that there are still enough for a trend without the largest.
const RECORDINGS_MIN: usize = 4;

/// The factor for intervals of rows in the order of CPUs; 1 where the series is too small to show
/// it, and at least.
pub(crate) fn stretch(rows: &[&[Observed]]) -> f64 {
    let rows = largest(rows);
    let enough = rows.len() >= ROWS_MIN && rows[0].len() >= RECORDINGS_MIN;
    if !enough {
        return 1.0;
    }
    let smaller: Vec<&[Observed]> = rows.iter().map(|row| &row[..row.len() - 1]).collect();
    let noise = Noise::of(&smaller);
    let pairs = rows.par_iter().zip(&smaller);
    let mut misses: Vec<f64> = pairs
        .filter_map(|(row, part)| miss(row, part, noise))
        .collect();
    misses.sort_by(f64::total_cmp);
    // Split conformal prediction's rank, with one more than there are: the next row is one of n + 1
    // that are exchangeable.
    let rank = (SHARE * (misses.len() + 1) as f64).ceil() as usize;
    let held = misses.get(rank.saturating_sub(1)).or(misses.last());
    held.map_or(1.0, |miss| miss.max(1.0))
}

/// How far the last count of a row is from its prediction, in halves of the interval; `None` if
/// nothing came before it.
fn miss(row: &[Observed], part: &[Observed], noise: Noise) -> Option<f64> {
    let last = row.last()?;
    if part.iter().all(|at| at.accesses == 0.0) {
        return None;
    }
    let predicted = Trend::new(part.to_vec(), noise, 1.0).predict(last.cpus as usize);
    Some((last.rate() - predicted.mean).abs() / (predicted.high - predicted.mean))
}
