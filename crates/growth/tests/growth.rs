//! Series of synthetic counts: each form of growth, noise, what does not belong together.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use linemate_answers::GrowthBy;
use linemate_growth::{
    Exponent, Growth, Prediction, RunOfSeries, SeriesCounts, SeriesError, Trends,
};

const KERNEL: &str = "00ff";

fn run(cpus: usize) -> RunOfSeries {
    RunOfSeries {
        name: format!("{cpus}.data"),
        cpus,
        kernel: KERNEL.to_owned(),
        command: format!("sleepers -l 5 -c {}", 4 * cpus),
        user: false,
        kernel_unnamed: false,
        accesses: 0,
    }
}

/// One recording for each number of CPUs; `count` gives the accesses of each row there.
fn members(sizes: &[usize], rows: usize, count: impl Fn(usize, usize) -> u64) -> Vec<SeriesCounts> {
    let member = |cpus: &usize| {
        let mut member = SeriesCounts::new(run(*cpus));
        for row in 0..rows {
            member.add("f", &format!("t.{row:05}"), count(row, *cpus));
        }
        member
    };
    sizes.iter().map(member).collect()
}

/// Of one row whose accesses per CPU are `rate`.
fn one(sizes: &[usize], rate: impl Fn(f64) -> f64) -> Growth {
    let count = |_, cpus: usize| (rate(cpus as f64) * cpus as f64).round() as u64;
    Growth::new(members(sizes, 1, count)).unwrap()
}

fn near(value: f64, expected: f64, part: f64) -> bool {
    (value / expected - 1.0).abs() <= part
}

#[test]
fn each_form_is_found_again() {
    let forms: [(Exponent, f64, f64); 5] = [
        (Exponent::MinusOne, 5000.0, -8000.0),
        (Exponent::MinusOne, 1000.0, 40_000.0),
        (Exponent::Zero, 3000.0, 0.0),
        (Exponent::Half, 1000.0, 2000.0),
        (Exponent::One, 1000.0, 500.0),
    ];
    for (exponent, a, b) in forms {
        let rate = |n: f64| a + b * n.powf(exponent.value());
        let growth = one(&[4, 8, 16, 32], rate);
        let trends = growth.trends(GrowthBy::Access);
        let trend = trends.get("f", "t.00000").unwrap();
        let best = trend.best();
        assert_eq!(best.exponent, exponent);
        assert!(near(best.a, a, 0.02), "{best:?}");
        assert!(b == 0.0 || near(best.b, b, 0.02), "{best:?}");
        assert!(best.share > 0.5, "{best:?}");
        assert!(trend.residual() < 0.001, "{}", trend.residual());
        for cpus in [64, 480] {
            let (real, predicted) = (rate(cpus as f64), trend.predict(cpus));
            assert!(
                near(predicted.mean, real, 0.05),
                "{exponent:?} {cpus}: {predicted:?}"
            );
            assert!(predicted.covers(real), "{exponent:?} {cpus}: {predicted:?}");
            assert!(
                predicted.high - predicted.low < real,
                "{exponent:?} {cpus}: {predicted:?}"
            );
        }
    }
}

#[test]
fn what_falls_faster_or_slower_than_any_form_stays_above_zero() {
    for rate in [|n: f64| 1e6 / n / n, |n: f64| 5000.0 - 150.0 * n] {
        let growth = one(&[4, 8, 16, 32], rate);
        let factor = growth.factor("f", "t.00000", 8, 480);
        assert!(factor.low >= 0.0 && factor.mean >= 0.0, "{factor:?}");
        assert!(factor.mean < 1.0 && factor.high.is_finite(), "{factor:?}");
    }
}

/// Nothing on the smallest machine, and from there on towards a limit: no line of 1/n through the
/// points, which would be below 0 there.
#[test]
fn what_begins_late_and_saturates_is_not_below_zero() {
    let growth = one(&[4, 8, 16, 32], |n| (4000.0 - 20_000.0 / n).max(0.0));
    let trends = growth.trends(GrowthBy::Access);
    let saturating = trends.get("f", "t.00000").unwrap().curves();
    let saturating = saturating.iter().find(|c| c.exponent == Exponent::MinusOne);
    let curve = saturating.unwrap();
    assert!(
        near(curve.b, -4.0 * curve.a, 1e-9),
        "0 on 4 CPUs: {curve:?}"
    );
    assert!(near(curve.a, 3900.0, 0.1), "{curve:?}");
}

