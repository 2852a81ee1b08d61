//! One quantity, one figure: in every table, verb and form.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;

use linemate_advise::survey::survey;
use linemate_answers::{By, Cost, Costs, Report, TypeRow, TypeView, View};
use linemate_documents::{ReportOptions, costs_document, report_document};
use linemate_experiment::{Conditions, Seed};
use linemate_layout::{EditSubject, parse_flags};
use linemate_machine::{Machine, find};
use linemate_recording::Recording;
use linemate_report::{CostsTables, ReportText, costs_text, text};
use linemate_session::Session;
use linemate_study::costs::{CostRun, costs_of};
use linemate_study::diff::{On, fields};
use linemate_study::{Run, Study};
use linemate_testkit::world::*;
use linemate_types::LineSize;

/// Tasks in a cache with their type's name, one of unknown type; an entity of its own next to those
/// inside tasks; a `rq` of each CPU.
fn recording() -> Recording {
    let mut w = World::of(Variant {
        merged_caches: true,
        ..Variant::default()
    });
    let unknown = TASK_SLAB + 256;
    w.sight(F::WakeTask, TASK_SLAB);
    w.sight(F::UpdateEntity, KMALLOC_SLAB);
    for round in 0..100 {
        for cpu in [0, 1] {
            w.store(cpu, TASK_SLAB + 64);
            w.load(cpu, TASK_SLAB + 104);
            w.load(cpu, TASK_SLAB + 200);
            w.store(cpu, unknown + 200);
            w.rmw(cpu, KMALLOC_SLAB);
            w.load(cpu, KMALLOC_SLAB + 40);
            w.rmw(cpu, UNITS[round % 2] + RQ + 72);
            w.load(cpu, NOHZ);
            w.store(cpu, COUNTER);
        }
    }
    w.record()
}

fn machine() -> Machine {
    find("gnr-2s-480").unwrap()
}

fn report(session: &Session<'_>, by: By, type_name: Option<&str>) -> Report {
    let options = ReportOptions {
        by,
        type_name: type_name.map(str::to_owned),
        all: true,
        top: usize::MAX,
        line: LineSize::B64,
    };
    report_document(session.analysis(), session.counted(), &options).unwrap()
}

fn rows(session: &Session<'_>) -> Vec<TypeRow> {
    match report(session, By::Type, None).view {
        View::Types(rows) => rows,
        other => panic!("{other:?}"),
    }
}

fn view(session: &Session<'_>, name: &str) -> TypeView {
    match report(session, By::Type, Some(name)).view {
        View::Type(view) => *view,
        other => panic!("{other:?}"),
    }
}

fn on<'m>(machine: &'m Machine) -> CostRun<'m> {
    CostRun {
        machine,
        conditions: Conditions::default(),
        seed: Seed(1),
        sources: false,
    }
}

/// What everything costs, then each type that a recording has objects of, or inside objects of
/// others.
fn costs(session: &Session<'_>) -> (Costs, BTreeMap<&'static str, Costs>) {
    let names = ["task", "entity", "rq"];
    let subjects = names.map(|name| EditSubject::Named(name.to_owned()));
    let wanted: Vec<Option<&EditSubject>> = std::iter::once(None)
        .chain(subjects.iter().map(Some))
        .collect();
    let mut found = costs_of(session, &wanted, on(&machine()))
        .unwrap()
        .into_iter();
    let whole = found.next().unwrap();
    (whole, names.into_iter().zip(found).collect())
}

fn row<'r>(rows: &'r [Cost], name: &str) -> &'r Cost {
    let found: Vec<&Cost> = rows.iter().filter(|row| row.name == name).collect();
    assert_eq!(found.len(), 1, "{name}: {rows:?}");
    found[0]
}

fn accesses(row: &Cost) -> u64 {
    row.loads + row.stores
}

#[test]
fn a_row_of_types_is_the_outermost_one_in_every_table() {
    let recording = recording();
    let session = Session::new(&recording).unwrap();
    let (whole, of_types) = costs(&session);
    let rows = rows(&session);
    for (name, narrowed) in &of_types {
        let found: Vec<&TypeRow> = rows.iter().filter(|row| row.name == *name).collect();
        let [counted] = found[..] else {
            panic!("{name}: {rows:?}")
        };
        let cost = row(&whole.types, name);
        assert_eq!(counted.figures.accesses, accesses(cost), "{name}");
        // Of the type alone: its own objects are the row, with those inside others it is its
        // fields.
        assert_eq!(row(&narrowed.places, name), cost);
        let all = Cost::sum(name, &narrowed.places);
        assert_eq!(Cost::sum(name, &narrowed.fields), all);
        assert_eq!(narrowed.potential.cost, all.cycles as f64);
        assert_eq!(narrowed.types, whole.types);
        let lines = narrowed.lines.iter();
        assert!(lines.clone().all(|line| line.name == *name));
        assert_eq!(lines.map(|line| line.cycles).sum::<u64>(), all.cycles);
        let view = view(&session, name);
        assert_eq!(view.figures.accesses, accesses(&all), "{name}");
        let own = view.places.iter().filter(|place| place.inside.is_none());
        let own: u64 = own.map(|place| place.figures.accesses).sum();
        assert_eq!(own, counted.figures.accesses, "{name}");
    }
    let (entity, task) = (&of_types["entity"], &of_types["task"]);
    assert_eq!(accesses(row(&entity.places, "task.se")), 400);
    assert_eq!(accesses(row(&entity.places, "entity")), 400);
    assert_eq!(task.places.len(), 1);
    assert_eq!(accesses(row(&whole.types, "task")), 600);
    // Two CPUs' queues are one row.
    assert_eq!(accesses(row(&whole.types, "rq")), 200);
}

