// SPDX-License-Identifier: MIT OR Apache-2.0
//! sharing: small cases of false sharing, each a function, with its published fix under `--cfg
//! fixed`; and controls without any. cases.list has where each was published.
//!
//! Where it is weak: each is a loop of few instructions, so sharing is most of its cost.
//!
//! usage: sharing CASE [ROUNDS [THREADS]]

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;

/// A word that has a line of its own with the fix.
#[cfg_attr(fixed, repr(align(64)))]
#[derive(Default)]
struct Apart(AtomicUsize);

/// Sent by one thread, received by another.
#[repr(C)]
#[derive(Default)]
struct Channel {
    sent: Apart,
    received: Apart,
}

/// A counter with a line of its own.
#[repr(align(64))]
#[derive(Default)]
struct Padded(AtomicUsize);

/// Runs `body` in that many threads at once, each with its number.
fn in_threads<T: Send + Sync + 'static>(
    threads: usize,
    shared: T,
    body: impl Fn(&T, usize) + Copy + Send + 'static,
) {
    let (shared, start) = (Arc::new(shared), Arc::new(Barrier::new(threads)));
    let workers: Vec<_> = (0..threads)
        .map(|thread| {
            let (shared, start) = (Arc::clone(&shared), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                body(&shared, thread);
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("a worker failed");
    }
}

/// Two threads for each channel: one counts what it sends, the other what it receives.
fn channel(rounds: usize, threads: usize) {
    let channels: Vec<Box<Channel>> = (0..threads / 2).map(|_| Box::default()).collect();
    in_threads(threads, channels, move |channels, thread| {
        let channel = &channels[thread / 2];
        let own = if thread % 2 == 0 {
            &channel.sent
        } else {
            &channel.received
        };
        for _ in 0..rounds {
            own.0.fetch_add(1, Relaxed);
        }
    });
}

/// A counter for each thread.
fn sharded_vec(rounds: usize, threads: usize) {
    let shards: Vec<Apart> = (0..threads).map(|_| Apart::default()).collect();
    in_threads(threads, shards, move |shards, thread| {
        for _ in 0..rounds {
            shards[thread].0.fetch_add(1, Relaxed);
        }
    });
}

/// The same, each with a line.
fn control_padded(rounds: usize, threads: usize) {
    let shards: Vec<Padded> = (0..threads).map(|_| Padded::default()).collect();
    in_threads(threads, shards, move |shards, thread| {
        for _ in 0..rounds {
            shards[thread].0.fetch_add(1, Relaxed);
        }
    });
}

/// Each thread counts on its own stack and adds up once.
fn control_local(rounds: usize, threads: usize) {
    in_threads(threads, AtomicUsize::new(0), move |sum, thread| {
        let mut own = thread;
        for round in 0..rounds {
            own = std::hint::black_box(own + round);
        }
        sum.fetch_add(own, Relaxed);
    });
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let case = arguments.next().unwrap_or_default();
    let mut number = |default: usize| {
        let word = arguments.next();
        word.map_or(default, |word| word.parse().expect("a number"))
    };
    let (rounds, threads) = (number(20000), number(4));
    match case.as_str() {
        "channel" => channel(rounds, threads),
        "sharded_vec" => sharded_vec(rounds, threads),
        "control_padded" => control_padded(rounds, threads),
        "control_local" => control_local(rounds, threads),
        _ => {
            eprintln!("usage: sharing CASE [ROUNDS [THREADS]]");
            std::process::exit(2);
        }
    }
}
