//! What another layout would cost, as tables.

use std::fmt::Write as _;

use linemate_answers::{
    EventCount, Measure, MeasuredRow, Potential, TypeSize, UnderChange, WhatIf, WhatIfDocument,
};
use linemate_text::shown;

use crate::changes::changed_lines;
use crate::line_starts::line_starts_text;
use crate::prediction::warn_of_copies;
use crate::print::{
    change, counted, cycles, everything, in_either_half, interleavings, is_unchanged, mechanisms,
    more, origin, percent, relative, shares, shows_change, verdict, verdict_of, warn_of_short,
};
use crate::sets::changes;
use crate::{Table, Text};

/// What the edits do on each machine, which share of the cost is not true sharing, then the figures
/// with at most `top` rows in a table, and at the end what they are of. `path`: the recording's
/// file.
#[must_use]
pub fn whatif_text(document: &WhatIfDocument, path: &str, top: usize) -> Text {
    let names = type_names(document);
    let mut out = Text::default();
    for result in &document.results {
        // Writing to a String does not fail.
        let _ = writeln!(out, "{}", effect(result, &names));
    }
    for result in &document.results {
        potential(&mut out, &result.machine, &names, &result.potential);
    }
    let line = document.results.first().map(|result| result.line_bytes);
    for change in document
        .layouts
        .iter()
        .filter(|c| Some(c.line_bytes) == line)
    {
        let starts = line_starts_text(&change.type_name, &change.line_starts);
        let _ = write!(out, "{starts}");
    }
    let results = document.results.iter();
    warn_of_copies(&mut out, results.map(|result| &result.prediction_error));
    warn_of_short(&mut out, document.results.first().and_then(|r| r.warm_up));
    for edit in removes_nothing(document) {
        let _ = writeln!(out, "No access matches `{}`.", shown(edit));
    }
    let _ = writeln!(out, "\nedits");
    for line in document.edits.lines() {
        let _ = writeln!(out, "  {line}");
    }
    let _ = writeln!(out);
    out.table(summary(&document.results, &names));
    if let Some(event) = &document.event {
        let _ = writeln!(out, "{}", calls(event));
        out.table(per_call(&document.results, event));
    }
    for result in &document.results {
        let _ = writeln!(
            out,
            "{}: {} CPUs ({} recorded), {}-byte lines, {}, {}{}{}{}; cycles are those of accesses that leave their core",
            result.machine,
            result.cpus,
            result.recorded_cpus,
            result.line_bytes,
            mechanisms(&result.mechanisms),
            match (result.warm_up, result.llc_share) {
                (Some(_), true) => "warm, CPUs' share of each cache, ",
                (Some(_), false) => "warm, ",
                (None, true) => "cold, CPUs' share of each cache, ",
                (None, false) => "cold, ",
            },
            interleavings(result.interleavings, result.seed),
            match result.interleavings < result.interleavings_max {
                true => format!(", stopped early (of at most {})", result.interleavings_max),
                false => String::new(),
            },
            match result.by_difference {
                true => ", only changes replayed",
                false => "",
            }
        );
        let layouts = document.layouts.iter();
        for change in layouts.filter(|change| change.line_bytes == result.line_bytes) {
            changed_lines(&mut out, change, result, top);
        }
        details(&mut out, result, top);
    }
    origin(&mut out, &document.tool, path, &document.recording);
    out
}

/// The types that are reported.
fn type_names(document: &WhatIfDocument) -> String {
    let sizes = document
        .results
        .first()
        .map_or(&[][..], |result| &result.sizes);
    let names: Vec<&str> = sizes.iter().map(|size| size.name.as_str()).collect();
    names.join(", ")
}

/// What the reported figures are of: `the type`, or `the data` where variables or allocations are
/// reported.
fn subject(result: &WhatIf) -> &'static str {
    match result.sizes.iter().any(|size| size.memory) {
        true => "the data",
        false => "the type",
    }
}

/// The statements that remove accesses, if none is removed. A silent store that is skipped becomes
/// the load that tests for it, so it is not counted.
fn removes_nothing(document: &WhatIfDocument) -> impl Iterator<Item = &str> {
    let removed = document.results.iter().any(|result| result.skipped > 0);
    let lines = document.edits.lines().filter(move |_| !removed);
    let lines = lines.map(str::trim);
    lines.filter(|line| REMOVING.iter().any(|verb| line.starts_with(verb)))
}

/// What statements begin with that remove accesses.
const REMOVING: [&str; 2] = ["remove ", "reuse "];

/// What the edits do, in a sentence.
fn effect(result: &WhatIf, names: &str) -> String {
    let types = &result.types;
    let subject = format!("{} on {}", shown(names), shown(&result.machine));
    if is_unchanged(types) {
        return format!("{subject}: the edits do not change its cost.");
    }
    format!(
        "{subject}: {} of its cost, {} of all cost: {}.{}",
        relative(types, types.without),
        relative(types, result.whole.without),
        verdict(types),
        everything(types, &result.whole)
    )
}

