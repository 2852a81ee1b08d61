// SPDX-License-Identifier: MIT OR Apache-2.0
//! stacks: cases of false sharing between scoped threads that borrow what is on the stack of the
//! one that starts them; each a function, with its published fix under `--cfg fixed`; and controls.
//!
//! Where it is weak: each is a loop of few instructions, so sharing is most of its cost.
//!
//! usage: stacks CASE [ROUNDS]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

/// A counter, padded or not.
#[derive(Default)]
#[cfg_attr(fixed, repr(align(64)))]
struct Tally(AtomicU64);

/// scoped_counters: a counter for each thread, in an array.
fn scoped_counters(rounds: u64) -> u64 {
    let tallies: [Tally; 4] = Default::default();
    thread::scope(|scope| {
        for tally in &tallies {
            scope.spawn(move || {
                for _ in 0..rounds {
                    tally.0.fetch_add(1, Relaxed);
                }
            });
        }
    });
    tallies.iter().map(|tally| tally.0.load(Relaxed)).sum()
}

/// What a worker and the one that watches it exchange.
#[derive(Default)]
struct Watched {
    done: Tally,
    asked: Tally,
}

/// scoped_watch: a worker that counts, and another thread that counts how often it looked.
fn scoped_watch(rounds: u64) -> u64 {
    let watched = Watched::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..rounds {
                watched.done.0.fetch_add(1, Relaxed);
            }
        });
        scope.spawn(|| {
            for _ in 0..rounds {
                watched.asked.0.fetch_add(1, Relaxed);
            }
        });
    });
    watched.done.0.load(Relaxed) + watched.asked.0.load(Relaxed)
}

/// Numbers that start a line.
#[repr(align(64))]
struct Lines([u64; 4096]);

/// control_slices: each thread fills a part of an array that is many lines long and starts one.
fn control_slices(rounds: u64) -> u64 {
    let mut lines = Lines([0; 4096]);
    let cells = &mut lines.0;
    thread::scope(|scope| {
        for part in cells.chunks_mut(1024) {
            scope.spawn(move || {
                for round in 0..rounds {
                    part[(round % 1024) as usize] += round;
                }
            });
        }
    });
    cells.iter().sum()
}

/// control_locked: a lock with what it guards.
fn control_locked(rounds: u64) -> u64 {
    let total = Mutex::new(0u64);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..rounds / 16 {
                    *total.lock().expect("no thread panics") += 1;
                }
            });
        }
    });
    total.into_inner().expect("no thread panics")
}

fn main() {
    let mut words = std::env::args().skip(1);
    let case = words.next().unwrap_or_default();
    let rounds = words.next().and_then(|word| word.parse().ok());
    let rounds = rounds.unwrap_or(100_000);
    let sum = match case.as_str() {
        "scoped_counters" => scoped_counters(rounds),
        "scoped_watch" => scoped_watch(rounds),
        "control_slices" => control_slices(rounds),
        "control_locked" => control_locked(rounds),
        _ => {
            eprintln!("usage: stacks CASE [ROUNDS]");
            std::process::exit(2);
        }
    };
    assert!(sum > 0);
}
