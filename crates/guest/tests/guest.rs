//! Runs that really boot a kernel. They need QEMU, busybox and a kernel image in the cache
//! (`make setup`), and fail without.
//!
//! All use the same small machine, so that one boot serves them; they run one at a time, because
//! each keeps a processor busy.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, outside of #[test] functions"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use linemate_guest::{
    Conditions, ExitStatus, ExtraFile, Failure, GuestError, GuestShape, Observer, OutputStream,
    Qemu, Recorded, Session, Stage, Workload, cache_folder, default_kernel,
};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    // A failed test must not fail the others.
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct Log {
    stages: Vec<Stage>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Observer for Log {
    fn stage(&mut self, stage: Stage) {
        self.stages.push(stage);
    }
    fn output(&mut self, stream: OutputStream, bytes: &[u8]) -> io::Result<()> {
        match stream {
            OutputStream::Stdout => self.stdout.extend_from_slice(bytes),
            OutputStream::Stderr => self.stderr.extend_from_slice(bytes),
        }
        Ok(())
    }
}

impl Log {
    fn text(&self) -> (&str, &str) {
        (
            std::str::from_utf8(&self.stdout).unwrap(),
            std::str::from_utf8(&self.stderr).unwrap(),
        )
    }
}

/// The plugin, where cargo puts it: built by `make test` before any test runs.
fn recorder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.ancestors().nth(2).unwrap();
    let library = folder.join("liblinemate_recorder.so");
    assert!(
        library.is_file(),
        "{}: run `cargo build --workspace`",
        library.display()
    );
    library
}

fn session(command: &[&str]) -> Session {
    Session {
        conditions: Conditions {
            qemu: Qemu::find().expect("QEMU: run `make setup`"),
            shape: GuestShape {
                cpus: 2,
                ..GuestShape::default()
            },
            workload: Workload {
                command: command.iter().map(|&word| word.to_owned()).collect(),
                ..Workload::default()
            },
            recorder: recorder(),
            bare: true,
            user: false,
            program: None,
            whole_boot: false,
            turn: None,
            events: Vec::new(),
        },
        kernel: default_kernel(&cache_folder().unwrap()).expect("a kernel: run `make setup`"),
        cache: cache_folder().unwrap(),
        output: PathBuf::from("/nonexistent/not-written-without-a-recorder"),
        timeout: Some(Duration::from_secs(300)),
    }
}

fn run(session: &Session) -> (Log, Result<Recorded, Failure>) {
    let mut log = Log::default();
    let result = session.record(&AtomicBool::new(false), &mut log);
    (log, result)
}

fn cause(session: &Session) -> GuestError {
    run(session).1.unwrap_err().cause
}

/// A separate cache, with the pinned kernels of the real one.
fn fresh_cache(dir: &Path) -> PathBuf {
    let cache = dir.join("cache");
    fs::create_dir(&cache).unwrap();
    cache
}

/// What the guest can see of time and chance: any difference between two runs shows up here.
const PROBE: &str = "cat /proc/uptime /proc/interrupts /proc/schedstat; \
    for i in 1 2 3 4; do (dd if=/dev/urandom bs=16 count=64 | md5sum) & done; wait; cat /proc/stat";

#[test]
fn output_status_files_and_setup_come_through() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let setup = dir.path().join("setup.sh");
    fs::write(
        &setup,
        "echo from set-up; mkdir /sys/fs/cgroup/group; sleep 1000 &\n",
    )
    .unwrap();
    fs::write(dir.path().join("data"), "contents\n").unwrap();
    let mut session = session(&[
        "sh",
        "-c",
        "cat /data; echo err >&2; ls -d /sys/fs/cgroup/group; exit 3",
    ]);
    session.conditions.workload.setup = Some(setup);
    session.conditions.workload.files = vec![ExtraFile {
        host: dir.path().join("data"),
        guest: Some("/data".into()),
    }];
    let (log, result) = run(&session);
    assert_eq!(result.unwrap().status, ExitStatus::Exit(3));
    assert_eq!(
        log.text(),
        ("contents\n/sys/fs/cgroup/group\n", "from set-up\nerr\n")
    );
}

/// A reader that stops after the first words.
struct Enough;

