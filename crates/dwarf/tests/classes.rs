//! C++ and Rust: sizes and offsets compared with what the compiled program prints about itself, and
//! for C++ also with pahole.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

mod common;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use std::process::Command;

use linemate_dwarf::{Companions, ProgramCode, ProgramFiles, ProgramTypes};
use linemate_types::{
    Composite, FlatType, Layout, LineSize, MemberRole, Type, TypeId, TypeModel, TypeQuery, pahole,
};

/// The offsets of all members of a type by name, including those of bases and anonymous members.
fn members(model: &TypeModel, id: TypeId) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut open = vec![(id, 0)];
    while let Some((id, base)) = open.pop() {
        for member in &model.composite(id).unwrap().members {
            let offset = base + member.offset.byte().0;
            match member.name.as_str() {
                "" => open.push((member.type_id, offset)),
                name => {
                    found.insert(name.to_owned(), offset);
                }
            }
        }
    }
    found
}

fn base<'m>(model: &'m TypeModel, composite: &'m Composite, name: &str) -> Option<u64> {
    let is_base = |id| model.composite(id).is_some_and(|c| c.name.as_str() == name);
    let mut bases = composite
        .members
        .iter()
        .filter(|m| m.role != MemberRole::Field);
    let found = bases.find(|m| is_base(m.type_id))?;
    Some(found.offset.byte().0)
}

/// Compares every line that the program prints with the model, and returns how many there were.
fn check(path: &Path, model: &TypeModel) -> usize {
    let printed = common::run(&mut Command::new(path));
    let mut checked = 0;
    for line in printed.lines() {
        let (what, rest) = line.split_once(' ').unwrap();
        let (number, rest) = rest.split_once(' ').unwrap();
        let number: u64 = number.parse().unwrap();
        let (member, name) = match what {
            "size" => ("", rest),
            _ => rest.split_once(' ').unwrap(),
        };
        let id = model
            .lookup(name)
            .unwrap_or_else(|| panic!("no type {name}"));
        match what {
            "size" => assert_eq!(model.size_of(id), Some(number), "{line}"),
            "member" => assert_eq!(members(model, id).get(member), Some(&number), "{line}"),
            _ => {
                let composite = model.composite(id).unwrap();
                assert_eq!(base(model, composite, member), Some(number), "{line}");
            }
        }
        checked += 1;
    }
    checked
}

/// Every type can be laid out, printed and unfolded, and no two of its members share bytes except
/// in unions.
fn check_consistency(model: &TypeModel) -> usize {
    let mut count = 0;
    for (id, t) in model.iter() {
        let Type::Composite(composite) = t else {
            continue;
        };
        let layout = Layout::new(model, id, LineSize::B64).unwrap();
        assert_eq!(layout.size, u64::from(composite.size));
        assert!(pahole::print(model, id, LineSize::B64).is_some());
        let flat = FlatType::new(model, id).unwrap();
        for leaf in flat.leaves() {
            assert!(
                flat.find(leaf.offset, leaf.size).is_some(),
                "{t:?}: {leaf:?}"
            );
        }
        count += 1;
    }
    count
}

#[test]
fn classes_are_laid_out_as_the_compiler_has_them() {
    let variants: [&[&str]; 5] = [
        &["-O0", "-gdwarf-5"],
        &["-O2", "-gdwarf-4"],
        &["-O2", "-gdwarf-5", "-std=c++20"],
        &["-O1", "-gdwarf-4", "-fdebug-types-section"],
        &["-O1", "-gdwarf-5", "-fdebug-types-section", "-gz"],
    ];
    for flags in variants {
        let mut all = vec!["-g"];
        all.extend(flags);
        let program = common::compile("g++", &["classes.cpp"], &all);
        let types = common::types(&program.path);
        assert_eq!(types.left_out(), 0, "{flags:?}");
        let checked = check(&program.path, types.model());
        let count = check_consistency(types.model());
        println!("{flags:?}: {checked} sizes and places of {count} types, all the compiler's");
        let parts = types.model().iter().filter_map(|(id, ty)| match ty {
            Type::Composite(class) if class.is_part && !class.members.is_empty() => Some(id),
            _ => None,
        });
        let mut shorter = 0;
        for part in parts {
            let name = types.model().composite_name(part);
            let class = types.model().find(TypeQuery::Named(name)).unwrap();
            assert!(class.variants.contains(&part), "{name}: {class:?}");
            assert!(types.model().size_of(part) < types.model().size_of(class.id));
            shorter += 1;
        }
        assert!(shorter > 0, "no base class whose last bytes are used");
        assert!(checked >= 35, "{checked}");
        assert!(count > 50, "{count}");
    }
}

