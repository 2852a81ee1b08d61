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

/// A derived class has members in the last bytes of its base, which is there as a shorter type of
/// the same name and members.
#[test]
fn an_edit_of_a_base_is_one_of_its_shorter_copies() {
    let mut t = TypeList::default();
    let (u64_, u32_) = (
        t.unsigned("unsigned long", 8),
        t.unsigned("unsigned int", 4),
    );
    let members = [member("vptr", u64_, 0), member("refs", u32_, 8)];
    t.structure("Material", 16, &members);
    let part = t.structure("Material", 12, &members);
    let members = [member("", part, 0), member("ior", u32_, 12)];
    let glass = t.structure("Glass", 16, &members);
    for (index, ty) in t.types.iter_mut().enumerate() {
        if let Type::Composite(class) = ty {
            class.language = Some(Language::Cpp);
            class.is_part = index == part.0 as usize;
        }
    }
    let model = TypeModel::new(t.types, 8).unwrap();
    let places = |text: &str| {
        let file = parse(&format!("type Material\n{text}")).unwrap();
        let mut plan = Plan::new(&model, LineSize::B64, &file, &BTreeMap::new()).unwrap();
        let layout = plan.layouts.of(glass).unwrap();
        let offsets: Vec<u64> = layout.offsets.iter().flatten().map(|at| at.0 / 8).collect();
        (offsets, layout.size.0)
    };
    assert_eq!(places("move refs last"), (vec![0, 12], 16));
    assert_eq!(places("move refs first"), (vec![0, 16], 24));
    // As g++ 12 has it, and with a last member in the base that fills its line.
    assert_eq!(places("align refs 16"), (vec![0, 20], 32));
    assert_eq!(places("isolate refs"), (vec![0, 128], 192));
    // Nothing in the base moves, what follows does.
    assert_eq!(places("pad refs to 16"), (vec![0, 24], 32));
}

#[test]
fn a_class_of_the_same_name_with_other_members_is_not_a_copy() {
    let mut t = TypeList::default();
    let u64_ = t.unsigned("unsigned long", 8);
    t.structure("Tag", 8, &[member("id", u64_, 0)]);
    // Of another file: a base without members, and without room in the derived class.
    let empty = t.structure("Tag", 0, &[]);
    for (index, ty) in t.types.iter_mut().enumerate() {
        if let Type::Composite(class) = ty {
            class.language = Some(Language::Cpp);
            class.is_part = index == empty.0 as usize;
        }
    }
    let model = TypeModel::new(t.types, 8).unwrap();
    let file = parse("type Tag\npad after id 8").unwrap();
    let plan = Plan::new(&model, LineSize::B64, &file, &BTreeMap::new()).unwrap();
    assert_eq!(plan.types[0].1.len(), 1);
}
