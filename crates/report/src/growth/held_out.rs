//! A series' predictions, compared with a recording that it does not have.

use std::fmt::Write as _;

use linemate_answers::HeldOutCheck;
use linemate_text::short;

use super::{interval, named, names};
use crate::print::{more, percent};
use crate::{Table, Text};

pub(super) fn write(check: &HeldOutCheck, out: &mut Text, top: usize) {
    // Writing to a text does not fail.
    let _ = writeln!(
        out,
        "\nPredictions for {} CPUs against a recording outside the series: {} accesses",
        check.recording.cpus, check.recording.accesses
    );
    let mut table = Table::of_figures(&[
        "busiest rows",
        "of all",
        "mean error",
        "largest error",
        "mean error without growth",
        "in their interval",
    ]);
    for share in &check.largest {
        let figures = [
            share.accesses,
            share.mean_error,
            share.largest_error,
            share.mean_error_without,
            share.covered,
        ];
        let mut cells = vec![share.rows.to_string()];
        cells.extend(figures.map(percent));
        table.add_row(cells);
    }
    out.table(table);
    let _ = writeln!(out);
    let mut header = names(check.by).to_vec();
    header.extend(["recorded", "predicted", "error", "in interval"]);
    let mut table = Table::new(&header);
    table.align(names(check.by).len());
    for row in check.rows.iter().take(top) {
        let mut cells = named(check.by, &row.function, &row.field);
        let error = row.error.map(|error| format!("{:+.1} %", 100.0 * error));
        let covered = if row.covered { "yes" } else { "no" };
        cells.extend([short(row.real), interval(&row.predicted)]);
        cells.push(error.unwrap_or_else(|| "-".to_owned()));
        cells.push(covered.to_owned());
        table.add_row(cells);
    }
    out.table(table);
    more(out, check.rows.len(), top);
}
