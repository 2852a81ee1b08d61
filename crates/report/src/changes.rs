//! The lines that edits change, before and after, to scale.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use linemate_answers::{FieldMap, FieldPlace, LayoutChange, WhatIf};
use linemate_text::{short, shown};

use crate::Text;
use crate::strip::{Strip, StripPart};

/// Cycles by field.
type Cycles<'r> = BTreeMap<&'r str, f64>;

/// The lines of each edited type that hold other fields than before, or the same ones elsewhere,
/// and that cost something before or after; at most `top` of each layout. Cycles are those of
/// `result`.
pub(crate) fn changed_lines(out: &mut Text, change: &LayoutChange, result: &WhatIf, top: usize) {
    let bytes = change.line_bytes.max(1);
    let sides = [
        (
            "before",
            &change.before,
            cycles(change, result, |m| m.without),
        ),
        ("after", &change.after, cycles(change, result, |m| m.with)),
    ];
    let contents = sides.each_ref().map(|(_, map, _)| by_line(map, bytes));
    let [before, after] = &contents;
    let moved = |line: &u64| before.get(line) != after.get(line);
    let changed = sides.iter().zip(&contents).map(|((_, map, cycles), own)| {
        let strips = own.keys().filter(|line| moved(line));
        let strips = strips.map(|line| strip(map, *line, bytes, cycles));
        strips.filter(costs).collect()
    });
    let changed: Vec<Vec<Strip>> = changed.collect();
    if changed.iter().all(Vec::is_empty) {
        return;
    }
    for ((title, map, _), strips) in sides.iter().zip(changed) {
        // Writing to a text does not fail.
        let _ = writeln!(
            out,
            "{}, {title}: {} bytes; changed lines with a cost, cycles below each field (*: does not fit)",
            shown(&change.type_name),
            map.size
        );
        let left_out = strips.len().saturating_sub(top);
        out.strips(strips.into_iter().take(top).collect());
        if left_out > 0 {
            let _ = writeln!(out, "({left_out} more; --top N shows more)");
        }
    }
    let _ = writeln!(out);
}

/// Whether anything in the line has cycles: only that has notes.
fn costs(strip: &Strip) -> bool {
    strip.parts.iter().any(|part| !part.notes.is_empty())
}

/// By field of the type, its cycles; all names of fields that share bytes have them.
fn cycles<'r>(
    change: &LayoutChange,
    result: &'r WhatIf,
    figure: impl Fn(&linemate_answers::Measure) -> f64,
) -> Cycles<'r> {
    let mut cycles = Cycles::new();
    for row in &result.fields {
        let prefix = row.name.strip_prefix(change.type_name.as_str());
        let name = prefix.and_then(|rest| rest.strip_prefix('.'));
        for name in name.unwrap_or(&row.name).split(" | ") {
            cycles.insert(name, figure(&row.cycles));
        }
    }
    cycles
}

/// What is in each line, and where.
fn by_line(map: &FieldMap, bytes: u64) -> BTreeMap<u64, BTreeSet<(u64, &str)>> {
    let mut lines: BTreeMap<u64, BTreeSet<(u64, &str)>> = BTreeMap::new();
    for field in &map.fields {
        let line = field.offset / bytes;
        let place = (field.offset % bytes, field.path.as_str());
        lines.entry(line).or_default().insert(place);
    }
    lines
}

fn strip(map: &FieldMap, line: u64, bytes: u64, cycles: &Cycles<'_>) -> Strip {
    let start = line * bytes;
    let of = |field: &FieldPlace| cycles.get(field.path.as_str()).copied().unwrap_or(0.0);
    let mut fields: Vec<&FieldPlace> = map.fields.iter().collect();
    fields.retain(|field| field.offset < start + bytes && field.end() > field.offset.max(start));
    // Of fields that share bytes, the costliest.
    fields.sort_by(|a, b| of(b).total_cmp(&of(a)).then(a.offset.cmp(&b.offset)));
    let part = |field: &&FieldPlace| {
        let offset = field.offset.saturating_sub(start);
        // What reaches in from the line before has its figure there.
        let value = if field.offset < start { 0.0 } else { of(field) };
        StripPart {
            offset,
            size: field.end() - start - offset,
            name: field.path.clone(),
            notes: match value >= 1.0 {
                true => vec![short(value), short(value).replace(' ', ""), "*".to_owned()],
                false => Vec::new(),
            },
        }
    };
    Strip {
        title: format!("line {line}"),
        bytes,
        parts: fields.iter().map(part).collect(),
    }
}
