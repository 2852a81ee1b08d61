//! A small kernel for tests: types, symbols, memory images and watched functions, and a recorder of made-up events.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use linemate_recording::{
    AccessKind, Call, CpuId, Encoder, Function, FunctionId, FunctionTable, GuestAddr,
    InstructionId, LaneId, MAX_PARAMETERS, Mark, Marker, Meaning, Metadata, Moment, Parameter,
    RawAccess, RawChunk, Recording, Register, Return, Role, VirtualTime, Writer,
};
use linemate_types::btf_writer::{Endian, TypeList, member, write};
use linemate_types::{Enumerator, Name, Type, TypeId};

pub(crate) const DIRECT: u64 = 0xffff_8880_0000_0000;
pub(crate) const VMALLOC: u64 = 0xffff_c900_0000_0000;
pub(crate) const PAGES: u64 = 0xffff_ea00_0000_0000;
pub(crate) const IMAGE: u64 = 0xffff_ffff_8100_0000;
pub(crate) const FRAMES: u64 = 64;
/// An instruction of a user program.
const USER_CODE: u64 = 0x40_1000;
/// Per-CPU units: frames 32 and 40.
pub(crate) const UNITS: [u64; 2] = [DIRECT + 32 * 4096, DIRECT + 40 * 4096];
/// `rq` is at this offset of the per-CPU section.
pub(crate) const RQ: u64 = 0x100;
/// Behind the per-CPU section: a `vector` of each CPU from before the recording. And an `entity` of that age, in the slab of `kmalloc-64`.
pub(crate) const STATS: u64 = 0x500;
pub(crate) const POINTED: u64 = KMALLOC_SLAB + 128;
/// Slab of the cache `task`: frame 8, from before the recording.
pub(crate) const TASK_SLAB: u64 = DIRECT + 8 * 4096;
/// Slab of the cache `kmalloc-64`: frame 9.
pub(crate) const KMALLOC_SLAB: u64 = DIRECT + 9 * 4096;
const SLAB_CACHES: u64 = IMAGE + 0x1000;
pub(crate) const NOHZ: u64 = IMAGE + 0x2000;
pub(crate) const COUNTER: u64 = IMAGE + 0x3000;
/// Device registers: one page that the kernel mapped with `ioremap`, and the local APIC's.
pub(crate) const DEVICE: u64 = VMALLOC + 0x20_0000 + 5 * 4096;
pub(crate) const APIC: u64 = 0xffff_ffff_ff5f_d000;
/// `init_top_pgt`.
const TOP_TABLE: u64 = IMAGE + 0x9000;
pub(crate) const INIT_STACK: u64 = IMAGE + 0x4000;
/// `struct kmem_cache` objects, in frame 1.
pub(crate) const CACHE_TASK: u64 = DIRECT + 4096;
pub(crate) const CACHE_KMALLOC: u64 = DIRECT + 4096 + 64;

/// The functions, by their number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum F {
    WakeTask = 0,
    UpdateEntity = 1,
    CacheAlloc = 2,
    Kmalloc = 3,
    Kfree = 4,
    AllocPercpu = 5,
    PteAlloc = 6,
    UpdateRq = 7,
    LockVector = 8,
    FreePages = 9,
    BulkAlloc = 10,
    FromSheaf = 11,
    ClearPage = 12,
    AllocateSlab = 13,
}

const NAMES: [&str; 14] = [
    "wake_task",
    "update_entity",
    "kmem_cache_alloc",
    "__kmalloc",
    "kfree",
    "alloc_percpu",
    "pte_alloc_one",
    "update_rq",
    "lock_vector",
    "free_pages",
    "kmem_cache_alloc_bulk",
    "kmem_cache_alloc_from_sheaf_noprof",
    "clear_page_erms",
    "allocate_slab",
];

/// What a kernel can have otherwise than the one of most tests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Variant {
    /// `struct page` has `compound_info`, and a tail page's is a mask (from Linux 7.0 on).
    pub(crate) compound_masks: bool,
    /// There is an image of CPU 0's `rq`, whose pointers lead to [`STATS`] and [`POINTED`].
    pub(crate) pointers: bool,
}

pub(crate) struct World {
    encoder: Encoder,
    time: u64,
    pcs: Vec<u64>,
    depth: u64,
    chunks: Vec<RawChunk>,
    chunk_every: u32,
    since: u32,
    variant: Variant,
}

