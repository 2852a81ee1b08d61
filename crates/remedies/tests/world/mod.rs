//! A small kernel for tests of remedies: four CPUs, heap types that point to each other, a bitmap with a counter beside it.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use linemate_recording::{
    AccessKind, Call, CpuId, Encoder, Function, FunctionId, FunctionTable, GuestAddr,
    InstructionId, LaneId, MAX_PARAMETERS, Mark, Marker, Meaning, Metadata, Moment, Parameter,
    RawAccess, RawChunk, Recording, Register, Role, VirtualTime, Writer,
};
use linemate_testkit::btf_writer::{Endian, TypeList, member, write};
use linemate_types::{Enumerator, Linkage, Name, Type};

pub(crate) const CPUS: u16 = 4;
const DIRECT: u64 = 0xffff_8880_0000_0000;
const VMALLOC: u64 = 0xffff_c900_0000_0000;
const PAGES: u64 = 0xffff_ea00_0000_0000;
const IMAGE: u64 = 0xffff_ffff_8100_0000;
const FRAMES: u64 = 64;
const DATA: u64 = IMAGE + 0x1000;
pub(crate) const NOHZ: u64 = IMAGE + 0x2000;

/// The heap types, by their number; each has a cache and a slab of its name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heap {
    /// `{ struct item *item; long near; …; atomic_t stat (64); long beside (72); int mode (128); int kind (136) }`, 256 bytes.
    Crate = 0,
    /// `{ long load; …; long size (64) }`, 128 bytes.
    Item = 1,
    /// `{ atomic_t events; atomic_t bytes (8) }`, 64 bytes.
    Stats = 2,
    /// The same behind a lock: `{ struct qspinlock lock; atomic_t events (8) }`, 64 bytes.
    Guarded = 3,
    /// No type of that name: `kmalloc-64`.
    Block = 4,
}

const CACHES: [(&str, u64); 5] = [
    ("crate", 256),
    ("item", 128),
    ("stats", 64),
    ("guarded", 64),
    ("kmalloc-64", 64),
];

/// The address of an object.
pub(crate) fn object(heap: Heap, number: u64) -> u64 {
    DIRECT + (8 + heap as u64) * 4096 + number * CACHES[heap as usize].1
}

const NAMES: [&str; 4] = ["enter", "leave", "look", "clear"];

/// The functions, by their number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum F {
    Enter = 0,
    Leave = 1,
    Look = 2,
    Clear = 3,
}

pub(crate) struct World {
    encoder: Encoder,
    time: u64,
    pcs: Vec<u64>,
    chunks: Vec<RawChunk>,
    since: u32,
}

/// Events of a chunk: several chunks, so that threads have something to share.
const CHUNK: u32 = 256;

impl World {
    pub(crate) fn new() -> World {
        World {
            encoder: Encoder::new(LaneId(0), 1 << 20),
            time: 0,
            pcs: Vec::new(),
            chunks: Vec::new(),
            since: 0,
        }
    }

    fn tick(&mut self) -> VirtualTime {
        self.since += 1;
        if self.since > CHUNK {
            self.since = 1;
            self.chunks.push(self.encoder.take(RawChunk::default()));
        }
        self.time += 1;
        VirtualTime(self.time)
    }

    /// Lets time pass.
    pub(crate) fn wait(&mut self, instructions: u64) {
        self.time += instructions;
    }

    fn access(&mut self, cpu: u16, at: (AccessKind, F), addr: u64, size: u8, silent: bool) {
        let pc = entry(at.1 as usize) + 0x10 + 4 * (at.0 as u64);
        let instruction = self.pcs.iter().position(|p| *p == pc).unwrap_or_else(|| {
            self.pcs.push(pc);
            self.pcs.len() - 1
        });
        let time = self.tick();
        self.encoder.access(RawAccess {
            time,
            cpu: CpuId(cpu),
            instruction: InstructionId(instruction as u32),
            addr: GuestAddr(addr),
            size_log2: size.ilog2() as u8,
            kind: at.0,
            silent,
            user_mapping: false,
        });
    }

    pub(crate) fn load(&mut self, cpu: u16, function: F, addr: u64) {
        self.access(cpu, (AccessKind::Load, function), addr, 4, false);
    }

    /// Eight bytes.
    pub(crate) fn load_pointer(&mut self, cpu: u16, function: F, addr: u64) {
        self.access(cpu, (AccessKind::Load, function), addr, 8, false);
    }

    pub(crate) fn store(&mut self, cpu: u16, function: F, addr: u64) {
        self.access(cpu, (AccessKind::Store, function), addr, 4, false);
    }

