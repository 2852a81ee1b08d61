//! `verify` on recordings with impossible events: exactly these findings.

#![allow(clippy::unwrap_used, reason = "a set-up that fails fails the test")]

mod made_up;

use linemate_recording::*;
use made_up::*;

#[test]
fn time_must_not_run_backwards() {
    let bytes = with_events(&[
        access(10, 1, AccessKind::Load),
        access(9, 2, AccessKind::Load),
    ]);
    assert_eq!(
        findings(bytes),
        ["chunk 3: time goes back from 10 to 9 on CPU 0"]
    );
    let other_cpu = [
        access(10, 1, AccessKind::Load),
        access_on(1, 9, 2, AccessKind::Load),
    ];
    assert_eq!(
        findings(with_events(&other_cpu)),
        ["chunk 3: time goes back from 10 to 9 on CPU 1"]
    );
}

#[test]
fn lanes_have_clocks_of_their_own() {
    let two = |cpu, time| {
        recording_of(|writer| {
            writer.instructions(&pcs()).unwrap();
            writer
                .events(&encode(0, &[access_on(0, 10, 1, AccessKind::Load)]))
                .unwrap();
            writer
                .events(&encode(1, &[access_on(cpu, time, 1, AccessKind::Load)]))
                .unwrap();
        })
    };
    assert_eq!(findings(two(1, 5)), Vec::<String>::new());
    assert_eq!(findings(two(0, 10)), ["CPU 0 is in lane 0 and in lane 1"]);
}

#[test]
fn instructions_must_be_either_atomic_or_plain_stores() {
    let events = [
        access(1, 4, AccessKind::Rmw),
        access(2, 4, AccessKind::Load),
        access(3, 4, AccessKind::Store),
        access(4, 4, AccessKind::Store),
    ];
    assert_eq!(
        findings(with_events(&events)),
        ["instruction 0xffffffff81000004 makes both RMWs and plain stores (time 3)"]
    );
}

#[test]
fn returns_need_their_calls() {
    let object = HEAP + 0x1000;
    let events = [
        // Entered before the start: nothing is known about it.
        ret(1, KMALLOC, STACK - 8, object),
        call(2, KMALLOC, STACK, &[8]),
        ret(3, ALLOC_BULK, STACK, object),
        call(4, KMALLOC, STACK, &[8]),
        ret(5, KMALLOC, STACK, object),
        ret(6, KMALLOC, STACK, object),
        ret(7, PLAIN, STACK, 0),
    ];
    assert_eq!(
        findings(with_events(&events)),
        [
            "time 3: return of alloc_bulk with stack pointer 0xffffc90000003f00 has no call",
            "time 6: return of kmalloc with stack pointer 0xffffc90000003f00 has no call",
            "time 7: a return of plain, which the table does not ask for",
        ]
    );
}

#[test]
fn a_jump_to_another_function_is_no_missing_return() {
    let events = [
        call(1, KMALLOC, STACK, &[8]),
        call(2, ALLOC_BULK, STACK, &[]),
        ret(3, ALLOC_BULK, STACK, 5),
        call(4, KMALLOC, STACK, &[8]),
        ret(5, KMALLOC, STACK, HEAP),
    ];
    assert_eq!(findings(with_events(&events)), Vec::<String>::new());
}

#[test]
fn functions_must_be_in_the_table() {
    let events = [
        call(1, 6, STACK, &[]),
        ret(2, 9, STACK, 0),
        call(3, PLAIN, STACK, &[1, 2]),
    ];
    assert_eq!(
        findings(with_events(&events)),
        [
            "time 1: function 6 is not in the table of 6",
            "time 2: function 9 is not in the table of 6",
            "time 3: a call of plain has 2 values, the table lists 1",
        ]
    );
}

/// `kmalloc(size)` that returns `object`, from `time` to `time` + 1.
fn kmalloc(time: u64, size: u64, object: u64) -> [Event; 2] {
    [
        call(time, KMALLOC, STACK, &[size]),
        ret(time + 1, KMALLOC, STACK, object),
    ]
}

