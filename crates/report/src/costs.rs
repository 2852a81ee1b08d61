//! What a recording costs on a machine, as tables.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use linemate_answers::{
    Balance, By, CellCost, Cost, Costs, CostsDocument, EventCount, LineCost, LockCost,
    MachinePlaces, PairCost, UnderCost, share,
};
use linemate_text::shown;

use crate::headline::{costly, costs_headline};
use crate::prediction::warn_of_copies;
use crate::print::{
    counted, cycles, description, interleavings, mechanisms, more, percent, provenance,
    warn_of_short, warn_of_turns, within,
};
use crate::sets::sets;
use crate::whatifs::{calls as event_calls, potential};
use crate::{Table, Text};

/// What of the costs is shown.
#[derive(Clone, Copy, Debug)]
pub struct CostsTables<'a> {
    /// The recording's file, as given.
    pub path: &'a str,
    /// What rows are, if no type is chosen.
    pub by: By,
    /// The most rows of a table.
    pub top: usize,
    /// Whether user-mode accesses were recorded.
    pub user: bool,
    /// Whether types are also those that cannot be laid out.
    pub all: bool,
    /// Everything about the run.
    pub ledger: bool,
}

/// Which share of the cost is not true sharing, what the figures are of, then the tables.
#[must_use]
pub fn costs_text(document: &CostsDocument, tables: &CostsTables<'_>) -> Text {
    let mut out = Text::default();
    let machines: Vec<Cow<'_, CostsDocument>> = document.by_machine().collect();
    for document in &machines {
        answer(document, &mut out);
    }
    warn_of_copies(&mut out, [&document.costs.prediction_error]);
    warn_of_short(&mut out, document.costs.warm_up);
    warn_of_turns(&mut out, &document.recording);
    for document in &machines {
        on_machine(document, &mut out, tables);
    }
    let costs: Vec<&Costs> = machines.iter().map(|document| &document.costs).collect();
    foot(document, &costs, &mut out, tables);
    out
}

/// What costs most on a machine, or what the requested type costs, and why.
fn answer(document: &CostsDocument, out: &mut Text) {
    let costs = &document.costs;
    if let Some(cost) = &costs.under {
        under(out, &costs.machine, cost);
    }
    let headline = costs_headline(document).filter(|_| costs.under.is_none());
    match (&document.type_name, headline) {
        (None, Some(answer)) => {
            let _ = writeln!(out, "{answer}");
        }
        (name, _) => {
            if let (Some(name), None) = (name, &costs.under) {
                type_line(out, name, costs);
            }
            let subject = subject(name.as_deref(), costs);
            potential(out, &costs.machine, &subject, &costs.potential);
        }
    }
    if let Some(event) = &document.event {
        per_call(out, costs, document.type_name.as_deref(), event);
    }
}

/// Cycles for each call of an event: of the requested type, and of everything.
fn per_call(out: &mut Text, costs: &Costs, type_name: Option<&str>, event: &EventCount) {
    let each = |cycles: u64| cycles as f64 / event.calls.max(1) as f64;
    let asked = match (&costs.under, type_name) {
        (None, None) => None,
        (Some(under), None) => Some(under.cost.cycles),
        (_, Some(_)) => Some(costs.fields.iter().map(|field| field.cycles).sum()),
    };
    let asked = asked.map(|cycles| {
        let subject = subject(type_name, costs);
        format!("{:.3} cycles of {}, ", each(cycles), shown(&subject))
    });
    // Writing to a text does not fail.
    let _ = writeln!(
        out,
        "{}: {}: {}{:.3} cycles of everything per call.",
        shown(&costs.machine),
        event_calls(event),
        asked.unwrap_or_default(),
        each(costs.whole.cycles)
    );
}

/// How a machine was replayed, and its tables.
fn on_machine(document: &CostsDocument, out: &mut Text, tables: &CostsTables<'_>) {
    let costs = &document.costs;
    let _ = writeln!(
        out,
        "\n{}: {} CPUs ({} recorded), {}-byte lines, {}, {}, {}; cycles are those of accesses that leave their core{}\n",
        costs.machine,
        costs.cpus,
        costs.recorded_cpus,
        costs.line_bytes,
        mechanisms(&costs.mechanisms),
        match costs.warm_up {
            Some(_) => "warm",
            None => "cold",
        },
        interleavings(costs.interleavings, costs.seed),
        match &costs.under {
            Some(under) => format!(
                " under {}; shares are of the whole recording's {} cycles",
                shown(&under.cost.name),
                costs.whole.cycles
            ),
            None => String::new(),
        }
    );
    write_tables(document, out, tables);
    groups(document, out, tables.top);
    if !costs.lock_waits.is_empty() {
        let _ = writeln!(out);
        locks(out, &costs.lock_waits, costs, tables.top);
    }
}

