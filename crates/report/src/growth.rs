//! How accesses grow with the number of CPUs.

mod held_out;

use std::fmt::Write as _;

use linemate_answers::{GrowthBy, GrowthDocument, Prediction};
use linemate_text::{short, shown};

use crate::print::{more, percent};
use crate::{Table, Text};

/// At most `top` rows, the check, then the series.
#[must_use]
pub fn growth_text(document: &GrowthDocument, top: usize) -> Text {
    let mut out = Text::default();
    out.table(table(document, top));
    more(&mut out, document.rows.len(), top);
    if let Some(against) = &document.against {
        held_out::write(against, &mut out, top);
    }
    series(document, &mut out);
    out
}

/// What the figures rest on.
fn series(document: &GrowthDocument, out: &mut Text) {
    // Writing to a text does not fail.
    let _ = writeln!(
        out,
        "\nlinemate {}, kernel {}",
        document.tool,
        shown(&document.kernel)
    );
    for recording in &document.recordings {
        let _ = writeln!(
            out,
            "  {} CPUs: `{}`, {} accesses, {} per CPU",
            recording.cpus,
            shown(&recording.command),
            recording.accesses,
            short(recording.accesses as f64 / recording.cpus as f64)
        );
    }
    let _ = writeln!(
        out,
        "  run-to-run noise {} (prior: {:.1} d.f.); intervals {:.2} times as wide as from noise alone",
        percent(document.noise.relative),
        document.noise.freedom,
        document.stretch
    );
}

fn table(document: &GrowthDocument, top: usize) -> Table {
    let mut header: Vec<String> = columns(document).iter().map(|n| (*n).to_owned()).collect();
    let recorded = document.recordings.iter();
    header.extend(recorded.map(|recording| format!("on {}", recording.cpus)));
    header.extend(["a", "b", "c", "weight", "residual"].map(str::to_owned));
    header.extend([
        format!("predicted on {}", document.cpus),
        "factor".to_owned(),
    ]);
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = Table::new(&header);
    table.align(columns(document).len());
    for row in document.rows.iter().take(top) {
        let mut cells = named(document.by, &row.function, &row.field);
        cells.extend(row.recorded.iter().map(|rate| short(*rate)));
        cells.extend([short(row.a), short(row.b), exponent(row.c)]);
        cells.extend([percent(row.share), percent(row.residual)]);
        cells.push(interval(&row.predicted));
        cells.push(
            row.times
                .map_or_else(|| "-".to_owned(), |t| format!("{t:.2}")),
        );
        table.add_row(cells);
    }
    table
}

fn columns(document: &GrowthDocument) -> &'static [&'static str] {
    names(document.by)
}

/// The titles of the columns that name a row.
fn names(by: GrowthBy) -> &'static [&'static str] {
    match by {
        GrowthBy::Access => &["function", "field"],
        GrowthBy::Field => &["field"],
        GrowthBy::Function => &["function"],
    }
}

/// A row's names, in those columns.
fn named(by: GrowthBy, function: &str, field: &str) -> Vec<String> {
    let names = match by {
        GrowthBy::Access => vec![function, field],
        GrowthBy::Field => vec![field],
        GrowthBy::Function => vec![function],
    };
    names.into_iter().map(str::to_owned).collect()
}

fn interval(predicted: &Prediction) -> String {
    let [mean, low, high] = [predicted.mean, predicted.low, predicted.high].map(short);
    format!("{mean} ({low} to {high})")
}

/// c as written on paper.
fn exponent(c: f64) -> String {
    match c == 0.5 {
        true => "1/2".to_owned(),
        false => format!("{c:.0}"),
    }
}
