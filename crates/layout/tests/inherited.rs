//! Edits of members that classes of C++ inherit.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use linemate_layout::{Plan, parse};
use linemate_testkit::btf_writer::{TypeList, member};
use linemate_types::{Language, LineSize, Type, TypeModel};

#[test]
fn members_of_a_base_class_are_edited_there() {
    let mut t = TypeList::default();
    let u64_ = t.unsigned("unsigned long", 8);
    let members = [member("hits", u64_, 0), member("limit", u64_, 8)];
    let stats = t.structure("Stats", 16, &members);
    let members = [member("", stats, 0), member("port", u64_, 16)];
    let middle = t.structure("Middle", 24, &members);
    let members = [
        member("", middle, 0),
        member("conns", u64_, 24),
        member("idle", u64_, 32),
    ];
    t.structure("Server", 40, &members);
    let plan = |types: &[Type], text: &str| {
        let model = TypeModel::new(types.to_vec(), 8).unwrap();
        let file = parse(&format!("type Server\n{text}")).unwrap();
        let plan = Plan::new(&model, LineSize::B64, &file, &BTreeMap::new());
        plan.map(|_| ()).map_err(|why| why.to_string())
    };
    // In C a member of a struct without a name is the struct as a whole.
    assert_eq!(plan(&t.types, "isolate hits"), Ok(()));
    for ty in &mut t.types {
        if let Type::Composite(class) = ty {
            class.language = Some(Language::Cpp);
        }
    }
    let inherited = |field: &str, base: &str| {
        Err(format!(
            "2:1: Server: `{field}` is inherited from `{base}`: edit that class, under `type {base}`"
        ))
    };
    for (text, expected) in [
        ("isolate hits", inherited("hits", "Stats")),
        ("align port line", inherited("port", "Middle")),
        ("isolate idle limit", inherited("limit", "Stats")),
        ("isolate conns", Ok(())),
        ("move idle after port", Ok(())),
    ] {
        assert_eq!(plan(&t.types, text), expected, "{text}");
    }
}

#[test]
fn an_empty_base_class_takes_no_room() {
    let mut t = TypeList::default();
    let u64_ = t.unsigned("unsigned long", 8);
    let stats = t.structure("Stats", 8, &[member("hits", u64_, 0)]);
    let empty = t.structure("Empty", 0, &[]);
    let members = [
        member("", stats, 0),
        // Declared later, at the same offset.
        member("", empty, 0),
        member("port", u64_, 8),
    ];
    t.structure("Server", 16, &members);
    let model = TypeModel::new(t.types, 8).unwrap();
    let file = parse("type Server\nisolate port").unwrap();
    let plan = Plan::new(&model, LineSize::B64, &file, &BTreeMap::new());
    assert!(plan.is_ok(), "{:?}", plan.err());
}
