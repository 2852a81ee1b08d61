//! Tables read back with the library's reader: their rows are the documents'.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use linemate_answers::tables::SCHEMA;
use linemate_answers::{
    Cost, CostsDocument, FieldRow, Figures, FunctionRow, LineCost, Measure, PairCost, Report,
    Share, TypeRow, View, WhatIfDocument,
};
use linemate_export::{
    Accesses, ExportError, Facts, GROUP_ROWS, Run, TableFile, WithLines, check_schema, files,
    schema_text,
};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::json;

fn figures(accesses: u64) -> Figures {
    Figures {
        accesses,
        loads: accesses - 3,
        stores: 2,
        rmws: 1,
        silent: 1,
        remote_share: Some(0.25),
        readers: 8,
        writers: 2,
    }
}

fn report(rows: &str) -> Report {
    let mut report = json!({
        "schema": "linemate.report/2",
        "inputs": {
            "tool": "0.1.0", "recorded_by": "0.0.9", "checksum": "00ff", "cut": null,
            "recording": { "kernel": "6.12.1+deb13", "command": "bin/sleepers -m 1", "cpus": "8", "seed": "42" },
        },
        "ledger": {
            "recorded": 120, "total": 120, "typed_share": 0.5, "unknown_share": 0.125,
            "groups": [
                { "name": "a", "accesses": 100, "share": 0.8, "buckets": [
                    { "name": "x", "accesses": 60, "share": 0.5 }, { "name": "y", "accesses": 40, "share": 0.3 } ] },
                { "name": "b", "accesses": 20, "share": 0.2, "buckets": [ { "name": "z", "accesses": 20, "share": 0.2 } ] },
            ],
        },
    });
    report[rows] = json!([]);
    serde_json::from_value(report).unwrap()
}

fn accesses() -> Accesses {
    let named = |name: &str| Share {
        name: name.to_owned(),
        accesses: 7,
    };
    let mut types = report("types");
    let of = |name: &str, accesses, size| TypeRow {
        name: name.to_owned(),
        kind: "field of a typed object".into(),
        place: String::new(),
        places: Vec::new(),
        size,
        objects: None,
        shared: Some(9),
        figures: figures(accesses),
        functions: vec![named("f"), named("g")],
    };
    types.view = View::Types(vec![of("rq", 100, Some(4992)), of("", 20, None)]);
    let mut fields = report("fields");
    let field = |number: u64| FieldRow {
        type_name: "rq".to_owned(),
        field: format!("field_{number} ü"),
        aliases: vec!["other".to_owned(), "third".to_owned()],
        offset: number * 8,
        size: 8,
        line: number / 8,
        figures: figures(number + 3),
        functions: vec![named("f")],
    };
    fields.view = View::Fields((0..1000).map(field).collect());
    let mut functions = report("functions");
    functions.view = View::Functions(vec![FunctionRow {
        name: "schedule".to_owned(),
        figures: figures(120),
        types: vec![named("rq")],
    }]);
    Accesses {
        types,
        fields,
        functions,
        lines: Some(report("lines")),
    }
}

fn costs() -> CostsDocument {
    let mut document: CostsDocument = serde_json::from_value(json!({
        "schema": CostsDocument::SCHEMA, "tool": "0.1.0", "checksum": "00ff", "type": null,
        "recording": { "cpus": "8", "command": "sleepers" },
        "costs": linemate_answers::Costs::default(),
    }))
    .unwrap();
    let cost = |name: &str, cycles| Cost {
        name: name.to_owned(),
        cycles,
        hitm: [1, 2, 3],
        ..Cost::default()
    };
    let of = &mut document.costs;
    of.whole = cost("everything", 50);
    of.types = vec![cost("rq", 30), cost("task_struct", 20)];
    of.fields = vec![cost("rq.a | b", 50)];
    of.functions = vec![cost("f", 50)];
    of.pairs = vec![PairCost {
        from: (3, 1),
        to: (4, 0),
        hitm: 5,
        cycles: 6,
    }];
    of.lines = vec![LineCost {
        name: "rq".to_owned(),
        start: -16,
        cycles: 30,
        ..LineCost::default()
    }];
    document
}

fn run<'a>() -> Run<'a> {
    let report = accesses().types;
    Run::of_recording(&report.inputs.recording, report.inputs.checksum, None).unwrap()
}

