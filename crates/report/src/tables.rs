//! The report as tables for a terminal.

use std::fmt::Write as _;

use linemate_answers::{
    EventCount, FieldRow, Figures, GroupRow, LedgerBucket, LedgerGroup, LedgerView, LineMember,
    LineRow, Place, Report, Share, TypeRow, TypeView, View,
};
use linemate_text::shown;

use crate::headline::report_headline;
use crate::print::{counted, description, percent, provenance, warn_of_turns, within};
use crate::strip::{Strip, StripPart};
use crate::whatifs::calls;
use crate::{Table, Text};

/// What of a report is shown.
#[derive(Clone, Copy, Debug)]
pub struct ReportText {
    /// The most rows of a table.
    pub top: usize,
    /// Everything about the run, and where each access went.
    pub ledger: bool,
    /// Bytes of a line that rows by line are of.
    pub line_bytes: u64,
}

/// The report as text: the answer, the tables, then what they rest on.
#[must_use]
pub fn text(report: &Report, show: &ReportText) -> Text {
    let mut out = Text::default();
    // Writing to a text does not fail.
    let _ = writeln!(out, "{}", report_headline(report));
    if let Some(event) = &report.event {
        per_call(&mut out, report, event);
    }
    warn_of_turns(&mut out, &report.inputs.recording);
    let _ = writeln!(out);
    match &report.view {
        View::Type(view) if view.figures.accesses == 0 => {
            not_attributed(&mut out, view, &report.ledger);
        }
        all => tables(&mut out, all, show),
    }
    let _ = writeln!(out);
    if show.ledger {
        inputs(&mut out, report);
        let _ = writeln!(out);
        ledger(&mut out, report);
    } else {
        let ledger = &report.ledger;
        let unknown = match percent(ledger.unknown_share) {
            none if none == percent(0.0) => String::new(),
            some => format!("; {some} unknown"),
        };
        let _ = writeln!(
            out,
            "{}: {} accesses; {} of typeable accesses typed{unknown} (--ledger: details of the run, where each access went)",
            provenance(&report.inputs.recording),
            ledger.total,
            percent(ledger.typed_share),
        );
    }
    out
}

/// Accesses for each call of an event: of the requested type, and of everything.
fn per_call(out: &mut Text, report: &Report, event: &EventCount) {
    let each = |accesses: u64| accesses as f64 / event.calls.max(1) as f64;
    let asked = match &report.view {
        View::Type(view) => format!(
            "{:.3} accesses to {}, ",
            each(view.figures.accesses),
            shown(&view.name)
        ),
        _ => String::new(),
    };
    // Writing to a text does not fail.
    let _ = writeln!(
        out,
        "{}: {asked}{:.3} accesses to everything per call.",
        calls(event),
        each(report.ledger.total)
    );
}

fn inputs(out: &mut Text, report: &Report) {
    let _ = writeln!(
        out,
        "linemate {}, recorded by {}",
        report.inputs.tool,
        shown(&report.inputs.recorded_by)
    );
    description(out, &report.inputs.recording);
    match (&report.inputs.checksum, &report.inputs.cut) {
        (_, Some(cut)) => {
            let _ = writeln!(
                out,
                "  this recording is {cut}; figures cover what is readable"
            );
        }
        (Some(checksum), None) => {
            let _ = writeln!(out, "  checksum: {checksum}");
        }
        (None, None) => {}
    }
}

fn ledger(out: &mut Text, report: &Report) {
    let ledger = &report.ledger;
    let mut table = Table::new(&["where the accesses went", "accesses", "share"]);
    for group in &ledger.groups {
        table.add_row(vec![
            group.name.to_string(),
            group.accesses.to_string(),
            percent(group.share),
        ]);
        if group.buckets.len() > 1 || group.name == LedgerGroup::UNKNOWN {
            for bucket in &group.buckets {
                table.add_row(vec![
                    format!("  {}", bucket.name),
                    bucket.accesses.to_string(),
                    percent(bucket.share),
                ]);
            }
        }
    }
    let whole = if ledger.total == ledger.recorded {
        "all that was recorded"
    } else {
        "NOT all that was recorded"
    };
    table.add_row(vec![
        format!("total ({whole})"),
        ledger.total.to_string(),
        percent(1.0),
    ]);
    table.align(1);
    out.table(table);
    let _ = writeln!(
        out,
        "Typed: {} of the accesses that are not {}. Unknown: {}.",
        percent(ledger.typed_share),
        left_out(ledger),
        percent(ledger.unknown_share)
    );
    if let Some(programs) = &ledger.programs {
        let _ = writeln!(
            out,
            "Of {} accesses to heap blocks and variables of programs {} have a type.",
            programs.accesses,
            percent(programs.typed_share)
        );
    }
}

