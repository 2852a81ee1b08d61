//! Its memory at the start.

use super::{
    APIC, CACHE_KMALLOC, CACHE_TASK, DEVICE, DIRECT, FRAMES, IMAGE, PAGES, POINTED, RQ,
    SLAB_CACHES, STATS, TOP_TABLE, UNITS, VMALLOC, Variant,
};

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
pub(super) fn images(variant: Variant) -> Vec<(u64, Vec<u8>)> {
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
        let users = if variant.merged_caches { 2 } else { 1 };
        put(&mut caches, at + 32, users, 4);
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
    // 16 and 17: one slab of two pages, whose second page keeps the head's address, or the address bits of the pair.
    slab(16, CACHE_TASK);
    let head = if variant.compound_masks {
        !127
    } else {
        PAGES + 16 * 64
    };
    put(&mut pages, 17 * 64 + 8, head | 1, 8);
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
