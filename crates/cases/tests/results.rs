//! results.md and results.json of synthetic outputs of every kind of step.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use linemate_answers::{
    CaseResults, CellCost, Change, Cost, Costs, CostsDocument, CycleSum, EventCount, FieldMap,
    Figure, Figures, GroupRow, Inputs, LedgerView, LineCost, LlcMisses, Measure, MeasuredRow,
    Potential, Report, Spread, TypeSize, TypeTimes, TypeView, UnderChange, UnderCost, Verdict,
    View, WhatIf, WhatIfDocument,
};
use linemate_cases::{
    Case, CaseReplay, CheckDocument, Mode, Outputs, Plan, StepId, Work, parse, results,
};
use linemate_report::case::markdown;
use serde::Serialize;
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
key = "load misses"
value = "-28 %"
source = "a paper"
predicted = { edit = "apart", machine = "m1", figure = "load-misses" }
[[published]]
key = "throughput | all"
value = "+1 %"
source = "a paper"
"#;

/// As the verb writes it.
fn written(document: &impl Serialize) -> Value {
    serde_json::to_value(document).unwrap()
}

fn report() -> Value {
    let group =
        |class: &'static str, fields: &[&str], share, loads_per_store, lines: &[u64]| GroupRow {
            class: class.into(),
            fields: fields.iter().map(|f| (*f).to_owned()).collect(),
            share,
            loads_per_store,
            lines: lines.to_vec(),
            figures: Figures::default(),
        };
    let text = |text: &str| text.to_owned();
    written(&Report {
        schema: "linemate.report/2".into(),
        inputs: Inputs {
            tool: text("1.2.3"),
            recorded_by: text("1.2.3"),
            recording: [("kernel", "6.12.0"), ("command", "run")]
                .map(|(k, v)| (text(k), text(v)))
                .into(),
            checksum: Some(text("00ff")),
            cut: None,
        },
        ledger: LedgerView {
            recorded: 1_234_567,
            total: 1_234_567,
            typed_share: 1.0,
            programs: None,
            unknown_share: 0.0,
            groups: Vec::new(),
        },
        event: None,
        view: View::Type(Box::new(TypeView {
            layout: FieldMap::default(),
            name: text("rq"),
            size: 3456,
            line_size: 64,
            figures: Figures {
                accesses: 1000,
                ..Figures::default()
            },
            places: Vec::new(),
            fields: Vec::new(),
            lines: Vec::new(),
            groups: vec![
                group("atomic", &["__lock"], 0.5, Some(1.0), &[0]),
                group(
                    "read by others",
                    &["nr_running", "curr"],
                    0.39,
                    Some(38.25),
                    &[0, 3],
                ),
                group("own", &["cpu"], 0.11, None, &[1]),
            ],
            times: TypeTimes::default(),
        })),
    })
}

fn costs_of_the_type() -> Value {
    let row = |name: &str, cycles: u64, hitm: [u64; 3]| Cost {
        name: name.to_owned(),
        cycles,
        loads: 70,
        stores: 30,
        hitm,
        ..Cost::default()
    };
    let cell = |field: &str, loads: u64, cycles_per_load: f64| CellCost {
        field: field.to_owned(),
        loads,
        cycles_per_load,
        ..CellCost::default()
    };
    let line = |cells| LineCost {
        cells,
        ..LineCost::default()
    };
    written(&CostsDocument {
        cpus: Vec::new(),
        others: Vec::new(),
        event: None,
        schema: CostsDocument::SCHEMA.into(),
        tool: "1.2.3".to_owned(),
        recording: Default::default(),
        checksum: None,
        type_name: Some("rq".to_owned()),
        costs: Costs {
            machine: "m1".to_owned(),
            potential: Potential {
                cost: 2_500_000.0,
                true_sharing: 0.25,
                false_sharing: 0.5,
                ..Potential::default()
            },
            fields: vec![
                row("rq.__lock", 2_000_000, [1, 2, 3]),
                row("rq.nr_running", 500_000, [0, 0, 1]),
                row("rq.cpu", 1000, [0, 0, 0]),
            ],
            lines: vec![
                line(vec![
                    cell("rq.__lock", 3, 100.0),
                    cell("rq.nr_running", 0, 0.0),
                ]),
                line(vec![cell("rq.__lock", 1, 500.0)]),
            ],
            ..Costs::default()
        },
    })
}

