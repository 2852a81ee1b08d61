//! Reports on synthetic recordings as text.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use linemate_answers::{By, View};
use linemate_attribution::Analysis;
use linemate_documents::{ReportOptions, report_document};
use linemate_recording::Recording;
use linemate_report::{ReportText, Text, text};
use linemate_testkit::world::*;
use linemate_types::LineSize;

#[test]
fn a_cut_recording_says_so() {
    let mut w = World::new();
    w.load(0, UNITS[0] + RQ);
    let recording = w.cut();
    let analysis = Analysis::new(&recording).unwrap();
    let counted = analysis.count().unwrap();
    let report = report_document(&analysis, &counted, &options(By::Type, None)).unwrap();
    assert_eq!(report.inputs.checksum, None);
    let show = ReportText {
        top: 10,
        ledger: true,
        line_bytes: 64,
    };
    let page = text(&report, &show).to_string();
    assert!(page.contains("this recording is truncated"), "{page}");
    assert!(page.contains("total (all that was recorded)"), "{page}");
}

#[test]
fn long_turns_of_programs_are_said() {
    let recording = World::new().record();
    let analysis = Analysis::new(&recording).unwrap();
    let counted = analysis.count().unwrap();
    let mut report = report_document(&analysis, &counted, &options(By::Type, None)).unwrap();
    let show = ReportText {
        top: 10,
        ledger: false,
        line_bytes: 64,
    };
    let mut said = |pairs: &[(&str, &str)]| {
        let pairs = pairs
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()));
        report.inputs.recording = pairs.collect();
        text(&report, &show).to_string().contains("Long turns: ")
    };
    let program = ("program", "on");
    assert!(said(&[program, ("cpus", "4")]));
    assert!(said(&[program, ("cpus", "4"), ("turn", "50000")]));
    assert!(!said(&[program, ("cpus", "4"), ("turn", "1000")]));
    assert!(
        !said(&[program, ("cpus", "1")]),
        "nobody to take turns with"
    );
    assert!(!said(&[("cpus", "4")]), "of the kernel turns are short");
}

/// The question: all rows, of a type if one is named.
#[test]
fn a_share_of_unknown_accesses_is_said_where_it_shows() {
    let recording = World::new().record();
    let analysis = Analysis::new(&recording).unwrap();
    let counted = analysis.count().unwrap();
    let mut report = report_document(&analysis, &counted, &options(By::Type, None)).unwrap();
    let show = ReportText {
        top: 10,
        ledger: false,
        line_bytes: 64,
    };
    let mut end = |share: f64| {
        report.ledger.unknown_share = share;
        let page = text(&report, &show).to_string();
        let (_, end) = page.split_once("accesses typed").unwrap();
        end.split_once(" (--ledger").unwrap().0.to_owned()
    };
    assert_eq!(end(0.0312), "; 3.1 % unknown");
    assert_eq!(end(0.0006), "; 0.1 % unknown");
    assert_eq!(end(0.0004), "");
    assert_eq!(end(0.0), "");
}

fn options(by: By, type_name: Option<&str>) -> ReportOptions {
    ReportOptions {
        by,
        type_name: type_name.map(str::to_owned),
        all: true,
        top: 10,
        line: LineSize::B64,
    }
}

fn shown(recording: &Recording, options: &ReportOptions, ledger: bool) -> Text {
    let analysis = Analysis::new(recording).unwrap();
    let counted = analysis.count().unwrap();
    let report = report_document(&analysis, &counted, options).unwrap();
    text(
        &report,
        &ReportText {
            top: 10,
            ledger,
            line_bytes: 64,
        },
    )
}

#[test]
fn types_are_ranked_by_what_is_shared() {
    let mut w = World::new();
    // The owner alone; a clock of CPU 0 that CPU 1 reads; a variable that cannot be laid out.
    for _ in 0..50 {
        w.store(0, TASK_SLAB + 64 + 40);
        w.store(0, COUNTER);
    }
    w.sight(F::WakeTask, TASK_SLAB);
    for _ in 0..10 {
        w.store(0, TASK_SLAB + 64 + 40);
    }
    for _ in 0..3 {
        w.store(0, UNITS[0] + RQ + 64);
        w.load(1, UNITS[0] + RQ + 64);
    }
    w.store(0, UNITS[0] + RQ);
    let recording = w.record();
    let analysis = Analysis::new(&recording).unwrap();
    let counted = analysis.count().unwrap();
    let rows = |all| -> Vec<(String, Option<u64>)> {
        let mut options = options(By::Type, None);
        options.all = all;
        let report = report_document(&analysis, &counted, &options).unwrap();
        let View::Types(rows) = report.view else {
            panic!("rows are types")
        };
        rows.into_iter().map(|row| (row.name, row.shared)).collect()
    };
    let named = |name: &str, shared| (name.to_owned(), shared);
    // The first store and what comes after it: the other CPU's load, and each store after that.
    assert_eq!(rows(false), [named("rq", Some(5)), named("task", Some(0))]);
    let all = rows(true);
    assert_eq!(all[..2], rows(false));
    assert!(
        all.len() > 2 && all[2..].iter().all(|(_, shared)| *shared == Some(0)),
        "{all:?}"
    );
    let mut default = options(By::Type, None);
    default.all = false;
    let page = shown(&recording, &default, false).to_string();
    assert!(
        page.starts_with(
            "Most shared: rq: 5 of its 7 accesses (71.4 %) are to bytes that come from another CPU; "
        ),
        "{page}"
    );
}

