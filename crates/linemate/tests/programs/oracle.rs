// SPDX-License-Identifier: MIT OR Apache-2.0
//! What oracle.c does, with what Rust has: generics, enums, Arc and Mutex, fields that the compiler
//! orders.

use std::collections::HashMap;
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Default)]
pub struct Stats {
    hits: u64,
    small: u8,
    misses: u64,
}

pub enum State {
    Idle,
    Busy { since: u64, by: u32 },
}

pub struct Conn {
    id: u8,
    bytes: AtomicU64,
    stats: Mutex<Stats>,
    state: Mutex<State>,
}

pub struct Node<T> {
    value: T,
    seen: AtomicU64,
    next: Option<Box<Node<T>>>,
}

/// A value of a hash table, which has its elements before where its pointers lead.
#[derive(Default)]
pub struct Slot {
    uses: AtomicU64,
    last: AtomicU64,
}

fn place<T>(object: &T) -> u64 {
    place_of(std::ptr::from_ref(object) as u64)
}

fn place_of(address: u64) -> u64 {
    let mut entry = [0; 8];
    let pagemap = File::open("/proc/self/pagemap").unwrap();
    pagemap.read_exact_at(&mut entry, address / 4096 * 8).unwrap();
    let entry = u64::from_le_bytes(entry);
    assert!(entry >> 63 == 1);
    // Where Linux maps all physical memory on x86-64, without address randomisation.
    0xffff_8880_0000_0000 + (entry & ((1 << 55) - 1)) * 4096 + address % 4096
}

/// Written before what is on stacks is used, and afterwards: in between it is as reported.
static WINDOW: AtomicU64 = AtomicU64::new(0);

fn tell<T>(object: &T, name: &str) {
    tell_as("object", object, name);
}

fn tell_as<T>(what: &str, object: &T, name: &str) {
    let (address, size) = (std::ptr::from_ref(object) as u64, size_of::<T>() as u64);
    if address / 4096 == (address + size - 1) / 4096 {
        println!("{what} {:x} {size} {name}", place(object));
    }
}

/// Nothing but copying touches the bytes.
#[inline(never)]
fn copy_into(buffer: &mut [u8]) {
    let source = [7; 512];
    for n in 0..200 {
        let at = n * 27;
        buffer[at..at + black_box(512)].copy_from_slice(&source[..black_box(512)]);
    }
}

fn tell_bytes(buffer: &[u8]) {
    let mut at = buffer.as_ptr() as u64;
    let end = at + buffer.len() as u64;
    while at < end {
        let size = (4096 - at % 4096).min(end - at);
        println!("array {:x} {size} u8[]", place_of(at));
        at += size;
    }
}

#[inline(never)]
fn use_slots(slots: &HashMap<u64, Slot>, n: u64) -> u64 {
    let mut sum = 0;
    for key in 0..20 {
        let slot = &slots[&key];
        slot.uses.fetch_add(1, Ordering::Relaxed);
        slot.last.store(n, Ordering::Relaxed);
        sum += slot.uses.load(Ordering::Relaxed);
    }
    sum
}

#[inline(never)]
fn use_conn(conn: &Conn, n: u64) -> u64 {
    conn.bytes.fetch_add(n, Ordering::Relaxed);
    let mut stats = conn.stats.lock().unwrap();
    stats.hits += n;
    stats.small = stats.small.wrapping_add(1);
    stats.misses += u64::from(conn.id);
    let mut state = conn.state.lock().unwrap();
    *state = match *state {
        State::Idle => State::Busy { since: n, by: 1 },
        State::Busy { since, by } if since + 3 < n => {
            black_box(by);
            State::Idle
        }
        State::Busy { since, by } => State::Busy { since, by: by + 1 },
    };
    stats.hits
}

#[inline(never)]
fn walk(list: &Node<u64>) -> u64 {
    let (mut sum, mut node) = (0, Some(list));
    while let Some(here) = node {
        sum += here.value;
        here.seen.fetch_add(1, Ordering::Relaxed);
        node = here.next.as_deref();
    }
    sum
}

/// What threads borrow from the stack of the one that waits for them. Gives what was on the heap
/// meanwhile.
#[inline(never)]
fn on_stack() -> Vec<u8> {
    let conn = Conn {
        id: 9,
        bytes: AtomicU64::new(0),
        stats: Mutex::default(),
        state: Mutex::new(State::Idle),
    };
    let node = Node { value: 3, seen: AtomicU64::new(0), next: None };
    let mut buffer = vec![0; black_box(6000)];
    WINDOW.store(1, Ordering::SeqCst);
    copy_into(&mut buffer);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 0..100 {
                    black_box(use_conn(&conn, n) + walk(&node));
                }
            });
        }
    });
    WINDOW.store(2, Ordering::SeqCst);
    tell_as("stack", &conn, "oracle::Conn");
    tell_as("stack", &node, "oracle::Node<u64>");
    tell_as("window", &WINDOW, "u64");
    tell_bytes(&buffer);
    buffer
}

fn main() {
    let conns: Vec<Box<Conn>> = (0..6)
        .map(|id| {
            Box::new(Conn {
                id,
                bytes: AtomicU64::new(0),
                stats: Mutex::default(),
                state: Mutex::new(State::Idle),
            })
        })
        .collect();
    let mut list = Box::new(Node { value: 0, seen: AtomicU64::new(0), next: None });
    for value in 1..6 {
        list = Box::new(Node { value, seen: AtomicU64::new(0), next: Some(list) });
    }
    let buffer = on_stack();
    let slots: HashMap<u64, Slot> = (0..20).map(|key| (key, Slot::default())).collect();
    let all = Arc::new((conns, list, slots));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let all = Arc::clone(&all);
            thread::spawn(move || {
                let mut sum = 0;
                for n in 0..100 {
                    for conn in &all.0 {
                        sum += use_conn(conn, n);
                    }
                    sum += walk(&all.1) + use_slots(&all.2, n);
                }
                sum
            })
        })
        .collect();
    let sum: u64 = threads.into_iter().map(|t| t.join().unwrap()).sum();
    black_box(sum);
    for conn in &all.0 {
        tell(&**conn, "oracle::Conn");
    }
    for (key, slot) in &all.2 {
        let start = (std::ptr::from_ref(key) as u64).min(std::ptr::from_ref(slot) as u64);
        let size = size_of::<(u64, Slot)>() as u64;
        if start / 4096 == (start + size - 1) / 4096 {
            println!("entry {:x} {size} (u64, oracle::Slot)", place_of(start));
        }
    }
    let mut node = Some(&*all.1);
    while let Some(here) = node {
        tell(here, "oracle::Node<u64>");
        node = here.next.as_deref();
    }    black_box(buffer);
}
