//! The text of a what-if: its document's figures to the last digit, what the edits do first, and
//! nothing of what they do not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{read_back, row};
use linemate_answers::{
    FieldMap, FieldPlace, KeptLineStart, LayoutChange, Measure, MeasuredRow, Potential, TypeSize,
    WhatIf,
};
use linemate_documents::whatif_document;
use linemate_report::whatif_text;
use linemate_testkit::world::*;

fn measure(without: f64, difference: f64, ci95: f64) -> Measure {
    Measure {
        without,
        with: without + difference,
        difference,
        ci95,
        significant: difference.abs() > ci95,
    }
}

/// Every figure another one, with digits after the point.
fn answer() -> WhatIf {
    let field = |name: &str, at: f64| MeasuredRow {
        name: name.to_owned(),
        count: measure(at + 7.4, -3.25, 1.0),
        cycles: measure(at * 1000.5, -at, 2.5),
    };
    WhatIf {
        machine: "made-up".to_owned(),
        line_bytes: 64,
        cpus: 16,
        recorded_cpus: 8,
        seed: 5,
        interleavings: 8,
        accesses: 123_457,
        potential: Potential {
            false_sharing: 0.1234,
            cold: 0.2,
            capacity: 0.05,
            unshared: 0.01,
            true_sharing: 0.6166,
            ..Potential::default()
        },
        sizes: vec![TypeSize {
            name: "queue".to_owned(),
            recorded_bytes: 96,
            without_bytes: 96,
            with_bytes: 128,
            without_lines: 2,
            with_lines: 2,
            memory: false,
        }],
        types: measure(98_765.43, -4_321.99, 12.5),
        whole: measure(198_765.43, -4_000.01, 5_000.5),
        duration: measure(1_000_000.6, 3.3, 0.4),
        fields: vec![field("lock", 11.0), field("clock0", 23.0)],
        ..WhatIf::default()
    }
}

#[test]
fn whatif_shows_the_measures_of_its_document() {
    let answer = answer();
    let mut w = World::new();
    w.load(0, UNITS[0] + RQ);
    let recording = w.record();
    let edits = "type queue {\n  isolate lock\n}\n".to_owned();
    let document = whatif_document("1.2.3", &recording, edits, Vec::new(), vec![answer.clone()]);
    let text = read_back(&document, |d| whatif_text(d, "r.data", 20).to_string());
    let cells = |m: &Measure| {
        [
            format!("{:.0}", m.without),
            format!("{:+.0} ± {:.0}", m.difference, m.ci95),
        ]
    };
    for (name, measure) in [
        ("the type", &answer.types),
        ("everything", &answer.whole),
        ("duration", &answer.duration),
    ] {
        assert_eq!(row(&text, name)[1..3], cells(measure), "{text}");
    }
    for field in &answer.fields {
        let row = row(&text, &field.name);
        assert_eq!(row[1], format!("{:.0}", field.count.without));
        assert_eq!(row[3..5], cells(&field.cycles));
    }
    let summary = row(&text, "made-up x16");
    assert_eq!(summary[2..4], ["2", "96 to 128"]);
    assert_eq!(summary.last().unwrap(), "better");
    assert!(
        text.contains(
            "made-up: 38.3 % of the cost of queue is not true sharing: false sharing 12.3 %, cold misses 20.0 %, capacity misses 5.0 %, unshared 1.0 %. A layout reduces true sharing (61.7 %) only by putting words exchanged together on one line.\n"
        ),
        "{text}"
    );
    assert!(
        text.contains("\n  type queue {\n    isolate lock\n"),
        "{text}"
    );
}

