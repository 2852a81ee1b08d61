//! Accesses per CPU as a function of the number of CPUs: `a + b·n^c`.

use linemate_stats::t95;

use super::noise::Noise;

/// Rounds in which weights and curve are made of each other; they settle in two or three.
const ROUNDS: usize = 4;

/// The exponent c. It says what kind of work grows: see docs/model/scaling.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exponent {
    /// -1: work that is done once for all CPUs, of which each has its share (b above 0); what only
    /// happens with another CPU than the own, of which there are n - 1 of n (b below 0).
    MinusOne,
    /// 0: each CPU does its own, regardless of their number.
    Zero,
    /// 1/2: what one CPU does for its part of the machine, such as a scan of a domain.
    Half,
    /// 1: a scan over all CPUs, or waiting for all of them.
    One,
}

impl Exponent {
    /// All but 0, whose curve has no b.
    const GROWING: [Exponent; 3] = [Exponent::MinusOne, Exponent::Half, Exponent::One];

    /// The exponent as a number.
    pub fn value(self) -> f64 {
        match self {
            Exponent::MinusOne => -1.0,
            Exponent::Zero => 0.0,
            Exponent::Half => 0.5,
            Exponent::One => 1.0,
        }
    }

    fn power(self, cpus: f64) -> f64 {
        match self {
            Exponent::MinusOne => 1.0 / cpus,
            Exponent::Zero => 1.0,
            Exponent::Half => cpus.sqrt(),
            Exponent::One => cpus,
        }
    }
}

/// What a recording counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Observed {
    pub(crate) cpus: f64,
    /// Accesses of all CPUs together.
    pub(crate) accesses: f64,
}

impl Observed {
    pub(crate) fn rate(self) -> f64 {
        self.accesses / self.cpus
    }
}

/// `a + b·n^c` with its best a and b, both 0 or more; b may be less where c is -1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    pub exponent: Exponent,
    /// a, in accesses per CPU.
    pub a: f64,
    /// b, likewise; 0 where c is 0.
    pub b: f64,
    /// Its share of what is predicted: the curves' shares are 1 together.
    pub share: f64,
    /// Of a and a, a and b, b and b, where the noise is as expected.
    covariance: [f64; 3],
    /// Squared distances from the counts, in variances.
    chi_square: f64,
}

impl Curve {
    /// Accesses per CPU on that many.
    fn at(&self, cpus: f64) -> f64 {
        let grown = match self.exponent {
            Exponent::Zero => 0.0,
            exponent => self.b * exponent.power(cpus),
        };
        self.a + grown
    }

    /// How it changes with a and b.
    fn gradient(&self, cpus: f64) -> [f64; 2] {
        match self.exponent {
            Exponent::Zero => [1.0, 0.0],
            exponent => [1.0, exponent.power(cpus)],
        }
    }

    fn parameters(&self) -> f64 {
        match self.exponent {
            Exponent::Zero => 1.0,
            _ => 2.0,
        }
    }

    fn variance(&self, [da, db]: [f64; 2]) -> f64 {
        let [aa, ab, bb] = self.covariance;
        (da * da * aa + 2.0 * da * db * ab + db * db * bb).max(0.0)
    }

    fn constant(points: &[Weighted]) -> Curve {
        let sums = Sums::of(points, Exponent::Zero);
        Curve {
            exponent: Exponent::Zero,
            a: sums.wy / sums.w,
            b: 0.0,
            share: 0.0,
            covariance: [1.0 / sums.w, 0.0, 0.0],
            chi_square: 0.0,
        }
        .measured(points)
    }

