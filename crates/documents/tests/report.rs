//! Reports on synthetic recordings.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod made;

use linemate_answers::{By, LedgerGroup};
use linemate_attribution::{Analysis, Group};
use linemate_documents::{UnknownType, report_document};
use linemate_recording::AccessKind;
use linemate_testkit::world::*;
use made::{options, value};
use serde_json::Value;

/// What rows can be, types first, and the documents' keys for them.
const VIEWS: [(By, &str); 6] = [
    (By::Type, "types"),
    (By::Field, "fields"),
    (By::Line, "lines"),
    (By::Function, "functions"),
    (By::Source, "sources"),
    (By::Cpu, "cpus"),
];

#[test]
fn a_type_shows_fields_lines_and_groups() {
    let report = value(&World::queues(), &options(By::Type, Some("rq")));
    assert_eq!(report["schema"], "linemate.report/2");
    assert_eq!(report["ledger"]["total"], 240);
    assert_eq!(report["ledger"]["recorded"], 240);
    assert_eq!(report["inputs"]["recording"]["seed"], "42");
    let fields: Vec<_> = report["type"]["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(row)
        .collect();
    assert_eq!(
        fields,
        [
            ("nr_running".to_owned(), 40, 40, 0, Some(0.5), 2, 2),
            ("curr".to_owned(), 40, 0, 0, Some(1.0), 2, 0),
            ("clock".to_owned(), 0, 40, 0, Some(0.0), 0, 2),
            ("lock".to_owned(), 0, 40, 40, Some(0.0), 2, 2),
        ]
    );
    assert_eq!(
        report["type"]["fields"][0]["functions"][0]["name"],
        "update_entity"
    );
    let lines: Vec<_> = report["type"]["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|l| l["accesses"].as_u64())
        .collect();
    assert_eq!(lines, [Some(120), Some(120)]);
    let groups: Vec<_> = report["type"]["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(group)
        .collect();
    assert_eq!(
        groups,
        [
            (
                "read by others".to_owned(),
                "nr_running curr".to_owned(),
                Some(2.0)
            ),
            ("atomic".to_owned(), "lock".to_owned(), Some(0.5)),
            ("own".to_owned(), "clock".to_owned(), Some(0.0)),
        ]
    );
    assert_eq!(report["type"]["places"][0]["owner"], "per-CPU runqueues");
}

#[test]
fn a_type_shows_when_and_by_whom_it_is_accessed() {
    let report = value(&World::queues(), &options(By::Type, Some("rq")));
    let times = &report["type"]["times"];
    let numbers = |row: &Value| -> Vec<u64> {
        let list = row.as_array().unwrap().iter();
        list.map(|n| n.as_u64().unwrap()).collect()
    };
    let rows = |of: &Value| -> Vec<Vec<u64>> {
        let list = of["accesses"].as_array().unwrap().iter();
        list.map(numbers).collect()
    };
    let bins = times["bins"].as_u64().unwrap() as usize;
    let [fields, lines] = ["fields", "lines"].map(|name| times[name].as_array().unwrap());
    for (kind, list) in [("fields", fields), ("lines", lines)] {
        let known = report["type"][kind].as_array().unwrap();
        assert_eq!(list.len(), known.len());
        for (timed, row) in list.iter().zip(known) {
            let sum: u64 = rows(timed).iter().flatten().sum();
            assert_eq!(Some(sum), row["accesses"].as_u64(), "{row}");
            assert!(rows(timed).iter().all(|r| r.len() <= bins), "{timed}");
        }
    }
    // The CPUs take turns, each turn 3,000 instructions: a part of the time is one CPU's, or two of
    // them share it at a turn.
    assert_eq!(fields[0]["field"], "nr_running");
    let clock = &rows(&fields[2]);
    assert_eq!((clock.len(), bins > 40), (2, true));
    for (a, b) in clock[0].iter().zip(&clock[1]) {
        assert!(a + b <= 2, "{clock:?}");
    }
    assert!(clock.iter().any(|row| row.len() + 2 >= bins), "{clock:?}");
    let sums: Vec<u64> = clock.iter().map(|row| row.iter().sum()).collect();
    assert_eq!(sums, [20, 20]);
}

#[allow(clippy::type_complexity, reason = "a row of the table")]
fn row(f: &Value) -> (String, u64, u64, u64, Option<f64>, u64, u64) {
    let n = |name: &str| f[name].as_u64().unwrap();
    let field = f["field"].as_str().unwrap().to_owned();
    (
        field,
        n("loads"),
        n("stores"),
        n("rmws"),
        f["remote_share"].as_f64(),
        n("readers"),
        n("writers"),
    )
}

fn group(g: &Value) -> (String, String, Option<f64>) {
    let fields: Vec<_> = g["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f.as_str().unwrap())
        .collect();
    (
        g["class"].as_str().unwrap().to_owned(),
        fields.join(" "),
        g["loads_per_store"].as_f64(),
    )
}

#[test]
fn embedded_objects_are_distinguished_from_objects_of_their_own() {
    let mut w = World::new();
    w.sight(F::WakeTask, TASK_SLAB);
    w.sight(F::UpdateEntity, KMALLOC_SLAB);
    w.store(0, TASK_SLAB + 64 + 40);
    w.store(0, KMALLOC_SLAB + 40);
    w.store(0, KMALLOC_SLAB);
    let report = value(&w.record(), &options(By::Type, Some("struct entity")));
    let places = report["type"]["places"].as_array().unwrap();
    let owners: Vec<_> = places
        .iter()
        .map(|p| (p["owner"].as_str().unwrap(), p["accesses"].as_u64()))
        .collect();
    assert_eq!(owners, [("heap", Some(2)), ("task.se", Some(1))]);
    assert_eq!(report["type"]["fields"][1]["field"], "on_rq");
    assert_eq!(report["type"]["fields"][1]["accesses"], 2);
}

#[test]
fn every_view_adds_up_and_is_the_same_each_time() {
    let recording = World::queues();
    for (by, name) in VIEWS {
        let report = value(&recording, &options(by, None));
        let rows = report[name].as_array().unwrap();
        let sum: u64 = rows.iter().map(|r| r["accesses"].as_u64().unwrap()).sum();
        assert_eq!(sum, 240, "{name}");
        assert_eq!(report, value(&recording, &options(by, None)));
    }
}

#[test]
fn rows_of_one_type_are_all_of_its_accesses() {
    let recording = World::queues();
    for &(by, name) in &VIEWS[1..] {
        let sum = |report: &Value, figure: &str| -> u64 {
            let rows = report[name].as_array().unwrap().iter();
            rows.map(|row| row[figure].as_u64().unwrap()).sum()
        };
        // Everything that is accessed is an `rq`.
        let all = value(&recording, &options(by, None));
        let one = value(&recording, &options(by, Some("rq")));
        for figure in ["accesses", "loads", "stores", "rmws"] {
            assert_eq!(sum(&one, figure), sum(&all, figure), "{name} {figure}");
        }
        assert_eq!(
            one[name].as_array().unwrap().len(),
            all[name].as_array().unwrap().len()
        );
        let other = value(&recording, &options(by, Some("task")));
        assert_eq!(sum(&other, "accesses"), 0, "{name}");
    }
    let functions = value(&recording, &options(By::Function, Some("rq")));
    let wakes = functions["functions"].as_array().unwrap();
    let wakes = wakes.iter().find(|row| row["name"] == "wake_task").unwrap();
    let fields: Vec<&str> = wakes["types"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        fields,
        ["curr", "nr_running"],
        "a type's functions tell its fields"
    );
}

#[test]
fn rows_of_a_type_inside_another_are_its_own() {
    let mut w = World::new();
    w.sight(F::WakeTask, TASK_SLAB);
    w.sight(F::UpdateEntity, KMALLOC_SLAB);
    w.store(0, TASK_SLAB + 64 + 40);
    w.store(0, TASK_SLAB);
    w.store(0, KMALLOC_SLAB + 40);
    let recording = w.record();
    let report = value(&recording, &options(By::Field, Some("entity")));
    let rows = report["fields"].as_array().unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (&rows[0]["type_name"], &rows[0]["field"]),
        (&"entity".into(), &"on_rq".into())
    );
    assert_eq!(
        (&rows[0]["offset"], &rows[0]["accesses"]),
        (&40.into(), &2.into())
    );
    let report = value(&recording, &options(By::Cpu, Some("entity")));
    assert_eq!(report["cpus"][0]["stores"], 2);
}

#[test]
fn what_the_compiler_split_off_belongs_to_its_function() {
    let mut w = World::new();
    w.access(0, AccessKind::Store, UNITS[0] + RQ, 4, F::UpdateRq, false);
    w.access_at(
        0,
        AccessKind::Load,
        UNITS[0] + RQ,
        4,
        split_off(F::UpdateRq),
        false,
    );
    let recording = w.record();
    let report = value(&recording, &options(By::Function, None));
    let rows = report["functions"].as_array().unwrap();
    let row = |r: &Value| {
        (
            r["name"].as_str().unwrap().to_owned(),
            r["accesses"].as_u64(),
        )
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    assert_eq!(rows, [("update_rq".to_owned(), Some(2))]);
}

#[test]
fn kernel_code_has_no_lines_and_goes_by_function() {
    let recording = World::queues();
    let rows = |by: By, name: &str| -> Vec<(Value, Value, Value)> {
        let report = value(&recording, &options(by, None));
        let rows = report[name].as_array().unwrap().iter();
        let row = |r: &Value| (r["name"].clone(), r["accesses"].clone(), r["types"].clone());
        rows.map(row).collect()
    };
    assert_eq!(rows(By::Source, "sources"), rows(By::Function, "functions"));
    let report = value(&recording, &options(By::Source, None));
    let row = &report["sources"][0];
    assert_eq!(
        (&row["file"], &row["line"], &row["functions"][0]),
        (&Value::Null, &Value::Null, &row["name"])
    );
}

#[test]
fn an_unknown_type_offers_names() {
    let recording = World::queues();
    let analysis = Analysis::new(&recording).unwrap();
    let counted = analysis.count().unwrap();
    let error =
        report_document(&analysis, &counted, &options(By::Type, Some("struct tsk"))).unwrap_err();
    let UnknownType { name, nearest, .. } = &error;
    assert_eq!((name.as_str(), nearest[0].as_str()), ("tsk", "task"));
    assert!(error.to_string().contains("task"));
    assert!(
        report_document(&analysis, &counted, &options(By::Type, Some("nohz"))).is_ok(),
        "a variable's name will do"
    );
}

#[test]
fn what_each_cpu_has_an_object_of_is_not_shared() {
    let mut w = World::new();
    w.sight(F::WakeTask, TASK_SLAB);
    w.sight(F::WakeTask, TASK_SLAB + 256);
    w.sight(F::UpdateEntity, KMALLOC_SLAB);
    for object in [TASK_SLAB, TASK_SLAB + 256] {
        // CPU 0 sets each up.
        w.store(0, object);
    }
    for _ in 0..50 {
        w.store(0, TASK_SLAB);
        w.store(1, TASK_SLAB + 256);
        // One object that both write, and the neighbours that they have in it.
        w.store(0, KMALLOC_SLAB);
        w.store(1, KMALLOC_SLAB);
        w.store(0, KMALLOC_SLAB + 16);
        w.store(1, KMALLOC_SLAB + 24);
    }
    let recording = w.record();
    let report = value(&recording, &options(By::Type, None));
    let of = |name: &str| -> Value {
        let mut rows = report["types"].as_array().unwrap().iter();
        rows.find(|row| row["name"] == name).unwrap().clone()
    };
    let (task, entity) = (of("task"), of("entity"));
    assert_eq!(
        (&task["accesses"], &task["shared"]),
        (&102.into(), &1.into())
    );
    assert_eq!((&task["readers"], &task["writers"]), (&0.into(), &2.into()));
    assert_eq!(
        (&entity["accesses"], &entity["shared"]),
        (&200.into(), &99.into())
    );
    assert_eq!(
        (&task["objects"], &entity["objects"]),
        (&2.into(), &1.into())
    );
    let classes = |name: &str| -> Vec<(String, String)> {
        let report = value(&recording, &options(By::Type, Some(name)));
        let groups = report["type"]["groups"].as_array().unwrap().iter();
        groups
            .map(group)
            .map(|(class, fields, _)| (class, fields))
            .collect()
    };
    let entity = classes("entity");
    assert!(
        entity.contains(&("shared".to_owned(), "load".to_owned())),
        "{entity:?}"
    );
    let others = entity.iter().filter(|(_, fields)| fields != "load");
    assert!(
        others.map(|(class, _)| class).all(|class| class == "own"),
        "{entity:?}"
    );
}

#[test]
fn objects_from_before_the_recording_are_counted_when_accessed() {
    let recording = World::queues();
    let mut w = World::new();
    w.store(0, TASK_SLAB);
    w.sight(F::WakeTask, TASK_SLAB);
    let before = w.record();
    for recording in [recording, before] {
        let report = value(&recording, &options(By::Type, None));
        for row in report["types"].as_array().unwrap() {
            assert_ne!(row["objects"], 0, "{row}");
        }
    }
}

#[test]
fn a_pages_struct_has_fields() {
    let mut w = World::new();
    w.load(0, PAGES + 64);
    w.load(1, PAGES + 128 + 8);
    let recording = w.record();
    let report = value(&recording, &options(By::Type, Some("page")));
    assert_eq!(report["type"]["figures"]["accesses"], 2);
    let paging = report["ledger"]["groups"].as_array().unwrap().iter();
    let mut paging = paging.filter(|group| group["name"] == "page table or struct page");
    assert_eq!(
        paging.next().unwrap()["accesses"],
        2,
        "the ledger has the same"
    );
    let places = report["type"]["places"].as_array().unwrap();
    assert_eq!(places[0]["owner"], "array of struct page");
    let fields = report["type"]["fields"].as_array().unwrap().iter();
    let offsets: Vec<u64> = fields.map(|f| f["offset"].as_u64().unwrap()).collect();
    assert_eq!(offsets, [0, 8]);
}

#[test]
fn the_sections_that_tables_pick_are_called_as_the_ledger_calls_them() {
    let picked = [
        LedgerGroup::HEAP,
        LedgerGroup::CONTENTS,
        LedgerGroup::ALLOCATOR,
        LedgerGroup::UNKNOWN,
        LedgerGroup::UNNAMED,
    ];
    let groups = [
        Group::Heap,
        Group::Contents,
        Group::Allocator,
        Group::Unknown,
        Group::Unnamed,
    ];
    assert_eq!(picked, groups.map(Group::name));
}
