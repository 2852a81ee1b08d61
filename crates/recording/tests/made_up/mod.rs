//! Small synthetic recordings for tests, sound ones and others.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use linemate_recording::*;
use xxhash_rust::xxh3::xxh3_64;

pub(crate) const KERNEL: u64 = 0xffff_ffff_8100_0000;
pub(crate) const HEAP: u64 = 0xffff_8880_0000_0000;
pub(crate) const STACK: u64 = 0xffff_c900_0000_3f00;

pub(crate) const PLAIN: u32 = 0;
pub(crate) const KMALLOC: u32 = 1;
pub(crate) const KFREE: u32 = 2;
pub(crate) const FREE_BULK: u32 = 3;
pub(crate) const ALLOC_BULK: u32 = 4;
pub(crate) const CACHE_FREE: u32 = 5;

pub(crate) fn functions() -> FunctionTable {
    let parameter = |register, meaning| Parameter { register, meaning };
    let function = |i: u64, name: &str, role, returns, parameters| Function {
        entry: GuestAddr(KERNEL + 0x1000 + i * 0x100),
        size: 0x80,
        name: name.into(),
        role,
        returns,
        parameters,
    };
    use Meaning::{Cache, Object, ObjectArray, Size, StructPointer};
    FunctionTable {
        functions: vec![
            function(
                0,
                "plain",
                Role::Plain,
                false,
                vec![parameter(Register::Rdi, StructPointer(7))],
            ),
            function(
                1,
                "kmalloc",
                Role::HeapAlloc,
                true,
                vec![parameter(Register::Rdi, Size)],
            ),
            function(
                2,
                "kfree",
                Role::HeapFree,
                false,
                vec![parameter(Register::Rdi, Object)],
            ),
            function(
                3,
                "free_bulk",
                Role::HeapFree,
                false,
                vec![parameter(Register::Rdx, ObjectArray)],
            ),
            function(
                4,
                "alloc_bulk",
                Role::HeapAlloc,
                true,
                vec![parameter(Register::Rcx, ObjectArray)],
            ),
            function(
                5,
                "cache_free",
                Role::HeapFree,
                false,
                vec![
                    parameter(Register::Rdi, Cache),
                    parameter(Register::Rsi, Object),
                ],
            ),
        ],
    }
}

pub(crate) fn values(first: &[u64]) -> [Option<u64>; MAX_PARAMETERS] {
    std::array::from_fn(|i| first.get(i).copied())
}

pub(crate) fn call(time: u64, function: u32, stack: u64, first: &[u64]) -> Event {
    Event::Call(Call {
        time: VirtualTime(time),
        cpu: CpuId(0),
        function: FunctionId(function),
        stack: GuestAddr(stack),
        caller: GuestAddr(KERNEL),
        values: values(first),
    })
}

pub(crate) fn ret(time: u64, function: u32, stack: u64, value: u64) -> Event {
    Event::Return(Return {
        time: VirtualTime(time),
        cpu: CpuId(0),
        function: FunctionId(function),
        stack: GuestAddr(stack),
        value,
    })
}

pub(crate) fn access_on(cpu: u16, time: u64, instruction: u64, kind: AccessKind) -> Event {
    Event::Access(Access {
        time: VirtualTime(time),
        cpu: CpuId(cpu),
        pc: GuestAddr(KERNEL + instruction),
        addr: GuestAddr(HEAP + 8 * instruction),
        size: 8,
        kind,
        silent: false,
        user_mapping: false,
    })
}

pub(crate) fn access(time: u64, instruction: u64, kind: AccessKind) -> Event {
    access_on(0, time, instruction, kind)
}

pub(crate) fn mark(time: u64, mark: Mark) -> Event {
    Event::Marker(Marker {
        time: VirtualTime(time),
        cpu: CpuId(0),
        mark,
        value: 0,
    })
}

