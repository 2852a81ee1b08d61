//! Which type a name means, in a kernel and a program that have one of the same name.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod made;

use linemate_answers::By;
use linemate_attribution::naming::OtherType;
use linemate_attribution::{Analysis, named_type};
use linemate_testkit::world::*;
use made::{options, value};

#[test]
fn a_name_means_what_was_accessed_and_says_what_else_there_is() {
    let mut w = World::of(Variant {
        namesakes: true,
        ..Variant::default()
    });
    w.sight(F::WakeTask, TASK_SLAB);
    w.store(0, TASK_SLAB + 64 + 40);
    for _ in 0..3 {
        w.store(0, UNITS[0] + RQ);
    }
    let recording = w.record();
    let analysis = Analysis::new(&recording).unwrap();
    let counted = analysis.count().unwrap();
    let named = |name: &str| named_type(&analysis, &counted, name);
    let meant = |name: &str| named(name).map(|found| (found.name, found.accesses));
    let server = Some(("rq@server".to_owned(), 3));
    let entity = Some(("entity".to_owned(), 1));
    for name in [
        "rq",
        "struct rq",
        "rq@server",
        "runqueues",
        "per-CPU runqueues",
    ] {
        assert_eq!(meant(name), server, "{name}");
    }
    for name in ["entity", "entity_t", "task.se"] {
        assert_eq!(meant(name), entity, "{name}");
    }
    for name in ["union rq", "rq@client", "task.state", "task.", ".se", ""] {
        assert_eq!(meant(name), None, "{name:?}");
    }
    let others = |name: &str| named(name).unwrap().others;
    let other = OtherType {
        name: "rq".to_owned(),
        accesses: 0,
    };
    assert_eq!(others("rq"), [other]);
    assert_eq!(
        others("rq@server"),
        [],
        "there is nothing else of that name"
    );
    let report = value(&recording, &options(By::Type, Some("rq")));
    assert_eq!(report["type"]["name"], "rq@server");
    assert_eq!(report["type"]["figures"]["accesses"], 3);
}

#[test]
fn every_name_that_is_printed_is_accepted() {
    let mut w = World::of(Variant {
        namesakes: true,
        ..Variant::default()
    });
    w.sight(F::WakeTask, TASK_SLAB);
    w.store(0, TASK_SLAB + 64 + 40);
    w.store(0, UNITS[0] + RQ);
    w.store(0, NOHZ);
    let recording = w.record();
    let report = value(&recording, &options(By::Type, None));
    let rows = report["types"].as_array().unwrap().iter();
    let typed = rows.filter(|row| !row["size"].is_null());
    let names: Vec<String> = typed
        .map(|row| row["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    for name in names {
        let report = value(&recording, &options(By::Type, Some(&name)));
        assert_eq!(report["type"]["name"], *name);
    }
    let report = value(&recording, &options(By::Type, Some("entity")));
    let owner = report["type"]["places"][0]["owner"].as_str().unwrap();
    assert_eq!(owner, "task.se");
    let of_owner = value(&recording, &options(By::Type, Some(owner)));
    assert_eq!(of_owner["type"]["name"], "entity");
}
