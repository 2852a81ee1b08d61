//! The shares of caches that CPUs get: threads of a core, and shares of a machine whose other CPUs
//! do the same.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::machine;
use linemate_machine::LogicalCpu;
use linemate_recording::{Access, AccessKind, Accesses};
use linemate_replay::{AsRecorded, Clones, Config, Interleaving, NoClones, Replay, Source};
use linemate_testkit::accesses::access;

const A: u64 = 0xffff_8880_0000_1000;

fn config(recorded_cpus: usize) -> Config {
    Config {
        recorded_cpus,
        cpus: None,
        interleaving: Interleaving::Aligned,
        lines: true,
    }
}

fn read(time: u64, cpu: u16, addr: u64) -> Access {
    access(time, cpu, AccessKind::Load, addr, 4)
}

/// Accesses that memory served when CPUs at these places go through that many lines each, twice.
fn from_memory(places: &[u16], lines: u64, share: bool) -> Accesses {
    let machine = machine(&[("size = 512\nways = 8", "size = 32768\nways = 8")]);
    let config = Config {
        cpus: Some(places.iter().map(|place| LogicalCpu(*place)).collect()),
        ..config(places.len())
    };
    let mut replay = Replay::new(&machine, &config, AsRecorded, Clones { copies: 1 }).unwrap();
    if share {
        replay = replay.with_llc_share(&machine);
    }
    let mut time = 0;
    for pass in 0..2 * places.len() as u64 {
        let cpu = pass % places.len() as u64;
        for line in 0..lines {
            time += 1;
            let addr = A + (cpu * lines + line) * 64;
            replay.push(&read(time, cpu as u16, addr)).unwrap();
        }
    }
    let totals = replay.finish().0.totals;
    totals.source(Source::DramLocal).count + totals.source(Source::DramRemote).count
}

#[test]
fn a_share_of_a_cache_holds_as_much_less() {
    // 512 lines, of which a quarter for each of the domain's CPUs 0, 1, 8 and 9.
    assert_eq!(from_memory(&[0], 400, false), Accesses(400));
    assert_eq!(from_memory(&[0], 400, true), Accesses(800));
    assert_eq!(from_memory(&[0], 48, true), Accesses(48));
    assert_eq!(from_memory(&[0, 1, 8, 9], 48, true), Accesses(4 * 48));
    // One CPU each in two domains: each has a quarter of its own.
    assert_eq!(from_memory(&[0, 2], 48, true), Accesses(2 * 48));
    assert_eq!(from_memory(&[0, 2], 400, true), Accesses(2 * 800));
}

/// How many accesses leave their core when these CPUs go through lines twice, each through its own
/// (`apart`) or all through the same.
fn leaving(logical: &[u16], lines: u64, apart: bool, share: bool) -> Accesses {
    // L2: 4 ways of one set; L1: 2. The last-level cache has room for everything.
    let machine = machine(&[("size = 512\nways = 8", "size = 65536\nways = 64")]);
    let config = Config {
        cpus: Some(logical.iter().copied().map(LogicalCpu).collect()),
        ..config(logical.len())
    };
    let mut replay = Replay::new(&machine, &config, AsRecorded, NoClones).unwrap();
    if share {
        replay = replay.with_llc_share(&machine);
    }
    let mut time = 0;
    for _ in 0..2 {
        for line in 0..lines {
            for cpu in 0..logical.len() as u64 {
                time += 1;
                let own = if apart { cpu * 4096 } else { 0 };
                replay
                    .push(&read(time, cpu as u16, A + own + line * 64))
                    .unwrap();
            }
        }
    }
    replay.finish().0.totals.left_core().count
}

#[test]
fn threads_of_a_core_share_its_caches() {
    // CPU 8 is the second thread of CPU 0's core, CPU 1 is another core. What one thread brought
    // the other has.
    assert_eq!(leaving(&[0, 1], 4, false, false), Accesses(2 * 4));
    assert_eq!(leaving(&[0, 8], 4, false, false), Accesses(4));
    // Four lines stay in four ways, not four of each thread.
    assert_eq!(leaving(&[0], 4, true, false), Accesses(4));
    assert_eq!(leaving(&[0, 1], 4, true, false), Accesses(2 * 4));
    assert_eq!(leaving(&[0, 8], 4, true, false), Accesses(2 * 2 * 4));
    assert_eq!(leaving(&[0, 8], 2, true, false), Accesses(2 * 2));
}

#[test]
fn a_share_leaves_a_thread_its_part_of_the_core() {
    // Half of the ways: two lines stay, four do not.
    assert_eq!(leaving(&[0], 4, true, true), Accesses(2 * 4));
    assert_eq!(leaving(&[0], 2, true, true), Accesses(2));
    assert_eq!(leaving(&[0, 1], 4, true, true), Accesses(2 * 2 * 4));
    // Where both threads are replayed, nothing is taken from them.
    assert_eq!(leaving(&[0, 8], 2, true, true), Accesses(2 * 2));
    assert_eq!(leaving(&[0, 8], 4, false, true), Accesses(4));
}