/// In a recording with that many events.
fn whatif_of(without: f64, with: f64, calls: u64) -> Value {
    let mut document = whatif(without, with);
    document["event"] = written(&EventCount {
        function: "f".to_owned(),
        symbols: vec!["f".to_owned(), "f.isra.0".to_owned()],
        calls,
    });
    document
}

fn whatif(without: f64, with: f64) -> Value {
    let measure = |without: f64, with: f64, ci95: f64| Measure {
        without,
        with,
        difference: with - without,
        ci95,
        significant: true,
    };
    let function = |name: &str, with| MeasuredRow {
        name: name.to_owned(),
        cycles: measure(100.0, with, 1.0),
        ..MeasuredRow::default()
    };
    written(&WhatIfDocument {
        event: None,
        layouts: Vec::new(),
        schema: WhatIfDocument::SCHEMA.into(),
        tool: "1.2.3".to_owned(),
        recording: Default::default(),
        checksum: None,
        edits: String::new(),
        results: vec![WhatIf {
            machine: "m1".to_owned(),
            cpus: 8,
            line_bytes: 64,
            skipped: 7,
            sizes: vec![TypeSize {
                name: "rq".to_owned(),
                without_lines: 54,
                with_lines: 55,
                ..TypeSize::default()
            }],
            types: measure(without, with, without / 100.0),
            whole: measure(10.0 * without, 9.0 * without + with, without / 10.0),
            llc_misses: LlcMisses {
                kernel: measure(without / 1000.0, with / 2000.0, 1.0),
                kernel_loads: measure(without / 2000.0, with / 5000.0, 1.0),
                ..LlcMisses::default()
            },
            functions: vec![function("f", 80.0), function("g", 90.0)],
            ..WhatIf::default()
        }],
    })
}

fn outputs(plan: &Plan<'_>) -> Outputs {
    let output = |work: &Work| match work {
        Work::Report { .. } => Some(report()),
        Work::Costs { .. } => Some(costs_of_the_type()),
        Work::Measure { .. } => Some(whatif(1_004_500.0, 1_004_500.0)),
        Work::WhatIf { of: StepId(0), .. } => Some(whatif(2_000_000.0, 1_500_000.0)),
        Work::WhatIf { .. } => Some(whatif(1_600_000.0, 1_100_000.0)),
        Work::Under { .. } | Work::WhatIfUnder { .. } => None,
        Work::Check { check, .. } => Some(written(&CheckDocument {
            said: format!("passed check {check}"),
        })),
        Work::Record { .. } | Work::Build { .. } => None,
    };
    let steps = plan.steps.iter().enumerate();
    steps
        .filter_map(|(number, step)| Some((StepId(number), output(&step.work)?)))
        .collect()
}

/// The case with an event and three runs, of which each does more than the one before; the patched
/// kernel's with other growth.
fn events() -> (Case, Outputs) {
    let text = CASE.replacen(
        "cpus = 8",
        "cpus = 8\nruns = 3\n[event]\nfunction = \"f\"\nname = \"enqueue\"",
        1,
    );
    let case = parse(&text).unwrap();
    let plan = Plan::new(&case, Mode::Full);
    let mut outputs = outputs(&plan);
    for (number, step) in plan.steps.iter().enumerate() {
        let run = |of: &StepId| plan.run(*of).unwrap_or(0);
        let output = match &step.work {
            Work::WhatIf { of, .. } if *of != plan.examined => {
                let much = 1.0 + run(of) as f64 / 4.0;
                let calls = (1000.0 * much) as u64;
                whatif_of(1_600_000.0 * much, 1_200_000.0 * much, calls)
            }
            Work::Measure { of, .. } => {
                let much = 1.0 + run(of) as f64 / 2.0;
                let each = 1190.0 + 10.0 * run(of) as f64;
                let calls = (1000.0 * much) as u64;
                whatif_of(1000.0 * each * much, 1000.0 * each * much, calls)
            }
            _ => continue,
        };
        outputs.insert(StepId(number), output);
    }
    (case.clone(), outputs)
}

fn results_of(case: &Case, mode: Mode) -> CaseResults {
    let plan = Plan::new(case, mode);
    results("1.2.3", case, mode, &plan, &outputs(&plan)).unwrap()
}

