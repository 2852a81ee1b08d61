// SPDX-License-Identifier: MIT OR Apache-2.0
//! deques: work-stealing deques that are allocated one after the other share lines (coco, later
//! crossbeam-deque). Source: C. Lerche, github.com/stjepang/coco/issues/8, 2017; the fix pads each
//! deque.
//!
//! Where it is weak: nobody steals; a task is a number. Rust allocated by size then (jemalloc), so
//! that deques were neighbours. Here they are because all buffers come before them, because the
//! capacity is no fourth word, and because blocks that were freed before are used up.

use std::hint::black_box;
use std::sync::atomic::{AtomicIsize, AtomicPtr, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Barrier};
use std::thread;

const CAPACITY: usize = 128;

/// Of a deque in an `Arc`: two counts and the deque.
const WORDS: usize = 2 + size_of::<Deque>() / size_of::<usize>();

/// More than the C library has free of a deque's size when the program begins: how many differs
/// between versions of Rust.
const FREED: usize = 64;

/// The tasks, on lines that no other deque's tasks are on.
#[repr(align(128))]
struct Buffer([AtomicUsize; CAPACITY]);

#[cfg_attr(fixed, repr(align(64)))]
struct Deque {
    bottom: AtomicIsize,
    top: AtomicIsize,
    buffer: AtomicPtr<Buffer>,
}

impl Deque {
    fn new(buffer: &'static mut Buffer) -> Self {
        Self {
            bottom: AtomicIsize::new(0),
            top: AtomicIsize::new(0),
            buffer: AtomicPtr::new(buffer),
        }
    }

    /// The place of a task.
    fn slot(&self, index: isize) -> &AtomicUsize {
        let buffer = self.buffer.load(Ordering::Relaxed);
        // SAFETY: `new` has it for ever and nobody replaces it.
        let buffer = unsafe { &*buffer };
        &buffer.0[index as usize % CAPACITY]
    }

    #[inline(never)]
    fn push(&self, task: usize) {
        let bottom = self.bottom.load(Ordering::Relaxed);
        let top = self.top.load(Ordering::Acquire);
        assert!(bottom - top < CAPACITY as isize, "a full deque");
        self.slot(bottom).store(task, Ordering::Relaxed);
        self.bottom.store(bottom + 1, Ordering::Release);
    }

    #[inline(never)]
    fn pop(&self) -> Option<usize> {
        let bottom = self.bottom.load(Ordering::Relaxed) - 1;
        self.bottom.store(bottom, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if bottom < self.top.load(Ordering::Relaxed) {
            self.bottom.store(bottom + 1, Ordering::Relaxed);
            return None;
        }
        Some(self.slot(bottom).load(Ordering::Relaxed))
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
    let buffers = (0..threads).map(|_| Buffer([const { AtomicUsize::new(0) }; CAPACITY]));
    let buffers = Box::leak(buffers.collect::<Box<[Buffer]>>());
    for _ in 0..FREED {
        black_box(Box::leak(Box::new(black_box([0usize; WORDS]))));
    }
    let deques: Vec<_> = buffers
        .iter_mut()
        .map(|buffer| Arc::new(Deque::new(buffer)))
        .collect();
    let start = Arc::new(Barrier::new(threads));
    let workers: Vec<_> = deques
        .into_iter()
        .map(|deque| {
            let start = Arc::clone(&start);
            thread::spawn(move || {
                start.wait();
                for task in 0..rounds {
                    deque.push(task);
                    deque.push(task + 1);
                    assert_eq!(deque.pop(), Some(task + 1));
                    assert_eq!(deque.pop(), Some(task));
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("a worker failed");
    }
}
