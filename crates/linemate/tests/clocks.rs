//! The guest's clock is the TSC whatever the kernel and its sockets: the HPET is read under a lock,
//! one line that every reader of the time would meet on.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{kernel, linemate, story};

const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// The clock of a guest of that kernel, which is not recorded.
fn clock(version: &str, options: &[&str]) -> String {
    let image = kernel(version);
    let start = ["record", "--bare", "--kernel", image.to_str().unwrap()];
    let output = linemate(&[&start, options, &["--", "cat", CLOCK]].concat());
    assert!(output.status.success(), "{}", story(&output));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn kernels_that_distrust_emulated_clocks_read_the_tsc_too() {
    assert_eq!(clock("6.1", &["--smp", "2"]), "tsc");
    assert_eq!(clock("6.12", &["--smp", "2"]), "tsc");
    assert_eq!(clock("6.12", &["--smp", "2", "--sockets", "2"]), "tsc");
}

#[test]
fn the_user_has_the_last_word_on_the_clock() {
    let words = ["--smp", "2", "--append", "tsc=unstable"];
    assert_eq!(clock("6.1", &words), "hpet");
}