#[test]
fn memory_of_a_cache_is_not_the_type_of_its_name() {
    let recording = recording();
    let session = Session::new(&recording).unwrap();
    let (whole, _) = costs(&session);
    let untyped = row(&whole.types, "slab(task)");
    assert_eq!(accesses(untyped), 200);
    assert!(untyped.cycles > 0);
    let rows = rows(&session);
    let slab = rows.iter().find(|row| row.name == "slab(task)").unwrap();
    assert_eq!((slab.figures.accesses, slab.size), (200, None));
}

#[test]
fn a_ranking_has_the_costs_of_the_report() {
    let recording = recording();
    let session = Session::new(&recording).unwrap();
    let (whole, _) = costs(&session);
    let ranking = survey(&[&session], &[machine()], Conditions::default(), Seed(1), 0).unwrap();
    let names: Vec<&str> = ranking.iter().map(|row| row.name.as_str()).collect();
    assert!(
        names.contains(&"task") && names.contains(&"entity"),
        "{names:?}"
    );
    for ranked in &ranking {
        let cost = row(&whole.types, &ranked.name);
        assert_eq!(ranked.cost, cost.cycles as f64, "{}", ranked.name);
        let share = cost.cycles as f64 / whole.whole.cycles as f64;
        assert_eq!(ranked.share, share, "{}", ranked.name);
    }
}

#[test]
fn a_difference_and_a_what_if_are_of_the_type_wherever_it_is() {
    let recording = recording();
    let session = Session::new(&recording).unwrap();
    let (_, of_types) = costs(&session);
    let narrowed = &of_types["entity"];
    let machine = machine();
    let on = On {
        machine: &machine,
        seed: Seed(1),
        conditions: Conditions::default(),
        under: None,
    };
    let subject = EditSubject::Named("entity".to_owned());
    let side = fields(&session, Some(&subject), Some(on), None).unwrap();
    assert_eq!(side.fields.len(), narrowed.fields.len());
    for (path, figures) in &side.fields {
        let cost = row(&narrowed.fields, &format!("entity.{path}"));
        let same = (cost.loads, cost.stores, cost.misses, cost.cycles);
        assert_eq!(
            (
                figures.loads,
                figures.stores,
                figures.misses,
                figures.cycles
            ),
            same
        );
    }
    let edits = parse_flags(subject, &["isolate on_rq".to_owned()]).unwrap();
    let images = BTreeMap::new();
    let study = Study::new(&session, &edits, &images, &[]).unwrap();
    let found = study.run(&Run {
        machine,
        conditions: Conditions::default(),
        seed: Seed(1),
        interleavings: 8,
        all_interleavings: false,
        ablate: false,
    });
    let all = Cost::sum("entity", &narrowed.places);
    assert_eq!(found.unwrap().types_accesses, accesses(&all));
}

#[test]
fn a_function_has_as_many_accesses_with_and_without_a_machine() {
    let recording = recording();
    let session = Session::new(&recording).unwrap();
    let (whole, _) = costs(&session);
    let View::Functions(counted) = report(&session, By::Function, None).view else {
        panic!("no functions")
    };
    assert_eq!(counted.len(), whole.functions.len());
    for function in &counted {
        let cost = row(&whole.functions, &function.name);
        let (loads, stores) = (function.figures.loads, function.figures.stores);
        assert_eq!(
            (cost.loads, cost.stores),
            (loads, stores + function.figures.rmws)
        );
    }
}

#[test]
fn the_texts_show_the_documents_figures() {
    let recording = recording();
    let session = Session::new(&recording).unwrap();
    let (_, of_types) = costs(&session);
    let narrowed = of_types["entity"].clone();
    let all = Cost::sum("entity", &narrowed.places);
    let inside = row(&narrowed.places, "task.se").clone();
    let document = costs_document("1.2.3", &recording, &machine(), Some("entity"), narrowed);
    let shown = costs_text(
        &document,
        &CostsTables {
            path: "r.data",
            by: By::Type,
            top: 20,
            user: true,
            all: true,
            ledger: false,
        },
    );
    let (shown, own) = (shown.to_string(), all.cycles - inside.cycles);
    let first = format!("entity on gnr-2s-480: {} cycles, ", all.cycles);
    assert!(shown.starts_with(&first), "{shown}");
    let parts = format!(
        ", {own} of them in objects of its own, {} in task.se.\n",
        inside.cycles
    );
    assert!(
        shown.lines().next().unwrap().ends_with(parts.trim_end()),
        "{shown}"
    );
    assert!(
        shown.contains(", 1 interleaving (seed 1); cycles"),
        "{shown}"
    );
    assert!(inside.cycles > 0 && own > 0);
    let accesses = text(
        &report(&session, By::Type, Some("entity")),
        &ReportText {
            top: 20,
            ledger: false,
            line_bytes: 64,
        },
    );
    let head = "struct entity: 64 bytes, 1 line of 64 bytes, 800 accesses, 400 of them in objects of its own, 400 in task.se\n";
    assert!(accesses.to_string().contains(head), "{accesses}");
}
