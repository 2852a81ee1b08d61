//! Which sets lines map to: counts that follow from the stride.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use linemate_machine::{LineSize, LlcIndex, find};
use linemate_recording::GuestAddr;
use linemate_replay::{Reach, SetsReached, sets_reached};

const BASE: u64 = 0xffff_8880_1000_0000;

/// `n` objects, `stride` bytes apart, on gnr-2s-480: 64 x 12 lines of L1, 2048 x 16 of L2.
fn reach(n: u64, stride: u64) -> Reach {
    let machine = find("gnr-2s-480").unwrap();
    sets_reached(&machine, (0..n).map(|i| GuestAddr(BASE + i * stride)))
}

#[test]
fn a_stride_reaches_as_many_sets_as_fit_between_its_multiples() {
    // 8 KiB apart: every 128th set, 16 of 2048; 1111 objects are 69 or 70 in each, where 16 fit.
    let l2 = reach(1111, 8192).l2;
    let expected = SetsReached {
        lines: 1111,
        sets: 2048,
        ways: 16,
        reached: 16,
        fullest: 70,
        beyond: 1111 - 16 * 16,
    };
    assert_eq!(l2, expected);
    // 1 KiB apart: 128 sets, and room for all.
    let l2 = reach(1111, 1024).l2;
    assert_eq!((l2.reached, l2.fullest, l2.beyond), (128, 9, 0));
    // In L1 a page apart is always the same set.
    let l1 = reach(1111, 8192).l1;
    assert_eq!((l1.sets, l1.ways), (64, 12));
    assert_eq!((l1.reached, l1.fullest, l1.beyond), (1, 1111, 1111 - 12));
}

#[test]
fn a_hash_spreads_what_a_plain_index_does_not() {
    let mut machine = find("gnr-2s-480").unwrap();
    let addrs = || (0..4096).map(|i| GuestAddr(BASE + i * (4096 * 64)));
    let hashed = sets_reached(&machine, addrs()).llc;
    assert_eq!(hashed.sets, 42 * 4096);
    assert!(hashed.reached > 3500 && hashed.beyond == 0, "{hashed:?}");
    machine.llc.index = LlcIndex::Plain;
    machine.llc.slices = 1;
    let plain = sets_reached(&machine, addrs()).llc;
    assert_eq!((plain.reached, plain.beyond), (1, 4096 - 16));
}

#[test]
fn a_line_counts_once_and_lines_may_be_wide() {
    let mut machine = find("gnr-2s-480").unwrap();
    let addrs = [0, 8, 63, 64, 127, 128].map(|byte| GuestAddr(BASE + byte));
    assert_eq!(sets_reached(&machine, addrs).l1.lines, 3);
    machine.line = LineSize::B128;
    assert_eq!(sets_reached(&machine, addrs).l1.lines, 2);
    let none = sets_reached(&machine, []);
    assert_eq!((none.l2.lines, none.l2.reached, none.l2.fullest), (0, 0, 0));
}
