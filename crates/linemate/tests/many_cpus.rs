//! Every answer with `--cpus` says how far such predictions were from recordings, on a synthetic
//! recording of two CPUs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use linemate_recording::AccessKind;
use linemate_testkit::world::{Contents, F, RQ, UNITS, World};
use serde_json::Value;

/// Both CPUs use fields of one `rq`, many times.
fn recording(folder: &Path) {
    let mut w = World::with_chunks_of(64);
    let rq = UNITS[0] + RQ;
    for _ in 0..100 {
        w.access(0, AccessKind::Store, rq + 8, 4, F::WakeTask, false);
        w.access(1, AccessKind::Rmw, rq + 72, 4, F::UpdateRq, false);
        w.access(1, AccessKind::Load, rq + 8, 8, F::UpdateRq, false);
    }
    fs::create_dir(folder.join("cache")).unwrap();
    fs::write(folder.join("data"), w.bytes(true, Contents::new())).unwrap();
}

fn ask(folder: &Path, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linemate"));
    command.current_dir(folder);
    command.env("LINEMATE_CACHE", folder.join("cache"));
    let output = command.args(words.split(' ')).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}: {said}");
    output
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Every verb that replays, on a machine, without `--cpus`; and where its JSON has the error.
const VERBS: [(&str, &str); 6] = [
    ("report -i data", "/costs"),
    ("whatif -i data --type rq --edit edit", "/results/0"),
    (
        "whatif --coverage -i data --type rq --edit edit",
        "/recordings/0",
    ),
    ("advise -i data --trials 0", "/recordings/0"),
    ("advise -i data --type rq --trials 0", "/recordings/0"),
    ("diff data data", "/a"),
];

fn question(verb: &str, cpus: &str) -> String {
    format!("{verb} --machine gnr-2s-480{cpus}")
}

#[test]
fn answers_for_more_cpus_say_how_far_off_such_are() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recording(folder);
    fs::write(folder.join("edit"), "type rq\nisolate curr\n").unwrap();
    let sentence = "8 CPUs are copies of 2 recorded ones. Predictions for 4 times";
    for (verb, place) in VERBS {
        let more = question(verb, " --cpus 8");
        let said = text(ask(folder, &more).stdout);
        assert_eq!(said.matches(sentence).count(), 1, "{more}: {said}");
        let json = text(ask(folder, &format!("{more} --json")).stdout);
        let json: Value = serde_json::from_str(&json).unwrap();
        let error = &json.pointer(place).unwrap()["prediction_error"];
        assert_eq!(error["copies"], 4, "{more}: {error}");
        let same = question(verb, "");
        let said = text(ask(folder, &same).stdout);
        assert!(!said.contains("are copies of"), "{same}: {said}");
        let json = text(ask(folder, &format!("{same} --json")).stdout);
        assert!(!json.contains("prediction_error"), "{same}: {json}");
    }
    let export = "export -i data --parquet lake --machine gnr-2s-480 --cpus 8";
    for more in ["", " --type rq --edit edit"] {
        let said = text(ask(folder, &format!("{export}{more}")).stderr);
        assert_eq!(said.matches(sentence).count(), 1, "{said}");
    }
}

#[test]
fn farther_ahead_than_was_measured_is_said() {
    let folder = tempfile::tempdir().unwrap();
    recording(folder.path());
    let far = question("report -i data", " --cpus 480");
    let said = text(ask(folder.path(), &far).stdout);
    let sentence = "480 CPUs are copies of 2 recorded ones. Predictions for 30 times as many CPUs";
    assert!(said.contains(sentence), "{said}");
    assert!(said.contains("None this far ahead was checked."), "{said}");
}

#[test]
fn pages_say_it_below_their_headline() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recording(folder);
    fs::write(folder.join("edit"), "type rq\nisolate curr\n").unwrap();
    for (verb, _) in VERBS.iter().filter(|(verb, _)| !verb.contains("coverage")) {
        let words = question(verb, " --cpus 8 --html page.html");
        ask(folder, &words);
        let page = fs::read_to_string(folder.join("page.html")).unwrap();
        let sentence = "\"prediction_errors\":[\"8 CPUs are copies of 2 recorded ones";
        assert!(page.contains(sentence), "{words}");
    }
}
