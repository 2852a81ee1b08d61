//! Two recordings field by field.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use linemate_answers::{DiffDocument, DiffFigures, DiffSide};
use linemate_text::shown;

use crate::prediction::warn_of_copies;
use crate::print::{interleavings, more, percent};
use crate::whatifs::calls;
use crate::{Table, Text};

/// How the recordings differ in all, then at most `top` fields, the largest first, and what the
/// figures are of. `names`: of the recordings.
#[must_use]
pub fn diff_text(document: &DiffDocument, names: [&str; 2], top: usize) -> Text {
    let mut out = Text::default();
    let machines: Vec<Cow<'_, DiffDocument>> = document.by_machine().collect();
    for diff in &machines {
        // Writing to a text does not fail.
        let _ = writeln!(out, "{}", headline(diff));
    }
    let sides = [&document.a, &document.b];
    warn_of_copies(&mut out, sides.map(|side| &side.prediction_error));
    for diff in &machines {
        let _ = match &diff.machine {
            Some(machine) if machines.len() > 1 => writeln!(out, "\n{}:", shown(machine)),
            _ => writeln!(out),
        };
        fields(diff, &mut out, top);
    }
    inputs(document, &mut out, names);
    out
}

/// At most `top` fields on one machine.
fn fields(diff: &DiffDocument, out: &mut Text, top: usize) {
    let mut header = vec!["field", "loads A", "loads B", "stores A", "stores B"];
    header.extend(match has_events(diff) {
        true => ["per call A", "per call B", "change %"],
        false => ["per million A", "per million B", "change %"],
    });
    if diff.machine.is_some() {
        header.extend(["cycles A", "cycles B", "change"]);
        header.extend(match has_events(diff) {
            true => ["cycles per call A", "cycles per call B", "cycles change %"],
            false => ["cycles/access A", "cycles/access B", "cycles change %"],
        });
    }
    let mut table = Table::of_figures(&header);
    let rows = compare(&diff.a, &diff.b);
    for row in rows.iter().take(top) {
        table.add_row(cells(diff, row));
    }
    out.table(table);
    more(out, rows.len(), top);
}

/// All fields together in both recordings.
fn headline(diff: &DiffDocument) -> String {
    let sum = |fields: &DiffSide, figure: fn(&DiffFigures) -> u64| -> u64 {
        fields.fields.values().map(figure).sum()
    };
    let touched = |fields| sum(fields, |f| f.loads + f.stores);
    let (a, b) = (
        scaled(diff, &diff.a, touched(&diff.a)),
        scaled(diff, &diff.b, touched(&diff.b)),
    );
    let per = match has_events(diff) {
        true => "accesses per call",
        false => "accesses per million",
    };
    let cycles = diff.machine.as_ref().map_or(String::new(), |machine| {
        let (a, b) = (sum(&diff.a, |f| f.cycles), sum(&diff.b, |f| f.cycles));
        format!(
            "; on {}, {a} cycles in A, {b} in B ({})",
            shown(machine),
            in_per_cent(a as f64, b as f64)
        )
    });
    format!(
        "{}: {} {per} in A, {} in B ({}){cycles}.",
        shown(diff.type_name.as_deref().unwrap_or("all types")),
        figure(diff, a),
        figure(diff, b),
        in_per_cent(a, b)
    )
}

/// What the figures are of.
fn inputs(diff: &DiffDocument, out: &mut Text, names: [&str; 2]) {
    let _ = writeln!(out);
    if !has_events(diff) {
        let _ = writeln!(
            out,
            "per million: accesses to the field per million accesses of its recording"
        );
    }
    if let Some(machine) = &diff.machine {
        let others = diff.others.iter().map(|other| &other.machine);
        let machines: Vec<String> = std::iter::once(machine)
            .chain(others)
            .map(|machine| shown(machine).to_string())
            .collect();
        let _ = writeln!(
            out,
            "cycles of accesses that leave their core, on {}, {}",
            machines.join(", "),
            interleavings(diff.interleavings, diff.seed)
        );
    }
    if let Some(function) = &diff.under {
        let _ = writeln!(
            out,
            "Only accesses while {} is on the stack are counted.",
            shown(function)
        );
    }
    let [a, b] = names;
    for (side, name, fields) in [("A", a, &diff.a), ("B", b, &diff.b)] {
        let touched: u64 = fields.fields.values().map(|f| f.loads + f.stores).sum();
        let share = touched as f64 / fields.accesses.max(1) as f64;
        let _ = writeln!(
            out,
            "{side}: {}: {} CPUs, {} bytes, {touched} of {} accesses ({})",
            shown(name),
            fields.cpus,
            fields.bytes,
            fields.accesses,
            percent(share)
        );
        if let Some(event) = &fields.event {
            let _ = writeln!(out, "   {}", calls(event));
        }
    }
    let _ = writeln!(out, "linemate {}", diff.tool);
}

/// Accesses per call of the event, else of each million of the recording's.
fn scaled(diff: &DiffDocument, fields: &DiffSide, accesses: u64) -> f64 {
    match &fields.event {
        Some(event) if has_events(diff) => accesses as f64 / event.calls.max(1) as f64,
        _ => 1e6 * accesses as f64 / fields.accesses.max(1) as f64,
    }
}