/// What does not count among the accesses that could have a type.
fn left_out(ledger: &LedgerView) -> &'static str {
    let has = |name| ledger.groups.iter().any(|group| group.name == name);
    if has(LedgerGroup::UNNAMED) {
        "stack, device registers, page contents, an allocator's bookkeeping or kernel memory"
    } else if has(LedgerGroup::ALLOCATOR) {
        "stack, device registers, page table, struct page, page contents or an allocator's bookkeeping"
    } else {
        "stack, device registers, page table, struct page or page contents"
    }
}

fn tables(out: &mut Text, view: &View, show: &ReportText) {
    match view {
        View::Types(rows) => {
            let mut t = Table::new(&[
                "type or variable",
                "where",
                "size",
                "objects",
                ACCESSES,
                "shared",
                "loads",
                "stores",
                "RMW",
                "silent",
                REMOTE,
                "readers",
                "writers",
                "most by",
            ]);
            for row in rows {
                let mut cells = vec![
                    row.name.clone(),
                    places(row),
                    number(row.size),
                    number(row.objects),
                ];
                cells.extend(figures(&row.figures));
                cells.insert(5, number(row.shared));
                cells.push(names(&row.functions));
                t.add_row(cells);
            }
            finish(out, t, 2);
        }
        View::Fields(rows) => fields(out, rows, true),
        View::Lines(rows) => line_strips(out, rows, show.line_bytes),
        View::Functions(rows) => {
            let rows = rows.iter().map(|r| (&r.name, &r.figures, &r.types));
            by_code(out, "function", rows);
        }
        View::Sources(rows) => {
            let rows = rows.iter().map(|r| (&r.name, &r.figures, &r.types));
            by_code(out, "source", rows);
        }
        View::Cpus(rows) => {
            let mut t = Table::new(&[
                "CPU",
                ACCESSES,
                "loads",
                "stores",
                "RMW",
                "to other CPUs' objects",
            ]);
            for r in rows {
                let counts = [r.accesses, r.loads, r.stores, r.rmws].map(|n| n.to_string());
                let mut cells = vec![match r.last > r.cpu {
                    true => format!("{} to {}", r.cpu, r.last),
                    false => r.cpu.to_string(),
                }];
                cells.extend(counts);
                cells.push(r.remote_share.map_or(String::new(), percent));
                t.add_row(cells);
            }
            finish(out, t, 0);
        }
        View::Type(view) => type_view(out, view, show.top),
    }
}

/// Rows of code: its name, its figures, the types that it accesses most.
fn by_code<'r>(
    out: &mut Text,
    what: &str,
    rows: impl Iterator<Item = (&'r String, &'r Figures, &'r Vec<Share>)>,
) {
    let mut t = Table::new(&[
        what,
        ACCESSES,
        "loads",
        "stores",
        "RMW",
        "silent",
        REMOTE,
        "CPUs reading",
        "writing",
        "most in",
    ]);
    for (name, counts, types) in rows {
        let mut cells = vec![name.clone()];
        cells.extend(figures(counts));
        cells.push(names(types));
        t.add_row(cells);
    }
    finish(out, t, 1);
}

const ACCESSES: &str = "accesses";
const REMOTE: &str = "other CPUs";

