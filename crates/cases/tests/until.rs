//! When a case wants more runs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the shares are the result")]

use std::collections::BTreeMap;

use linemate_answers::{Change, Compared, Figure, Rebuilt, Verdict};
use linemate_cases::{Mode, Plan, more_runs, parse};
use linemate_stats::change_between;

const CASE: &str = r#"
name = "made-up"
summary = "a made-up case"
types = ["rq"]
machines = ["m1"]
[kernel]
series = "6.12"
[guest]
cpus = 8
[workload]
command = ["run"]
[[edit]]
name = "apart"
file = "apart.txt"
"#;

/// What an edit's types cost, known so well.
fn known(edit: &str, ci95: Option<f64>) -> Rebuilt {
    let percent = -20.0;
    Rebuilt {
        edit: edit.to_owned(),
        machine: "m1".to_owned(),
        cost: Figure {
            sum: Compared {
                recorded_change: Some(Change { percent, ci95 }),
                ..Compared::default()
            },
            per_event: None,
        },
        types: vec!["rq".to_owned()],
        runs: 5,
        event: None,
        accesses: Figure::default(),
        whole: Figure::default(),
        llc_misses: Figure::default(),
        llc_load_misses: Figure::default(),
        functions: BTreeMap::new(),
    }
}

/// How many runs are wanted after these, and why.
fn wanted(of: &str, runs: u16, rebuilt: &[Rebuilt]) -> Option<(u16, String)> {
    let text = CASE.replacen("cpus = 8", &format!("cpus = 8\nruns = {of}"), 1);
    let case = parse(&text).unwrap();
    let plan = Plan::with_runs(&case, Mode::Full, runs);
    let more = more_runs(&case, &plan, rebuilt)?;
    Some((more.runs, more.widest.to_string()))
}

#[test]
fn runs_are_added_five_at_a_time_until_every_interval_is_narrow() {
    let edits = [
        known("a", Some(3.0)),
        known("b", Some(8.04)),
        known("c", Some(1.0)),
    ];
    let why = "b on m1 is known to ± 8.0 %".to_owned();
    let until = "{ until = 8, at_most = 40 }";
    assert_eq!(wanted(until, 5, &edits), Some((10, why.clone())));
    assert_eq!(wanted(until, 35, &edits), Some((40, why.clone())));
    assert_eq!(wanted(until, 40, &edits), None, "as many as there may be");
    assert_eq!(
        wanted("{ until = 8, at_most = 12 }", 10, &edits),
        Some((12, why))
    );
    assert_eq!(wanted("{ until = 8.04, at_most = 40 }", 5, &edits), None);
    // A fixed number is one, however wide.
    assert_eq!(wanted("5", 5, &edits), None);
    let few = wanted("{ until = 8, at_most = 40 }", 2, &[known("a", None)]);
    assert_eq!(few, Some((7, "a on m1 has no interval".to_owned())));
}

#[test]
fn the_interval_per_event_counts_where_there_is_one() {
    let mut rebuilt = known("a", Some(30.0));
    rebuilt.cost.per_event = known("a", Some(2.0)).cost.sum.into();
    assert_eq!(wanted("{ until = 8, at_most = 40 }", 5, &[rebuilt]), None);
}

#[test]
fn what_runs_cannot_narrow_wants_none() {
    let renamed = Rebuilt {
        cost: known("a", Some(90.0)).cost.not_comparable(),
        ..known("a", None)
    };
    assert_eq!(renamed.cost.sum.verdict, Some(Verdict::NotComparable));
    let mut nothing = known("a", None);
    nothing.cost.sum.recorded_change = None;
    for rebuilt in [&[renamed][..], &[nothing], &[]] {
        assert_eq!(wanted("{ until = 8, at_most = 40 }", 5, rebuilt), None);
    }
}

/// Random numbers of mean 0 and variance 1, near enough to normal ones (Irwin and Hall: the sum of
/// twelve uniform ones), from a seed.
struct Normal(u64);

impl Normal {
    fn next(&mut self) -> f64 {
        let sum: f64 = (0..12).map(|_| self.uniform()).sum();
        sum - 6.0
    }

    fn uniform(&mut self) -> f64 {
        // Knuth's MMIX.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The recorded change of a synthetic case that ends by the rule, with runs of this relative spread
/// and a true change of -20 %.
fn ended(spread: f64, random: &mut Normal) -> Change {
    let text = CASE.replacen(
        "cpus = 8",
        "cpus = 8\nruns = { until = 8, at_most = 40 }",
        1,
    );
    let case = parse(&text).unwrap();
    let mut plan = Plan::new(&case, Mode::Full);
    let mut runs = 5;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    loop {
        while without.len() < usize::from(runs) {
            without.push(100.0 * (1.0 + spread * random.next()));
            with.push(80.0 * (1.0 + spread * random.next()));
        }
        let change = change_between(&without, &with).unwrap();
        let mut rebuilt = known("apart", change.ci95);
        rebuilt.cost.sum.recorded_change = Some(change);
        match more_runs(&case, &plan, &[rebuilt]) {
            Some(more) => {
                runs = more.runs;
                plan = Plan::with_runs(&case, Mode::Full, runs);
            }
            None => return change,
        }
    }
}

/// An interval that ends the runs is too narrow by chance more often than others: by so little that
/// it still is one of 95 %, within the error of 1,000 cases (three standard errors, 2.1 points).
#[test]
fn intervals_that_end_the_runs_hold_the_true_change() {
    for spread in [0.05, 0.10, 0.15, 0.20] {
        let mut random = Normal(42);
        let cases = 1000;
        let held = (0..cases).filter(|_| {
            let change = ended(spread, &mut random);
            (change.percent + 20.0).abs() <= change.ci95.unwrap()
        });
        let held = 100.0 * held.count() as f64 / f64::from(cases);
        println!("spread {spread}: {held:.1} % held");
        assert!((92.9..=97.1).contains(&held), "spread {spread}: {held}");
    }
}
