//! The command's effect on the user's files, seen from outside. The last test boots a guest.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use common::{kernel, linemate, root, story};
use linemate_recording::AccessKind;
use linemate_testkit::world::{Contents, F, RQ, UNITS, Variant, World};
use tempfile::tempdir;

/// The one line on standard error of a command that fails.
fn error(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{}", story(output));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linemate"));
    command.args(arguments);
    command
}

/// The limit of `ulimit -f` is like a full disk: one line, and nothing half-written.
#[test]
fn a_file_over_the_limit_is_an_error_and_leaves_nothing() {
    let folder = tempdir().unwrap();
    let data = folder.path().join("r.data");
    let mut world = World::with_chunks_of(64);
    for cpu in [0, 1, 0, 1] {
        world.access(cpu, AccessKind::Store, UNITS[0] + RQ, 4, F::WakeTask, false);
    }
    let contents = Contents::of(Variant::default());
    fs::write(&data, world.bytes(true, contents)).unwrap();
    // The page alone is larger.
    let output = Command::new("sh")
        .args(["-c", "ulimit -f 8; exec \"$@\"", "sh"])
        .arg(env!("CARGO_BIN_EXE_linemate"))
        .args(["report", "--no-cache", "-i"])
        .arg(&data)
        .arg("--html")
        .arg(folder.path().join("page.html"))
        .output()
        .unwrap();
    let text = error(&output);
    assert!(
        text.contains("page.html") && text.contains("File too large"),
        "{text}"
    );
    let left = fs::read_dir(folder.path()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["r.data"]);
}

/// Under `ulimit -v` lack of memory is one line, not a backtrace, and everything else is as without
/// the limit.
#[test]
fn the_lack_of_memory_is_an_error() {
    let run_limited = |kilobytes: u32, arguments: &[&str]| {
        let mut command = Command::new("sh");
        let script = format!("ulimit -v {kilobytes}; exec \"$@\"");
        command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_linemate")]);
        command.args(arguments).env("RUST_BACKTRACE", "1");
        command.output().unwrap()
    };
    let folder = tempdir().unwrap();
    let data = folder.path().join("r.data");
    let mut world = World::with_chunks_of(64);
    world.access(0, AccessKind::Store, UNITS[0] + RQ, 4, F::WakeTask, false);
    let contents = Contents::of(Variant::default());
    fs::write(&data, world.bytes(true, contents)).unwrap();
    let data = data.to_str().unwrap();
    let report = [
        "report",
        "--no-cache",
        "--machine",
        "gnr-2s-480",
        "-i",
        data,
    ];
    let answer = linemate(&report);
    // Down to the first limit that is too low: further down not even the loader of shared libraries
    // has room, whose words are its own.
    let limits = (2..=20_u32).rev().map(|step| 4_000 * step);
    let mut limited = limits.map(|kilobytes| (kilobytes, run_limited(kilobytes, &report)));
    let lacking = limited.find(|(_, output)| {
        assert!(!output.status.success() || output.stdout == answer.stdout);
        !output.status.success()
    });
    let (kilobytes, output) = lacking.expect("8 MB are enough");
    let expected = format!(
        "linemate: out of memory: this process is limited to {} MiB (`ulimit -v`): raise it\n",
        kilobytes / 1024
    );
    assert_eq!(error(&output), expected);
    for arguments in [
        &["--version"][..],
        &["machines", "--no-such-option"],
        &["verify", "/none"],
    ] {
        let (with, without) = (run_limited(4_000_000, arguments), linemate(arguments));
        assert_eq!(with.status.code(), without.status.code());
        assert_eq!((with.stdout, with.stderr), (without.stdout, without.stderr));
    }
}

