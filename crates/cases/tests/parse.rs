//! Reading of case.toml: what is understood, and what is refused with which line and words.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use linemate_cases::{
    Build, CaseEdit, CaseEvent, Check, FoundFigure, Guest, KernelSource, KernelTree, NarrowEnough,
    PredictedFigure, PredictedOf, RunCount, Workload, parse,
};

const WHOLE: &str = r#"name = "nohz"
summary = "a counter"
types = ["nohz", "rq"]
machines = ["gnr-2s-480"]

[kernel]
series = "6.12"

[build]
package = "linux-source-6.12"
config = "../kernel.config"

[guest]
cpus = 8

[workload]
setup = "cgtree.sh"
files = ["sleepers:/bin/sleepers"]
command = ["sleepers", "-m", "1"]

[[edit]]
name = "no-counter"
file = "edits/no-counter.txt"
patches = ["patches/0001.patch"]
measure = "same.txt"

[[published]]
key = "cycles"
value = "0.81 %"
source = "2026"
found = { type = "rq", field = "__lock", figure = "group-share" }
predicted = { edit = "no-counter", machine = "gnr-2s-480", function = "f" }
"#;

#[test]
fn a_whole_case_is_understood() {
    let case = parse(WHOLE).unwrap();
    assert_eq!(case.name, "nohz");
    assert_eq!(case.types, ["nohz", "rq"]);
    assert_eq!(case.kernel, KernelSource::Series("6.12".into()));
    assert_eq!(
        case.guest,
        Guest {
            cpus: 8,
            memory: "1G".into(),
            seed: 42,
            runs: RunCount::Fixed(1),
            numa: 1,
            append: String::new(),
            user: false,
        }
    );
    assert_eq!(
        case.workload,
        Workload {
            setup: Some("cgtree.sh".into()),
            files: vec!["sleepers:/bin/sleepers".into()],
            command: vec!["sleepers".into(), "-m".into(), "1".into()],
        }
    );
    assert_eq!(
        case.build,
        Some(Build {
            source: KernelTree::Package("linux-source-6.12".into()),
            config: vec!["../kernel.config".into()],
            script: None,
        })
    );
    assert_eq!(
        case.edits,
        [CaseEdit {
            name: "no-counter".into(),
            title: String::new(),
            file: "edits/no-counter.txt".into(),
            patches: vec!["patches/0001.patch".into()],
            measure: Some("same.txt".into()),
        }]
    );
    let [published] = &case.published[..] else {
        panic!("{:?}", case.published)
    };
    assert_eq!(
        published.found,
        Some(FoundFigure::GroupShare {
            type_name: "rq".into(),
            field: "__lock".into()
        })
    );
    assert_eq!(
        published.predicted,
        Some(PredictedOf {
            edit: "no-counter".into(),
            machine: "gnr-2s-480".into(),
            of: PredictedFigure::Function("f".into())
        })
    );
}

#[test]
fn an_event_is_understood_or_refused() {
    let with = |event: &str| {
        let text = WHOLE.replacen("[workload]", &format!("[event]\n{event}\n[workload]"), 1);
        parse(&text).map(|case| case.event)
    };
    assert_eq!(parse(WHOLE).unwrap().event, None);
    assert_eq!(
        with("function = \"__switch_to\"\nname = \"switch\"").unwrap(),
        Some(CaseEvent {
            function: "__switch_to".into(),
            name: "switch".into()
        })
    );
    let name = "name = \"enqueue\"";
    for (event, message) in [
        (
            format!("function = \"f.isra.0\"\n{name}"),
            "17: function \"f.isra.0\": give its name in the source, such as enqueue_task_fair",
        ),
        (
            format!("function = \"2f\"\n{name}"),
            "17: function \"2f\": give its name in the source, such as enqueue_task_fair",
        ),
        (format!("function = \"\"\n{name}"), "17: function is empty"),
        (
            "function = \"f\"\nname = \" \"".to_owned(),
            "18: name is empty",
        ),
    ] {
        assert_eq!(with(&event).unwrap_err().to_string(), message);
    }
    let missing = with("function = \"f\"").unwrap_err().to_string();
    assert!(missing.contains("missing field `name`"), "{missing}");
}

