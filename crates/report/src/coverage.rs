//! What edits bring together, and which recordings exercise that, as tables and a verdict.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use linemate_answers::{
    CoverageDocument, CoveredChange, CoveredField, CoveredRecording, LineSpan, NewPair, PairUses,
};
use linemate_text::{short, shown};

use crate::prediction::warn_of_copies;
use crate::print::{counted, more, percent, provenance, relative, verdict};
use crate::{Table, Text};

/// The most names in a cell.
const NAMED: usize = 4;
/// A name that more functions use is that of other types' members, too.
const COMMON: usize = 30;

/// What moves, what the edits change in each recording, the new neighbours and who uses them, at
/// most `top` rows in a table, then the verdict.
#[must_use]
pub fn coverage_text(document: &CoverageDocument, top: usize) -> Text {
    let mut out = Text::default();
    // Writing to a text does not fail.
    let _ = writeln!(out, "edits");
    for line in document.edits.lines() {
        let _ = writeln!(out, "  {}", shown(line));
    }
    let _ = writeln!(out, "\nfields that move or whose accesses change");
    let changed: Vec<_> = document.fields.iter().filter(|of| of.changed).collect();
    for of in changed.iter().take(top) {
        moved(&mut out, document, of);
    }
    more(&mut out, changed.len(), top);
    let _ = writeln!(out, "\nchange in each recording");
    out.table(changes(document));
    let recordings = document.recordings.iter();
    warn_of_copies(&mut out, recordings.map(|of| &of.prediction_error));
    if !document.pairs.is_empty() {
        let _ = writeln!(out, "\nnew neighbours, least exercised first");
        out.table(pairs(document, top));
        more(&mut out, document.pairs.len(), top);
        beginnings(&mut out, document);
        gaps(&mut out, document, top);
    }
    fields(&mut out, document, top);
    source(&mut out, document);
    let _ = writeln!(out, "\n{}", conclusion(document));
    let _ = writeln!(out, "linemate {} (--json: by recording)", document.tool);
    out
}

/// Functions that name a field in the source and use it in no recording.
fn source(out: &mut Text, document: &CoverageDocument) {
    let all = document.fields.iter().filter(|of| !of.unseen.is_empty());
    let (rare, common): (Vec<_>, Vec<_>) = all.partition(|of| of.unseen.len() <= COMMON);
    if rare.is_empty() && common.is_empty() {
        return;
    }
    // Writing to a text does not fail.
    let _ = writeln!(out, "\nnamed in the source, seen in no recording");
    for of in rare {
        let functions: Vec<String> = of.unseen.iter().map(|of| shown(of).to_string()).collect();
        let _ = writeln!(out, "  {}: {}", shown(&of.field), functions.join(", "));
    }
    let common = common.iter();
    let common: Vec<String> = common
        .map(|of| format!("{} ({})", of.field, of.unseen.len()))
        .collect();
    if !common.is_empty() {
        let _ = writeln!(out, "  names too common to list: {}", names(&common));
    }
}

fn names(all: &[String]) -> String {
    let first = all.iter().take(NAMED).map(|name| shown(name).to_string());
    let mut text = first.collect::<Vec<_>>().join(", ");
    if all.len() > NAMED {
        // Writing to a String does not fail.
        let _ = write!(text, " and {} more", all.len() - NAMED);
    }
    text
}

/// A field as tables show it: with its type only where there are several.
fn named(document: &CoverageDocument, type_name: &str, field: &str) -> String {
    let mut types = document.fields.iter().map(|of| &of.type_name);
    match types.all(|name| name == type_name) {
        true => field.to_owned(),
        false => format!("{type_name}.{field}"),
    }
}