fn reader(file: &TableFile) -> SerializedFileReader<Bytes> {
    SerializedFileReader::new(Bytes::from(file.bytes.clone())).unwrap()
}

/// A table's rows, by column.
fn rows(files: &[TableFile], table: &str) -> Vec<BTreeMap<String, Field>> {
    let file = files.iter().find(|file| file.place.starts_with(table));
    let reader = reader(file.unwrap());
    let rows = reader.get_row_iter(None).unwrap();
    let by_column = |row: parquet::record::Row| row.into_columns().into_iter().collect();
    rows.map(|row| by_column(row.unwrap())).collect()
}

fn sum(rows: &[BTreeMap<String, Field>], column: &str) -> i64 {
    let of = |row: &BTreeMap<String, Field>| match &row[column] {
        Field::Long(number) => *number,
        other => panic!("{column} is {other}"),
    };
    rows.iter().map(of).sum()
}

fn text(value: &str) -> Field {
    Field::Str(value.to_owned())
}

#[test]
fn the_tables_of_a_recording_are_its_reports() {
    let found = files(&run(), "0.1.0", &Facts::Recording(&accesses())).unwrap();
    let tables: Vec<_> = found
        .iter()
        .map(|file| file.place.iter().next().unwrap())
        .collect();
    let all = ["ledger", "types", "fields", "functions", "lines", "runs"];
    assert_eq!(tables, all, "a run is told last");
    assert_eq!(sum(&rows(&found, "ledger"), "accesses"), 120);
    let types = rows(&found, "types");
    assert_eq!(sum(&types, "accesses"), 120);
    assert_eq!(types[0]["functions"], text("f, g"));
    assert_eq!(types[0]["size_bytes"], Field::Long(4992));
    assert_eq!(types[1]["size_bytes"], Field::Null);
    assert_eq!(types[1]["type"], text(""));
    let fields = rows(&found, "fields");
    assert_eq!(fields.len(), 1000);
    assert_eq!(sum(&fields, "accesses"), 999 * 1000 / 2 + 3000);
    assert_eq!(fields[999]["field"], text("field_999 ü"));
    assert_eq!(fields[999]["aliases"], text("other | third"));
    assert_eq!(fields[999]["remote_share"], Field::Double(0.25));
    let about = &rows(&found, "runs")[0];
    assert_eq!(about["run"], text(&run().key().unwrap().to_string()));
    assert_eq!(about["recorded_by"], text("0.0.9"));
    assert_eq!(
        (&about["cpus"], &about["ledger_total"]),
        (&Field::Long(8), &Field::Long(120))
    );
    assert_eq!(
        (&about["cycles"], &about["reason"]),
        (&Field::Null, &Field::Null)
    );
    for file in &found {
        let place = file.place.to_str().unwrap().split_once('/').unwrap().1;
        let key = run().key().unwrap();
        let wanted =
            format!("kernel=6.12.1+deb13/workload=sleepers/machine=none/seed=42/{key}.parquet");
        assert_eq!(place, wanted);
    }
}

#[test]
fn the_tables_of_a_replay_are_its_costs() {
    let document = costs();
    let found = files(&run(), "0.1.0", &Facts::Replay(&document, WithLines::Yes)).unwrap();
    let costs = rows(&found, "costs");
    for subject in ["everything", "type", "field", "function"] {
        let of = |row: &&BTreeMap<String, Field>| row["subject"] == text(subject);
        let part: Vec<_> = costs.iter().filter(of).cloned().collect();
        assert_eq!(sum(&part, "cycles"), 50, "{subject}");
    }
    assert_eq!(costs[0]["hitm_remote"], Field::Long(3));
    let pair = &rows(&found, "cpu_pairs")[0];
    assert_eq!(
        (&pair["from_cpu"], &pair["from_copy"]),
        (&Field::Long(3), &Field::Long(1))
    );
    assert_eq!(
        rows(&found, "line_costs")[0]["start_bytes"],
        Field::Long(-16)
    );
    let without = files(&run(), "0.1.0", &Facts::Replay(&document, WithLines::No)).unwrap();
    assert!(
        !without
            .iter()
            .any(|file| file.place.starts_with("line_costs"))
    );
    assert_eq!(rows(&found, "runs")[0]["cycles"], Field::Long(50));
}