    /// `None` where the best curve of this form is the constant. No curve is below 0 on any number
    /// of CPUs from the smallest recording's on: where the best one would be, the best one that
    /// touches 0 takes its place.
    fn growing(points: &[Weighted], exponent: Exponent) -> Option<Curve> {
        let sums = Sums::of(points, exponent);
        let (a, b) = sums.line()?;
        let least = points.iter().map(|p| p.cpus).fold(f64::INFINITY, f64::min);
        // Least squares with a bound: where the free minimum is beyond it, the minimum is on it,
        // which is a fit with one parameter.
        let (a, b) = if a < 0.0 {
            (0.0, sums.wxy / sums.wxx)
        } else if exponent == Exponent::MinusOne && a + b / least < 0.0 {
            sums.line_from(least)
        } else {
            (a, b)
        };
        let curve = Curve {
            exponent,
            a,
            b,
            share: 0.0,
            // That of the free fit also where a bound holds: intervals are then too wide rather
            // than too narrow.
            covariance: sums.covariance(),
            chi_square: 0.0,
        };
        let may_fall = exponent == Exponent::MinusOne;
        (b > 0.0 || may_fall && b < 0.0).then(|| curve.measured(points))
    }

    fn measured(self, points: &[Weighted]) -> Curve {
        let squares = points.iter().map(|point| {
            let rest = point.rate - self.at(point.cpus);
            point.weight * rest * rest
        });
        Curve {
            chi_square: squares.sum(),
            ..self
        }
    }
}

/// A rate, and the reciprocal of its variance.
#[derive(Clone, Copy, Debug)]
struct Weighted {
    cpus: f64,
    rate: f64,
    weight: f64,
}

/// Weighted sums over points, of x = n^c and y = the rate.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    w: f64,
    wx: f64,
    wy: f64,
    wxx: f64,
    wxy: f64,
}

impl Sums {
    fn of(points: &[Weighted], exponent: Exponent) -> Sums {
        let mut sums = Sums::default();
        for point in points {
            let (x, w) = (exponent.power(point.cpus), point.weight);
            sums.w += w;
            sums.wx += w * x;
            sums.wy += w * point.rate;
            sums.wxx += w * x * x;
            sums.wxy += w * x * point.rate;
        }
        sums
    }

    fn determinant(&self) -> f64 {
        self.w * self.wxx - self.wx * self.wx
    }

    /// The best a and b, of any sign; none where all points have one x.
    fn line(&self) -> Option<(f64, f64)> {
        let determinant = self.determinant();
        if determinant <= 0.0 {
            return None;
        }
        let b = (self.w * self.wxy - self.wx * self.wy) / determinant;
        Some(((self.wy - b * self.wx) / self.w, b))
    }

    /// The best a and b of a line that is 0 where x is `1 / least`.
    fn line_from(&self, least: f64) -> (f64, f64) {
        let squares = self.w - 2.0 * least * self.wx + least * least * self.wxx;
        let a = (self.wy - least * self.wxy) / squares;
        (a, -least * a)
    }

    fn covariance(&self) -> [f64; 3] {
        let determinant = self.determinant();
        [self.wxx, -self.wx, self.w].map(|part| part / determinant)
    }
}

/// Points with weights that go by what the best curve expects: weights from the counts themselves
/// would prefer those that happen to be low.
fn weighted(observed: &[Observed], noise: Noise) -> Vec<Weighted> {
    let weigh = |expected: &dyn Fn(Observed) -> f64| -> Vec<Weighted> {
        let point = |at: &Observed| Weighted {
            cpus: at.cpus,
            rate: at.rate(),
            weight: at.cpus * at.cpus / noise.variance(expected(*at)),
        };
        observed.iter().map(point).collect()
    };
    // Only to begin with: the counts themselves are the first guess of what is expected.
    let mut points = weigh(&|at| at.accesses);
    for _ in 0..ROUNDS {
        let curve = best(&curves(&points));
        points = weigh(&|at| curve.at(at.cpus) * at.cpus);
    }
    points
}

