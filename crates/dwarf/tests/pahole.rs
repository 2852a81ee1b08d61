//! Compares the printed layout of every struct and union of compiled programs with pahole's own
//! output.
//!
//! Needs a C compiler and pahole (package `dwarves`); a missing one fails.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use linemate_testkit::pahole as remarks;
use linemate_types::{CompositeKind, LineSize, Type, TypeModel, pahole};

fn pahole_text(path: &Path, line: LineSize) -> String {
    let text = common::run(
        Command::new("pahole")
            .args(["-F", "dwarf", "-c", &line.bytes().to_string()])
            .arg(path),
    );
    if remarks::pahole_is_newer() {
        remarks::without_newer(&text)
    } else {
        text
    }
}

/// pahole's output, one piece per type.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        at += line.len();
        if line.starts_with('}') {
            pieces.push(&text[start..at]);
            start = at;
        }
    }
    assert_eq!(start, text.len(), "pahole's output ends with a type");
    pieces
}

/// Keyword and name of the type that a piece declares.
fn head(piece: &str) -> (&str, &str) {
    let line = piece.lines().next().unwrap();
    line.trim_end_matches(" {").split_once(' ').unwrap()
}

/// Compares all named types of a program, and returns the numbers of structs and unions compared.
fn compare_all(path: &Path, line: LineSize) -> (usize, usize) {
    let types = common::types(path);
    assert_eq!(types.left_out(), 0);
    let model = types.model();
    let text = pahole_text(path, line);
    let mut printer = pahole::Printer::new(model, line);
    let (mut structs, mut unions) = (0, 0);
    let mut compared = BTreeSet::new();
    for piece in pieces(&text) {
        let (keyword, name) = head(piece);
        compared.insert((keyword, name));
        compare(model, &mut printer, piece);
        match keyword {
            "union" => unions += 1,
            _ => structs += 1,
        }
    }
    for (id, t) in model.iter() {
        let Type::Composite(composite) = t else {
            continue;
        };
        let head = (composite.keyword(), composite.name.as_str());
        assert!(
            // pahole does not list types declared inside functions.
            composite.name.is_empty()
                || composite.name.as_str() == "local"
                || compared.contains(&head),
            "pahole does not print type {id}, {head:?}"
        );
    }
    (structs, unions)
}

/// Some type of that name prints as pahole prints it.
fn compare(model: &TypeModel, printer: &mut pahole::Printer<'_>, piece: &str) {
    let (keyword, name) = head(piece);
    let kind = match keyword {
        "union" => CompositeKind::Union,
        _ => CompositeKind::Struct,
    };
    let is_candidate = |t: Option<&Type>| matches!(t, Some(Type::Composite(c)) if c.kind == kind);
    let named = model.named(name).iter().copied();
    let printed: Vec<String> = named
        .filter(|id| is_candidate(model.get(*id)))
        .map(|id| printer.print(id).unwrap())
        .collect();
    if printed.iter().any(|text| text == piece) {
        return;
    }
    let printed = printed.join("\n");
    let mut lines = printed.lines().zip(piece.lines());
    let differs = lines.find(|(ours, paholes)| ours != paholes);
    panic!("{keyword} {name}: {differs:#?} (ours, pahole's) in\n{printed}");
}

#[test]
fn every_shape_prints_as_pahole_prints_it() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let program = common::compile("gcc", &["shapes.c"], &["-O2", "-g", version]);
        for line in [LineSize::B64, LineSize::B128] {
            let (structs, unions) = compare_all(&program.path, line);
            println!("{version}: {structs} structs and {unions} unions compared, all identical");
            assert!(
                structs >= 5 && unions >= 1,
                "{structs} structs, {unions} unions"
            );
        }
    }
}

#[test]
fn every_type_of_the_systems_headers_prints_as_pahole_prints_it() {
    for flags in [
        ["-gdwarf-4", "-O2"],
        ["-gdwarf-5", "-O2"],
        ["-gdwarf-5", "-gz"],
        ["-gdwarf-3", "-O0"],
        ["-gdwarf-2", "-O0"],
    ] {
        let mut all = vec!["-fno-eliminate-unused-debug-types"];
        all.extend(flags);
        let program = common::compile("gcc", &["headers.c"], &all);
        let (structs, unions) = compare_all(&program.path, LineSize::B64);
        println!("{flags:?}: {structs} structs and {unions} unions compared, all identical");
        assert!(
            structs > 600 && unions > 10,
            "{structs} structs, {unions} unions"
        );
        if flags[1] == "-O2" {
            assert_eq!(
                compare_all(&program.path, LineSize::B128),
                (structs, unions)
            );
        }
    }
}