#[test]
fn an_object_must_not_be_freed_twice() {
    let object = HEAP + 0x2000;
    let mut events = vec![call(1, KFREE, STACK, &[object])];
    events.push(call(2, KFREE, STACK, &[object]));
    events.extend(kmalloc(3, 8, object));
    events.push(call(5, KFREE, STACK, &[object]));
    // A wrapper's free of the same object, and frees of nothing.
    events.push(call(6, CACHE_FREE, STACK, &[0, object]));
    for nothing in [0, 16, u64::MAX - 10] {
        events.push(call(7, KFREE, STACK, &[nothing]));
        events.push(call(7, KFREE, STACK, &[nothing]));
    }
    // What a bulk allocation returned is unknown: it may have been this object.
    events.push(call(8, ALLOC_BULK, STACK, &[]));
    events.push(ret(9, ALLOC_BULK, STACK, 3));
    events.push(call(10, KFREE, STACK, &[object]));
    assert_eq!(
        findings(with_events(&events)),
        ["time 2: kfree frees 0xffff888000002000 a second time"]
    );
}

#[test]
fn another_objects_allocation_does_not_excuse_a_second_free() {
    let object = HEAP + 0x2000;
    let mut events = vec![call(1, KFREE, STACK, &[object])];
    events.extend(kmalloc(2, 8, object + 8));
    events.push(call(4, KFREE, STACK, &[object]));
    assert_eq!(
        findings(with_events(&events)),
        ["time 4: kfree frees 0xffff888000002000 a second time"]
    );
}

#[test]
fn live_objects_must_not_overlap() {
    let mut events = Vec::new();
    events.extend(kmalloc(1, 64, HEAP));
    events.extend(kmalloc(3, 64, HEAP + 64));
    events.extend(kmalloc(5, 1, HEAP + 63));
    events.push(call(7, KFREE, STACK, &[HEAP + 64]));
    events.push(call(7, KFREE, STACK, &[HEAP + 63]));
    events.extend(kmalloc(8, 32, HEAP + 96));
    // The same object again: a wrapper and its callee.
    events.extend(kmalloc(10, 64, HEAP));
    events.extend(kmalloc(12, 200, HEAP - 100));
    assert_eq!(
        findings(with_events(&events)),
        [
            "time 6: new object 0xffff88800000003f of 1 bytes overlaps the live one at 0xffff888000000000 of 64 bytes",
            "time 13: new object 0xffff887fffffff9c of 200 bytes overlaps the live one at 0xffff888000000060 of 32 bytes",
        ]
    );
    let mut events = Vec::new();
    events.extend(kmalloc(1, 64, HEAP));
    events.push(call(3, FREE_BULK, STACK, &[]));
    events.extend(kmalloc(4, 64, HEAP + 32));
    assert_eq!(findings(with_events(&events)), Vec::<String>::new());
}

#[test]
fn events_lie_between_start_and_stop() {
    let events = [
        access(1, 1, AccessKind::Load),
        mark(2, Mark::Start),
        mark(3, Mark::Stop),
        access(4, 1, AccessKind::Load),
    ];
    assert_eq!(
        findings(with_events(&events)),
        [
            "time 2: an event before the start",
            "time 4: an event after the stop"
        ]
    );
    assert_eq!(
        findings(with_events(&[mark(2, Mark::Start)])),
        ["recording started at 2 and was never stopped"]
    );
}

#[test]
fn a_whole_boot_has_events_before_the_start() {
    let events = [
        access(1, 1, AccessKind::Load),
        mark(2, Mark::Start),
        mark(3, Mark::Stop),
    ];
    let mut whole_boot = metadata();
    whole_boot.insert("whole_boot".into(), "on".into());
    let bytes = recording_with(&whole_boot, |writer| {
        writer.functions(&functions()).unwrap();
        writer.instructions(&pcs()).unwrap();
        writer.events(&encode(0, &events)).unwrap();
    });
    assert_eq!(findings(bytes), Vec::<String>::new());
}
