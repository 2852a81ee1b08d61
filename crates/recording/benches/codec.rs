//! How fast events are encoded, written and decoded, and how many bytes an access takes.
//!
//! `cargo bench -p linemate-recording [-- RECORDING]` measures on the accesses and calls of a
//! recording if given one (the first 40 million), else on a synthetic stream shaped like a
//! kernel's: 8 CPUs in slices of 55 accesses, 3000 routines of 4 to 40 accesses to the stack, to
//! objects, per-CPU data and globals, an occasional skipped branch, a call event with two struct
//! pointers at every second routine. Every line of the output is a name, a value and a unit.

use std::error::Error;
use std::io::{Write, stdout};
use std::path::Path;
use std::time::Instant;

use linemate_recording::{
    Access, AccessKind, BackgroundWriter, Call, CpuId, Decoder, Encoder, Event, FunctionId,
    GuestAddr, InstructionId, LaneId, Marker, Metadata, RawAccess, RawChunk, Recording, Return,
    VirtualTime, Visitor, Writer,
};

const EVENTS_PER_CHUNK: u32 = 3 << 20;
const LIMIT: usize = 40_000_000;
/// Encoding alone is measured this many times; the fastest counts, because other programs can only
/// slow it down.
const ROUNDS: usize = 3;

/// The input: accesses as the recorder passes them, everything else as events.
enum Input {
    Access(RawAccess),
    Other(Box<Event>),
}

/// A small generator of pseudo-random numbers (SplitMix64), always with the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

#[derive(Clone, Copy)]
enum AccessPlace {
    Stack(u64),
    Object(u64),
    PerCpu(u64),
    Global(u64),
}

struct Site {
    place: AccessPlace,
    kind: AccessKind,
    size_log2: u8,
    gap: u64,
}

fn routine(random: &mut Random) -> Vec<Site> {
    (0..4 + random.below(36))
        .map(|_| Site {
            place: match random.below(10) {
                0..4 => AccessPlace::Stack(8 * random.below(16)),
                4..8 => AccessPlace::Object(8 * random.below(40)),
                8 => AccessPlace::PerCpu(0x2_0000 + 8 * random.below(4000)),
                _ => AccessPlace::Global(0xffff_ffff_8200_0000 + 8 * random.below(20_000)),
            },
            kind: match random.below(40) {
                0 => AccessKind::Rmw,
                1..14 => AccessKind::Store,
                _ => AccessKind::Load,
            },
            size_log2: 3 - (random.below(4) == 0) as u8,
            gap: 1 + random.below(6),
        })
        .collect()
}

/// The synthetic stream, and the addresses of its instructions.
fn synthetic(length: usize) -> (Vec<Input>, Vec<GuestAddr>) {
    let mut random = Random(42);
    let routines: Vec<Vec<Site>> = (0..3000).map(|_| routine(&mut random)).collect();
    let starts: Vec<u32> = routines
        .iter()
        .scan(0, |sum, sites| {
            let start = *sum;
            *sum += sites.len() as u32;
            Some(start)
        })
        .collect();
    let total: usize = routines.iter().map(Vec::len).sum();
    let pcs = (0..total as u64)
        .map(|i| GuestAddr(0xffff_ffff_8100_0000 + 9 * i))
        .collect();
    let mut input = Vec::with_capacity(length + 64);
    let (mut time, mut cpu) = (0, 0u16);
    while input.len() < length {
        cpu = (cpu + 1) % 8;
        let slice_end = input.len() + 55;
        while input.len() < slice_end {
            // Some routines are much hotter than others.
            let heat = random.below(3000) + 1;
            let number = random.below(heat) as usize;
            let object = |n: u64| 0xffff_8880_0400_0000 + 512 * n;
            let object_heat = random.below(5000) + 1;
            let this = object(random.below(object_heat));
            let stack = 0xffff_c900_0000_3000 + 0x4000 * u64::from(cpu) + 64 * random.below(12);
            if number % 2 == 0 {
                time += 2;
                let values = [
                    Some(this),
                    Some(object(number as u64)),
                    None,
                    None,
                    None,
                    None,
                ];
                input.push(Input::Other(Box::new(Event::Call(Call {
                    time: VirtualTime(time),
                    cpu: CpuId(cpu),
                    function: FunctionId(number as u32),
                    stack: GuestAddr(stack),
                    caller: GuestAddr(0),
                    values,
                }))));
            }
            let mut skip = 0;
            for (i, site) in routines[number].iter().enumerate() {
                time += site.gap;
                skip = if skip == 0 && random.below(25) == 0 {
                    3
                } else {
                    skip
                };
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                let addr = match site.place {
                    AccessPlace::Stack(offset) => stack + offset,
                    AccessPlace::Object(offset) => this + offset,
                    AccessPlace::PerCpu(offset) => {
                        0xffff_8880_3e00_0000 + 0x4_0000 * u64::from(cpu) + offset
                    }
                    AccessPlace::Global(addr) => addr,
                };
                input.push(Input::Access(RawAccess {
                    time: VirtualTime(time),
                    cpu: CpuId(cpu),
                    instruction: InstructionId(starts[number] + i as u32),
                    addr: GuestAddr(addr),
                    size_log2: site.size_log2,
                    kind: site.kind,
                    silent: false,
                    user_mapping: false,
                }));
            }
        }
    }
    (input, pcs)
}