#[test]
fn a_built_kernel_checks_and_fragments_are_understood() {
    let text = WHOLE
        .replacen("series = \"6.12\"", "built = true", 1)
        .replacen("\"../kernel.config\"", "[\"a\", \"b\"]", 1)
        .replacen("cpus = 8", "cpus = 8\nruns = 3", 1)
        + "[[check]]\nname = \"storm\"\ncommand = [\"storm.sh\"]\nfiles = [\"hackbench\"]\n"
        + "[[check]]\nname = \"kasan\"\ncommand = [\"storm.sh\"]\nconfig = \"kasan.config\"\nmemory = \"2G\"\n";
    let case = parse(&text).unwrap();
    assert_eq!(case.kernel, KernelSource::Built);
    assert_eq!(case.build.unwrap().config, ["a", "b"]);
    assert_eq!(case.guest.runs, RunCount::Fixed(3));
    let check = |name: &str| Check {
        name: name.to_owned(),
        files: Vec::new(),
        command: vec!["storm.sh".to_owned()],
        memory: None,
        config: Vec::new(),
    };
    assert_eq!(
        case.checks,
        [
            Check {
                files: vec!["hackbench".to_owned()],
                ..check("storm")
            },
            Check {
                memory: Some("2G".to_owned()),
                config: vec!["kasan.config".to_owned()],
                ..check("kasan")
            },
        ]
    );
    let from_nothing = text
        .replacen(
            "[build]\npackage = \"linux-source-6.12\"\nconfig = [\"a\", \"b\"]\n",
            "",
            1,
        )
        .replacen("patches = [\"patches/0001.patch\"]\n", "", 1);
    assert_eq!(
        parse(&from_nothing).unwrap_err().to_string(),
        "6: the kernel has to be built, but the case has no [build] that says from what"
    );
}

#[test]
fn runs_may_be_as_many_as_an_interval_needs() {
    let runs = |text: &str| {
        let text = WHOLE.replacen("cpus = 8", &format!("cpus = 8\nruns = {text}"), 1);
        parse(&text).unwrap().guest.runs
    };
    let until = |percent, at_most| RunCount::Until(NarrowEnough { percent, at_most });
    assert_eq!(runs("{ until = 8, at_most = 40 }"), until(8.0, 40));
    assert_eq!(runs("{ until = 0.5, at_most = 3 }"), until(0.5, 3));
}

/// What is said when `from` is replaced by `to` in a case that is in order.
fn refused(from: &str, to: &str) -> String {
    assert!(WHOLE.contains(from), "{from:?}");
    parse(&WHOLE.replacen(from, to, 1)).unwrap_err().to_string()
}

