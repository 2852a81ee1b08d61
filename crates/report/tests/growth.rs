//! `growth`: the document of a series with known growth, its text, and the check against a
//! recording that it does not have.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use linemate_answers::{GrowthBy, GrowthDocument};
use linemate_documents::{growth_document, held_out_check};
use linemate_growth::{Growth, RunOfSeries, SeriesCounts};
use linemate_report::growth_text;

/// Accesses per CPU on n CPUs: `scan` does 1000 + 50n to one field, and 4000 to another; `tick`
/// 9000/n.
fn counts(cpus: u64) -> SeriesCounts {
    let rows = [
        ("scan", "rq.cpu", (1000 + 50 * cpus) * cpus),
        ("scan", "rq.lock", 4000 * cpus),
        ("tick", "jiffies\u{1b}[31m", 9000),
    ];
    let mut counts = SeriesCounts::new(RunOfSeries {
        name: format!("{cpus}.data"),
        cpus: cpus as usize,
        kernel: "00ff".to_owned(),
        command: format!("load -c {cpus}"),
        user: false,
        kernel_unnamed: false,
        accesses: rows.iter().map(|row| row.2).sum(),
    });
    for (function, field, accesses) in rows {
        counts.add(function, field, accesses);
    }
    counts
}

fn series() -> Growth {
    Growth::new([4, 8, 16].map(counts).to_vec()).unwrap()
}

fn document(by: GrowthBy) -> GrowthDocument {
    growth_document("0.1.0", &series(), by, 32)
}

#[test]
fn what_grows_most_comes_first() {
    let document = document(GrowthBy::Access);
    let rows: Vec<(&str, f64)> = document
        .rows
        .iter()
        .map(|r| (r.field.as_str(), r.c))
        .collect();
    assert_eq!(
        rows,
        [
            ("rq.cpu", 1.0),
            ("rq.lock", 0.0),
            ("jiffies\u{1b}[31m", -1.0)
        ]
    );
    let first = &document.rows[0];
    assert_eq!(first.recorded, [1200.0, 1400.0, 1800.0]);
    let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 0.03;
    assert!(near(first.a, 1000.0) && near(first.b, 50.0), "{first:?}");
    assert!(near(first.predicted.mean, 2600.0), "{first:?}");
    assert!(near(first.times.unwrap(), 2600.0 / 1800.0), "{first:?}");
}

#[test]
fn the_text_has_the_documents_figures_and_no_escapes_of_a_files() {
    let document = document(GrowthBy::Access);
    let json = serde_json::to_string(&document).unwrap();
    let back: GrowthDocument = serde_json::from_str(&json).unwrap();
    assert_eq!(back, document);
    let text = growth_text(&document, 40).to_string();
    assert!(
        text.contains("8 CPUs: `load -c 8`, 52200 accesses, 6.53 k per CPU"),
        "{text}"
    );
    let row = text.lines().find(|line| line.contains("rq.cpu")).unwrap();
    for part in ["scan", "1.20 k", "1.40 k", "1.80 k", " 1 "] {
        assert!(row.contains(part), "{part}: {row}");
    }
    assert!(text.contains("predicted on 32"), "{text}");
    assert!(
        !text.contains('\u{1b}') && text.contains(r"jiffies\x1b[31m"),
        "{text}"
    );
    let short = growth_text(&document, 1).to_string();
    assert!(
        short.contains("2 more") && !short.contains("rq.lock"),
        "{short}"
    );
}

#[test]
fn rows_of_functions_have_one_name() {
    let document = document(GrowthBy::Function);
    let names: Vec<(&str, &str)> = document
        .rows
        .iter()
        .map(|row| (row.function.as_str(), row.field.as_str()))
        .collect();
    assert_eq!(names, [("scan", ""), ("tick", "")]);
    let text = growth_text(&document, 40).to_string();
    assert!(
        text.contains(" function ") && !text.contains(" field "),
        "{text}"
    );
}

#[test]
fn a_check_shows_errors_and_how_many_intervals_hold() {
    let growth = series();
    let mut other = counts(32);
    // A row that nothing in the series announces.
    other.add("new", "t.new", 32 * 500);
    let check = held_out_check(&growth, &other, GrowthBy::Access).unwrap();
    assert_eq!(check.largest.len(), 1, "fewer rows than 20");
    let all = check.largest[0];
    assert_eq!((all.rows, all.covered), (4, 0.75));
    assert!(
        (0.25..0.28).contains(&all.mean_error),
        "one of four is not foreseen: {all:?}"
    );
    assert_eq!(all.largest_error, 1.0);
    // Without growth: rq.cpu 1800 for 2600, jiffies 562.5 for 281.25, nothing for t.new.
    let without = (800.0 / 2600.0 + 1.0 + 1.0) / 4.0;
    assert!((all.mean_error_without - without).abs() < 1e-9, "{all:?}");
    let new = check.rows.iter().find(|row| row.field == "t.new").unwrap();
    assert_eq!((new.real, new.last, new.covered), (500.0, 0.0, false));
    let mut document = document(GrowthBy::Access);
    document.against = Some(check);
    let text = growth_text(&document, 40).to_string();
    assert!(
        text.contains("Predictions for 32 CPUs against a recording"),
        "{text}"
    );
    assert!(text.contains("75.0 %"), "{text}");
    assert!(held_out_check(&growth, &counts(16), GrowthBy::Access).is_err());
}
