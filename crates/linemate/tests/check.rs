//! `linemate check` as a user calls it: on Debian's kernels of two versions and three
//! architectures, and on bad input.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::path::Path;
use std::process::Output;

use common::{linemate, root, story};
use linemate_testkit::btf_writer::{self, Endian};
use linemate_types::{BitOffset, Composite, KernelImage, Member, Type};
use serde_json::Value;

/// A small BTF blob with `struct outer`, which has `array` at 8 and `b` at 32.
const BTF: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/btf/sample");

fn kernel(series: &str) -> String {
    common::kernel(series).to_str().unwrap().to_owned()
}

fn shipped() -> String {
    let path = root().join("rules/sched.rules");
    path.to_str().unwrap().to_owned()
}

/// Standard output of a call that ends with `status` and has nothing to say on standard error.
fn says(status: i32, arguments: &[&str]) -> String {
    let output = call(arguments);
    assert_eq!(output.status.code(), Some(status), "{}", story(&output));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    String::from_utf8(output.stdout).unwrap()
}

/// The one line that a call that fails with exit code 2 leaves on standard error.
fn fails(arguments: &[&str]) -> String {
    let output = call(arguments);
    assert_eq!(output.status.code(), Some(2), "{}", story(&output));
    assert!(output.stdout.is_empty());
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

fn call(arguments: &[&str]) -> Output {
    let mut all = vec!["check"];
    all.extend(arguments);
    linemate(&all)
}

/// The same types in an ELF file for that machine (`e_machine` of the ELF specification).
fn elf(folder: &Path, machine: u8) -> String {
    let seed = root().join("fuzz/seeds/kernel_image/elf");
    let mut bytes = fs::read(seed).unwrap();
    assert_eq!(bytes.get(..4), Some(&b"\x7fELF"[..]));
    bytes[18] = machine;
    let path = folder.join(format!("elf-{machine}"));
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A file in `folder`, by its path.
fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_shipped_rules_are_silent_about_what_changed_between_6_1_and_6_12() {
    let (old, new) = (kernel("6.1"), kernel("6.12"));
    let text = says(0, &[&shipped(), "--kernel", &old, &new]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    for (line, release) in lines.iter().zip(["6.1.", "6.12."]) {
        assert!(line.starts_with(release), "{text}");
        assert!(
            line.ends_with(", x86_64, lines of 64 bytes: 30 rules, all kept"),
            "{text}"
        );
    }
    assert_eq!(lines[2], "0 findings, 2 kernels");
}

/// Rule → sentence of the only kernel's findings.
fn findings(arguments: &[&str]) -> Vec<(String, String)> {
    let document: Value = serde_json::from_str(&says(1, arguments)).unwrap();
    assert_eq!(document["schema"], "linemate.check/1");
    let findings = document["kernels"][0]["findings"].as_array().unwrap();
    assert_eq!(document["failing"], findings.len());
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let pair = |f: &Value| {
        let rule = format!("{}: {}", text(f, "type"), text(f, "rule"));
        (rule, text(f, "message"))
    };
    findings.iter().map(pair).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
    expected.iter().map(owned).collect()
}

#[test]
fn lines_of_128_bytes_are_found_on_the_real_thing() {
    let image = kernel("6.12-ppc64el");
    let found = findings(&[&shipped(), "--json", "--kernel", &image]);
    let expected = pairs(&[
        (
            "rq: apart __lock from ttwu_pending",
            "__lock shares line 0 with ttwu_pending",
        ),
        (
            "rq: apart clocks from cpu_capacity",
            "clock_task, clock_pelt, lost_idle_time, clock_pelt_idle and clock_idle share line 23 with cpu_capacity",
        ),
        (
            "rq: hole",
            "72 bytes after clock and 64 bytes after cfs_tasks are unused, at most 63 are allowed",
        ),
        (
            "root_domain: group rto",
            "on 2 lines where 1 is enough: rto_lock and rto_loop are on line 8; rto_cpu, rto_loop_next and rto_loop_start are on line 9",
        ),
    ]);
    assert_eq!(found, expected);
    // With 64-byte lines the same kernel parts what 128-byte lines bring together.
    let found = findings(&[&shipped(), "--json", "--line", "64", "--kernel", &image]);
    let rules: Vec<&str> = found.iter().map(|(rule, _)| rule.as_str()).collect();
    assert_eq!(rules, ["rq: hole", "root_domain: group rto"]);
}

#[test]
fn another_configuration_can_break_what_the_usual_one_keeps() {
    // Masks of 256 CPUs are inside root_domain there, and push the fields after them over a line's
    // end.
    let image = kernel("6.1-arm64");
    let expected = pairs(&[(
        "root_domain: group rto",
        "on 2 lines where 1 is enough: rto_lock and rto_loop are on line 3; rto_cpu, rto_loop_next and rto_loop_start are on line 4",
    )]);
    assert_eq!(
        findings(&[&shipped(), "--json", "--kernel", &image]),
        expected
    );
}

/// The types of Debian's 6.12 kernel with one struct changed, as a BTF file in `folder`.
fn changed(folder: &Path, name: &str, change: impl Fn(&mut Composite)) -> String {
    let image = KernelImage::parse(&fs::read(kernel("6.12")).unwrap()).unwrap();
    let model = image.types().unwrap();
    let mut types: Vec<Type> = model.iter().map(|(_, t)| t.clone()).collect();
    let mut found = 0;
    for t in &mut types {
        if let Type::Composite(composite) = t {
            if composite.name.as_str() == name {
                change(composite);
                composite.members.sort_by_key(|m| m.offset);
                found += 1;
            }
        }
    }
    assert_eq!(found, 1, "struct {name}");
    let path = folder.join(format!("{name}.btf"));
    fs::write(&path, btf_writer::write(&types, Endian::Little).unwrap()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn member<'a>(composite: &'a mut Composite, name: &str) -> &'a mut Member {
    let mut members = composite.members.iter_mut();
    members.find(|m| m.name.as_str() == name).unwrap()
}

#[test]
fn a_change_of_a_real_type_is_found_when_it_breaks_a_promise() {
    let folder = tempfile::tempdir().unwrap();
    // One of the clocks changes places with a field of the balancer.
    let moved = changed(folder.path(), "rq", |rq| {
        let clock = member(rq, "clock_pelt_idle").offset;
        let other = std::mem::replace(&mut member(rq, "next_balance").offset, clock);
        member(rq, "clock_pelt_idle").offset = other;
    });
    let expected = pairs(&[
        (
            "rq: group clocks",
            "on 2 lines where 1 is enough: clock_pelt_idle is on line 42; clock_task, clock_pelt, lost_idle_time and clock_idle are on line 43",
        ),
        (
            "rq: apart clocks from idle",
            "clock_pelt_idle shares line 42 with idle",
        ),
    ]);
    let found = findings(&[&shipped(), "--json", "--kernel", &moved]);
    assert_eq!(found, expected);

    // A counter of 4 bytes becomes a struct of 32, and everything after it moves on.
    let grown = changed(folder.path(), "root_domain", |domain| {
        let work = member(domain, "rto_push_work").type_id;
        let count = member(domain, "dlo_count");
        count.type_id = work;
        let start = count.offset;
        for member in domain.members.iter_mut().filter(|m| m.offset > start) {
            member.offset = BitOffset(member.offset.0 + 24 * 8);
        }
        domain.size += 24;
    });
    let expected = pairs(&[(
        "root_domain: group rto",
        "on 2 lines where 1 is enough: rto_lock, rto_loop, rto_cpu and rto_loop_next are on line 2; rto_loop_start is on line 3",
    )]);
    assert_eq!(
        findings(&[&shipped(), "--json", "--kernel", &grown]),
        expected
    );

    // An additional field that no rule mentions.
    let unrelated = changed(folder.path(), "rq", |rq| {
        let mut more = member(rq, "nr_switches").clone();
        more.name = "nr_more".into();
        more.offset = BitOffset(u64::from(rq.size) * 8);
        rq.members.push(more);
        rq.size += 64;
    });
    let text = says(0, &[&shipped(), "--kernel", &unrelated]);
    assert!(text.ends_with("0 findings, 1 kernel\n"), "{text}");
}

#[test]
fn an_old_tree_adopts_rules_and_only_gets_better() {
    let folder = tempfile::tempdir().unwrap();
    let known = folder.path().join("known.json");
    let known = known.to_str().unwrap();
    let rules = |text: &str| file(folder.path(), "r.rules", &format!("type outer\n{text}\n"));
    // array is on 8 to 32, b on 32 to 40.
    let bad = rules("start b\nstart array");
    let adopted = says(0, &[&bad, "--kernel", BTF, "--write-baseline", known]);
    assert!(adopted.ends_with("2 findings, 1 kernel\n"), "{adopted}");
    let written = fs::read_to_string(known).unwrap();
    let accepted = says(0, &[&bad, "--kernel", BTF, "--baseline", known]);
    let expected = format!(
        "{BTF}, lines of 64 bytes: 2 rules, 2 broken
{bad}:2:1: outer, start b: starts 32 bytes into line 0, at byte 32 [accepted by the baseline]
{bad}:3:1: outer, start array: starts 8 bytes into line 0, at byte 8 [accepted by the baseline]
0 findings, 1 kernel, 2 accepted
"
    );
    assert_eq!(accepted, expected);

    // One is fixed, and another one is new: the new one fails, and does not get into the baseline.
    let changed = rules("start array\napart array from b\nbecause \"they contend\"");
    let both = [
        &changed,
        "--kernel",
        BTF,
        "--baseline",
        known,
        "--write-baseline",
        known,
    ];
    let text = says(1, &both);
    let expected = format!(
        "{BTF}, lines of 64 bytes: 2 rules, 2 broken
{changed}:2:1: outer, start array: starts 8 bytes into line 0, at byte 8 [accepted by the baseline]
{changed}:3:1: outer, apart array from b: array shares line 0 with b [new]
\tbecause they contend
fixed since the baseline: outer, start b (any, lines of 64 bytes)
1 finding, 1 kernel, 1 accepted, 1 fixed: rewrite the baseline to lock that in
"
    );
    assert_eq!(text, expected);
    let tightened = fs::read_to_string(known).unwrap();
    assert!(tightened.len() < written.len());
    assert!(tightened.contains("start array") && !tightened.contains("start b"));
    assert!(!tightened.contains("apart"));
    // What was fixed fails when it comes back.
    let bad = rules("start b\nstart array");
    says(1, &[&bad, "--kernel", BTF, "--baseline", known]);
    let message = fails(&[&bad, "--kernel", BTF, "--write-baseline", known]);
    assert_eq!(
        message,
        format!(
            "linemate: {known}: already exists: give it to --baseline, too, to shrink it, or remove it to start over"
        )
    );
    assert_eq!(fs::read_to_string(known).unwrap(), tightened);
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "nothing is left behind: {left:?}");
}

#[test]
fn lines_have_the_size_that_a_kernel_is_built_for() {
    const PPC64: u8 = 21;
    const S390: u8 = 22;
    const X86_64: u8 = 62;
    let folder = tempfile::tempdir().unwrap();
    let rules = file(folder.path(), "r.rules", "type outer\nsize at most 1 line");
    for (machine, arch, line) in [(X86_64, "x86_64", 64), (PPC64, "ppc64", 128)] {
        let image = elf(folder.path(), machine);
        let text = says(0, &[&rules, "--kernel", &image]);
        let wanted = format!(", {arch}, lines of {line} bytes: 1 rule, all kept");
        assert!(text.lines().next().unwrap().ends_with(&wanted), "{text}");
    }
    let image = elf(folder.path(), S390);
    let expected = format!(
        "linemate: {image}: its lines have 256 bytes, which rules do not support: give --line 64 or --line 128"
    );
    assert_eq!(fails(&[&rules, "--kernel", &image]), expected);
    let text = says(0, &[&rules, "--line", "128", "--kernel", &image]);
    assert!(
        text.contains(", s390x, lines of 128 bytes: 1 rule,"),
        "{text}"
    );
}

#[test]
fn sarif_points_at_the_rules() {
    let folder = tempfile::tempdir().unwrap();
    let rules = file(
        folder.path(),
        "a b.rules",
        "type outer\n\n  start b\nbecause \"it is hot\"",
    );
    let log: Value = serde_json::from_str(&says(1, &[&rules, "--sarif", "--kernel", BTF])).unwrap();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    assert_eq!(run["tool"]["driver"]["name"], "linemate");
    let [result] = run["results"].as_array().unwrap().as_slice() else {
        panic!("{log}")
    };
    let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
    assert_eq!(result["ruleId"], "start");
    assert_eq!(run["tool"]["driver"]["rules"][index]["id"], "start");
    assert_eq!(result["level"], "error");
    let place = &result["locations"][0]["physicalLocation"];
    let uri = format!("file://{}/a%20b.rules", folder.path().display());
    assert_eq!(place["artifactLocation"]["uri"], uri);
    assert_eq!(place["region"]["startLine"], 3);
    assert_eq!(place["region"]["startColumn"], 3);
    let text = format!(
        "outer, start b: starts 32 bytes into line 0, at byte 32 ({BTF}, lines of 64 bytes). Because it is hot"
    );
    assert_eq!(result["message"]["text"], text);
    assert_eq!(
        result["partialFingerprints"]["linemateRule/v1"],
        "any/64/outer/start b"
    );
    assert!(result.get("baselineState").is_none());

    let known = folder.path().join("known.json");
    let known = known.to_str().unwrap();
    says(0, &[&rules, "--kernel", BTF, "--write-baseline", known]);
    let log = says(
        0,
        &[&rules, "--sarif", "--kernel", BTF, "--baseline", known],
    );
    let log: Value = serde_json::from_str(&log).unwrap();
    let result = &log["runs"][0]["results"][0];
    assert_eq!(result["baselineState"], "unchanged");
    assert_eq!(result["level"], "note");
    assert_eq!(result["suppressions"][0]["kind"], "external");
}

/// Hosts annotate lines that a change touches: those of the struct, not those of the rules.
#[test]
fn sarif_points_at_the_declared_member() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    file(
        &folder,
        "conn.h",
        "struct conn {\n\tlong refs;\n\tint id;\n\n\tlong mask;\n};\n",
    );
    file(
        &folder,
        "conn.c",
        "#include \"conn.h\"\nstruct conn conn;\nint main(void) { return (int)conn.refs; }\n",
    );
    let rules = "type conn\napart refs from mask\nsize at most 8 bytes\n";
    file(&folder, "conn.rules", rules);
    let compiled = std::process::Command::new("gcc")
        .args(["-g", "-o", "conn", "conn.c"])
        .current_dir(&folder)
        .status();
    assert!(compiled.unwrap().success());
    let places = |from: &Path, words: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_linemate"))
            .arg("check")
            .args(words)
            .arg("--sarif")
            .current_dir(from)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let log: Value = serde_json::from_slice(&output.stdout).unwrap();
        let results = log["runs"][0]["results"].as_array().unwrap().clone();
        let place = |place: &Value| {
            let place = &place["physicalLocation"];
            let uri = place["artifactLocation"]["uri"].as_str().unwrap();
            format!("{uri}:{}", place["region"]["startLine"])
        };
        let all = |result: &Value| {
            let related = result["relatedLocations"].as_array();
            let related = related.into_iter().flatten().map(place);
            let at = place(&result["locations"][0]);
            [at].into_iter()
                .chain(related)
                .collect::<Vec<_>>()
                .join(" ")
        };
        results.iter().map(all).collect::<Vec<_>>()
    };
    let found = places(&folder, &["conn.rules", "--program", "conn"]);
    assert_eq!(found, ["conn.h:5 conn.rules:2", "conn.h:1 conn.rules:3"]);
    // A source elsewhere is not part of the checkout: the rule remains.
    std::fs::create_dir(folder.join("elsewhere")).unwrap();
    let found = places(
        &folder.join("elsewhere"),
        &["../conn.rules", "--program", "../conn"],
    );
    assert_eq!(found, ["../conn.rules:2", "../conn.rules:3"]);
}

