//! Heap objects, checked against the kernel itself.
//!
//! The guest's own kprobes print, for every task that starts or is woken, the addresses of its
//! `task_struct`, of its run queue, root domain and task group and of the `cfs_rq` it waits in. The
//! offsets for that come from pahole, so that neither the types crate nor sightings, votes or
//! lifetimes have a part in the answer. Attribution then looks up each address.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the measured rates are the result")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use common::{kernel, linemate, root, story, workload};
use linemate_attribution::Analysis;
use linemate_recording::{GuestAddr, Recording, VirtualTime};
use linemate_types::kernel_image::KernelImage;

const BOTH: [&str; 2] = ["6.12", "6.1"];

/// What runs: the set-up script, the workload and its arguments.
struct Case {
    setup: &'static str,
    program: &'static str,
    arguments: &'static str,
    /// What has to be named correctly; nothing may be named wrongly in any case. An object that is
    /// never passed to a function cannot be named: a root domain without real-time tasks.
    sure: &'static [&'static str],
}

const CASES: [Case; 2] = [
    Case {
        setup: "cgtree.sh",
        program: "cgtree",
        arguments: "-i 4 /cg/tree",
        sure: &["task", "group", "queue", "rq"],
    },
    Case {
        setup: "rtpush.sh",
        program: "rtpinned",
        arguments: "-g 2 -p 4 -t 8 -i 5",
        sure: &["task", "group", "queue", "rq", "domain"],
    },
];

/// What the probe prints, and the types that may be found there (the outermost: a `cfs_rq` can be
/// part of an `rq`, and a task group's of one that statistics follow).
const PRINTED: [(&str, &[&str]); 5] = [
    ("task", &["task_struct"]),
    ("group", &["task_group"]),
    ("queue", &["cfs_rq", "rq"]),
    ("rq", &["rq"]),
    ("domain", &["root_domain"]),
];

/// The offset of a member, by pahole: a line `type name; /* offset size */` at the first level of
/// the struct.
fn pahole(btf: &Path, structure: &str, member: &str) -> u64 {
    let output = Command::new("pahole")
        .args(["-C", structure])
        .arg(btf)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| {
        let name = line
            .split(';')
            .next()
            .unwrap_or_default()
            .rsplit([' ', '*', '\t'])
            .next();
        name == Some(member) && line.contains("/*")
    });
    let line = line.unwrap_or_else(|| panic!("pahole shows no {structure}.{member}"));
    let numbers = line.split("/*").nth(1).unwrap().trim();
    numbers
        .split_whitespace()
        .next()
        .unwrap()
        .trim_end_matches(':')
        .parse()
        .unwrap()
}

/// The set-up script: a probe where a task starts and one where it is woken.
fn probe(btf: &Path) -> String {
    let of = |structure, member| pahole(btf, structure, member);
    let queue = of("task_struct", "se") + of("sched_entity", "cfs_rq");
    let (group, rq, domain) = (
        of("task_struct", "sched_task_group"),
        of("cfs_rq", "rq"),
        of("rq", "rd"),
    );
    let mut script = String::from(
        "set -e\nb=/bin/busybox\ncd /sys/kernel/tracing\n[ -e kprobe_events ] || { $b mount -t tracefs none .; cd /sys/kernel/tracing; }\n",
    );
    let arguments = format!(
        "task=%di:x64 group=+{group}(%di):x64 queue=+{queue}(%di):x64 \
         rq=+{rq}(+{queue}(%di)):x64 domain=+{domain}(+{rq}(+{queue}(%di))):x64"
    );
    for (name, function) in [("started", "wake_up_new_task"), ("woken", "try_to_wake_up")] {
        let _ = writeln!(
            script,
            "echo 'p:{name} {function} {arguments}' >> kprobe_events"
        );
    }
    script.push_str("echo 1 > events/kprobes/enable\n");
    script
}

/// Each printed name with its addresses.
fn printed(trace: &str) -> BTreeMap<&'static str, BTreeSet<u64>> {
    let mut found: BTreeMap<&'static str, BTreeSet<u64>> = BTreeMap::new();
    for line in trace
        .lines()
        .filter(|line| line.contains(" started: (") || line.contains(" woken: ("))
    {
        for (name, _) in PRINTED {
            let value = line
                .split(' ')
                .find_map(|word| word.strip_prefix(name)?.strip_prefix("=0x"));
            found
                .entry(name)
                .or_default()
                .insert(u64::from_str_radix(value.unwrap(), 16).unwrap());
        }
    }
    found
}

/// How many of the printed addresses attribution names rightly, of how many; and the wrong ones,
/// for the message.
struct Score {
    right: usize,
    all: usize,
    wrong: Vec<String>,
}