#[test]
fn a_cost_of_one_cause_or_of_none_is_said_in_a_sentence_of_its_own() {
    let mut w = World::new();
    w.load(0, UNITS[0] + RQ);
    let recording = w.record();
    let second_line = |potential: Potential| {
        let answer = WhatIf {
            potential,
            ..answer()
        };
        let document =
            whatif_document("1.2.3", &recording, String::new(), Vec::new(), vec![answer]);
        let text = whatif_text(&document, "r.data", 20).to_string();
        text.lines().nth(1).unwrap().to_owned()
    };
    assert_eq!(
        second_line(Potential {
            cost: 10.0,
            true_sharing: 1.0,
            ..Potential::default()
        }),
        "made-up: all that queue costs is true sharing. A layout reduces true sharing (100.0 %) only by putting words exchanged together on one line."
    );
    assert_eq!(
        second_line(Potential::default()),
        "made-up: queue costs nothing."
    );
}

#[test]
fn whatif_begins_with_what_the_edits_do_and_leaves_out_what_they_do_not() {
    let one = |name: &str, count: Measure, cycles: Measure| MeasuredRow {
        name: name.to_owned(),
        count,
        cycles,
    };
    let same = |name: &str| one(name, measure(7.0, 0.0, 0.0), measure(700.0, 0.0, 0.0));
    let answer = WhatIf {
        potential: Potential {
            false_sharing: 0.25,
            ..Potential::default()
        },
        // Significant, and nothing that per cents show.
        whole: measure(1e9, 3.0, 1.0),
        sources: vec![
            one("l1", measure(50_000.0, -3.0, 0.5), measure(90.0, -6.0, 1.0)),
            same("l2"),
        ],
        fields: vec![
            one("lock", measure(4.0, 0.0, 0.0), measure(800.0, -50.0, 2.5)),
            same("clock0"),
            same("clock1"),
        ],
        functions: vec![same("tick")],
        ..answer()
    };
    // Others on the same lines gain as much again.
    let of_others = WhatIf {
        whole: measure(1000.0, -100.0, 5.0),
        ..answer.clone()
    };
    let line_starts = [
        ("refs", true, "align refs 4"),
        ("clock1", false, "align clock1 line"),
    ];
    let starts = line_starts.map(|(member, kept, otherwise)| KeptLineStart {
        member: member.to_owned(),
        kept,
        otherwise: otherwise.to_owned(),
    });
    let change = LayoutChange {
        type_name: "queue".to_owned(),
        line_bytes: 64,
        before: FieldMap::default(),
        after: FieldMap::default(),
        line_starts: starts.to_vec(),
    };
    let mut w = World::new();
    w.load(0, UNITS[0] + RQ);
    let recording = w.record();
    let document = whatif_document(
        "1.2.3",
        &recording,
        String::new(),
        Vec::new(),
        vec![of_others],
    );
    let text = read_back(&document, |d| whatif_text(d, "r.data", 20).to_string());
    let first = text.lines().next().unwrap_or_default();
    assert!(
        first.ends_with("of all cost: better. Everything: -10.00 ± 0.50 %."),
        "{first}"
    );
    let edits = "type queue\nisolate lock\n".to_owned();
    let document = whatif_document("1.2.3", &recording, edits, vec![change], vec![answer]);
    let text = read_back(&document, |d| whatif_text(d, "r.data", 20).to_string());
    let first: Vec<&str> = text.lines().take(4).collect();
    assert_eq!(
        first,
        [
            "queue on made-up: -4.38 ± 0.01 % of its cost, < 0.01 % of all cost: better.",
            "made-up: 25.0 % of the cost of queue is not true sharing: false sharing 25.0 %.",
            "queue: left at line starts, since BTF does not show which members are aligned: refs; where the source does not align one: `align refs 4`.",
            "queue: moved off a line start, since BTF does not show which members are aligned: clock1; where the source aligns one: `align clock1 line`.",
        ]
    );
    let last = text.lines().last().unwrap();
    assert!(
        last.starts_with("linemate 1.2.3, recording r.data: "),
        "{last}"
    );
    assert_eq!(row(&text, "everything")[3..], ["< 0.01 %", "negligible"]);
    assert!(!text.contains("+0 ± 0"), "{text}");
    assert!(!text.contains("0.00 ± 0.00 %"), "{text}");
    // What the core's own caches serve is not a miss.
    let titles: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("accesses before"))
        .collect();
    assert!(
        matches!(titles[..], [one] if one.trim_start().starts_with("source ")),
        "{titles:?}"
    );
    for left_out in [
        "(source: 1 row without change)",
        "(field: 2 rows without change)",
        "(function (all accesses): 1 row without change)",
    ] {
        assert!(text.contains(left_out), "{left_out}: {text}");
    }
}