/// The events of a recording, as a recorder would have passed them.
fn recorded(path: &Path) -> Result<(Vec<Input>, Vec<GuestAddr>), Box<dyn Error>> {
    let recording = Recording::open(path)?;
    let pcs = recording.instructions().to_vec();
    let numbers: std::collections::HashMap<GuestAddr, u32> = pcs.iter().copied().zip(0..).collect();
    let mut input = Vec::new();
    for event in recording.events().take(LIMIT) {
        input.push(match event? {
            Event::Access(access) => Input::Access(RawAccess {
                time: access.time,
                cpu: access.cpu,
                instruction: InstructionId(numbers[&access.pc]),
                addr: access.addr,
                size_log2: access.size.trailing_zeros() as u8,
                kind: access.kind,
                silent: access.silent,
                user_mapping: access.user_mapping,
            }),
            other => Input::Other(Box::new(other)),
        });
    }
    Ok((input, pcs))
}

fn feed(encoder: &mut Encoder, input: &Input) {
    match input {
        Input::Access(access) => encoder.access(*access),
        Input::Other(event) => match event.as_ref() {
            Event::Call(call) => encoder.call(call),
            Event::Return(ret) => encoder.ret(ret),
            Event::Marker(marker) => encoder.marker(marker),
            Event::Access(_) => {}
        },
    }
}

fn encoder(pcs: &[GuestAddr]) -> Encoder {
    let mut encoder = Encoder::new(LaneId(0), EVENTS_PER_CHUNK);
    encoder.reserve_instructions(pcs.len() as u32);
    encoder.reserve_functions(4096);
    encoder.reserve_cpus(8);
    encoder
}

#[derive(Default)]
struct Count {
    accesses: u64,
    sum: u64,
}

impl Visitor for Count {
    fn access(&mut self, access: &Access) {
        self.accesses += 1;
        self.sum = self.sum.wrapping_add(access.addr.0 ^ access.time.0);
    }
    fn call(&mut self, call: &Call) {
        self.sum ^= call.stack.0;
    }
    fn ret(&mut self, ret: &Return) {
        self.sum ^= ret.value;
    }
    fn marker(&mut self, marker: &Marker) {
        self.sum ^= marker.value;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with("--"));
    let (input, pcs) = match &file {
        Some(path) => recorded(Path::new(path))?,
        None => synthetic(LIMIT / 2),
    };
    let accesses = input
        .iter()
        .filter(|input| matches!(input, Input::Access(_)))
        .count() as f64;
    let mut out = stdout().lock();
    writeln!(out, "accesses {accesses} events")?;
    writeln!(out, "other_events {} events", input.len() as f64 - accesses)?;

    let (mut seconds, mut raw) = (f64::MAX, 0);
    for _ in 0..ROUNDS {
        let mut encoder = encoder(&pcs);
        let mut spare = RawChunk::default();
        raw = 0;
        let start = Instant::now();
        for event in &input {
            feed(&mut encoder, event);
            if encoder.is_full() {
                spare = encoder.take(spare);
                raw += spare.raw_bytes();
            }
        }
        seconds = seconds.min(start.elapsed().as_secs_f64());
        raw += encoder.take(spare).raw_bytes();
    }
    writeln!(out, "encode {:.2} ns/access", seconds * 1e9 / accesses)?;
    writeln!(out, "raw {:.3} bytes/access", raw as f64 / accesses)?;

    let path = std::env::temp_dir().join(format!("linemate-bench-{}.data", std::process::id()));
    let writer = Writer::create(&path, "bench", &Metadata::new())?;
    let background = BackgroundWriter::start(writer, 3)?;
    let lane = background.lane();
    lane.instructions(pcs.clone());
    let mut encoder = encoder(&pcs);
    let mut spare = RawChunk::default();
    let start = Instant::now();
    for event in &input {
        feed(&mut encoder, event);
        if encoder.is_full() {
            spare = lane.events(encoder.take(spare));
        }
    }
    lane.events(encoder.take(spare));
    let writer = background.stop()?;
    let seconds = start.elapsed().as_secs_f64();
    let bytes = writer.bytes();
    writer.finish()?;
    writeln!(
        out,
        "encode_and_write {:.2} ns/access",
        seconds * 1e9 / accesses
    )?;
    writeln!(out, "disk {:.3} bytes/access", bytes as f64 / accesses)?;

    let recording = Recording::open(&path)?;
    let mut decoder = Decoder::new();
    let mut count = Count::default();
    let start = Instant::now();
    for chunk in recording.chunks() {
        recording.visit(chunk, &mut decoder, &mut count)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(count.accesses as f64, accesses, "every access comes back");
    writeln!(
        out,
        "decode {:.1} million_accesses/s",
        accesses / seconds / 1e6
    )?;
    let start = Instant::now();
    let events = recording.events().count();
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(events, input.len(), "every event comes back");
    writeln!(
        out,
        "decode_iterator {:.1} million_accesses/s",
        accesses / seconds / 1e6
    )?;
    std::fs::remove_file(&path)?;
    Ok(())
}
