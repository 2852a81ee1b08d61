//! Classes of the standard libraries that are one number: `std::atomic<int>`, Rust's `AtomicU64`.
//!
//! As structs, all of them in a program would be one row, with advice to change a class of the
//! library. As numbers, each is its variable, its place of allocation, or a member of what it is
//! in.

use std::borrow::Cow;

use linemate_types::{FlatType, Type, TypeId, TypeModel};

/// How the names begin: libstdc++ and libc++, and Rust's.
const NUMBERS: [&str; 7] = [
    "std::atomic<",
    "std::__atomic_base<",
    "std::atomic_flag",
    "std::__atomic_flag_base",
    "std::__1::atomic<",
    "std::__1::__atomic_base<",
    "core::sync::atomic::Atomic",
];

/// A base that has the number, and the class that programs declare.
const BASES: [(&str, &str); 3] = [
    ("std::__atomic_base<", "std::atomic<"),
    ("std::__atomic_flag_base", "std::atomic_flag"),
    ("std::__1::__atomic_base<", "std::__1::atomic<"),
];

/// The name of a number's type, if `id` is one: a scalar, or an atomic one.
pub(super) fn number(model: &TypeModel, id: TypeId) -> Option<String> {
    match model.is_scalar(id) {
        true => Some(model.type_name(id)),
        false => atomic(model, id).map(Cow::into_owned),
    }
}

/// The name of an atomic number's class, without typedefs and qualifiers; `None` for everything
/// else, such as an atomic pair.
pub(super) fn atomic(model: &TypeModel, id: TypeId) -> Option<Cow<'_, str>> {
    let id = model.strip(id);
    let Some(Type::Composite(class)) = model.get(id) else {
        return None;
    };
    let name = class.name.as_str();
    if !NUMBERS.iter().any(|start| name.starts_with(start)) {
        return None;
    }
    let flat = FlatType::new(model, id).ok()?;
    let [leaf] = flat.leaves() else { return None };
    if !leaf.arrays.is_empty() {
        return None;
    }
    let of_base = BASES.iter().find_map(|(base, class)| {
        let rest = name.strip_prefix(base)?;
        Some(format!("{class}{rest}"))
    });
    Some(of_base.map_or(Cow::Borrowed(name), Cow::Owned))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use linemate_testkit::btf_writer::{TypeList, member};

    use super::*;

    #[test]
    fn an_atomic_number_is_a_number_and_an_atomic_pair_is_not() {
        let mut t = TypeList::default();
        let long = t.int("long", 8);
        let base = t.structure("std::__atomic_base<long>", 8, &[member("_M_i", long, 0)]);
        t.structure("std::atomic<long>", 8, &[member("", base, 0)]);
        let cell = t.structure(
            "core::cell::UnsafeCell<u64>",
            8,
            &[member("value", long, 0)],
        );
        t.structure("core::sync::atomic::AtomicU64", 8, &[member("v", cell, 0)]);
        let pair = t.structure("pair", 16, &[member("a", long, 0), member("b", long, 8)]);
        t.structure("std::atomic<pair>", 16, &[member("_M_i", pair, 0)]);
        let rows = t.array(long, 2);
        t.structure("std::atomic<rows>", 16, &[member("_M_i", rows, 0)]);
        t.structure("stats", 8, &[member("hits", long, 0)]);
        let model = TypeModel::new(t.types, 8).unwrap();
        let number = |name: &str| number(&model, model.lookup(name).unwrap());
        let same = |name: &str| assert_eq!(number(name).as_deref(), Some(name));
        same("std::atomic<long>");
        same("core::sync::atomic::AtomicU64");
        assert_eq!(
            number("std::__atomic_base<long>").as_deref(),
            Some("std::atomic<long>")
        );
        assert_eq!(super::number(&model, long).as_deref(), Some("long"));
        for other in ["std::atomic<pair>", "std::atomic<rows>", "stats", "pair"] {
            assert_eq!(number(other), None, "{other}");
        }
    }
}