/// Counts of chance events: the variance of each is its mean. So the best constant is all accesses
/// by all CPUs, but for weights that come from a curve which falls a little. All recordings alike
/// would give 6.4, the square of the CPUs 5.8.
#[test]
fn counts_weigh_by_their_variance() {
    let counts = [(4, 30), (8, 48), (16, 90)];
    let count = |_, cpus| counts.iter().find(|c| c.0 == cpus).unwrap().1;
    let growth = Growth::new(members(&[4, 8, 16], 1, count)).unwrap();
    let trends = growth.trends(GrowthBy::Access);
    let curve = trends.get("f", "t.00000").unwrap().curves()[0];
    assert_eq!(curve.exponent, Exponent::Zero);
    assert!(near(curve.a, 168.0 / 28.0, 0.02), "{curve:?}");
}

/// Where large counts differ from run to run by a part of them, a recording of many CPUs says no
/// more than one of few.
#[test]
fn rows_that_differ_by_a_part_of_them_weigh_alike() {
    let mut random = Draws(1);
    let drawn = members(&[4, 8, 16], 400, |_, _| 0);
    let noisy: Vec<[f64; 3]> = (0..400)
        .map(|_| [0; 3].map(|_| 1e6 * (1.0 + 0.1 * random.normal())))
        .collect();
    let fill = |mut member: SeriesCounts, at: usize| {
        for (row, rates) in noisy.iter().enumerate() {
            let count = rates[at] * member.run.cpus as f64;
            member.add("f", &format!("t.{row:05}"), count as u64);
        }
        member
    };
    let filled = drawn.into_iter().enumerate().map(|(at, m)| fill(m, at));
    let growth = Growth::new(filled.collect()).unwrap();
    let trends = growth.trends(GrowthBy::Access);
    assert!(near(trends.noise.relative, 0.1, 0.15), "{:?}", trends.noise);
    let curve = trends.get("f", "t.00000").unwrap().curves()[0];
    let mean = noisy[0].iter().sum::<f64>() / 3.0;
    assert!(near(curve.a, mean, 0.001), "{curve:?} {mean}");
}

/// SplitMix64.
struct Draws(u64);

