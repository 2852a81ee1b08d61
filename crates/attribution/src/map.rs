//! The kernel's memory map: the areas of its address space, the pages and the slab caches.
//!
//! Plain data, filled by `survey` from a recording's symbols and memory images. Unknown parts are
//! empty and match nothing; no area is guessed.

use std::ops::Range;

use linemate_recording::{CpuId, GuestAddr, PAGE};
use rustc_hash::FxHashMap;

use crate::schema::TypeIndex;
use crate::votes::Hint;
use serde::{Deserialize, Serialize};

/// Size and alignment of a kernel stack, x86-64 (`THREAD_SIZE`,
/// arch/x86/include/asm/page_64_types.h).
pub const STACK_SIZE: u64 = 16 * 1024;

/// A slab cache, as its `struct kmem_cache` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    pub address: GuestAddr,
    /// Its name, such as `task_struct` or `kmalloc-512`.
    pub name: String,
    /// Bytes of an object, as requested.
    pub object_size: u64,
    /// Bytes from one object to the next.
    pub stride: u64,
    /// Whether it serves other caches, with objects of about the same size, that have no slabs of
    /// their own.
    pub shared: bool,
}

impl Cache {
    /// Whether it holds objects of any size up to its own (`kmalloc-…`).
    #[must_use]
    pub fn is_general(&self) -> bool {
        self.name.starts_with("kmalloc-")
    }

    /// What its name says about its objects.
    #[must_use]
    pub fn hint(&self) -> Option<Hint<'_>> {
        let name = &self.name;
        match self.shared {
            // `kmalloc-64` is a size, not a type.
            _ if self.is_general() => None,
            // A merged cache has the name of the first of them.
            true => Some(Hint::Some(name)),
            false => Some(Hint::All(name)),
        }
    }
}

/// The use of a page of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageUse {
    /// No image has its `struct page`.
    #[default]
    Unknown,
    /// Owned by the page allocator.
    Free,
    /// Heap objects of a cache, by its index; the slab starts at `first`.
    Slab {
        cache: u32,
        /// Number of the slab's first page frame.
        first: u32,
    },
    PageTable,
    /// Contents: of a process, of a file, of a pipe or socket.
    Contents,
    /// Allocated by the kernel, with no mark of its purpose.
    Kernel,
}

/// The use of every page frame at one time, by frame number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageUses {
    /// Index: page frame number.
    pub frames: Vec<PageUse>,
}

impl PageUses {
    /// The use of a frame.
    #[must_use]
    pub fn of(&self, frame: u64) -> PageUse {
        usize::try_from(frame)
            .ok()
            .and_then(|f| self.frames.get(f))
            .copied()
            .unwrap_or_default()
    }
}

/// Where the per-CPU areas are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PercpuAreas {
    /// `__per_cpu_offset`, by CPU: added to a per-CPU address it gives the CPU's own.
    pub offsets: Vec<u64>,
    /// The per-CPU addresses of the static section (`__per_cpu_start..__per_cpu_end`).
    pub section: Range<u64>,
    /// Bytes of each CPU's area in the first chunk: the section, then dynamic allocations.
    pub unit_size: u64,
}

impl PercpuAreas {
    /// The CPU whose area of the first chunk contains `addr`, and the per-CPU address.
    #[must_use]
    pub fn find(&self, addr: u64) -> Option<(CpuId, u64)> {
        self.offsets.iter().enumerate().find_map(|(cpu, offset)| {
            let percpu = addr.wrapping_sub(*offset);
            // Wrapping: offsets of CPUs are differences of addresses, and may be negative ones.
            let inside = percpu.wrapping_sub(self.section.start) < self.unit_size;
            inside.then_some((CpuId(cpu as u16), percpu))
        })
    }
}

/// A symbol with data after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    /// Its addresses (per-CPU addresses for a per-CPU variable), up to the next symbol.
    pub range: Range<u64>,
    /// Its type, if it is a struct (or an array of them) and known.
    pub ty: Option<TypeIndex>,
    /// Whether BTF knows its type even though it has no members (a number, a pointer, an array of
    /// those).
    pub typed: bool,
}

/// Variables in order of address, without overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    /// The variables, sorted by `range.start`.
    pub list: Vec<Variable>,
}

impl Variables {
    /// The variable at an address, by its index in the list.
    #[must_use]
    pub fn find(&self, addr: u64) -> Option<usize> {
        let at = self
            .list
            .partition_point(|v| v.range.start <= addr)
            .checked_sub(1)?;
        self.list[at].range.contains(&addr).then_some(at)
    }
}

/// The kernel's address space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelMap {
    /// Only device registers are to be named: the recording lacks the names of kernel memory.
    pub unnamed: bool,
    /// The kernel image: code and data.
    pub image: Range<u64>,
    /// All physical memory, mapped contiguously.
    pub direct_map: Range<u64>,
    /// The array of `struct page`.
    pub struct_pages: Range<u64>,
    /// Bytes of a `struct page`.
    pub struct_page_size: u64,
    /// Where `vmalloc` maps, including stacks.
    pub vmalloc: Range<u64>,
    /// Each CPU's entry area: exception stacks and descriptor tables.
    pub entry_area: Range<u64>,
    /// Registers of devices, ascending.
    pub devices: Vec<Range<u64>>,
    pub percpu: PercpuAreas,
    /// Per-CPU variables of the static section.
    pub percpu_variables: Variables,
    pub globals: Variables,
    /// What pointers point to when recording starts: addresses, or per-CPU addresses, and types.
    pub pointed: Vec<(u64, TypeIndex)>,
    /// The code that only fills whole pages with zeros, sorted.
    pub clearing: Vec<Range<u64>>,
    pub caches: Vec<Cache>,
    /// Their index by address.
    pub cache_at: FxHashMap<u64, u32>,
    /// Page uses when recording started.
    pub pages_at_start: PageUses,
    /// Page uses when it stopped; empty if it was truncated.
    pub pages_at_stop: PageUses,
}