impl Observer for Enough {
    fn stage(&mut self, _stage: Stage) {}
    fn output(&mut self, _stream: OutputStream, _bytes: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

#[test]
fn a_run_whose_output_nobody_reads_ends_and_leaves_nothing() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let mut session = session(&["sh", "-c", "while :; do echo yes; done"]);
    session.conditions.bare = false;
    session.output = dir.path().join("r.data");
    let failure = session
        .record(&AtomicBool::new(false), &mut Enough)
        .unwrap_err();
    // Else the timeout ends it.
    assert!(
        matches!(failure.cause, GuestError::Output { .. }),
        "{failure}"
    );
    assert_eq!(failure.kept, None);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_python_program_runs_by_its_name() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("x.py");
    // Compiled modules with libraries of their own, and one of the script's.
    fs::write(&script, "import json, zlib, hashlib, helper\nprint(json.dumps([zlib.crc32(b'x'), helper.seven()]))\n").unwrap();
    fs::write(dir.path().join("helper.py"), "def seven(): return 7\n").unwrap();
    let (log, result) = run(&session(&["/usr/bin/python3", script.to_str().unwrap()]));
    assert_eq!(log.text(), ("[2363233923, 7]\n", ""));
    assert_eq!(result.unwrap().status, ExitStatus::Exit(0));
}

#[test]
fn orphans_of_the_command_are_waited_for_and_signals_are_reported() {
    let _alone = alone();
    // The shell is gone long before its grandchild writes.
    let script =
        "(sleep 2; echo late) & (sleep 3; echo gone > /dev/null) > /dev/null 2>&1 & kill -9 $$";
    let (log, result) = run(&session(&["sh", "-c", script]));
    assert_eq!(result.unwrap().status, ExitStatus::Signal(9));
    assert_eq!(log.text().0, "late\n");
}

/// Does something while every processor of this computer is busy with something else.
fn busy_meanwhile<T>(work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = work();
        done.store(true, Ordering::Relaxed);
        result
    })
}

#[test]
fn a_snapshot_that_is_made_again_gives_the_same_run() {
    let _alone = alone();
    let mut first = session(&["sh", "-c", PROBE]);
    let (expected, result) = run(&first);
    result.unwrap();
    assert!(expected.stdout.len() > 1000, "the probe says too little");
    let (again, _) = run(&first);
    assert_eq!(again.text(), expected.text(), "same snapshot");
    let dir = tempfile::tempdir().unwrap();
    first.cache = fresh_cache(dir.path());
    let (remade, result) = busy_meanwhile(|| run(&first));
    result.unwrap();
    assert!(remade.stages.contains(&Stage::Booting));
    assert_eq!(remade.text(), expected.text(), "snapshot made again");
}

#[test]
fn many_cpus_are_plugged_in_and_a_boot_made_again_gives_the_same_run() {
    let _alone = alone();
    let machine = "cd /sys/devices/system; nproc; cat cpu/online node/node1/cpulist; \
        cat cpu/cpu1/topology/thread_siblings_list cpu/cpu63/topology/physical_package_id; \
        sed -n '/^cpu63 /,$p' /proc/schedstat | grep -c ^domain; \
        cat /sys/fs/cgroup/cgroup.subtree_control; \
        grep nr_descendants /sys/fs/cgroup/cgroup.stat";
    let probe = format!("({machine}); {PROBE}");
    let mut session = session(&["sh", "-c", &probe]);
    session.conditions.shape = GuestShape {
        cpus: 64,
        numa_nodes: 2,
        threads: Some(2),
        append: "numa_balancing=disable".into(),
        ..GuestShape::default()
    };
    let dir = tempfile::tempdir().unwrap();
    session.cache = fresh_cache(dir.path());
    let (first, result) = run(&session);
    result.unwrap();
    // In domains of threads, of a socket and of both, and in no group.
    let machine = "64\n0-63\n32-63\n0-1\n1\n3\nnr_descendants 0\n";
    assert!(first.text().0.starts_with(machine), "{}", first.text().0);
    let snapshots = fs::read_dir(session.cache.join("snapshots")).unwrap();
    let folders: Vec<PathBuf> = snapshots.map(|entry| entry.unwrap().path()).collect();
    let [folder] = &*folders else {
        panic!("{folders:?}")
    };
    assert!(!folder.join("at-power-on").exists());
    fs::remove_dir_all(folder).unwrap();
    let (again, result) = busy_meanwhile(|| run(&session));
    result.unwrap();
    assert!(again.stages.contains(&Stage::Booting));
    assert_eq!(again.text(), first.text());
}