fn write_tables(document: &CostsDocument, out: &mut Text, tables: &CostsTables<'_>) {
    let (costs, top) = (&document.costs, tables.top);
    match (&document.type_name, tables.by) {
        (Some(_), By::Type | By::Function | By::Source) => {
            rows(out, "field", &costs.fields, costs, top);
            if let Some(found) = &costs.sets {
                sets(out, found);
            }
            lines(out, &costs.lines, top);
        }
        (Some(_), By::Field) => rows(out, "field", &costs.fields, costs, top),
        (Some(_), By::Line) => lines(out, &costs.lines, top),
        (Some(_), By::Cpu) => type_pairs(out, document, top),
        (None, By::Type) if tables.all => rows(out, TYPES, &costs.types, costs, top),
        (None, By::Type) => rows(out, TYPES, costly(document), costs, top),
        (None, By::Field) => rows(out, "field", &costs.fields, costs, top),
        (None, By::Function) => rows(out, "function", &costs.functions, costs, top),
        (None, By::Source) => rows(out, "source", &costs.sources, costs, top),
        (None, By::Line) => lines(out, &costs.lines, top),
        (None, By::Cpu) => pairs(out, &costs.pairs, top),
    }
}

/// What more CPUs than were recorded wait for, other than lines.
fn groups(document: &CostsDocument, out: &mut Text, top: usize) {
    let Some(groups) = &document.costs.groups else {
        return;
    };
    if groups.no_think_time {
        let _ = writeln!(
            out,
            "\nThe recording has no think time (format 1): instructions before and after a turn's accesses are lost, so CPU groups meet too often; record again."
        );
    }
    let _ = writeln!(
        out,
        "\n{} CPU groups of {} CPUs. CPUs spend {} of their time on lines, {} waiting for locks.",
        groups.groups,
        document.costs.recorded_cpus,
        of_time(&document.costs, document.costs.whole.cycles),
        of_time(
            &document.costs,
            groups.locks.iter().map(|lock| lock.cycles).sum()
        ),
    );
    if !groups.locks.is_empty() {
        locks(out, &groups.locks, &document.costs, top);
    }
}

/// Cycles as a share of the time of all CPUs.
fn of_time(costs: &Costs, cycles: u64) -> String {
    let time = costs.duration as f64 * costs.cpus as f64;
    percent(cycles as f64 / time.max(1.0))
}

/// The waiting for locks.
fn locks(out: &mut Text, waits: &[LockCost], costs: &Costs, top: usize) {
    let head = ["lock", "taken in", "waits", "cycles", "of the CPUs' time"];
    let mut table = Table::of_figures(&head);
    for lock in waits.iter().take(top) {
        table.add_row(vec![
            lock.name.clone(),
            lock.function.clone(),
            lock.waits.to_string(),
            lock.cycles.to_string(),
            of_time(costs, lock.cycles),
        ]);
    }
    out.table(table);
    more(out, waits.len(), top);
}

/// What the figures rest on, the `costs` on all machines.
fn foot(document: &CostsDocument, costs: &[&Costs], out: &mut Text, tables: &CostsTables<'_>) {
    let _ = writeln!(out);
    if let Some(under) = &document.costs.under {
        calls(out, &under.balance);
    } else if document.type_name.is_none() {
        for costs in costs {
            potential(out, &costs.machine, "the recording", &costs.potential);
        }
    }
    if !tables.user {
        let _ = writeln!(
            out,
            "User-mode accesses were not recorded and occupy no cache: capacity misses are a lower bound."
        );
    }
    for costs in costs.iter().filter(|costs| costs.overlapped > 0) {
        let cycles = cycles(costs.overlapped as f64);
        let _ = writeln!(
            out,
            "Overlapping misses saved {cycles} cycles of waiting; no row subtracts them."
        );
    }
    if tables.ledger {
        let (tool, path) = (&document.tool, shown(tables.path));
        let _ = writeln!(out, "\nlinemate {tool}, recording {path}");
        description(out, &document.recording);
    } else {
        let _ = writeln!(
            out,
            "{} (--ledger: details of the run)",
            provenance(&document.recording)
        );
    }
}