impl Draws {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Box and Muller's.
    fn normal(&mut self) -> f64 {
        let (u, v) = (self.uniform().max(1e-300), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// A count of that mean, and of variance mean + (relative * mean)^2.
    fn count(&mut self, mean: f64, relative: f64) -> u64 {
        let deviation = (mean + relative * relative * mean * mean).sqrt();
        (mean + deviation * self.normal()).round().max(0.0) as u64
    }
}

const ROWS: usize = 2000;

/// Rows of some hundred accesses to millions; three in ten grow, or fall.
fn rate(row: usize, cpus: usize) -> f64 {
    let size = 10f64.powf(1.5 + (row / 10 % 50) as f64 / 12.0);
    let n = cpus as f64;
    match row % 10 {
        0 => size * (0.5 + n / 16.0),
        1 => size * (0.2 + n.sqrt() / 3.0),
        2 => size * (0.5 + 4.0 / n),
        _ => size,
    }
}

/// The noise of a series with noise of that size, and the share of rows whose count at 64 CPUs is
/// in the interval.
fn covered(sizes: &[usize], relative: impl Fn(usize) -> f64) -> (Trends, f64) {
    let mut random = Draws(7);
    let mut drawn = Vec::new();
    for cpus in sizes.iter().chain(&[64]) {
        let count = |row| random.count(rate(row, *cpus) * *cpus as f64, relative(row));
        drawn.push((*cpus, (0..ROWS).map(count).collect::<Vec<u64>>()));
    }
    let count = |row: usize, cpus| drawn.iter().find(|d| d.0 == cpus).unwrap().1[row];
    let growth = Growth::new(members(sizes, ROWS, count)).unwrap();
    let other = members(&[64], ROWS, count).remove(0);
    let held_out = growth.against(&other, GrowthBy::Access).unwrap();
    assert_eq!(held_out.len(), ROWS);
    let share = held_out.iter().filter(|row| row.is_covered()).count() as f64 / ROWS as f64;
    (growth.trends(GrowthBy::Access), share)
}

#[test]
fn intervals_hold_what_they_promise_under_noise() {
    for sizes in [&[4, 8, 16, 32][..], &[4, 8, 16]] {
        let (trends, share) = covered(sizes, |_| 0.05);
        assert!(
            near(trends.noise.relative, 0.05, 0.25),
            "{:?}",
            trends.noise
        );
        assert!(share > 0.93, "{sizes:?}: {share}");
    }
}

#[test]
fn rows_with_more_noise_than_others_are_held_as_well() {
    // One row in five has five times the noise.
    let (trends, share) = covered(
        &[4, 8, 16, 32],
        |row| if row % 5 == 0 { 0.25 } else { 0.05 },
    );
    assert!(trends.noise.freedom < 20.0, "{:?}", trends.noise);
    assert!(share > 0.93, "{share}");
}

/// Rows that are all as far from their curves, by a few per cent, and one that follows no curve:
/// what the others are like says nothing about it.
#[test]
fn a_row_that_no_curve_fits_has_an_interval_as_wide_as_its_fit_is_bad() {
    let sizes = [2, 4, 8];
    let count = |row: usize, cpus: usize| {
        let at = cpus.ilog2() as usize - 1;
        let rate = match row {
            0 => [1910, 135, 1580][at],
            row => (1000 + row) * [103, 97, 103][at],
        };
        (rate * cpus) as u64
    };
    let growth = Growth::new(members(&sizes, 200, count)).unwrap();
    let trends = growth.trends(GrowthBy::Access);
    assert!(trends.noise.freedom > 100.0, "{:?}", trends.noise);
    let trend = trends.get("f", "t.00000").unwrap();
    let residual = trend.residual();
    assert!(residual > 0.3, "{residual}");
    // Three points and a curve of two parameters leave one degree of freedom, for which Student's t
    // is 12.7; the others' would make it 1.96.
    for cpus in [16, 64, 480] {
        let predicted = trend.predict(cpus);
        let half = (predicted.high - predicted.mean) / predicted.mean;
        assert!(half > 10.0 * residual, "{cpus}: {predicted:?}, {residual}");
    }
    // The others have what they had.
    let like = trends.get("f", "t.00100").unwrap().predict(16);
    assert!(like.high < 1.5 * like.mean, "{like:?}");
}

/// Rows without noise that begin to grow on 32 CPUs, when a second level of domains comes: nothing
/// on fewer CPUs shows it.
#[test]
fn the_largest_recording_shows_how_wide_intervals_must_be() {
    let levels = |cpus: usize| (cpus.max(16) / 16).ilog2() as usize;
    let count =
        |row: usize, cpus: usize| ((10_000 + 100 * (row % 7 + 1) * levels(cpus)) * cpus) as u64;
    let share = |sizes: &[usize], other: usize| {
        let growth = Growth::new(members(sizes, 70, count)).unwrap();
        let rows = growth.against(&members(&[other], 70, count)[0], GrowthBy::Access);
        let rows = rows.unwrap();
        let covered = rows.iter().filter(|row| row.is_covered()).count();
        let stretch = growth.trends(GrowthBy::Access).stretch;
        (covered as f64 / 70.0, stretch)
    };
    let (covered, stretch) = share(&[4, 8, 16, 32], 64);
    assert!(stretch > 2.0 && covered > 0.9, "{covered} {stretch}");
    assert_eq!(share(&[4, 8, 16], 32).1, 1.0);
}

#[test]
fn a_prediction_is_not_much_wider_than_its_noise() {
    let (trends, _) = covered(&[4, 8, 16, 32], |_| 0.05);
    let width = |p: Prediction| (p.high - p.low) / 2.0 / p.mean;
    let mut widths: Vec<f64> = trends.rows().map(|row| width(row.2.predict(64))).collect();
    widths.sort_by(f64::total_cmp);
    // 1.96 times the noise of one recording are 0.1; the rest is the curve's.
    assert!(widths[ROWS / 2] < 0.4, "{}", widths[ROWS / 2]);
}

#[test]
fn recorded_accesses_times_the_factor_are_the_predicted_ones() {
    let growth = one(&[4, 8, 16], |n| 100.0 + 7.0 * n);
    let trends = growth.trends(GrowthBy::Access);
    let trend = trends.get("f", "t.00000").unwrap();
    let factor = growth.factor("f", "t.00000", 8, 480);
    let predicted = trend.predict(480);
    assert!(near(factor.mean * 156.0, predicted.mean, 1e-9));
    assert!(near(factor.high * 156.0, predicted.high, 1e-9));
    // Between sizes that were not recorded.
    let between = growth.factor("f", "t.00000", 12, 12);
    assert!(
        near(between.mean, 1.0, 1e-9) && near(between.low, 1.0, 1e-6),
        "{between:?}"
    );
    let twice = growth.factor("f", "t.00000", 12, 24);
    assert!(
        near(twice.mean, 268.0 / 184.0, 0.1) && twice.covers(268.0 / 184.0),
        "{twice:?}"
    );
}

#[test]
fn what_is_unknown_does_not_grow() {
    let growth = one(&[4, 8, 16], |n| n);
    for (function, field) in [("f", "t.other"), ("g", "t.00000"), ("", "")] {
        let factor = growth.factor(function, field, 8, 480);
        assert_eq!((factor.low, factor.mean, factor.high), (1.0, 1.0, 1.0));
    }
    // Nothing on 4 CPUs: there is nothing to multiply.
    let late = |_, cpus| if cpus > 8 { 1000 } else { 0 };
    let growth = Growth::new(members(&[4, 8, 16], 1, late)).unwrap();
    assert_eq!(growth.factor("f", "t.00000", 4, 480).mean, 1.0);
}

#[test]
fn rows_of_fields_and_functions_are_sums() {
    let sizes = [4, 8, 16];
    let mut series = members(&sizes, 2, |row, cpus| (100 * (row + 1) * cpus) as u64);
    for member in &mut series {
        member.add("g", "t.00000", 50 * member.run.cpus as u64);
    }
    let growth = Growth::new(series).unwrap();
    let recorded = |by, function: &str, field: &str| -> Vec<(usize, f64)> {
        let trends = growth.trends(by);
        trends.get(function, field).unwrap().recorded().collect()
    };
    let of = |rate: f64| sizes.map(|cpus| (cpus, rate)).to_vec();
    assert_eq!(recorded(GrowthBy::Access, "f", "t.00001"), of(200.0));
    assert_eq!(recorded(GrowthBy::Field, "", "t.00000"), of(150.0));
    assert_eq!(recorded(GrowthBy::Function, "f", ""), of(300.0));
}

#[test]
fn the_order_and_the_threads_do_not_matter() {
    let count = |row: usize, cpus: usize| (rate(row, cpus) * cpus as f64) as u64;
    let text = |threads, sizes: &[usize]| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let growth = || Growth::new(members(sizes, 500, count)).unwrap();
        format!("{:?}", pool.build().unwrap().install(growth))
    };
    let expected = text(1, &[4, 8, 16, 32]);
    assert_eq!(text(4, &[4, 8, 16, 32]), expected);
    assert_eq!(text(2, &[32, 4, 16, 8]), expected);
}

#[test]
fn counts_of_any_size_give_finite_figures() {
    let extreme = [0, 1, u64::MAX / 2];
    for bits in 1..81usize {
        let at = |cpus: usize| bits / 3usize.pow(cpus.ilog2() - 2) % 3;
        let growth = Growth::new(members(&[4, 8, 16, 32], 1, |_, cpus| extreme[at(cpus)]));
        let growth = growth.unwrap();
        let trends = growth.trends(GrowthBy::Access);
        let predicted = trends.get("f", "t.00000").unwrap().predict(8192);
        for value in [predicted.low, predicted.mean, predicted.high] {
            assert!(value.is_finite() && value >= 0.0, "{bits}: {predicted:?}");
        }
        let factor = growth.factor("f", "t.00000", 6, 8192);
        assert!(
            factor.mean.is_finite() && factor.high.is_finite(),
            "{bits}: {factor:?}"
        );
    }
}

fn refused(change: impl Fn(&mut RunOfSeries)) -> String {
    let mut series = members(&[4, 8, 16], 1, |_, _| 1);
    change(&mut series[1].run);
    Growth::new(series).unwrap_err().to_string()
}

#[test]
fn recordings_that_do_not_belong_together_are_refused_in_one_line() {
    let text = refused(|run| run.kernel = "beef".into());
    assert_eq!(
        text,
        "4.data and 8.data differ in kernel: 00ff and beef; a series needs a single one"
    );
    let text = refused(|run| run.user = true);
    assert!(text.contains("differ in recorded user code"), "{text}");
    let text = refused(|run| run.cpus = 4);
    assert!(text.contains("both have 4 CPUs"), "{text}");
    for command in [
        "sleepers -l 5 -c 31",
        "sleepers -l 6 -c 32",
        "sleepers -l 5 -d 32",
        "sleepers -l 5 -c 32 ",
        "sleepers -l 5",
        "",
        "sleepers -l 5 -c 99999999999999999999999999999999",
    ] {
        let text = refused(|run| run.command = command.into());
        assert!(text.contains("differ in workload"), "{command}: {text}");
    }
    let text = refused(|run| run.command = "x\n\u{1b}[31m".into());
    assert!(text.contains(r"`x\n\x1b[31m` on 8"), "{text}");
    assert!(!text.contains('\n'));
    for number in [0, 1, 2, 33] {
        let sizes: Vec<usize> = (1..=number).collect();
        let error = Growth::new(members(&sizes, 1, |_, _| 1)).unwrap_err();
        assert!(matches!(error, SeriesError::Number(n) if n == number));
    }
}

#[test]
fn numbers_of_the_command_may_go_with_the_cpus() {
    let commands = |command: fn(usize) -> String| {
        let mut series = members(&[4, 8, 16], 1, |_, _| 1);
        for member in &mut series {
            member.run.command = command(member.run.cpus);
        }
        Growth::new(series).map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(commands(|_| "true".into()), Ok(()));
    assert_eq!(
        commands(|cpus| format!("x -g{} -n {}", cpus / 4, 3 * cpus)),
        Ok(())
    );
    assert!(commands(|cpus| format!("x -g {}", cpus + 1)).is_err());
}

#[test]
fn a_held_out_recording_has_to_belong_to_the_series() {
    let growth = one(&[4, 8, 16], |n| 100.0 + n);
    let with = |change: fn(&mut RunOfSeries)| {
        let mut other = members(&[32], 1, |_, cpus| 132 * cpus as u64).remove(0);
        change(&mut other.run);
        growth.against(&other, GrowthBy::Access)
    };
    let rows = with(|_| ()).unwrap();
    assert_eq!((rows.len(), rows[0].real), (1, 132.0));
    assert!(
        rows[0].is_covered() && rows[0].error().abs() < 0.1,
        "{rows:?}"
    );
    assert!(with(|run| run.kernel = "beef".into()).is_err());
    assert!(with(|run| run.cpus = 16).is_err());
}

#[test]
fn what_only_the_other_recording_has_is_not_covered() {
    let growth = one(&[4, 8, 16], |n| 100.0 + n);
    let mut other = SeriesCounts::new(run(32));
    other.add("new", "t.new", 320);
    let rows = growth.against(&other, GrowthBy::Field).unwrap();
    let names: Vec<(&str, f64, bool)> = rows
        .iter()
        .map(|row| (row.field.as_str(), row.real, row.is_covered()))
        .collect();
    assert_eq!(names, [("t.00000", 0.0, false), ("t.new", 10.0, false)]);
}