/// What is known where no access is to the type: its size, and what the accesses are to that were
/// attributed to no type.
fn not_attributed(out: &mut Text, view: &TypeView, ledger: &LedgerView) {
    let unnamed = [
        LedgerGroup::HEAP,
        LedgerGroup::CONTENTS,
        LedgerGroup::UNKNOWN,
    ];
    let groups = ledger.groups.iter();
    let groups = groups.filter(|group| unnamed.contains(&group.name.as_ref()));
    let mut buckets: Vec<&LedgerBucket> = groups.flat_map(|group| &group.buckets).collect();
    buckets.sort_by_key(|bucket| (std::cmp::Reverse(bucket.accesses), bucket.name.as_ref()));
    let _ = write!(out, "struct {}: {} bytes. ", shown(&view.name), view.size);
    if buckets.is_empty() {
        let _ = writeln!(
            out,
            "Every access that could be to it is attributed to another type.\n"
        );
        return;
    }
    let _ = writeln!(
        out,
        "Accesses attributed to no type; some may be to it, such as accesses to mmap memory:"
    );
    let mut table = Table::new(&["where the accesses went", "accesses", "share"]);
    for bucket in buckets {
        table.add_row(vec![
            bucket.name.to_string(),
            bucket.accesses.to_string(),
            percent(bucket.share),
        ]);
    }
    finish(out, table, 1);
}

fn type_view(out: &mut Text, view: &TypeView, top: usize) {
    let _ = writeln!(
        out,
        "struct {}: {} bytes, {} of {} bytes, {} accesses{}\n\nWhere its objects are",
        shown(&view.name),
        view.size,
        counted(view.size.div_ceil(view.line_size.max(1)) as usize, "line"),
        view.line_size,
        view.figures.accesses,
        own_and_inside(view)
    );
    let mut t = Table::new(&[
        "owner", ACCESSES, "loads", "stores", "RMW", "silent", REMOTE, "readers", "writers",
    ]);
    for place in &view.places {
        let mut cells = vec![place.owner.clone()];
        cells.extend(figures(&place.figures));
        t.add_row(cells);
    }
    finish(out, t, 1);
    let _ = writeln!(out, "\nFields, most used first");
    let mut rows = view.fields.clone();
    rows.sort_by(|a, b| {
        b.figures
            .accesses
            .cmp(&a.figures.accesses)
            .then(a.offset.cmp(&b.offset))
    });
    rows.truncate(top);
    fields(out, &rows, false);
    if view.fields.len() > rows.len() {
        let more = view.fields.len() - rows.len();
        let _ = writeln!(out, "({more} more; --top N shows more)");
    }
    let _ = writeln!(out, "\nLines, from 0");
    lines(out, &view.lines);
    let _ = writeln!(out, "\nField groups: used together");
    groups(out, &view.groups, top);
}

/// How many accesses are to objects of the type's own and how many to those inside other types, if
/// there are such.
fn own_and_inside(view: &TypeView) -> String {
    let (inside, own): (Vec<&Place>, Vec<&Place>) =
        view.places.iter().partition(|place| place.inside.is_some());
    let own = own.iter().map(|place| place.figures.accesses).sum();
    let inside = inside.iter();
    let inside = inside.map(|place| (place.owner.as_str(), place.figures.accesses));
    within(own, &inside.collect::<Vec<_>>())
}

fn fields(out: &mut Text, rows: &[FieldRow], with_type: bool) {
    let mut t = Table::new(&[
        "field", "offset", "size", "line", ACCESSES, "loads", "stores", "RMW", "silent", REMOTE,
        "readers", "writers", "most by",
    ]);
    for row in rows {
        let path = [std::slice::from_ref(&row.field), &row.aliases]
            .concat()
            .join(" | ");
        let name = if with_type {
            format!("{}.{path}", row.type_name)
        } else {
            path
        };
        let mut cells = vec![
            name,
            row.offset.to_string(),
            row.size.to_string(),
            row.line.to_string(),
        ];
        cells.extend(figures(&row.figures));
        cells.push(names(&row.functions));
        t.add_row(cells);
    }
    finish(out, t, 1);
}

fn lines(out: &mut Text, rows: &[LineRow]) {
    let mut t = Table::new(&[
        "type", "line", ACCESSES, "loads", "stores", "RMW", "silent", REMOTE, "readers", "writers",
        "most in",
    ]);
    for row in rows {
        let mut cells = vec![row.type_name.clone(), row.line.to_string()];
        cells.extend(figures(&row.figures));
        cells.push(names(&row.fields));
        t.add_row(cells);
    }
    finish(out, t, 1);
}