/// A figure of [`scaled`].
fn figure(diff: &DiffDocument, figure: f64) -> String {
    match has_events(diff) {
        true => format!("{figure:.3}"),
        false => format!("{figure:.1}"),
    }
}

/// Whether figures are per call.
fn has_events(diff: &DiffDocument) -> bool {
    diff.a.event.is_some() && diff.b.event.is_some()
}

fn cells(diff: &DiffDocument, row: &Row) -> Vec<String> {
    let show = |side: &Option<DiffFigures>, figure: fn(&DiffFigures) -> u64| {
        side.as_ref()
            .map_or_else(|| "-".to_owned(), |f| figure(f).to_string())
    };
    let of = |side: &Option<DiffFigures>, figure: fn(&DiffFigures) -> u64| {
        side.as_ref().map_or(0, figure)
    };
    let accesses = |f: &DiffFigures| f.loads + f.stores;
    let mut cells = vec![row.path.clone()];
    for figure in [|f: &DiffFigures| f.loads, |f: &DiffFigures| f.stores] {
        cells.push(show(&row.a, figure));
        cells.push(show(&row.b, figure));
    }
    let (a, b) = (
        scaled(diff, &diff.a, of(&row.a, accesses)),
        scaled(diff, &diff.b, of(&row.b, accesses)),
    );
    cells.extend([figure(diff, a), figure(diff, b), in_per_cent(a, b)]);
    if diff.machine.is_some() {
        let cycles = |f: &DiffFigures| f.cycles;
        let (a, b) = (of(&row.a, cycles), of(&row.b, cycles));
        cells.push(show(&row.a, cycles));
        cells.push(show(&row.b, cycles));
        cells.push(format!("{:+}", i128::from(b) - i128::from(a)));
        let each = |side, fields: &DiffSide, cycles: u64| {
            let calls = fields.event.as_ref().map(|event| event.calls);
            cycles as f64 / calls.unwrap_or_else(|| of(side, accesses)).max(1) as f64
        };
        let (a, b) = (each(&row.a, &diff.a, a), each(&row.b, &diff.b, b));
        cells.extend([format!("{a:.2}"), format!("{b:.2}"), in_per_cent(a, b)]);
    }
    cells
}

/// The change from `a` to `b` in per cent of `a`; `-` of nothing.
fn in_per_cent(a: f64, b: f64) -> String {
    match a > 0.0 {
        true => format!("{:+.1} %", 100.0 * (b - a) / a),
        false => "-".to_owned(),
    }
}

/// A field in both recordings; `None` where the type has no such field or nothing touched it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Row {
    /// The field's path from the type on.
    path: String,
    /// In the first recording.
    a: Option<DiffFigures>,
    /// Its figures in the second recording.
    b: Option<DiffFigures>,
}

/// The fields of both sides, largest change first: in cycles if there are any, else in accesses;
/// then by path.
fn compare(a: &DiffSide, b: &DiffSide) -> Vec<Row> {
    let mut rows: BTreeMap<&String, Row> = BTreeMap::new();
    for (path, figures) in &a.fields {
        rows.entry(path).or_default().a = Some(*figures);
    }
    for (path, figures) in &b.fields {
        rows.entry(path).or_default().b = Some(*figures);
    }
    let mut rows: Vec<Row> = rows
        .into_iter()
        .map(|(path, row)| Row {
            path: path.clone(),
            ..row
        })
        .collect();
    let change = |row: &Row| {
        let (a, b) = (row.a.unwrap_or_default(), row.b.unwrap_or_default());
        let accesses = (a.loads + a.stores).abs_diff(b.loads + b.stores);
        (a.cycles.abs_diff(b.cycles), accesses)
    };
    // Stable: ties stay in the order of their paths.
    rows.sort_by_key(|row| std::cmp::Reverse(change(row)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(fields: &[(&str, u64, u64)]) -> DiffSide {
        let figures = |loads, cycles| DiffFigures {
            loads,
            cycles,
            ..DiffFigures::default()
        };
        let fields = fields
            .iter()
            .map(|(path, l, c)| ((*path).to_owned(), figures(*l, *c)));
        DiffSide {
            prediction_error: None,
            bytes: 0,
            cpus: 1,
            accesses: 0,
            event: None,
            fields: fields.collect(),
        }
    }

    #[test]
    fn fields_are_matched_by_path_and_sorted_by_change() {
        let a = side(&[("same", 5, 9), ("gone", 7, 0), ("cheaper", 1, 100)]);
        let b = side(&[("same", 5, 9), ("new", 7, 0), ("cheaper", 1, 10)]);
        let rows = compare(&a, &b);
        let paths: Vec<_> = rows
            .iter()
            .map(|row| (row.path.as_str(), row.a.is_some(), row.b.is_some()))
            .collect();
        assert_eq!(
            paths,
            [
                ("cheaper", true, true),
                ("gone", true, false),
                ("new", false, true),
                ("same", true, true)
            ]
        );
    }
}
