//! A small kernel for tests of remedies: four CPUs, heap types that point to each other, a bitmap
//! with a counter next to it.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use linemate_recording::{
    AccessKind, Function, FunctionId, FunctionTable, GuestAddr, Meaning, Metadata, Parameter,
    Recording, Register, Role,
};
use linemate_testkit::btf_writer::{Endian, TypeList, member, write};
use linemate_testkit::world::parts::{Basics, entry, heap, memory_types, slab_at, symbols};
use linemate_testkit::world::{self, Contents, DIRECT};
use linemate_types::{Linkage, Name, Type};

pub(crate) use linemate_testkit::world::NOHZ;

pub(crate) const CPUS: u16 = 4;

/// The heap types, by their number; each has a cache and a slab of its name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Heap {
    /// 256 bytes: `struct item *item; long near; …; atomic_t stat` (at 64) `; long beside` (72)
    /// `; int mode` (128) `; int kind` (136).
    Crate = 0,
    /// `{ long load; …; long size (64) }`, 128 bytes.
    Item = 1,
    /// `{ atomic_t events; atomic_t bytes (8) }`, 64 bytes.
    Stats = 2,
    /// The same after a lock: `{ struct qspinlock lock; atomic_t events (8) }`, 64 bytes.
    Guarded = 3,
    /// No type of that name: `kmalloc-64`.
    Block = 4,
    /// `{ long n; long sum }`, 16 bytes, in slots of 16: neighbours as in an array.
    Slot = 5,
    /// `{ long n; long sum }`, 16 bytes, in slots of 32.
    Apart = 6,
    /// `{ long all; struct { long n } each[4] (8); long words[4] (40) }`, 128 bytes.
    Pool = 7,
    /// `{ long n; long sum (8); …; long last (88) }`, 96 bytes, in slots of 96.
    Chest = 8,
}

const CACHES: [(&str, u64); 9] = [
    ("crate", 256),
    ("item", 128),
    ("stats", 64),
    ("guarded", 64),
    ("kmalloc-64", 64),
    ("slot", 16),
    ("kmalloc-32", 32),
    ("pool", 128),
    ("chest", 96),
];

/// The address of an object.
pub(crate) fn object(heap: Heap, number: u64) -> u64 {
    slab_at(heap as usize) + number * CACHES[heap as usize].1
}

const NAMES: [&str; 8] = [
    "enter",
    "leave",
    "look",
    "clear",
    "use_slot",
    "use_apart",
    "use_pool",
    "use_chest",
];

/// The functions, by their number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum F {
    Enter = 0,
    Leave = 1,
    Look = 2,
    Clear = 3,
    Slot = 4,
    Apart = 5,
    Pool = 6,
    Chest = 7,
}

/// Events of a chunk: several chunks, so that threads have something to share.
const CHUNK: u32 = 256;

pub(crate) struct World(world::World);

impl World {
    pub(crate) fn new() -> World {
        World(world::World::with_chunks_of(CHUNK))
    }

    /// Lets time pass.
    pub(crate) fn wait(&mut self, instructions: u64) {
        self.0.wait(instructions);
    }

    fn access(&mut self, cpu: u16, (kind, function): (AccessKind, F), addr: u64, size: u8) {
        self.0
            .access_at(cpu, kind, addr, size, pc(kind, function), false);
    }

    pub(crate) fn load(&mut self, cpu: u16, function: F, addr: u64) {
        self.access(cpu, (AccessKind::Load, function), addr, 4);
    }

    /// Eight bytes.
    pub(crate) fn load_pointer(&mut self, cpu: u16, function: F, addr: u64) {
        self.access(cpu, (AccessKind::Load, function), addr, 8);
    }

    pub(crate) fn store(&mut self, cpu: u16, function: F, addr: u64) {
        self.access(cpu, (AccessKind::Store, function), addr, 4);
    }

    pub(crate) fn silent_store(&mut self, cpu: u16, function: F, addr: u64) {
        self.0
            .silent_store_at(cpu, addr, pc(AccessKind::Store, function));
    }

    pub(crate) fn rmw(&mut self, cpu: u16, function: F, addr: u64) {
        self.access(cpu, (AccessKind::Rmw, function), addr, 4);
    }

    /// The finished recording, at whose end each function is passed a pointer to an object of its
    /// type.
    pub(crate) fn record(mut self) -> Recording {
        let heads = [
            Heap::Crate,
            Heap::Item,
            Heap::Stats,
            Heap::Guarded,
            Heap::Slot,
            Heap::Apart,
            Heap::Pool,
            Heap::Chest,
        ];
        for (function, heap) in (0u32..).zip(heads) {
            for number in 0..4 {
                self.0.sight(FunctionId(function), object(heap, number));
            }
        }
        self.0.record_of(true, contents())
    }
}

/// A function's instruction for a kind of access.
fn pc(kind: AccessKind, function: F) -> u64 {
    entry(function as usize) + 0x10 + 4 * (kind as u64)
}

fn contents() -> Contents {
    let (btf, heads) = types();
    let variables = [("nohz", NOHZ), ("after_nohz", NOHZ + 64)];
    let units = [0, 1, 2, 3].map(|cpu| DIRECT + (32 + 4 * cpu) * 4096);
    Contents {
        tool: "0.1.0".to_owned(),
        metadata: Metadata::from([("cpus".to_owned(), CPUS.to_string())]),
        btf: Some(btf),
        symbols: Some(symbols(&NAMES, &variables, &[])),
        functions: functions(heads),
        images: Vec::from(heap(&CACHES, 1, &units)),
    }
}

/// BTF, and the ids of the heap types in their order.
fn types() -> (Vec<u8>, [u32; 8]) {
    let mut t = TypeList::default();
    let basics = Basics::new(&mut t);
    let Basics { int, long, .. } = basics;
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
    let two = [member("n", long, 0), member("sum", long, 8)];
    let slot = t.structure("slot", 16, &two);
    let apart = t.structure("apart", 16, &two);
    let one = t.structure("one", 8, &[member("n", long, 0)]);
    let (each, words) = (t.array(one, 4), t.array(long, 4));
    let pool = t.structure(
        "pool",
        128,
        &[
            member("all", long, 0),
            member("each", each, 8),
            member("words", words, 40),
        ],
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
    memory_types(&mut t, basics, "compound_head");
    let three = [
        member("n", long, 0),
        member("sum", long, 8),
        member("last", long, 88),
    ];
    let chest = t.structure("chest", 96, &three);
    let heads = [
        boxes.0, item.0, stats.0, guarded.0, slot.0, apart.0, pool.0, chest.0,
    ];
    (write(&t.types, Endian::Little).unwrap(), heads)
}

fn functions(heads: [u32; 8]) -> FunctionTable {
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
