//! Advice for a program whose threads use adjacent objects.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::common::{items, linemate, story};
use super::{compile, record};

/// A recording of a program whose threads use adjacent objects; its types are `own_slot` and the
/// like.
fn neighbours(folder: &Path, options: &[&str]) -> String {
    let options = [&["-O2", "-pthread", "-Wall", "-Wextra", "-Werror"], options].concat();
    let program = compile(folder, "cc", "neighbours.c", &options);
    record(folder, "linemate.data", &program).0
}

fn json(arguments: &[&str]) -> Value {
    let output = linemate(arguments);
    assert!(output.status.success(), "{}", story(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn remedies(data: &str) -> Value {
    let words = [
        "advise", "-i", data, "--top", "1", "--trials", "12", "--json",
    ];
    json(&words)["remedies"].take()
}

/// What `whatif` says about the edits of a remedy that is about one variable is what the remedy
/// says.
fn is_what_whatif_says(data: &str, machine: &Value, remedy: &Value) {
    let trial = &remedy["trials"][0];
    let (edits, gain) = (trial["edits"].as_str().unwrap(), &trial["effect"]["tried"]);
    let machine = machine.as_str().unwrap();
    let words = [
        "whatif",
        "-i",
        data,
        "-e",
        edits,
        "--machine",
        machine,
        "--json",
    ];
    let result = &json(&words)["results"][0];
    assert_eq!(items(result, "/fields").len(), 1, "{result:#}");
    let row = &result["fields"][0];
    assert_eq!(row["name"], remedy["subject"]);
    assert_eq!(
        (&row["cycles"], &row["count"]),
        (&gain["types"], &gain["misses"])
    );
    assert_eq!(
        (&result["types"], &result["whole"]),
        (&gain["types"], &gain["whole"])
    );
    let size = &result["sizes"][0];
    assert_eq!(
        (&size["name"], &size["memory"]),
        (&row["name"], &Value::Bool(true))
    );
    let lines = ["without_lines", "with_lines"].map(|key| size[key].as_u64().unwrap());
    assert!(lines[0] < lines[1], "{size}");
}

/// The kind of a remedy, what it is about, and whether replay predicts a significant gain by its
/// first edit.
fn advised(remedy: &Value) -> (&str, &str, bool) {
    let [kind, subject] = ["kind", "subject"].map(|key| remedy[key].as_str().unwrap());
    let cycles = &remedy["trials"][0]["effect"]["tried"]["types"];
    let gains = cycles["significant"] == true && cycles["difference"].as_f64().unwrap() < 0.0;
    (kind, subject, gains)
}

#[test]
fn what_threads_use_side_by_side_is_named_first_and_predicted_to_gain_apart() {
    let folder = tempfile::tempdir().unwrap();
    let data = neighbours(folder.path(), &[]);
    let document = remedies(&data);
    let remedies = items(&document, "/remedies");
    // Which of them costs most depends on how the compiler orders the variables, and so does which
    // others are their neighbours. Nothing of the kernel's comes in between.
    let of_program = |subject: &&str| subject.starts_with("own_") || subject.ends_with("(oracle)");
    let subjects = remedies.iter().map(|remedy| advised(remedy).1);
    let first: BTreeSet<&str> = subjects.take_while(of_program).collect();
    let own = [
        "main: own_sums (oracle)",
        "own_box",
        "own_numbers (oracle)",
        "own_pool.cells[]",
        "own_slot",
    ];
    assert!(own.iter().all(|name| first.contains(name)), "{remedies:#?}");
    for wanted in [
        ("allocate_apart", "own_box", true),
        ("pad_elements", "own_pool.cells[]", true),
        ("pad_elements", "own_slot", true),
    ] {
        let found = remedies.iter().find(|remedy| advised(remedy) == wanted);
        let advice = found.expect(wanted.1)["advice"].as_str().unwrap();
        assert!(
            advice.contains("_Alignas(64)") || advice.contains("aligned_alloc(64, "),
            "{advice}"
        );
    }
    // Numbers that are a variable of their own, by the ranges that each CPU writes.
    for variable in ["own_numbers (oracle)", "main: own_sums (oracle)"] {
        let numbers = ("pad_elements", variable, true);
        let padded = remedies.iter().find(|remedy| advised(remedy) == numbers);
        is_what_whatif_says(&data, &document["machine"], padded.unwrap());
    }
}

#[test]
fn what_has_its_lines_already_is_not_advised() {
    let own = [
        "main: own_sums (oracle)",
        "own_numbers (oracle)",
        "own_slot",
        "own_box",
        "own_cell",
        "own_pool",
    ];
    let folder = tempfile::tempdir().unwrap();
    let document = remedies(&neighbours(folder.path(), &["-DPADDED"]));
    for remedy in items(&document, "/remedies") {
        let concerns = items(remedy, "/concerns").iter();
        let mut concerns = concerns.map(|name| name.as_str().unwrap());
        assert!(!concerns.any(|name| own.contains(&name)), "{remedy:#}");
    }
}