#[test]
fn the_page_is_as_it_was_written_down() {
    let case = parse(CASE).unwrap();
    let page = markdown(&results_of(&case, Mode::Full));
    assert_eq!(page, include_str!("results.md"));
}

#[test]
fn how_it_was_replayed_is_reported() {
    let case = parse(CASE).unwrap();
    let replayed = |mode: Mode, replay: CaseReplay| {
        let plan = Plan::new(&case, mode).replayed(replay);
        let results = results("1.2.3", &case, mode, &plan, &outputs(&plan)).unwrap();
        (results.replay.clone(), markdown(&results))
    };
    let (replay, page) = replayed(
        Mode::Predicted,
        CaseReplay {
            cold: true,
            mechanisms: Some(Vec::new()),
            llc_share: Some(true),
            cpus: Some(480),
        },
    );
    assert!(replay.cold && replay.llc_share && replay.mechanisms.is_empty());
    assert!(
        page.contains("predicted form. Replayed cold and without mechanisms, predictions with each CPU's share of the caches, on 480 CPUs. Recorded:"),
        "{page}"
    );
    let end = "Not run: `--predict` builds no kernel with patches.\n";
    assert!(page.ends_with(end), "{page}");
    let stride = CaseReplay {
        mechanisms: Some(vec!["l1_stride".to_owned()]),
        ..CaseReplay::default()
    };
    let (_, page) = replayed(Mode::Full, stride);
    assert!(
        page.contains("Replayed warm and with `l1_stride`. "),
        "{page}"
    );
}

const SHARES: &str = r#"
[[published]]
key = "under f"
value = "0.81 → 0.35 % of all"
source = "a paper"
found = { function = "f", figure = "share-under" }
predicted = { edit = "apart", machine = "m1", function = "f", figure = "share-under" }
"#;

/// A report on a function that has this many of 100,000 cycles.
fn under(cycles: u64) -> Value {
    let cycles_of = |instructions| CycleSum {
        instructions,
        stalls: 100,
    };
    let mut document = costs_of_the_type();
    document["costs"]["under"] = written(&UnderCost {
        cycles: cycles_of(cycles - 100),
        all_cycles: cycles_of(99_900),
        ..UnderCost::default()
    });
    document
}

#[test]
fn shares_of_all_cycles_stand_beside_published_ones() {
    let text = CASE.replacen("cpus = 8", "cpus = 8\nruns = 3", 1) + SHARES;
    let case = parse(&text).unwrap();
    let plan = Plan::new(&case, Mode::Full);
    let mut outputs = outputs(&plan);
    for (number, step) in plan.steps.iter().enumerate() {
        let output = match &step.work {
            Work::Under { of, .. } if *of == plan.examined => under(800),
            Work::Under { of, .. } if plan.bases.contains(of) => under(1000),
            Work::Under { of, .. } => under(400 + 100 * plan.run(*of).unwrap() as u64),
            Work::WhatIfUnder { .. } => {
                let measure = |without: f64, with: f64| Measure {
                    without,
                    with,
                    ..Measure::default()
                };
                let mut document = whatif(1.0, 1.0);
                document["results"][0]["under"] = written(&UnderChange {
                    cycles: measure(800.0, 392.0),
                    all_cycles: measure(100_000.0, 98_000.0),
                    ..UnderChange::default()
                });
                document
            }
            _ => continue,
        };
        outputs.insert(StepId(number), output);
    }
    let of = |mode| {
        let plan = Plan::new(&case, mode);
        let results = results("1.2.3", &case, mode, &plan, &outputs).unwrap();
        results.published.last().cloned().unwrap()
    };
    let row = of(Mode::Full);
    assert_eq!(row.found.as_deref(), Some("0.80 % of all cycles"));
    let predicted = "0.80 → 0.40 % of all cycles";
    assert_eq!(row.predicted.as_deref(), Some(predicted));
    // 0.4, 0.5 and 0.6 % next to 1 %: t(2) · 0.1 / √3.
    let rerecorded = "1.00 → 0.50 % of all cycles (-50.0 ± 24.8 %)";
    assert_eq!(row.rerecorded.as_deref(), Some(rerecorded));
    let row = of(Mode::Quick);
    assert_eq!(row.predicted.as_deref(), Some(predicted));
    assert_eq!(row.rerecorded, None);
}

