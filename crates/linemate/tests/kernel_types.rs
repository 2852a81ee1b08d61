//! Programs recorded without what names the kernel's memory: the programs' tables are the same, the
//! kernel's accesses are one line.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{items, kernel, linemate, linemate_in, record, root, story};
use linemate_recording::Recording;
use serde_json::Value;

const UNNAMED: &str = "kernel memory, not named";

/// Compiles the program that the recordings are of.
fn compile(folder: &Path) {
    let output = Command::new("cc")
        .args(["-O2", "-g", "-pthread", "-o"])
        .arg(folder.join("oracle"))
        .arg(root().join("crates/linemate/tests/programs/oracle.c"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", story(&output));
}

/// Records it; gives the recording under another name.
fn recorded(folder: &Path, name: &str, kernel_types: &str) -> String {
    let options = ["--program", "--smp", "4", "--kernel-types", kernel_types];
    let data = record(folder, "6.12", &options, &["./oracle"]);
    let named = folder.join(name);
    fs::rename(data, &named).unwrap();
    named.to_str().unwrap().to_owned()
}

fn ask(arguments: &[&str]) -> Value {
    let output = linemate(arguments);
    assert!(output.status.success(), "{}", story(&output));
    // A type whose name the kernel has, too, goes by its file where the kernel's types are there:
    // `node@oracle`.
    let text = String::from_utf8(output.stdout).unwrap();
    let mut parts = text.split('@');
    let mut plain = parts.next().unwrap().to_owned();
    for part in parts {
        let of_file = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        // After the program's own name a member may follow: `request@oracle.st`.
        let rest = part.strip_prefix("oracle");
        plain.push_str(rest.unwrap_or_else(|| part.trim_start_matches(of_file)));
    }
    serde_json::from_str(&plain).unwrap()
}

fn report(data: &str, more: &[&str]) -> Value {
    ask(&[&["report", "-i", data, "--json", "--top", "1000000"], more].concat())
}

/// What a refused question is answered.
fn refused(arguments: &[&str]) -> String {
    let output = linemate(arguments);
    assert_eq!(output.status.code(), Some(2), "{}", story(&output));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

/// The names and figures of a row. Whether the kernel's stores are silent is not recorded without
/// its types, nor to which CPU its objects belong.
fn figures(row: &Value) -> Value {
    let mut row = row.clone();
    let fields = row.as_object_mut().unwrap();
    for absent in ["silent", "remote_share", "types"] {
        fields.remove(absent);
    }
    row
}

fn has_source(row: &&Value) -> bool {
    !row["file"].is_null()
}

#[test]
fn programs_tables_are_the_same_and_the_kernels_accesses_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path());
    let yes = recorded(folder.path(), "yes.data", "yes");
    let no = recorded(folder.path(), "no.data", "no");
    let again = recorded(folder.path(), "again.data", "no");
    let bytes = |path: &str| fs::read(path).unwrap();
    assert!(bytes(&no) == bytes(&again), "the recordings differ");
    assert!(bytes(&no).len() < bytes(&yes).len());
    let [of_yes, of_no] = [&yes, &no].map(|data| Recording::open(Path::new(data)).unwrap());
    assert!(of_no.btf().is_err() && of_no.description().kernel_unnamed);
    assert!(of_yes.btf().is_ok() && !of_yes.description().kernel_unnamed);
    // The recorder watches less, which the guest does not notice.
    let accesses = of_no.totals().accesses();
    assert_eq!(accesses, of_yes.totals().accesses());

    let [named, unnamed] = [&yes, &no].map(|data| report(data, &["--by", "function"]));
    let functions = |report: &Value| -> Vec<Value> {
        let rows = items(report, "/functions").iter();
        rows.map(figures).collect()
    };
    assert!(
        functions(&unnamed)
            .iter()
            .any(|row| row["name"] == "do_exit")
    );
    let [of_named, of_unnamed] = [&named, &unnamed].map(functions);
    assert_eq!(of_named.len(), of_unnamed.len());
    for (a, b) in of_named.iter().zip(&of_unnamed) {
        assert_eq!(a, b);
    }
    assert_eq!(unnamed["ledger"]["total"], accesses);
    assert_eq!(unnamed["ledger"]["recorded"], accesses);
    assert_eq!(
        named["ledger"]["programs"], unnamed["ledger"]["programs"],
        "of the programs as much has a type"
    );
    let line = |report: &Value, name: &str| {
        let lines = items(report, "/ledger/groups").iter();
        let line = lines.into_iter().find(|line| line["name"] == name);
        line.map(|line| line["accesses"].as_u64().unwrap())
    };
    assert_eq!(line(&named, UNNAMED), None);
    assert!(line(&unnamed, UNNAMED).unwrap() > accesses / 10);
    for empty in ["per-CPU variable", "page table or struct page"] {
        assert_eq!(line(&unnamed, empty), Some(0), "{empty}");
    }
    assert_eq!(
        line(&unnamed, "device registers"),
        line(&named, "device registers"),
        "no cache holds them"
    );
    assert_eq!(
        unnamed["ledger"]["typed_share"], unnamed["ledger"]["programs"]["typed_share"],
        "of nothing else a type was asked"
    );

    let sources = |data: &str| -> Vec<Value> {
        let report = report(data, &["--by", "source"]);
        let rows = items(&report, "/sources").iter();
        rows.filter(has_source).cloned().collect()
    };
    assert!(sources(&no).len() > 20);
    assert_eq!(sources(&yes), sources(&no));
    for (ty, plain) in [
        ("conn", "conn"),
        ("node@oracle", "node"),
        ("stats", "stats"),
    ] {
        let of = |data: &str, ty: &str| report(data, &["--type", ty])["type"].clone();
        let (a, b) = (of(&yes, ty), of(&no, plain));
        let accesses = a["figures"]["accesses"].as_u64();
        assert!(accesses.unwrap() > 10_000, "{a:#}");
        assert_eq!(a, b, "{ty}");
    }
    let [a, b] =
        [&yes, &no].map(|data| report(data, &["--type", "conn", "--machine", "gnr-2s-480"]));
    for fact in [
        "potential",
        "fields",
        "functions",
        "pairs",
        "time",
        "sets",
        "duration",
    ] {
        let (a, b) = (&a["costs"][fact], &b["costs"][fact]);
        assert!(!a.is_null(), "{fact}");
        assert_eq!(a, b, "{fact}");
    }
}

#[test]
fn what_needs_the_kernels_names_is_refused_and_what_needs_its_code_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path());
    let no = recorded(folder.path(), "no.data", "no");
    for verb in [
        &["report", "-i", &no, "--type", "task_struct"][..],
        &["layout", "-i", &no, "task_struct"],
    ] {
        let said = refused(verb);
        assert!(said.contains("has no kernel types"), "{said}");
    }
    let machine = ["report", "-i", &no, "--machine", "gnr-2s-480"];
    let said = refused(&[&machine[..], &["--cpus", "16"]].concat());
    assert!(said.contains("--kernel-types no"), "{said}");
    for question in [&["--under", "do_exit"][..], &["--mechanisms", "overlap"]] {
        let costs = ask(&[&machine[..], &["--json"], question].concat());
        assert!(costs["schema"].is_string(), "{costs:#}");
    }
}

#[test]
fn it_needs_programs_to_name() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = kernel("6.12");
    let kernel = kernel.to_str().unwrap();
    let arguments = [
        "record",
        "--kernel",
        kernel,
        "--kernel-types",
        "no",
        "--",
        "true",
    ];
    let output = linemate_in(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(2), "{}", story(&output));
    assert!(story(&output).contains("--program"), "{}", story(&output));
}
