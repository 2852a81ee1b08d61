//! Its types, symbols and watched functions.

use linemate_recording::{
    Function, FunctionId, FunctionTable, GuestAddr, Meaning, Parameter, Register, Role,
};
use linemate_types::{Linkage, Name, Type};

use super::parts::{self, Basics, entry, memory_types};
use super::places::{COUNTER, INIT_STACK, NOHZ, RQ, TOP_TABLE};
use super::variant::Variant;
use crate::btf_writer::{Endian, TypeList, member, write};

/// The functions, by their number.
#[derive(Clone, Copy, Debug)]
pub enum F {
    /// `wake_task(struct task *)`.
    WakeTask = 0,
    /// `update_entity(struct entity *)`.
    UpdateEntity = 1,
    /// `kmem_cache_alloc(struct kmem_cache *)`.
    CacheAlloc = 2,
    /// `__kmalloc(size)`.
    Kmalloc = 3,
    /// `kfree(object)`.
    Kfree = 4,
    /// `alloc_percpu(size)`.
    AllocPercpu = 5,
    /// `pte_alloc_one(_, order)`, which allocates pages.
    PteAlloc = 6,
    /// `update_rq(struct rq *)`.
    UpdateRq = 7,
    /// `lock_vector(struct vector *)`.
    LockVector = 8,
    /// `free_pages(address, order)`.
    FreePages = 9,
    /// `kmem_cache_alloc_bulk(struct kmem_cache *, …, void **)`.
    BulkAlloc = 10,
    /// `kmem_cache_alloc_from_sheaf_noprof(struct kmem_cache *)`, whose return is not recorded.
    FromSheaf = 11,
    /// `clear_page_erms`, none of whose parameters is recorded.
    ClearPage = 12,
    /// `allocate_slab`, none of whose parameters is recorded.
    AllocateSlab = 13,
    /// `free_percpu(pointer)`.
    FreePercpu = 14,
    /// `__kmalloc_array(count, size)`.
    KmallocArray = 15,
    /// `vmalloc(size)`.
    Vmalloc = 16,
    /// `vfree(address)`.
    Vfree = 17,
    /// `set_pte(pte_t *)`.
    SetPte = 18,
    /// `_raw_spin_lock_irqsave(lock)`, none of whose parameters is recorded.
    SpinLock = 19,
}

impl From<F> for FunctionId {
    fn from(function: F) -> FunctionId {
        FunctionId(function as u32)
    }
}

const NAMES: [&str; 20] = [
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
    "free_percpu",
    "__kmalloc_array",
    "vmalloc",
    "vfree",
    "set_pte",
    "_raw_spin_lock_irqsave",
];

pub(super) struct Ids {
    kmem_cache: u32,
    entity: u32,
    task: u32,
    rq: u32,
    vector: u32,
    pte: u32,
}

pub(super) fn types(variant: Variant) -> (Vec<u8>, Ids) {
    let mut t = TypeList::default();
    let basics = Basics::new(&mut t);
    let Basics { int, long, list } = basics;
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
        if variant.namesakes { "rq@server" } else { "rq" },
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
        linkage: Linkage::Static,
    });
    let pte = t.structure("", 8, &[member("pte", long, 0)]);
    t.typedef("pte_t", pte);
    let compound = match variant.compound_masks {
        true => "compound_info",
        false => "compound_head",
    };
    let kmem_cache = memory_types(&mut t, basics, compound);
    t.percpu(&[("runqueues", rq, RQ as u32, 128), ("ticks", long, 0x200, 8)]);
    if variant.namesakes {
        t.structure(
            "rq",
            16,
            &[member("head", long, 0), member("tail", long, 8)],
        );
        t.typedef("entity_t", entity);
    }
    let ids = Ids {
        kmem_cache: kmem_cache.0,
        entity: entity.0,
        task: task.0,
        rq: rq.0,
        vector: vector.0,
        pte: pte.0,
    };
    (write(&t.types, Endian::Little).unwrap(), ids)
}

pub(super) fn symbols() -> String {
    let percpu = [
        ("runqueues", RQ),
        ("ticks", 0x200),
        ("untyped_percpu", 0x300),
    ];
    let variables = [
        ("nohz", NOHZ),
        ("after_nohz", NOHZ + 64),
        ("counter", COUNTER),
        ("init_top_pgt", TOP_TABLE),
        // The first idle stack as the linker has it: between two sections, whose marks have its
        // address.
        ("__end_rodata_aligned", INIT_STACK),
        ("_sdata", INIT_STACK),
        ("init_stack", INIT_STACK),
        ("__end_init_stack", INIT_STACK + 0x4000),
    ];
    let mut text = parts::symbols(&NAMES, &variables, &percpu);
    for function in [F::UpdateRq, F::WakeTask] {
        let name = NAMES[function as usize];
        text += &format!("{:016x} t {name}.part.0\n", split_off(function));
    }
    text
}

/// An instruction in the part that the compiler split off a function: `update_rq.part.0` of
/// `update_rq`.
pub fn split_off(function: F) -> u64 {
    entry(function as usize) + 0x80
}

/// A return address in a function.
pub fn site(function: F) -> u64 {
    entry(function as usize) + 0x50
}

pub(super) fn functions(ids: &Ids) -> FunctionTable {
    use Meaning::{Cache, Count, Object, ObjectArray, Order, Size, StructPointer};
    use Register::{Rcx, Rdi, Rsi};
    const NO: bool = false;
    const RETURNS: bool = true;
    type WatchedRow<'a> = (Role, bool, &'a [(Register, Meaning)]);
    let rows: [WatchedRow<'_>; 19] = [
        (Role::Plain, NO, &[(Rdi, StructPointer(ids.task))]),
        (Role::Plain, NO, &[(Rdi, StructPointer(ids.entity))]),
        (Role::HeapAlloc, RETURNS, &[(Rdi, Cache)]),
        (Role::HeapAlloc, RETURNS, &[(Rdi, Size)]),
        (Role::HeapFree, NO, &[(Rdi, Object)]),
        (Role::PercpuAlloc, RETURNS, &[(Rdi, Size)]),
        (Role::PageAlloc, RETURNS, &[(Rsi, Order)]),
        (Role::Plain, NO, &[(Rdi, StructPointer(ids.rq))]),
        (Role::Plain, NO, &[(Rdi, StructPointer(ids.vector))]),
        (Role::PageFree, NO, &[(Rdi, Object), (Rsi, Order)]),
        (
            Role::HeapAlloc,
            RETURNS,
            &[(Rdi, Cache), (Rcx, ObjectArray)],
        ),
        (Role::Plain, NO, &[(Rdi, StructPointer(ids.kmem_cache))]),
        (Role::Plain, NO, &[]),
        (Role::Plain, NO, &[]),
        (Role::PercpuFree, NO, &[(Rdi, Object)]),
        (Role::HeapAlloc, RETURNS, &[(Rdi, Count), (Rsi, Size)]),
        (Role::VirtualAlloc, RETURNS, &[(Rdi, Size)]),
        (Role::VirtualFree, NO, &[(Rdi, Object)]),
        (Role::Plain, NO, &[(Rdi, StructPointer(ids.pte))]),
    ];
    let function = |(i, (role, returns, parameters)): (usize, WatchedRow<'_>)| Function {
        entry: GuestAddr(entry(i)),
        size: 0x100,
        name: NAMES[i].to_owned(),
        role,
        returns,
        parameters: parameters
            .iter()
            .map(|&(register, meaning)| Parameter { register, meaning })
            .collect(),
    };
    FunctionTable {
        functions: rows.into_iter().enumerate().map(function).collect(),
    }
}
