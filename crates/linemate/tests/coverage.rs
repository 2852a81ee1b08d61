//! `linemate whatif --coverage` as a command, on synthetic recordings: its verdict, and what it
//! refuses.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use linemate_recording::AccessKind;
use linemate_testkit::world::{Contents, F, NOHZ, RQ, UNITS, World};
use serde_json::Value;

/// A hundred times one CPU reads `curr` of an `rq` and another, or the same, takes its lock: each
/// in a round of its own, so that nothing depends on when slices start.
fn rq(reader: u16, writer: u16) -> World {
    let mut w = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    for _ in 0..100 {
        let each = [
            (reader, AccessKind::Load, 8, F::UpdateRq),
            (writer, AccessKind::Rmw, 72, F::WakeTask),
        ];
        for (cpu, kind, offset, function) in each {
            [0, 1, cpu].into_iter().for_each(|cpu| w.turn(cpu));
            w.access(cpu, kind, rq + offset, 4, function, false);
        }
    }
    w
}

fn write(folder: &Path, name: &str, world: World, kernel: &str) {
    let mut contents = Contents::new();
    let metadata = &mut contents.metadata;
    metadata.insert("kernel".to_owned(), kernel.to_owned());
    fs::write(folder.join(name), world.bytes(true, contents)).unwrap();
}

/// A recording of another build, where a member of `rq` has another name.
fn write_renamed(folder: &Path) {
    let mut contents = Contents::new();
    let (old, new) = (b"\0nr_running\0", b"\0nr_runners\0");
    let btf = contents.btf.as_mut().unwrap();
    let at = btf.windows(old.len()).position(|bytes| bytes == old);
    btf[at.unwrap()..][..new.len()].copy_from_slice(new);
    fs::write(folder.join("renamed"), rq(0, 0).bytes(true, contents)).unwrap();
}

/// One CPU alone, two CPUs, nothing of the type, another kernel, another build.
fn recordings() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("cache")).unwrap();
    let mut other = World::with_chunks_of(64);
    other.access(0, AccessKind::Load, NOHZ, 8, F::UpdateRq, false);
    other.access(1, AccessKind::Load, NOHZ, 8, F::UpdateRq, false);
    write(folder.path(), "alone", rq(0, 0), "6.12-test");
    write(folder.path(), "both", rq(0, 1), "6.12-test");
    write(folder.path(), "none", other, "6.12-test");
    write(folder.path(), "next", rq(0, 0), "6.13-test");
    write_renamed(folder.path());
    folder
}

fn whatif(folder: &Path, arguments: &[&str]) -> Output {
    let fixed = ["whatif", "--type", "rq", "--machine", "westmere-4s-80"];
    Command::new(env!("CARGO_BIN_EXE_linemate"))
        .args(fixed)
        .args(arguments)
        .current_dir(folder)
        .env("LINEMATE_CACHE", folder.join("cache"))
        .env_remove("COLUMNS")
        .output()
        .unwrap()
}

fn said(folder: &Path, arguments: &[&str]) -> String {
    let output = whatif(folder, arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

const EDIT: [&str; 3] = ["--coverage", "-e", "move lock after curr"];

#[test]
fn a_pair_that_no_recording_exercises_is_named_and_one_that_loses_is() {
    let folder = recordings();
    let of = |inputs: &[&str]| said(folder.path(), &[&EDIT[..], inputs].concat());
    let alone = of(&["-i", "alone"]);
    let last = |text: &str| text.lines().rev().nth(1).unwrap().to_owned();
    let open = "Not exercised: curr + lock";
    assert!(last(&alone).contains(open), "{alone}");
    assert!(
        alone.contains("\n  curr + lock: update_rq, wake_task\n"),
        "{alone}"
    );
    let both = of(&["-i", "alone", "-i", "both"]);
    assert!(
        last(&both).starts_with("Loses in 1 of 2 recordings: both ("),
        "{both}"
    );
    assert!(!last(&both).contains(open), "{both}");
}

#[test]
fn json_has_the_figures_of_the_text_and_the_change_that_whatif_gives() {
    let folder = recordings();
    let json = |arguments: &[&str]| -> Value {
        serde_json::from_str(&said(folder.path(), &[arguments, &["--json"]].concat())).unwrap()
    };
    let document = json(&[&EDIT[..], &["-i", "both", "-i", "alone"]].concat());
    assert_eq!(document["schema"], "linemate.coverage/1");
    let plain = json(&["-e", "move lock after curr", "-i", "both"]);
    let change = &document["recordings"][0]["results"][0];
    for figure in ["types", "whole"] {
        assert_eq!(change[figure], plain["results"][0][figure]);
    }
    let pair = document["pairs"].as_array().unwrap();
    let at = pair
        .iter()
        .position(|of| of["first"] == "curr" && of["second"] == "lock");
    let at = at.unwrap();
    assert_eq!(pair[at]["exercised"], 1);
    let uses = &pair[at]["uses"][0];
    assert_eq!(
        (
            uses["first"].as_u64(),
            uses["second"].as_u64(),
            uses["contended"].as_u64()
        ),
        (Some(100), Some(100), Some(99))
    );
    let mut fields = document["fields"].as_array().unwrap().iter();
    let lock = fields.find(|of| of["field"] == "lock").unwrap();
    assert_eq!(
        (&lock["from"]["first"], &lock["to"]["first"]),
        (&Value::from(1), &Value::from(0))
    );
    assert_eq!(lock["changed"], true);
    // By recording: one CPU takes it in the first, the same that reads in the second.
    let taken = |recording: usize| &lock["functions"][recording][0];
    assert_eq!(
        (&taken(0)["name"], &taken(1)["rmws"]),
        (&Value::from("wake_task"), &Value::from(100))
    );
}

#[test]
fn functions_are_found_by_name_in_a_source_tree() {
    let folder = recordings();
    fs::create_dir(folder.path().join("tree")).unwrap();
    let code = "int update_rq(struct rq *r) { return r->curr; }\nint other(struct rq *r) { return r->curr; }\n";
    fs::write(folder.path().join("tree/a.c"), code).unwrap();
    let source = ["-i", "alone", "--source", "tree"];
    let text = said(folder.path(), &[&EDIT[..], &source].concat());
    // What the recording has is not open.
    assert!(
        text.contains("named in the source, seen in no recording\n  curr: other\n"),
        "{text}"
    );
}

#[test]
fn questions_without_an_answer_are_refused_in_one_line() {
    let folder = recordings();
    let refused = |arguments: &[&str], parts: &[&str]| {
        let output = whatif(folder.path(), arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        for part in parts {
            assert!(text.contains(part), "{arguments:?}: no `{part}` in: {text}");
        }
    };
    let nothing = ["--coverage", "-i", "alone", "-e", "order nr_running curr"];
    refused(&nothing, &["no field a new neighbour", "omit it"]);
    let of = |inputs: &[&'static str]| [&EDIT[..], inputs].concat();
    refused(
        &of(&["-i", "alone", "-i", "none"]),
        &["none", "no access to any rq"],
    );
    refused(
        &of(&["-i", "alone", "-i", "next"]),
        &["next", "6.13-test", "6.12-test"],
    );
    refused(
        &of(&["-i", "alone", "-i", "renamed"]),
        &["renamed: ", "rq.nr_running", "from alone", "of one build"],
    );
    let lines = ["-i", "alone", "--machine", "power11"];
    refused(&of(&lines), &["lines of one size"]);
    let two = ["-i", "alone", "-i", "both", "-e", "isolate lock"];
    refused(&two, &["both", "--coverage"]);
}
