//! The guest's memory, read from outside while the guest is paused.
//!
//! It is a part of QEMU's own memory, found by its length, so QEMU need not be asked: it must not
//! be disturbed at the start of a recording. Addresses of the kernel's mappings are translated by
//! the guest's own page tables.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use linemate_recording::PAGE;

use crate::error::GuestError;
use crate::shape::GuestShape;

/// Where QEMU's q35 machine has a hole for devices: memory that does not fit below is above 4 GiB.
/// (hw/i386/pc_q35.c: with 0xb0000000 bytes or more the hole starts at 2 GiB.)
const HOLE_SMALL: u64 = 0xb000_0000;
const HOLE_LARGE: u64 = 0x8000_0000;
const ABOVE: u64 = 1 << 32;

/// Without address randomisation the kernel image's mapping starts at physical address 0 here.
pub(crate) const IMAGE_BASE: u64 = 0xffff_ffff_8000_0000;

/// Something that has physical memory.
pub(crate) trait Physical {
    /// Fills `buffer` from a physical address.
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), GuestError>;
}

/// The memory of a guest in a running QEMU.
#[derive(Debug)]
pub(crate) struct Ram {
    /// QEMU's own memory.
    process: File,
    /// Where the guest's is in it, in the order of guest memory.
    parts: Vec<Range<u64>>,
    below: u64,
    total: u64,
}

impl Ram {
    /// Finds the memory of process `pid`, which was started with the arguments of [`GuestShape`].
    /// `top` is the physical address of the kernel's top page table.
    pub(crate) fn open(pid: u32, shape: &GuestShape, top: u64) -> Result<Self, GuestError> {
        let nodes = u64::from(shape.numa_nodes.max(1));
        let length = shape.memory_bytes / nodes;
        let path = PathBuf::from(format!("/proc/{pid}/maps"));
        let maps = fs::read_to_string(&path).map_err(GuestError::io("read", &path))?;
        let mut parts: Vec<Range<u64>> = maps.lines().filter_map(anonymous).collect();
        parts.retain(|part| part.end - part.start == length);
        if parts.len() as u64 != nodes {
            return Err(GuestError::Memory(format!(
                "QEMU has {} areas of {length} bytes, not {nodes}",
                parts.len()
            )));
        }
        let path = PathBuf::from(format!("/proc/{pid}/mem"));
        let ram = Ram {
            process: File::open(&path).map_err(GuestError::io("open", &path))?,
            parts,
            below: below_hole(shape.memory_bytes),
            total: shape.memory_bytes,
        };
        ram.in_order(top)
    }

    /// Its parts in the order of guest memory. QEMU maps them in the order of its command line,
    /// each below the one before; above it where stacks have no limit.
    fn in_order(mut self, top: u64) -> Result<Self, GuestError> {
        if self.has_table(top) {
            return Ok(self);
        }
        self.parts.reverse();
        match self.has_table(top) {
            true => Ok(self),
            false => Err(GuestError::Memory(format!(
                "no page table of the kernel at physical address {top:#x}"
            ))),
        }
    }

    /// Whether the top page table is there: it maps itself. That a page is not empty says nothing:
    /// a guest that works has used the same page of each node.
    fn has_table(&self, top: u64) -> bool {
        let memory = KernelMemory::new(self, top);
        let found = memory.translate(top.wrapping_add(IMAGE_BASE));
        matches!(found, Ok(Some((physical, _))) if physical == top)
    }
}

/// The addresses of a line of `/proc/PID/maps` that is writable memory of no file.
fn anonymous(line: &str) -> Option<Range<u64>> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    if words.next()? != "rw-p" || words.nth(2)? != "0" || words.next().is_some() {
        return None;
    }
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some(address(start)?..address(end)?)
}

fn below_hole(total: u64) -> u64 {
    total.min(if total >= HOLE_SMALL {
        HOLE_LARGE
    } else {
        HOLE_SMALL
    })
}

/// Ranges of physical addresses that hold memory: (start, end).
pub(crate) fn ranges(total: u64) -> Vec<(u64, u64)> {
    let below = below_hole(total);
    let mut ranges = vec![(0, below)];
    if total > below {
        ranges.push((ABOVE, ABOVE + (total - below)));
    }
    ranges
}