#[test]
fn names_have_their_scopes_and_can_be_shortened() {
    let program = common::compile("g++", &["classes.cpp"], &["-g"]);
    let types = common::types(&program.path);
    let model = types.model();
    let name = |short| model.get(model.lookup(short)?).map(|t| t.name().to_owned());
    assert_eq!(name("Derived").as_deref(), Some("net::Derived"));
    assert_eq!(name("class Derived").as_deref(), Some("net::Derived"));
    assert_eq!(name("Array").as_deref(), Some("net::Array<char, 5>"));
    assert_eq!(name("Inner").as_deref(), Some("net::Derived::Inner"));
    assert_eq!(
        name("Derived::Inner").as_deref(),
        Some("net::Derived::Inner")
    );
    assert_eq!(
        name("Hidden").as_deref(),
        Some("(anonymous namespace)::Hidden")
    );
    assert_eq!(name("erived"), None);
    let composite = model
        .composite(model.lookup("net::Derived").unwrap())
        .unwrap();
    let declared = composite.declared.as_ref().unwrap();
    assert!(declared.file.ends_with("classes.cpp"), "{declared:?}");
    assert_eq!(declared.line.map(NonZeroU32::get), Some(60));
    let text = pahole::print(model, model.lookup("net::Derived").unwrap(), LineSize::B64).unwrap();
    assert!(
        text.starts_with("class net::Derived {\n\t/* struct net::Base"),
        "{text}"
    );
    assert!(text.contains("<ancestor>; */"), "{text}");
}

#[test]
fn what_holds_nothing_is_empty_and_storage_holds_its_argument() {
    for flags in [&["-g", "-O2"][..], &["-g", "-fdebug-types-section"]] {
        let program = common::compile("g++", &["classes.cpp"], flags);
        let types = common::types(&program.path);
        let model = types.model();
        let marked = model.lookup("net::Marked").unwrap();
        let members = model.composite(marked).unwrap().members.iter();
        let sizes: Vec<_> = members.map(|m| model.size_of(m.type_id)).collect();
        assert_eq!(sizes, [Some(0), Some(12), Some(4)], "{flags:?}");
        let empty = model.lookup("Empty").unwrap();
        assert_eq!(model.size_of(empty), Some(1), "an object of its own");
        let text = pahole::print(model, marked, LineSize::B64).unwrap();
        assert!(!text.contains("hole"), "{text}");

        let node = model.lookup("std::_List_node<net::Other>").unwrap();
        let flat = FlatType::new(model, node).unwrap();
        let paths: Vec<&str> = flat.leaves().iter().map(|l| l.path.as_str()).collect();
        let inside = ["l", "b1", "b2"].map(|name| format!("_M_storage._M_storage.{name}"));
        assert!(
            paths.ends_with(&inside.each_ref().map(|p| p.as_str())),
            "{paths:?}"
        );
    }
}

/// The lines of pahole's text for members, not bases, whose bytes are not counted twice: name,
/// offset and size.
fn told(text: &str) -> Vec<(String, String)> {
    let line = |line: &str| {
        let (declaration, place) = line.trim_end_matches("*/").rsplit_once("/*")?;
        let mut words = place.split_whitespace();
        words
            .clone()
            .all(|word| word.parse::<u64>().is_ok())
            .then_some(())?;
        let place = format!("{} {}", words.next()?, words.next()?);
        let declared = declaration
            .split("__attribute__")
            .next()?
            .trim()
            .trim_end_matches(';');
        let name = declared.rsplit([' ', '*']).next()?.to_owned();
        Some((name, place))
    };
    text.lines()
        .filter_map(line)
        .filter(|(name, _)| name != "/")
        .collect()
}