struct Ids {
    kmem_cache: u32,
    entity: u32,
    task: u32,
    rq: u32,
    vector: u32,
}

fn types(variant: Variant) -> (Vec<u8>, Ids) {
    let mut t = TypeList::default();
    let int = t.int("int", 4);
    let long = t.unsigned("long unsigned int", 8);
    let list = t.structure(
        "list_head",
        16,
        &[member("next", long, 0), member("prev", long, 8)],
    );
    let entity = t.structure(
        "entity",
        64,
        &[
            member("load", long, 0),
            member("node", list, 16),
            member("on_rq", int, 40),
        ],
    );
    let pointer = t.pointer(entity);
    let array_of_pointers = t.pointer(pointer);
    let task = t.structure(
        "task",
        256,
        &[
            member("state", int, 0),
            member("se", entity, 64),
            member("prio", int, 200),
            member("queues", array_of_pointers, 208),
            member("entities", array_of_pointers, 216),
        ],
    );
    let vector = t.structure(
        "vector",
        40,
        &[
            member("count", int, 0),
            member("mask", long, 8),
            member("tail", long, 32),
        ],
    );
    let pointer_to_vector = t.pointer(vector);
    let rq = t.structure(
        "rq",
        128,
        &[
            member("nr_running", int, 0),
            member("curr", long, 8),
            member("clock", long, 64),
            member("lock", int, 72),
            member("stats", pointer_to_vector, 80),
            member("first", pointer, 88),
        ],
    );
    let anonymous = t.structure(
        "",
        40,
        &[member("idle_cpus_mask", long, 0), member("nr_cpus", int, 8)],
    );
    t.add(Type::Variable {
        name: Name::from("unused"),
        type_id: anonymous,
        linkage: linemate_types::Linkage::Static,
    });
    let kmem_cache = t.structure(
        "kmem_cache",
        64,
        &[
            member("name", long, 0),
            member("size", int, 8),
            member("object_size", int, 12),
            member("list", list, 16),
        ],
    );
    let compound = match variant.compound_masks {
        true => "compound_info",
        false => "compound_head",
    };
    t.structure(
        "page",
        64,
        &[
            member("flags", long, 0),
            member(compound, long, 8),
            member("mapping", long, 24),
            member("page_type", int, 48),
            member("_refcount", int, 52),
        ],
    );
    t.structure("slab", 64, &[member("slab_cache", long, 16)]);
    enumeration(&mut t, "pageflags", &[("PG_lru", 5), ("PG_reserved", 13)]);
    enumeration(
        &mut t,
        "pagetype",
        &[
            ("PGTY_buddy", 0xf0),
            ("PGTY_table", 0xf2),
            ("PGTY_slab", 0xf5),
        ],
    );
    t.percpu(&[("runqueues", rq, RQ as u32, 128), ("ticks", long, 0x200, 8)]);
    let ids = Ids {
        kmem_cache: kmem_cache.0,
        entity: entity.0,
        task: task.0,
        rq: rq.0,
        vector: vector.0,
    };
    (write(&t.types, Endian::Little).unwrap(), ids)
}

fn enumeration(t: &mut TypeList, name: &str, values: &[(&str, i64)]) -> TypeId {
    let values = values
        .iter()
        .map(|(n, v)| Enumerator {
            name: Name::from(*n),
            value: *v,
        })
        .collect();
    t.add(Type::Enum {
        name: Name::from(name),
        size: 4,
        signed: false,
        values,
    })
}