/// The names of what was at an address, at any time that something was born there, and at the start
/// and the end.
fn names_at(
    analysis: &Analysis<'_>,
    births: &BTreeMap<u64, Vec<VirtualTime>>,
    addr: u64,
) -> BTreeSet<String> {
    let names = analysis.names().unwrap();
    let mut times = vec![VirtualTime(0), VirtualTime(u64::MAX - 1)];
    times.extend(births.get(&addr).into_iter().flatten());
    let name = |time: VirtualTime| {
        let found = names.locate_at(GuestAddr(addr), time);
        let ty = names.subjects()[found.subject.0 as usize].ty?;
        Some(format!("{}+{}", analysis.schema().name(ty), found.offset))
    };
    times.into_iter().filter_map(name).collect()
}

fn scores(
    analysis: &Analysis<'_>,
    printed: &BTreeMap<&'static str, BTreeSet<u64>>,
) -> BTreeMap<&'static str, Score> {
    let mut births: BTreeMap<u64, Vec<VirtualTime>> = BTreeMap::new();
    for (start, birth, _) in analysis.names().unwrap().objects() {
        births.entry(start.0).or_default().push(birth);
    }
    let mut scores = BTreeMap::new();
    for (what, expected) in PRINTED {
        let mut score = Score {
            right: 0,
            all: 0,
            wrong: Vec::new(),
        };
        for addr in &printed[what] {
            let found = names_at(analysis, &births, *addr);
            let fits = |name: &String| {
                expected.iter().any(|e| {
                    name.strip_prefix(e)
                        .is_some_and(|rest| rest.starts_with('+'))
                })
            };
            score.all += 1;
            if found.iter().any(fits) {
                score.right += 1;
            } else {
                score.wrong.push(format!("{addr:#x}: {found:?}"));
            }
        }
        scores.insert(what, score);
    }
    scores
}

/// Of the objects born during the recording that attribution calls `task_struct`: how many the
/// kernel started as tasks.
fn tasks_that_are(analysis: &Analysis<'_>, tasks: &BTreeSet<u64>) -> (usize, usize) {
    let names = analysis.names().unwrap();
    let is_task = |at: &linemate_attribution::Located| {
        names.subjects()[at.subject.0 as usize]
            .ty
            .is_some_and(|t| analysis.schema().name(t) == "task_struct")
    };
    let born: Vec<u64> = names
        .objects()
        .filter(|(_, birth, at)| *birth > VirtualTime(0) && is_task(at))
        .map(|(start, ..)| start.0)
        .collect();
    (
        born.iter().filter(|start| tasks.contains(start)).count(),
        born.len(),
    )
}

/// Runs a case with the probes set, and gives the recording and what they printed.
fn run(folder: &Path, series: &str, case: &Case) -> (String, String) {
    let btf = folder.join("btf");
    let image = std::fs::read(kernel(series)).unwrap();
    std::fs::write(&btf, KernelImage::parse(&image).unwrap().btf).unwrap();
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let script = std::fs::read_to_string(root().join("workloads").join(case.setup)).unwrap();
    let setup = write("setup.sh", script + &probe(&btf));
    // What the set-up woke is forgotten: it can be gone before recording starts.
    let lines = format!(
        "#!/bin/busybox sh\n: >/sys/kernel/tracing/trace\n/root/program {}\n/bin/busybox cat /sys/kernel/tracing/trace\n",
        case.arguments
    );
    let command = write("run.sh", lines);
    let data = folder.join("linemate.data").to_str().unwrap().to_owned();
    let image = kernel(series).to_str().unwrap().to_owned();
    let program = format!("{}:/root/program", workload(case.program));
    let arguments = [
        "record", "-o", &data, "--kernel", &image, "--setup", &setup, "--file", &program, "--",
        &command,
    ];
    let output = linemate(&arguments);
    assert!(output.status.success(), "{}", story(&output));
    (data, String::from_utf8_lossy(&output.stdout).into_owned())
}

fn check(series: &str, case: &Case) {
    let folder = tempfile::tempdir().unwrap();
    let (data, trace) = run(folder.path(), series, case);
    let printed = printed(&trace);
    let enough = printed.get("task").is_some_and(|tasks| tasks.len() >= 16);
    assert!(enough, "{series}: the probes printed {trace}");
    let recording = Recording::open(Path::new(&data)).unwrap();
    let analysis = Analysis::new(&recording).unwrap();
    let (tasks, called_tasks) = tasks_that_are(&analysis, &printed["task"]);
    let mut picture = format!(
        "{series}, {}: of {called_tasks} objects that are called task_struct {tasks} are\n",
        case.program
    );
    let scores = scores(&analysis, &printed);
    for (what, score) in &scores {
        let (right, all) = (score.right, score.all);
        let _ = writeln!(
            picture,
            "{what}: {right} of {all} right, not right: {:?}",
            score.wrong
        );
    }
    println!("{picture}");
    assert_eq!(tasks, called_tasks, "{picture}");
    for what in case.sure {
        assert_eq!(scores[what].right, scores[what].all, "{what} in {picture}");
    }
    for score in scores.values() {
        assert!(score.wrong.iter().all(|w| w.ends_with(": {}")), "{picture}");
    }
}

#[test]
fn heap_objects_are_what_the_kernel_says() {
    for series in BOTH {
        for case in &CASES {
            check(series, case);
        }
    }
}
