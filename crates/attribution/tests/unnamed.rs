//! Synthetic recordings that leave out what names the kernel's memory.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use linemate_attribution::{Analysis, Bucket, Group, check};
use linemate_recording::{AccessKind, FunctionTable, Recording};
use linemate_testkit::world::*;

/// A recording of accesses everywhere, with this statement about the kernel's types; with or
/// without them in it.
fn recording(said: Option<&str>, with_types: bool) -> Recording {
    let mut w = World::new();
    for address in [
        TASK_SLAB,
        UNITS[0] + RQ,
        NOHZ + 8,
        COUNTER,
        KMALLOC_SLAB + 64,
    ] {
        w.load(0, address);
    }
    w.store(1, PAGES + 128);
    w.rmw(1, VMALLOC + 0x100);
    w.load(0, DEVICE + 0xf0);
    w.load(0, APIC + 0xb0);
    let page = DIRECT + 11 * 4096;
    w.access(0, AccessKind::Load, page, 8, F::WakeTask, true);
    w.load(0, page);
    let mut contents = Contents::new();
    if let Some(said) = said {
        let key = "kernel_types".to_owned();
        contents.metadata.insert(key, said.to_owned());
    }
    if !with_types {
        contents.btf = None;
        contents.functions = FunctionTable::default();
    }
    w.record_of(true, contents)
}

#[test]
fn what_is_the_kernels_is_one_line_and_counts_neither_as_unknown_nor_as_untyped() {
    // One that has types all the same does not use them.
    for with_types in [false, true] {
        let recording = recording(Some("off"), with_types);
        check(&recording).unwrap();
        let (buckets, names) = common::named(&recording);
        let expected = [
            (Bucket::Device, 2),
            (Bucket::UserMapping, 1),
            (Bucket::KernelUnnamed, 8),
        ];
        assert_eq!(buckets, expected);
        assert!(names.is_empty(), "{names:?}");
        let analysis = Analysis::new(&recording).unwrap();
        let counted = analysis.count().unwrap();
        let ledger = counted.tally.ledger();
        assert_eq!(ledger.of_group(Group::Unnamed), 8);
        assert_eq!(ledger.of_group(Group::Unknown), 0);
        assert_eq!((ledger.typed(), ledger.typable()), (0, 0));
        // Functions keep their names: those are symbols.
        assert!(analysis.symbols().address_of("wake_task").is_some());
        assert!(analysis.model().struct_named("task_struct").is_none());
    }
}

#[test]
fn a_recording_that_does_not_say_so_needs_its_types() {
    for said in [None, Some("on")] {
        assert!(Analysis::new(&recording(said, false)).is_err());
        let (buckets, _) = common::named(&recording(said, true));
        assert!(buckets.iter().all(|(b, _)| *b != Bucket::KernelUnnamed));
        assert!(buckets.len() > 6, "{buckets:?}");
    }
}
