//! Same inputs, same bytes: whatever else the computer does, a recording and the report on it come
//! out the same.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::{linemate, record, story, workload};

/// Runs `work` while two threads keep the computer's cores busy.
fn with_busy_cores<T>(work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
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

fn same_bytes(command: &[&str]) {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let quiet = record(folders[0].path(), "6.12", &["--smp", "8"], command);
    let busy = with_busy_cores(|| record(folders[1].path(), "6.12", &["--smp", "8"], command));
    let (quiet_bytes, busy_bytes) = (fs::read(&quiet).unwrap(), fs::read(&busy).unwrap());
    assert!(
        quiet_bytes.len() > 1_000_000,
        "{} bytes are not recording",
        quiet_bytes.len()
    );
    assert!(quiet_bytes == busy_bytes, "{command:?}: two runs differ");

    let reports = [&quiet, &busy].map(|data| linemate(&["report", "-i", data, "--json"]));
    assert!(reports[0].status.success(), "{}", story(&reports[0]));
    assert!(
        reports[0].stdout == reports[1].stdout,
        "{command:?}: two reports differ"
    );
}

#[test]
fn hackbench_is_recorded_the_same_twice() {
    same_bytes(&["hackbench", "-g", "2", "-l", "10"]);
}

#[test]
fn sleepers_are_recorded_the_same_twice() {
    same_bytes(&[&workload("sleepers"), "-m", "1", "-l", "4", "-c", "32"]);
}
