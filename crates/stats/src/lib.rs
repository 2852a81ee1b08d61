//! Differences with confidence intervals.
//!
//! * [`paired`]: both sides of a what-if are replayed under the same interleavings, so what counts
//!   is the difference under each one: its mean, and the 95 % confidence interval of that mean
//!   (Student's t). An effect whose interval holds 0 is not significant.
//! * [`change_within`] and [`change_between`]: the change of a mean in per cent, of runs that
//!   belong together one by one (predictions from the recordings that they are compared with), and
//!   of runs that do not (recordings of two kernels; Welch's interval).

use linemate_answers::{Change, Measure};

/// The share of the cost within which any difference is known well enough.
const NEGLIGIBLE: f64 = 0.001;

/// How well differences have to be known before no more interleavings are replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// How many times as large as its interval a difference has to be.
    clear: f64,
}

impl Precision {
    /// For a figure that is quoted: a quarter of the difference. After four interleavings, that is
    /// 12.7 standard errors away from zero.
    pub const NARROW: Precision = Precision { clear: 4.0 };

    /// For a trial, which ranks what is suggested and refutes what gains nothing: half of the
    /// difference. After four interleavings, that is 6.4 standard errors away from zero: where an
    /// edit changes nothing, chance gets there once in 127 trials. Rejected: any interval without
    /// zero, which one trial in twenty has by chance each time that it is tested.
    pub const ROUGH: Precision = Precision { clear: 2.0 };

    /// Whether a figure's difference between two series is known that well: it is several times as
    /// large as its interval, or would hardly matter.
    pub fn is_reached<T>(self, without: &[T], with: &[T], figure: impl Fn(&T) -> f64) -> bool {
        let of = |series: &[T]| series.iter().map(&figure).collect::<Vec<f64>>();
        self.is_reached_by(&paired(&of(without), &of(with)))
    }

    fn is_reached_by(self, measure: &Measure) -> bool {
        let clear = measure.ci95 * self.clear <= measure.difference.abs();
        clear || measure.ci95 <= measure.without * NEGLIGIBLE
    }
}

/// Fewer runs give no interval: that of two is wider than any useful one.
pub const RUNS_MIN: usize = 3;

/// Two-sided 95 % quantiles of Student's t for 1, 2, … 30 degrees of freedom (NIST/SEMATECH
/// e-Handbook of Statistical Methods, 1.3.6.7.2).
const T95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The same for any number of degrees of freedom: the quantile of the normal distribution.
const NORMAL95: f64 = 1.960;

/// The quantile for that many degrees of freedom, 1 at least, whole or not: between those of the
/// table in the reciprocal of their number, in which quantiles are nearly straight; the largest
/// error is that of 1 to 2 degrees, where it is too wide.
pub fn t95(freedom: f64) -> f64 {
    let below = (freedom.floor().max(1.0) as usize).min(T95.len());
    let (here, x0) = (T95[below - 1], 1.0 / below as f64);
    let (next, x1) = match T95.get(below) {
        Some(next) => (*next, 1.0 / (below + 1) as f64),
        None => (NORMAL95, 0.0),
    };
    let x = (1.0 / freedom).clamp(x1, x0);
    next + (here - next) * (x - x1) / (x0 - x1)
}

/// What a sample says about its mean.
#[derive(Clone, Copy, Debug)]
struct Sample {
    count: usize,
    mean: f64,
    /// The mean's, not that of the values.
    variance: f64,
}

impl Sample {
    /// `None` of fewer than two values.
    fn of(values: &[f64]) -> Option<Sample> {
        let count = values.len();
        if count < 2 {
            return None;
        }
        let mean = mean(values.iter().copied());
        let squares = values.iter().map(|v| (v - mean) * (v - mean));
        let variance = squares.sum::<f64>() / (count - 1) as f64 / count as f64;
        Some(Sample {
            count,
            mean,
            variance,
        })
    }

    /// The same of values that are `factor` times as large.
    fn scaled(self, factor: f64) -> Sample {
        Sample {
            mean: self.mean * factor,
            variance: self.variance * factor * factor,
            ..self
        }
    }

    fn freedom(self) -> f64 {
        (self.count - 1) as f64
    }

    /// Half the width of the mean's 95 % confidence interval.
    fn ci95(self) -> f64 {
        t95(self.freedom()) * self.variance.sqrt()
    }
}

