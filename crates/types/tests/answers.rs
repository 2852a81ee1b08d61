//! What a type model answers about made-up types: names like a misspelt one, the pointers inside a type.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use linemate_testkit::btf_writer::{Endian, TypeList, member, write};
use linemate_types::{TypeModel, btf};

#[test]
fn misspelt_names_find_their_neighbours() {
    let mut list = TypeList::default();
    for name in ["task_struct", "task_group", "root_domain", "rq", "rb", ""] {
        list.structure(name, 0, &[]);
    }
    let model = TypeModel::new(list.types, 8).unwrap();
    assert_eq!(model.nearest_names("task_strcut"), ["task_struct"]);
    assert_eq!(model.nearest_names("struct tsk_group"), ["task_group"]);
    assert_eq!(model.nearest_names("rr"), ["rb", "rq"]);
    assert!(model.nearest_names("").is_empty());
}

#[test]
fn pointers_of_a_struct_its_structs_and_its_arrays() {
    let mut t = TypeList::default();
    let long = t.unsigned("long unsigned int", 8);
    let inner = t.structure("inner", 8, &[member("x", long, 0)]);
    let pointer = t.pointer(inner);
    let number = t.pointer(long);
    let pair = t.structure("pair", 16, &[member("n", long, 0), member("p", pointer, 8)]);
    let pairs = t.array(pair, 2);
    let either = t.union(
        "either",
        8,
        &[member("a", long, 0), member("b", pointer, 0)],
    );
    let many = t.array(pointer, 0);
    let members = [
        member("number", number, 0),
        member("pointer", pointer, 8),
        member("pairs", pairs, 16),
        member("either", either, 48),
        member("many", many, 56),
    ];
    let outer = t.structure("outer", 56, &members);
    let model = btf::parse(&write(&t.types, Endian::Little).unwrap()).unwrap();
    let places = |flexible| -> Vec<u64> {
        let found = model.pointers_in(outer, flexible);
        assert!(found.iter().all(|(_, to)| *to == inner));
        found.iter().map(|(at, _)| at.0).collect()
    };
    assert_eq!(places(0), [8, 24, 40]);
    assert_eq!(places(2), [8, 24, 40, 56, 64]);
}
