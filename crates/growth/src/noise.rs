//! How much counts differ from one run to the next without any growth: estimated once, from many
//! rows.
//!
//! Three or four recordings say little about the noise of one row, but a series has thousands of
//! rows. So the rows' common noise is estimated from all of them, and each row's own is drawn
//! towards it by as many degrees of freedom as the rows resemble each other (G. K. Smyth,
//! Statistical Applications in Genetics and Molecular Biology 3, 2004; used for counts by D. J.
//! McCarthy and others, Nucleic Acids Research 40, 2012).

use rayon::prelude::*;

use super::fit::{Observed, freedom, spread};

/// Rows that noise is estimated from: those with the most accesses.
const ROWS_MAX: usize = 4096;
/// Fewer rows say nothing about each other.
const ROWS_MIN: usize = 8;
/// Accesses of a row in all recordings, so that it has a word.
const ACCESSES_MIN: f64 = 100.0;
/// Steps of halving an interval: to the last bits of a double.
const HALVINGS: usize = 40;
/// More degrees of freedom are as good as all of them.
const FREEDOM_MAX: f64 = 1000.0;
/// Fewer are as good as none.
const FREEDOM_MIN: f64 = 0.1;
/// Spreads below this part of the median are taken for it, so that rows without any have a
/// logarithm (as limma does).
const SPREAD_MIN: f64 = 1e-5;

/// The noise of counts: of an expected count m their variance is m + (relative·m)², as of a
/// negative binomial.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// The standard deviation of large counts, in parts of them.
    pub relative: f64,
    /// How many degrees of freedom of a row's own noise this is worth; 0: nothing is known from
    /// other rows.
    pub freedom: f64,
}

impl Noise {
    /// Of a count that is expected. Less than one access expected is taken for one: nothing counted
    /// is not known exactly.
    pub(crate) fn variance(self, expected: f64) -> f64 {
        let expected = expected.max(1.0);
        let relative = self.relative * expected;
        expected + relative * relative
    }

    /// The common noise of rows that all have the same numbers of CPUs.
    pub(crate) fn of(rows: &[&[Observed]]) -> Noise {
        let rows = largest(rows);
        if rows.len() < ROWS_MIN {
            return Noise::default();
        }
        let own = freedom(rows[0]);
        let relative = common(&rows, own);
        let noise = Noise {
            relative,
            freedom: 0.0,
        };
        Noise {
            freedom: likeness(&spreads(&rows, noise), own),
            ..noise
        }
    }
}

/// The rows that represent all of them: those with the most accesses, that first.
pub(crate) fn largest<'r>(rows: &[&'r [Observed]]) -> Vec<&'r [Observed]> {
    let accesses = |row: &[Observed]| row.iter().map(|at| at.accesses).sum::<f64>();
    let mut rows: Vec<(f64, &[Observed])> = rows.iter().map(|r| (accesses(r), *r)).collect();
    rows.retain(|(sum, _)| *sum >= ACCESSES_MIN);
    // Stable: ties stay in the order of their names.
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    rows.truncate(ROWS_MAX);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// How far each row is from its curve, ascending.
fn spreads(rows: &[&[Observed]], noise: Noise) -> Vec<f64> {
    let mut spreads: Vec<f64> = rows.par_iter().map(|row| spread(row, noise)).collect();
    spreads.sort_by(f64::total_cmp);
    spreads
}

fn median(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}

/// The relative noise with which the median row is as far from its curve as chance has it. The
/// median, because rows whose growth is of another form are far away.
fn common(rows: &[&[Observed]], own: f64) -> f64 {
    let is_too_small = |relative: f64| {
        let noise = Noise {
            relative,
            freedom: 0.0,
        };
        median(&spreads(rows, noise)) > chi_square_median(own) / own
    };
    let (mut low, mut high) = (0.0, 1.0);
    // Rows that chance alone explains: no relative noise is needed, and bisection would only
    // approach 0.
    if !is_too_small(low) {
        return low;
    }
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        match is_too_small(middle) {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

/// The median of a chi-square of that many degrees of freedom (E. B. Wilson and M. M. Hilferty,
/// PNAS 17, 1931); of one, where that is 3 % off, the exact one.
fn chi_square_median(freedom: f64) -> f64 {
    if freedom <= 1.0 {
        return 0.4549;
    }
    let part = 1.0 - 2.0 / (9.0 * freedom);
    freedom * part * part * part
}

/// Smyth's d0: by how much the logarithms of the rows' spreads vary beyond what spreads of `own`
/// degrees of freedom do.
fn likeness(spreads: &[f64], own: f64) -> f64 {
    let least = (median(spreads) * SPREAD_MIN).max(f64::MIN_POSITIVE);
    let logs: Vec<f64> = spreads.iter().map(|s| s.max(least).ln()).collect();
    let count = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / count;
    let squares = logs.iter().map(|log| (log - mean) * (log - mean));
    // The variance of a chi-square's logarithm with d degrees of freedom is trigamma(d / 2): what
    // is beyond that of the rows' own is theirs.
    let beyond = squares.sum::<f64>() / (count - 1.0) - trigamma(own / 2.0);
    if beyond <= trigamma(FREEDOM_MAX / 2.0) {
        return FREEDOM_MAX;
    }
    let (mut low, mut high) = (FREEDOM_MIN, FREEDOM_MAX);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        match trigamma(middle / 2.0) > beyond {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

/// The second derivative of the logarithm of the gamma function (Abramowitz & Stegun 6.4.6 and
/// 6.4.12).
fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    // The recurrence of 6.4.6 up to where the asymptotic series below is exact enough.
    while x < 8.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let r = 1.0 / (x * x);
    sum + 1.0 / x + r / 2.0 + r / x * (1.0 / 6.0 - r * (1.0 / 30.0 - r * (1.0 / 42.0 - r / 30.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trigamma_has_its_known_values() {
        let pi = std::f64::consts::PI;
        for (x, value) in [
            (0.5, pi * pi / 2.0),
            (1.0, pi * pi / 6.0),
            (2.0, pi * pi / 6.0 - 1.0),
        ] {
            assert!((trigamma(x) - value).abs() < 1e-9, "{x}");
        }
    }

    #[test]
    fn medians_are_those_of_tables() {
        for (freedom, value) in [(1.0, 0.4549), (2.0, 1.3863), (3.0, 2.3660), (5.0, 4.3515)] {
            let error = chi_square_median(freedom) / value - 1.0;
            assert!(error.abs() < 0.015, "{freedom}: {error}");
        }
    }

    #[test]
    fn the_variance_is_poisson_and_relative() {
        let noise = Noise {
            relative: 0.1,
            freedom: 0.0,
        };
        assert_eq!(noise.variance(100.0), 200.0);
        assert_eq!(noise.variance(0.0), noise.variance(1.0));
    }
}