    pub(crate) fn silent_store(&mut self, cpu: u16, function: F, addr: u64) {
        self.access(cpu, (AccessKind::Store, function), addr, 4, true);
    }

    pub(crate) fn rmw(&mut self, cpu: u16, function: F, addr: u64) {
        self.access(cpu, (AccessKind::Rmw, function), addr, 4, false);
    }

    /// The finished recording, at whose end each function is handed a pointer to an object of its type.
    pub(crate) fn record(mut self) -> Recording {
        for (function, heap) in [Heap::Crate, Heap::Item, Heap::Stats, Heap::Guarded]
            .into_iter()
            .enumerate()
        {
            for number in 0..4 {
                let mut values = [None; MAX_PARAMETERS];
                values[0] = Some(object(heap, number));
                let time = self.tick();
                self.encoder.call(&Call {
                    time,
                    cpu: CpuId(0),
                    function: FunctionId(function as u32),
                    stack: GuestAddr(VMALLOC + 0x3000),
                    caller: GuestAddr(IMAGE + 0x900),
                    values,
                });
            }
        }
        let time = self.tick();
        self.encoder.marker(&Marker {
            time,
            cpu: CpuId(0),
            mark: Mark::Stop,
            guest_ns: 0,
        });
        let (btf, heads) = types();
        let file = tempfile::NamedTempFile::new().unwrap();
        let metadata = Metadata::from([("cpus".to_owned(), CPUS.to_string())]);
        let mut writer = Writer::create(file.path(), "0.1.0", &metadata).unwrap();
        writer.btf(&btf).unwrap();
        writer.symbols(symbols().as_bytes()).unwrap();
        writer.functions(&functions(heads)).unwrap();
        for (addr, bytes) in images() {
            writer
                .image(Moment::Start, GuestAddr(addr), &bytes)
                .unwrap();
        }
        let pcs: Vec<GuestAddr> = self.pcs.iter().map(|p| GuestAddr(*p)).collect();
        writer.instructions(&pcs).unwrap();
        for chunk in &self.chunks {
            writer.events(chunk).unwrap();
        }
        writer
            .events(&self.encoder.take(RawChunk::default()))
            .unwrap();
        writer.finish().unwrap();
        Recording::from_source(std::fs::read(file.path()).unwrap()).unwrap()
    }
}

/// BTF, and the ids of the heap types in their order.
fn types() -> (Vec<u8>, [u32; 4]) {
    let mut t = TypeList::default();
    let int = t.int("int", 4);
    let long = t.unsigned("long unsigned int", 8);
    let list = t.structure(
        "list_head",
        16,
        &[member("next", long, 0), member("prev", long, 8)],
    );
    let plain = t.structure("", 4, &[member("counter", int, 0)]);
    let atomic = t.typedef("atomic_t", plain);
    let lock = t.structure("qspinlock", 4, &[member("val", atomic, 0)]);
    let bits = t.array(long, 4);
    let mask = t.structure("cpumask", 32, &[member("bits", bits, 0)]);
    let mask = t.pointer(mask);
    let item = t.structure(
        "item",
        128,
        &[member("load", long, 0), member("size", long, 64)],
    );
    let to_item = t.pointer(item);
    let boxes = t.structure(
        "crate",
        256,
        &[
            member("item", to_item, 0),
            member("near", long, 8),
            member("stat", atomic, 64),
            member("beside", long, 72),
            member("mode", int, 128),
            member("kind", int, 136),
        ],
    );
    let stats = t.structure(
        "stats",
        64,
        &[member("events", atomic, 0), member("bytes", atomic, 8)],
    );
    let guarded = t.structure(
        "guarded",
        64,
        &[member("lock", lock, 0), member("events", atomic, 8)],
    );
    let nohz = t.structure(
        "",
        24,
        &[
            member("idle_cpus_mask", mask, 0),
            member("nr_cpus", atomic, 8),
            member("has_blocked", int, 12),
        ],
    );
    t.add(Type::Variable {
        name: Name::from("unused"),
        type_id: nohz,
        linkage: Linkage::Static,
    });
    t.structure(
        "kmem_cache",
        64,
        &[
            member("name", long, 0),
            member("size", int, 8),
            member("object_size", int, 12),
            member("list", list, 16),
        ],
    );
    t.structure(
        "page",
        64,
        &[
            member("flags", long, 0),
            member("compound_head", long, 8),
            member("mapping", long, 24),
            member("page_type", int, 48),
            member("_refcount", int, 52),
        ],
    );
    t.structure("slab", 64, &[member("slab_cache", long, 16)]);
    let values = |list: &[(&str, i64)]| -> Vec<Enumerator> {
        let one = |(name, value): &(&str, i64)| Enumerator {
            name: Name::from(*name),
            value: *value,
        };
        list.iter().map(one).collect()
    };
    for (name, list) in [
        ("pageflags", &[("PG_lru", 5), ("PG_reserved", 13)][..]),
        (
            "pagetype",
            &[
                ("PGTY_buddy", 0xf0),
                ("PGTY_table", 0xf2),
                ("PGTY_slab", 0xf5),
            ][..],
        ),
    ] {
        t.add(Type::Enum {
            name: Name::from(name),
            size: 4,
            signed: false,
            values: values(list),
        });
    }
    let heads = [boxes.0, item.0, stats.0, guarded.0];
    (write(&t.types, Endian::Little).unwrap(), heads)
}

