// SPDX-License-Identifier: MIT OR Apache-2.0
//! shapes: more small cases of false sharing, in what Rust's `Arc`, `Vec`, `Box<[T]>` and statics
//! hold, each a function, with its published fix under `--cfg fixed`; and a control. cases.list has
//! the sources.
//!
//! Where it is weak: each is a loop of few instructions, so sharing is most of its cost.
//!
//! usage: shapes CASE [ROUNDS [THREADS]]

use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

/// A value that has a line of its own with the fix.
#[cfg_attr(fixed, repr(align(64)))]
#[derive(Default)]
struct Apart<T>(T);

/// Runs `body` in that many threads at once, each with its number.
fn in_threads(threads: usize, body: impl Fn(usize) + Send + Sync + 'static) {
    let (body, start) = (Arc::new(body), Arc::new(Barrier::new(threads)));
    let workers: Vec<_> = (0..threads)
        .map(|thread| {
            let (body, start) = (Arc::clone(&body), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                body(thread);
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("a worker failed");
    }
}

/// What one thread has read and another has written.
#[derive(Default)]
struct Progress {
    read: Apart<AtomicUsize>,
    written: Apart<AtomicUsize>,
}

/// Two threads for each pair of counts in an `Arc`.
fn progress(rounds: usize, threads: usize) {
    let pairs: Vec<Arc<Progress>> = (0..threads / 2).map(|_| Arc::default()).collect();
    in_threads(threads, move |thread| {
        let own = Arc::clone(&pairs[thread / 2]);
        for _ in 0..rounds {
            if thread % 2 == 0 {
                own.read.0.fetch_add(1, Relaxed);
            } else {
                own.written.0.fetch_add(1, Relaxed);
            }
        }
    });
}

#[cfg(not(fixed))]
type Counter = AtomicUsize;
#[cfg(fixed)]
type Counter = Apart<AtomicUsize>;

#[cfg(not(fixed))]
fn number(counter: &Counter) -> &AtomicUsize {
    counter
}
#[cfg(fixed)]
fn number(counter: &Counter) -> &AtomicUsize {
    &counter.0
}

/// A vector of atomics, one for each thread.
fn counters(rounds: usize, threads: usize) {
    let all: Vec<Counter> = (0..threads).map(|_| Counter::default()).collect();
    in_threads(threads, move |thread| {
        let own = number(&all[thread]);
        for _ in 0..rounds {
            own.fetch_add(1, Relaxed);
        }
    });
}

/// A place of a queue.
struct Slot {
    stamp: AtomicUsize,
    value: AtomicUsize,
}

/// A bounded queue of slots with stamps.
struct ArrayQueue {
    head: Apart<AtomicUsize>,
    tail: Apart<AtomicUsize>,
    slots: Box<[Slot]>,
}

impl ArrayQueue {
    fn new(size: usize) -> Self {
        let slot = |at| Slot {
            stamp: AtomicUsize::new(at),
            value: AtomicUsize::new(0),
        };
        Self {
            head: Apart::default(),
            tail: Apart::default(),
            slots: (0..size).map(slot).collect(),
        }
    }

    fn push(&self, value: usize) -> bool {
        let tail = self.tail.0.load(Relaxed);
        let slot = &self.slots[tail % self.slots.len()];
        if slot.stamp.load(Acquire) != tail {
            return false;
        }
        if self.tail.0.compare_exchange(tail, tail + 1, Relaxed, Relaxed).is_err() {
            return false;
        }
        slot.value.store(value, Relaxed);
        slot.stamp.store(tail + 1, Release);
        true
    }

    fn pop(&self) -> Option<usize> {
        let head = self.head.0.load(Relaxed);
        let slot = &self.slots[head % self.slots.len()];
        if slot.stamp.load(Acquire) != head + 1 {
            return None;
        }
        if self.head.0.compare_exchange(head, head + 1, Relaxed, Relaxed).is_err() {
            return None;
        }
        let value = slot.value.load(Relaxed);
        slot.stamp.store(head + self.slots.len(), Release);
        Some(value)
    }
}

/// Two threads for each queue: one pushes, one pops.
fn array_queue(rounds: usize, threads: usize) {
    let queues: Vec<Arc<ArrayQueue>> = (0..threads / 2).map(|_| Arc::new(ArrayQueue::new(512))).collect();
    in_threads(threads, move |thread| {
        let queue = &*queues[thread / 2];
        for round in 0..rounds {
            if thread % 2 == 0 {
                while !queue.push(round) {
                    std::hint::spin_loop();
                }
            } else {
                while queue.pop().is_none() {
                    std::hint::spin_loop();
                }
            }
        }
    });
}

/// A count of events for each shard of a static.
static SHARDS: [Apart<AtomicU64>; 16] = [const { Apart(AtomicU64::new(0)) }; 16];

/// Each thread counts in its shard of a static.
fn static_shards(rounds: usize, threads: usize) {
    in_threads(threads, move |thread| {
        for _ in 0..rounds {
            SHARDS[thread % SHARDS.len()].0.fetch_add(1, Relaxed);
        }
    });
}

/// What a lock guards.
#[derive(Default)]
struct Account {
    deposits: u64,
    balance: u64,
}

/// All threads use one struct, under its lock.
fn control_mutex(rounds: usize, threads: usize) {
    let account = Arc::new(Mutex::new(Account::default()));
    in_threads(threads, move |thread| {
        let mut own = thread as u64;
        for _ in 0..rounds / 32 {
            let mut account = account.lock().expect("a worker failed");
            account.deposits += 1;
            account.balance += own;
            drop(account);
            for round in 0..1000 {
                own = std::hint::black_box(own + round);
            }
        }
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
        "progress" => progress(rounds, threads),
        "counters" => counters(rounds, threads),
        "array_queue" => array_queue(rounds, threads),
        "static_shards" => static_shards(rounds, threads),
        "control_mutex" => control_mutex(rounds, threads),
        _ => {
            eprintln!("usage: shapes CASE [ROUNDS [THREADS]]");
            std::process::exit(2);
        }
    }
}