#[test]
fn members_of_a_union_are_found_by_each_name() {
    let case = parse(CASE).unwrap();
    let plan = Plan::new(&case, Mode::Quick);
    let mut outputs = outputs(&plan);
    let field = "/costs/fields/1/name";
    for output in outputs.values_mut() {
        if let Some(name) = output.pointer_mut(field) {
            assert_eq!(*name, "rq.nr_running");
            *name = "rq.donor | nr_running".into();
        }
    }
    let results = results("1.2.3", &case, Mode::Quick, &plan, &outputs).unwrap();
    let found = |key: &str| {
        let row = results.published.iter().find(|row| row.key == key);
        row.unwrap().found.clone().unwrap()
    };
    assert_eq!(found("share of what is read"), "20.0 % of cycles");
    assert_eq!(found("rates"), "70 loads, 30 stores");
    assert_eq!(found("order"), "0.50 over 3 of 4 fields");
}

/// A case of which machines were left out.
#[test]
fn what_was_not_replayed_has_no_prediction() {
    let case = parse(CASE).unwrap();
    let mut fewer = case.clone();
    fewer.machines = vec!["m2".to_owned()];
    let plan = Plan::new(&fewer, Mode::Quick);
    let mut outputs = outputs(&plan);
    for output in outputs.values_mut() {
        if let Some(result) = output.pointer_mut("/results/0") {
            result["machine"] = "m2".into();
        }
    }
    let results = results("1.2.3", &fewer, Mode::Quick, &plan, &outputs).unwrap();
    let page = markdown(&results);
    let row = "| load misses | -28 % |  | not replayed |  | a paper |";
    assert!(page.contains(row), "{page}");
}

#[test]
fn the_course_of_a_workload_is_not_in_what_an_event_costs() {
    let (case, outputs) = events();
    let plan = Plan::new(&case, Mode::Full);
    let results = results("1.2.3", &case, Mode::Full, &plan, &outputs).unwrap();
    let [rebuilt] = &results.rebuilt[..] else {
        panic!("{:?}", results.rebuilt)
    };
    let event = rebuilt.event.as_ref().unwrap();
    assert_eq!(
        (&*event.name, &*event.function, event.copies.len()),
        ("enqueue", "f", 2)
    );
    assert_eq!(
        (event.without.mean, event.rerecorded.mean),
        (1250.0, 1500.0)
    );
    let change = |change: Option<Change>| change.map(|c| (c.percent, c.ci95.unwrap())).unwrap();
    // 1600 cycles each, predicted 1200, recorded 1190, 1200 and 1210: t(2) · 10 / √3 of 1600.
    let each = rebuilt.cost.per_event.unwrap();
    assert_eq!(change(each.predicted_change), (-25.0, 0.0));
    let (percent, ci95) = change(each.recorded_change);
    assert_eq!(percent, -25.0);
    assert!((ci95 - 100.0 * 4.303 * 10.0 / 3f64.sqrt() / 1600.0).abs() < 1e-9);
    assert_eq!(each.verdict, Some(Verdict::Agrees));
    // The sums differ in how much was done.
    let sum = rebuilt.cost.sum;
    assert!(change(sum.recorded_change).1 > 50.0, "{sum:?}");
    assert_eq!(sum.verdict, Some(Verdict::Inconclusive));
    assert_eq!(markdown(&results), include_str!("events.md"));
}

#[test]
fn a_type_that_lost_its_name_in_one_kernel_is_not_compared() {
    let (case, mut outputs) = events();
    let plan = Plan::new(&case, Mode::Full);
    for (number, step) in plan.steps.iter().enumerate() {
        let accesses = match &step.work {
            Work::WhatIf { .. } => 1000,
            Work::Measure { .. } => 3000,
            _ => continue,
        };
        let output = outputs.get_mut(&StepId(number)).unwrap();
        output["results"][0]["types_accesses"] = accesses.into();
    }
    let results = results("1.2.3", &case, Mode::Full, &plan, &outputs).unwrap();
    let rebuilt = &results.rebuilt[0];
    let verdict = |figure: &Figure| (figure.sum.verdict, figure.best().verdict);
    let not = Some(Verdict::NotComparable);
    assert_eq!(verdict(&rebuilt.cost), (not, not));
    assert_ne!(verdict(&rebuilt.whole).0, not);
    // 1000 accesses in runs of 1000, 1250 and 1500 calls; 3000 in runs of 1000, 1500 and 2000.
    let page = markdown(&results);
    let told = "Not comparable: with the patches of apart, `rq` has 2.167 accesses for each enqueue, without 0.8222.";
    assert!(page.contains(told), "{page}");
    assert_eq!(page.matches("| not comparable |").count(), 2, "{page}");
}