fn moved(out: &mut Text, document: &CoverageDocument, of: &CoveredField) {
    let lines = |of: LineSpan| match of.first == of.last {
        true => of.first.to_string(),
        false => format!("{} to {}", of.first, of.last),
    };
    let to = of.to.map_or_else(|| "none".to_owned(), lines);
    let name = named(document, &of.type_name, &of.field);
    // Writing to a text does not fail.
    let _ = match of.to == Some(of.from) {
        true => writeln!(out, "  {}: line {to}", shown(&name)),
        false => writeln!(
            out,
            "  {}: line {} to line {to}",
            shown(&name),
            lines(of.from)
        ),
    };
    for (what, others) in [("joins", &of.joins), ("leaves", &of.leaves)] {
        if !others.is_empty() {
            let _ = writeln!(out, "    {what} {}", names(others));
        }
    }
}

fn changes(document: &CoverageDocument) -> Table {
    let mut table = Table::of_figures(&[
        "recording",
        "machine",
        "of its cost",
        "of all cost",
        "verdict",
    ]);
    for recording in &document.recordings {
        for of in &recording.results {
            table.add_row(vec![
                recording.path.clone(),
                format!("{} x{}", of.machine, of.cpus),
                relative(&of.types, of.types.without),
                relative(&of.types, of.whole.without),
                verdict(&of.types).to_owned(),
            ]);
        }
    }
    table
}

fn pairs(document: &CoverageDocument, top: usize) -> Table {
    let mut table = Table::of_figures(&["pair", "accesses", "max contended", "exercised in"]);
    for pair in document.pairs.iter().take(top) {
        let share = |of: &PairUses| of.contended as f64 / of.accesses().max(1) as f64;
        let most = pair.uses.iter().map(share).fold(0.0, f64::max);
        let first: u64 = pair.uses.iter().map(|of| of.first).sum();
        let second: u64 = pair.uses.iter().map(|of| of.second).sum();
        table.add_row(vec![
            both(document, pair),
            format!("{} + {}", short(first as f64), short(second as f64)),
            percent(most),
            format!("{} of {}", pair.exercised, document.recordings.len()),
        ]);
    }
    table
}

/// Who accesses the fields, over all recordings: most accesses first, without fields that have
/// none.
fn fields(out: &mut Text, document: &CoverageDocument, top: usize) {
    let mut sums: Vec<FieldSum<'_>> = document.fields.iter().map(FieldSum::new).collect();
    sums.retain(|sum| sum.accesses() > 0);
    sums.sort_by_key(|sum| Reverse(sum.accesses()));
    let mut table = Table::of_figures(&["field", "reads", "writes", "most by"]);
    for sum in sums.iter().take(top) {
        table.add_row(vec![
            named(document, &sum.of.type_name, &sum.of.field),
            short(sum.reads() as f64),
            short(sum.writes() as f64),
            sum.most(),
        ]);
    }
    // Writing to a text does not fail.
    let _ = writeln!(out, "\naccesses in all recordings");
    out.table(table);
    more(out, sums.len(), top);
}

/// A field's accesses over all recordings.
struct FieldSum<'d> {
    of: &'d CoveredField,
    functions: BTreeMap<&'d str, FunctionSum>,
}

/// A function's accesses to a field.
#[derive(Clone, Copy, Default)]
struct FunctionSum {
    reads: u64,
    writes: u64,
}

impl FieldSum<'_> {
    fn new(of: &CoveredField) -> FieldSum<'_> {
        let mut functions: BTreeMap<&str, FunctionSum> = BTreeMap::new();
        for function in of.functions.iter().flatten() {
            let sum = functions.entry(&function.name).or_default();
            sum.reads += function.loads;
            sum.writes += function.stores + function.rmws;
        }
        FieldSum { of, functions }
    }

    fn reads(&self) -> u64 {
        self.functions.values().map(|sum| sum.reads).sum()
    }

    fn writes(&self) -> u64 {
        self.functions.values().map(|sum| sum.writes).sum()
    }

    fn accesses(&self) -> u64 {
        self.reads() + self.writes()
    }

    /// The functions with most accesses, each with what it does.
    fn most(&self) -> String {
        let mut all: Vec<_> = self.functions.iter().collect();
        all.sort_by_key(|(_, sum)| Reverse(sum.reads + sum.writes));
        let does = |(name, sum): (&&str, &FunctionSum)| match (sum.reads, sum.writes) {
            (_, 0) => format!("{name} reads"),
            (0, _) => format!("{name} writes"),
            _ => format!("{name} both"),
        };
        names(&all.into_iter().map(does).collect::<Vec<_>>())
    }
}

