//! results.md and results.json of made-up outputs of every kind of step.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use linemate_cases::{Case, Mode, Outputs, Plan, Results, Spread, StepId, Work, markdown, parse};
use serde_json::{Value, json};

const CASE: &str = r#"
name = "made-up"
summary = "a lock beside what is read"
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
[[check]]
name = "storm"
command = ["storm.sh"]
[[check]]
name = "lockdep"
command = ["storm.sh"]
config = ["lockdep.config"]

[[published]]
key = "share of the lock"
value = "50 %"
source = "a paper"
found = { field = "__lock", figure = "group-share" }
[[published]]
key = "loads for each store"
value = "38 : 1"
source = "a paper"
found = { field = "nr_running", figure = "group-loads-per-store" }
[[published]]
key = "lines"
value = "five"
source = "a paper"
found = { field = "nr_running", figure = "group-lines" }
[[published]]
key = "rank"
value = "first"
source = "a paper"
found = { field = "__lock", figure = "rank" }
[[published]]
key = "latency"
value = "10,000 cycles"
source = "a paper"
found = { field = "__lock", figure = "cycles-per-load" }
[[published]]
key = "order"
value = "theirs"
source = "a paper"
found = { figure = "rank-correlation", fields = ["nr_running", "absent", "__lock", "cpu"] }
[[published]]
key = "share of what is read"
value = "39 %"
source = "a paper"
found = { figure = "cycle-share", fields = ["nr_running", "cpu", "absent"] }
[[published]]
key = "its loads for each store"
value = "38 : 1"
source = "a paper"
found = { figure = "loads-per-store", fields = ["nr_running", "cpu", "absent"] }
[[published]]
key = "rates"
value = "1 kHz"
source = "a paper"
found = { field = "nr_running", figure = "accesses" }
[[published]]
key = "what nobody touched"
value = "1 kHz"
source = "a paper"
found = { field = "absent", figure = "accesses" }
[[published]]
key = "cost"
value = "-4.4 %"
source = "a paper"
predicted = { edit = "apart", machine = "m1" }
[[published]]
key = "cost of f"
value = "-5 %"
source = "a paper"
predicted = { edit = "apart", machine = "m1", function = "f" }
[[published]]
key = "misses"
value = "-32 %"
source = "a paper"
predicted = { edit = "apart", machine = "m1", figure = "misses" }
[[published]]
key = "throughput | all"
value = "+1 %"
source = "a paper"
"#;

fn report() -> Value {
    json!({
        "inputs": { "recording": { "kernel": "6.12.0", "command": "run" }, "checksum": "00ff" },
        "ledger": { "recorded": 1_234_567 },
        "type": {
            "size": 3456,
            "figures": { "accesses": 1000 },
            "groups": [
                { "class": "atomic", "fields": ["__lock"], "share": 0.5, "loads_per_store": 1.0, "lines": [0] },
                { "class": "read by others", "fields": ["nr_running", "curr"], "share": 0.39, "loads_per_store": 38.25, "lines": [0, 3] },
                { "class": "own", "fields": ["cpu"], "share": 0.11, "loads_per_store": null, "lines": [1] },
            ],
        },
    })
}

fn costs_of_the_type() -> Value {
    let row = |name: &str, cycles: u64, hitm: [u64; 3]| json!({ "name": name, "cycles": cycles, "loads": 70, "stores": 30, "hitm": hitm });
    let cell = |field: &str, loads: u64, each: f64| json!({ "field": field, "loads": loads, "cycles_per_load": each });
    json!({ "costs": {
        "machine": "m1",
        "potential": { "cost": 2_500_000.0, "true_sharing": 0.25, "false_sharing": 0.5 },
        "fields": [
            row("rq.__lock", 2_000_000, [1, 2, 3]),
            row("rq.nr_running", 500_000, [0, 0, 1]),
            row("rq.cpu", 1000, [0, 0, 0]),
        ],
        "lines": [
            { "cells": [cell("rq.__lock", 3, 100.0), cell("rq.nr_running", 0, 0.0)] },
            { "cells": [cell("rq.__lock", 1, 500.0)] },
        ],
    }})
}

fn whatif(without: f64, with: f64) -> Value {
    let measure = |without: f64, with: f64, bar: f64| json!({ "without": without, "with": with, "difference": with - without, "bar": bar });
    json!({ "results": [{
        "machine": "m1", "cpus": 8, "line_bytes": 64, "skipped": 7,
        "sizes": [{ "name": "rq", "without_lines": 54, "with_lines": 55 }],
        "types": measure(without, with, without / 100.0),
        "whole": measure(10.0 * without, 9.0 * without + with, without / 10.0),
        "misses": { "kernel": measure(without / 1000.0, with / 2000.0, 1.0) },
        "functions": [
            { "name": "f", "cycles": measure(100.0, 80.0, 1.0) },
            { "name": "g", "cycles": measure(100.0, 90.0, 1.0) },
        ],
    }]})
}

