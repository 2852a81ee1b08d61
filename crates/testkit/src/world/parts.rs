//! The common part of every synthetic kernel: the types of its memory management, the symbols that
//! lead to it, and a heap.

use linemate_recording::PAGE;
use linemate_types::{Enumerator, Name, Type, TypeId};

use super::places::{DIRECT, FRAMES, IMAGE, PAGES, VMALLOC};
use crate::btf_writer::{TypeList, member};

/// The variables that the symbols of [`symbols`] lead to.
pub const DATA: u64 = IMAGE + 0x1000;
/// The first cache, a `struct kmem_cache` in frame 1. The others follow it.
const CACHES: u64 = DIRECT + PAGE;
/// Bytes of one.
const CACHE_BYTES: u64 = 64;
/// The first slab's frame: each cache has one of a page, in their order.
const FIRST_SLAB: u64 = 8;

/// Types that others are made of.
#[derive(Clone, Copy, Debug)]
pub struct Basics {
    /// `int`.
    pub int: TypeId,
    /// `unsigned long`.
    pub long: TypeId,
    /// `struct list_head`.
    pub list: TypeId,
}

impl Basics {
    pub fn new(t: &mut TypeList) -> Basics {
        let int = t.int("int", 4);
        let long = t.unsigned("long unsigned int", 8);
        let list = t.structure(
            "list_head",
            16,
            &[member("next", long, 0), member("prev", long, 8)],
        );
        Basics { int, long, list }
    }
}

/// Adds the types that describe pages and slabs; returns `struct kmem_cache`. `compound` is what
/// `struct page` calls the member that leads to the head of several pages.
pub fn memory_types(t: &mut TypeList, basics: Basics, compound: &str) -> TypeId {
    let Basics { int, long, list } = basics;
    let kmem_cache = t.structure(
        "kmem_cache",
        CACHE_BYTES as u32,
        &[
            member("name", long, 0),
            member("size", int, 8),
            member("object_size", int, 12),
            member("list", list, 16),
            member("refcount", int, 32),
        ],
    );
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
    enumeration(t, "pageflags", &[("PG_lru", 5), ("PG_reserved", 13)]);
    enumeration(
        t,
        "pagetype",
        &[
            ("PGTY_buddy", 0xf0),
            ("PGTY_table", 0xf2),
            ("PGTY_slab", 0xf5),
        ],
    );
    kmem_cache
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

/// Where a function starts, by its number.
pub fn entry(function: usize) -> u64 {
    IMAGE + 0x100 * function as u64
}

/// As in `/proc/kallsyms`: functions by their number, variables of the image, and what leads to the
/// memory's images. Per-CPU variables are between 0 and 0x400.
pub fn symbols(functions: &[&str], variables: &[(&str, u64)], percpu: &[(&str, u64)]) -> String {
    let mut rows = vec![("__per_cpu_start", 0, 'A')];
    rows.extend(percpu.iter().map(|(name, at)| (*name, *at, 'A')));
    rows.push(("__per_cpu_end", 0x400, 'A'));
    let functions = functions.iter().enumerate();
    rows.extend(functions.map(|(i, name)| (*name, entry(i), 'T')));
    let memory = [
        ("_text", IMAGE - 0x1000),
        ("slab_caches", DATA),
        ("page_offset_base", DATA + 0x100),
        ("vmalloc_base", DATA + 0x108),
        ("vmemmap_base", DATA + 0x110),
        ("max_pfn", DATA + 0x118),
        ("__per_cpu_offset", DATA + 0x200),
        ("cache_names", DATA + 0x300),
    ];
    let variables = memory.iter().chain(variables);
    rows.extend(variables.map(|(name, at)| (*name, *at, 'D')));
    rows.push(("_end", IMAGE + 0x10000, 'D'));
    rows.iter()
        .map(|(name, at, kind)| format!("{at:016x} {kind} {name}\n"))
        .collect()
}

pub fn put(bytes: &mut [u8], at: usize, value: u64, size: usize) {
    bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
}

/// A cache, by its number.
pub fn cache_at(number: usize) -> u64 {
    CACHES + CACHE_BYTES * number as u64
}

/// The first byte of a cache's slab.
pub fn slab_at(number: usize) -> u64 {
    DIRECT + (FIRST_SLAB + number as u64) * PAGE
}

/// Marks a page frame as a slab of a cache.
pub fn mark_slab(pages: &mut [u8], frame: u64, cache: usize) {
    let at = frame as usize * 64;
    put(pages, at + 16, cache_at(cache), 8);
    put(pages, at + 48, 0xf500_0000, 4);
}

/// The images at the start of a heap with these caches (name, bytes of an object): variables,
/// caches, struct pages. `users` of each cache; the per-CPU units of as many CPUs.
pub fn heap(caches: &[(&str, u64)], users: u64, units: &[u64]) -> [(u64, Vec<u8>); 3] {
    let mut data = vec![0u8; 0x400];
    put(&mut data, 0, cache_at(0) + 16, 8);
    for (i, value) in [DIRECT, VMALLOC, PAGES, FRAMES].into_iter().enumerate() {
        put(&mut data, 0x100 + 8 * i, value, 8);
    }
    for (i, unit) in units.iter().chain([&IMAGE]).enumerate() {
        put(&mut data, 0x200 + 8 * i, *unit, 8);
    }
    let mut list = vec![0u8; CACHE_BYTES as usize * caches.len()];
    let mut pages = vec![0u8; 64 * FRAMES as usize];
    for page in pages.chunks_mut(64) {
        put(page, 48, 0xffff_ffff, 4);
        put(page, 52, 1, 4);
    }
    for (number, (name, size)) in caches.iter().enumerate() {
        let text = 0x300 + 16 * number;
        data[text..text + name.len()].copy_from_slice(name.as_bytes());
        let about = &mut list[CACHE_BYTES as usize * number..];
        put(about, 0, DATA + text as u64, 8);
        put(about, 8, *size, 4);
        put(about, 12, *size, 4);
        let last = number + 1 == caches.len();
        let next = if last {
            DATA
        } else {
            cache_at(number + 1) + 16
        };
        put(about, 16, next, 8);
        put(about, 32, users, 4);
        mark_slab(&mut pages, FIRST_SLAB + number as u64, number);
    }
    [(DATA, data), (CACHES, list), (PAGES, pages)]
}