#[test]
fn members_of_classes_are_where_pahole_has_them() {
    let program = common::compile("g++", &["classes.cpp"], &["-g", "-O2", "-gdwarf-5"]);
    let types = common::types(&program.path);
    let model = types.model();
    let mut compared = 0;
    for name in [
        "Base",
        "Other",
        "Inner",
        "Hidden",
        "Tail",
        "timespec",
        "__pthread_mutex_s",
        "tm",
        "lconv",
    ] {
        // pahole 1.30 ends with "Invalid argument" after it has printed all requested types: its
        // output counts.
        let expected = Command::new("pahole")
            .args(["-F", "dwarf", "--suppress_aligned_attribute", "-C", name])
            .arg(&program.path)
            .output()
            .unwrap_or_else(|e| panic!("pahole cannot be run ({e}): run `make setup`"));
        let expected = String::from_utf8(expected.stdout).unwrap();
        let id = model
            .lookup(name)
            .unwrap_or_else(|| panic!("no type {name}"));
        let printed = pahole::print(model, id, LineSize::B64).unwrap();
        let expected = told(&expected);
        assert!(!expected.is_empty(), "{name}");
        assert_eq!(told(&printed), expected, "{name}:\n{printed}");
        compared += expected.len();
    }
    println!("{compared} members compared");
}

#[test]
fn rusts_types_are_laid_out_as_the_compiler_has_them() {
    let program = common::compile(
        "rustc",
        &["types.rs"],
        &["-g", "--edition=2021", "-Copt-level=1"],
    );
    let types = common::types(&program.path);
    let model = types.model();
    assert_eq!(types.left_out(), 0);
    let checked = check(&program.path, model);
    let count = check_consistency(model);
    println!("{checked} sizes and places of {count} types, all the compiler's");
    assert!(checked >= 20, "{checked}");
    let shape = model.lookup("Shape").unwrap();
    let flat = FlatType::new(model, shape).unwrap();
    let paths: Vec<&str> = flat
        .leaves()
        .iter()
        .map(|leaf| leaf.path.as_str())
        .collect();
    assert!(paths.contains(&"discriminant"), "{paths:?}");
    assert!(paths.contains(&"Rect.w"), "{paths:?}");
    let text = pahole::print(model, model.lookup("Plain").unwrap(), LineSize::B64).unwrap();
    assert!(
        !text.contains("__aligned__"),
        "what every type has is not remarked:\n{text}"
    );
    let text = pahole::print(model, model.lookup("Padded").unwrap(), LineSize::B64).unwrap();
    assert!(text.contains("__aligned__(128)"), "{text}");
    // The target of an `Arc` of a slice has no size of its own: its elements follow the counts.
    for (counted, tail) in [("[u64]", "u64 data[]"), ("str", "u8 data[]")] {
        let name = format!("alloc::sync::ArcInner<{counted}>");
        let id = model.lookup(&name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(model.size_of(id), Some(16), "{name}");
        let text = pahole::print(model, id, LineSize::B64).unwrap();
        let last = text.lines().find(|line| line.contains(" data")).unwrap();
        let words = last.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words, format!("{tail}; /* 16 0 */"), "{text}");
        let flat = FlatType::new(model, id).unwrap();
        assert_eq!(flat.leaves().last().unwrap().path, "data[]", "{text}");
    }
}

#[test]
fn types_that_dwz_moved_to_another_file_are_found_there() {
    let flags = ["-g", "-gdwarf-4", "-O1"];
    let (one, two) = (
        common::compile("g++", &["classes.cpp"], &flags),
        common::compile("g++", &["classes.cpp"], &["-g", "-gdwarf-4", "-O0"]),
    );
    let common_file = common::Program {
        path: common::scratch("common"),
    };
    common::run(
        Command::new("dwz")
            .arg("-m")
            .arg(&common_file.path)
            .arg(&one.path)
            .arg(&two.path),
    );
    let bytes = std::fs::read(&one.path).unwrap();
    let companions = Companions::of(&bytes).unwrap();
    assert!(companions.alternate.is_some(), "dwz moved nothing");
    let missing = ProgramFiles::new(&bytes, None, None)
        .err()
        .unwrap()
        .to_string();
    assert!(missing.contains("common"), "{missing}");
    let alternate = std::fs::read(&common_file.path).unwrap();
    let wrong = ProgramFiles::new(&bytes, None, Some(&bytes))
        .err()
        .unwrap()
        .to_string();
    assert!(wrong.contains("has build ID"), "{wrong}");
    let files = ProgramFiles::new(&bytes, None, Some(&alternate)).unwrap();
    let types = ProgramTypes::read(&files).unwrap();
    assert!(check(&one.path, types.model()) >= 33);
    check_consistency(types.model());
    let code = ProgramCode::read(&files, &types).unwrap();
    let add = code
        .functions()
        .iter()
        .find(|f| f.name == "net::Derived::add")
        .unwrap();
    let this = &add.parameters[0];
    assert_eq!(
        types.model().type_name(this.type_id),
        "const class net::Derived *"
    );
}
