//! Classes of the standard libraries around one object of a program: what `Arc` and
//! `std::make_shared` allocate, nodes of maps and lists. A program declares only what they hold, so
//! advice is about that.

use linemate_layout::edit::Alignment;
use linemate_layout::{Edit, EditSubject};
use linemate_types::{Language, TypeId, TypeModel};

use super::fields::{first_member, home, member_at, subject_of, types_on};

/// How the names of holders begin, and the path to what they hold.
const HOLDERS: [(&str, &str); 8] = [
    ("alloc::sync::ArcInner<", "data"),
    ("alloc::rc::RcBox<", "value"),
    ("alloc::rc::RcInner<", "value"),
    (
        "std::_Sp_counted_ptr_inplace<",
        "_M_impl._M_storage._M_storage",
    ),
    ("std::_Rb_tree_node<", "_M_storage._M_storage"),
    ("std::__detail::_Hash_node<", "_M_storage._M_storage"),
    ("std::_List_node<", "_M_storage._M_storage"),
    ("std::_Fwd_list_node<", "_M_storage._M_storage"),
];

/// How the names of the standard libraries' types begin, in C++ and in Rust. A program in C++ may
/// have a `core` of its own.
const CPP_LIBRARIES: [&str; 2] = ["std::", "__gnu_cxx::"];
const RUST_LIBRARIES: [&str; 4] = ["std::", "alloc::", "core::", "hashbrown::"];

/// What starts a line if the object in a holder does.
pub(crate) struct InHolder {
    /// What has to be aligned: a class of the program, or the holder where it holds none, such as
    /// an `Arc<AtomicU64>`.
    pub(crate) subject: EditSubject,
    /// Its first member, or the holder's that the object is in.
    pub(crate) member: String,
    /// What it is called in advice.
    pub(crate) name: String,
    /// Whether it is a class of the program.
    pub(crate) own: bool,
}

impl InHolder {
    /// The edits that put it on lines of its own.
    pub(crate) fn own_lines(&self) -> (EditSubject, Vec<Edit>) {
        let edit = Edit::Align {
            field: self.member.clone(),
            alignment: Alignment::Line,
        };
        (self.subject.clone(), vec![edit])
    }
}

/// Whether a type is a standard library's, which a program cannot change.
pub(crate) fn is_library(model: &TypeModel, id: TypeId) -> bool {
    let libraries: &[&str] = match model.composite(id).and_then(|composite| composite.language) {
        Some(Language::Cpp) => &CPP_LIBRARIES,
        Some(Language::Rust) => &RUST_LIBRARIES,
        Some(Language::C) | None => &[],
    };
    let name = model.composite_name(model.strip(id));
    libraries.iter().any(|start| name.starts_with(start))
}

/// What advice about a type is called: an object that a library's class holds comes first, because
/// it is what the program declares.
pub(crate) fn called(model: &TypeModel, id: TypeId, owner: &str) -> String {
    let class = owner.split('<').next().unwrap_or(owner);
    match held(model, id) {
        Some(InHolder {
            name, own: true, ..
        }) => format!("{name} in {class}"),
        _ => owner.to_owned(),
    }
}

/// The value of a map's node, which is a pair with its key.
fn of_pair(model: &TypeModel, id: TypeId) -> TypeId {
    let second = || member_at(model, id, "second").map(|second| model.strip(second));
    match model.composite_name(id).starts_with("std::pair<") {
        true => second()
            .filter(|id| model.composite(*id).is_some())
            .unwrap_or(id),
        false => id,
    }
}

