//! Runs that really boot a kernel. They need QEMU, busybox and a kernel image in the cache (`make setup`), and fail without.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use linemate_guest::{
    ExitStatus, Failure, Observer, Qemu, Recorded, Session, Shape, Stage, Stream, Workload,
    cache_folder, default_kernel,
};

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
    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Stdout => self.stdout.extend_from_slice(bytes),
            Stream::Stderr => self.stderr.extend_from_slice(bytes),
        }
    }
}

fn session(cache: &Path, output: PathBuf, command: &[&str]) -> Session {
    Session {
        qemu: Qemu::find().expect("QEMU: run `make setup`"),
        kernel: default_kernel(&cache_folder()).expect("a kernel: run `make setup`"),
        shape: Shape {
            cpus: 2,
            ..Shape::default()
        },
        workload: Workload {
            command: command.iter().map(|&word| word.to_owned()).collect(),
            ..Workload::default()
        },
        cache: cache.to_owned(),
        recorder: None,
        output,
        user: false,
        whole_boot: false,
        timeout: Some(Duration::from_secs(240)),
    }
}

fn run(session: &Session) -> (Log, Result<Recorded, Failure>) {
    let mut log = Log::default();
    let result = session.record(&AtomicBool::new(false), &mut log);
    (log, result)
}

#[test]
fn output_and_status_come_through() {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("r.data");
    let script = "echo out; echo err >&2; cat /proc/uptime; exit 3";
    let session = session(&cache_folder(), output, &["sh", "-c", script]);
    let (log, result) = run(&session);
    let recorded = result.unwrap();
    assert_eq!(recorded.status, ExitStatus::Exit(3));
    let stdout = String::from_utf8(log.stdout).unwrap();
    assert!(stdout.starts_with("out\n"), "{stdout}");
    assert_eq!(String::from_utf8(log.stderr).unwrap(), "err\n");
    // Guest time is instructions: the clock that the guest reads is the same in every run.
    let (again, _) = run(&session);
    assert_eq!(String::from_utf8(again.stdout).unwrap(), stdout);
}
