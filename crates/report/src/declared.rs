//! The groups that types declare, against a recording, as text.

use std::fmt::Write as _;

use linemate_answers::{DeclaredDocument, DeclaredType, MisplacedMember, Share};
use linemate_text::{short, shown};

use crate::print::{counted, cycles, more, origin, percent};
use crate::{Table, Text};

/// Members that are used otherwise than their group says, at most `top`, then the groups. `path`:
/// the recording's file.
#[must_use]
pub fn declared_text(document: &DeclaredDocument, path: &str, top: usize) -> Text {
    let mut out = Text::default();
    // Writing to a text does not fail.
    let _ = match document.types.is_empty() {
        true => writeln!(out, "no type that declares groups of members is accessed"),
        false => writeln!(
            out,
            "{}, {} of them with a cost on {}; {} declare groups",
            counted(document.findings.len() + document.free, "misplaced member"),
            document.findings.len(),
            shown(&document.machine),
            counted(document.types.len(), "accessed type"),
        ),
    };
    if !document.findings.is_empty() {
        out.table(findings(document, top));
        more(&mut out, document.findings.len(), top);
    }
    for of in &document.types {
        let _ = writeln!(
            out,
            "\n{}: {} bytes, {} cycles, {} of all",
            shown(&of.type_name),
            of.size,
            cycles(of.cycles as f64),
            share(of.cycles, document.whole_cycles.unwrap_or(0))
        );
        if !of.set_up.is_empty() {
            let names: Vec<String> = of
                .set_up
                .iter()
                .map(|name| shown(name).to_string())
                .collect();
            let _ = writeln!(
                out,
                "not counted (they set up whole objects): {}",
                names.join(", ")
            );
        }
        out.table(groups(of));
    }
    if !document.absent.is_empty() {
        let absent: Vec<String> = document
            .absent
            .iter()
            .map(|name| shown(name).to_string())
            .collect();
        let _ = writeln!(
            out,
            "\ndeclare groups and are not accessed: {}",
            absent.join(", ")
        );
    }
    origin(&mut out, &document.tool, path, &document.recording);
    out
}

fn share(part: u64, all: u64) -> String {
    percent(if all > 0 {
        part as f64 / all as f64
    } else {
        0.0
    })
}

fn findings(document: &DeclaredDocument, top: usize) -> Table {
    let mut table = Table::of_figures(&[
        "member",
        "group",
        "what",
        "loads",
        "writes",
        "readers",
        "writers",
        "cycles",
        "neighbours",
        "of all",
        "most by",
    ]);
    for of in document.findings.iter().take(top) {
        table.add_row(finding(of, document.whole_cycles.unwrap_or(0)));
    }
    table
}

fn finding(of: &MisplacedMember, whole: u64) -> Vec<String> {
    vec![
        format!("{}.{}", of.type_name, of.member),
        of.group.clone().unwrap_or_else(|| "-".to_owned()),
        of.kind.text().to_owned(),
        short(of.loads as f64),
        short(of.writes as f64),
        of.readers.to_string(),
        of.writers.to_string(),
        cycles(of.cycles as f64),
        cycles(of.neighbours as f64),
        share(of.cost(), whole),
        functions(&of.functions),
    ]
}

fn groups(of: &DeclaredType) -> Table {
    let mut table = Table::of_figures(&[
        "group", "offset", "bytes", "accessed", "loads", "writes", "cycles", "most by",
    ]);
    for group in &of.groups {
        table.add_row(vec![
            group.name.clone(),
            group.offset.to_string(),
            group.bytes.to_string(),
            counted(group.members, "member"),
            short(group.loads as f64),
            short(group.writes as f64),
            cycles(group.cycles as f64),
            functions(&group.functions),
        ]);
    }
    table
}

fn functions(shares: &[Share]) -> String {
    let names: Vec<&str> = shares.iter().map(|share| share.name.as_str()).collect();
    names.join(", ")
}