#[test]
fn without_builds_the_page_says_so() {
    let case = parse(CASE).unwrap();
    let page = markdown(&results_of(&case, Mode::Quick));
    let end = "## Predicted and re-recorded\n\nNot run: `--quick` builds no kernel.\n";
    assert!(page.ends_with(end), "{page}");
    assert!(
        page.contains("| cost | -4.4 % |  | -25.0 ± 1.0 % |  | a paper |"),
        "{page}"
    );
}

#[test]
fn the_rebuilt_kernel_is_held_against_the_one_without_patches() {
    let case = parse(CASE).unwrap();
    let results = results_of(&case, Mode::Full);
    let [rebuilt] = &results.rebuilt[..] else {
        panic!("{:?}", results.rebuilt)
    };
    let one = |figure| Spread {
        mean: figure,
        least: figure,
        most: figure,
    };
    assert_eq!(rebuilt.cost.sum.without, one(1_600_000.0));
    assert_eq!(rebuilt.cost.sum.predicted, one(1_100_000.0));
    assert_eq!(rebuilt.cost.sum.rerecorded, one(1_004_500.0));
    assert_eq!(rebuilt.whole.sum.predicted, one(15_500_000.0));
    assert_eq!(rebuilt.functions["f"].sum.predicted, one(80.0));
    assert_eq!(rebuilt.functions["f"].sum.rerecorded, one(100.0));
    assert_eq!(rebuilt.types, ["rq"]);
    let error = rebuilt.cost.sum.error().unwrap();
    assert!((error - 9.507_217).abs() < 1e-6, "{error}");
    assert_eq!(results.predicted[0].types.without, 2_000_000.0);
}

#[test]
fn several_runs_give_a_mean_and_what_it_is_between() {
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
    let results = results("1.2.3", &case, Mode::Full, &plan, &outputs).unwrap();
    let [rebuilt] = &results.rebuilt[..] else {
        panic!("{:?}", results.rebuilt)
    };
    assert_eq!(rebuilt.runs, 2);
    assert_eq!(rebuilt.cost.sum.without.mean, 1_700_000.0);
    assert_eq!(rebuilt.cost.sum.predicted.mean, 1_200_000.0);
    assert_eq!(
        rebuilt.cost.sum.rerecorded,
        Spread {
            mean: 1_000_000.0,
            least: 995_500.0,
            most: 1_004_500.0
        }
    );
    assert_eq!(rebuilt.cost.sum.error(), Some(20.0));
    let page = markdown(&results);
    assert!(
        page.contains("| apart | `m1` | `rq` | 1.700 (1.600 to 1.800) | 1.200 (1.100 to 1.300) | 1.000 (0.996 to 1.004) | -29.4 % | -41.2 % | +20.0 % | inconclusive |"),
        "{page}"
    );
    assert!(page.contains("Means of 2 runs of each kernel"), "{page}");
}

#[test]
fn an_output_of_another_schema_is_named() {
    let case = parse(CASE).unwrap();
    let plan = Plan::new(&case, Mode::Quick);
    let refused = |output: Value| {
        let mut outputs = outputs(&plan);
        outputs.insert(StepId(3), output);
        let error = results("1.2.3", &case, Mode::Quick, &plan, &outputs).unwrap_err();
        assert_eq!(error.step, "predict apart on m1");
        error.to_string()
    };
    let head = "the output of \"predict apart on m1\" is not what its schema says: ";
    let another = json!({ "schema": "linemate.whatif/1", "results": [] });
    assert_eq!(
        refused(another),
        format!("{head}it is \"linemate.whatif/1\", not \"linemate.whatif/2\"")
    );
    assert_eq!(
        refused(json!([])),
        format!("{head}it does not say that it is \"linemate.whatif/2\"")
    );
    let mut incomplete = whatif(1.0, 2.0);
    incomplete["results"][0]
        .as_object_mut()
        .unwrap()
        .remove("sizes");
    assert_eq!(refused(incomplete), format!("{head}missing field `sizes`"));
    let mut empty = whatif(1.0, 2.0);
    empty["results"] = json!([]);
    assert_eq!(refused(empty), format!("{head}it holds no result"));
}