#[test]
fn the_answer_comes_first_and_the_ledger_last() {
    let recording = World::queues();
    for (by, type_name) in [
        (By::Type, None),
        (By::Field, None),
        (By::Line, None),
        (By::Function, None),
        (By::Cpu, None),
        (By::Type, Some("rq")),
    ] {
        let options = options(by, type_name);
        let page = shown(&recording, &options, false).to_string();
        let (answer, rest) = page.split_once('\n').unwrap();
        assert!(
            answer.ends_with('.') && answer.contains(" of all"),
            "{answer}"
        );
        assert!(!rest.contains("where the accesses went"), "{rest}");
        let foot = rest.lines().last().unwrap();
        assert!(
            foot.starts_with("Linux 6.12-test, 2 CPUs, seed 42: 240 accesses; "),
            "{foot}"
        );
        let page = shown(&recording, &options, true).to_string();
        let (answer_too, rest) = page.split_once('\n').unwrap();
        assert_eq!(answer_too, answer);
        assert!(rest.contains("\n  kernel: 6.12-test\n"), "{rest}");
        assert!(rest.contains("total (all that was recorded)"), "{rest}");
        assert!(
            rest.lines().last().unwrap().starts_with("Typed: "),
            "{rest}"
        );
    }
}

/// What is printed at this width, against the file of that name: `UPDATE_SNAPSHOTS=1` writes it.
fn snapshot(name: &str, page: &Text) {
    for width in [Some(80), Some(120), Some(200), None] {
        let shown = page.fitted(width);
        if let Some(width) = width {
            for line in shown.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
        let file = match width {
            Some(width) => format!("{name}-{width}.txt"),
            None => format!("{name}-piped.txt"),
        };
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/snapshots")
            .join(file);
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&path, &shown).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap();
        assert_eq!(shown, expected, "{}", path.display());
    }
}

#[test]
fn reports_fit_80_120_and_200_columns() {
    let recording = World::queues();
    snapshot("types", &shown(&recording, &options(By::Type, None), true));
    let mut of_type = shown(&recording, &options(By::Type, Some("rq")), false);
    of_type.explain();
    snapshot("type-rq", &of_type);
    snapshot("lines", &shown(&recording, &options(By::Line, None), false));
}

#[test]
fn a_type_without_accesses_has_no_empty_tables() {
    let mut w = World::new();
    w.store(0, UNITS[0] + RQ);
    let typed = w.record();
    let page = shown(&typed, &options(By::Type, Some("vector")), false).to_string();
    let all = "struct vector: 40 bytes. Every access that could be to it is attributed to another type.\n";
    assert!(page.contains(all), "{page}");
    let mut w = World::new();
    w.store(0, UNITS[0] + RQ);
    w.store(0, KMALLOC_SLAB + 64);
    let recording = w.record();
    let page = shown(&recording, &options(By::Type, Some("vector")), false).to_string();
    assert!(
        page.starts_with("No access is attributed to vector: the recording has the type, but"),
        "{page}"
    );
    assert!(
        page.contains("struct vector: 40 bytes. Accesses attributed to no type"),
        "{page}"
    );
    assert!(
        page.contains("\n cache known, from before the recording "),
        "{page}"
    );
    for title in ["most used first", "used together", "owner", "0 accesses"] {
        assert!(!page.contains(title), "{title}: {page}");
    }
}

#[test]
fn a_pipe_gets_tables_of_a_sensible_width_and_prose_as_it_is() {
    let recording = World::queues();
    let text = shown(&recording, &options(By::Type, None), false);
    let (narrow, whole) = (text.piped(80), text.to_string());
    assert_eq!(narrow.lines().next(), whole.lines().next(), "prose");
    assert!(whole.lines().next().unwrap().len() > 80);
    let row = |text: &str| {
        text.lines()
            .find(|line| line.starts_with(" rq "))
            .map(str::len)
    };
    assert!(
        row(&whole) > Some(80) && row(&narrow) <= Some(80),
        "{narrow}"
    );
    assert!(narrow.contains("(columns hidden: "), "{narrow}");
}