/// Each line as a strip, with what is known about all of it above.
fn line_strips(out: &mut Text, rows: &[LineRow], bytes: u64) {
    for row in rows {
        let f = &row.figures;
        let remote = f.remote_share.map_or(String::new(), |share| {
            format!(", {} by other CPUs than the owner", percent(share))
        });
        let _ = writeln!(
            out,
            "{}, line {}: {} accesses ({} loads, {} stores, {} RMW){remote}",
            shown(&row.type_name),
            row.line,
            f.accesses,
            f.loads,
            f.stores,
            f.rmws,
        );
        out.strips(vec![line_strip(row, bytes)]);
    }
    let _ = writeln!(
        out,
        "r8 w2: 8 CPUs read, 2 write; w alone: written, r alone: only read; dots: not accessed."
    );
}

fn line_strip(row: &LineRow, bytes: u64) -> Strip {
    let start = row.line * bytes;
    let mut members: Vec<&LineMember> = row.members.iter().collect();
    members.sort_by_key(|member| (std::cmp::Reverse(member.accesses), member.offset));
    let part = |member: &&LineMember| {
        // One that begins in the line before has its accesses there, but for those that begin here.
        let offset = member.offset.saturating_sub(start);
        let end = member.offset.saturating_add(member.size);
        let (r, w) = (member.readers, member.writers);
        let kind = if w > 0 { "w" } else { "r" };
        let full = match (r, w) {
            (0, w) => format!("w{w}"),
            (r, 0) => format!("r{r}"),
            (r, w) => format!("r{r} w{w}"),
        };
        StripPart {
            offset,
            size: end.saturating_sub(start + offset).max(1),
            name: member.field.clone(),
            notes: vec![full, kind.to_owned()],
        }
    };
    Strip {
        title: "bytes".to_owned(),
        bytes,
        parts: members.iter().map(part).collect(),
    }
}

fn groups(out: &mut Text, rows: &[GroupRow], top: usize) {
    let mut t = Table::new(&[
        "share",
        "loads : stores",
        REMOTE,
        "class",
        "lines",
        "fields",
    ]);
    for row in rows.iter().take(top) {
        let ratio = row
            .loads_per_store
            .map_or("no stores".to_owned(), |r| format!("{r:.1} : 1"));
        let lines: Vec<String> = row.lines.iter().map(u64::to_string).collect();
        let remote = row.figures.remote_share.map_or(String::new(), percent);
        t.add_row(vec![
            percent(row.share),
            ratio,
            remote,
            row.class.to_string(),
            lines.join(" "),
            row.fields.join(" "),
        ]);
    }
    finish(out, t, 0);
}

fn figures(f: &Figures) -> Vec<String> {
    let remote = f.remote_share.map_or(String::new(), percent);
    let counts = [f.accesses, f.loads, f.stores, f.rmws, f.silent].map(|n| n.to_string());
    let mut cells: Vec<String> = counts.into();
    cells.extend([remote, f.readers.to_string(), f.writers.to_string()]);
    cells
}

/// The most places of a type that a row names.
const PLACES_MAX: usize = 2;

/// Where the objects of a row are, most accesses first.
fn places(row: &TypeRow) -> String {
    if row.places.is_empty() {
        return place(&row.kind, &row.place);
    }
    let named = row.places.iter().take(PLACES_MAX);
    let named: Vec<String> = named.map(|of| place(&of.kind, &of.place)).collect();
    match row.places.len().saturating_sub(PLACES_MAX) {
        0 => named.join("; "),
        more => format!("{}; {more} more", named.join("; ")),
    }
}

fn place(kind: &str, place: &str) -> String {
    if place.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind}: {place}")
    }
}

fn names(parts: &[Share]) -> String {
    let names: Vec<&str> = parts
        .iter()
        .map(|p| p.name.as_str())
        .filter(|n| !n.is_empty())
        .collect();
    names.join(" ")
}

fn number(value: Option<u64>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}

fn finish(out: &mut Text, mut table: Table, numbers_from: usize) {
    table.align(numbers_from);
    out.table(table);
}