#[test]
fn bad_input_gets_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let rules = |text: &str| file(folder.path(), "r.rules", text);
    for (text, expected) in [
        ("", ":1:1: it has no rules".to_owned()),
        (
            "type outer\nstrat b",
            ":2:1: unknown rule `strat`; known are type, type?, group, apart, isolate, start, size, hole, because".to_owned(),
        ),
        (
            "type outer\nstart array\nstart arrya",
            format!(":3:1: outer has no member `arrya`; the nearest: array; if it may be missing, write `arrya?` ({BTF})"),
        ),
        (
            "type outre\nstart b",
            format!(":1:1: there is no type `outre`; the nearest: outer; if it may be missing, write `type? outre` ({BTF})"),
        ),
        (
            "type outer\ngroup g { b array }\ngroup h { b }\napart g from h",
            ":4:1: groups `g` and `h` must be apart, but `b` is in both".to_owned(),
        ),
    ] {
        let path = rules(text);
        assert_eq!(
            fails(&[&path, "--kernel", BTF]),
            format!("linemate: {path}{expected}")
        );
    }
    let good = rules("type outer\nsize at most 9 lines");
    let text = says(0, &[&good, "--kernel", BTF]);
    assert!(text.ends_with("0 findings, 1 kernel\n"), "{text}");
    let missing = folder.path().join("none");
    let missing = missing.to_str().unwrap();
    for arguments in [
        [missing, "--kernel", BTF, "--json"],
        [&good, "--kernel", missing, "--json"],
    ] {
        assert_eq!(
            fails(&arguments),
            format!("linemate: cannot read {missing}: No such file or directory")
        );
    }
    let message = fails(&[&good, "--kernel", &good]);
    assert!(
        message.starts_with(&format!("linemate: {good}: not a kernel image")),
        "{message}"
    );
    let bad = file(
        folder.path(),
        "bad.json",
        "{ \"schema\": \"other\", \"findings\": [] }",
    );
    assert_eq!(
        fails(&[&good, "--kernel", BTF, "--baseline", &bad]),
        format!("linemate: {bad}: schema \"other\" is not \"linemate.check-baseline/1\"")
    );
    let nowhere = folder.path().join("no/where.json");
    let nowhere = nowhere.to_str().unwrap();
    let message = fails(&[&good, "--kernel", BTF, "--write-baseline", nowhere]);
    assert!(
        message.starts_with(&format!("linemate: cannot write {nowhere}: ")),
        "{message}"
    );
}

