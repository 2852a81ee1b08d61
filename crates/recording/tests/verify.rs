//! `verify` on sound and on broken recordings: exactly these findings.
//!
//! Long because each invariant has its own broken recording.

#![allow(clippy::unwrap_used, reason = "a set-up that fails fails the test")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use linemate_recording::*;
use xxhash_rust::xxh3::xxh3_64;

const KERNEL: u64 = 0xffff_ffff_8100_0000;
const HEAP: u64 = 0xffff_8880_0000_0000;
const STACK: u64 = 0xffff_c900_0000_3f00;

const PLAIN: u32 = 0;
const KMALLOC: u32 = 1;
const KFREE: u32 = 2;
const FREE_BULK: u32 = 3;
const ALLOC_BULK: u32 = 4;
const CACHE_FREE: u32 = 5;

fn functions() -> FunctionTable {
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

fn values(first: &[u64]) -> [Option<u64>; MAX_PARAMETERS] {
    std::array::from_fn(|i| first.get(i).copied())
}

fn call(time: u64, function: u32, stack: u64, first: &[u64]) -> Event {
    Event::Call(Call {
        time: VirtualTime(time),
        cpu: CpuId(0),
        function: FunctionId(function),
        stack: GuestAddr(stack),
        caller: GuestAddr(KERNEL),
        values: values(first),
    })
}

fn ret(time: u64, function: u32, stack: u64, value: u64) -> Event {
    Event::Return(Return {
        time: VirtualTime(time),
        cpu: CpuId(0),
        function: FunctionId(function),
        stack: GuestAddr(stack),
        value,
    })
}

fn access_on(cpu: u16, time: u64, instruction: u64, kind: AccessKind) -> Event {
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

fn access(time: u64, instruction: u64, kind: AccessKind) -> Event {
    access_on(0, time, instruction, kind)
}

fn mark(time: u64, mark: Mark) -> Event {
    Event::Marker(Marker {
        time: VirtualTime(time),
        cpu: CpuId(0),
        mark,
        guest_ns: 0,
    })
}

fn encode(lane: u32, events: &[Event]) -> RawChunk {
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
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
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

fn metadata() -> Metadata {
    Metadata::from([
        ("kernel".into(), "6.12".into()),
        ("mode".into(), "deterministic".into()),
    ])
}

/// The bytes of a recording that `write` fills between its metadata and its end.
fn recording_of(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let scratch = Scratch::new();
    let mut writer = Writer::create(&scratch.0, "1.0", &metadata()).unwrap();
    write(&mut writer);
    writer.finish().unwrap();
    std::fs::read(&scratch.0).unwrap()
}

fn pcs() -> Vec<GuestAddr> {
    (0..16).map(|i| GuestAddr(KERNEL + i)).collect()
}

/// A recording with a chunk of every kind, two of events.
fn sound() -> Vec<u8> {
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
fn with_events(events: &[Event]) -> Vec<u8> {
    recording_of(|writer| {
        writer.functions(&functions()).unwrap();
        writer.instructions(&pcs()).unwrap();
        writer.events(&encode(0, events)).unwrap();
    })
}

fn findings(bytes: Vec<u8>) -> Vec<String> {
    verify(bytes)
        .unwrap()
        .findings
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// Start, length (header included) and kind of each chunk: a reader that shares no code with the crate.
fn chunks(bytes: &[u8]) -> Vec<(usize, usize, String)> {
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let mut at = 16 + u32_at(12);
    let mut chunks = Vec::new();
    while at < bytes.len() {
        let length = 32 + u32_at(at + 8);
        let kind = String::from_utf8(bytes[at..at + 4].to_vec()).unwrap();
        chunks.push((at, length, kind.trim().to_owned()));
        at += length;
    }
    chunks
}

/// Makes a chunk's checksum right again after its bytes were changed.
fn fix_checksum(bytes: &mut [u8], start: usize, length: usize) {
    let mut covered = bytes[start..start + 24].to_vec();
    covered.extend_from_slice(&bytes[start + 32..start + length]);
    bytes[start + 24..start + 32].copy_from_slice(&xxh3_64(&covered).to_le_bytes());
}

#[test]
fn a_sound_recording_has_no_findings() {
    let bytes = sound();
    let kinds: Vec<String> = chunks(&bytes)
        .into_iter()
        .map(|(_, _, kind)| kind)
        .collect();
    let all = [
        "META", "BTF", "SYMS", "FUNC", "INST", "EVTS", "EVTS", "IMAG", "END",
    ];
    assert_eq!(kinds, all);
    let report = verify(bytes.clone()).unwrap();
    assert!(report.is_sound(), "{report}");
    let totals = Totals {
        loads: 1,
        stores: 1,
        rmws: 1,
        calls: 3,
        returns: 1,
        markers: 2,
    };
    assert_eq!((report.chunks, report.totals), (9, totals));
    let recording = Recording::from_source(bytes).unwrap();
    assert_eq!(recording.checksum(), Some(report.checksum));
    assert_eq!(recording.tool(), "1.0");
    assert_eq!(recording.metadata(), &metadata());
    assert_eq!(recording.totals(), totals);
    assert_eq!(recording.btf().unwrap(), b"types");
    assert_eq!(recording.symbols().unwrap(), b"ffffffff81000000 T _text");
    assert_eq!(recording.functions(), &functions());
    assert_eq!(recording.instructions(), pcs());
    let images = recording.images().unwrap();
    assert_eq!(images.len(), 1);
    let image = &images[0];
    assert_eq!(
        (image.moment, image.addr, image.length),
        (Moment::Start, GuestAddr(HEAP), 100)
    );
    assert_eq!(recording.image(image).unwrap(), [1; 100]);
}

#[test]
fn a_flipped_bit_is_found_in_every_chunk_and_every_byte() {
    let bytes = sound();
    for (number, (start, length, kind)) in chunks(&bytes).into_iter().enumerate() {
        // In the payload and in the checksum; the fields before them decide where the next chunk is.
        for at in start + 24..start + length {
            let mut broken = bytes.clone();
            broken[at] ^= 1 << (at % 8);
            let found = findings(broken);
            let expected = format!("checksum of chunk {number} ({kind}) at byte {start} is ");
            assert!(found[0].starts_with(&expected), "byte {at}: {found:?}");
        }
    }
}

/// The findings after the last bit of chunk `number` was changed, without the first, which is the checksum's.
fn findings_without(number: usize) -> Vec<String> {
    let mut bytes = sound();
    let (start, length, kind) = chunks(&bytes)[number].clone();
    bytes[start + length - 1] ^= 0x80;
    let mut found = findings(bytes);
    let checksum = found.remove(0);
    let expected = format!("checksum of chunk {number} ({kind}) at byte {start} is ");
    assert!(checksum.starts_with(&expected), "{checksum}");
    found
}

#[test]
fn what_cannot_be_read_is_not_used() {
    for harmless in [0, 1, 2, 7, 8] {
        assert_eq!(
            findings_without(harmless),
            Vec::<String>::new(),
            "chunk {harmless}"
        );
    }
    assert_eq!(
        findings_without(3),
        [
            "time 4: function 1 is not in the table of 0",
            "time 5: function 0 is not in the table of 0",
            "time 6: function 1 is not in the table of 0",
            "time 8: function 2 is not in the table of 0",
        ]
    );
    let all = chunks(&sound());
    assert_eq!(
        findings_without(4),
        [
            "chunk 5 uses 3 instructions, 0 are known before it".to_owned(),
            format!(
                "chunk 5 (EVTS) at byte {}: instruction 1 is used, 0 are known",
                all[5].0
            ),
            "chunk 6 uses 4 instructions, 0 are known before it".to_owned(),
            format!(
                "chunk 6 (EVTS) at byte {}: instruction 3 is used, 0 are known",
                all[6].0
            ),
            "the end promises 1 loads, 0 are there".to_owned(),
            "the end promises 1 stores, 0 are there".to_owned(),
            "the end promises 1 RMWs, 0 are there".to_owned(),
            "the end promises 3 calls, 0 are there".to_owned(),
            "the end promises 1 returns, 0 are there".to_owned(),
            "the end promises 2 markers, 1 are there".to_owned(),
            "recording started at 1 and was never stopped".to_owned(),
        ]
    );
    assert_eq!(
        findings_without(6),
        [
            "the end promises 1 stores, 0 are there",
            "the end promises 3 calls, 2 are there",
            "the end promises 2 markers, 1 are there",
            "recording started at 1 and was never stopped",
        ]
    );
}

#[test]
fn a_recording_cut_anywhere_says_so_and_keeps_its_whole_chunks() {
    let bytes = sound();
    let chunks = chunks(&bytes);
    let first = chunks[0].0;
    for length in 0..bytes.len() {
        let cut = bytes[..length].to_vec();
        let result = verify(cut.clone());
        if length < first {
            assert!(matches!(result, Err(Error::NotARecording)), "{length}");
            continue;
        }
        let whole = chunks
            .iter()
            .filter(|(start, size, _)| start + size <= length)
            .count();
        let end = chunks[..whole]
            .last()
            .map_or(first, |(start, size, _)| start + size);
        let accesses = [0, 0, 0, 0, 0, 0, 2, 3, 3][whole];
        let how = if end == length {
            "cut: it has no end".to_owned()
        } else {
            format!("cut inside the chunk at byte {end}")
        };
        let expected = format!("{how}; {whole} whole chunks with {accesses} accesses are readable");
        let mut found: Vec<_> = result
            .unwrap()
            .findings
            .iter()
            .map(ToString::to_string)
            .collect();
        if whole == 0 {
            assert_eq!(found.remove(0), "the first chunk is not META");
        }
        assert_eq!(found, [expected], "{length}");
        match Recording::from_source(cut) {
            Ok(recording) => {
                assert!(recording.is_cut());
                assert_eq!(recording.totals().accesses(), accesses);
                assert_eq!(recording.events().filter(Result::is_err).count(), 0);
            }
            Err(error) => assert_eq!(
                (whole, error.to_string().as_str()),
                (0, "the recording has no META chunk")
            ),
        }
    }
}

#[test]
fn swapped_chunks_are_found() {
    let bytes = sound();
    let all = chunks(&bytes);
    let ((a, a_length, _), (b, b_length, _)) = (all[5].clone(), all[6].clone());
    let mut swapped = bytes[..a].to_vec();
    swapped.extend_from_slice(&bytes[b..b + b_length]);
    swapped.extend_from_slice(&bytes[a..a + a_length]);
    swapped.extend_from_slice(&bytes[b + b_length..]);
    let found = findings(swapped);
    assert_eq!(
        found[0],
        format!("chunk 5 (EVTS) at byte {a}: chunk 6 is out of order")
    );
    assert_eq!(
        found[1],
        format!(
            "chunk 6 (EVTS) at byte {}: chunk 5 is out of order",
            a + b_length
        )
    );
    assert_eq!(found[2], "the end promises 1 loads, 0 are there");
    assert!(
        found
            .last()
            .unwrap()
            .starts_with("the chunks' checksum is ")
    );
    assert_eq!(found.len(), 2 + 6 + 1, "{found:?}");
}

#[test]
fn wrong_totals_are_found() {
    let bytes = sound();
    let (start, length, _) = chunks(&bytes).pop().unwrap();
    let stored = &bytes[start + 32..start + length];
    let compressed = bytes[start + 16] == 1;
    let mut payload = if compressed {
        zstd::bulk::decompress(stored, 1000).unwrap()
    } else {
        stored.to_vec()
    };
    assert_eq!(payload.len(), 6 * 8 + 4 + 8);
    payload[0] = 9; // loads
    payload[48] = 77; // chunks
    payload[52] ^= 1; // checksum
    let mut broken = bytes[..start + 32].to_vec();
    broken.extend_from_slice(&payload);
    broken[start + 8..start + 12].copy_from_slice(&60u32.to_le_bytes());
    broken[start + 16] = 0;
    fix_checksum(&mut broken, start, 32 + 60);
    let found = findings(broken);
    assert_eq!(found[0], "the end promises 77 chunks, 8 are there");
    assert_eq!(found[1], "the end promises 9 loads, 1 are there");
    assert!(
        found[2].starts_with("the chunks' checksum is "),
        "{found:?}"
    );
    assert_eq!(found.len(), 3);
}

#[test]
fn a_newer_recording_names_the_tool_that_wrote_it() {
    let mut bytes = sound();
    bytes[8] = 2;
    let error = verify(bytes).unwrap_err().to_string();
    assert_eq!(
        error,
        "recording format 2 is newer than this linemate reads (1); written by linemate 1.0: use that version or a later one"
    );
    let mut bytes = sound();
    bytes[8] = 0;
    assert!(matches!(verify(bytes), Err(Error::NotARecording)));
}

#[test]
fn bytes_behind_the_end_are_found() {
    let mut bytes = sound();
    bytes.extend_from_slice(b"more");
    assert_eq!(findings(bytes), ["4 bytes follow the end"]);
}

#[test]
fn bytes_that_are_no_chunk_cut_the_recording() {
    let mut bytes = sound();
    let (start, ..) = chunks(&bytes)[6];
    bytes[start] = b'?';
    assert_eq!(
        findings(bytes),
        [format!(
            "cut: no chunk at byte {start}; 6 whole chunks with 2 accesses are readable"
        )]
    );
}

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
        // Entered before the start: nothing is known of it.
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
    // What a bulk allocation returned is not known: it may have been this object.
    events.push(call(8, ALLOC_BULK, STACK, &[]));
    events.push(ret(9, ALLOC_BULK, STACK, 3));
    events.push(call(10, KFREE, STACK, &[object]));
    assert_eq!(
        findings(with_events(&events)),
        ["time 2: kfree frees 0xffff888000002000 a second time"]
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
    // The same object again: a wrapper and what it calls.
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
fn chunks_that_there_is_one_of_must_not_be_repeated() {
    let bytes = recording_of(|writer| {
        writer.btf(b"one").unwrap();
        writer.btf(b"two").unwrap();
    });
    assert_eq!(findings(bytes), ["chunk 2 is a second BTF chunk"]);
}

#[test]
fn images_of_one_moment_must_agree_where_they_overlap() {
    let bytes = recording_of(|writer| {
        writer
            .image(Moment::Start, GuestAddr(HEAP), &[0; 100])
            .unwrap();
        writer
            .image(Moment::Stop, GuestAddr(HEAP), &[1; 100])
            .unwrap();
        writer
            .image(Moment::Stop, GuestAddr(HEAP + 99), &[1; 101])
            .unwrap();
        writer
            .image(Moment::Stop, GuestAddr(HEAP + 199), &[2; 100])
            .unwrap();
    });
    assert_eq!(
        findings(bytes),
        ["chunk 4: the Stop image at 0xffff8880000000c7 differs from one that it overlaps"]
    );
}

#[test]
fn events_without_their_instructions_are_not_written() {
    let scratch = Scratch::new();
    let mut writer = Writer::create(&scratch.0, "1.0", &metadata()).unwrap();
    let chunk = encode(0, &[access(1, 5, AccessKind::Load)]);
    assert_eq!(
        writer.events(&chunk).unwrap_err().to_string(),
        "cannot write: the number of used instructions is 6, more than 0"
    );
    writer.instructions(&pcs()[..6]).unwrap();
    writer.events(&chunk).unwrap();
}

#[test]
fn an_interrupted_recording_can_be_appended_to() {
    let scratch = Scratch::new();
    let mut writer = Writer::create(&scratch.0, "1.0", &metadata()).unwrap();
    writer.instructions(&pcs()[..4]).unwrap();
    writer
        .events(&encode(0, &[access(1, 1, AccessKind::Load)]))
        .unwrap();
    drop(writer);
    // Half a chunk behind the whole ones.
    let mut bytes = std::fs::read(&scratch.0).unwrap();
    let whole = bytes.len();
    bytes.extend_from_slice(&sound()[19..60]);
    std::fs::write(&scratch.0, &bytes).unwrap();

    let mut writer = Writer::append(&scratch.0).unwrap();
    assert_eq!(writer.bytes(), whole as u64);
    writer.instructions(&pcs()[4..6]).unwrap();
    writer
        .events(&encode(0, &[access(2, 5, AccessKind::Store)]))
        .unwrap();
    let totals = writer.finish().unwrap();
    assert_eq!((totals.loads, totals.stores), (1, 1));
    let bytes = std::fs::read(&scratch.0).unwrap();
    assert_eq!(findings(bytes), Vec::<String>::new());
    assert!(matches!(Writer::append(&scratch.0), Err(Error::Finished)));
}

#[test]
fn many_findings_are_counted_and_not_kept() {
    let events: Vec<Event> = (0..1500)
        .map(|i| access(2000 - i, 1, AccessKind::Load))
        .collect();
    let report = verify(with_events(&events)).unwrap();
    assert_eq!((report.findings.len(), report.more), (MAX_FINDINGS, 499));
    assert!(report.to_string().ends_with("\n499 more findings\n"));
}
