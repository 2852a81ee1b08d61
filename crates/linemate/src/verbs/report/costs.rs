//! `linemate report --machine`: what a recording costs on a described machine.

use std::fmt::Write as _;

use anyhow::Context;
use linemate_layout::Subject;
use linemate_recording::Recording;
use linemate_report::{CostsDocument, Table};
use linemate_study::costs::{CellCost, Cost, CostRun, Costs, LineCost, PairCost, costs};
use linemate_text::shown;

use super::page::Pictures;
use super::{Args, Rows};
use crate::cli::Outcome;
use crate::input;
use crate::output;
use crate::verbs::whatif::{percent, potential};

/// Replays and prints.
pub(super) fn run(
    args: &Args,
    machine: &str,
    recording: &Recording,
    pictures: Pictures<'_>,
) -> anyhow::Result<Outcome> {
    let machine = args.replaying.machine(machine, args.line)?;
    let path = || args.input.path().display().to_string();
    let session = input::ask(args.input.path(), recording, args.keeping)?;
    let subject = args.type_name.clone().map(Subject::Named);
    let run = CostRun {
        machine: &machine,
        conditions: args.replaying.conditions(),
        seed: args.replaying.seed,
    };
    let found = costs(&session, subject.as_ref(), run).with_context(path)?;
    pictures.write(args, &session, recording, Some(run))?;
    if args.json {
        let (tool, type_name) = (env!("CARGO_PKG_VERSION"), args.type_name.as_deref());
        output::json(&CostsDocument::new(
            tool, recording, &machine, type_name, found,
        ))?;
    } else {
        output::text(&text(args, recording, &found))?;
    }
    Ok(Outcome::Fine)
}

fn text(args: &Args, recording: &Recording, costs: &Costs) -> String {
    let mut out = String::new();
    let subject = args.type_name.as_deref().unwrap_or("everything");
    potential(&mut out, &costs.machine, subject, &costs.potential);
    if !recording.description().user {
        let _ = writeln!(
            out,
            "User-mode accesses were not recorded: they would press on the caches, so capacity misses are a lower bound."
        );
    }
    let _ = writeln!(
        out,
        "\nlinemate {}, recording {}",
        env!("CARGO_PKG_VERSION"),
        shown(&args.input.path().to_string_lossy())
    );
    for (key, value) in recording.metadata() {
        let _ = writeln!(out, "  {}: {}", shown(key), shown(value));
    }
    let _ = writeln!(
        out,
        "\n{}: {} CPUs ({} recorded), {}-byte lines, interleaving {}; cycles are those of accesses that leave their core\n",
        costs.machine, costs.cpus, costs.recorded_cpus, costs.line_bytes, costs.seed
    );
    let top = args.top;
    match (&args.type_name, args.by) {
        (Some(_), _) => {
            rows(&mut out, "field", &costs.fields, costs, top);
            lines(&mut out, &costs.lines, top);
        }
        (None, Rows::Type) => rows(&mut out, "type or variable", &costs.types, costs, top),
        (None, Rows::Field) => rows(&mut out, "field", &costs.fields, costs, top),
        (None, Rows::Function) => rows(&mut out, "function", &costs.functions, costs, top),
        (None, Rows::Line) => lines(&mut out, &costs.lines, top),
        (None, Rows::Cpu) => pairs(&mut out, &costs.pairs, top),
    }
    out
}

fn rows(out: &mut String, what: &str, rows: &[Cost], costs: &Costs, top: usize) {
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
        "memory",
        "true sharing",
        "false sharing",
        "cold",
        "capacity",
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
        cells.extend([row.upgrades, row.dram].map(|count| count.to_string()));
        let causes = &row.causes;
        cells.extend(
            [
                causes.true_sharing,
                causes.false_sharing,
                causes.cold,
                causes.capacity,
            ]
            .map(share),
        );
        table.add_row(cells);
    }
    let _ = writeln!(out, "{table}");
    more(out, rows.len(), top);
}

fn pairs(out: &mut String, pairs: &[PairCost], top: usize) {
    let mut table = Table::of_figures(&["wrote last", "taken by", "modified lines", "cycles"]);
    let name = |(cpu, copy): (usize, usize)| match copy {
        0 => format!("CPU {cpu}"),
        _ => format!("CPU {cpu}, copy {copy}"),
    };
    for pair in pairs.iter().take(top) {
        table.add_row(vec![
            name(pair.from),
            name(pair.to),
            pair.hitm.to_string(),
            pair.cycles.to_string(),
        ]);
    }
    let _ = writeln!(out, "{table}");
    more(out, pairs.len(), top);
}

/// The most places of a line that are shown.
const CELLS_MAX: usize = 24;

/// A field of another type is shown from this part of the line's cycles on.
const NEIGHBOUR_PART: u64 = 100;

fn lines(out: &mut String, lines: &[LineCost], top: usize) {
    for line in lines.iter().take(top) {
        let _ = writeln!(
            out,
            "\n{} from byte {}: {} HITM, {} left the core, {} cycles; {} such {} went between cores",
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
        cells.sort_by_key(|(mark, cell)| (std::cmp::Reverse(cell.cycles), *mark, cell.offset));
        let left_out = cells.len().saturating_sub(CELLS_MAX);
        cells.truncate(CELLS_MAX);
        cells.sort_by_key(|(mark, cell)| (cell.offset, *mark, &cell.field));
        let mut table = Table::of_figures(&[
            "offset", "field", "HITM", "loads", "each", "stores", "upgrades", "cycles", "most by",
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
        let _ = writeln!(out, "{table}");
        if left_out > 0 {
            let _ = writeln!(out, "({left_out} more places, with fewer cycles)");
        }
        if cells.iter().any(|(mark, _)| !mark.is_empty()) {
            let _ = writeln!(out, "(+ another type on the same lines, counted there)");
        }
    }
    more(out, lines.len(), top);
}

fn more(out: &mut String, rows: usize, top: usize) {
    if rows > top {
        let _ = writeln!(out, "({} more; --top N shows more)", rows - top);
    }
}
