//! Its memory at the start.

use linemate_recording::PAGE;

use super::parts::{heap, mark_slab, put};
use super::places::{APIC, DEVICE, DIRECT, PAGES, POINTED, RQ, STATS, TOP_TABLE, UNITS};
use super::variant::Variant;

/// The page tables on the way to [`DEVICE`] and [`APIC`], in frames 57 to 62 and at [`TOP_TABLE`].
fn page_tables() -> Vec<(u64, Vec<u8>)> {
    const PRESENT: u64 = 1;
    /// Cache disabled, write through: uncached.
    const UNCACHED: u64 = 0x18;
    let mut tables = vec![(TOP_TABLE, vec![0u8; PAGE as usize])];
    for (page, first) in [(DEVICE, 57), (APIC, 60)] {
        let mut table = 0;
        for (shift, frame) in [(39, first), (30, first + 1), (21, first + 2), (12, 0xfed00)] {
            let leaf = if shift == 12 { UNCACHED } else { 0 };
            let entry = (frame * PAGE) | PRESENT | leaf;
            let index = (page >> shift & 511) as usize;
            put(&mut tables[table].1, index * 8, entry, 8);
            if shift > 12 {
                table = tables.len();
                tables.push((DIRECT + frame * PAGE, vec![0u8; PAGE as usize]));
            }
        }
    }
    tables
}

/// The images at the start: variables, caches with their names, struct pages, page tables.
pub(super) fn images(variant: Variant) -> Vec<(u64, Vec<u8>)> {
    let users = if variant.merged_caches { 2 } else { 1 };
    let mut images = Vec::from(heap(&[("task", 256), ("kmalloc-64", 64)], users, &UNITS));
    if let Some((_, pages)) = images.last_mut() {
        // 16 and 17: one slab of two pages, whose second page keeps the head's address, or the
        // address bits of the pair.
        mark_slab(pages, 16, 0);
        let head = if variant.compound_masks {
            !127
        } else {
            PAGES + 16 * 64
        };
        put(pages, 17 * 64 + 8, head | 1, 8);
        // 10: a page table. 11: a page of a process. 12: free.
        put(pages, 10 * 64 + 48, 0xf200_0000, 4);
        put(pages, 11 * 64, 1 << 5, 8);
        put(pages, 12 * 64 + 48, 0xf000_0000, 4);
    }
    images.extend(page_tables());
    if variant.pointers {
        let mut rq = vec![0u8; 128];
        put(&mut rq, 80, STATS, 8);
        put(&mut rq, 88, POINTED, 8);
        images.push((UNITS[0] + RQ, rq));
    }
    images
}