/// What a holder holds; `None` for any other type.
pub(crate) fn held(model: &TypeModel, id: TypeId) -> Option<InHolder> {
    let id = model.strip(id);
    let holder = model.composite_name(id);
    let (_, path) = HOLDERS
        .iter()
        .find(|(start, _)| holder.starts_with(start))?;
    let inner = of_pair(model, types_on(model, id, path).last()?);
    // Not a path that ends early.
    home(model, id, path, 0)?;
    let name = match model.composite_name(inner) {
        "" => model.type_name(inner),
        name => name.to_owned(),
    };
    let own = || {
        Some(InHolder {
            subject: subject_of(model, inner)?,
            member: first_member(model, inner)?,
            name: name.clone(),
            own: true,
        })
    };
    match own().filter(|_| !is_library(model, inner)) {
        Some(own) => Some(own),
        None => {
            let place = home(model, id, path.split('.').next()?, 0)?;
            Some(InHolder {
                subject: place.subject,
                member: place.member,
                name,
                own: false,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use linemate_testkit::btf_writer::{TypeList, member};
    use linemate_types::Type;

    use super::*;

    #[test]
    fn what_is_aligned_is_the_programs_class_or_the_member_that_holds_a_number() {
        let mut t = TypeList::default();
        let long = t.int("long", 8);
        let members = [member("hits", long, 0), member("misses", long, 8)];
        let counts = t.structure("app::Counts", 16, &members);
        let atomic = t.structure("core::sync::atomic::AtomicU64", 8, &[member("v", long, 0)]);
        let mut arc = |name: &str, held, size: u32| {
            let strong = [member("strong", long, 0), member("weak", long, 8)];
            let data = [member("data", held, 16)];
            t.structure(name, 16 + size, &[&strong[..], &data].concat())
        };
        let of_class = arc("alloc::sync::ArcInner<app::Counts>", counts, 16);
        let number = "alloc::sync::ArcInner<core::sync::atomic::AtomicU64>";
        let of_number = arc(number, atomic, 8);
        let other = arc("app::ArcInner<app::Counts>", counts, 16);
        let members = [member("first", long, 0), member("second", counts, 8)];
        let pair = t.structure("std::pair<long const, app::Counts>", 24, &members);
        let storage = "__gnu_cxx::__aligned_membuf<std::pair<long const, app::Counts> >";
        let storage = t.structure(storage, 24, &[member("_M_storage", pair, 0)]);
        let node = "std::_Rb_tree_node<std::pair<long const, app::Counts> >";
        let node = t.structure(node, 56, &[member("_M_storage", storage, 32)]);
        // A holder of another version, without the path.
        let unknown = t.structure(
            "std::_List_node<app::Counts>",
            16,
            &[member("x", counts, 0)],
        );
        // A program in C++ that calls its own namespace so.
        let bus = t.structure("core::Bus", 8, &[member("sent", long, 0)]);
        for ty in &mut t.types {
            if let Type::Composite(class) = ty {
                let rust = ["alloc::", "core::sync::"];
                class.language = Some(match rust.iter().any(|of| class.name.starts_with(of)) {
                    true => Language::Rust,
                    false => Language::Cpp,
                });
            }
        }
        let model = TypeModel::new(t.types, 8).unwrap();
        assert!(is_library(&model, atomic) && is_library(&model, pair));
        assert!(!is_library(&model, bus) && !is_library(&model, counts));
        assert_eq!(
            called(&model, node, "std::_Rb_tree_node<x>"),
            "app::Counts in std::_Rb_tree_node"
        );
        assert_eq!(called(&model, of_number, number), number);
        let edit = |id| {
            let held = held(&model, id)?;
            let (EditSubject::Named(subject), edits) = held.own_lines() else {
                return None;
            };
            Some((subject, edits[0].to_string(), held.name))
        };
        let expected = |subject: &str, edit: &str, name: &str| {
            Some((subject.to_owned(), edit.to_owned(), name.to_owned()))
        };
        assert_eq!(
            edit(of_class),
            expected("app::Counts", "align hits line", "app::Counts")
        );
        assert_eq!(
            edit(node),
            expected("app::Counts", "align hits line", "app::Counts")
        );
        assert_eq!(
            edit(of_number),
            expected(number, "align data line", "core::sync::atomic::AtomicU64")
        );
        assert_eq!(edit(other), None);
        assert_eq!(edit(unknown), None);
    }
}
