//! The memory images of a recording: what is copied from the guest's memory at start and at stop,
//! and why.
//!
//! | what | why |
//! |---|---|
//! | `page_offset_base`, `vmalloc_base`, `vmemmap_base`, `max_pfn`, `pcpu_unit_size` | where the kernel's areas are |
//! | `__per_cpu_offset[]` | where each CPU's variables are |
//! | the `struct page` array | which pages are slabs (and of which cache), page tables, user pages, free |
//! | the page tables on the way to anything but plain memory, of the vmalloc area and the fixed mappings | where device registers are |
//! | `slab_caches`: each `struct kmem_cache` and its name | names and sizes of the caches that pages point to |
//! | at the start: CPU 0's per-CPU variables, [`POINTER_ROOTS`], and the structs that those point to | what their pointers point to |
//!
//! Contents of pages are not copied: every recording would be as large as the guest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;

use linemate_recording::{GuestAddr, Moment, PAGE, Writer};
use linemate_types::{ByteOffset, POINTER_ROOTS, Symbols, TypeId, TypeModel};

use crate::error::GuestError;
use crate::ram::{self, KernelMemory};
use crate::shape::GuestShape;

/// Variables of the kernel, with their sizes.
const VARIABLES: [(&str, usize); 5] = [
    ("page_offset_base", 8),
    ("vmalloc_base", 8),
    ("vmemmap_base", 8),
    ("max_pfn", 8),
    ("pcpu_unit_size", 4),
];

/// Where the `struct page` array is without address randomisation
/// (Documentation/arch/x86/x86_64/mm.rst), in kernels that have no variable for it.
const VMEMMAP: u64 = 0xffff_ea00_0000_0000;

/// Where the direct map and the vmalloc area start, in kernels that have no variables for them (the
/// same page).
const PAGE_OFFSET: u64 = 0xffff_8880_0000_0000;
const VMALLOC: u64 = 0xffff_c900_0000_0000;

/// Mappings at addresses fixed when the kernel is built, including the local APIC's registers (the
/// same page).
const FIXED_MAPPINGS: Range<u64> = 0xffff_ffff_ff00_0000..0xffff_ffff_ff80_0000;

/// The maximum number of caches: the list in a broken guest need not end.
const MAX_CACHES: usize = 10_000;

/// The maximum length of a cache's name in bytes.
const MAX_NAME: usize = 64;

/// The maximum number and size of structs copied because a pointer leads to them: a broken guest
/// has no limits.
const MAX_POINTEES: usize = 4096;
const MAX_POINTEE_BYTES: usize = 1 << 24;

/// The maximum bytes of memory held at once.
const PIECE: usize = 1 << 22;

/// A struct in the guest's memory: its address and type.
type Struct = (u64, TypeId);

/// Images that wait until the recorder is done with the file.
#[derive(Debug)]
pub(crate) struct Images {
    spool: File,
    pieces: Vec<(Moment, u64, usize)>,
}

/// What is needed to find the images.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImageSearch<'a> {
    /// `None` if the kernel's memory is not named: the page tables of device registers are copied
    /// all the same, because no cache holds those.
    pub(crate) types: Option<&'a TypeModel>,
    pub(crate) symbols: &'a Symbols,
    pub(crate) shape: &'a GuestShape,
}

/// A kernel whose memory is to be named.
#[derive(Clone, Copy)]
struct NamedKernel<'a> {
    types: &'a TypeModel,
    symbols: &'a Symbols,
    shape: &'a GuestShape,
}

impl Images {
    /// No images yet; they are stored in an unlinked file in `folder`.
    pub(crate) fn new(folder: &Path) -> Result<Self, GuestError> {
        let spool =
            tempfile::tempfile_in(folder).map_err(GuestError::io("create a file in", folder))?;
        Ok(Images {
            spool,
            pieces: Vec::new(),
        })
    }

    /// Takes the images of a paused guest.
    pub(crate) fn take(
        &mut self,
        moment: Moment,
        kernel: ImageSearch<'_>,
        memory: &KernelMemory<'_>,
    ) -> Result<(), GuestError> {
        for (name, size) in VARIABLES {
            // Kernels without randomised areas have none of the bases; readers then use the fixed
            // ones.
            if let Some(address) = kernel.symbols.address_of(name) {
                self.add(moment, address, &memory.read(address, size)?)?;
            }
        }
        let Some(types) = kernel.types else {
            return self.page_tables(moment, kernel.symbols, memory);
        };
        if let Some(address) = kernel.symbols.address_of("__per_cpu_offset") {
            let bytes = memory.read(address, 8 * usize::from(kernel.shape.cpus))?;
            self.add(moment, address, &bytes)?;
        }
        let kernel = NamedKernel {
            types,
            symbols: kernel.symbols,
            shape: kernel.shape,
        };
        self.struct_pages(moment, kernel, memory)?;
        self.page_tables(moment, kernel.symbols, memory)?;
        // Pointers are only followed at the start.
        if moment == Moment::Start {
            self.pointers(kernel, memory)?;
        }
        // At both moments: a cache created while the command runs exists only at the stop.
        self.slab_caches(moment, kernel, memory)
    }

