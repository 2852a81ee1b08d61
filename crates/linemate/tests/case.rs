//! `linemate case run` on a real kernel: a shipped case in its quick form, resuming, and what goes
//! wrong with kernel builds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::{items, kernel, linemate, root, story, workload};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

fn run(case: &Path, cache: &Path, output: &Path, options: &[&str]) -> Output {
    let mut arguments = vec!["case", "run", case.to_str().unwrap()];
    arguments.extend(["--cache", cache.to_str().unwrap()]);
    arguments.extend(["--output", output.to_str().unwrap()]);
    arguments.extend(options);
    linemate(&arguments)
}

/// The steps that were not done because they had been, and those that were. Two that are one count
/// as one.
fn steps(output: &Output) -> (usize, usize) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_step = |l: &&str| l.starts_with("linemate: [") && !l.contains(": is step ");
    let steps = text.lines().filter(is_step);
    let (kept, done): (Vec<&str>, Vec<&str>) =
        steps.partition(|l| l.ends_with("cached from an earlier run"));
    (kept.len(), done.len())
}

#[test]
fn the_nohz_case_finds_predicts_and_is_not_done_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, output) = (folder.path().join("cache"), folder.path().join("out"));
    let case = root().join("cases/nohz");
    let first = run(&case, &cache, &output, &["--quick"]);
    assert!(first.status.success(), "{}", story(&first));
    // Two edits with the same file have the same prediction.
    assert_eq!(steps(&first), (0, 8), "{}", story(&first));

    let json = fs::read(output.join("results.json")).unwrap();
    let results: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(results["schema"], "linemate.case/5");
    assert_eq!(results["mode"], "quick");
    let found = &items(&results, "/found")[0];
    let row = |field: &str| {
        let rows = items(found, "/contended");
        rows.iter().find(|row| row["field"] == field).unwrap()
    };
    // The counter is written about as often as it is read: with every CPU that goes idle, and that
    // stops being so.
    let counter = row("nr_cpus");
    assert!(counter["stores"].as_u64() > Some(5), "{counter}");
    let predicted = &items(&results, "/predicted")[0];
    assert_eq!(predicted["edit"], "no-counter");
    // Without the field all accesses to it go, and with them cost; the interval does not hold zero.
    assert!(predicted["skipped"].as_u64() > Some(10), "{predicted}");
    let figure = |name: &str| predicted["types"][name].as_f64().unwrap();
    assert!(figure("difference") + figure("ci95") < 0.0, "{predicted}");
    assert_eq!(items(&results, "/rebuilt").len(), 0);

    // The recording is cached under the key that `record` itself prints for it.
    let key = Command::new(env!("CARGO_BIN_EXE_linemate"))
        .args(["record", "--key", "--kernel"])
        .arg(kernel("6.12"))
        .args(["--append", "transparent_hugepage=never"])
        .args(["--event", "nohz_balance_enter_idle", "--", "stress-ng"])
        .args(["--cpu", "8", "--cpu-load", "50", "--cpu-load-slice", "5"])
        .args(["--cpu-method", "int64", "--timeout", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(key.status.success(), "{}", story(&key));
    let key = String::from_utf8(key.stdout).unwrap();
    let kept = cache.join(format!("{}.data", key.trim_end()));
    assert!(kept.is_file(), "{}", kept.display());

    let page = fs::read_to_string(output.join("results.md")).unwrap();
    let again = run(&case, &cache, &output, &["--quick"]);
    assert!(again.status.success(), "{}", story(&again));
    assert_eq!(steps(&again), (9, 0), "{}", story(&again));
    assert_eq!(fs::read(output.join("results.json")).unwrap(), json);
    assert_eq!(fs::read_to_string(output.join("results.md")).unwrap(), page);

    // Another replay repeats the replays, and nothing else.
    let cold = folder.path().join("cold");
    let other = run(&case, &cache, &cold, &["--quick", "--cold", "--llc-share"]);
    assert!(other.status.success(), "{}", story(&other));
    assert_eq!(steps(&other), (2, 6), "{}", story(&other));
    let json = fs::read(cold.join("results.json")).unwrap();
    let cold: Value = serde_json::from_slice(&json).unwrap();
    let replay = serde_json::json!({
        "cold": true, "mechanisms": ["adjacent_line_pairs"], "llc_share": true
    });
    assert_eq!(cold["replay"], replay);
    assert_eq!(cold["inputs"], results["inputs"]);
    assert_ne!(cold["predicted"], results["predicted"]);
}

#[test]
fn another_replay_needs_another_folder_and_machines_that_can() {
    let folder = tempfile::tempdir().unwrap();
    let case = folder.path().join("case");
    made_up_case(&case, "");
    let own = case.to_str().unwrap();
    for options in [
        &["--cold"][..],
        &["--mechanisms", "none"],
        &["--llc-share"],
        &["--cold", "--output", own],
    ] {
        let refused = linemate(&[&["case", "run", own], options].concat());
        assert_eq!(refused.status.code(), Some(2), "{}", story(&refused));
        assert_eq!(
            last_line(&refused),
            format!(
                "linemate: {own} has the results of the unmodified case: with --cold, --mechanisms, --llc-share or --cpus name another folder with --output FOLDER"
            )
        );
    }
    assert!(!case.join("results.md").exists());

    let path = case.join("case.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("gnr-2s-480", "power11", 1)).unwrap();
    let output = folder.path().join("out");
    let cache = folder.path().join("cache");
    let refused = run(&case, &cache, &output, &["--mechanisms", "l1_stride"]);
    assert_eq!(refused.status.code(), Some(2), "{}", story(&refused));
    assert_eq!(
        String::from_utf8_lossy(&refused.stderr),
        "linemate: power11 is skipped: its description has no l1_stride\n\
         linemate: made-up: --mechanisms l1_stride: none of its machines has them\n"
    );
    assert!(!output.exists());

    // An unknown machine is reported before anything is recorded.
    fs::write(&path, text.replacen("gnr-2s-480", "gnr-2s-48", 1)).unwrap();
    let refused = run(&case, &cache, &output, &[]);
    assert_eq!(refused.status.code(), Some(2), "{}", story(&refused));
    let line = last_line(&refused);
    assert!(line.contains("gnr-2s-48"), "{line}");
    assert_eq!(steps(&refused), (0, 0), "{}", story(&refused));
}

/// A case with one CPU, with patches and our own script in place of the build.
fn made_up_case(folder: &Path, script: &str) {
    let image = kernel("6.12");
    let text = format!(
        r#"name = "made-up"
summary = "faults of builds"
types = ["rq"]
machines = ["gnr-2s-480"]
[kernel]
image = "{}"
[build]
source = "tree"
config = "config"
script = "build.sh"
[guest]
cpus = 2
[workload]
command = ["{}", "-m", "1", "-l", "2", "-c", "2"]
[event]
function = "enqueue_task_fair"
name = "enqueue"
[[edit]]
name = "apart"
file = "apart.txt"
patches = ["1.patch"]
measure = "same.txt"
[[check]]
name = "stands"
command = ["check.sh"]
config = "more.config"
"#,
        image.display(),
        workload("sleepers")
    );
    fs::create_dir_all(folder.join("tree")).unwrap();
    for (name, text) in [
        ("case.toml", &*text),
        ("tree/Makefile", "VERSION = 6\n"),
        ("config", "CONFIG_A=y\n"),
        ("apart.txt", "type rq\nisolate __lock\n"),
        ("1.patch", "a patch\n"),
        ("same.txt", "base-align rq 8\n"),
        ("more.config", "MORE=y"),
        ("check.sh", "#!/bin/busybox sh\nexit 0\n"),
        ("build.sh", script),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
    for name in ["build.sh", "check.sh"] {
        let script = folder.join(name);
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// The last line on standard error.
fn last_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.lines().last().unwrap().to_owned()
}

/// Fault injection: `build.sh` fails, or gives what does not boot, or gives the distribution's
/// kernel. No kernel is compiled here.
#[test]
fn faults_of_builds_are_one_line_and_cost_nothing_that_was_done() {
    let folder = tempfile::tempdir().unwrap();
    let (case, cache, output) = (
        folder.path().join("case"),
        folder.path().join("cache"),
        folder.path().join("out"),
    );

    made_up_case(
        &case,
        "#!/bin/sh\nfor n in 1 2 3; do echo \"cc: error $n\" >&2; done\nexit 1\n",
    );
    let failed = run(&case, &cache, &output, &[]);
    assert_eq!(failed.status.code(), Some(2), "{}", story(&failed));
    assert_eq!(steps(&failed), (0, 4), "{}", story(&failed));
    let line = last_line(&failed);
    // Which of the builds that can start is the first is the scheduler's to say.
    let start = "linemate: made-up: build the kernel with";
    assert!(line.starts_with(start), "{line}");
    let (_, log) = line.split_once(": cc: error 3 (log: ").unwrap();
    let log = log.strip_suffix(')').unwrap();
    assert_eq!(
        fs::read_to_string(log).unwrap(),
        "cc: error 1\ncc: error 2\ncc: error 3\n"
    );
    assert!(
        story(&failed).contains("linemate:   cc: error 1\n"),
        "{}",
        story(&failed)
    );
    assert!(!output.exists());

    // The patch does not apply.
    let image = kernel("6.12");
    let builds = format!(
        "#!/bin/sh\n[ $# -eq 3 ] || {{ echo '1.patch does not apply' >&2; exit 1; }}\necho {}\n",
        image.display()
    );
    made_up_case(&case, &builds);
    let failed = run(&case, &cache, &output, &[]);
    assert_eq!(failed.status.code(), Some(2), "{}", story(&failed));
    assert_eq!(steps(&failed).0, 4, "{}", story(&failed));
    let line = last_line(&failed);
    let start = "linemate: made-up: build the kernel with apart";
    assert!(line.starts_with(start), "{line}");
    assert!(line.contains(": 1.patch does not apply (log: "), "{line}");

    // What comes out is not a kernel.
    made_up_case(&case, "#!/bin/sh\necho nonsense >$3\necho $3\n");
    let failed = run(&case, &cache, &output, &[]);
    assert_eq!(failed.status.code(), Some(2), "{}", story(&failed));
    let (kept, done) = steps(&failed);
    assert!(kept >= 4 && done >= 1, "{}", story(&failed));
    let line = last_line(&failed);
    assert!(line.contains("not an x86 kernel image"), "{line}");

    // Nothing is where the image should be.
    made_up_case(&case, "#!/bin/sh\necho /nowhere/bzImage\n");
    // The workflow chooses which of the two builds is first.
    let line = last_line(&run(&case, &cache, &output, &[]));
    let start = "linemate: made-up: build the kernel with";
    assert!(line.starts_with(start), "{line}");
    assert!(
        line.ends_with(
            ": the build reports /nowhere/bzImage as its image: No such file or directory"
        ),
        "{line}"
    );

    // No source at all.
    fs::remove_file(case.join("tree/Makefile")).unwrap();
    let line = last_line(&run(&case, &cache, &output, &[]));
    let source = fs::canonicalize(&case).unwrap().join("tree");
    assert_eq!(
        line,
        format!(
            "linemate: made-up: build the kernel without patches: no kernel source in {}",
            source.display()
        )
    );

    // A missing patch is reported before anything is done.
    made_up_case(&case, &builds);
    fs::remove_file(case.join("1.patch")).unwrap();
    let unused = folder.path().join("unused");
    let failed = run(&case, &unused, &output, &[]);
    assert_eq!(failed.status.code(), Some(2), "{}", story(&failed));
    assert_eq!(steps(&failed), (0, 0), "{}", story(&failed));
    let line = last_line(&failed);
    let start = "linemate: made-up: build the kernel with apart: ";
    assert!(
        line.starts_with(start) && line.contains("1.patch"),
        "{line}"
    );
    assert_eq!(fs::read_dir(&unused).unwrap().count(), 0);
}

/// The distribution's kernel replaces every build: what is recorded again has to cost the same as
/// without patches, to the cycle.
#[test]
fn a_whole_case_records_again_and_holds_what_its_checks_find() {
    let folder = tempfile::tempdir().unwrap();
    let (case, cache, output) = (
        folder.path().join("case"),
        folder.path().join("cache"),
        folder.path().join("out"),
    );
    let image = kernel("6.12");
    let build = format!(
        "#!/bin/sh\ncat \"$2\" >>{}/configs\necho {}\n",
        folder.path().display(),
        image.display()
    );
    made_up_case(&case, &build);
    fs::write(
        case.join("check.sh"),
        "#!/bin/busybox sh\necho WARNING: lock held\nexit 1\n",
    )
    .unwrap();
    let failed = run(&case, &cache, &output, &[]);
    assert_eq!(failed.status.code(), Some(2), "{}", story(&failed));
    // What runs while the check fails is finished.
    let (_, done) = steps(&failed);
    assert!((5..=11).contains(&done), "{}", story(&failed));
    let line = last_line(&failed);
    assert!(
        line.starts_with("linemate: made-up: check the kernel with apart: stands: ")
            && line.contains("check.sh: exit status 1 (log: "),
        "{line}"
    );
    assert!(
        story(&failed).contains("linemate:   WARNING: lock held\n"),
        "{}",
        story(&failed)
    );
    fs::write(case.join("check.sh"), "#!/bin/busybox sh\necho it stands\n").unwrap();
    let whole = run(&case, &cache, &output, &[]);
    assert!(whole.status.success(), "{}", story(&whole));
    assert_eq!(steps(&whole), (done, 12 - done), "{}", story(&whole));
    // Without patches, with them, and with them and more configuration.
    let configs = fs::read_to_string(folder.path().join("configs")).unwrap();
    let count = |line: &str| configs.lines().filter(|other| *other == line).count();
    assert_eq!((count("CONFIG_A=y"), count("MORE=y")), (3, 1), "{configs}");
    let json = fs::read(output.join("results.json")).unwrap();
    let results: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(results["mode"], "full");
    let checked = &items(&results, "/checked")[0];
    assert_eq!(checked["said"], "it stands");
    let rebuilt = &items(&results, "/rebuilt")[0];
    let mean = |of: &str, side: &str| rebuilt[of]["sum"][side]["mean"].as_f64().unwrap();
    assert!(mean("cost", "without") > 0.0, "{rebuilt}");
    // The same calls of the same function; a run of each kernel says nothing of how much they
    // differ.
    let event = &rebuilt["event"];
    let calls = event["without"]["mean"].as_f64().unwrap();
    assert!(calls > 1.0, "{event}");
    assert_eq!(event["rerecorded"]["mean"].as_f64(), Some(calls));
    assert_eq!(event["copies"], serde_json::json!(["enqueue_task_fair"]));
    let each = &rebuilt["cost"]["per_event"];
    assert_eq!(
        each["without"]["mean"].as_f64(),
        Some(mean("cost", "without") / calls)
    );
    assert_eq!(each["recorded_change"]["ci95"], Value::Null);
    assert_eq!(each["verdict"], "inconclusive");
    assert_eq!(mean("cost", "rerecorded"), mean("cost", "without"));
    assert_eq!(mean("whole", "rerecorded"), mean("whole", "without"));
    assert_ne!(mean("cost", "predicted"), mean("cost", "without"));

    examine_the_built_kernel(&case);
    assert_eq!(
        last_line(&run(&case, &cache, &output, &["--quick"])),
        "linemate: made-up: the examined kernel has to be built, and --quick builds none: run without --quick"
    );
    // Built and recorded it was before.
    let predicted = folder.path().join("predicted");
    let options = ["--predict", "--mechanisms", "overlap"];
    let predicted_run = run(&case, &cache, &predicted, &options);
    assert!(predicted_run.status.success(), "{}", story(&predicted_run));
    assert_eq!(steps(&predicted_run), (2, 3), "{}", story(&predicted_run));
    let json = fs::read(predicted.join("results.json")).unwrap();
    let results: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(results["mode"], "predicted");
    assert_eq!(
        results["replay"]["mechanisms"],
        serde_json::json!(["overlap"])
    );
    assert_eq!(items(&results, "/rebuilt").len(), 0);
}

#[test]
fn events_that_are_not_there_are_reported_before_anything_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let (case, cache, output) = (
        folder.path().join("case"),
        folder.path().join("cache"),
        folder.path().join("out"),
    );
    made_up_case(&case, "#!/bin/sh\necho nothing is built here >&2\nexit 1\n");
    let path = case.join("case.toml");
    let text = fs::read_to_string(&path).unwrap();
    let refused = |function: &str| {
        let text = text.replacen("enqueue_task_fair", function, 1);
        fs::write(&path, text).unwrap();
        let failed = run(&case, &cache, &output, &[]);
        assert_eq!(failed.status.code(), Some(2), "{}", story(&failed));
        assert!(!output.exists());
        (steps(&failed), last_line(&failed))
    };
    let (done, line) = refused("no_such_function");
    assert_eq!(done, (0, 0), "{line}");
    assert!(
        line.starts_with("linemate: made-up: record the unmodified kernel ")
            && line.contains(
                ": --event no_such_function: the guest's kernel has no function of that name"
            ),
        "{line}"
    );
    let (done, line) = refused("kernel_restart");
    // Recorded and reported on; what the type costs is found meanwhile.
    assert!((2..=3).contains(&done.1), "{line}");
    assert!(
        line.starts_with("linemate: made-up: predict apart on gnr-2s-480: ")
            && line.contains(": kernel_restart was never called while this was recorded: name an event that the workload has"),
        "{line}"
    );
    let line = refused("f.isra.0").1;
    assert!(
        line.ends_with(
            "case.toml:16: function \"f.isra.0\": give its name in the source, such as enqueue_task_fair"
        ),
        "{line}"
    );
}

#[test]
fn an_interrupted_run_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (case, cache, output) = (
        folder.path().join("case"),
        folder.path().join("cache"),
        folder.path().join("out"),
    );
    made_up_case(&case, "");
    let mut child = Command::new(env!("CARGO_BIN_EXE_linemate"))
        .args(["case", "run", "--quick"])
        .arg(&case)
        .arg("--cache")
        .arg(&cache)
        .arg("--output")
        .arg(&output)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(
        first.starts_with("linemate: [1/4] record the unmodified kernel "),
        "{first}"
    );
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let last = lines.last().unwrap().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
    assert!(
        last == "linemate: made-up: interrupted: finished steps are cached, the same command resumes after them",
        "{last}"
    );
    assert!(!output.exists());

    let rest = run(&case, &cache, &output, &["--quick"]);
    assert!(rest.status.success(), "{}", story(&rest));
    let (kept, done) = steps(&rest);
    assert!(
        kept >= 1 && done >= 1 && kept + done == 4,
        "{}",
        story(&rest)
    );
    assert!(output.join("results.md").is_file());
    // Nothing half done is left behind.
    let left = fs::read_dir(&cache).unwrap().flatten();
    let left: Vec<String> = left
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("work-") || name.ends_with(".log"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn without_snakemake_one_line_names_what_to_install() {
    let folder = tempfile::tempdir().unwrap();
    let case = folder.path().join("case");
    made_up_case(&case, "");
    let output = Command::new(env!("CARGO_BIN_EXE_linemate"))
        .args(["case", "run", "--quick"])
        .arg(&case)
        .args(["--profile", "slurm", "--output"])
        .arg(folder.path().join("out"))
        .env("LINEMATE_CACHE", folder.path().join("cache"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", story(&output));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "linemate: made-up: Snakemake runs the steps and is not installed: `scripts/setup.sh cases` or `pip install snakemake` installs it\n"
    );
    let refused = linemate(&[
        "case",
        "run",
        case.to_str().unwrap(),
        "--profile",
        "nowhere",
    ]);
    let said = story(&refused);
    assert!(
        said.contains("use `local`, `slurm`, or a folder with a config.yaml"),
        "{said}"
    );
}

/// Makes a synthetic case examine the kernel that it builds.
fn examine_the_built_kernel(case: &Path) {
    let text = fs::read_to_string(case.join("case.toml")).unwrap();
    let image = format!("image = \"{}\"", kernel("6.12").display());
    assert!(text.contains(&image), "{text}");
    let text = text.replacen(&image, "built = true", 1);
    fs::write(case.join("case.toml"), text).unwrap();
}

#[test]
fn two_runs_do_not_build_in_one_folder_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (case, cache) = (folder.path().join("case"), folder.path().join("cache"));
    made_up_case(
        &case,
        "#!/bin/sh\nmkdir -p \"$3\"\nmkdir \"$3/busy\" || exit 1\nsleep 0.5\nrmdir \"$3/busy\"\necho as asked >&2\nexit 1\n",
    );
    examine_the_built_kernel(&case);
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linemate"));
        command.args(["case", "run"]).arg(&case);
        command.arg("--cache").arg(&cache);
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [start(), start()];
    for child in both {
        let output = child.wait_with_output().unwrap();
        assert!(
            last_line(&output).contains(": as asked (log: "),
            "{}",
            story(&output)
        );
    }
}

/// A compiler that continued would write where the next run compiles.
#[test]
fn a_stop_reaches_what_a_build_started() {
    let folder = tempfile::tempdir().unwrap();
    let (case, told) = (folder.path().join("case"), folder.path().join("pid"));
    let build = format!(
        "#!/bin/sh\nsleep 1000 &\necho $! >{0}.part\nmv {0}.part {0}\nwait\n",
        told.display()
    );
    made_up_case(&case, &build);
    examine_the_built_kernel(&case);
    let mut child = Command::new(env!("CARGO_BIN_EXE_linemate"))
        .args(["case", "run"])
        .arg(&case)
        .arg("--cache")
        .arg(folder.path().join("cache"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = loop {
        if let Ok(pid) = fs::read_to_string(&told) {
            break pid.trim().to_owned();
        }
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    let compiler = Pid::from_raw(pid.parse().unwrap()).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
    // A process without a parent may take a moment to disappear.
    for _ in 0..500 {
        if test_kill_process(compiler).is_err() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    kill_process(compiler, Signal::KILL).unwrap();
    panic!("the compiler went on");
}

#[test]
fn a_case_that_cannot_be_is_refused_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("case.toml");
    let said = |folder: &Path| last_line(&linemate(&["case", "run", folder.to_str().unwrap()]));
    assert_eq!(
        said(folder.path()),
        format!(
            "linemate: cannot read {}: No such file or directory",
            path.display()
        )
    );
    fs::write(&path, "name = \"x\"\nsummary = 3\n").unwrap();
    assert_eq!(
        said(folder.path()),
        format!(
            "linemate: {}:2: invalid type: integer `3`, expected a string",
            path.display()
        )
    );
}