/// Where the edits lose, and what is not exercised, in a line.
fn conclusion(document: &CoverageDocument) -> String {
    let count = document.recordings.len();
    let is = |word: &'static str| {
        let has =
            move |of: &&CoveredRecording| of.results.iter().any(|of| verdict(&of.types) == word);
        document.recordings.iter().filter(has)
    };
    let (better, worse) = (is("better").count(), is("worse"));
    let worse: Vec<String> = worse.map(losing).collect();
    let mut text = match worse.is_empty() {
        true if better > 0 => format!(
            "Gains in {better} of {}, loses in none.",
            counted(count, "recording")
        ),
        true => format!("Gains in none of {}.", counted(count, "recording")),
        false => format!(
            "Loses in {} of {}: {}.",
            worse.len(),
            counted(count, "recording"),
            worse.join("; ")
        ),
    };
    let open = document.pairs.iter().filter(|pair| pair.exercised == 0);
    let open: Vec<String> = open.map(|pair| both(document, pair)).collect();
    if !open.is_empty() {
        // Writing to a String does not fail.
        let _ = write!(text, " Not exercised: {}.", names(&open));
    }
    text
}

fn losing(of: &CoveredRecording) -> String {
    let worse = of.results.iter().filter(|of| verdict(&of.types) == "worse");
    let change = |of: &CoveredChange| {
        format!(
            "{} of all on {}",
            relative(&of.types, of.whole.without),
            of.machine
        )
    };
    let changes: Vec<String> = worse.map(change).collect();
    format!(
        "{} ({}: {})",
        shown(&of.path),
        provenance(&of.recording),
        changes.join(", ")
    )
}

fn both(document: &CoverageDocument, pair: &NewPair) -> String {
    format!(
        "{} + {}",
        named(document, &pair.type_name, &pair.first),
        pair.second
    )
}

/// Recordings that are longer than what is counted of pairs.
fn beginnings(out: &mut Text, document: &CoverageDocument) {
    for recording in document.recordings.iter().filter(|of| of.cut) {
        // Writing to a text does not fail.
        let _ = writeln!(
            out,
            "  {}: only the beginning is counted, it has more objects than are distinguished",
            shown(&recording.path)
        );
    }
}

/// By pair, the functions that use it and that no recording has contend for it.
fn gaps(out: &mut Text, document: &CoverageDocument, top: usize) {
    let open = document.pairs.iter().filter(|pair| !pair.alone.is_empty());
    let open: Vec<&NewPair> = open.collect();
    if !open.is_empty() {
        // Writing to a text does not fail.
        let _ = writeln!(
            out,
            "functions that never contend in any recording: a workload that runs them on several CPUs on one object could refute the edits"
        );
    }
    for pair in open.iter().take(top) {
        let name = both(document, pair);
        let _ = writeln!(out, "  {}: {}", shown(&name), names(&pair.alone));
    }
    more(out, open.len(), top);
}

#[cfg(test)]
mod tests {
    use linemate_answers::CoverageDocument;

    use super::*;

    fn recording(path: &str, cut: bool) -> CoveredRecording {
        CoveredRecording {
            prediction_error: None,
            path: path.to_owned(),
            recording: BTreeMap::new(),
            checksum: None,
            cut,
            results: Vec::new(),
        }
    }

    #[test]
    fn a_recording_that_is_not_counted_to_its_end_is_named() {
        let document = CoverageDocument {
            schema: CoverageDocument::SCHEMA.into(),
            tool: String::new(),
            edits: String::new(),
            line_bytes: 64,
            recordings: vec![recording("whole", false), recording("long", true)],
            fields: Vec::new(),
            pairs: Vec::new(),
        };
        let mut out = Text::default();
        beginnings(&mut out, &document);
        let said = out.to_string();
        assert!(said.contains("  long: only the beginning"), "{said}");
        assert!(!said.contains("whole:"), "{said}");
    }
}
