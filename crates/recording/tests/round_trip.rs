//! Whatever is encoded and written is read back, for any events.

#![allow(clippy::unwrap_used, reason = "a set-up that fails fails the test")]

use linemate_recording::{
    Access, AccessKind, BackgroundWriter, Call, CpuId, Decoder, Encoder, Event, FunctionId,
    GuestAddr, InstructionId, LaneId, Mark, Marker, Metadata, RawAccess, RawChunk, Recording,
    Return, VirtualTime, Visitor, Writer,
};
use proptest::prelude::*;
use proptest::test_runner::Config;

const INSTRUCTIONS: u32 = 5000;

fn pc(instruction: u32) -> GuestAddr {
    GuestAddr(0xffff_ffff_8100_0000 ^ u64::from(instruction).wrapping_mul(0x1_0000_0013))
}

/// An event and the number of its instruction, if it is an access.
type Given = (Event, u32);

fn encode(encoder: &mut Encoder, (event, instruction): &Given) {
    match event {
        Event::Access(access) => encoder.access(RawAccess {
            time: access.time,
            cpu: access.cpu,
            instruction: InstructionId(*instruction),
            addr: access.addr,
            size_log2: access.size.trailing_zeros() as u8,
            kind: access.kind,
            silent: access.silent,
            user_mapping: access.user_mapping,
        }),
        Event::Call(call) => encoder.call(call),
        Event::Return(ret) => encoder.ret(ret),
        Event::Marker(marker) => encoder.marker(marker),
    }
}

/// Writes the events in chunks of `per_chunk` and reads them back in both ways.
fn check(events: &[Given], per_chunk: u32) {
    let folder = tempfile();
    let path = folder.path().join("recording");
    let writer = Writer::create(&path, "1.2.3", &Metadata::new()).unwrap();
    let background = BackgroundWriter::start(writer, 2).unwrap();
    let lane = background.lane();
    lane.instructions((0..INSTRUCTIONS).map(pc).collect());
    let mut encoder = Encoder::new(LaneId(3), per_chunk);
    for event in events {
        encode(&mut encoder, event);
        if encoder.is_full() {
            // A spare chunk is returned; the one it is swapped for takes its place.
            let full = encoder.take(RawChunk::default());
            lane.events(full);
        }
    }
    lane.events(encoder.take(RawChunk::default()));
    background.stop().unwrap().finish().unwrap();

    let recording = Recording::open(&path).unwrap();
    assert!(recording.cut().is_none());
    let mut read = recording.events();
    for (i, (event, _)) in events.iter().enumerate() {
        assert_eq!(read.next().unwrap().unwrap(), *event, "event {i}");
    }
    assert!(read.next().is_none());

    let mut collected = Collect(Vec::new());
    let mut decoder = Decoder::new();
    for chunk in recording.chunks() {
        assert_eq!(chunk.summary.lane, LaneId(3));
        recording
            .visit(chunk, &mut decoder, &mut collected)
            .unwrap();
    }
    assert!(collected.0.iter().eq(events.iter().map(|(event, _)| event)));
}

struct Folder(std::path::PathBuf);

impl Folder {
    fn path(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn tempfile() -> Folder {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("linemate-round-trip-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&path).unwrap();
    Folder(path)
}

struct Collect(Vec<Event>);

impl Visitor for Collect {
    fn access(&mut self, access: &Access) {
        self.0.push(Event::Access(*access));
    }
    fn call(&mut self, call: &Call) {
        self.0.push(Event::Call(call.clone()));
    }
    fn ret(&mut self, ret: &Return) {
        self.0.push(Event::Return(*ret));
    }
    fn marker(&mut self, marker: &Marker) {
        self.0.push(Event::Marker(*marker));
    }
}

/// Numbers that are close together, far apart, or at the ends.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0u64..64).prop_map(|n| 0xffff_8880_0000_1000 + 8 * n),
        2 => (0u64..64).prop_map(|n| 0xffff_c900_0000_3f00 + 8 * n),
        1 => prop_oneof![Just(0), Just(1), Just(1 << 63), Just((1 << 63) - 1), Just(u64::MAX)],
        1 => any::<u64>(),
    ]
}

fn time() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0u64..600, 1 => number()]
}

