//! Where device registers are mapped: uncached pages of the vmalloc area and of the fixed mappings.
//!
//! The kernel's own page tables show this. A recording has those that lead to such pages; an older
//! recording has none, and nothing is found then.

use std::ops::Range;

use linemate_recording::PAGE;

use crate::memory::KernelMemory;

/// Mappings at addresses fixed when the kernel is built (Documentation/arch/x86/x86_64/mm.rst).
pub(crate) const FIXED_MAPPINGS: Range<u64> = 0xffff_ffff_ff00_0000..0xffff_ffff_ff80_0000;

/// The maximum number of tables followed, which also bounds the result: those of a damaged image
/// may form cycles.
const TABLES_MAX: usize = 1 << 12;

/// The address bits that a table of each level resolves, from top to last: x86-64 with four levels,
/// as on guests' CPUs (QEMU's `max`).
const SHIFTS: [u32; 4] = [39, 30, 21, 12];

const PRESENT: u64 = 1;
const LARGE: u64 = 1 << 7;
const FRAME: u64 = 0x000f_ffff_ffff_f000;

/// The uncacheable pages of `area`, as ranges of addresses, ascending. `top` is the address of the
/// top table (`init_top_pgt`), `direct` the start of the direct map.
pub(crate) fn uncached(
    memory: &KernelMemory,
    top: u64,
    direct: u64,
    area: &Range<u64>,
) -> Vec<Range<u64>> {
    let mut walk = Walk {
        memory,
        direct,
        area,
        left: TABLES_MAX,
        found: Vec::new(),
    };
    walk.table(0, 0, top);
    walk.found
}

struct Walk<'a> {
    memory: &'a KernelMemory,
    direct: u64,
    area: &'a Range<u64>,
    left: usize,
    found: Vec<Range<u64>>,
}

impl Walk<'_> {
    /// Follows the table at `table`, which maps from `start` on. Recursion: one call per level.
    fn table(&mut self, level: usize, start: u64, table: u64) {
        let memory = self.memory;
        let (Some(&shift), Some(bytes)) = (SHIFTS.get(level), memory.bytes(table, PAGE as usize))
        else {
            return;
        };
        let Some(left) = self.left.checked_sub(1) else {
            return;
        };
        self.left = left;
        for (index, word) in (0u64..).zip(bytes.chunks_exact(8)) {
            let mut at = start.wrapping_add(index << shift);
            // The upper half of the top table is the kernel's: its addresses are sign-extended from
            // bit 47.
            if level == 0 && index >= 256 {
                at |= 0xffff << 48;
            }
            let last = at.wrapping_add((1 << shift) - 1);
            let entry = word.try_into().map_or(0, u64::from_le_bytes);
            if last < self.area.start || at >= self.area.end || entry & PRESENT == 0 {
                continue;
            }
            // Pages of 2 MiB and 1 GiB end the walk early; the top level has none.
            if shift == 12 || (shift < 39 && entry & LARGE != 0) {
                if is_uncached(entry, shift) {
                    self.add(at..last.saturating_add(1));
                }
            } else {
                self.table(level + 1, at, self.direct.wrapping_add(entry & FRAME));
            }
        }
    }

    fn add(&mut self, page: Range<u64>) {
        match self.found.last_mut() {
            Some(before) if before.end == page.start => before.end = page.end,
            _ => self.found.push(page),
        }
    }
}

/// Whether a last-level entry selects an uncached memory type. The three bits (PAT, PCD, PWT) are
/// an index into what Linux programs (arch/x86/mm/pat/memtype.c, `pat_bp_init`): write-back,
/// write-combining, UC-, UC, then write-back, write-protected, UC-, write-through.
fn is_uncached(entry: u64, shift: u32) -> bool {
    let pat = if shift == 12 { 7 } else { 12 };
    let index = (entry >> 3 & 3) | (entry >> pat & 1) << 2;
    // Write-combining counts as uncached, too: no cache holds the line. Write-through (7) and
    // write-protected (5) are cached.
    matches!(index, 1 | 2 | 3 | 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: u64 = 0xffff_ffff_8200_0000;
    const DIRECT: u64 = 0xffff_8880_0000_0000;
    const UC: u64 = 1 << 3 | 1 << 4;

    /// A table whose entries are `(index, entry)`.
    fn table(at: u64, entries: &[(u64, u64)]) -> (u64, Vec<u8>) {
        let mut bytes = vec![0; 4096];
        for (index, entry) in entries {
            let from = *index as usize * 8;
            bytes[from..from + 8].copy_from_slice(&entry.to_le_bytes());
        }
        (at, bytes)
    }

    #[test]
    fn pages_that_are_not_cached_are_found_at_every_size() {
        let area = 0xffff_c900_0000_0000u64;
        let at = |shift: u32| area >> shift & 511;
        let memory = KernelMemory::new(vec![
            table(TOP, &[(at(39), 0x1000 | 1)]),
            table(DIRECT + 0x1000, &[(at(30), 0x2000 | 1)]),
            // 2 MiB: write-combining, then plain memory with the bit that only means that it is
            // large.
            table(
                DIRECT + 0x2000,
                &[
                    (0, 0x3000 | 1),
                    (1, 0x4000_0000 | LARGE | 1 << 3 | 1),
                    (2, LARGE | 1),
                ],
            ),
            table(
                DIRECT + 0x3000,
                &[
                    (4, 0xfed0_0000 | UC | 1),
                    (5, 0xfed0_1000 | UC | 1),
                    (6, 0xfed0_2000 | UC),
                    (7, 0x7000 | 1),
                    // Write-protected: reads are cached.
                    (8, 0x8000 | 1 << 7 | 1 << 3 | 1),
                ],
            ),
        ]);
        let all = area..area + (1 << 39);
        assert_eq!(
            uncached(&memory, TOP, DIRECT, &all),
            [
                area + 4 * 4096..area + 6 * 4096,
                area + (2 << 20)..area + (4 << 20)
            ]
        );
        let narrow = area + 5 * 4096..area + 6 * 4096;
        assert_eq!(
            uncached(&memory, TOP, DIRECT, &narrow),
            std::slice::from_ref(&narrow)
        );
        assert_eq!(uncached(&KernelMemory::default(), TOP, DIRECT, &all), []);
    }

    #[test]
    fn tables_that_lead_into_themselves_have_an_end() {
        let all: Vec<(u64, u64)> = (0..512).map(|i| (i, 1)).collect();
        let memory = KernelMemory::new(vec![table(TOP, &all), table(DIRECT, &all)]);
        assert_eq!(uncached(&memory, TOP, DIRECT, &(0..u64::MAX)), []);
    }
}
