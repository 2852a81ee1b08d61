//! Two recordings field by field.

use std::borrow::Cow;
use std::fmt::Write as _;

use linemate_study::diff::{Fields, Figures, Row, compare};
use linemate_text::shown;
use serde::{Deserialize, Serialize};

use crate::print::{interleavings, more, percent};
use crate::whatifs::calls;
use crate::{Table, Text};

/// What `linemate diff --json` writes (docs/reference/json/whatif.md).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffDocument {
    /// [`DiffDocument::SCHEMA`].
    pub schema: Cow<'static, str>,
    /// The version of linemate.
    pub tool: String,
    /// The type that was asked for.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// The machine that costs are of; none: there are no costs.
    pub machine: Option<String>,
    /// The interleaving's seed.
    pub seed: u64,
    /// Over how many interleavings costs are a mean: one.
    pub interleavings: usize,
    /// The first recording.
    pub a: Fields,
    /// The second one.
    pub b: Fields,
}

impl DiffDocument {
    /// The schema's name and version.
    pub const SCHEMA: &str = "linemate.diff/2";

    /// The document of two recordings' fields, made by version `tool`.
    #[must_use]
    pub fn new(
        tool: &str,
        type_name: Option<String>,
        machine: Option<String>,
        seed: u64,
        [a, b]: [Fields; 2],
    ) -> Self {
        DiffDocument {
            schema: Self::SCHEMA.into(),
            tool: tool.to_owned(),
            type_name,
            machine,
            seed,
            interleavings: 1,
            a,
            b,
        }
    }

    /// How the recordings differ in all, then at most `top` fields, the largest first, and what the figures are of. `names`: of the
    /// recordings.
    #[must_use]
    pub fn text(&self, names: [&str; 2], top: usize) -> Text {
        let mut out = Text::default();
        // Writing to a String does not fail.
        let _ = writeln!(out, "{}\n", self.headline());
        let mut header = vec!["field", "loads A", "loads B", "stores A", "stores B"];
        header.extend(match self.has_events() {
            true => ["per call A", "per call B", "in per cent"],
            false => ["per million A", "per million B", "in per cent"],
        });
        if self.machine.is_some() {
            header.extend(["cycles A", "cycles B", "change"]);
            header.extend(match self.has_events() {
                true => [
                    "cycles per call A",
                    "cycles per call B",
                    "cycles in per cent",
                ],
                false => ["cycles each A", "cycles each B", "cycles in per cent"],
            });
        }
        let mut table = Table::of_figures(&header);
        let rows = compare(&self.a, &self.b);
        for row in rows.iter().take(top) {
            table.add_row(self.cells(row));
        }
        out.table(table);
        more(&mut out, rows.len(), top);
        self.inputs(&mut out, names);
        out
    }

    /// All fields together in both recordings.
    fn headline(&self) -> String {
        let sum = |fields: &Fields, figure: fn(&Figures) -> u64| -> u64 {
            fields.fields.values().map(figure).sum()
        };
        let touched = |fields| sum(fields, |f| f.loads + f.stores);
        let (a, b) = (
            self.scaled(&self.a, touched(&self.a)),
            self.scaled(&self.b, touched(&self.b)),
        );
        let per = match self.has_events() {
            true => "accesses per call",
            false => "accesses per million",
        };
        let cycles = self.machine.as_ref().map_or(String::new(), |machine| {
            let (a, b) = (sum(&self.a, |f| f.cycles), sum(&self.b, |f| f.cycles));
            format!(
                "; on {}, {a} cycles in A, {b} in B ({})",
                shown(machine),
                in_per_cent(a as f64, b as f64)
            )
        });
        format!(
            "{}: {} {per} in A, {} in B ({}){cycles}.",
            shown(self.type_name.as_deref().unwrap_or("all types")),
            self.figure(a),
            self.figure(b),
            in_per_cent(a, b)
        )
    }

    /// What the figures are of.
    fn inputs(&self, out: &mut Text, names: [&str; 2]) {
        let _ = writeln!(out);
        if !self.has_events() {
            let _ = writeln!(
                out,
                "per million: accesses to the field per million accesses of its recording"
            );
        }
        if let Some(machine) = &self.machine {
            let _ = writeln!(
                out,
                "cycles of accesses that leave their core, on {}, {}",
                shown(machine),
                interleavings(self.interleavings, self.seed)
            );
        }
        let [a, b] = names;
        for (side, name, fields) in [("A", a, &self.a), ("B", b, &self.b)] {
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
        let _ = writeln!(out, "linemate {}", self.tool);
    }

    /// Accesses per call of the event, else of each million of the recording's.
    fn scaled(&self, fields: &Fields, accesses: u64) -> f64 {
        match &fields.event {
            Some(event) if self.has_events() => accesses as f64 / event.calls.max(1) as f64,
            _ => 1e6 * accesses as f64 / fields.accesses.max(1) as f64,
        }
    }

    /// A figure of [`DiffDocument::scaled`].
    fn figure(&self, figure: f64) -> String {
        match self.has_events() {
            true => format!("{figure:.3}"),
            false => format!("{figure:.1}"),
        }
    }

    /// Whether figures are told per call.
    fn has_events(&self) -> bool {
        self.a.event.is_some() && self.b.event.is_some()
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let show = |side: &Option<Figures>, figure: fn(&Figures) -> u64| {
            side.as_ref()
                .map_or_else(|| "-".to_owned(), |f| figure(f).to_string())
        };
        let of =
            |side: &Option<Figures>, figure: fn(&Figures) -> u64| side.as_ref().map_or(0, figure);
        let accesses = |f: &Figures| f.loads + f.stores;
        let mut cells = vec![row.path.clone()];
        for figure in [|f: &Figures| f.loads, |f: &Figures| f.stores] {
            cells.push(show(&row.a, figure));
            cells.push(show(&row.b, figure));
        }
        let (a, b) = (
            self.scaled(&self.a, of(&row.a, accesses)),
            self.scaled(&self.b, of(&row.b, accesses)),
        );
        cells.extend([self.figure(a), self.figure(b), in_per_cent(a, b)]);
        if self.machine.is_some() {
            let cycles = |f: &Figures| f.cycles;
            let (a, b) = (of(&row.a, cycles), of(&row.b, cycles));
            cells.push(show(&row.a, cycles));
            cells.push(show(&row.b, cycles));
            cells.push(format!("{:+}", i128::from(b) - i128::from(a)));
            let each = |side, fields: &Fields, cycles: u64| {
                let calls = fields.event.as_ref().map(|event| event.calls);
                cycles as f64 / calls.unwrap_or_else(|| of(side, accesses)).max(1) as f64
            };
            let (a, b) = (each(&row.a, &self.a, a), each(&row.b, &self.b, b));
            cells.extend([format!("{a:.2}"), format!("{b:.2}"), in_per_cent(a, b)]);
        }
        cells
    }
}

/// The change from `a` to `b` in per cent of `a`; `-` of nothing.
fn in_per_cent(a: f64, b: f64) -> String {
    match a > 0.0 {
        true => format!("{:+.1} %", 100.0 * (b - a) / a),
        false => "-".to_owned(),
    }
}