fn cpu() -> impl Strategy<Value = u16> {
    prop_oneof![8 => 0u16..3, 1 => 0u16..300, 1 => Just(3000)]
}

fn kind() -> impl Strategy<Value = AccessKind> {
    prop_oneof![
        Just(AccessKind::Load),
        Just(AccessKind::Store),
        Just(AccessKind::Rmw)
    ]
}

fn access() -> impl Strategy<Value = Given> {
    let instruction = prop_oneof![8 => 0u32..6, 1 => 0..INSTRUCTIONS];
    let flags = (any::<bool>(), any::<bool>(), 0u32..7);
    (time(), cpu(), instruction, number(), kind(), flags).prop_map(
        |(time, cpu, instruction, addr, kind, (silent, user_mapping, size))| {
            let access = Access {
                time: VirtualTime(time),
                cpu: CpuId(cpu),
                pc: pc(instruction),
                addr: GuestAddr(addr),
                size: 1 << size,
                kind,
                silent,
                user_mapping,
            };
            (Event::Access(access), instruction)
        },
    )
}

fn function() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0u32..4, 1 => 0u32..2000]
}

fn call() -> impl Strategy<Value = Given> {
    let values = proptest::array::uniform6(proptest::option::of(number()));
    let caller = prop_oneof![Just(0), number()];
    (time(), cpu(), function(), number(), caller, values).prop_map(
        |(time, cpu, function, stack, caller, values)| {
            let call = Call {
                time: VirtualTime(time),
                cpu: CpuId(cpu),
                function: FunctionId(function),
                stack: GuestAddr(stack),
                caller: GuestAddr(caller),
                values,
            };
            (Event::Call(call), 0)
        },
    )
}

fn ret() -> impl Strategy<Value = Given> {
    (time(), cpu(), function(), number(), number()).prop_map(
        |(time, cpu, function, stack, value)| {
            let ret = Return {
                time: VirtualTime(time),
                cpu: CpuId(cpu),
                function: FunctionId(function),
                stack: GuestAddr(stack),
                value,
            };
            (Event::Return(ret), 0)
        },
    )
}

fn marker() -> impl Strategy<Value = Given> {
    let mark = prop_oneof![
        Just(Mark::Start),
        Just(Mark::Stop),
        Just(Mark::Idle),
        Just(Mark::Resume),
        Just(Mark::Turn),
        Just(Mark::Space),
        Just(Mark::Page)
    ];
    (time(), cpu(), mark, number()).prop_map(|(time, cpu, mark, value)| {
        let (time, cpu) = (VirtualTime(time), CpuId(cpu));
        (
            Event::Marker(Marker {
                time,
                cpu,
                mark,
                value,
            }),
            0,
        )
    })
}

fn event() -> impl Strategy<Value = Given> {
    prop_oneof![12 => access(), 3 => call(), 2 => ret(), 1 => marker()]
}

/// Streams with repetitions, so that predictions come true.
fn stream() -> impl Strategy<Value = Vec<Given>> {
    (proptest::collection::vec(event(), 1..60), 1usize..5).prop_map(|(events, times)| {
        events
            .iter()
            .cycle()
            .take(events.len() * times)
            .cloned()
            .collect()
    })
}

/// One after the other, they are read in batches.
#[test]
fn a_chunk_of_several_batches_survives() {
    let event = |i: u32| {
        let access = Access {
            time: VirtualTime(u64::from(3 * i)),
            cpu: CpuId((i / 100 % 2) as u16),
            pc: pc(i % 7),
            addr: GuestAddr(0xffff_8880_0000_1000 + 8 * u64::from(i * i % 64)),
            size: 8,
            kind: AccessKind::Load,
            silent: false,
            user_mapping: false,
        };
        (Event::Access(access), i % 7)
    };
    let events: Vec<Given> = (0..3000).map(event).collect();
    check(&events, 2000);
}

proptest! {
    #![proptest_config(Config { cases: 400, ..Config::default() })]

    #[test]
    fn any_stream_survives(events in stream(), per_chunk in 1u32..200) {
        check(&events, per_chunk);
    }
}
