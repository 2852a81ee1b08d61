// SPDX-License-Identifier: MIT OR Apache-2.0
//! Three phases of 4,000 rounds, four threads: elements that are an `Option`, numbers that were
//! collected in a boxed slice, a clock in an `Arc` with what others read.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::thread;

const THREADS: usize = 4;
const ROUNDS: u64 = 4000;

struct Lease {
    owner: u32,
    renewed: u64,
}

struct Leases(Vec<UnsafeCell<Option<Lease>>>);

// SAFETY: each thread has an element of its own.
unsafe impl Sync for Leases {}

struct Router {
    routes: [AtomicU32; 6],
    now: AtomicU64,
    hop: AtomicU32,
}

impl Router {
    #[inline(never)]
    fn tick(&self) {
        self.now.fetch_add(1, Relaxed);
    }

    #[inline(never)]
    fn lookup(&self, number: u64) -> u32 {
        self.routes[(number % 6) as usize].load(Relaxed) + self.hop.load(Relaxed)
    }
}

// SAFETY: as the C library declares it.
unsafe extern "C" {
    fn sched_setaffinity(pid: i32, size: usize, cpus: *const u64) -> i32;
}

/// A CPU for each thread, or a phase could have one thread behind the other.
fn pin(me: usize) {
    let cpus = 1u64 << me;
    // SAFETY: the kernel reads the eight bytes that `cpus` has.
    let status = unsafe { sched_setaffinity(0, size_of_val(&cpus), &cpus) };
    assert_eq!(status, 0);
}

/// Waits for all. Nobody sleeps here, who would be woken when others are done.
fn meet(arrived: &AtomicUsize) {
    let all = (arrived.fetch_add(1, SeqCst) / THREADS + 1) * THREADS;
    while arrived.load(SeqCst) < all {
        std::hint::spin_loop();
    }
}

#[inline(never)]
fn renew(leases: &Leases, me: usize) {
    // SAFETY: as above.
    let lease = unsafe { &mut *leases.0[me].get() };
    for _ in 0..ROUNDS {
        if let Some(lease) = std::hint::black_box(&mut *lease) {
            lease.renewed += u64::from(lease.owner);
        }
    }
}

fn main() {
    let lease = |owner| UnsafeCell::new(Some(Lease { owner, renewed: 0 }));
    let leases = Arc::new(Leases((0..THREADS as u32).map(lease).collect()));
    let sums: Arc<[Box<[AtomicU64]>; 1]> =
        Arc::new([(0..THREADS).map(|_| AtomicU64::new(0)).collect()]);
    let router = Arc::new(Router {
        routes: std::array::from_fn(|route| AtomicU32::new(route as u32)),
        now: AtomicU64::new(0),
        hop: AtomicU32::new(9),
    });
    let arrived = Arc::new(AtomicUsize::new(0));
    let threads = (0..THREADS).map(|me| {
        let (leases, sums) = (Arc::clone(&leases), Arc::clone(&sums));
        let (router, arrived) = (Arc::clone(&router), Arc::clone(&arrived));
        thread::spawn(move || {
            pin(me);
            meet(&arrived);
            renew(&leases, me);
            meet(&arrived);
            for _ in 0..ROUNDS {
                sums[0][me].fetch_add(1, Relaxed);
            }
            meet(&arrived);
            let mut seen = 0;
            for round in 0..ROUNDS {
                match me {
                    0 => router.tick(),
                    _ => seen += router.lookup(round),
                }
            }
            seen
        })
    });
    let threads: Vec<_> = threads.collect();
    let seen: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    println!("{seen} {}", sums[0][0].load(Relaxed));
}