fn symbols() -> String {
    let mut text =
        String::from("0000000000000000 A __per_cpu_start\n0000000000000400 A __per_cpu_end\n");
    for (i, name) in NAMES.iter().enumerate() {
        text += &format!("{:016x} T {name}\n", entry(i));
    }
    let data = [
        ("_text", IMAGE - 0x1000),
        ("slab_caches", DATA),
        ("page_offset_base", DATA + 0x100),
        ("vmalloc_base", DATA + 0x108),
        ("vmemmap_base", DATA + 0x110),
        ("max_pfn", DATA + 0x118),
        ("__per_cpu_offset", DATA + 0x200),
        ("cache_names", DATA + 0x300),
        ("nohz", NOHZ),
        ("after_nohz", NOHZ + 64),
        ("_end", IMAGE + 0x10000),
    ];
    for (name, addr) in data {
        text += &format!("{addr:016x} D {name}\n");
    }
    text
}

fn entry(function: usize) -> u64 {
    IMAGE + 0x100 * function as u64
}

fn functions(heads: [u32; 4]) -> FunctionTable {
    let function = |(i, head): (usize, u32)| Function {
        entry: GuestAddr(entry(i)),
        size: 0x100,
        name: NAMES[i].to_owned(),
        role: Role::Plain,
        returns: false,
        parameters: vec![Parameter {
            register: Register::Rdi,
            meaning: Meaning::StructPointer(head),
        }],
    };
    FunctionTable {
        functions: heads.into_iter().enumerate().map(function).collect(),
    }
}

fn put(bytes: &mut [u8], at: u64, value: u64, size: usize) {
    let at = at as usize;
    bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
}

/// The images at the start: variables, caches with their names, struct pages.
fn images() -> Vec<(u64, Vec<u8>)> {
    // `struct kmem_cache` objects in frame 1.
    let cache = |number: usize| DIRECT + 4096 + 64 * number as u64;
    let mut data = vec![0u8; 0x400];
    put(&mut data, 0, cache(0) + 16, 8);
    for (i, value) in (0u64..).zip([DIRECT, VMALLOC, PAGES, FRAMES]) {
        put(&mut data, 0x100 + 8 * i, value, 8);
    }
    for cpu in 0..u64::from(CPUS) {
        put(
            &mut data,
            0x200 + 8 * cpu,
            DIRECT + (32 + 4 * cpu) * 4096,
            8,
        );
    }
    let mut caches = vec![0u8; 64 * CACHES.len()];
    let mut pages = vec![0u8; 64 * FRAMES as usize];
    for frame in 0..FRAMES {
        put(&mut pages, frame * 64 + 48, 0xffff_ffff, 4);
        put(&mut pages, frame * 64 + 52, 1, 4);
    }
    for (number, (name, size)) in CACHES.into_iter().enumerate() {
        let (at, text) = (64 * number as u64, 0x300 + 16 * number);
        data[text..text + name.len()].copy_from_slice(name.as_bytes());
        put(&mut caches, at, DATA + text as u64, 8);
        put(&mut caches, at + 8, size, 4);
        put(&mut caches, at + 12, size, 4);
        let next = if number + 1 < CACHES.len() {
            cache(number + 1) + 16
        } else {
            DATA
        };
        put(&mut caches, at + 16, next, 8);
        let frame = 8 + number as u64;
        put(&mut pages, frame * 64 + 16, cache(number), 8);
        put(&mut pages, frame * 64 + 48, 0xf500_0000, 4);
    }
    vec![(DATA, data), (cache(0), caches), (PAGES, pages)]
}