#[test]
fn programs_are_checked_by_their_debug_information() {
    let folder = tempfile::tempdir().unwrap();
    let source = file(
        folder.path(),
        "counters.c",
        "struct counters { long hits; long misses; char name[56]; long lookups; } c;\nint main(void) { return (int)c.hits; }\n",
    );
    let program = folder.path().join("counters");
    let compiled = std::process::Command::new("cc")
        .args(["-g", "-o", program.to_str().unwrap(), &source])
        .status()
        .unwrap();
    assert!(compiled.success());
    let program = program.to_str().unwrap();
    let rules = file(
        folder.path(),
        "c.rules",
        "type counters\napart hits from lookups\nisolate misses because \"every thread writes it\"",
    );
    let text = says(1, &[&rules, "--program", program]);
    assert!(
        text.starts_with(&format!(
            "{program}, lines of 64 bytes: 2 rules, 1 broken\n"
        )),
        "{text}"
    );
    assert!(
        text.contains("isolate misses") && text.contains("because every thread writes it"),
        "{text}"
    );
    assert!(text.ends_with("1 finding, 1 program\n"), "{text}");
    // On one line of 128 bytes nothing is apart; a kernel is distinguished from a program.
    let wide = says(
        1,
        &[&rules, "--line", "128", "--json", "--program", program],
    );
    let document: Value = serde_json::from_str(&wide).unwrap();
    assert_eq!(document["failing"], 2);
    assert_eq!(document["kernels"][0]["program"], true);
    let both = file(
        folder.path(),
        "b.rules",
        "type? outer\nsize at most 9 lines",
    );
    let text = says(0, &[&both, "--kernel", BTF, "--program", program]);
    assert!(
        text.ends_with("0 findings, 1 kernel, 1 program\n"),
        "{text}"
    );
    // Known findings of a program are like a kernel's.
    let known = folder.path().join("known.json");
    let known = known.to_str().unwrap();
    says(
        0,
        &[&rules, "--program", program, "--write-baseline", known],
    );
    says(0, &[&rules, "--program", program, "--baseline", known]);
    let strange = file(folder.path(), "s.rules", "type counter\nstart hits");
    let text = fails(&[&strange, "--program", program]);
    assert_eq!(
        text,
        format!(
            "linemate: {strange}:1:1: there is no type `counter`; the nearest: counters; if it may be missing, write `type? counter` ({program})"
        )
    );
    let stripped = fails(&[&rules, "--program", "/bin/true"]);
    assert!(stripped.starts_with("linemate: /bin/true: "), "{stripped}");
}

