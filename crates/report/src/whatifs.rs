//! What another layout would cost, as tables.

use std::fmt::Write as _;

use linemate_study::effect::{Potential, Row, Size, UnderChange};
use linemate_study::stats::Measure;
use linemate_study::{EventCount, WhatIf};
use linemate_text::shown;

use crate::changes::changed_lines;
use crate::print::{
    change, cycles, description, mechanisms, more, percent, relative, verdict, warn_of_short,
};
use crate::sets::changes;
use crate::{Table, Text, WhatIfDocument};

impl WhatIfDocument {
    /// How much of the cost a layout can change, what the figures are of, then the effect on each machine with at most `top` rows in a
    /// table. `path`: the recording's file.
    #[must_use]
    pub fn text(&self, path: &str, top: usize) -> Text {
        let names = self.type_names();
        let mut out = Text::default();
        for result in &self.results {
            potential(&mut out, &result.machine, &names, &result.potential);
        }
        warn_of_short(&mut out, self.results.first().and_then(|r| r.warm_up));
        // Writing to a String does not fail.
        let _ = writeln!(out, "\nlinemate {}, recording {}", self.tool, shown(path));
        description(&mut out, &self.recording);
        let _ = writeln!(out, "\nedits");
        for line in self.edits.lines() {
            let _ = writeln!(out, "  {line}");
        }
        let _ = writeln!(out);
        out.table(summary(&self.results, &names));
        if let Some(event) = &self.event {
            let _ = writeln!(out, "{}", calls(event));
            out.table(per_call(&self.results, event));
        }
        for result in &self.results {
            let _ = writeln!(
                out,
                "{}: {} CPUs ({} recorded), {}-byte lines, {}, {}interleavings {} to {}{}; cycles are those of accesses that leave their core",
                result.machine,
                result.cpus,
                result.recorded_cpus,
                result.line_bytes,
                mechanisms(&result.mechanisms),
                match (result.warm_up, result.llc_share) {
                    (Some(_), true) => "warm, their share of each cache, ",
                    (Some(_), false) => "warm, ",
                    (None, true) => "cold, their share of each cache, ",
                    (None, false) => "cold, ",
                },
                result.seed,
                result.seed.wrapping_add(result.interleavings as u64 - 1),
                match result.interleavings < result.interleavings_max {
                    true => format!(" (enough of {})", result.interleavings_max),
                    false => String::new(),
                }
            );
            let layouts = self.layouts.iter();
            for change in layouts.filter(|change| change.line_bytes == result.line_bytes) {
                changed_lines(&mut out, change, result, top);
            }
            details(&mut out, result, top);
        }
        out
    }

    /// The types that are reported.
    fn type_names(&self) -> String {
        let sizes = self.results.first().map_or(&[][..], |result| &result.sizes);
        let names: Vec<&str> = sizes.iter().map(|size| size.name.as_str()).collect();
        names.join(", ")
    }
}

/// How much of a cost a layout can change at all.
pub(crate) fn potential(out: &mut Text, machine: &str, names: &str, p: &Potential) {
    let _ = writeln!(
        out,
        "{machine}: of what {names} costs, a layout can change {} at most: false sharing {}, cold misses {}, capacity misses {}, \
         unshared {}. True sharing, {}, stays, except for words that share a line.",
        percent(p.false_sharing + p.cold + p.capacity + p.unshared),
        percent(p.false_sharing),
        percent(p.cold),
        percent(p.capacity),
        percent(p.unshared),
        percent(p.true_sharing),
    );
}

fn summary(results: &[WhatIf], names: &str) -> Table {
    let mut table = Table::of_figures(&[
        "machine",
        "type",
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
            ("cycles, the type", &result.types),
            ("cycles, everything", &result.whole),
            ("LLC misses, the kernel", &result.llc_misses.kernel),
        ] {
            table.add_row(vec![
                result.machine.clone(),
                of.to_owned(),
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

fn sizes(result: &WhatIf, figure: impl Fn(&Size) -> (u64, u64)) -> String {
    let one = |size| match figure(size) {
        (a, b) if a == b => a.to_string(),
        (a, b) => format!("{a} to {b}"),
    };
    result.sizes.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn details(out: &mut Text, result: &WhatIf, top: usize) {
    let whole = result.whole.without;
    let mut totals = Table::of_figures(&["", "before", "change", "share", "verdict"]);
    for (name, measure) in [
        ("the type", &result.types),
        ("everything", &result.whole),
        ("duration", &result.duration),
        ("LLC misses: the type", &result.llc_misses.types),
        ("LLC misses: the kernel", &result.llc_misses.kernel),
        ("LLC misses: its loads", &result.llc_misses.kernel_loads),
        ("LLC misses: everything", &result.llc_misses.whole),
    ] {
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
    out.table(totals);
    if let Some(under) = &result.under {
        let share = |part: f64, all: f64| percent(if all > 0.0 { part / all } else { 0.0 });
        let _ = writeln!(
            out,
            "{} and all that it calls take {} of all cycles before, {} after.",
            shown(&under.function),
            share(under.cycles.without, under.all_cycles.without),
            share(under.cycles.with, under.all_cycles.with)
        );
    }
    for (title, list) in [
        ("cause", &result.causes),
        ("source", &result.sources),
        ("field", &result.fields),
        ("function (all accesses)", &result.functions),
    ] {
        rows(out, title, list, top, result.types.without, whole);
    }
    changes(out, &result.sets);
    if !result.ablation.is_empty() {
        ablation(out, result);
    }
    if result.relocated > 0 {
        let _ = writeln!(out, "{} objects got new addresses.", result.relocated);
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
            "skip array of {}: of {} objects whose pointer is loaded, the array of {} is known.",
            followed.pointer, followed.owners, followed.arrays
        );
    }
    if result.skipped > 0 {
        let _ = writeln!(
            out,
            "{} of {} accesses did not happen.",
            result.skipped, result.accesses
        );
    }
    let _ = writeln!(out);
}

/// What changes while a function is on the stack.
fn under_rows(totals: &mut Table, under: &UnderChange) {
    let name = shown(&under.function);
    for (what, measure) in [
        (format!("under {name}"), &under.cost),
        (
            format!("under {name}: instructions and waiting"),
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

fn rows(out: &mut Text, title: &str, list: &[Row], top: usize, of_type: f64, of_whole: f64) {
    let mut table = Table::of_figures(&[
        title,
        "misses before",
        "after",
        "cycles before",
        "change",
        "of its type",
        "of all",
        "verdict",
    ]);
    for row in list.iter().take(top) {
        table.add_row(vec![
            row.name.clone(),
            cycles(row.count.without),
            cycles(row.count.with),
            cycles(row.cycles.without),
            change(&row.cycles),
            relative(&row.cycles, of_type),
            relative(&row.cycles, of_whole),
            verdict(&row.cycles).to_owned(),
        ]);
    }
    out.table(table);
    more(out, list.len(), top);
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
