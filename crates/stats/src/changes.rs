//! Intervals of changes: a published example, closed forms, what they must not depend on, and how
//! often they hold the truth.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;

use super::*;

/// Hours of sleep that ten patients gained by each of two drugs: Student, The probable error of a
/// mean, Biometrika 6, 1908; the data set `sleep` of R.
const SLEEP: [[f64; 10]; 2] = [
    [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
    [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
];

#[test]
fn welchs_interval_is_that_of_a_published_example() {
    // R's documentation of `t.test`, `t.test(extra ~ group, data = sleep)`: means 0.75 and 2.33, df
    // = 17.776, 95 percent confidence interval -3.3654832 0.2054832. Equal variances would give 18
    // degrees, pairs an interval of -2.46 to -0.70.
    let [a, b] = SLEEP.map(|values| Sample::of(&values).unwrap());
    assert!((a.mean - 0.75).abs() < 1e-9 && (b.mean - 2.33).abs() < 1e-9);
    let half = welch(a, b);
    let published = (3.365_483_2 + 0.205_483_2) / 2.0;
    assert!((half - published).abs() < 5e-4, "{half}, not {published}");
    // Far from equal: nine degrees and not eighteen. 2.262 · s / √10.
    let still = Sample { variance: 0.0, ..a };
    assert!((welch(still, b) - 2.262 * b.variance.sqrt()).abs() < 1e-9);
}

#[test]
fn quantiles_between_those_of_the_table() {
    // The e-Handbook's table continues: 40, 60 and 100 degrees of freedom.
    for (freedom, quantile) in [(1.0, 12.706), (9.0, 2.262), (30.0, 2.042)] {
        assert_eq!(t95(freedom), quantile);
    }
    for (freedom, quantile) in [(40.0, 2.021), (60.0, 2.000), (100.0, 1.984), (1e9, 1.960)] {
        let ours = t95(freedom);
        assert!((ours - quantile).abs() < 1.5e-3, "{freedom}: {ours}");
    }
    assert!(t95(17.776) < t95(17.0) && t95(17.776) > t95(18.0));
}

fn change(percent: f64, ci95: f64) -> Change {
    Change {
        percent,
        ci95: Some(ci95),
    }
}

fn assert_close(ours: Option<Change>, expected: Change) {
    let ours = ours.unwrap();
    let half = |c: &Change| c.ci95.unwrap_or(-1.0);
    let apart = |a: f64, b: f64| (a - b).abs() > 1e-9 * (1.0 + b.abs());
    assert!(
        !apart(ours.percent, expected.percent) && !apart(half(&ours), half(&expected)),
        "{ours:?}, not {expected:?}"
    );
}

#[test]
fn a_change_between_kernels_has_the_noise_of_both() {
    // s = 1: t(2) / √3 of 10, in per cent.
    let one = 10.0 * 4.303 / 3f64.sqrt();
    let (still, noisy) = ([10.0; 3], [8.0, 9.0, 10.0]);
    assert_close(change_between(&still, &noisy), change(-10.0, one));
    // The other way round the noise is below the line: 10/9 of it, of a mean of 9.
    let inverse = one * 10.0 / 9.0 * 10.0 / 9.0;
    assert_close(change_between(&noisy, &still), change(100.0 / 9.0, inverse));
    // Both: twice the variance and four degrees of freedom.
    assert_close(
        change_between(&noisy, &noisy),
        change(0.0, 100.0 / 9.0 * 2.776 * (2.0 / 3.0f64).sqrt()),
    );
    assert_close(change_between(&still, &still), change(0.0, 0.0));
}

#[test]
fn a_change_within_runs_has_only_what_they_differ_in() {
    // Each run changes by a tenth of its cost.
    let without = [10.0, 20.0, 60.0];
    let tenth = without.map(|cost| 0.9 * cost);
    assert_close(change_within(&without, &tenth), change(-10.0, 0.0));
    assert!(change_between(&without, &tenth).unwrap().ci95.unwrap() > 50.0);
    // What is left of a ratio of 1: -1, 0, 1.
    assert_close(
        change_within(&[10.0; 3], &[9.0, 10.0, 11.0]),
        change(0.0, 10.0 * 4.303 / 3f64.sqrt()),
    );
}

#[test]
fn two_runs_give_no_interval_and_nothing_no_change() {
    type Compare = fn(&[f64], &[f64]) -> Option<Change>;
    for compare in [change_between as Compare, change_within] {
        let none = |percent| {
            Some(Change {
                percent,
                ci95: None,
            })
        };
        assert_eq!(compare(&[10.0, 30.0], &[5.0, 5.0]), none(-75.0));
        assert_eq!(compare(&[10.0], &[20.0]), none(100.0));
        assert!(
            compare(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0])
                .unwrap()
                .ci95
                .is_some()
        );
        assert_eq!(compare(&[], &[]), None);
        assert_eq!(compare(&[0.0; 3], &[1.0; 3]), None);
        assert_eq!(compare(&[1.0; 3], &[]), None);
    }
    let of_two = change_between(&[1.0, 2.0, 3.0], &[1.0, 2.0]).unwrap();
    assert_eq!(of_two.ci95, None, "two runs of one of the kernels");
}

/// Normal deviates, the same every time: a generator of Numerical Recipes, Box and Muller's
/// transform.
struct Normal(u64);

impl Normal {
    fn uniform(&mut self) -> f64 {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn next(&mut self, mean: f64, deviation: f64) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        mean + deviation * radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// How many of a hundred intervals hold the true change.
fn coverage(mut interval: impl FnMut(&mut Normal) -> (Change, f64)) -> f64 {
    const TRIALS: usize = 8000;
    let mut noise = Normal(1);
    let held = (0..TRIALS).filter(|_| {
        let (change, truth) = interval(&mut noise);
        (change.percent - truth).abs() <= change.ci95.unwrap()
    });
    100.0 * held.count() as f64 / TRIALS as f64
}

#[test]
fn nineteen_of_twenty_intervals_hold_the_truth() {
    // Kernels that cost 100 and 80, with runs that differ by 8 % and by 20 %.
    let between = coverage(|noise| {
        let without: Vec<f64> = (0..5).map(|_| noise.next(100.0, 8.0)).collect();
        let with: Vec<f64> = (0..6).map(|_| noise.next(80.0, 16.0)).collect();
        (change_between(&without, &with).unwrap(), -20.0)
    });
    // Runs that differ by 20 %, each of which the layout changes by -10 % give or take 3 %.
    let within = coverage(|noise| {
        let without: Vec<f64> = (0..5).map(|_| noise.next(100.0, 20.0)).collect();
        let of_run = |cost: &f64| 0.9 * cost + noise.next(0.0, 3.0);
        let with: Vec<f64> = without.iter().map(of_run).collect();
        (change_within(&without, &with).unwrap(), -10.0)
    });
    // The normal quantile for Student's would give 87, variances of values for those of means 100.
    for (of, held) in [("between", between), ("within", within)] {
        assert!((93.5..96.5).contains(&held), "{of}: {held} %");
    }
}

proptest! {
    #[test]
    fn neither_unit_nor_order_matters(
        without in prop::collection::vec(1.0..1e6f64, 3..9),
        with in prop::collection::vec(1.0..1e6f64, 3..9),
        unit in 1e-6..1e6f64,
        turn in 0..9usize,
    ) {
        let scaled = |values: &[f64]| values.iter().map(|v| v * unit).collect::<Vec<f64>>();
        let turned = |values: &[f64]| {
            let mut values = values.to_vec();
            let places = turn % values.len();
            values.rotate_left(places);
            values
        };
        let between = change_between(&without, &with).unwrap();
        assert_close(change_between(&scaled(&without), &scaled(&with)), between);
        assert_close(change_between(&turned(&without), &with), between);
        assert_close(change_between(&without, &turned(&with)), between);
        // Pairs stay together.
        let count = without.len().min(with.len());
        let (without, with) = (&without[..count], &with[..count]);
        let within = change_within(without, with).unwrap();
        assert_close(change_within(&scaled(without), &scaled(with)), within);
        assert_close(change_within(&turned(without), &turned(with)), within);
        prop_assert!((within.percent - 100.0 * (mean_of(with) / mean_of(without) - 1.0)).abs() < 1e-6);
        prop_assert!(between.ci95.unwrap() >= 0.0 && within.ci95.unwrap() >= 0.0);
    }
}

fn mean_of(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