/// Half the width of the 95 % confidence interval of the difference between the means of two
/// independent samples whose variances need not be equal (B. L. Welch, Biometrika 34, 1947).
fn welch(a: Sample, b: Sample) -> f64 {
    let variance = a.variance + b.variance;
    if variance <= 0.0 {
        return 0.0;
    }
    let part = |sample: Sample| sample.variance * sample.variance / sample.freedom();
    let freedom = variance * variance / (part(a) + part(b));
    t95(freedom) * variance.sqrt()
}

/// The change from one mean to that of independent values. `None` where there is nothing to change.
///
/// The interval is that of the ratio of both means, to first order (the delta method): Welch's of
/// the difference between `with` and as many times `without` as the ratio, which is 0, in parts of
/// the mean without.
pub fn change_between(without: &[f64], with: &[f64]) -> Option<Change> {
    let (before, after) = means(without, with)?;
    let ratio = after / before;
    let samples = Sample::of(without).zip(Sample::of(with));
    let enough = without.len().min(with.len()) >= RUNS_MIN;
    let half = samples.filter(|_| enough);
    let half = half.map(|(a, b)| welch(a.scaled(ratio), b));
    Some(change_of(ratio, half, before))
}

/// The change from one mean to that of values that belong to the first ones one by one; surplus
/// values of the longer series are left out. `None` where there is nothing to change.
///
/// The interval is that of the ratio of both means, to first order: Student's of the differences
/// between `with` and as many times `without` as the ratio.
pub fn change_within(without: &[f64], with: &[f64]) -> Option<Change> {
    let count = without.len().min(with.len());
    let (without, with) = (&without[..count], &with[..count]);
    let (before, after) = means(without, with)?;
    let ratio = after / before;
    // Their mean is 0 by construction; how they scatter is what the ratio's interval comes from.
    let rests = with.iter().zip(without).map(|(w, o)| w - ratio * o);
    let rests: Vec<f64> = rests.collect();
    let half = Sample::of(&rests).filter(|_| count >= RUNS_MIN);
    Some(change_of(ratio, half.map(Sample::ci95), before))
}

fn means(without: &[f64], with: &[f64]) -> Option<(f64, f64)> {
    let before = mean(without.iter().copied());
    (before > 0.0 && !with.is_empty()).then(|| (before, mean(with.iter().copied())))
}

fn change_of(ratio: f64, half: Option<f64>, before: f64) -> Change {
    Change {
        percent: 100.0 * (ratio - 1.0),
        ci95: half.map(|half| 100.0 * half / before),
    }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len();
    if count == 0 {
        0.0
    } else {
        values.sum::<f64>() / count as f64
    }
}

/// The measure of two series, whose values belong together one by one; surplus values of the longer
/// one are left out.
pub fn paired(without: &[f64], with: &[f64]) -> Measure {
    let count = without.len().min(with.len());
    let (without, with) = (&without[..count], &with[..count]);
    let differences: Vec<f64> = with.iter().zip(without).map(|(a, b)| a - b).collect();
    let difference = mean(differences.iter().copied());
    // Of one pair nothing is known: no difference is significant against an infinite interval.
    let ci95 = Sample::of(&differences).map_or(f64::INFINITY, Sample::ci95);
    Measure {
        without: mean(without.iter().copied()),
        with: mean(with.iter().copied()),
        difference,
        ci95,
        significant: difference.abs() > ci95,
    }
}

#[cfg(test)]
mod changes;

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
        let is_narrow = |measure| Precision::NARROW.is_reached_by(&measure);
        assert!(is_narrow(measure(-40.0, 10.0)));
        assert!(!is_narrow(measure(-40.0, 10.1)), "significant, but wide");
        assert!(is_narrow(measure(0.1, 1.0)), "a thousandth of the cost");
        assert!(!is_narrow(measure(0.1, 1.1)));
        assert!(!is_narrow(paired(&[1.0], &[9.0])), "one pair says nothing");
        let is_rough = |measure| Precision::ROUGH.is_reached_by(&measure);
        assert!(is_rough(measure(-40.0, 20.0)) && !is_rough(measure(-40.0, 20.1)));
    }

    #[test]
    fn no_change_is_no_effect() {
        let same = paired(&[1.0, 5.0], &[1.0, 5.0]);
        assert_eq!(
            (same.difference, same.ci95, same.significant),
            (0.0, 0.0, false)
        );
        assert!(!paired(&[1.0], &[9.0]).significant, "one pair says nothing");
        assert!(!paired(&[], &[]).significant);
    }
}