/// What the potential is of.
fn subject(type_name: Option<&str>, costs: &Costs) -> String {
    match (type_name, &costs.under) {
        (None, None) => "everything".to_owned(),
        (Some(name), None) => name.to_owned(),
        (None, Some(under)) => shown(&under.cost.name).to_string(),
        (Some(name), Some(under)) => format!("{name} under {}", shown(&under.cost.name)),
    }
}

/// What a type costs, and where its objects are.
fn type_line(out: &mut Text, name: &str, costs: &Costs) {
    let all: u64 = costs.places.iter().map(|row| row.cycles).sum();
    let (own, inside): (Vec<&Cost>, Vec<&Cost>) =
        costs.places.iter().partition(|row| row.name == name);
    let own = own.iter().map(|row| row.cycles).sum();
    let inside = inside.iter().map(|row| (row.name.as_str(), row.cycles));
    let inside: Vec<(&str, u64)> = inside.collect();
    let _ = writeln!(
        out,
        "{} on {}: {all} cycles, {} of all{}.",
        shown(name),
        shown(&costs.machine),
        percent(share(all, costs.whole.cycles)),
        within(own, &inside)
    );
}

/// What a function and all that it calls cost.
fn under(out: &mut Text, machine: &str, cost: &UnderCost) {
    let (cycles, all) = (cost.cycles, cost.all_cycles);
    // Writing to a text does not fail.
    let _ = writeln!(
        out,
        "{machine}: {} and its callees take {:.2} % of all cycles: {} instructions + {} stall cycles, of {} + {}; \
         entered {}.",
        shown(&cost.cost.name),
        100.0 * share(cycles.sum(), all.sum()),
        cycles.instructions,
        cycles.stalls,
        all.instructions,
        all.stalls,
        counted(usize::try_from(cost.entered).unwrap_or(usize::MAX), "time"),
    );
}

/// How far the call stacks can be trusted.
fn calls(out: &mut Text, balance: &Balance) {
    let _ = writeln!(
        out,
        "Call stacks: {:.2} % of {} returns match a recorded call.",
        100.0 * share(balance.matched, balance.returns),
        balance.returns
    );
}

const TYPES: &str = "type or variable";

fn rows<'c>(
    out: &mut Text,
    what: &str,
    rows: impl IntoIterator<Item = &'c Cost>,
    costs: &Costs,
    top: usize,
) {
    let rows: Vec<&Cost> = rows.into_iter().collect();
    let mut table = Table::of_figures(&[
        what,
        "loads",
        "stores",
        "left the core",
        "cycles",
        "share",
        "waited",
        "HITM domain",
        "HITM socket",
        "HITM remote",
        "upgrades",
        "LLC",
        "clean copies",
        "memory",
        "true sharing",
        "false sharing",
        "cold",
        "capacity",
        "unshared",
    ]);
    for row in rows.iter().take(top) {
        let share = |cycles: u64| percent(cycles as f64 / row.cycles.max(1) as f64);
        let mut cells = vec![
            row.name.clone(),
            row.loads.to_string(),
            row.stores.to_string(),
            row.misses.to_string(),
            row.cycles.to_string(),
            percent(row.cycles as f64 / costs.whole.cycles.max(1) as f64),
            share(row.waited),
        ];
        cells.extend(row.hitm.map(|count| count.to_string()));
        let others = [row.upgrades, row.llc, row.forwards, row.dram];
        cells.extend(others.map(|count| count.to_string()));
        let causes = &row.causes;
        cells.extend(
            [
                causes.true_sharing,
                causes.false_sharing,
                causes.cold,
                causes.capacity,
                causes.unshared,
            ]
            .map(share),
        );
        table.add_row(cells);
    }
    out.table(table);
    more(out, rows.len(), top);
}

fn cpu_name(cpu: usize, copy: usize) -> String {
    match copy {
        0 => format!("CPU {cpu}"),
        _ => format!("CPU {cpu}, copy {copy}"),
    }
}