#[test]
fn another_seed_gives_another_run() {
    let _alone = alone();
    let probe = [
        "sh",
        "-c",
        "dd if=/dev/urandom bs=16 count=1 2>/dev/null | md5sum",
    ];
    let mut other = session(&probe);
    let (first, _) = run(&other);
    other.conditions.shape.seed = 7;
    let (second, result) = run(&other);
    result.unwrap();
    assert_ne!(first.text().0, second.text().0);
}

#[test]
fn a_command_that_does_not_end_is_ended() {
    let _alone = alone();
    let mut session = session(&["sh", "-c", "while :; do :; done"]);
    // The snapshot first, without the short limit.
    session.conditions.workload.command = vec!["true".into()];
    run(&session).1.unwrap();
    session.conditions.workload.command = ["sh", "-c", "while :; do :; done"]
        .map(str::to_owned)
        .into();
    session.timeout = Some(Duration::from_secs(5));
    let error = cause(&session);
    assert!(
        matches!(error, GuestError::Timeout { seconds: 5, .. }),
        "{error}"
    );
    let (_, result) = (
        session.timeout = None,
        session.record(&AtomicBool::new(true), &mut Log::default()),
    );
    let error = result.unwrap_err().cause;
    assert!(matches!(error, GuestError::Interrupted { .. }), "{error}");
}

#[test]
fn a_kernel_that_panics_is_quoted() {
    let _alone = alone();
    let mut session = session(&["true"]);
    session.conditions.shape.append = "rdinit=/nonexistent init=/nonexistent".into();
    let error = cause(&session);
    let text = error.to_string();
    assert!(matches!(error, GuestError::Panic { .. }), "{text}");
    assert!(text.contains("Kernel panic - not syncing: "), "{text}");
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn a_kernel_that_runs_something_else_never_reaches_the_agent() {
    let _alone = alone();
    let mut session = session(&["true"]);
    session.conditions.shape.append = "rdinit=/usr/bin/busybox".into();
    session.timeout = Some(Duration::from_secs(60));
    let error = cause(&session);
    let named = matches!(
        error,
        GuestError::NeverReached { .. } | GuestError::Panic { .. }
    );
    assert!(named, "{error}");
}

#[test]
fn a_guest_without_memory_says_so() {
    let _alone = alone();
    let mut session = session(&["sh", "-c", "tail /dev/zero"]);
    session.conditions.shape.memory_bytes = 256 << 20;
    let error = cause(&session);
    assert!(matches!(error, GuestError::OutOfMemory { .. }), "{error}");
    assert!(error.to_string().ends_with("raise --memory"), "{error}");
}

#[test]
fn a_whole_boot_is_recorded() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let mut session = session(&["echo", "booted"]);
    session.conditions.bare = false;
    session.conditions.whole_boot = true;
    session.output = dir.path().join("boot.data");
    let (log, result) = run(&session);
    let totals = result.unwrap().totals.unwrap();
    assert_eq!(log.text().0, "booted\n");
    // Booting alone makes far more accesses than a command that starts from a snapshot (about a
    // million).
    assert!(totals.loads > 20_000_000, "{totals:?}");
}

#[test]
fn a_setup_script_that_fails_ends_the_run() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let setup = dir.path().join("setup.sh");
    fs::write(&setup, "echo why >&2; exit 4\n").unwrap();
    let mut session = session(&["true"]);
    session.conditions.workload.setup = Some(setup);
    let (log, result) = run(&session);
    let error = result.unwrap_err().cause;
    assert!(
        matches!(error, GuestError::Setup { ref status } if status == "exit status 4"),
        "{error}"
    );
    assert_eq!(log.text().1, "why\n");
}

#[test]
fn a_command_for_another_computer_is_named_before_anything_boots() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("arm");
    let mut bytes = vec![0; 64];
    bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
    bytes[18] = 183;
    fs::write(&program, bytes).unwrap();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let (log, result) = run(&session(&[program.to_str().unwrap()]));
    let text = result.unwrap_err().to_string();
    assert!(
        text.contains("is for another architecture (ELF machine 183)"),
        "{text}"
    );
    let (_, result) = run(&session(&["no-such-command"]));
    let text = result.unwrap_err().to_string();
    assert!(
        text.starts_with("no-such-command: command not found"),
        "{text}"
    );
    assert_eq!(log.stages, []);
}