    /// The structs from which pointers are followed, and the structs that they point to.
    fn pointers(
        &mut self,
        kernel: NamedKernel<'_>,
        memory: &KernelMemory<'_>,
    ) -> Result<(), GuestError> {
        let mut from: Vec<(Struct, u32)> = percpu_variables(kernel, memory)?;
        for root in POINTER_ROOTS {
            let variable = kernel.symbols.address_of(root.symbol);
            let ty = kernel.types.struct_named(root.struct_name);
            let (Some(variable), Some(ty)) = (variable, ty) else {
                continue;
            };
            if root.pointers == 0 {
                from.push(((variable, ty), root.flexible));
            }
            for index in 0..root.pointers {
                let at = variable.wrapping_add(8 * index as u64);
                let to = memory.word(at)?;
                // An array of nodes, filled from its start; the rest is empty.
                if !is_kernel(to) {
                    break;
                }
                self.add(Moment::Start, at, &to.to_le_bytes())?;
                from.push(((to, ty), root.flexible));
            }
        }
        let mut taken = BTreeMap::new();
        for (place, flexible) in from {
            let pointers = kernel.types.pointers_in(place.1, flexible);
            let bytes = self.pointee(place, &pointers, memory, kernel.types, &mut taken)?;
            for to in pointed_by(&pointers, &bytes) {
                let pointers = kernel.types.pointers_in(to.1, 0);
                self.pointee(to, &pointers, memory, kernel.types, &mut taken)?;
            }
        }
        Ok(())
    }

    /// Copies a struct with these pointers in it and returns its bytes: none if it is already
    /// copied, has only pointers to others of its kind (`list_head`), or is not mapped, because not
    /// every pointer is valid.
    fn pointee(
        &mut self,
        (at, ty): Struct,
        pointers: &[(ByteOffset, TypeId)],
        memory: &KernelMemory<'_>,
        types: &TypeModel,
        taken: &mut BTreeMap<Struct, usize>,
    ) -> Result<Vec<u8>, GuestError> {
        let links = pointers.iter().all(|(_, to)| *to == ty);
        let last = pointers.last().map_or(0, |(at, _)| at.0.saturating_add(8));
        let size = types.size_of(ty).unwrap_or(0).max(last);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let before: usize = taken.values().sum();
        let fits = before.saturating_add(size) <= MAX_POINTEE_BYTES && taken.len() < MAX_POINTEES;
        if links || !fits || !is_kernel(at) || taken.contains_key(&(at, ty)) {
            return Ok(Vec::new());
        }
        // Before it is read: an unmapped one is not tried again.
        taken.insert((at, ty), size);
        let Ok(bytes) = memory.read(at, size) else {
            return Ok(Vec::new());
        };
        self.add(Moment::Start, at, &bytes)?;
        Ok(bytes)
    }

    fn struct_pages(
        &mut self,
        moment: Moment,
        kernel: NamedKernel<'_>,
        memory: &KernelMemory<'_>,
    ) -> Result<(), GuestError> {
        let Some(size) = struct_size(kernel.types, "page") else {
            return Ok(());
        };
        let base = match kernel.symbols.address_of("vmemmap_base") {
            Some(variable) => memory.word(variable)?,
            None => VMEMMAP,
        };
        for (start, end) in ram::ranges(kernel.shape.memory_bytes) {
            let place = |address: u64| base.wrapping_add(address / PAGE * size);
            // The array has holes where memory has, and kernels leave those unmapped.
            memory.mapped(place(start), place(end), PIECE, |at, bytes| {
                self.add(moment, at, bytes)
            })?;
        }
        Ok(())
    }

    /// The top table is the symbol `init_top_pgt`, all others are in the direct map.
    fn page_tables(
        &mut self,
        moment: Moment,
        symbols: &Symbols,
        memory: &KernelMemory<'_>,
    ) -> Result<(), GuestError> {
        let base = |variable, default| match symbols.address_of(variable) {
            Some(at) => memory.word(at),
            None => Ok(default),
        };
        let Some(top) = symbols.address_of("init_top_pgt") else {
            return Ok(());
        };
        let direct = base("page_offset_base", PAGE_OFFSET)?;
        let vmalloc = base("vmalloc_base", VMALLOC)?..base("vmemmap_base", VMEMMAP)?;
        // The areas share tables near the top.
        let mut taken = BTreeSet::new();
        for area in [vmalloc, FIXED_MAPPINGS] {
            memory.special_tables(&area, |physical, bytes| {
                if !taken.insert(physical) {
                    return Ok(());
                }
                // A reader starts at the symbol, and knows the other tables only by the physical
                // address in an entry.
                let at = match physical.wrapping_add(ram::IMAGE_BASE) {
                    at if at == top => top,
                    _ => direct.wrapping_add(physical),
                };
                self.add(moment, at, bytes)
            })?;
        }
        Ok(())
    }