#[test]
fn a_what_if_has_its_intervals() {
    let measure = Measure {
        without: 10.0,
        with: 7.5,
        difference: -2.5,
        ci95: 0.5,
        significant: true,
    };
    let result = linemate_answers::WhatIf {
        types: measure,
        ..linemate_answers::WhatIf::default()
    };
    let document: WhatIfDocument = serde_json::from_value(json!({
        "schema": WhatIfDocument::SCHEMA, "tool": "0.1.0", "recording": {}, "checksum": "00ff", "edits": "", "results": [result],
    }))
    .unwrap();
    let found = files(&run(), "0.1.0", &Facts::WhatIf(&document)).unwrap();
    let effects = rows(&found, "effects");
    let of = |row: &&BTreeMap<String, Field>| {
        row["name"] == text("reported types") && row["unit"] == text("cycles")
    };
    let row = effects.iter().find(of).unwrap();
    assert_eq!(
        (&row["difference"], &row["ci95"]),
        (&Field::Double(-2.5), &Field::Double(0.5))
    );
    assert_eq!(row["significant"], Field::Bool(true));
}

#[test]
fn a_failed_run_is_a_row_with_its_reason() {
    let run = Run {
        recording: None,
        reason: Some("the guest panicked".to_owned()),
        ..run()
    };
    let found = files(&run, "0.1.0", &Facts::Failure).unwrap();
    assert_eq!(found.len(), 1);
    let row = &rows(&found, "runs")[0];
    assert_eq!(
        (&row["about"], &row["reason"]),
        (&text("failure"), &text("the guest panicked"))
    );
    assert_eq!(row["recording"], Field::Null);
}

#[test]
fn row_groups_are_bounded_and_bytes_the_same() {
    let mut accesses = accesses();
    let View::Fields(rows) = &mut accesses.fields.view else {
        panic!("no fields")
    };
    let one = rows[0].clone();
    rows.resize(GROUP_ROWS + 1, one);
    let found = files(&run(), "0.1.0", &Facts::Recording(&accesses)).unwrap();
    let fields = found
        .iter()
        .find(|file| file.place.starts_with("fields"))
        .unwrap();
    let reader = reader(fields);
    let groups = reader.metadata().row_groups().iter();
    let sizes: Vec<i64> = groups.map(|group| group.num_rows()).collect();
    assert_eq!(sizes, [GROUP_ROWS as i64, 1]);
    let about = reader
        .metadata()
        .file_metadata()
        .key_value_metadata()
        .unwrap();
    assert_eq!(about[0].value.as_deref(), Some(SCHEMA));
    assert_eq!(
        found,
        files(&run(), "0.1.0", &Facts::Recording(&accesses)).unwrap()
    );
}

#[test]
fn whatever_decides_the_figures_is_in_the_key() {
    let options = |value: &str| BTreeMap::from([("seed".to_owned(), value.to_owned())]);
    let runs = [
        run(),
        Run {
            recording: Some("00fe".to_owned()),
            ..run()
        },
        Run {
            workload: "other".to_owned(),
            ..run()
        },
        Run {
            edits: Some("isolate a".to_owned()),
            ..run()
        },
        Run {
            options: options("1"),
            ..run()
        },
        Run {
            options: options("2"),
            ..run()
        },
        Run {
            reason: Some("no BTF".to_owned()),
            ..run()
        },
    ];
    let keys: BTreeSet<_> = runs.iter().map(|run| run.key().unwrap()).collect();
    assert_eq!(keys.len(), runs.len());
    assert_eq!(run().key().unwrap(), run().key().unwrap());
}

#[test]
fn what_cannot_be_known_is_refused() {
    let cut = Run::of_recording(&BTreeMap::new(), None, None);
    assert!(matches!(cut, Err(ExportError::Cut)), "{cut:?}");
    let mut document = costs();
    document.costs.types[1].cycles = 1 << 63;
    let refused = files(&run(), "0.1.0", &Facts::Replay(&document, WithLines::No));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "costs.cycles: 9223372036854775808 does not fit in 63 bits"
    );
    let swapped = Accesses {
        types: accesses().fields,
        ..accesses()
    };
    assert!(files(&run(), "0.1.0", &Facts::Recording(&swapped)).is_err());
    check_schema(&schema_text()).unwrap();
    let other = check_schema("linemate.export/99\n")
        .unwrap_err()
        .to_string();
    assert!(
        other.contains("\"linemate.export/99\"") && !other.contains('\n'),
        "{other}"
    );
}
