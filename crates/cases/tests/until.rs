//! When a case wants more runs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use linemate_answers::{Change, Compared, Figure, Rebuilt, Verdict};
use linemate_cases::{Mode, Plan, more_runs, parse};

const CASE: &str = r#"
name = "made-up"
summary = "a made-up case"
types = ["rq"]
machines = ["m1"]
[kernel]
series = "6.12"
[build]
source = "tree"
config = "config"
[guest]
cpus = 8
[workload]
command = ["run"]
[[edit]]
name = "apart"
file = "apart.txt"
patches = ["1.patch"]
measure = "same.txt"
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