impl Physical for Ram {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), GuestError> {
        let beyond = || GuestError::Memory(format!("no memory at physical address {address:#x}"));
        // From here on an offset in the parts, which have no hole.
        let mut offset = match address.checked_sub(ABOVE) {
            Some(above) => self.below + above,
            None if address < self.below => address,
            None => return Err(beyond()),
        };
        let end = offset.checked_add(buffer.len() as u64).ok_or_else(beyond)?;
        if end > self.total {
            return Err(beyond());
        }
        let mut rest = buffer;
        for part in &self.parts {
            let length = part.end - part.start;
            if offset >= length {
                offset -= length;
                continue;
            }
            let here = usize::try_from(length - offset)
                .unwrap_or(usize::MAX)
                .min(rest.len());
            let (now, later) = rest.split_at_mut(here);
            self.process
                .read_exact_at(now, part.start + offset)
                .map_err(GuestError::io("read", Path::new("the guest's memory")))?;
            // A read may continue in the next node's memory.
            (rest, offset) = (later, 0);
        }
        Ok(())
    }
}

/// The kernel's address space.
pub(crate) struct KernelMemory<'a> {
    physical: &'a dyn Physical,
    /// Physical address of the top page table.
    top: u64,
}

const PRESENT: u64 = 1;
const LARGE: u64 = 1 << 7;
const FRAME: u64 = 0x000f_ffff_ffff_f000;

/// Bits of a last-level entry that choose the memory type; all clear is write-back, as for all of
/// RAM (arch/x86/include/asm/pgtable_types.h). The third one is bit 7 in an entry of a 4 KiB page,
/// where larger ones have [`LARGE`], and bit 12 in those.
const WRITE_THROUGH: u64 = 1 << 3;
const CACHE_DISABLE: u64 = 1 << 4;
const PAT_SMALL: u64 = 1 << 7;
const PAT_LARGE: u64 = 1 << 12;

/// The maximum number of page tables visited: those of a broken guest may form cycles.
const MAX_TABLES: usize = 1 << 16;

/// The address bits that a table of this level resolves, from the top level to the last.
const SHIFTS: [u32; 4] = [39, 30, 21, 12];

/// Receives a table's physical address and its bytes.
type TakeTable<'t> = dyn FnMut(u64, &[u8]) -> Result<(), GuestError> + 't;

/// Whether this entry of a table of `shift` maps a page, and the page is not plain write-back
/// memory.
fn maps_special(entry: u64, shift: u32) -> bool {
    let pat = if shift == 12 { PAT_SMALL } else { PAT_LARGE };
    entry & (WRITE_THROUGH | CACHE_DISABLE | pat) != 0
}

fn is_leaf(entry: u64, shift: u32) -> bool {
    shift == 12 || (shift < 39 && entry & LARGE != 0)
}

impl<'a> KernelMemory<'a> {
    /// Reads through the page table at this physical address.
    pub(crate) fn new(physical: &'a dyn Physical, top: u64) -> Self {
        KernelMemory { physical, top }
    }

    /// The physical address of a virtual one, and how many bytes its page has from there. `None`:
    /// not mapped.
    fn translate(&self, address: u64) -> Result<Option<(u64, u64)>, GuestError> {
        let mut table = self.top;
        // Four levels, because the guest's CPU has no more (`la57=off`).
        for shift in SHIFTS {
            let index = address >> shift & 511;
            let mut entry = [0; 8];
            self.physical.read(table + index * 8, &mut entry)?;
            let entry = u64::from_le_bytes(entry);
            if entry & PRESENT == 0 {
                return Ok(None);
            }
            if is_leaf(entry, shift) {
                let size = 1u64 << shift;
                let within = address & (size - 1);
                return Ok(Some((
                    // In an entry of a huge page the low bits of the frame are flags (`PAT_LARGE`).
                    (entry & FRAME & !(size - 1)) + within,
                    size - within,
                )));
            }
            table = entry & FRAME;
        }
        Ok(None)
    }

