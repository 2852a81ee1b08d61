use super::*;
use crate::fake_cpu::FakeCpu;
use linemate_recording::{GuestAddr, Parameter};

const OBJECT: u64 = 0xffff_8880_0123_4000;
const STACK: u64 = 0xffff_c900_0001_0000;
const CALLER: u64 = 0xffff_ffff_8123_4567;

fn function(role: Role, returns: bool, parameters: &[(Register, Meaning)]) -> Function {
    Function {
        entry: GuestAddr(0xffff_ffff_8100_0000),
        size: 0x40,
        name: "f".into(),
        role,
        returns,
        parameters: parameters
            .iter()
            .map(|(register, meaning)| Parameter {
                register: *register,
                meaning: *meaning,
            })
            .collect(),
    }
}

fn fake(arguments: [u64; 6], result: u64) -> FakeCpu {
    let mut cpu = FakeCpu {
        arguments,
        stack: STACK,
        result,
        ..FakeCpu::default()
    };
    for (at, word) in [(STACK, CALLER), (0x1000, OBJECT), (0x1008, OBJECT + 64)] {
        cpu.put(at, &word.to_le_bytes());
    }
    cpu
}

fn call(values: &[Option<u64>], caller: u64) -> WatchedEvent {
    let mut all = [None; MAX_PARAMETERS];
    all[..values.len()].copy_from_slice(values);
    WatchedEvent::Call(Entered {
        function: FunctionId(3),
        stack: STACK,
        caller,
        values: all,
    })
}

fn ret(value: u64) -> WatchedEvent {
    WatchedEvent::Return(Left {
        function: FunctionId(3),
        stack: STACK,
        value,
    })
}

fn run(function: &Function, state: &FakeCpu) -> (Vec<WatchedEvent>, Vec<WatchedEvent>) {
    let (mut calls, mut entered, mut left) = (Calls::default(), Vec::new(), Vec::new());
    let watched = Watched::new(FunctionId(3), function);
    calls.enter(&watched, state, &mut |r| entered.push(r));
    calls.leave(&watched, state, &mut |r| left.push(r));
    assert!(calls.waiting.is_empty());
    (entered, left)
}

#[test]
fn an_object_in_a_slot_is_what_is_returned() {
    let parameters = [(Register::Rdi, Meaning::ObjectSlot)];
    let mut function = function(Role::HeapAlloc, true, &parameters);
    function.entry = GuestAddr(0x4000);
    let watched = Watched::new(FunctionId(3), &function);
    for (result, value) in [(0, OBJECT), (12, 0), (0xdead_0000_0000, OBJECT)] {
        let (mut calls, mut left) = (Calls::default(), Vec::new());
        let mut state = fake([0x1000, 0, 0, 0, 0, 0], result);
        calls.enter(&watched, &state, &mut |_| ());
        calls.back(&state, &mut |r| left.push(r));
        assert_eq!(left, [], "the call has not returned");
        state.stack += 8;
        calls.back(&state, &mut |r| left.push(r));
        calls.back(&state, &mut |r| left.push(r));
        let returned = WatchedEvent::Return(Left {
            function: FunctionId(3),
            stack: STACK,
            value,
        });
        assert_eq!(left, [returned], "{result}");
    }
}

/// Two processes, one forked by the other, call from the same place.
#[test]
fn a_process_returns_from_its_own_calls() {
    let parameters = [(Register::Rdi, Meaning::Size)];
    let mut function = function(Role::HeapAlloc, true, &parameters);
    function.entry = GuestAddr(0x4000);
    let watched = Watched::new(FunctionId(3), &function);
    let (mut calls, mut left) = (Calls::default(), Vec::new());
    let process = |tables, result| FakeCpu {
        tables,
        ..fake([48, 0, 0, 0, 0, 0], result)
    };
    // The lower bits are not part of the address.
    let (parent, child) = (process(0x7001, 0x5000), process(0x9002, 0x6000));
    calls.enter(&watched, &parent, &mut |_| ());
    calls.enter(&watched, &child, &mut |_| ());
    for state in [child, parent] {
        let back = FakeCpu {
            stack: STACK + 8,
            tables: state.tables & !0xfff,
            ..state
        };
        calls.back(&back, &mut |r| left.push(r));
    }
    assert_eq!(left, [ret(0x6000), ret(0x5000)]);
}

#[test]
fn a_function_that_is_jumped_to_returns_for_both() {
    let mut function = function(Role::HeapAlloc, true, &[(Register::Rdi, Meaning::Size)]);
    function.entry = GuestAddr(0x4000);
    let [outer, inner] = [2, 3].map(|id| Watched::new(FunctionId(id), &function));
    let (mut calls, mut left) = (Calls::default(), Vec::new());
    let mut state = fake([48, 0, 0, 0, 0, 0], 0x5000);
    calls.enter(&outer, &state, &mut |_| ());
    calls.enter(&inner, &state, &mut |_| ());
    state.stack += 8;
    calls.back(&state, &mut |r| left.push(r));
    assert_eq!(left, [ret(0x5000)]);
    assert!(calls.waiting.is_empty());
}

#[test]
fn a_programs_pointers_are_in_the_lower_half() {
    let parameters = [(Register::Rdi, Meaning::StructPointer(0))];
    let mut function = function(Role::Plain, false, &parameters);
    function.entry = GuestAddr(0x4000);
    for (pointer, seen) in [(0x5555_0000, true), (0xff, false), (OBJECT, false)] {
        let (entered, _) = run(&function, &fake([pointer, 0, 0, 0, 0, 0], 0));
        assert_eq!(!entered.is_empty(), seen, "{pointer:#x}");
    }
}

