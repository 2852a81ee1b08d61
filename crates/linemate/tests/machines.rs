//! `linemate machines` as a user calls it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::PathBuf;
use std::process::{Command, Output};

fn linemate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_linemate"))
        .args(arguments)
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn all_known_machines_are_listed() {
    let output = linemate(&["machines"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    let names: Vec<&str> = text.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(
        names,
        [
            "gnr-2s-480",
            "hcc-2s-480",
            "power11",
            "spr-w-48",
            "turin-2s",
            "westmere-4s-80",
            "this"
        ]
    );
}

#[test]
fn one_machine_is_described() {
    let output = linemate(&["machines", "power11"]);
    assert_eq!(
        stdout(&output),
        "power11\n  2 x IBM Power11, 2 chips of 15 cores each, SMT 8, 128-byte lines\n  \
         480 CPUs, 60 cores, 4 LLC domains, 2 sockets, 3900 MHz; lines of 128 bytes\n  \
         L1 32 KiB, L2 2 MiB a core; LLC 120 MiB a domain\n  \
         cycles: L1 4, L2 14, LLC 60; HITM 117 same domain, 273 same socket, 507 other socket; \
         memory 351 local, 741 remote; atomic +28\n"
    );
}

#[test]
fn json_has_every_figure() {
    let output = linemate(&["machines", "westmere-4s-80", "turin-2s", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(document["schema"], "linemate.machines/1");
    let machines = document["machines"].as_array().unwrap();
    assert_eq!(machines.len(), 2);
    assert_eq!(machines[0]["cpus"], 80);
    assert_eq!(machines[0]["llc"]["bytes"], 30 << 20);
    assert_eq!(machines[0]["latency_cycles"]["hitm_other_socket"], 289);
    assert_eq!(machines[1]["llc_domains"], 32);
}

/// A description in a file, with that appended to a known one.
fn described(file: &str, more: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("machines");
    std::fs::create_dir_all(&folder).unwrap();
    let known = stdout(&linemate(&["machines", "--text", "power11"]));
    let file = folder.join(file);
    // A machine with other figures has a name of its own.
    let named = known.replacen("name = \"power11\"", "name = \"mine\"", 1);
    assert_ne!(named, known);
    std::fs::write(&file, named + more).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn mechanisms_are_shown_where_there_are_some() {
    let file = described(
        "mechanisms.toml",
        "[l2_streamer]\nstreams = 32\ntrain = 3\nper_request = 2\nahead = 20\noutstanding = 48\n\
         [l1_stride]\nentries = 24\ntrain = 3\nreach_bytes = 2048\noutstanding = 16\n\
         [overlap]\nwindow = 512\noutstanding = 12\n",
    );
    let text = stdout(&linemate(&["machines", &file]));
    for line in [
        "  L2 streamer: 32 pages, 2 lines a request after 3 in one direction, up to 20 lines ahead, 48 outstanding\n",
        "  L1 stride prefetcher: 24 instructions, after 3 loads at one stride, strides of up to 2048 bytes, 16 outstanding\n",
        "  misses overlap within 512 instructions, 12 at a time\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let json = stdout(&linemate(&["machines", &file, "power11", "--json"]));
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    let [with, without] = [0, 1].map(|machine| &document["machines"][machine]);
    assert_eq!(with["l2_streamer"]["ahead"], 20);
    assert_eq!(with["l1_stride"]["reach_bytes"], 2048);
    assert_eq!(with["overlap"]["window"], 512);
    for key in ["l2_streamer", "l1_stride", "overlap"] {
        assert!(without[key].is_null());
    }
}

#[test]
fn a_bad_mechanism_is_refused_in_one_line() {
    let file = described("window.toml", "[overlap]\nwindow = 0\noutstanding = 12\n");
    let output = linemate(&["machines", &file]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        stderr(&output),
        format!("linemate: {file}: overlap.window is 0: must be at least 1\n")
    );
}

#[test]
fn a_file_does_not_pass_for_a_known_machine() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fast.toml");
    let path = file.to_str().unwrap();
    let known = stdout(&linemate(&["machines", "--text", "power11"]));
    std::fs::write(
        &file,
        known.replacen("frequency_mhz = ", "frequency_mhz = 1", 1),
    )
    .unwrap();
    let output = linemate(&["machines", path]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        stderr(&output),
        format!(
            "linemate: {path}: name = \"power11\" is the name of another machine: give this one a name of its own\n"
        )
    );
    // An unchanged copy is that machine.
    std::fs::write(&file, &known).unwrap();
    assert_eq!(
        stdout(&linemate(&["machines", path])),
        stdout(&linemate(&["machines", "power11"]))
    );
}

#[test]
fn the_text_of_a_known_machine_has_its_sources() {
    let output = linemate(&["machines", "--text", "westmere-4s-80"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("SOSP 2013"));
}

#[test]
fn a_bad_description_is_refused_in_one_line() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("machines");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("bad.toml");
    let known = stdout(&linemate(&["machines", "--text", "power11"]));
    std::fs::write(&file, known.replacen("ways = 8", "ways = 0", 1)).unwrap();
    let name = file.to_str().unwrap();
    let output = linemate(&["machines", name]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        stderr(&output),
        format!("linemate: {name}: l1.ways is zero\n")
    );
    assert_eq!(stdout(&output), "");
}

#[test]
fn an_unknown_name_gets_the_nearest() {
    let output = linemate(&["machines", "power10"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        stderr(&output),
        "linemate: no machine is called \"power10\"; the nearest: power11; known: gnr-2s-480, \
         hcc-2s-480, power11, spr-w-48, turin-2s, westmere-4s-80\n"
    );
    // Nothing is like everything.
    let output = linemate(&["machines", "nope"]);
    assert_eq!(
        stderr(&output),
        "linemate: no machine is called \"nope\"; known: gnr-2s-480, hcc-2s-480, power11, spr-w-48, turin-2s, \
         westmere-4s-80\n"
    );
}
