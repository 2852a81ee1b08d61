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
         hcc-2s-480, power11, turin-2s, westmere-4s-80\n"
    );
    // Nothing is like everything.
    let output = linemate(&["machines", "nope"]);
    assert_eq!(
        stderr(&output),
        "linemate: no machine is called \"nope\"; known: gnr-2s-480, hcc-2s-480, power11, turin-2s, \
         westmere-4s-80\n"
    );
}