#[test]
fn what_cannot_be_a_pointer_is_none_and_a_call_without_sightings_is_dropped() {
    use Register::{Rdi, Rsi};
    let f = function(
        Role::Plain,
        false,
        &[
            (Rdi, Meaning::StructPointer(1)),
            (Rsi, Meaning::StructPointer(2)),
        ],
    );
    let (entered, _) = run(&f, &fake([OBJECT, 5, 0, 0, 0, 0], 0));
    assert_eq!(entered, [call(&[Some(OBJECT), None], 0)]);
    // A null, a user address and an error code: not sightings.
    for value in [0, 0x7fff_0000_0000, u64::MAX - 11, 0x8000_0000_0000_0000] {
        assert_eq!(run(&f, &fake([value; 6], 0)).0, []);
    }
}

#[test]
fn every_call_of_an_event_is_reported() {
    let pointer = [(Register::Rdi, Meaning::StructPointer(1))];
    let f = function(Role::Event, false, &pointer);
    assert_eq!(run(&f, &fake([0; 6], 0)).0, [call(&[None], 0)]);
    let of_numbers = function(Role::Event, false, &[]);
    assert_eq!(run(&of_numbers, &fake([0; 6], 0)).0, [call(&[], 0)]);
}

#[test]
fn an_allocation_has_its_caller_and_its_value() {
    use Register::{Rdi, Rsi};
    let f = function(
        Role::HeapAlloc,
        true,
        &[(Rdi, Meaning::Cache), (Rsi, Meaning::Size)],
    );
    let (entered, left) = run(&f, &fake([OBJECT, 96, 0, 0, 0, 0], OBJECT + 128));
    assert_eq!(entered, [call(&[Some(OBJECT), Some(96)], CALLER)]);
    assert_eq!(left, [ret(OBJECT + 128)]);
}

#[test]
fn a_bulk_allocation_is_a_call_and_a_return_per_object() {
    use Register::{Rcx, Rdi, Rdx};
    let f = function(
        Role::HeapAlloc,
        true,
        &[
            (Rdi, Meaning::Cache),
            (Rdx, Meaning::Count),
            (Rcx, Meaning::ObjectArray),
        ],
    );
    let (entered, left) = run(&f, &fake([OBJECT, 0, 2, 0x1000, 0, 0], 2));
    let one = || call(&[Some(OBJECT), Some(2), Some(0x1000)], CALLER);
    assert_eq!(entered, []);
    assert_eq!(left, [one(), ret(OBJECT), one(), ret(OBJECT + 64)]);
    // It failed: nothing was allocated.
    assert_eq!(run(&f, &fake([OBJECT, 0, 2, 0x1000, 0, 0], 0)).1, []);
}

#[test]
fn a_bulk_free_is_a_call_per_object() {
    use Register::{Rdi, Rdx, Rsi};
    let f = function(
        Role::HeapFree,
        false,
        &[
            (Rdi, Meaning::Cache),
            (Rsi, Meaning::Count),
            (Rdx, Meaning::ObjectArray),
        ],
    );
    let (entered, _) = run(&f, &fake([OBJECT, 2, 0x1000, 0, 0, 0], 0));
    assert_eq!(
        entered,
        [
            call(&[Some(OBJECT), Some(2), Some(OBJECT)], 0),
            call(&[Some(OBJECT), Some(2), Some(OBJECT + 64)], 0),
        ]
    );
}

#[test]
fn allocated_pages_are_reported_with_their_order() {
    let f = function(Role::PageAlloc, true, &[(Register::Rsi, Meaning::Order)]);
    let page = 0xffff_ea00_0000_0000 + 3 * 64;
    let (_, left) = run(&f, &fake([0, 2, 0, 0, 0, 0], page));
    assert_eq!(left, [WatchedEvent::Pages { page, order: 2 }, ret(page)]);
    assert_eq!(
        page_range(0xffff_ea00_0000_0000, page, 2),
        Some(0x3000..0x7000)
    );
    assert_eq!(page_range(0xffff_ea00_0000_0000, 5, 2), None);
}

#[test]
fn entries_and_returns_are_found_by_address() {
    let table = FunctionTable {
        functions: vec![
            function(Role::Plain, false, &[]),
            Function {
                entry: GuestAddr(0xffff_ffff_8100_1000),
                ..function(Role::HeapAlloc, true, &[])
            },
        ],
    };
    let watch = WatchTable::new(table, vec![0xffff_ffff_8200_0000]);
    let entered = watch.entry(0xffff_ffff_8100_1000).map(|watched| watched.id);
    assert_eq!(entered, Some(FunctionId(1)));
    assert_eq!(watch.entry(0xffff_ffff_8100_1001), None);
    let from = |pc, flow| watch.return_from(pc, flow).map(|watched| watched.id);
    assert_eq!(
        from(0xffff_ffff_8100_103f, ExitKind::Return),
        Some(FunctionId(1))
    );
    assert_eq!(from(0xffff_ffff_8100_1040, ExitKind::Return), None);
    assert_eq!(
        from(0xffff_ffff_8100_0010, ExitKind::Return),
        None,
        "its returns are not wanted"
    );
    let thunk = ExitKind::Jump(0xffff_ffff_8200_0000);
    assert_eq!(from(0xffff_ffff_8100_1004, thunk), Some(FunctionId(1)));
    assert_eq!(
        from(0xffff_ffff_8100_1004, ExitKind::Jump(0xffff_ffff_8200_0001)),
        None
    );
    assert_eq!(from(0xffff_ffff_8100_1004, ExitKind::Other), None);
}