/// Which share of a cost is not true sharing, and why.
pub(crate) fn potential(out: &mut Text, machine: &str, names: &str, p: &Potential) {
    let parts = shares(&[
        ("false sharing", p.false_sharing),
        ("cold misses", p.cold),
        ("capacity misses", p.capacity),
        ("unshared", p.unshared),
    ]);
    let (machine, names) = (shown(machine), shown(names));
    let rest = percent(p.false_sharing + p.cold + p.capacity + p.unshared);
    let _ = match parts.is_empty() {
        true if p.cost <= 0.0 => write!(out, "{machine}: {names} costs nothing."),
        true => write!(out, "{machine}: all that {names} costs is true sharing."),
        false => write!(
            out,
            "{machine}: {rest} of the cost of {names} is not true sharing: {parts}."
        ),
    };
    // No bound: words that are exchanged together take one transfer on one line, one each on
    // several.
    let _ = match percent(p.true_sharing) {
        none if none == percent(0.0) => writeln!(out),
        share => writeln!(
            out,
            " A layout reduces true sharing ({share}) only by putting words exchanged together on one line."
        ),
    };
}

fn summary(results: &[WhatIf], names: &str) -> Table {
    let subject = results.first().map_or("the type", subject);
    let mut table = Table::of_figures(&[
        "machine",
        subject.trim_start_matches("the "),
        "lines",
        "bytes",
        "cost before",
        "change",
        "of its cost",
        "of all cost",
        "verdict",
    ]);
    for result in results {
        let lines = sizes(result, |s| (s.without_lines, s.with_lines));
        let bytes = sizes(result, |s| (s.without_bytes, s.with_bytes));
        table.add_row(vec![
            format!("{} x{}", result.machine, result.cpus),
            names.to_owned(),
            lines,
            bytes,
            cycles(result.types.without),
            change(&result.types),
            relative(&result.types, result.types.without),
            relative(&result.types, result.whole.without),
            verdict(&result.types).to_owned(),
        ]);
    }
    table
}

/// How often an event happened, in a line.
pub(crate) fn calls(event: &EventCount) -> String {
    let copies = match &event.symbols[..] {
        [only] if *only == event.function => String::new(),
        symbols => format!(" (as {})", symbols.join(", ")),
    };
    format!("{} calls of {}{copies}", event.calls, event.function)
}

fn per_call(results: &[WhatIf], event: &EventCount) -> Table {
    let mut table = Table::of_figures(&["machine", "per call", "before", "change"]);
    let calls = event.calls as f64;
    for result in results {
        for (of, measure) in [
            (format!("cycles, {}", subject(result)), &result.types),
            ("cycles, everything".into(), &result.whole),
            ("LLC misses, the kernel".into(), &result.llc_misses.kernel),
        ] {
            table.add_row(vec![
                result.machine.clone(),
                of,
                format!("{:.3}", measure.without / calls),
                format!(
                    "{:+.3} ± {:.3}",
                    measure.difference / calls,
                    measure.ci95 / calls
                ),
            ]);
        }
    }
    table
}