    fn slab_caches(
        &mut self,
        moment: Moment,
        kernel: NamedKernel<'_>,
        memory: &KernelMemory<'_>,
    ) -> Result<(), GuestError> {
        let offset = |member| member_offset(kernel.types, "kmem_cache", member);
        let (Some(head), Some(size), Some(list), Some(name)) = (
            kernel.symbols.address_of("slab_caches"),
            struct_size(kernel.types, "kmem_cache"),
            offset("list"),
            offset("name"),
        ) else {
            return Ok(());
        };
        self.add(moment, head, &memory.read(head, 16)?)?;
        // The list's links are inside the caches, and its head is not one.
        let mut entry = memory.word(head)?;
        for _ in 0..MAX_CACHES {
            if entry == head {
                return Ok(());
            }
            let cache = entry.wrapping_sub(list);
            self.add(
                moment,
                cache,
                &memory.read(cache, usize::try_from(size).unwrap_or(0))?,
            )?;
            let name = memory.word(cache.wrapping_add(name))?;
            self.add(moment, name, &text(memory, name)?)?;
            entry = memory.word(entry)?;
        }
        Err(GuestError::Memory(format!(
            "slab_caches has no end after {MAX_CACHES} caches"
        )))
    }

    fn add(&mut self, moment: Moment, address: u64, bytes: &[u8]) -> Result<(), GuestError> {
        self.spool.write_all(bytes).map_err(spool_error("write"))?;
        // In a file, because the recorder owns the recording until QEMU has ended.
        self.pieces.push((moment, address, bytes.len()));
        Ok(())
    }

    /// Appends all to the recording.
    pub(crate) fn write(
        mut self,
        writer: &mut Writer,
    ) -> Result<Result<(), linemate_recording::Error>, GuestError> {
        self.spool
            .seek(SeekFrom::Start(0))
            .map_err(spool_error("read"))?;
        for (moment, address, length) in self.pieces {
            let mut bytes = vec![0; length];
            self.spool
                .read_exact(&mut bytes)
                .map_err(spool_error("read"))?;
            if let Err(error) = writer.image(moment, GuestAddr(address), &bytes) {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }
}

/// CPU 0's per-CPU variables: address, type, and number of elements at the end.
fn percpu_variables(
    kernel: NamedKernel<'_>,
    memory: &KernelMemory<'_>,
) -> Result<Vec<(Struct, u32)>, GuestError> {
    let Some(table) = kernel.symbols.address_of("__per_cpu_offset") else {
        return Ok(Vec::new());
    };
    // Its first word: CPU 0's.
    let offset = memory.word(table)?;
    let first = offset.wrapping_add(kernel.symbols.percpu_base());
    let variables = kernel.types.percpu_variables().into_iter();
    Ok(variables
        .map(|v| ((first.wrapping_add(v.offset.0), v.type_id), 0))
        .collect())
}

/// Whether an address is in the kernel's half and one that a struct can have.
fn is_kernel(address: u64) -> bool {
    // Others are flags, errors and tagged pointers.
    address >> 63 == 1 && address % 4 == 0
}

/// The targets of the pointers in a struct.
fn pointed_by(pointers: &[(ByteOffset, TypeId)], bytes: &[u8]) -> Vec<Struct> {
    let target = |(at, to): &(ByteOffset, TypeId)| {
        let at = usize::try_from(at.0).ok()?;
        let word = bytes.get(at..at.checked_add(8)?)?;
        Some((u64::from_le_bytes(word.try_into().ok()?), *to))
    };
    pointers.iter().filter_map(target).collect()
}

fn spool_error(doing: &'static str) -> impl FnOnce(io::Error) -> GuestError {
    GuestError::io(
        doing,
        Path::new("the memory images in the temporary folder"),
    )
}

/// A text with its final zero, or its first bytes.
fn text(memory: &KernelMemory<'_>, address: u64) -> Result<Vec<u8>, GuestError> {
    let mut text = Vec::new();
    while text.len() < MAX_NAME && text.last() != Some(&0) {
        // Byte by byte: a longer read could extend into an unmapped page.
        text.extend(memory.read(address.wrapping_add(text.len() as u64), 1)?);
    }
    Ok(text)
}

fn struct_size(types: &TypeModel, name: &str) -> Option<u64> {
    types.size_of(types.struct_named(name)?)
}

fn member_offset(types: &TypeModel, name: &str, member: &str) -> Option<u64> {
    let composite = types.composite(types.struct_named(name)?)?;
    let found = composite
        .members
        .iter()
        .find(|m| m.name.as_str() == member)?;
    Some(found.offset.0 / 8)
}