    /// Reads `length` bytes; an unmapped address is an error.
    pub(crate) fn read(&self, address: u64, length: usize) -> Result<Vec<u8>, GuestError> {
        let mut bytes = vec![0; length];
        let mut at = 0;
        while at < length {
            let here = address.wrapping_add(at as u64);
            let Some((physical, left)) = self.translate(here)? else {
                return Err(GuestError::Memory(format!(
                    "address {here:#x} is not mapped"
                )));
            };
            let end = length.min(at.saturating_add(usize::try_from(left).unwrap_or(usize::MAX)));
            if let Some(part) = bytes.get_mut(at..end) {
                self.physical.read(physical, part)?;
            }
            at = end;
        }
        Ok(bytes)
    }

    /// The 64-bit word at an address.
    pub(crate) fn word(&self, address: u64) -> Result<u64, GuestError> {
        let bytes = self.read(address, 8)?;
        Ok(bytes.try_into().map_or(0, u64::from_le_bytes))
    }

    /// The page tables on the way to pages of `area` that are not mapped as plain memory
    /// (write-back): mostly device registers. `take` gets each table's physical address and bytes,
    /// the top one's last.
    pub(crate) fn special_tables(
        &self,
        area: &Range<u64>,
        mut take: impl FnMut(u64, &[u8]) -> Result<(), GuestError>,
    ) -> Result<(), GuestError> {
        let mut left = MAX_TABLES;
        // The top table's entries are those of the upper half of the address space, sign-extended.
        self.special_below(0, 0, self.top, area, &mut left, &mut take)?;
        Ok(())
    }

    /// Walks the table at `table`, which maps from `start` on at `level`; returns whether it leads
    /// to a special page.
    fn special_below(
        &self,
        level: usize,
        start: u64,
        table: u64,
        area: &Range<u64>,
        left: &mut usize,
        take: &mut TakeTable<'_>,
    ) -> Result<bool, GuestError> {
        let Some(&shift) = SHIFTS.get(level) else {
            return Ok(false);
        };
        *left = left.checked_sub(1).ok_or_else(|| {
            GuestError::Memory(format!("more than {MAX_TABLES} page tables for {area:#x?}"))
        })?;
        let mut bytes = [0; PAGE as usize];
        self.physical.read(table, &mut bytes)?;
        let mut special = false;
        for (index, word) in (0u64..).zip(bytes.chunks_exact(8)) {
            let mut at = start.wrapping_add(index << shift);
            if level == 0 && index >= 256 {
                at |= 0xffff << 48;
            }
            let last = at.wrapping_add((1 << shift) - 1);
            // `last`, not the end: that of the top entry exceeds 64 bits.
            if last < area.start || at >= area.end {
                continue;
            }
            let entry = word.try_into().map_or(0, u64::from_le_bytes);
            if entry & PRESENT == 0 {
                continue;
            }
            special |= if is_leaf(entry, shift) {
                maps_special(entry, shift)
            } else {
                self.special_below(level + 1, at, entry & FRAME, area, left, take)?
            };
        }
        if special {
            take(table, &bytes)?;
        }
        Ok(special)
    }