fn outputs(plan: &Plan<'_>) -> Outputs {
    let output = |work: &Work| match work {
        Work::Report { .. } => Some(report()),
        Work::Costs { .. } => Some(costs_of_the_type()),
        Work::Measure { .. } => Some(whatif(1_004_500.0, 1_004_500.0)),
        Work::WhatIf { of: StepId(0), .. } => Some(whatif(2_000_000.0, 1_500_000.0)),
        Work::WhatIf { .. } => Some(whatif(1_600_000.0, 1_100_000.0)),
        Work::Check { check, .. } => Some(json!({ "said": format!("passed check {check}") })),
        Work::Record { .. } | Work::Build { .. } => None,
    };
    let steps = plan.steps.iter().enumerate();
    steps
        .filter_map(|(number, step)| Some((StepId(number), output(&step.work)?)))
        .collect()
}

fn results(case: &Case, mode: Mode) -> Results {
    let plan = Plan::new(case, mode);
    Results::new("1.2.3", case, mode, &plan, &outputs(&plan)).unwrap()
}

#[test]
fn the_page_is_as_it_was_written_down() {
    let case = parse(CASE).unwrap();
    let page = markdown(&results(&case, Mode::Full));
    assert_eq!(page, include_str!("results.md"));
}

#[test]
fn without_builds_the_page_says_so() {
    let case = parse(CASE).unwrap();
    let page = markdown(&results(&case, Mode::Quick));
    let end =
        "## Predicted beside re-recorded\n\nNot run: kernels are built without `--quick` only.\n";
    assert!(page.ends_with(end), "{page}");
    assert!(
        page.contains("| cost | -4.4 % |  | -25.0 ± 1.0 % |  | a paper |"),
        "{page}"
    );
}

#[test]
fn the_rebuilt_kernel_is_held_against_the_one_without_patches() {
    let case = parse(CASE).unwrap();
    let results = results(&case, Mode::Full);
    let [rebuilt] = &results.rebuilt[..] else {
        panic!("{:?}", results.rebuilt)
    };
    let one = |figure| Spread {
        mean: figure,
        least: figure,
        most: figure,
    };
    assert_eq!(rebuilt.cost.without, one(1_600_000.0));
    assert_eq!(rebuilt.cost.predicted, one(1_100_000.0));
    assert_eq!(rebuilt.cost.rerecorded, one(1_004_500.0));
    assert_eq!(rebuilt.whole.predicted, one(15_500_000.0));
    assert_eq!(rebuilt.functions["f"].predicted, one(80.0));
    assert_eq!(rebuilt.functions["f"].rerecorded, one(100.0));
    assert_eq!(rebuilt.types, ["rq"]);
    let error = rebuilt.cost.error().unwrap();
    assert!((error - 9.507_217).abs() < 1e-6, "{error}");
    assert_eq!(results.predicted[0].types.without, 2_000_000.0);
}

#[test]
fn several_runs_give_a_mean_and_what_it_lies_between() {
    let case = parse(&CASE.replacen("cpus = 8", "cpus = 8\nruns = 2", 1)).unwrap();
    let plan = Plan::new(&case, Mode::Full);
    let mut outputs = outputs(&plan);
    for (number, step) in plan.steps.iter().enumerate() {
        let second = |of: &StepId| plan.run(*of) == Some(1);
        let output = match &step.work {
            Work::WhatIf { of, .. } if second(of) => whatif(1_800_000.0, 1_300_000.0),
            Work::Measure { of, .. } if second(of) => whatif(995_500.0, 995_500.0),
            _ => continue,
        };
        outputs.insert(StepId(number), output);
    }
    let results = Results::new("1.2.3", &case, Mode::Full, &plan, &outputs).unwrap();
    let [rebuilt] = &results.rebuilt[..] else {
        panic!("{:?}", results.rebuilt)
    };
    assert_eq!(rebuilt.runs, 2);
    assert_eq!(rebuilt.cost.without.mean, 1_700_000.0);
    assert_eq!(rebuilt.cost.predicted.mean, 1_200_000.0);
    assert_eq!(
        rebuilt.cost.rerecorded,
        Spread {
            mean: 1_000_000.0,
            least: 995_500.0,
            most: 1_004_500.0
        }
    );
    assert_eq!(rebuilt.cost.error(), Some(20.0));
    let page = markdown(&results);
    assert!(
        page.contains("| apart | `m1` | `rq` | 1.700 (1.600 to 1.800) | 1.200 (1.100 to 1.300) | 1.000 (0.996 to 1.004) | -41.2 % | +20.0 % |"),
        "{page}"
    );
    assert!(page.contains("Means of 2 runs of each kernel"), "{page}");
}

#[test]
fn an_output_of_another_schema_is_named() {
    let case = parse(CASE).unwrap();
    let plan = Plan::new(&case, Mode::Quick);
    let mut outputs = outputs(&plan);
    outputs.insert(StepId(3), json!({ "results": [{ "machine": "m1" }] }));
    let error = Results::new("1.2.3", &case, Mode::Quick, &plan, &outputs).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the output of \"predict apart on m1\" has no /sizes"
    );
}
