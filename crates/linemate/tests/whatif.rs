//! `linemate whatif` as a command, on a small recording of a real kernel: schema, edits that change
//! nothing, bad input.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use common::{kernel, linemate, record, story, workload};
use serde_json::Value;

/// One recording for all of a test: two CPUs, four children that sleep four times.
fn small_recording(folder: &Path) -> String {
    let sleepers = workload("sleepers");
    let command = [&*sleepers, "-m", "1", "-l", "2", "-c", "4"];
    record(folder, "6.12", &["--smp", "2"], &command)
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

fn whatif(data: &str, more: &[&str]) -> Value {
    let output = linemate(&[&["whatif", "-i", data, "--json"], more].concat());
    assert!(output.status.success(), "{}", story(&output));
    assert!(output.stderr.is_empty(), "{}", story(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Exit code 2, nothing on standard output, one line on standard error that holds all of `parts`.
fn refused(data: &str, more: &[&str], parts: &[&str]) {
    let output = linemate(&[&["whatif", "-i", data], more].concat());
    assert_eq!(
        output.status.code(),
        Some(2),
        "{more:?}: {}",
        story(&output)
    );
    assert!(output.stdout.is_empty(), "{more:?}: {}", story(&output));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{more:?}: {said}");
    for part in parts {
        assert!(said.contains(part), "{more:?}: no `{part}` in: {said}");
    }
}

const MEASURE: [&str; 5] = ["ci95", "difference", "significant", "with", "without"];

fn has_exactly(value: &Value, expected: &[&str]) {
    assert_eq!(
        keys(value),
        expected.iter().copied().collect::<BTreeSet<_>>()
    );
}

fn schema_is_as_described(json: &Value) {
    let top = [
        "schema",
        "tool",
        "recording",
        "checksum",
        "edits",
        "layouts",
        "event",
        "results",
    ];
    has_exactly(json, &top);
    assert_eq!(json["schema"], "linemate.whatif/2");
    let result = &json["results"][0];
    let described = [
        "machine",
        "line_bytes",
        "cpus",
        "recorded_cpus",
        "seed",
        "in_either_half",
        "interleavings",
        "interleavings_max",
        "accesses",
        "by_difference",
        "potential",
        "sizes",
        "sets",
        "types",
        "whole",
        "llc_misses",
        "llc_share",
        "warm_up",
        "mechanisms",
        "types_accesses",
        "on_stacks",
        "duration",
        "time",
        "causes",
        "sources",
        "fields",
        "functions",
        "ablation",
        "relocated",
        "paired",
        "followed",
        "skipped",
        "under",
    ];
    has_exactly(result, &described);
    let potential = [
        "cost",
        "true_sharing",
        "false_sharing",
        "cold",
        "capacity",
        "unshared",
    ];
    has_exactly(&result["potential"], &potential);
    let size = [
        "name",
        "memory",
        "recorded_bytes",
        "without_bytes",
        "with_bytes",
        "without_lines",
        "with_lines",
    ];
    has_exactly(&result["sizes"][0], &size);
    for measure in ["types", "whole", "duration"] {
        has_exactly(&result[measure], &MEASURE);
    }
    let time = ["cpus", "cycles", "waiting", "bound", "busiest", "memory"];
    has_exactly(&result["time"], &time);
    has_exactly(&result["time"]["cycles"], &MEASURE);
    let misses = [
        "types",
        "kernel",
        "kernel_loads",
        "kernel_stores",
        "kernel_rmws",
        "user_loads",
        "whole",
    ];
    has_exactly(&result["llc_misses"], &misses);
    has_exactly(&result["warm_up"], &["lines", "late"]);
    for of in misses {
        has_exactly(&result["llc_misses"][of], &MEASURE);
    }
    // Programs' own accesses were not recorded.
    assert_eq!(
        result["llc_misses"]["kernel"],
        result["llc_misses"]["whole"]
    );
    assert_eq!(result["llc_share"], false);
    for rows in ["causes", "sources", "fields", "functions"] {
        has_exactly(&result[rows][0], &["name", "count", "cycles"]);
        has_exactly(&result[rows][0]["cycles"], &MEASURE);
    }
}

/// Every measure of a result, by where it is.
fn measures(value: &Value, path: &str, found: &mut Vec<(String, f64, bool)>) {
    match value {
        Value::Object(map) if map.contains_key("significant") => {
            let difference = value["difference"].as_f64().unwrap();
            let significant = value["significant"].as_bool().unwrap();
            found.push((path.to_owned(), difference, significant));
        }
        Value::Object(map) => map
            .iter()
            .for_each(|(key, v)| measures(v, &format!("{path}.{key}"), found)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(i, v)| measures(v, &format!("{path}[{i}]"), found)),
        _ => {}
    }
}

fn changes(result: &Value) -> (usize, Vec<(String, f64, bool)>) {
    let mut found = Vec::new();
    measures(result, "", &mut found);
    let all = found.len();
    found.retain(|(_, difference, significant)| *difference != 0.0 || *significant);
    (all, found)
}

#[test]
fn a_small_recording_answers_or_says_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let data = small_recording(folder.path());

    let moved = whatif(&data, &["--type", "rq", "-e", "isolate __lock"]);
    schema_is_as_described(&moved);
    let result = &moved["results"][0];
    assert_eq!(
        (result["cpus"].as_u64(), result["recorded_cpus"].as_u64()),
        (Some(2), Some(2))
    );
    assert_eq!(result["interleavings_max"], 8);
    assert!([4, 8].contains(&result["interleavings"].as_u64().unwrap()));
    assert!(
        result["sizes"][0]["with_bytes"].as_u64() > result["sizes"][0]["without_bytes"].as_u64(),
        "a line of its own makes rq longer: {}",
        result["sizes"]
    );
    assert!(!changes(result).1.is_empty(), "an edit of the hottest lock");
    assert_eq!(
        whatif(&data, &["--type", "rq", "-e", "isolate __lock"]),
        moved,
        "the same question again"
    );

    // `nr_running` is the member after `__lock` in both kernels' rq.
    let same = whatif(
        &data,
        &["--type", "rq", "-e", "move nr_running after __lock"],
    );
    let result = &same["results"][0];
    assert_eq!(
        result["sizes"][0]["without_bytes"],
        result["sizes"][0]["with_bytes"]
    );
    let (all, changed) = changes(result);
    assert!(all > 100, "{all} measures");
    assert_eq!(changed, [], "an edit that changes nothing changed figures");

    let doubled = whatif(
        &data,
        &["--type", "rq", "-e", "isolate __lock", "--cpus", "8"],
    );
    assert_eq!(doubled["results"][0]["cpus"], 8);
    // Means can be compared over the same interleavings only.
    let isolated = [
        "--type",
        "rq",
        "-e",
        "isolate __lock",
        "--all-interleavings",
        // Warm, so few lines are missed that the order of accesses weighs more than the caches'
        // size.
        "--cold",
    ];
    let whole = whatif(&data, &isolated);
    assert_eq!(whole["results"][0]["interleavings"], 8);
    let shared = whatif(&data, &[&isolated[..], &["--llc-share"]].concat());
    assert_eq!(shared["results"][0]["llc_share"], true);
    let misses = |json: &Value| json["results"][0]["llc_misses"]["whole"]["without"].as_f64();
    let (shared, whole) = (misses(&shared).unwrap(), misses(&whole).unwrap());
    // A smaller L2 hands lines to the last-level cache earlier, where others then find them: a few
    // fewer can miss it.
    assert!(shared >= 0.999 * whole, "{shared} is less than {whole}");
    costs_are_as_described(&data);
    misses_overlap_where_the_kernel_is_known(&data);
    nothing_is_lost_by_what_is_left_out(&data);
    a_quantity_has_one_figure(&data);
    bad_edits_are_refused(&data);
    bad_machines_are_refused(&data, folder.path());
    bad_recordings_are_refused(&data, folder.path());
}

/// `--exact` changes no byte where layouts are as recorded: text, JSON, any number of clones, both
/// line sizes, all of a machine's threads.
fn nothing_is_lost_by_what_is_left_out(data: &str) {
    for options in [
        &["report", "-i", data, "--machine", "gnr-2s-480", "--json"][..],
        &[
            "report",
            "-i",
            data,
            "--machine",
            "turin-2s",
            "--type",
            "rq",
        ],
        &["report", "-i", data, "--machine", "gnr-2s-480"],
        &["report", "-i", data, "--machine", "power11", "--json"],
        &[
            "report",
            "-i",
            data,
            "--machine",
            "hcc-2s-480",
            "--by",
            "function",
        ],
        &[
            "report",
            "-i",
            data,
            "--machine",
            "gnr-2s-480",
            "--line",
            "128",
        ],
        &[
            "report",
            "-i",
            data,
            "--machine",
            "westmere-4s-80",
            "--llc-share",
        ],
        &["diff", data, data, "--machine", "westmere-4s-80"],
    ] {
        let quick = linemate(options);
        assert!(quick.status.success(), "{}", story(&quick));
        let exact = linemate(&[options, &["--exact"]].concat());
        assert_eq!(quick.stdout, exact.stdout, "{options:?}");
    }
    // More CPUs than were recorded: what groups share is reported, and is the same twice.
    let groups = [
        "report",
        "-i",
        data,
        "--machine",
        "gnr-2s-480",
        "--cpus",
        "32",
    ];
    let found = linemate(&groups);
    assert!(found.status.success(), "{}", story(&found));
    assert!(story(&found).contains(" groups of "), "{}", story(&found));
    assert_eq!(
        linemate(&[&groups[..], &["--no-cache"]].concat()).stdout,
        found.stdout
    );
    let cold = linemate(&[&groups[..], &["--cold"]].concat());
    assert_eq!(cold.status.code(), Some(2));
    assert!(
        story(&cold).contains("32 CPUs, more than were recorded, can only be replayed warm"),
        "{}",
        story(&cold)
    );
    let refused = linemate(&["report", "-i", data, "--exact"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(story(&refused).contains("--exact needs --machine: without one nothing is replayed"));
}

/// The recorded kernel's image is found by its checksum; another one is refused.
fn misses_overlap_where_the_kernel_is_known(data: &str) {
    let report = |more: &[&str]| {
        let options = ["report", "-i", data, "--machine", "gnr-2s-480"];
        linemate(&[&options, more].concat())
    };
    let costs = |mechanisms: &str| -> Value {
        let output = report(&["--json", "--mechanisms", mechanisms]);
        assert!(output.status.success(), "{}", story(&output));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        json["costs"].clone()
    };
    let (with, without) = (costs("overlap"), costs("none"));
    assert_eq!(with["mechanisms"], serde_json::json!(["overlap"]));
    assert_eq!(without["mechanisms"], serde_json::json!([]));
    assert_eq!(with["accesses"], without["accesses"]);
    assert_eq!(without["overlapped"], 0);
    let cycles = |costs: &Value| costs["whole"]["cycles"].as_u64().unwrap();
    assert!(with["overlapped"].as_u64().unwrap() > cycles(&without) / 100);
    assert!(cycles(&with) < cycles(&without));
    let text = String::from_utf8(report(&["--mechanisms", "overlap"]).stdout).unwrap();
    assert!(text.contains("64-byte lines, with overlap, "), "{text}");
    assert!(text.contains("Overlapping misses saved "), "{text}");

    let other = kernel("6.1");
    let wrong = report(&[
        "--mechanisms",
        "overlap",
        "--kernel",
        other.to_str().unwrap(),
    ]);
    assert_eq!(wrong.status.code(), Some(2));
    let said = story(&wrong);
    assert!(
        said.contains("needs the image of the recorded kernel (6.12."),
        "{said}"
    );
    assert!(
        said.contains("which is not the image that --kernel names"),
        "{said}"
    );
    let needless = report(&["--kernel", other.to_str().unwrap()]);
    assert_eq!(needless.status.code(), Some(2));
    let said = story(&needless);
    assert!(
        said.contains("--kernel needs --mechanisms overlap"),
        "{said}"
    );
}

/// `report --machine`: docs/reference/json/costs.md, and the first line.
fn costs_are_as_described(data: &str) {
    let report = |more: &[&str]| linemate(&[&["report", "-i", data], more].concat());
    let output = report(&["--machine", "power11", "--json"]);
    assert!(output.status.success(), "{}", story(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = [
        "schema",
        "tool",
        "recording",
        "checksum",
        "type",
        "cpus",
        "costs",
    ];
    has_exactly(&json, &expected);
    assert_eq!(json["schema"], "linemate.costs/5");
    let costs = &json["costs"];
    let expected = "machine line_bytes cpus recorded_cpus seed interleavings accesses device_accesses warm_up mechanisms overlapped duration potential sets whole types fields functions hottest pairs pairs_by time lines under";
    has_exactly(costs, &expected.split(' ').collect::<Vec<_>>());
    assert_eq!(costs["line_bytes"], 128);
    let sum = |rows: &str| -> u64 {
        let rows = costs[rows].as_array().unwrap();
        rows.iter().map(|row| row["cycles"].as_u64().unwrap()).sum()
    };
    let whole = costs["whole"]["cycles"].as_u64().unwrap();
    assert!(whole > 0);
    for rows in ["types", "fields", "functions", "lines"] {
        assert_eq!(sum(rows), whole, "{rows}");
    }
    let lines = costs["lines"].as_array().unwrap();
    for ty in costs["types"].as_array().unwrap() {
        let own = lines.iter().filter(|line| line["name"] == ty["name"]);
        for figure in ["cycles", "misses"] {
            let sum: u64 = own.clone().map(|line| line[figure].as_u64().unwrap()).sum();
            assert_eq!(Some(sum), ty[figure].as_u64(), "{figure} of {}", ty["name"]);
        }
    }
    let whole = &costs["whole"];
    let accesses = whole["loads"].as_u64().unwrap() + whole["stores"].as_u64().unwrap();
    let devices = costs["device_accesses"].as_u64().unwrap();
    assert!(devices > 0, "interrupts are ended at the local APIC");
    assert_eq!(costs["accesses"].as_u64(), Some(accesses + devices));

    let output = report(&["--machine", "gnr-2s-480", "--type", "rq"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let [first, second] = [0, 1].map(|at| text.lines().nth(at).unwrap());
    assert!(first.starts_with("rq on gnr-2s-480: "), "{first}");
    assert!(
        second.contains(" of the cost of rq is not true sharing: "),
        "{second}"
    );
    assert!(text.contains("capacity misses are a lower bound"));
    assert!(text.contains("\nrq, line at byte 0: "), "{text}");
    let again = report(&["--machine", "gnr-2s-480", "--type", "rq"]);
    assert_eq!(
        String::from_utf8(again.stdout).unwrap(),
        text,
        "the same question again"
    );
    let output = report(&["--machine", "gnr-2s-480", "--type", "rqq"]);
    assert_eq!(output.status.code(), Some(2), "{}", story(&output));
    assert!(output.stdout.is_empty());
}

/// The same quantity has the same figure in every table, as text and as JSON, and in both verbs
/// that show it.
fn a_quantity_has_one_figure(data: &str) {
    let report = |more: &[&str]| {
        let output = linemate(&[&["report", "-i", data, "--machine", "gnr-2s-480"], more].concat());
        assert!(output.status.success(), "{}", story(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let json: Value = serde_json::from_str(&report(&["--json"])).unwrap();
    let costs = &json["costs"];
    let rows = |rows: &Value| -> Vec<(String, u64)> {
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| {
            (
                row["name"].as_str().unwrap().to_owned(),
                row["cycles"].as_u64().unwrap(),
            )
        })
        .collect()
    };
    for by in ["type", "field", "function"] {
        // A long name takes several lines of a cell: its first word is on the line of its figures.
        let text = report(&["--by", by, "--all", "--top", "5"]);
        for (name, cycles) in rows(&costs[format!("{by}s")]).into_iter().take(5) {
            let first = name.split(" |").next().unwrap();
            let shown = |line: &&str| line.contains(first) && line.contains(&format!(" {cycles} "));
            assert!(
                text.lines().any(|line| shown(&line)),
                "{by} {name} {cycles}\n{text}"
            );
        }
    }
    let text = report(&["--by", "line", "--top", "5"]);
    for (line, (name, cycles)) in costs["lines"]
        .as_array()
        .unwrap()
        .iter()
        .zip(rows(&costs["lines"]))
        .take(5)
    {
        let shown = format!("\n{name}, line at byte {}: ", line["start"]);
        let figure = format!(" {cycles} cycles; ");
        assert!(
            text.contains(&shown) && text.contains(&figure),
            "{name} {cycles}\n{text}"
        );
    }
    // One type requested: its fields and its lines are the rows of before.
    let rq: Value = serde_json::from_str(&report(&["--type", "rq", "--json"])).unwrap();
    let of_rq = |all: Vec<(String, u64)>| -> Vec<(String, u64)> {
        let own = |row: &(String, u64)| row.0 == "rq" || row.0.starts_with("rq.");
        all.into_iter().filter(own).collect()
    };
    for table in ["fields", "lines"] {
        assert_eq!(
            rows(&rq["costs"][table]),
            of_rq(rows(&costs[table])),
            "{table}"
        );
    }
    let types = of_rq(rows(&costs["types"]));
    let cost = rq["costs"]["potential"]["cost"].as_f64();
    assert_eq!(cost, Some(types[0].1 as f64));
    // A what-if's side without edits is the mean of the same replays.
    let same = whatif(
        data,
        &[
            "--type",
            "rq",
            "-e",
            "isolate __lock",
            "--machine",
            "gnr-2s-480",
        ],
    );
    let seeds = same["results"][0]["interleavings"].as_u64().unwrap();
    let (mut whole, mut own) = (0, 0.0);
    for seed in 1..=seeds {
        let one = report(&["--type", "rq", "--json", "--seed", &seed.to_string()]);
        let one: Value = serde_json::from_str(&one).unwrap();
        whole += one["costs"]["whole"]["cycles"].as_u64().unwrap();
        own += one["costs"]["potential"]["cost"].as_f64().unwrap();
    }
    let without = |figure: &str| same["results"][0][figure]["without"].as_f64();
    assert_eq!(without("whole"), Some(whole as f64 / seeds as f64));
    assert_eq!(without("types"), Some(own / seeds as f64));
    // Its accesses, whatever became of them, are those of the report that replays nothing.
    let counted = linemate(&["report", "-i", data, "--type", "rq", "--json"]);
    let counted: Value = serde_json::from_slice(&counted.stdout).unwrap();
    assert_eq!(
        same["results"][0]["types_accesses"],
        counted["type"]["figures"]["accesses"]
    );
}

fn bad_edits_are_refused(data: &str) {
    let edit = |type_name: &str, edit: &str, parts: &[&str]| {
        refused(data, &["--type", type_name, "-e", edit], parts);
    };
    edit("rq", "isolate __lokc", &["`__lokc`", "__lock"]);
    edit(
        "task_struct",
        "isolate sched_contributes_to_load",
        &[
            "`sched_contributes_to_load`",
            "bit-field",
            "`sched_reset_on_fork`",
        ],
    );
    edit("rqq", "isolate __lock", &["rqq", "rq"]);
    edit(
        "rq",
        "align __lock 48",
        &["48", "a power of two", "nearest is"],
    );
    edit(
        "rq",
        "reuse RMW of __lock in no_such_function_at_all",
        &["no_such_function_at_all"],
    );
    edit(
        "task_group",
        "skip array of load_avg",
        &["task_group", "`load_avg` is not a pointer"],
    );
    edit(
        "sched_group",
        "move cpumask first",
        &["sched_group", "cpumask", "flexible"],
    );
    edit("ext4_inode_info", "move i_data first", &["ext4_inode_info"]);
    let inside = "no access to any sched_avg that is not inside another type";
    refused(data, &["-e", "percpu sched_avg"], &[inside]);
    // It can be replayed, but does nothing.
    let reuse = "reuse RMW of __lock in update_rq_clock";
    let output = linemate(&["whatif", "-i", data, "--type", "rq", "-e", reuse]);
    let said = format!("\nNo access matches `{reuse}`.\n");
    assert!(story(&output).contains(&said), "{}", story(&output));
    for edit in [
        "skip silent stores of clock_update_flags",
        "remove nr_running",
    ] {
        let output = linemate(&["whatif", "-i", data, "--type", "rq", "-e", edit]);
        assert!(output.status.success(), "{}", story(&output));
        assert!(!story(&output).contains("No access matches"), "{edit}");
    }
    refused(data, &["--type", "rq"], &["nothing to compare"]);
    refused(
        data,
        &[
            "--type",
            "rq",
            "-e",
            "isolate __lock",
            "--interleavings",
            "7",
        ],
        &["--interleavings = 7: must be 8 to 1024"],
    );
}

fn bad_machines_are_refused(data: &str, folder: &Path) {
    let with = |more: &[&str], parts: &[&str]| {
        let edit = ["--type", "rq", "-e", "isolate __lock"];
        refused(data, &[&edit, more].concat(), parts);
    };
    with(
        &["--cpus", "3"],
        &["3 CPUs", "multiple of the 2", "nearest"],
    );
    with(&["--cpus", "482"], &["482", "gnr-2s-480", "480"]);
    with(&["--machine", "gnr-2s-840"], &["gnr-2s-840", "gnr-2s-480"]);

    let shown = linemate(&["machines", "--text", "gnr-2s-480"]);
    assert!(shown.status.success(), "{}", story(&shown));
    let text = String::from_utf8(shown.stdout).unwrap();
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let unknown = write("unknown.toml", format!("colour = \"red\"\n{text}"));
    with(&["--machine", &unknown], &["unknown.toml", "colour"]);
    let no_ways = text.replacen("ways = ", "ways = 0 #", 1);
    assert_ne!(no_ways, text);
    let no_ways = write("no-ways.toml", no_ways);
    with(&["--machine", &no_ways], &["no-ways.toml", "ways"]);
}

fn bad_recordings_are_refused(data: &str, folder: &Path) {
    let with = |path: &Path, parts: &[&str]| {
        refused(
            path.to_str().unwrap(),
            &["--type", "rq", "-e", "isolate __lock"],
            parts,
        );
    };
    let mut bytes = std::fs::read(data).unwrap();
    // The version is after the magic number (docs/reference/recording-format.md).
    bytes[8..12].copy_from_slice(&99_u32.to_le_bytes());
    let newer = folder.join("newer.data");
    std::fs::write(&newer, &bytes).unwrap();
    with(&newer, &["newer.data", "99", "newer"]);
    std::fs::write(&newer, "text\n").unwrap();
    with(&newer, &["newer.data", "not a linemate recording"]);
    with(&folder.join("missing.data"), &["missing.data"]);
}