fn pairs(out: &mut Text, pairs: &[PairCost], top: usize) {
    let mut table = Table::of_figures(&["wrote last", "taken by", "modified lines", "cycles"]);
    for pair in pairs.iter().take(top) {
        table.add_row(vec![
            cpu_name(pair.from.0, pair.from.1),
            cpu_name(pair.to.0, pair.to.1),
            pair.hitm.to_string(),
            pair.cycles.to_string(),
        ]);
    }
    out.table(table);
    more(out, pairs.len(), top);
}

/// Who took a type's modified lines from whom: the sums over its lines.
fn type_pairs(out: &mut Text, document: &CostsDocument, top: usize) {
    let costs = &document.costs;
    let mut sums: BTreeMap<(u16, u16), u64> = BTreeMap::new();
    for pair in costs.lines.iter().flat_map(|line| &line.pairs) {
        *sums.entry((pair.from, pair.to)).or_default() += pair.hitm;
    }
    let mut sums: Vec<((u16, u16), u64)> = sums.into_iter().collect();
    sums.sort_by_key(|(pair, hitm)| (Reverse(*hitm), *pair));
    let name = |number: u16| match costs.pairs_by {
        MachinePlaces::Cpu => match document.cpus.get(usize::from(number)) {
            Some(place) => cpu_name(place.cpu.0, place.cpu.1),
            None => format!("CPU {number}"),
        },
        MachinePlaces::Domain => format!("LLC domain {number}"),
        MachinePlaces::Socket => format!("socket {number}"),
    };
    let mut table = Table::of_figures(&["wrote last", "taken by", "modified lines"]);
    for ((from, to), hitm) in sums.iter().take(top) {
        table.add_row(vec![name(*from), name(*to), hitm.to_string()]);
    }
    out.table(table);
    more(out, sums.len(), top);
}

/// The most places of a line that are shown.
const CELLS_MAX: usize = 24;

/// A field of another type is shown from this part of the line's cycles on.
const NEIGHBOUR_PART: u64 = 100;

fn lines(out: &mut Text, lines: &[LineCost], top: usize) {
    for line in lines.iter().take(top) {
        let _ = writeln!(
            out,
            "\n{}, line at byte {}: {} HITM, {} left the core, {} cycles; {} such {} moved between cores",
            shown(&line.name),
            line.start,
            line.hitm,
            line.misses,
            line.cycles,
            line.lines,
            if line.lines == 1 { "line" } else { "lines" }
        );
        let own = line.cells.iter().map(|cell| ("", cell));
        // Of memory that was another type's before, a trace is left of nearly everything.
        let others = line.neighbours.iter();
        let others = others.filter(|cell| cell.cycles * NEIGHBOUR_PART >= line.cycles);
        let others = others.map(|cell| ("+ ", cell));
        let mut cells: Vec<(&str, &CellCost)> = own.chain(others).collect();
        cells.sort_by_key(|(mark, cell)| (Reverse(cell.cycles), *mark, cell.offset));
        let left_out = cells.len().saturating_sub(CELLS_MAX);
        cells.truncate(CELLS_MAX);
        cells.sort_by_key(|(mark, cell)| (cell.offset, *mark, &cell.field));
        let mut table = Table::of_figures(&[
            "offset",
            "field",
            "HITM",
            "load misses",
            "mean",
            "store misses",
            "upgrades",
            "cycles",
            "most by",
        ]);
        for (mark, cell) in &cells {
            table.add_row(vec![
                cell.offset.to_string(),
                format!("{mark}{}", cell.field),
                cell.hitm.to_string(),
                cell.loads.to_string(),
                format!("{:.0}", cell.cycles_per_load),
                cell.stores.to_string(),
                cell.upgrades.to_string(),
                cell.cycles.to_string(),
                cell.functions.join(", "),
            ]);
        }
        out.table(table);
        if left_out > 0 {
            let _ = writeln!(out, "({left_out} more places, with fewer cycles)");
        }
        if cells.iter().any(|(mark, _)| !mark.is_empty()) {
            let _ = writeln!(
                out,
                "(+ another object on the same lines, counted in its own row)"
            );
        }
    }
    more(out, lines.len(), top);
}