#[test]
fn what_is_wrong_is_reported_with_its_line() {
    for (from, to, said) in [
        (
            "name = \"nohz\"",
            "name = \"no hz\"",
            "1: name \"no hz\": use letters, digits, '-', '_' and '.' only",
        ),
        ("name = \"nohz\"", "name = \"\"", "1: name is empty"),
        (
            "name = \"nohz\"",
            "name = \"../x\"",
            "1: name \"../x\": use letters, digits, '-', '_' and '.' only",
        ),
        (
            "summary = \"a counter\"",
            "summary = \" \"",
            "2: summary is empty",
        ),
        (
            "types = [\"nohz\", \"rq\"]",
            "types = []",
            "3: type is empty",
        ),
        (
            "types = [\"nohz\", \"rq\"]",
            "types = [\"rq\",\n \"rq\"]",
            "4: two types are called \"rq\"",
        ),
        (
            "series = \"6.12\"",
            "",
            "6: [kernel]: give either series or image, or built = true",
        ),
        (
            "series = \"6.12\"",
            "series = \"6.12\"\nimage = \"vmlinuz\"",
            "6: [kernel]: give either series or image, or built = true",
        ),
        (
            "package = \"linux-source-6.12\"",
            "",
            "9: [build]: give either package or source",
        ),
        ("cpus = 8", "cpus = 0", "14: cpus = 0: must be 1 to 4096"),
        (
            "cpus = 8",
            "cpus = 70000",
            "14: cpus = 70000: must be 1 to 4096",
        ),
        (
            "command = [\"sleepers\", \"-m\", \"1\"]",
            "command = []",
            "19: command is empty",
        ),
        (
            "[build]\npackage = \"linux-source-6.12\"\nconfig = \"../kernel.config\"\n",
            "",
            "19: edit \"no-counter\" has patches, but the case has no [build] that says what they are for",
        ),
        (
            "measure = \"same.txt\"\n",
            "",
            "22: edit \"no-counter\" has patches, but no `measure`: a file of edits of the same types that change nothing in that kernel",
        ),
        (
            "[[published]]",
            "[[edit]]\nname = \"no-counter\"\nfile = \"x\"\n[[published]]",
            "28: two edits are called \"no-counter\"",
        ),
        (
            "type = \"rq\"",
            "type = \"task_group\"",
            "31: there is no type called \"task_group\" in this case; it has: nohz, rq",
        ),
        (
            "edit = \"no-counter\"",
            "edit = \"published\"",
            "32: there is no edit called \"published\" in this case; it has: no-counter",
        ),
        (
            "machine = \"gnr-2s-480\"",
            "machine = \"power11\"",
            "32: there is no machine called \"power11\" in this case; it has: gnr-2s-480",
        ),
        (
            "[guest]",
            "[guest]\nkernel = 3",
            "14: unknown field `kernel`, expected one of `cpus`, `memory`, `seed`, `runs`, `numa`, `append`, `user`",
        ),
        (
            "figure = \"group-share\"",
            "figure = \"size\"",
            "31: unknown variant `size`, expected one of `group-share`, `group-loads-per-store`, `group-lines`, `rank`, `cycles-per-load`, `rank-correlation`, `cycle-share`, `loads-per-store`, `accesses`, `share-under`",
        ),
        ("cpus = 8", "", "13: missing field `cpus`"),
        (
            "cpus = 8",
            "cpus = 8\nruns = 0",
            "15: runs = 0: must be 1 to 100",
        ),
        (
            "cpus = 8",
            "cpus = 8\nruns = \"5\"",
            "15: runs must be a number, or { until = PER_CENT, at_most = RUNS }",
        ),
        (
            "cpus = 8",
            "cpus = 8\nruns = { until = 8 }",
            "15: runs must be a number, or { until = PER_CENT, at_most = RUNS }",
        ),
        (
            "cpus = 8",
            "cpus = 8\nruns = { until = 8, at_most = 40, least = 3 }",
            "15: runs must be a number, or { until = PER_CENT, at_most = RUNS }",
        ),
        (
            "cpus = 8",
            "cpus = 8\nruns = { until = 0, at_most = 40 }",
            "15: until = 0: must be 0.1 to 100 (per cent)",
        ),
        (
            "cpus = 8",
            "cpus = 8\nruns = { until = nan, at_most = 40 }",
            "15: until = NaN: must be 0.1 to 100 (per cent)",
        ),
        (
            "cpus = 8",
            "cpus = 8\nruns = { until = 8, at_most = 2 }",
            "15: at_most = 2: must be 3 to 100",
        ),
        (
            "cpus = 8",
            "cpus = 8\nruns = { until = 8, at_most = 101 }",
            "15: at_most = 101: must be 3 to 100",
        ),
        (
            "config = \"../kernel.config\"",
            "config = []",
            "11: config is empty",
        ),
        (
            "config = \"../kernel.config\"",
            "config = 3",
            "11: a string or a list of strings",
        ),
        (
            "[[published]]",
            "[[check]]\nname = \"storm\"\ncommand = []\n[[published]]",
            "29: command is empty",
        ),
        (
            "[[published]]",
            "[[check]]\nname = \"a\"\ncommand = [\"x\"]\n[[check]]\nname = \"a\"\ncommand = [\"x\"]\n[[published]]",
            "31: two checks are called \"a\"",
        ),
        ("field = \"__lock\", ", "", "31: this figure needs `field`"),
        (
            "figure = \"group-share\"",
            "figure = \"rank-correlation\"",
            "31: this figure needs `fields`",
        ),
        (
            "figure = \"group-share\"",
            "figure = \"rank-correlation\", fields = [\"a\"]",
            "31: one field has no order: name two or more",
        ),
        (
            "function = \"f\"",
            "function = \"f\", figure = \"misses\"",
            "32: misses are those of the whole kernel, not of a function",
        ),
        (
            "function = \"f\"",
            "function = \"f\", figure = \"load-misses\"",
            "32: misses are those of the whole kernel, not of a function",
        ),
        (
            "function = \"f\"",
            "figure = \"share-under\"",
            "32: this figure needs `function`",
        ),
        (
            "figure = \"group-share\"",
            "figure = \"share-under\"",
            "31: this figure needs `function`",
        ),
        (
            "function = \"f\"",
            "function = \"\"",
            "32: function is empty",
        ),
        (
            "figure = \"group-share\"",
            "figure = \"rank-correlation\", fields = [\"a\", \"a\"]",
            "31: two fields are called \"a\"",
        ),
    ] {
        assert_eq!(refused(from, to), said, "{from:?} -> {to:?}");
    }
}

#[test]
fn a_file_without_end_is_not_read() {
    let text = "#".repeat((1 << 20) + 1);
    assert_eq!(
        parse(&text).unwrap_err().to_string(),
        "1: the file has 1048577 bytes: must be at most 1048576"
    );
}

#[test]
fn no_bytes_make_it_panic() {
    for end in 0..WHOLE.len() {
        let _ = parse(&WHOLE[..end]);
        let mut text = WHOLE.to_owned();
        text.replace_range(end..=end, "\u{fffd}");
        let _ = parse(&text);
    }
}
