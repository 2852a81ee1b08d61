// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two vectors that grow as they are filled, of elements that nothing but an atomic's method
//! reaches: threads count each in an element of one, and read the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const THREADS: usize = 4;
const ROUNDS: u64 = 5000;

struct Slot {
    hits: AtomicU64,
}

struct Limit {
    most: AtomicU64,
    asked: u32,
}

#[inline(never)]
fn slots(count: usize) -> Vec<Slot> {
    let mut slots = Vec::new();
    for _ in 0..count {
        slots.push(Slot {
            hits: AtomicU64::new(0),
        });
    }
    slots
}

#[inline(never)]
fn limits(count: usize) -> Vec<Limit> {
    let mut limits = Vec::new();
    for asked in 0..count {
        limits.push(Limit {
            most: AtomicU64::new(ROUNDS),
            asked: asked as u32,
        });
    }
    limits
}

fn main() {
    // Not known when it is compiled, so that the vectors really grow.
    let count = THREADS + std::env::args().count();
    let (slots, limits) = (Arc::new(slots(count)), Arc::new(limits(count)));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let (slots, limits) = (slots.clone(), limits.clone());
            thread::spawn(move || {
                while slots[number].hits.load(Ordering::Relaxed)
                    < limits[number].most.load(Ordering::Relaxed)
                {
                    slots[number].hits.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    println!("{}", limits[count - 1].asked);
}