#[test]
fn a_recording_is_checked_alone() {
    let rules = shipped();
    for arguments in [
        &["--recording", "x.data", "--sarif"][..],
        &["--recording", "x.data", "--kernel", "debian:6.12"],
        &[&rules, "--recording", "x.data"],
        &["--top", "3", &rules, "--kernel", "x"],
        &[],
    ] {
        let output = call(arguments);
        assert_eq!(output.status.code(), Some(2), "{}", story(&output));
        assert!(output.stdout.is_empty());
    }
    let missing = fails(&["--recording", "/nowhere/x.data"]);
    assert!(missing.contains("/nowhere/x.data"), "{missing}");
}

/// A compiler's own test of these assertions is in the crate of the rules.
#[test]
fn rules_become_assertions_for_a_compiler() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conn.rules");
    let rules = path.to_str().unwrap();
    fs::write(&path, "type conn\nstart refs\nsize at most 2 lines\n").unwrap();
    let text = says(0, &[rules, "--emit", "c", "--line", "128"]);
    assert!(text.contains("#define LINEMATE_LINE 128\n"), "{text}");
    assert_eq!(text.matches("static_assert(").count(), 2, "{text}");

    assert_eq!(
        fails(&[rules]),
        format!(
            "linemate: {rules}: nothing to check: give --kernel IMAGE, --program FILE or, to write assertions, --emit LANGUAGE"
        )
    );

    fs::write(&path, "type conn\nisolate refs\n").unwrap();
    assert_eq!(
        fails(&[rules, "--emit", "rust"]),
        format!(
            "linemate: {rules}: no rule in it can be an assertion: give --kernel or --program instead of --emit"
        )
    );
}