#[test]
fn edits_of_a_variable_are_about_it() {
    let mut result = answer();
    result.sizes = vec![TypeSize {
        name: "counts".to_owned(),
        without_lines: 1,
        with_lines: 4,
        memory: true,
        ..TypeSize::default()
    }];
    let mut w = World::new();
    w.load(0, UNITS[0] + RQ);
    let document = whatif_document("1", &w.record(), String::new(), Vec::new(), vec![result]);
    let text = read_back(&document, |d| whatif_text(d, "r.data", 20).to_string());
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("counts on made-up: -4.38 ± "), "{first}");
    for words in [" data ", " the data ", "of the data"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("type"), "{text}");
}

#[test]
fn a_whatif_that_changes_nothing_says_so() {
    let same = measure(98_765.43, 0.0, 0.0);
    let answer = WhatIf {
        types: same,
        ..answer()
    };
    let mut w = World::new();
    w.load(0, UNITS[0] + RQ);
    let document = whatif_document("1", &w.record(), String::new(), Vec::new(), vec![answer]);
    let text = read_back(&document, |d| whatif_text(d, "r.data", 20).to_string());
    assert!(
        text.starts_with("queue on made-up: the edits do not change its cost.\n"),
        "{text}"
    );
}

#[test]
fn whatif_draws_the_lines_that_change() {
    let field = |path: &str, offset, size| FieldPlace {
        path: path.to_owned(),
        type_name: "int".to_owned(),
        offset,
        size,
        bits: None,
        arrays: Vec::new(),
    };
    // `lock` goes to the third line, `cold` of the fourth one to the fifth; the second line stays.
    let fields = |lock, cold| FieldMap {
        size: cold + 8,
        fields: vec![
            field("lock", lock, 4),
            field("clock0", 8, 8),
            field("unused", 16, 40),
            field("far", 64, 8),
            field("cold", cold, 8),
        ],
    };
    let change = LayoutChange {
        type_name: "queue".to_owned(),
        line_bytes: 64,
        before: fields(0, 192),
        after: fields(128, 256),
        line_starts: Vec::new(),
    };
    let mut w = World::new();
    w.load(0, UNITS[0] + RQ);
    let edits = "type queue\nisolate lock\n".to_owned();
    let document = whatif_document("1", &w.record(), edits, vec![change], vec![answer()]);
    let text = read_back(&document, |d| whatif_text(d, "r.data", 20).fitted(Some(80)));
    let start = text.find("queue, before").unwrap();
    let end = text.find("queue, after").unwrap();
    let strips = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with("line "));
        lines.map(str::to_owned).collect()
    };
    let rest = format!("|clock0 |unused{}........|", " ".repeat(33));
    let before = format!("line 0  |loc....{rest}");
    assert_eq!(strips(&text[start..end]), [before], "{text}");
    let end_of_strips = end + text[end..].find("the type").unwrap();
    let after = &text[end..end_of_strips];
    assert_eq!(
        strips(after),
        [
            format!("line 0  ........{rest}"),
            format!("line 2  |loc{}|", ".".repeat(60)),
        ],
        "{after}"
    );
    assert!(
        text[start..end].contains("23.0 k"),
        "cycles of clock0: {text}"
    );
    assert!(
        after.contains("11k") || after.contains("*"),
        "of lock: {after}"
    );
}
