//! Differences with confidence intervals.
//!
//! Both sides of a what-if are replayed under the same interleavings, so what counts is the difference under each one: its mean, and
//! the 95 % confidence interval of that mean (Student's t). An effect whose interval holds 0 is not significant.

use serde::{Deserialize, Serialize};

/// A figure without and with a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// Without the change, mean over the interleavings.
    pub without: f64,
    /// With it.
    pub with: f64,
    /// Mean of the paired differences, with minus without.
    pub difference: f64,
    /// Half the width of the difference's 95 % confidence interval.
    pub ci95: f64,
    /// Whether the interval does not hold 0.
    pub significant: bool,
}

/// How many times as large as its interval a difference has to be so that more interleavings would tell nothing new.
const CLEAR: f64 = 4.0;
/// The share of the cost within which a difference is known well enough, whatever it is.
const NEGLIGIBLE: f64 = 0.001;

impl Measure {
    /// Whether its interval is narrow enough: the difference is several times as large, or whatever it is would hardly matter.
    pub fn is_narrow(&self) -> bool {
        self.ci95 * CLEAR <= self.difference.abs() || self.ci95 <= self.without * NEGLIGIBLE
    }
}

/// Two-sided 95 % quantiles of Student's t for 1, 2, … 30 degrees of freedom (any table of the distribution).
const T95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len();
    if count == 0 {
        0.0
    } else {
        values.sum::<f64>() / count as f64
    }
}

/// The measure of two series, whose values belong together one by one; surplus values of the longer one are left out.
pub fn paired(without: &[f64], with: &[f64]) -> Measure {
    let count = without.len().min(with.len());
    let (without, with) = (&without[..count], &with[..count]);
    let differences: Vec<f64> = with.iter().zip(without).map(|(a, b)| a - b).collect();
    let difference = mean(differences.iter().copied());
    let ci95 = if count < 2 {
        f64::INFINITY
    } else {
        let squares = differences
            .iter()
            .map(|d| (d - difference) * (d - difference));
        let variance = squares.sum::<f64>() / (count - 1) as f64;
        // Beyond 30 degrees of freedom the last entry is too wide by less than 4 %.
        T95[(count - 2).min(T95.len() - 1)] * (variance / count as f64).sqrt()
    };
    Measure {
        without: mean(without.iter().copied()),
        with: mean(with.iter().copied()),
        difference,
        ci95,
        significant: difference.abs() > ci95,
    }
}

/// Whether the difference between two series is narrow in each of the figures.
pub fn all_narrow<T>(without: &[T], with: &[T], figures: &[&dyn Fn(&T) -> f64]) -> bool {
    figures.iter().all(|figure| {
        let of = |series: &[T]| series.iter().map(figure).collect::<Vec<f64>>();
        paired(&of(without), &of(with)).is_narrow()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_paired_differences() {
        // Differences 1, 2, 3: mean 2, s = 1, t(2) = 4.303, ci95 = 4.303 / sqrt 3.
        let measure = paired(&[10.0, 20.0, 30.0], &[11.0, 22.0, 33.0]);
        assert_eq!(
            (measure.without, measure.with, measure.difference),
            (20.0, 22.0, 2.0)
        );
        assert!((measure.ci95 - 4.303 / 3f64.sqrt()).abs() < 1e-12);
        assert!(!measure.significant, "2 is inside 2.48");
        let steady = paired(&[10.0, 20.0, 30.0], &[9.0, 19.0, 29.0]);
        assert_eq!(
            (steady.difference, steady.ci95, steady.significant),
            (-1.0, 0.0, true)
        );
    }

    #[test]
    fn an_interval_is_narrow_beside_its_difference_or_beside_the_cost() {
        let measure = |difference: f64, ci95: f64| Measure {
            without: 1000.0,
            with: 1000.0 + difference,
            difference,
            ci95,
            significant: difference.abs() > ci95,
        };
        assert!(measure(-40.0, 10.0).is_narrow());
        assert!(!measure(-40.0, 10.1).is_narrow(), "significant, but wide");
        assert!(measure(0.1, 1.0).is_narrow(), "a thousandth of the cost");
        assert!(!measure(0.1, 1.1).is_narrow());
        assert!(
            !paired(&[1.0], &[9.0]).is_narrow(),
            "one pair tells nothing"
        );
    }

    #[test]
    fn no_change_is_no_effect() {
        let same = paired(&[1.0, 5.0], &[1.0, 5.0]);
        assert_eq!(
            (same.difference, same.ci95, same.significant),
            (0.0, 0.0, false)
        );
        assert!(
            !paired(&[1.0], &[9.0]).significant,
            "one pair tells nothing"
        );
        assert!(!paired(&[], &[]).significant);
    }
}