fn symbols() -> String {
    let mut text = String::from(
        "0000000000000000 A __per_cpu_start\n0000000000000100 A runqueues\n0000000000000200 A ticks\n\
         0000000000000300 A untyped_percpu\n0000000000000400 A __per_cpu_end\n",
    );
    for (i, name) in NAMES.iter().enumerate() {
        text += &format!("{:016x} T {name}\n", entry(i));
    }
    let data = [
        ("_text", IMAGE - 0x1000),
        ("slab_caches", SLAB_CACHES),
        ("page_offset_base", SLAB_CACHES + 0x100),
        ("vmalloc_base", SLAB_CACHES + 0x108),
        ("vmemmap_base", SLAB_CACHES + 0x110),
        ("max_pfn", SLAB_CACHES + 0x118),
        ("__per_cpu_offset", SLAB_CACHES + 0x200),
        ("cache_names", SLAB_CACHES + 0x300),
        ("nohz", NOHZ),
        ("after_nohz", NOHZ + 64),
        ("counter", COUNTER),
        ("init_top_pgt", TOP_TABLE),
        // The first idle stack as the linker has it: between two sections, whose marks have its address.
        ("__end_rodata_aligned", INIT_STACK),
        ("_sdata", INIT_STACK),
        ("init_stack", INIT_STACK),
        ("__end_init_stack", INIT_STACK + 0x4000),
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

/// A return address in a function.
pub(crate) fn site(function: F) -> u64 {
    entry(function as usize) + 0x50
}

fn functions(ids: &Ids) -> FunctionTable {
    let p = |register, meaning| Parameter { register, meaning };
    let rows: [(Role, bool, Vec<Parameter>); 14] = [
        (
            Role::Plain,
            false,
            vec![p(Register::Rdi, Meaning::StructPointer(ids.task))],
        ),
        (
            Role::Plain,
            false,
            vec![p(Register::Rdi, Meaning::StructPointer(ids.entity))],
        ),
        (
            Role::HeapAlloc,
            true,
            vec![p(Register::Rdi, Meaning::Cache)],
        ),
        (Role::HeapAlloc, true, vec![p(Register::Rdi, Meaning::Size)]),
        (
            Role::HeapFree,
            false,
            vec![p(Register::Rdi, Meaning::Object)],
        ),
        (
            Role::PercpuAlloc,
            true,
            vec![p(Register::Rdi, Meaning::Size)],
        ),
        (
            Role::PageAlloc,
            true,
            vec![p(Register::Rsi, Meaning::Order)],
        ),
        (
            Role::Plain,
            false,
            vec![p(Register::Rdi, Meaning::StructPointer(ids.rq))],
        ),
        (
            Role::Plain,
            false,
            vec![p(Register::Rdi, Meaning::StructPointer(ids.vector))],
        ),
        (
            Role::PageFree,
            false,
            vec![
                p(Register::Rdi, Meaning::Object),
                p(Register::Rsi, Meaning::Order),
            ],
        ),
        (
            Role::HeapAlloc,
            true,
            vec![
                p(Register::Rdi, Meaning::Cache),
                p(Register::Rcx, Meaning::ObjectArray),
            ],
        ),
        (
            Role::Plain,
            false,
            vec![p(Register::Rdi, Meaning::StructPointer(ids.kmem_cache))],
        ),
        (Role::Plain, false, Vec::new()),
        (Role::Plain, false, Vec::new()),
    ];
    let function =
        |(i, (role, returns, parameters)): (usize, (Role, bool, Vec<Parameter>))| Function {
            entry: GuestAddr(entry(i)),
            size: 0x100,
            name: NAMES[i].to_owned(),
            role,
            returns,
            parameters,
        };
    FunctionTable {
        functions: rows.into_iter().enumerate().map(function).collect(),
    }
}

fn put(bytes: &mut [u8], at: usize, value: u64, size: usize) {
    bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
}

/// The page tables on the way to [`DEVICE`] and [`APIC`], in frames 57 to 62 and at [`TOP_TABLE`].
fn page_tables() -> Vec<(u64, Vec<u8>)> {
    const PRESENT: u64 = 1;
    /// Cache disabled, write through: uncached.
    const UNCACHED: u64 = 0x18;
    let mut tables = vec![(TOP_TABLE, vec![0u8; 4096])];
    for (page, first) in [(DEVICE, 57), (APIC, 60)] {
        let mut table = 0;
        for (shift, frame) in [(39, first), (30, first + 1), (21, first + 2), (12, 0xfed00)] {
            let leaf = if shift == 12 { UNCACHED } else { 0 };
            let entry = (frame * 4096) | PRESENT | leaf;
            let index = (page >> shift & 511) as usize;
            put(&mut tables[table].1, index * 8, entry, 8);
            if shift > 12 {
                table = tables.len();
                tables.push((DIRECT + frame * 4096, vec![0u8; 4096]));
            }
        }
    }
    tables
}

/// The images at the start: variables, caches with their names, struct pages.
fn images(variant: Variant) -> Vec<(u64, Vec<u8>)> {
    let mut data = vec![0u8; 0x400];
    put(&mut data, 0, CACHE_TASK + 16, 8);
    for (i, value) in [DIRECT, VMALLOC, PAGES, FRAMES].into_iter().enumerate() {
        put(&mut data, 0x100 + 8 * i, value, 8);
    }
    put(&mut data, 0x200, UNITS[0], 8);
    put(&mut data, 0x208, UNITS[1], 8);
    put(&mut data, 0x210, IMAGE, 8);
    data[0x300..0x305].copy_from_slice(b"task\0");
    data[0x310..0x31b].copy_from_slice(b"kmalloc-64\0");
    let mut caches = vec![0u8; 128];
    for (at, name, size, next) in [
        (0, 0x300, 256, CACHE_KMALLOC + 16),
        (64, 0x310, 64, SLAB_CACHES),
    ] {
        put(&mut caches, at, SLAB_CACHES + name, 8);
        put(&mut caches, at + 8, size, 4);
        put(&mut caches, at + 12, size, 4);
        put(&mut caches, at + 16, next, 8);
    }
    let mut pages = vec![0u8; 64 * FRAMES as usize];
    for frame in 0..FRAMES as usize {
        put(&mut pages, frame * 64 + 48, 0xffff_ffff, 4);
        put(&mut pages, frame * 64 + 52, 1, 4);
    }
    let mut slab = |frame: usize, cache: u64| {
        put(&mut pages, frame * 64 + 16, cache, 8);
        put(&mut pages, frame * 64 + 48, 0xf500_0000, 4);
    };
    slab(8, CACHE_TASK);
    slab(9, CACHE_KMALLOC);
    if variant.compound_masks {
        // 16 and 17: one slab of two pages, whose second page keeps the address bits of the pair.
        slab(16, CACHE_TASK);
        put(&mut pages, 17 * 64 + 8, !127 | 1, 8);
    }
    // 10: a page table. 11: a page of a process. 12: free.
    put(&mut pages, 10 * 64 + 48, 0xf200_0000, 4);
    put(&mut pages, 11 * 64, 1 << 5, 8);
    put(&mut pages, 12 * 64 + 48, 0xf000_0000, 4);
    let mut images = vec![(SLAB_CACHES, data), (CACHE_TASK, caches), (PAGES, pages)];
    images.extend(page_tables());
    if variant.pointers {
        let mut rq = vec![0u8; 128];
        put(&mut rq, 80, STATS, 8);
        put(&mut rq, 88, POINTED, 8);
        images.push((UNITS[0] + RQ, rq));
    }
    images
}

impl World {
    pub(crate) fn new() -> World {
        World::with_chunks_of(u32::MAX)
    }

    /// A world of another kernel.
    pub(crate) fn of(variant: Variant) -> World {
        World {
            variant,
            ..World::new()
        }
    }

    /// A world whose recording has a chunk for each `events` events.
    pub(crate) fn with_chunks_of(events: u32) -> World {
        World {
            encoder: Encoder::new(LaneId(0), 1 << 20),
            time: 0,
            pcs: Vec::new(),
            depth: 0,
            chunks: Vec::new(),
            chunk_every: events,
            since: 0,
            variant: Variant::default(),
        }
    }

    fn tick(&mut self) -> VirtualTime {
        self.since += 1;
        if self.since > self.chunk_every {
            self.since = 1;
            let chunk = self.encoder.take(RawChunk::default());
            self.chunks.push(chunk);
        }
        self.time += 1;
        VirtualTime(self.time)
    }

    /// Lets time pass.
    pub(crate) fn wait(&mut self, instructions: u64) {
        self.time += instructions;
    }

    pub(crate) fn access(
        &mut self,
        cpu: u16,
        kind: AccessKind,
        addr: u64,
        size: u8,
        function: F,
        user_mapping: bool,
    ) {
        let pc = entry(function as usize) + 0x10 + 4 * (kind as u64);
        self.access_at(cpu, kind, addr, size, pc, user_mapping);
    }

    fn access_at(
        &mut self,
        cpu: u16,
        kind: AccessKind,
        addr: u64,
        size: u8,
        pc: u64,
        user_mapping: bool,
    ) {
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
            kind,
            silent: false,
            user_mapping,
        });
    }

    /// By a user program, of 8 bytes, through its own mapping.
    pub(crate) fn user_access(&mut self, cpu: u16, kind: AccessKind, addr: u64) {
        self.access_at(cpu, kind, addr, 8, USER_CODE, true);
    }

    pub(crate) fn load(&mut self, cpu: u16, addr: u64) {
        self.access(cpu, AccessKind::Load, addr, 4, F::WakeTask, false);
    }

    pub(crate) fn store(&mut self, cpu: u16, addr: u64) {
        self.access(cpu, AccessKind::Store, addr, 4, F::UpdateEntity, false);
    }

    /// A call on CPU 0's task stack, whose top is `VMALLOC + 0x4000`.
    pub(crate) fn call(&mut self, function: F, values: &[u64]) {
        self.call_from(function, values, IMAGE + 0x900);
    }

    pub(crate) fn call_from(&mut self, function: F, values: &[u64], caller: u64) {
        let mut list = [None; MAX_PARAMETERS];
        for (place, value) in list.iter_mut().zip(values) {
            *place = Some(*value);
        }
        let time = self.tick();
        self.depth += 8;
        self.encoder.call(&Call {
            time,
            cpu: CpuId(0),
            function: FunctionId(function as u32),
            stack: GuestAddr(VMALLOC + 0x4000 - self.depth),
            caller: GuestAddr(caller),
            values: list,
        });
    }

    /// The return of the last call that has not returned yet.
    pub(crate) fn ret(&mut self, function: F, value: u64) {
        let time = self.tick();
        self.encoder.ret(&Return {
            time,
            cpu: CpuId(0),
            function: FunctionId(function as u32),
            stack: GuestAddr(VMALLOC + 0x4000 - self.depth),
            value,
        });
        self.depth -= 8;
    }

    /// A call that tells something and is over.
    pub(crate) fn sight(&mut self, function: F, addr: u64) {
        self.call(function, &[addr]);
        self.depth -= 8;
    }

    pub(crate) fn alloc(&mut self, function: F, arguments: &[u64], site: u64, result: u64) {
        self.call_from(function, arguments, site);
        self.ret(function, result);
    }

    pub(crate) fn free(&mut self, addr: u64) {
        self.sight(F::Kfree, addr);
    }

    /// The finished recording.
    pub(crate) fn record(self) -> Recording {
        self.finish(true)
    }

    /// The recording without its end.
    pub(crate) fn cut(self) -> Recording {
        self.finish(false)
    }

    fn finish(self, whole: bool) -> Recording {
        let contents = Contents::of(self.variant);
        Recording::from_source(self.bytes(whole, contents)).unwrap()
    }

    /// The bytes of a recording with these contents, with or without its end.
    pub(crate) fn bytes(mut self, whole: bool, contents: Contents) -> Vec<u8> {
        let time = self.tick();
        self.encoder.marker(&Marker {
            time,
            cpu: CpuId(0),
            mark: Mark::Stop,
            guest_ns: 0,
        });
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = Writer::create(file.path(), &contents.tool, &contents.metadata).unwrap();
        if let Some(btf) = &contents.btf {
            writer.btf(btf).unwrap();
        }
        if let Some(symbols) = &contents.symbols {
            writer.symbols(symbols.as_bytes()).unwrap();
        }
        writer.functions(&contents.functions).unwrap();
        for (addr, bytes) in &contents.images {
            writer
                .image(Moment::Start, GuestAddr(*addr), bytes)
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
        if whole {
            writer.finish().unwrap();
        } else {
            drop(writer);
        }
        std::fs::read(file.path()).unwrap()
    }
}

/// All of a recording but its events.
pub(crate) struct Contents {
    pub(crate) tool: String,
    pub(crate) metadata: Metadata,
    pub(crate) btf: Option<Vec<u8>>,
    pub(crate) symbols: Option<String>,
    pub(crate) functions: FunctionTable,
    pub(crate) images: Vec<(u64, Vec<u8>)>,
}

impl Contents {
    /// Those of a sound recording.
    pub(crate) fn new() -> Contents {
        Contents::of(Variant::default())
    }

    /// Those of a variant of the kernel.
    pub(crate) fn of(variant: Variant) -> Contents {
        let (btf, ids) = types(variant);
        Contents {
            tool: "0.1.0".to_owned(),
            metadata: Metadata::from([
                ("cpus".to_owned(), "2".to_owned()),
                ("kernel".to_owned(), "6.12-test".to_owned()),
                ("seed".to_owned(), "42".to_owned()),
            ]),
            btf: Some(btf),
            symbols: Some(symbols()),
            functions: functions(&ids),
            images: images(variant),
        }
    }
}