fn sizes(result: &WhatIf, figure: impl Fn(&TypeSize) -> (u64, u64)) -> String {
    let one = |size| match figure(size) {
        (a, b) if a == b => a.to_string(),
        (a, b) => format!("{a} to {b}"),
    };
    result.sizes.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn details(out: &mut Text, result: &WhatIf, top: usize) {
    totals(out, result);
    for (title, counted, list) in [
        ("cause", "misses before", &result.causes),
        // Those that were served by the core's own caches are not misses.
        ("source", "accesses before", &result.sources),
        ("field", "misses before", &result.fields),
        (
            "function (all accesses)",
            "misses before",
            &result.functions,
        ),
    ] {
        rows(out, result, [title, counted], list, top);
    }
    changes(out, &result.sets);
    if !result.ablation.is_empty() {
        ablation(out, result);
    }
    objects(out, result);
    let _ = writeln!(out);
}

/// The changes of the type, of everything, and of what is under the requested function.
fn totals(out: &mut Text, result: &WhatIf) {
    let mut totals = Table::of_figures(&["", "before", "change", "share", "verdict"]);
    let types = format!("LLC misses: {}", subject(result));
    let all = [
        (subject(result), &result.types),
        ("everything", &result.whole),
        ("duration", &result.duration),
        ("CPU time", &result.time.cycles),
        (types.as_str(), &result.llc_misses.types),
        ("LLC misses: the kernel", &result.llc_misses.kernel),
        (
            "LLC misses: the kernel's loads",
            &result.llc_misses.kernel_loads,
        ),
        ("LLC misses: everything", &result.llc_misses.whole),
    ];
    for (name, measure) in all.into_iter().filter(|(_, measure)| shows_change(measure)) {
        totals.add_row(vec![
            name.to_owned(),
            cycles(measure.without),
            change(measure),
            relative(measure, measure.without),
            verdict(measure).to_owned(),
        ]);
    }
    if let Some(under) = &result.under {
        under_rows(&mut totals, under);
    }
    if !totals.is_empty() {
        out.table(totals);
    }
    time(out, result);
    if let Some(under) = &result.under {
        let share = |part: f64, all: f64| percent(if all > 0.0 { part / all } else { 0.0 });
        let _ = writeln!(
            out,
            "{} and its callees take {} of all cycles before, {} after.",
            shown(&under.function),
            share(under.cycles.without, under.all_cycles.without),
            share(under.cycles.with, under.all_cycles.with)
        );
    }
}

/// What the figure of CPU time rests on, and what it bounds.
fn time(out: &mut Text, result: &WhatIf) {
    let time = &result.time;
    // An answer of an earlier version has none.
    if time.cycles.without <= 0.0 {
        return;
    }
    let share = |part: f64, all: f64| percent(if all > 0.0 { part / all } else { 0.0 });
    let _ = writeln!(
        out,
        "CPU time: {} at work, queueing for lines (closed queueing network). The busiest line is held {} of the time before, {} after; waiting for lines takes {} and {} of CPU time, memory at most {}.",
        counted(time.cpus, "CPU"),
        percent(time.busiest.without),
        percent(time.busiest.with),
        share(time.waiting.without, time.cycles.without),
        share(time.waiting.with, time.cycles.with),
        percent(time.memory),
    );
}

/// What became of objects and accesses: moved, paired, followed, removed.
fn objects(out: &mut Text, result: &WhatIf) {
    if result.relocated > 0 {
        let _ = writeln!(out, "{} objects got new addresses.", result.relocated);
    }
    if let Some(halves) = in_either_half(result.in_either_half) {
        let _ = writeln!(out, "{halves}");
    }
    if result.on_stacks > 0 {
        let _ = writeln!(
            out,
            "{} accesses are to objects on programs' stacks, which the edits do not move.",
            result.on_stacks
        );
    }
    for paired in &result.paired {
        let _ = writeln!(
            out,
            "colocate: {} pairs; {} and {} objects stayed alone.",
            paired.pairs, paired.first_alone, paired.second_alone
        );
    }
    for followed in &result.followed {
        let _ = writeln!(
            out,
            "skip array of {}: of {} objects whose pointer is loaded, {} have a known array.",
            followed.pointer, followed.owners, followed.arrays
        );
    }
    if result.skipped > 0 {
        let _ = writeln!(
            out,
            "{} of {} accesses are removed.",
            result.skipped, result.accesses
        );
    }
}

/// What changes while a function is on the stack.
fn under_rows(totals: &mut Table, under: &UnderChange) {
    let name = shown(&under.function);
    for (what, measure) in [
        (format!("under {name}"), &under.cost),
        (
            format!("under {name}: instructions and stalls"),
            &under.cycles,
        ),
        (format!("LLC misses: under {name}"), &under.llc_misses),
    ] {
        totals.add_row(vec![
            what,
            cycles(measure.without),
            change(measure),
            relative(measure, measure.without),
            verdict(measure).to_owned(),
        ]);
    }
}

/// The rows of a list that changed. `titles`: of the first column, and of the counts.
fn rows(out: &mut Text, result: &WhatIf, titles: [&str; 2], list: &[MeasuredRow], top: usize) {
    let of_type = result.types.without;
    let of_subject = match subject(result) {
        "the type" => "of its type",
        _ => "of the data",
    };
    let changed = |row: &&MeasuredRow| {
        let count = &row.count;
        shows_change(&row.cycles) || cycles(count.without) != cycles(count.with)
    };
    let changed: Vec<&MeasuredRow> = list.iter().filter(changed).collect();
    let mut table = Table::of_figures(&[
        titles[0],
        titles[1],
        "after",
        "cycles before",
        "change",
        of_subject,
        "of all",
        "verdict",
    ]);
    for row in changed.iter().take(top) {
        table.add_row(vec![
            row.name.clone(),
            cycles(row.count.without),
            cycles(row.count.with),
            cycles(row.cycles.without),
            change(&row.cycles),
            relative(&row.cycles, of_type),
            relative(&row.cycles, result.whole.without),
            verdict_of(&row.cycles, of_type).to_owned(),
        ]);
    }
    if !table.is_empty() {
        out.table(table);
    }
    more(out, changed.len(), top);
    let same = list.len() - changed.len();
    if same > 0 {
        let _ = writeln!(
            out,
            "({}: {} without change)",
            titles[0],
            counted(same, "row")
        );
    }
}

fn ablation(out: &mut Text, result: &WhatIf) {
    let mut table = Table::of_figures(&["edit", "alone", "last", "verdict"]);
    let figure = |measure: &Option<Measure>| match measure {
        Some(m) => format!("{} ({})", change(m), relative(m, result.types.without)),
        None => "-".to_owned(),
    };
    for edit in &result.ablation {
        let says = match (&edit.why_not, &edit.last) {
            (Some(why), _) => why.clone(),
            (None, Some(last)) => verdict(last).to_owned(),
            (None, None) => String::new(),
        };
        table.add_row(vec![
            edit.edit.clone(),
            figure(&edit.alone),
            figure(&edit.last),
            says,
        ]);
    }
    out.table(table);
}
