//! What a recording costs on a machine, as tables.

use std::cmp::Reverse;
use std::fmt::Write as _;

use linemate_study::costs::{CellCost, Cost, Costs, LineCost, PairCost};
use linemate_text::shown;

use crate::print::{description, more, percent};
use crate::whatifs::potential;
use crate::{By, CostsDocument, Table};

/// What of the costs is shown.
#[derive(Clone, Copy, Debug)]
pub struct CostsTables<'a> {
    /// The recording's file.
    pub path: &'a str,
    /// What rows are, if no type is chosen.
    pub by: By,
    /// The most rows of a table.
    pub top: usize,
    /// Whether user-mode accesses were recorded.
    pub user: bool,
}

impl CostsDocument {
    /// How much of the cost a layout can change, what the figures are of, then the tables.
    #[must_use]
    pub fn text(&self, tables: &CostsTables<'_>) -> String {
        let mut out = String::new();
        let costs = &self.costs;
        let subject = self.type_name.as_deref().unwrap_or("everything");
        potential(&mut out, &costs.machine, subject, &costs.potential);
        // Writing to a String does not fail.
        if !tables.user {
            let _ = writeln!(
                out,
                "User-mode accesses were not recorded: they would press on the caches, so capacity misses are a lower bound."
            );
        }
        let _ = writeln!(
            out,
            "\nlinemate {}, recording {}",
            self.tool,
            shown(tables.path)
        );
        description(&mut out, &self.recording);
        let _ = writeln!(
            out,
            "\n{}: {} CPUs ({} recorded), {}-byte lines, interleaving {}; cycles are those of accesses that leave their core\n",
            costs.machine, costs.cpus, costs.recorded_cpus, costs.line_bytes, costs.seed
        );
        let top = tables.top;
        match (&self.type_name, tables.by) {
            (Some(_), _) => {
                rows(&mut out, "field", &costs.fields, costs, top);
                lines(&mut out, &costs.lines, top);
            }
            (None, By::Type) => rows(&mut out, "type or variable", &costs.types, costs, top),
            (None, By::Field) => rows(&mut out, "field", &costs.fields, costs, top),
            (None, By::Function) => rows(&mut out, "function", &costs.functions, costs, top),
            (None, By::Line) => lines(&mut out, &costs.lines, top),
            (None, By::Cpu) => pairs(&mut out, &costs.pairs, top),
        }
        out
    }
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
        cells.sort_by_key(|(mark, cell)| (Reverse(cell.cycles), *mark, cell.offset));
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
