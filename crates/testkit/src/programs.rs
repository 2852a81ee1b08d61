//! Recordings of one program whose file a test has, whatever its contents.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{self, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use linemate_recording::{
    AccessKind, Call, CpuId, Encoder, Function, FunctionId, GuestAddr, InstructionId, LaneId,
    MAX_PARAMETERS, MappedPage, Mark, Marker, Meaning, Moment, PAGE, Parameter, ProgramFile,
    ProgramFiles, RawAccess, RawChunk, Register, Return, Role, Sink, VirtualTime, Writer,
    code_range,
};

use crate::world::{Contents, DIRECT};

/// Where the program's heap is.
pub const HEAP: u64 = 0x1_0000_0000;
/// Bytes of its blocks, which follow one another from [`HEAP`] on.
pub const BLOCKS: [u64; 6] = [16, 24, 32, 40, 64, 96];
/// How many bytes of code are taken for instructions.
const CODE_MAX: usize = 1024;
/// How many pages of a segment are met.
const PAGES_MAX: u64 = 4;
/// The first frame of the program's memory.
const FRAME: u64 = 4096;

/// A part of an ELF file that is mapped.
struct Segment {
    file: Range<u64>,
    memory: Range<u64>,
    executable: bool,
}

/// What the program headers of an ELF file for 64 bits say.
fn segments(elf: &[u8]) -> Vec<Segment> {
    let number = |at: usize, bytes: usize| -> Option<u64> {
        let field = elf.get(at..at.checked_add(bytes)?)?;
        Some(field.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
    };
    let header = |index: u64| {
        let (table, size) = (number(32, 8)?, number(54, 2)?);
        let at = usize::try_from(table.checked_add(index * size)?).ok()?;
        let field = |offset, bytes| number(at.checked_add(offset)?, bytes);
        let (start, address) = (field(8, 8)?, field(16, 8)?);
        let is_loaded = field(0, 4)? == 1;
        is_loaded.then_some(Segment {
            file: start..start.checked_add(field(32, 8)?)?,
            memory: address..address.checked_add(field(40, 8)?)?,
            executable: field(4, 4)? & 1 != 0,
        })
    };
    let count = number(56, 2).unwrap_or(0);
    (0..count.min(16)).filter_map(header).collect()
}

/// A recording of `program`, which has as many files with debug information as there are in
/// `attached`. Each byte of its code is taken for an instruction that reaches its heap, and for one
/// that reaches its memory. `None` if no recording can list the file.
pub fn recording_of(program: &[u8], attached: &[&[u8]]) -> Option<Vec<u8>> {
    let segments = segments(program);
    let file = |debug_of: Option<u32>, bytes: &[u8], code| ProgramFile {
        path: if debug_of.is_some() {
            ""
        } else {
            "/bin/program"
        }
        .into(),
        debug_of,
        length: bytes.len() as u64,
        code,
    };
    let executable = segments.iter().filter(|segment| segment.executable);
    let code: Vec<_> = executable
        .map(|segment| code_range(program, segment.file.clone()))
        .collect();
    let mut listed = vec![file(None, program, code)];
    listed.extend(
        attached
            .iter()
            .map(|bytes| file(Some(0), bytes, Vec::new())),
    );
    let files = ProgramFiles::new(listed).ok()?;
    let mut contents = vec![program];
    contents.extend(attached);
    let pages = files.files()[0]
        .code
        .iter()
        .flat_map(|range| (0..range.digests.len() as u64).map(|page| range.offset + page * PAGE));
    let offsets = pages.flat_map(|page| page..page + PAGE).take(CODE_MAX);
    let pcs: Vec<GuestAddr> = offsets.filter_map(|o| files.code_address(0, o)).collect();

    let mut run = ProgramRun::new();
    run.map(&segments);
    run.allocate();
    run.accesses(pcs.len(), &segments);
    Some(write(&files, &contents, &pcs, run))
}

/// The functions of a program's heap, `malloc` at the first instruction.
fn heap_functions(pcs: &[GuestAddr]) -> Vec<Function> {
    let function = |(entry, name, role, meaning): (&GuestAddr, &str, Role, Meaning)| Function {
        entry: *entry,
        size: 1,
        name: name.into(),
        role,
        returns: role == Role::HeapAlloc,
        parameters: vec![Parameter {
            register: Register::Rdi,
            meaning,
        }],
    };
    let known = [
        ("malloc", Role::HeapAlloc, Meaning::Size),
        ("free", Role::HeapFree, Meaning::Object),
    ];
    let known = pcs.iter().zip(known);
    known
        .map(|(pc, (n, r, m))| function((pc, n, r, m)))
        .collect()
}

fn write(
    files: &ProgramFiles,
    contents: &[&[u8]],
    pcs: &[GuestAddr],
    mut run: ProgramRun,
) -> Vec<u8> {
    let kernel = Contents::new();
    let memory = Memory::default();
    let sink = Box::new(memory.clone());
    let mut writer = Writer::create_in(sink, &kernel.tool, &kernel.metadata).unwrap();
    writer.btf(&kernel.btf.unwrap()).unwrap();
    writer.symbols(kernel.symbols.unwrap().as_bytes()).unwrap();
    let mut functions = kernel.functions;
    functions.functions.splice(0..0, heap_functions(pcs));
    writer.functions(&functions).unwrap();
    writer.programs(files, contents).unwrap();
    for (addr, bytes) in &kernel.images {
        writer
            .image(Moment::Start, GuestAddr(*addr), bytes)
            .unwrap();
    }
    writer.instructions(pcs).unwrap();
    writer
        .events(&run.encoder.take(RawChunk::default()))
        .unwrap();
    writer.finish().unwrap();
    let bytes = memory.0.lock().unwrap();
    bytes.clone()
}

struct ProgramRun {
    encoder: Encoder,
    time: u64,
    /// User-space pages that are mapped, each to the frame of its place here.
    pages: Vec<u64>,
}

impl ProgramRun {
    fn new() -> ProgramRun {
        let mut run = ProgramRun {
            encoder: Encoder::new(LaneId(0), 1 << 20),
            time: 0,
            pages: Vec::new(),
        };
        run.mark(0, Mark::Start, 0);
        run.mark(0, Mark::Space, 0x7000);
        run.mark(1, Mark::Space, 0x7000);
        run
    }

    fn tick(&mut self) -> VirtualTime {
        self.time += 1;
        VirtualTime(self.time)
    }

    fn mark(&mut self, cpu: u16, mark: Mark, value: u64) {
        let time = self.tick();
        let cpu = CpuId(cpu);
        self.encoder.marker(&Marker {
            time,
            cpu,
            mark,
            value,
        });
    }

    fn map(&mut self, segments: &[Segment]) {
        let first = |segment: &Segment| segment.memory.start / PAGE;
        let last = |segment: &Segment| segment.memory.end.saturating_sub(1) / PAGE;
        let of_segments = segments.iter().flat_map(|segment| {
            let start = first(segment);
            start..=last(segment).min(start + PAGES_MAX)
        });
        let mut pages: Vec<u64> = of_segments.chain([HEAP / PAGE]).collect();
        pages.sort_unstable();
        pages.dedup();
        for page in pages {
            let frame = FRAME + self.pages.len() as u64;
            if let Some(value) = (MappedPage { frame, page }).value() {
                self.mark(0, Mark::Page, value);
                self.pages.push(page);
            }
        }
    }

    fn allocate(&mut self) {
        let mut at = HEAP;
        for size in BLOCKS {
            let mut values = [None; MAX_PARAMETERS];
            values[0] = Some(size);
            let stack = GuestAddr(0x7fff_0000);
            let (cpu, function) = (CpuId(0), FunctionId(0));
            let time = self.tick();
            self.encoder.call(&Call {
                time,
                cpu,
                function,
                stack,
                caller: GuestAddr(0),
                values,
            });
            let time = self.tick();
            self.encoder.ret(&Return {
                time,
                cpu,
                function,
                stack,
                value: at,
            });
            at += size;
        }
    }

    fn accesses(&mut self, instructions: usize, segments: &[Segment]) {
        let heap: u64 = BLOCKS.iter().sum();
        for instruction in 0..instructions {
            let step = 8 * instruction as u64;
            self.access(instruction, HEAP + step % heap);
            let segment = segments.get(instruction % segments.len().max(1));
            if let Some(Segment { memory, .. }) = segment {
                let length = (memory.end - memory.start).min(PAGES_MAX * PAGE);
                self.access(instruction, memory.start + step % length.max(1));
            }
        }
    }

    fn access(&mut self, instruction: usize, addr: u64) {
        let Some(frame) = self.pages.iter().position(|page| *page == addr / PAGE) else {
            return;
        };
        let physical = (FRAME + frame as u64) * PAGE + addr % PAGE;
        let time = self.tick();
        self.encoder.access(RawAccess {
            time,
            cpu: CpuId(instruction as u16 % 2),
            instruction: InstructionId(instruction as u32),
            addr: GuestAddr(DIRECT + physical),
            size_log2: (instruction % 4) as u8,
            kind: [AccessKind::Load, AccessKind::Store, AccessKind::Rmw][instruction % 3],
            silent: false,
            user_mapping: true,
        });
    }
}

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Memory {
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.lock().unwrap().truncate(length as usize);
        Ok(())
    }
}
