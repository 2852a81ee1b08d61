//! Recordings: any bytes are read or refused without harm, whether as a file or as chunks with
//! right checksums; and events that are made from the bytes come back as they were.

#![no_main]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use libfuzzer_sys::fuzz_target;
use linemate_recording::format::{ChunkKind, MAGIC};
use linemate_recording::*;
use xxhash_rust::xxh3::xxh3_64;

fuzz_target!(|data: &[u8]| {
    read(data.to_vec());
    read(as_chunks(data));
    round_trip(data);
});

/// Reads all that there is; errors are fine.
fn read(bytes: Vec<u8>) {
    let report = verify(bytes.clone());
    let Ok(recording) = Recording::from_source(bytes) else {
        return;
    };
    let report = report.expect("what can be opened can be verified");
    let _ = (
        recording.btf(),
        recording.symbols(),
        recording.metadata(),
        recording.checksum(),
    );
    for (image, bytes) in recording.images().flatten() {
        assert_eq!(bytes.len() as u64, image.length);
    }
    let mut readable = 0;
    for event in recording.events() {
        match event {
            Ok(Event::Access(access)) => {
                assert!(access.size.is_power_of_two() && access.size <= 64);
                readable += 1;
            }
            Ok(_) => {}
            Err(_) => return,
        }
    }
    if report.is_sound() {
        assert_eq!(recording.totals().accesses(), readable);
    }
}

/// Takes the bytes as (kind, length, payload) and frames them rightly, so that what is inside the
/// chunks is reached.
fn as_chunks(mut data: &[u8]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    file.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
    let mut number = 0u32;
    while let [kind, raw @ ..] = data {
        let length = raw
            .first()
            .copied()
            .map_or(0, |n| 4 * usize::from(n))
            .min(raw.len());
        let (payload, rest) = raw.split_at(length);
        data = if length == 0 { &[] } else { rest };
        let payload = payload.get(1..).unwrap_or_default();
        let kind = ChunkKind::ALL[usize::from(*kind & 7)];
        let raw_length = match (kind, payload.get(56 + 16..)) {
            // The sum of the columns' lengths, which are in the directory behind the summary.
            (ChunkKind::Events, Some(directory)) => {
                directory.chunks_exact(8).take(9).fold(0u32, |sum, d| {
                    sum.wrapping_add(u32::from_le_bytes([d[0], d[1], d[2], d[3]]))
                })
            }
            _ => payload.len() as u32,
        };
        let mut header = kind.tag().to_vec();
        for field in [number, payload.len() as u32, raw_length, 0, 0] {
            header.extend_from_slice(&field.to_le_bytes());
        }
        header.extend_from_slice(payload);
        let checksum = xxh3_64(&header);
        file.extend_from_slice(&header[..24]);
        file.extend_from_slice(&checksum.to_le_bytes());
        file.extend_from_slice(payload);
        number += 1;
    }
    file
}

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("one thread").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Memory {
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.lock().expect("one thread").truncate(length as usize);
        Ok(())
    }
}

/// Numbers out of the fuzzer's bytes; zeros at the end.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    /// Mostly small steps from a kernel address, sometimes anything.
    fn number(&mut self) -> u64 {
        let byte = self.byte();
        if byte < 0xf0 {
            return 0xffff_8880_0000_0000 + 8 * u64::from(byte);
        }
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    fn event(&mut self, time: &mut u64) -> Event {
        let sort = self.byte();
        let step = self.byte();
        *time = time.wrapping_add(if step == 0xff {
            self.number()
        } else {
            step.into()
        });
        let (time, cpu) = (VirtualTime(*time), CpuId(u16::from(self.byte() >> 6) * 100));
        let function = FunctionId(u32::from(self.byte() & 31));
        match sort % 16 {
            0 | 1 => Event::Call(Call {
                time,
                cpu,
                function,
                stack: GuestAddr(self.number()),
                caller: GuestAddr(if sort & 16 == 0 { 0 } else { self.number() }),
                values: std::array::from_fn(|_| {
                    let there = self.byte();
                    (there & 1 == 0).then(|| self.number())
                }),
            }),
            2 => Event::Return(Return {
                time,
                cpu,
                function,
                stack: GuestAddr(self.number()),
                value: self.number(),
            }),
            3 => {
                let marks = [Mark::Start, Mark::Stop, Mark::Idle, Mark::Resume];
                let mark = marks[usize::from(sort >> 6)];
                Event::Marker(Marker {
                    time,
                    cpu,
                    mark,
                    value: self.number(),
                })
            }
            _ => Event::Access(Access {
                time,
                cpu,
                pc: GuestAddr(function.0.into()),
                addr: GuestAddr(self.number()),
                size: 1 << (sort >> 5).min(6),
                kind: [AccessKind::Load, AccessKind::Store, AccessKind::Rmw]
                    [usize::from(self.byte() % 3)],
                silent: sort & 16 != 0,
                user_mapping: step & 1 != 0,
            }),
        }
    }
}

fn round_trip(data: &[u8]) {
    // Compression is what takes the time: few chunks, not too large.
    let mut numbers = Numbers(&data[..data.len().min(2048)]);
    let per_chunk = 4 * u32::from(numbers.byte()) + 20;
    let memory = Memory::default();
    let mut writer = Writer::create_in(Box::new(memory.clone()), "fuzz", &Metadata::new())
        .expect("memory takes all");
    let pcs: Vec<GuestAddr> = (0..32).map(GuestAddr).collect();
    writer.instructions(&pcs).expect("memory takes all");
    let mut encoder = Encoder::new(LaneId(0), per_chunk);
    let (mut events, mut time, mut chunk) = (Vec::new(), 0, RawChunk::default());
    while !numbers.0.is_empty() {
        let event = numbers.event(&mut time);
        encode(&mut encoder, &event);
        events.push(event);
        if encoder.is_full() {
            chunk = encoder.take(chunk);
            writer.events(&chunk).expect("memory takes all");
        }
    }
    writer
        .events(&encoder.take(chunk))
        .expect("memory takes all");
    writer.finish().expect("memory takes all");
    let bytes = memory.0.lock().expect("one thread").clone();
    let recording = Recording::from_source(bytes).expect("what was written can be read");
    assert!(recording.cut().is_none());
    let read: Vec<Event> = recording
        .events()
        .map(|event| event.expect("what was written can be read"))
        .collect();
    assert_eq!(read, events);
}

fn encode(encoder: &mut Encoder, event: &Event) {
    match event {
        Event::Access(a) => encoder.access(RawAccess {
            time: a.time,
            cpu: a.cpu,
            instruction: InstructionId(a.pc.0 as u32),
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
