//! `--under`: on a synthetic kernel, and on real ones, where the recorder's own calls and returns
//! of watched functions agree.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the measured rates are the result")]

mod common;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;

use common::{kernel, linemate, record, story, workload};
use linemate_answers::{CostsDocument, WhatIfDocument};
use linemate_experiment::Under;
use linemate_recording::{CpuId, Event, GuestAddr, Recording, VirtualTime};
use linemate_session::Session;
use linemate_testkit::calls::{NAMES, image, tree};
use linemate_testkit::elf;
use linemate_testkit::world::IMAGE;
use linemate_types::KernelImage;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// A synthetic recording, its kernel's image, and another kernel's.
struct Files {
    _folder: TempDir,
    data: String,
    image: String,
    other: String,
}

fn files() -> Files {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path: PathBuf = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let sum = format!("{:x}", Sha256::digest(image()));
    let about = [("kernel.sha256", sum)];
    Files {
        data: write("linemate.data", &tree().bytes(&about)),
        image: write("vmlinux", &image()),
        other: write("other", &elf::image(IMAGE, &[0x90; 0x2000])),
        _folder: folder,
    }
}

fn answer(arguments: &[&str]) -> String {
    let output = linemate(arguments);
    assert!(output.status.success(), "{}", story(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn text_and_json_show_the_same_share() {
    let Files { data, image, .. } = &files();
    let ask = |more: &[&str]| {
        let mut arguments = vec!["report", data, "--machine", "gnr-2s-480"];
        arguments.extend(["--under", NAMES[1], "--kernel", image]);
        arguments.extend(more);
        answer(&arguments)
    };
    let document: CostsDocument = serde_json::from_str(&ask(&["--json"])).unwrap();
    let under = document.costs.under.unwrap();
    let (cycles, all) = (under.cycles, under.all_cycles);
    assert!(cycles.instructions > 0 && cycles.stalls > 0);
    let share = 100.0 * cycles.sum() as f64 / all.sum() as f64;
    let head = format!(
        "gnr-2s-480: {} and its callees take {share:.2} % of all cycles: {} instructions + {} stall cycles, of {} + {}; \
         entered 100 times.",
        NAMES[1], cycles.instructions, cycles.stalls, all.instructions, all.stalls
    );
    let text = ask(&[]);
    assert!(text.starts_with(&head), "{head}\n{text}");
    assert!(
        text.contains("Call stacks: 100.00 % of 700 returns match a recorded call."),
        "{text}"
    );
    // Cached, and computed again.
    assert_eq!(ask(&["--no-cache"]), text);
    let typed = ask(&["--type", "rq", "--json"]);
    let typed: CostsDocument = serde_json::from_str(&typed).unwrap();
    assert_eq!(typed.costs.under.unwrap(), under);
    let fields: Vec<&str> = typed.costs.fields.iter().map(|f| f.name.as_str()).collect();
    assert!(fields.contains(&"rq.clock"), "{fields:?}");
    assert!(!fields.contains(&"rq.first"), "2 uses it: {fields:?}");
}

#[test]
fn a_what_if_has_rows_under_the_function() {
    let Files { data, image, .. } = &files();
    let ask = |more: &[&str]| {
        let mut arguments = vec!["whatif", data, "--type", "rq", "-e", "isolate nr_running"];
        arguments.extend(["--under", NAMES[0], "--kernel", image]);
        arguments.extend(more);
        answer(&arguments)
    };
    let document: WhatIfDocument = serde_json::from_str(&ask(&["--json"])).unwrap();
    let under = document.results[0].under.clone().unwrap();
    assert_eq!(under.function, NAMES[0]);
    let text = ask(&[]);
    let cost = format!("under {}  ", NAMES[0]);
    let row = text.lines().find(|line| line.contains(&cost));
    let row = row.unwrap_or_else(|| panic!("no row {cost} in {text}"));
    assert!(row.contains(&format!("{:.0}", under.cost.without)), "{row}");
    let share = 100.0 * under.cycles.without / under.all_cycles.without;
    let line = format!("take {share:.1} % of all cycles before");
    assert!(text.contains(&line), "{line}\n{text}");
}

#[test]
fn what_cannot_be_asked_is_refused_in_a_line() {
    let Files {
        data, image, other, ..
    } = &files();
    let machine = ["--machine", "gnr-2s-480"];
    for (more, parts) in [
        (
            &["--under", "kfree", "--kernel", image][..],
            &["--under needs --machine"][..],
        ),
        (
            &[&machine[..], &["--kernel", image]].concat(),
            &["--kernel needs --mechanisms overlap or --under"],
        ),
        (
            &[&machine[..], &["--under", NAMES[5], "--kernel", image]].concat(),
            &["--under: `alloc_percpu` was never on a stack while this was recorded"],
        ),
        (
            &[&machine[..], &["--under", "kfrea", "--kernel", image]].concat(),
            &[
                "there is no function `kfrea` with code of its own",
                "; the nearest: kfree",
            ],
        ),
        (
            &[&machine[..], &["--under", "kfree", "--kernel", other]].concat(),
            &[
                "--under needs the image of the recorded kernel (6.12-test), which is not the image that --kernel names",
            ],
        ),
        (
            &[&machine[..], &["--under", "kfree"]].concat(),
            &["is not in /boot or the cache: give --kernel IMAGE"],
        ),
        (
            &[&machine[..], &["--under", "kfree", "--kernel", "/no/such"]].concat(),
            &["/no/such"],
        ),
        (
            &[
                &machine[..],
                &["--under", "kfree", "--kernel", image, "--by", "line"],
            ]
            .concat(),
            &["--under supports types, fields and functions only"],
        ),
        (
            &[
                &machine[..],
                &[
                    "--under",
                    "kfree",
                    "--kernel",
                    image,
                    "--html",
                    "/tmp/x.html",
                ],
            ]
            .concat(),
            &["--under does not support --html"],
        ),
        (
            &[
                &machine[..],
                &["--under", NAMES[1], "--kernel", image, "--type", "vector"],
            ]
            .concat(),
            &["no access to any vector while update_entity is on the stack"],
        ),
    ] {
        let mut arguments = vec!["report", data.as_str()];
        arguments.extend(more);
        let output = linemate(&arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{more:?}: {}",
            story(&output)
        );
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.lines().count(), 1, "{more:?}: {said}");
        for part in parts {
            assert!(said.contains(part), "{more:?}: no {part:?} in {said}");
        }
    }
}

/// A call of a watched function, by the recorder: from its entry to its return instruction. Calls
/// that allocate several objects are recorded when they return, once for each object.
struct Watched {
    cpu: CpuId,
    entry: u64,
    ret: u64,
}

/// The calls of a function that neither sleep nor nest, and how many there were in all.
fn watched(recording: &Recording, name: &str) -> (Vec<Watched>, u64) {
    let functions = &recording.functions().functions;
    let number = functions.iter().position(|f| f.name == name).unwrap();
    let mut open: HashMap<GuestAddr, (CpuId, u64)> = HashMap::new();
    let mut calls = Vec::new();
    let mut begun = HashSet::new();
    for event in recording.events() {
        match event.unwrap() {
            Event::Call(call) if call.function.0 as usize == number => {
                begun.insert((call.cpu, call.time));
                open.insert(call.stack, (call.cpu, call.time.0));
            }
            Event::Return(ret) if ret.function.0 as usize == number => {
                if let Some((cpu, entry)) = open.remove(&ret.stack) {
                    if cpu == ret.cpu {
                        calls.push(Watched {
                            cpu,
                            entry,
                            ret: ret.time.0,
                        });
                    }
                }
            }
            _ => {}
        }
    }
    (calls, begun.len() as u64)
}

#[test]
fn stacks_agree_with_the_calls_that_the_recorder_watched() {
    for series in ["6.12", "6.1"] {
        let folder = tempfile::tempdir().unwrap();
        let sleepers = workload("sleepers");
        let data = record(
            folder.path(),
            series,
            &["--smp", "4"],
            &[&sleepers, "-c", "8", "-l", "3", "-m", "1"],
        );
        let recording = Recording::open(data.as_ref()).unwrap();
        let code = KernelImage::code(&fs::read(kernel(series)).unwrap()).unwrap();
        let session = Session::new(&recording).unwrap().with_code(code);
        let functions = &recording.functions().functions;
        let mut checked = 0;
        for function in functions.iter().filter(|f| f.returns) {
            let (calls, count) = watched(&recording, &function.name);
            if count == 0 {
                continue;
            }
            let under = Under::new(&session, &function.name).unwrap();
            println!(
                "{series} {}: {count} calls, entered {}, {:?}",
                function.name, under.entered, under.balance
            );
            // Calls that were open when the recording began or ended.
            assert!(under.entered.abs_diff(count) <= 1, "{}", function.name);
            for call in &calls {
                let spans = under.spans(call.cpu);
                let at = spans.partition_point(|(_, last)| last.0 < call.entry);
                let (VirtualTime(first), VirtualTime(last)) = spans[at];
                let begins = first >= call.entry || call.entry == call.ret;
                assert!(
                    begins && last <= call.ret,
                    "{}: {first} to {last}, watched from {} to {}",
                    function.name,
                    call.entry,
                    call.ret
                );
                checked += 1;
            }
            let balance = under.balance;
            assert!(balance.matched * 100 >= balance.returns * 99, "{balance:?}");
        }
        assert!(checked > 1000, "{checked}");
    }
}

#[test]
fn a_recording_without_think_time_says_so_where_there_are_more_cpus() {
    let Files { data, .. } = &files();
    let ask = |cpus: &str| answer(&["report", data, "--machine", "gnr-2s-480", "--cpus", cpus]);
    let note = "no think time (format 1)";
    assert!(!ask("8").contains(note));
    // The version is the first number after the magic; its header ends with the tool's version,
    // without a checksum.
    let mut bytes = fs::read(data).unwrap();
    let tool = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    bytes.drain(16 + tool..16 + tool + 8);
    bytes[8] = 1;
    fs::write(data, bytes).unwrap();
    assert!(ask("8").contains(note), "{}", ask("8"));
}
