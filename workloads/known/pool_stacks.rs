// SPDX-License-Identifier: MIT OR Apache-2.0
//! pool_stacks: the stacks of a pool, one for each thread modulo eight, share lines
//! (regex-automata, Pool). Source: A. Gallant, github.com/rust-lang/regex/pull/1080, 2023; the pool
//! that was merged gives each stack a line.
//!
//! Where it is weak: what the pool holds is not used.

use std::sync::{Arc, Barrier, Mutex};
use std::thread;

const STACKS: usize = 8;

/// What a search needs.
struct Cache {
    searches: usize,
}

#[cfg_attr(fixed, repr(C, align(64)))]
struct Stack(Mutex<Vec<Box<Cache>>>);

struct Pool {
    stacks: Vec<Stack>,
}

impl Pool {
    fn new() -> Self {
        let stacks = (0..STACKS).map(|_| Stack(Mutex::new(Vec::new())));
        Self {
            stacks: stacks.collect(),
        }
    }

    #[inline(never)]
    fn get(&self, thread: usize) -> Box<Cache> {
        let mut stack = self.stacks[thread % STACKS].0.lock().expect("no panics");
        stack
            .pop()
            .unwrap_or_else(|| Box::new(Cache { searches: 0 }))
    }

    #[inline(never)]
    fn put(&self, thread: usize, cache: Box<Cache>) {
        let mut stack = self.stacks[thread % STACKS].0.lock().expect("no panics");
        stack.push(cache);
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse::<usize>());
    let rounds = arguments
        .next()
        .map_or(30000, |rounds| rounds.expect("ROUNDS"));
    let threads = arguments
        .next()
        .map_or(4, |threads| threads.expect("THREADS"));
    let pool = Arc::new(Pool::new());
    let start = Arc::new(Barrier::new(threads));
    let workers: Vec<_> = (0..threads)
        .map(|thread| {
            let (pool, start) = (Arc::clone(&pool), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                for _ in 0..rounds {
                    let mut cache = pool.get(thread);
                    cache.searches += 1;
                    pool.put(thread, cache);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("a worker failed");
    }
}