    /// The mapped parts of `start..end`, each with its bytes; neighbours are joined up to `piece`
    /// bytes.
    pub(crate) fn mapped(
        &self,
        start: u64,
        end: u64,
        piece: usize,
        mut take: impl FnMut(u64, &[u8]) -> Result<(), GuestError>,
    ) -> Result<(), GuestError> {
        let (mut at, mut first, mut bytes) = (start, start, Vec::new());
        while at < end {
            let here = self.translate(at)?;
            let step = here
                .map_or(PAGE - at % PAGE, |(_, left)| left)
                .min(end - at);
            // Not more than a piece at once: a huge page may be larger.
            let step = step.min(piece as u64);
            if let Some((physical, _)) = here {
                if bytes.is_empty() {
                    first = at;
                }
                let length = bytes.len();
                bytes.resize(length + usize::try_from(step).unwrap_or(0), 0);
                if let Some(part) = bytes.get_mut(length..) {
                    self.physical.read(physical, part)?;
                }
            }
            // A piece ends at a hole, because it has a single address.
            if !bytes.is_empty() && (here.is_none() || bytes.len() >= piece) {
                take(first, &bytes)?;
                bytes.clear();
            }
            at += step;
        }
        if bytes.is_empty() {
            Ok(())
        } else {
            take(first, &bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Sparse memory of 8-byte words.
    #[derive(Default)]
    struct SparseMemory(BTreeMap<u64, u64>);

    impl Physical for SparseMemory {
        fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), GuestError> {
            for (i, byte) in buffer.iter_mut().enumerate() {
                let at = address + i as u64;
                let word = self.0.get(&(at & !7)).copied().unwrap_or(0);
                *byte = word.to_le_bytes()[(at & 7) as usize];
            }
            Ok(())
        }
    }

    #[test]
    fn the_hole_is_where_q35_has_it() {
        const GIB: u64 = 1 << 30;
        assert_eq!(ranges(GIB), [(0, GIB)]);
        assert_eq!(ranges(2 * GIB), [(0, 2 * GIB)]);
        assert_eq!(ranges(4 * GIB), [(0, 2 * GIB), (4 * GIB, 6 * GIB)]);
    }

    #[test]
    fn only_writable_memory_without_a_file_can_be_the_guests() {
        let address = anonymous("7f0000000000-7f0040000000 rw-p 00000000 00:00 0");
        assert_eq!(address, Some(0x7f00_0000_0000..0x7f00_4000_0000));
        for other in [
            "7f0000000000-7f0040000000 ---p 00000000 00:00 0",
            "7f0000000000-7f0040000000 rw-s 00000000 00:01 1042 /memfd:ram (deleted)",
            "7f0000000000-7f0040000000 rw-p 00000000 00:00 0 [heap]",
            "7f0000000000-7f0040000000 rw-p 00000000 fe:00 1042",
            "7f0000000000 rw-p 00000000 00:00 0",
            "",
        ] {
            assert_eq!(anonymous(other), None, "{other}");
        }
    }

    /// Two nodes of eight pages, the first with the kernel's page tables at its second page, the
    /// other with something else in all pages; in this order in QEMU's memory.
    fn two_nodes(tables_first: bool) -> Ram {
        const NODE: usize = 8 * PAGE as usize;
        let mut node = vec![0; NODE];
        let mut put = |page: u64, address: u64, shift: u32, entry: u64| {
            let at = (page * PAGE + (address >> shift & 511) * 8) as usize;
            node[at..at + 8].copy_from_slice(&entry.to_le_bytes());
        };
        let address = PAGE + IMAGE_BASE;
        for (page, shift) in (1..4).zip(SHIFTS) {
            put(page, address, shift, ((page + 1) * PAGE) | PRESENT);
        }
        put(4, address, SHIFTS[3], PAGE | PRESENT);
        let other = vec![1; NODE];
        let mut file = tempfile::tempfile().unwrap();
        let nodes = match tables_first {
            true => [node, other],
            false => [other, node],
        };
        std::io::Write::write_all(&mut file, &nodes.concat()).unwrap();
        let length = NODE as u64;
        Ram {
            process: file,
            parts: vec![0..length, length..2 * length],
            below: 2 * length,
            total: 2 * length,
        }
    }

    #[test]
    fn nodes_are_in_the_order_in_which_the_kernels_table_maps_itself() {
        for tables_first in [true, false] {
            let ram = two_nodes(tables_first).in_order(PAGE).unwrap();
            let first = if tables_first { 0 } else { 8 * PAGE };
            assert_eq!(ram.parts[0].start, first);
            let mut byte = [0];
            ram.read(8 * PAGE, &mut byte).unwrap();
            assert_eq!(byte, [1], "the other node");
        }
        let error = two_nodes(true).in_order(2 * PAGE).unwrap_err().to_string();
        assert_eq!(
            error,
            "guest memory: no page table of the kernel at physical address 0x2000"
        );
    }

    #[test]
    fn memory_is_found_across_parts_and_the_hole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory");
        fs::write(&path, b"..4567..0123").unwrap();
        let ram = Ram {
            process: File::open(path).unwrap(),
            parts: vec![8..12, 2..6],
            below: 6,
            total: 8,
        };
        let read = |address, length| {
            let mut buffer = vec![0; length];
            ram.read(address, &mut buffer)
                .map(|()| String::from_utf8(buffer).unwrap())
        };
        assert_eq!(read(2, 4).unwrap(), "2345");
        assert_eq!(read(ABOVE, 2).unwrap(), "67");
        for (address, length) in [(6, 1), (ABOVE + 1, 2), (u64::MAX, 2)] {
            assert!(read(address, length).is_err(), "{address:#x}");
        }
    }

    #[test]
    fn page_tables_are_walked_with_large_pages_and_holes() {
        let mut words = SparseMemory::default();
        let virt = 0xffff_ea00_0000_0000u64;
        let index = |shift: u32| (virt >> shift & 511) * 8;
        words.0.insert(0x1000 + index(39), 0x2000 | 1);
        words.0.insert(0x2000 + index(30), 0x3000 | 1);
        words.0.insert(0x3000 + index(21), 0x80_0000 | LARGE | 1); // 2 MiB at 8 MiB
        words.0.insert(0x3000 + index(21) + 8, 0x4000 | 1);
        words.0.insert(0x4000, 0x5000 | 1); // one small page after it
        words.0.insert(0x80_0008, 7);
        words.0.insert(0x5000, 9);
        let memory = KernelMemory::new(&words, 0x1000);
        assert_eq!(memory.word(virt + 8).unwrap(), 7);
        assert_eq!(memory.word(virt + (2 << 20)).unwrap(), 9);
        let error = memory.word(virt + (2 << 20) + PAGE).unwrap_err();
        assert_eq!(
            error.to_string(),
            "guest memory: address 0xffffea0000201000 is not mapped"
        );
        // Across the boundary of the two pages.
        assert_eq!(
            memory.read(virt + (2 << 20) - 4, 8).unwrap(),
            [0, 0, 0, 0, 9, 0, 0, 0]
        );
        assert!(special(&memory, virt..virt + (1 << 30)).is_empty());
        let mut found = Vec::new();
        let end = virt + (4 << 20);
        memory
            .mapped(virt, end, 1 << 20, |at, b| {
                found.push((at - virt, b.len()));
                Ok(())
            })
            .unwrap();
        assert_eq!(found, [(0, 1 << 20), (1 << 20, 1 << 20), (2 << 20, 4096)]);
    }

    /// The physical addresses of the tables on the way to special pages.
    fn special(memory: &KernelMemory<'_>, area: Range<u64>) -> Vec<u64> {
        let mut found = Vec::new();
        memory
            .special_tables(&area, |at, bytes| {
                assert_eq!(bytes.len(), 4096);
                found.push(at);
                Ok(())
            })
            .unwrap();
        found
    }

    #[test]
    fn tables_of_uncached_pages_are_found_with_the_way_to_them() {
        let mut words = SparseMemory::default();
        let virt = 0xffff_c900_0000_0000u64;
        let index = |shift: u32| (virt >> shift & 511) * 8;
        words.0.insert(0x1000 + index(39), 0x2000 | 1);
        words.0.insert(0x2000 + index(30), 0x3000 | 1);
        words.0.insert(0x3000 + index(21), 0x4000 | 1);
        words.0.insert(0x3000 + index(21) + 8, 0x5000 | 1);
        words
            .0
            .insert(0x4000 + 8 * 12, 0xfed0_0000 | CACHE_DISABLE | 1);
        words.0.insert(0x5000, 0x6000 | 1);
        let memory = KernelMemory::new(&words, 0x1000);
        let area = virt..virt + (1 << 30);
        assert_eq!(special(&memory, area), [0x4000, 0x3000, 0x2000, 0x1000]);
        // Next to the page: its tables belong to the other area.
        let beside = virt + 13 * PAGE..virt + (1 << 30);
        assert!(special(&memory, beside).is_empty());
        let only = virt + 12 * PAGE..virt + 12 * PAGE + 1;
        assert_eq!(special(&memory, only), [0x4000, 0x3000, 0x2000, 0x1000]);
    }

    #[test]
    fn tables_that_lead_into_themselves_have_an_end() {
        let mut words = SparseMemory::default();
        for index in 0..512 {
            words.0.insert(0x1000 + index * 8, 0x1000 | 1);
        }
        let memory = KernelMemory::new(&words, 0x1000);
        let error = memory
            .special_tables(&(0xffff_8000_0000_0000..u64::MAX), |_, _| Ok(()))
            .unwrap_err();
        assert!(error.to_string().contains("page tables"), "{error}");
    }
}