impl KernelMap {
    /// The CPU and per-CPU address of an address in the first per-CPU chunk. After the static
    /// section a unit only extends as far as its pages were never returned to the page allocator
    /// (mm/percpu.c frees what a unit does not need).
    #[must_use]
    pub fn percpu_address(&self, addr: u64) -> Option<(CpuId, u64)> {
        self.percpu
            .find(addr)
            .filter(|(_, percpu)| self.in_unit(addr, *percpu))
    }

    /// Whether an address inside the extent of a per-CPU unit belongs to it.
    #[must_use]
    pub fn in_unit(&self, addr: u64, percpu: u64) -> bool {
        self.percpu.section.contains(&percpu)
            || self.frame(addr).is_none_or(|f| {
                matches!(
                    self.pages_at_start.of(f),
                    PageUse::Kernel | PageUse::Unknown
                )
            })
    }

    /// Whether a device's registers are mapped at an address.
    #[must_use]
    pub fn is_device(&self, addr: u64) -> bool {
        let after = self.devices.partition_point(|range| range.start <= addr);
        after
            .checked_sub(1)
            .is_some_and(|at| self.devices[at].contains(&addr))
    }

    /// Whether an instruction belongs to a function that only fills whole pages with zeros.
    #[must_use]
    pub fn clears_pages(&self, pc: GuestAddr) -> bool {
        self.clearing.iter().any(|code| code.contains(&pc.0))
    }

    /// The page frame of a direct-map address.
    #[must_use]
    pub fn frame(&self, addr: u64) -> Option<u64> {
        self.direct_map
            .contains(&addr)
            .then(|| (addr - self.direct_map.start) / PAGE)
    }

    /// The direct-map address of the page that a `struct page *` refers to.
    #[must_use]
    pub fn page_address(&self, struct_page: u64) -> Option<u64> {
        if !self.struct_pages.contains(&struct_page) {
            return None;
        }
        let frame = (struct_page - self.struct_pages.start).checked_div(self.struct_page_size)?;
        let addr = self
            .direct_map
            .start
            .checked_add(frame.checked_mul(PAGE)?)?;
        self.direct_map.contains(&addr).then_some(addr)
    }

    /// The slot of a slab that contains `addr`, given the page's use: the cache and the slot's
    /// addresses. The slot is the object as requested; what the cache stores after it belongs to no
    /// object.
    #[must_use]
    pub fn slab_slot(&self, addr: u64, usage: PageUse) -> Option<(u32, Range<u64>)> {
        let PageUse::Slab { cache, first } = usage else {
            return None;
        };
        let base = self.direct_map.start.checked_add(u64::from(first) * PAGE)?;
        Some((cache, self.slot(addr, base, cache)?))
    }

    /// The same, given the cache and the slab's first byte.
    #[must_use]
    pub fn slot(&self, addr: u64, base: u64, cache: u32) -> Option<Range<u64>> {
        let about = self.caches.get(cache as usize)?;
        let number = addr.checked_sub(base)?.checked_div(about.stride)?;
        let start = base + number * about.stride;
        Some(start..start + about.object_size.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> KernelMap {
        KernelMap {
            direct_map: 0x10_0000..0x20_0000,
            struct_pages: 0x9000_0000..0x9000_4000,
            struct_page_size: 64,
            caches: vec![Cache {
                address: GuestAddr(1),
                name: "task".into(),
                object_size: 200,
                stride: 256,
                shared: false,
            }],
            percpu: PercpuAreas {
                offsets: vec![0x5000, 0x8000],
                section: 0x100..0x500,
                unit_size: 0x1000,
            },
            ..KernelMap::default()
        }
    }

    #[test]
    fn pages_have_addresses() {
        let m = map();
        assert_eq!(m.page_address(0x9000_0000 + 64 * 3), Some(0x10_3000));
        assert_eq!(m.page_address(0x9000_4000), None);
        assert_eq!(m.frame(0x10_3fff), Some(3));
        assert_eq!(m.frame(0x20_0000), None);
    }

    #[test]
    fn slab_slots_are_counted_from_the_slabs_first_page() {
        let m = map();
        let slab = PageUse::Slab { cache: 0, first: 2 };
        assert_eq!(
            m.slab_slot(0x10_2000 + 256 + 10, slab),
            Some((0, 0x10_2100..0x10_21c8))
        );
        assert_eq!(m.slab_slot(0x10_1fff, slab), None);
        assert_eq!(m.slab_slot(0x10_2000, PageUse::Free), None);
    }

    #[test]
    fn percpu_addresses_name_their_cpu() {
        let m = map();
        assert_eq!(m.percpu.find(0x5100), Some((CpuId(0), 0x100)));
        assert_eq!(m.percpu.find(0x80ff), None);
        assert_eq!(m.percpu.find(0x9000), Some((CpuId(1), 0x1000)));
        assert_eq!(m.percpu.find(0x9100), None, "past the unit");
    }

    #[test]
    fn variables_end() {
        let v = Variables {
            list: vec![Variable {
                name: "a".into(),
                range: 8..16,
                ty: None,
                typed: false,
            }],
        };
        assert_eq!(v.find(7), None);
        assert_eq!(v.find(15), Some(0));
        assert_eq!(v.find(16), None);
    }
}