/// The constant, and each form that grows.
fn curves(points: &[Weighted]) -> Vec<Curve> {
    let growing = Exponent::GROWING.iter();
    let growing = growing.filter_map(|exponent| Curve::growing(points, *exponent));
    std::iter::once(Curve::constant(points))
        .chain(growing)
        .collect()
}

/// The curve nearest to the points; of several the first. The constant is always there.
fn best(curves: &[Curve]) -> Curve {
    // Strictly nearer: the constant comes first and wins ties, as the form with fewer parameters.
    let nearer = |a: Curve, b: &Curve| if b.chi_square < a.chi_square { *b } else { a };
    curves.iter().fold(curves[0], nearer)
}

/// How far counts are from a curve that is the same for all rows, c = 1/2 with a and b of any sign,
/// in variances for each degree of freedom. The nearest of several curves would take for its own
/// what is noise.
pub(crate) fn spread(observed: &[Observed], noise: Noise) -> f64 {
    let points = weighted(observed, noise);
    let Some((a, b)) = Sums::of(&points, Exponent::Half).line() else {
        return 0.0;
    };
    let squares = points.iter().map(|point| {
        let rest = point.rate - a - b * Exponent::Half.power(point.cpus);
        point.weight * rest * rest
    });
    squares.sum::<f64>() / freedom(observed)
}

/// What is left of the points when a curve of two parameters went through them.
pub(crate) fn freedom(observed: &[Observed]) -> f64 {
    observed.len() as f64 - 2.0
}

/// A prediction and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The mean of all curves, by their shares.
    pub mean: f64,
    /// The lower end of the interval, 0 or more.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Prediction {
    pub(crate) const NOTHING: Prediction = Prediction {
        mean: 0.0,
        low: 0.0,
        high: 0.0,
    };

    /// Whether the interval holds a value.
    pub fn covers(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    fn divided(self, by: f64) -> Prediction {
        Prediction {
            mean: self.mean / by,
            low: self.low / by,
            high: self.high / by,
        }
    }
}

/// How the accesses of one row grow with the CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Trend {
    observed: Vec<Observed>,
    curves: Vec<Curve>,
    noise: Noise,
    /// How many times as large as expected its variances are, for intervals; 1 at least.
    dispersion: f64,
    /// Degrees of freedom of that.
    freedom: f64,
    /// How many times as wide as by noise alone intervals are.
    stretch: f64,
}

impl Trend {
    /// Of counts of recordings with at least three CPU counts.
    pub(crate) fn new(observed: Vec<Observed>, noise: Noise, stretch: f64) -> Trend {
        let points = weighted(&observed, noise);
        let mut curves = curves(&points);
        let own = freedom(&observed);
        let pooled = noise.freedom + own;
        let nearest = best(&curves).chi_square;
        // 1 at least: a row that happens to lie on its curve has no less noise than others.
        let likely = ((noise.freedom + nearest) / pooled).max(1.0);
        // QAIC (Burnham & Anderson 2002, section 2.5) and the weights that it gives (section 2.9).
        let criterion = |curve: &Curve| curve.chi_square / likely + 2.0 * curve.parameters();
        let least = curves.iter().map(criterion).fold(f64::INFINITY, f64::min);
        for curve in &mut curves {
            // Less the least, which cancels in the shares and keeps the exponential from vanishing.
            curve.share = (-0.5 * (criterion(curve) - least)).exp();
        }
        let sum: f64 = curves.iter().map(|curve| curve.share).sum();
        for curve in &mut curves {
            curve.share /= sum;
        }
        // A row that no curve fits is not held to the noise of the others, however alike those are:
        // its interval is as wide as its fit is bad, and a fit of so few points is worth no more
        // degrees of freedom than they leave.
        let (dispersion, freedom) = match nearest / own {
            bad if bad > likely => (bad, own),
            _ => (likely, pooled),
        };
        Trend {
            observed,
            curves,
            noise,
            dispersion,
            freedom,
            stretch,
        }
    }