#[test]
fn an_output_is_checked_before_the_work() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (missing, folder_name) = (at("none/x"), at(""));
    let started = Instant::now();
    for verb in [
        vec!["record", "-o", &missing, "--", "true"],
        vec!["record", "-o", &folder_name, "--", "true"],
        vec!["record", "-o", "/dev/null", "--", "true"],
        // The input is missing, too: the error in the output is reported first.
        vec!["advise", "--type", "rq", "-i", "/none", "-o", &missing],
        vec!["advise", "--type", "rq", "-i", "/none", "--rules", &missing],
        vec![
            "advise",
            "--type",
            "rq",
            "-i",
            "/none",
            "--evidence",
            &missing,
        ],
        vec![
            "patch", "--edit", "/none/e", "--source", "/none", "-o", &missing,
        ],
    ] {
        let text = error(&linemate(&verb));
        let (output, what) = match verb.contains(&"/dev/null") {
            true => ("/dev/null", "is a device: name a file"),
            false if verb.contains(&&*folder_name) => (&*folder_name, "is a folder"),
            false => (&*missing, "there is no folder"),
        };
        assert!(
            text.contains(output) && text.contains(what),
            "{verb:?}: {text}"
        );
    }
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "something booted"
    );
    assert!(
        fs::symlink_metadata("/dev/null")
            .unwrap()
            .file_type()
            .is_char_device()
    );
    let rules = root().join("rules/sched.rules");
    let arguments = ["check", rules.to_str().unwrap(), "--kernel", "/none/k"];
    let text = error(&linemate(
        &[&arguments[..], &["--write-baseline", &missing]].concat(),
    ));
    assert!(text.contains("there is no folder"), "{text}");
}

#[test]
fn a_recording_that_is_no_file_is_refused_at_once() {
    let folder = tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let pipe = pipe.to_str().unwrap();
    for arguments in [
        vec!["report", "-i", pipe],
        vec!["verify", "-i", pipe],
        vec!["diff", pipe, pipe],
        vec!["whatif", "-i", pipe, "--type", "rq", "-e", "isolate __lock"],
        vec!["advise", "-i", pipe],
        vec!["layout", "task_struct", "--kernel", pipe],
        vec!["record", "--kernel", pipe, "--", "true"],
    ] {
        let mut child = command(&arguments)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                child.kill().unwrap();
                panic!("{arguments:?} waits");
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(status.code(), Some(2), "{arguments:?}");
        let text = error(&linemate(&arguments));
        assert!(
            text.contains("it is a pipe, not a file"),
            "{arguments:?}: {text}"
        );
    }
}

#[test]
fn a_cache_that_others_can_write_to_is_refused() {
    let folder = tempdir().unwrap();
    let cache = folder.path().join("cache");
    fs::create_dir(&cache).unwrap();
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
    let record = |set: &[(&str, &str)]| {
        let mut command = command(&["record", "--", "true"]);
        for name in ["LINEMATE_CACHE", "XDG_CACHE_HOME", "HOME"] {
            command.env_remove(name);
        }
        command.current_dir(&folder).envs(set.iter().copied());
        error(&command.output().unwrap())
    };
    let text = record(&[("LINEMATE_CACHE", cache.to_str().unwrap())]);
    assert!(text.contains("cache is writable by others"), "{text}");
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).unwrap();
    if std::os::unix::fs::chown(&cache, Some(61184), None).is_ok() {
        let text = record(&[("LINEMATE_CACHE", cache.to_str().unwrap())]);
        assert!(text.contains("belongs to user 61184"), "{text}");
    }
}

#[test]
fn more_memory_than_there_is_is_refused_before_the_boot() {
    let folder = tempdir().unwrap();
    let output = folder.path().join("x.data");
    let kernel = kernel("6.12");
    let arguments = ["record", "--kernel", kernel.to_str().unwrap()];
    let rest = [
        "--memory",
        "900000G",
        "-o",
        output.to_str().unwrap(),
        "--",
        "true",
    ];
    let text = error(&linemate(&[&arguments[..], &rest].concat()));
    assert!(text.contains("lower --memory"), "{text}");
    assert!(!output.exists());
}