/// Of every type that declares groups, and of everything.
#[test]
fn declared_groups_have_the_cycles_of_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let command = ["hackbench", "-g", "1", "-l", "20"];
    let data = common::record(folder.path(), "6.12", &["--smp", "2"], &command);
    let json = |arguments: &[&str]| -> Value {
        let output = linemate(&[arguments, &["--json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let groups = json(&["check", "--recording", &data]);
    let cycles = |rows: &Value| -> u64 {
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| row["cycles"].as_u64().unwrap()).sum()
    };
    let types = groups["types"].as_array().unwrap();
    assert!(cycles(&groups["types"]) > 0, "{types:?}");
    for of in types {
        let name = of["type"].as_str().unwrap();
        let machine = ["--machine", "gnr-2s-480", "--top", "1000000"];
        let report = json(&[&["report", "-i", &data, "--type", name], &machine[..]].concat());
        let costs = &report["costs"];
        assert_eq!(of["cycles"], cycles(&costs["fields"]), "{name}");
        assert_eq!(groups["whole_cycles"], costs["whole"]["cycles"], "{name}");
    }
    let text = linemate(&["check", "--recording", &data]).stdout;
    let text = String::from_utf8(text).unwrap();
    for of in types {
        let line = format!(
            "{}: {} bytes, {} cycles, ",
            of["type"].as_str().unwrap(),
            of["size"],
            of["cycles"]
        );
        assert!(text.contains(&line), "{line}\n{text}");
    }
}