    /// The curve with the largest share; of several the first of [`Trend::curves`].
    pub fn best(&self) -> &Curve {
        let larger = |a: &'_ Curve, b: &'_ Curve| b.share > a.share;
        let mut found = &self.curves[0];
        for curve in &self.curves {
            if larger(found, curve) {
                found = curve;
            }
        }
        found
    }

    /// All curves: the constant first, then by c.
    pub fn curves(&self) -> &[Curve] {
        &self.curves
    }

    /// CPUs, and accesses per CPU as recorded.
    pub fn recorded(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let point = |at: &Observed| (at.cpus as usize, at.rate());
        self.observed.iter().map(point)
    }

    /// How far the best curve is from the recorded rates: the root of the mean square of the
    /// differences, in parts of the mean rate.
    pub fn residual(&self) -> f64 {
        let (curve, count) = (self.best(), self.observed.len() as f64);
        let squares = self.observed.iter().map(|at| {
            let rest = at.rate() - curve.at(at.cpus);
            rest * rest
        });
        let mean = self.observed.iter().map(|at| at.rate()).sum::<f64>() / count;
        (squares.sum::<f64>() / count).sqrt() / mean
    }

    /// Accesses per CPU that a recording of that many CPUs would have. The interval is that of one
    /// recording: it holds the curves' error, their spread, and the noise of the recording.
    pub fn predict(&self, cpus: usize) -> Prediction {
        let cpus = cpus as f64;
        let (mean, error) = self.mixed(|curve| (curve.at(cpus), curve.gradient(cpus)));
        // The noise of the recording that is predicted: the interval is compared with a count, not
        // with a mean.
        let fresh = self.dispersion * self.noise.variance(mean * cpus) / (cpus * cpus);
        self.interval(mean, error * error + fresh)
    }

    /// Accesses per CPU on `to` CPUs divided by those on `from`; `None` if there are none on
    /// `from`. What was recorded on `from` CPUs is known exactly, so that recorded accesses times
    /// this factor are those that are predicted.
    pub fn ratio(&self, from: usize, to: usize) -> Option<Prediction> {
        // Not the curve's value there: a replay multiplies what was recorded, noise and all.
        if let Some((_, rate)) = self.recorded().find(|(cpus, _)| *cpus == from) {
            return (rate > 0.0).then(|| self.predict(to).divided(rate));
        }
        let (from, to) = (from as f64, to as f64);
        if self.curves.iter().any(|curve| curve.at(from) <= 0.0) {
            return None;
        }
        let (mean, error) = self.mixed(|curve| {
            let (below, above) = (curve.at(from), curve.at(to));
            let (gb, ga) = (curve.gradient(from), curve.gradient(to));
            let part = |at: usize| ga[at] / below - above / (below * below) * gb[at];
            (above / below, [part(0), part(1)])
        });
        Some(self.interval(mean, error * error))
    }

    /// The curves' mean of a value, and its standard error with the model's choice in it (Buckland,
    /// Burnham & Augustin, Biometrics 53, 1997, equation 9). `value` gives the value and how it
    /// changes with a and b.
    fn mixed(&self, value: impl Fn(&Curve) -> (f64, [f64; 2])) -> (f64, f64) {
        let parts = self.curves.iter().map(|curve| (curve, value(curve)));
        let mean = parts
            .clone()
            .map(|(curve, part)| curve.share * part.0)
            .sum::<f64>();
        let error = parts.map(|(curve, (value, gradient))| {
            let own = self.dispersion * curve.variance(gradient);
            curve.share * (own + (value - mean) * (value - mean)).sqrt()
        });
        (mean, error.sum())
    }

    fn interval(&self, mean: f64, variance: f64) -> Prediction {
        let half = self.stretch * t95(self.freedom) * variance.sqrt();
        Prediction {
            mean,
            // Counts are not negative.
            low: (mean - half).max(0.0),
            high: mean + half,
        }
    }
}