pub(crate) fn encode(lane: u32, events: &[Event]) -> RawChunk {
    let mut encoder = Encoder::new(LaneId(lane), 1000);
    for event in events {
        match event {
            Event::Access(a) => encoder.access(RawAccess {
                time: a.time,
                cpu: a.cpu,
                instruction: InstructionId((a.pc.0 - KERNEL) as u32),
                addr: a.addr,
                size_log2: a.size.trailing_zeros() as u8,
                kind: a.kind,
                silent: a.silent,
                user_mapping: a.user_mapping,
            }),
            Event::Call(call) => encoder.call(call),
            Event::Return(ret) => encoder.ret(ret),
            Event::Marker(marker) => encoder.marker(marker),
        }
    }
    encoder.take(RawChunk::default())
}

/// A file name of our own, removed at the end.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("linemate-verify-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub(crate) fn metadata() -> Metadata {
    Metadata::from([
        ("kernel".into(), "6.12".into()),
        ("mode".into(), "deterministic".into()),
    ])
}

/// The bytes of a recording that `write` fills between its metadata and its end.
pub(crate) fn recording_of(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    recording_with(&metadata(), write)
}

pub(crate) fn recording_with(metadata: &Metadata, write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let scratch = Scratch::new();
    let mut writer = Writer::create(&scratch.0, "1.0", metadata).unwrap();
    write(&mut writer);
    writer.finish().unwrap();
    std::fs::read(&scratch.0).unwrap()
}

pub(crate) fn pcs() -> Vec<GuestAddr> {
    (0..16).map(|i| GuestAddr(KERNEL + i)).collect()
}

/// A recording with a chunk of every kind, two of events.
pub(crate) fn sound() -> Vec<u8> {
    recording_of(|writer| {
        writer.btf(b"types").unwrap();
        writer.symbols(b"ffffffff81000000 T _text").unwrap();
        writer.functions(&functions()).unwrap();
        writer.instructions(&pcs()).unwrap();
        let first = [
            mark(1, Mark::Start),
            access(2, 1, AccessKind::Load),
            access_on(1, 3, 2, AccessKind::Rmw),
            call(4, KMALLOC, STACK, &[64]),
            call(5, PLAIN, STACK - 64, &[HEAP]),
            ret(6, KMALLOC, STACK, HEAP + 0x1000),
        ];
        writer.events(&encode(0, &first)).unwrap();
        let second = [
            access(7, 3, AccessKind::Store),
            call(8, KFREE, STACK, &[HEAP + 0x1000]),
            mark(9, Mark::Stop),
        ];
        writer.events(&encode(0, &second)).unwrap();
        writer
            .image(Moment::Start, GuestAddr(HEAP), &[1; 100])
            .unwrap();
    })
}

/// As [`recording_of`] with one chunk of these events.
pub(crate) fn with_events(events: &[Event]) -> Vec<u8> {
    recording_of(|writer| {
        writer.functions(&functions()).unwrap();
        writer.instructions(&pcs()).unwrap();
        writer.events(&encode(0, events)).unwrap();
    })
}

pub(crate) fn findings(bytes: Vec<u8>) -> Vec<String> {
    verify(bytes)
        .unwrap()
        .findings
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// Start, length (header included) and kind of each chunk: a reader that shares no code with the
/// crate.
pub(crate) fn chunks(bytes: &[u8]) -> Vec<(usize, usize, String)> {
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let mut at = 16 + u32_at(12) + 8;
    let mut chunks = Vec::new();
    while at < bytes.len() {
        let length = 32 + u32_at(at + 8);
        let kind = String::from_utf8(bytes[at..at + 4].to_vec()).unwrap();
        chunks.push((at, length, kind.trim().to_owned()));
        at += length;
    }
    chunks
}

/// Fixes a chunk's checksum after its bytes were changed.
pub(crate) fn fix_checksum(bytes: &mut [u8], start: usize, length: usize) {
    let mut covered = bytes[start..start + 24].to_vec();
    covered.extend_from_slice(&bytes[start + 32..start + length]);
    bytes[start + 24..start + 32].copy_from_slice(&xxh3_64(&covered).to_le_bytes());
}