/// One small machine for all that follows: booted once, in a cache whose name needs quoting
/// wherever it is spelled, through a program and a file that are named without a folder.
#[test]
fn recordings_and_their_files() {
    let folder = tempdir().unwrap();
    let cache = folder.path().join("a, cache\nof mine");
    let (series, data) = (kernel("6.12"), folder.path().join("x.data"));
    fs::copy("/bin/true", folder.path().join("own")).unwrap();
    let record_to = |output: &str, words: &[&str]| {
        command(&["record", "--kernel", series.to_str().unwrap(), "--smp", "2"])
            .args(["--memory", "256M", "--file", "own", "-o", output])
            .args(words)
            .current_dir(&folder)
            .env("LINEMATE_CACHE", &cache)
            .output()
            .unwrap()
    };
    let record = |words: &[&str]| record_to("x.data", words);
    let fine = |output: Output| assert!(output.status.success(), "{}", story(&output));

    fine(record(&["--", "true"]));
    let first = fs::read(&data).unwrap();
    caches_are_private(&cache);

    // A recording of mine alone stays that, its older self is kept, a link stays one.
    fs::set_permissions(&data, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(&data, folder.path().join("real.data")).unwrap();
    symlink("real.data", &data).unwrap();
    fine(record(&["--", "true"]));
    assert!(fs::symlink_metadata(&data).unwrap().is_symlink());
    assert_eq!(fs::metadata(&data).unwrap().mode() & 0o777, 0o600);
    assert!(fs::read(&data).unwrap() == first, "two runs differ");
    assert!(fs::read(folder.path().join("real.data.old")).unwrap() == first);

    // A run that fails leaves the older recording, and says where it left its own.
    let failed = record(&[
        "--timeout",
        "8",
        "--",
        "sh",
        "-c",
        "while :; do cat /proc/stat; done",
    ]);
    assert_eq!(failed.status.code(), Some(2), "{}", story(&failed));
    assert!(fs::read(&data).unwrap() == first);
    let told = String::from_utf8_lossy(&failed.stderr).into_owned();
    let kept = told
        .trim_end()
        .rsplit("what was recorded is in ")
        .next()
        .unwrap();
    let verified = linemate(&["verify", "-i", kept]);
    assert_eq!(
        verified.status.code(),
        Some(1),
        "{told}{}",
        story(&verified)
    );
    fs::remove_file(kept).unwrap();

    a_full_disk_ends_the_run(&folder.path().join("disk"), &record_to);
}

/// Folders for their owner to enter, files for their owner to read: they hold a guest's memory.
fn caches_are_private(cache: &Path) {
    let mut left = vec![cache.to_owned()];
    let mut files = 0;
    while let Some(path) = left.pop() {
        let about = fs::symlink_metadata(&path).unwrap();
        let mode = if about.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(about.mode() & 0o777, mode, "{}", path.display());
        let me = fs::metadata(cache).unwrap().uid();
        assert_eq!(about.uid(), me, "{}", path.display());
        if about.is_dir() {
            left.extend(
                fs::read_dir(path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else {
            files += 1;
        }
    }
    assert!(files >= 3, "a snapshot has a disk, symbols and a console");
}

/// Only root can mount a small disk.
fn a_full_disk_ends_the_run(disk: &Path, record_to: &dyn Fn(&str, &[&str]) -> Output) {
    fs::create_dir(disk).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=6m", "none"];
    if !Command::new("mount")
        .args(mount)
        .arg(disk)
        .status()
        .unwrap()
        .success()
    {
        return;
    }
    let output = disk.join("full.data");
    // Without an early end this runs into its limit.
    let endless = "while :; do cat /proc/stat; done";
    let words = ["--timeout", "240", "--", "sh", "-c", endless];
    let started = Instant::now();
    let failed = record_to(output.to_str().unwrap(), &words);
    let (told, took) = (story(&failed), started.elapsed());
    let verified = linemate(&["verify", "-i", output.to_str().unwrap()]);
    let unmounted = Command::new("umount").arg(disk).status().unwrap();
    assert!(unmounted.success());
    let line = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(2), "{told}");
    assert!(
        line.contains("No space left") && line.contains(" bytes: free some space"),
        "{line}"
    );
    assert!(took < Duration::from_secs(120), "{took:?}");
    assert_eq!(verified.status.code(), Some(1), "{}", story(&verified));
}
