// SPDX-License-Identifier: MIT OR Apache-2.0
//! flags: a static flag that every thread sets though it is set, with the published fix under
//! `--cfg fixed`; and a control, a static whose value changes.
//!
//! Where it is weak: each is a loop of few instructions, so sharing is most of its cost.
//!
//! usage: flags CASE [ROUNDS]

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

/// Threads of a case.
const THREADS: u64 = 4;

/// seen_flag: set by each thread that sees an event.
static SEEN: AtomicBool = AtomicBool::new(false);

/// control_latest: each thread that sees an event says which.
static LATEST: AtomicU64 = AtomicU64::new(0);

/// Runs `body` in threads at once, each with its number.
fn in_threads(body: impl Fn(u64) + Sync) {
    let start = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (start, body) = (&start, &body);
            scope.spawn(move || {
                start.wait();
                body(thread);
            });
        }
    });
}

fn seen_flag(rounds: u64) {
    in_threads(|_| {
        for _ in 0..rounds {
            if cfg!(not(fixed)) || !SEEN.load(Relaxed) {
                SEEN.store(true, Relaxed);
            }
        }
    });
    assert!(SEEN.load(Relaxed));
}

fn control_latest(rounds: u64) {
    in_threads(|thread| {
        for round in 0..rounds {
            LATEST.store(round * THREADS + thread + 1, Relaxed);
        }
    });
    assert!(LATEST.load(Relaxed) > 0);
}

fn main() {
    let mut words = std::env::args().skip(1);
    let case = words.next().unwrap_or_default();
    let rounds = words.next().and_then(|word| word.parse().ok());
    let rounds = rounds.unwrap_or(20_000);
    match case.as_str() {
        "seen_flag" => seen_flag(rounds),
        "control_latest" => control_latest(rounds),
        _ => {
            eprintln!("usage: flags CASE [ROUNDS]");
            std::process::exit(2);
        }
    }
}
