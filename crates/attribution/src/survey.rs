//! Surveys a kernel: fills a [`KernelMap`] from its types, its symbols and images of its memory.
//!
//! Everything here reads what the kernel says about itself; the few numbers that it does not say
//! are x86-64's, with their source.

use std::ops::Range;

use linemate_recording::{GuestAddr, PAGE};
use linemate_types::{Symbol, Symbols, TypeModel};
use rustc_hash::FxHashMap;

use crate::devices;
use crate::layout_of;
use crate::map::{Cache, KernelMap, PageUse, PageUses, PercpuAreas, Variable, Variables};
use crate::memory::KernelMemory;
use crate::pointers::Pointers;
use crate::schema::{MAX_DEPTH, MemberShape, Schema, TypeIndex, aggregate_of, shape_of};
use crate::sites;

/// The CPU entry areas: the page-table entry -4 (arch/x86/include/asm/pgtable_64_types.h,
/// `CPU_ENTRY_AREA_BASE`).
const ENTRY_AREA: Range<u64> = 0xffff_fe00_0000_0000..0xffff_fe80_0000_0000;

/// The maximum number of caches: a loop in a damaged image ends here.
const CACHES_MAX: usize = 4096;

/// The most CPUs x86-64 supports (`NR_CPUS` with `MAXSMP`).
const CPUS_MAX: u64 = 8192;

/// Static variables of an anonymous struct: their symbol, and a member that identifies the struct
/// in BTF, which has no types of globals. (kernel/sched/fair.c, kernel/time/timekeeping.c,
/// kernel/futex/core.c, drivers/char/random.c.)
const STATIC_STRUCTS: [(&str, &str); 5] = [
    ("nohz", "idle_cpus_mask"),
    ("tk_core", "timekeeper"),
    ("__futex_data", "hashsize"),
    ("base_crng", "generation"),
    ("input_pool", "init_bits"),
];

/// The sources of a survey.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelView<'a> {
    pub(crate) model: &'a TypeModel,
    pub(crate) schema: &'a Schema,
    /// BTF type ids to types.
    pub(crate) types: &'a FxHashMap<u32, TypeIndex>,
    pub(crate) symbols: &'a Symbols,
    pub(crate) start: &'a KernelMemory,
    pub(crate) stop: &'a KernelMemory,
}

impl KernelView<'_> {
    pub(crate) fn survey(&self) -> KernelMap {
        let mut map = KernelMap {
            image: self.image(),
            entry_area: ENTRY_AREA,
            struct_page_size: layout_of::size(self.model, "page").unwrap_or(64),
            ..KernelMap::default()
        };
        self.areas(&mut map);
        map.devices = self.devices(&map);
        map.percpu = self.percpu(&map);
        map.percpu_variables = self.percpu_variables(&map.percpu);
        map.globals = self.globals(&map.image);
        map.clearing = self.clearing();
        for memory in [self.start, self.stop] {
            self.caches(memory, &mut map);
        }
        map.pages_at_start = self.pages(self.start, &map);
        map.pages_at_stop = self.pages(self.stop, &map);
        let pointers = Pointers {
            model: self.model,
            schema: self.schema,
            types: self.types,
            symbols: self.symbols,
            memory: self.start,
        };
        map.pointed = pointers.pointed(&map);
        map
    }

    /// The map of a kernel that is not to be named: where its memory is, which separates it from
    /// programs', and device registers, which no cache holds.
    pub(crate) fn unnamed(&self) -> KernelMap {
        let mut map = KernelMap {
            unnamed: true,
            struct_page_size: 64,
            ..KernelMap::default()
        };
        self.areas(&mut map);
        map.devices = self.devices(&map);
        map
    }

    fn image(&self) -> Range<u64> {
        let symbol = |name| self.symbols.address_of(name);
        match (
            symbol("_text").or_else(|| symbol("_stext")),
            symbol("_end").or_else(|| symbol("__brk_limit")),
        ) {
            (Some(start), Some(end)) if start < end => start..end,
            _ => 0..0,
        }
    }

    /// A kernel variable's value at the start.
    fn value(&self, name: &str) -> Option<u64> {
        let addr = self.symbols.address_of(name)?;
        self.start.u64(addr).or_else(|| self.stop.u64(addr))
    }

    /// The direct map, the `struct page` array and the vmalloc area. Their bases are variables of
    /// the kernel; without images of those, the architecture's defaults apply
    /// (Documentation/arch/x86/x86_64/mm.rst), which `nokaslr` leaves in place.
    fn areas(&self, map: &mut KernelMap) {
        let five_levels = self
            .symbols
            .address_of("__per_cpu_offset")
            .and_then(|a| self.start.u64(a));
        // With five levels the direct map starts at 0xff11…, and contains the per-CPU areas that
        // these offsets lead to.
        let five_levels = five_levels.is_some_and(|offset| offset >> 52 == 0xff1);
        let default = |five: u64, four: u64| if five_levels { five } else { four };
        let direct = self
            .value("page_offset_base")
            .unwrap_or(default(0xff11_0000_0000_0000, 0xffff_8880_0000_0000));
        let vmalloc = self
            .value("vmalloc_base")
            .unwrap_or(default(0xffa0_0000_0000_0000, 0xffff_c900_0000_0000));
        let pages = self
            .value("vmemmap_base")
            .unwrap_or(default(0xffd4_0000_0000_0000, 0xffff_ea00_0000_0000));
        // More frames than 48 bits of physical address allow mean a damaged image.
        let frames = self.value("max_pfn").filter(|f| *f < 1 << 36);
        let direct_end = frames.map_or(vmalloc, |f| direct.saturating_add(f * PAGE).min(vmalloc));
        let pages_end = frames.map_or(ENTRY_AREA.start, |f| {
            pages.saturating_add(f * map.struct_page_size)
        });
        map.direct_map = direct..direct_end.max(direct);
        map.vmalloc = vmalloc..pages.max(vmalloc);
        map.struct_pages = pages..pages_end.max(pages);
    }

    /// Pages that are uncached at the start or at the stop: a device's address is not used for
    /// memory in between.
    fn devices(&self, map: &KernelMap) -> Vec<Range<u64>> {
        let Some(top) = self.symbols.address_of("init_top_pgt") else {
            return Vec::new();
        };
        let mut found: Vec<Range<u64>> = Vec::new();
        for memory in [self.start, self.stop] {
            for area in [&map.vmalloc, &devices::FIXED_MAPPINGS] {
                found.extend(devices::uncached(memory, top, map.direct_map.start, area));
            }
        }
        found.sort_by_key(|range| (range.start, range.end));
        found.dedup_by(|later, earlier| {
            let joined = later.start <= earlier.end;
            if joined {
                earlier.end = earlier.end.max(later.end);
            }
            joined
        });
        found
    }

    fn percpu(&self, map: &KernelMap) -> PercpuAreas {
        let symbol = |name| self.symbols.named(name).map(|s| s.address).next();
        let start = self.symbols.percpu_base();
        let section = match (symbol("__per_cpu_start"), symbol("__per_cpu_end")) {
            (Some(from), Some(to)) if from < to => from..to,
            _ => start..start,
        };
        let Some(table) = self.symbols.address_of("__per_cpu_offset") else {
            return PercpuAreas {
                section,
                ..PercpuAreas::default()
            };
        };
        // An absent CPU keeps the boot value, which is in the image.
        let offset = |cpu: u64| {
            self.start
                .u64(table + 8 * cpu)
                .or_else(|| self.stop.u64(table + 8 * cpu))
        };
        // Up to the first that leads nowhere: the table has an entry for each possible CPU, and
        // absent ones keep the image's value.
        let offsets: Vec<u64> = (0..CPUS_MAX)
            .map_while(offset)
            .take_while(|o| {
                map.direct_map.contains(&o.wrapping_add(section.start))
                    || map.vmalloc.contains(&o.wrapping_add(section.start))
            })
            .collect();
        let length = section.end - section.start;
        // Units are adjacent (mm/percpu.c, `pcpu_embed_first_chunk`), so their distance is their
        // size; with CPUs on several nodes the smallest distance still is.
        let mut sorted = offsets.clone();
        sorted.sort_unstable();
        let distance = sorted
            .windows(2)
            .map(|w| w[1] - w[0])
            .filter(|d| *d >= length)
            .min();
        // The kernel's value if it was imaged, else what the distances say, else the section alone:
        // too small a unit leaves accesses unknown, too large a one would assign foreign accesses
        // to a CPU.
        let told = self
            .symbols
            .address_of("pcpu_unit_size")
            .and_then(|a| self.start.u32(a).or_else(|| self.stop.u32(a)));
        let unit_size = told.map(u64::from).filter(|v| *v >= length).or(distance);
        PercpuAreas {
            offsets,
            unit_size: unit_size.unwrap_or(length),
            section,
        }
    }

    fn percpu_variables(&self, areas: &PercpuAreas) -> Variables {
        let base = self.symbols.percpu_base();
        let known: FxHashMap<u64, _> = self
            .model
            .percpu_variables()
            .into_iter()
            .map(|v| (base.wrapping_add(v.offset.0), v))
            .collect();
        let mut list = self.named(&areas.section, |s| {
            s.name != "__per_cpu_start" && s.name != "__per_cpu_end"
        });
        for variable in &mut list {
            let Some(btf) = known.get(&variable.range.start) else {
                continue;
            };
            variable.name = btf.name.to_string();
            let size = if btf.size == 0 {
                self.model.size_of(btf.type_id).unwrap_or(0)
            } else {
                btf.size.into()
            };
            if size > 0 {
                variable.range.end = variable
                    .range
                    .end
                    .min(variable.range.start.saturating_add(size));
            }
            variable.typed = true;
            variable.ty = self.struct_of(btf.type_id);
        }
        Variables { list }
    }

    /// The struct that a type is, or that it is an array of.
    fn struct_of(&self, id: linemate_types::TypeId) -> Option<TypeIndex> {
        let shape = shape_of(self.model, id, self.types, MAX_DEPTH);
        match &shape {
            MemberShape::Scalar => None,
            _ => aggregate_of(&shape).map(|(ty, _)| ty),
        }
    }

    fn globals(&self, image: &Range<u64>) -> Variables {
        let mut list = self.named(image, |s| {
            s.module.is_none() && !s.name.starts_with("__pfx_")
        });
        for variable in &mut list {
            let Some((_, member)) = STATIC_STRUCTS
                .iter()
                .find(|(name, _)| *name == variable.name)
            else {
                continue;
            };
            let size = variable.range.end - variable.range.start;
            variable.ty = self.anonymous_struct(member, size);
            variable.typed = variable.ty.is_some();
        }
        Variables { list }
    }

    /// The anonymous struct that has this member, fits, and is not part of another type.
    fn anonymous_struct(&self, member: &str, size: u64) -> Option<TypeIndex> {
        let fits = |t: &&(TypeIndex, &crate::schema::Type)| {
            let (index, ty) = **t;
            let has = ty.members.iter().any(|m| m.name == member);
            has && ty.name.is_empty()
                && !ty.union
                && ty.size <= size
                // One that is part of another struct has no variable of its own. Two that fit count
                // as none: a wrong type is worse than no type.
                && self.schema.embedder_count(index) == 0
        };
        let all: Vec<_> = self.schema.iter().collect();
        let mut found = all.iter().filter(fits);
        let first = found.next()?.0;
        found.next().is_none().then_some(first)
    }

    /// The code that [`KernelMap::clearing`] holds.
    fn clearing(&self) -> Vec<Range<u64>> {
        let symbols = self.symbols.all().iter();
        let found = symbols.filter(|s| s.module.is_none() && sites::clears_pages(&s.name));
        found
            .filter_map(|s| Some(s.address..s.address + self.symbols.size_estimate(s)?))
            .collect()
    }

    /// The symbols inside `area` as variables up to the next symbol; of several at one address the
    /// first of the table.
    fn named(&self, area: &Range<u64>, wanted: impl Fn(&Symbol) -> bool) -> Vec<Variable> {
        let symbols = self
            .symbols
            .all()
            .iter()
            .filter(|s| area.contains(&s.address) && wanted(s));
        let mut list: Vec<Variable> = Vec::new();
        for symbol in symbols {
            if let Some(last) = list.last_mut() {
                if last.range.start == symbol.address {
                    continue;
                }
                last.range.end = symbol.address;
            }
            list.push(Variable {
                name: symbol.name.clone(),
                range: symbol.address..area.end,
                ty: None,
                typed: false,
            });
        }
        list
    }

    /// Adds the caches on the list `slab_caches` that are missing.
    fn caches(&self, memory: &KernelMemory, map: &mut KernelMap) {
        let offset = |member| layout_of::member(self.model, "kmem_cache", member);
        let (Some(list), Some(name), Some(size), Some(object_size)) = (
            offset("list"),
            offset("name"),
            offset("size"),
            offset("object_size"),
        ) else {
            return;
        };
        let Some(head) = self.symbols.address_of("slab_caches") else {
            return;
        };
        // mm/slab_common.c, `kmem_cache_create`: caches with objects of one size are merged; the
        // merged cache counts them and keeps its name. Negative: one of the first caches, which are
        // never merged.
        let users = |cache: u64| {
            let count = memory.u32(cache.wrapping_add(offset("refcount")?))?;
            Some(i32::from_ne_bytes(count.to_ne_bytes()))
        };
        let mut entry = memory.u64(head);
        for _ in 0..CACHES_MAX {
            let Some(at) = entry.filter(|e| *e != head) else {
                break;
            };
            let cache = at.wrapping_sub(list);
            let read = || {
                Some(Cache {
                    address: GuestAddr(cache),
                    name: memory
                        .u64(cache.wrapping_add(name))
                        .and_then(|n| memory.text(n))
                        .unwrap_or_else(|| format!("cache at {cache:#x}")),
                    object_size: memory.u32(cache.wrapping_add(object_size))?.into(),
                    stride: memory.u32(cache.wrapping_add(size))?.into(),
                    shared: users(cache).is_some_and(|n| n > 1),
                })
            };
            if let Some(about) = read() {
                if about.stride > 0 && !map.cache_at.contains_key(&cache) {
                    map.cache_at.insert(cache, map.caches.len() as u32);
                    map.caches.push(about);
                }
            }
            entry = memory.u64(at);
        }
    }

    fn pages(&self, memory: &KernelMemory, map: &KernelMap) -> PageUses {
        let count = (map.struct_pages.end - map.struct_pages.start) / map.struct_page_size.max(1);
        if memory.is_empty() || count > 1 << 32 {
            return PageUses::default();
        }
        let Some(reader) = PageReader::new(self, memory, map) else {
            return PageUses::default();
        };
        let mut frames = Vec::new();
        for frame in 0..count {
            let usage = reader.usage(frame);
            if usage != PageUse::Unknown {
                // Grows only as far as there are images: the count is the kernel's claim.
                frames.resize(frame as usize, PageUse::Unknown);
                frames.push(usage);
            }
        }
        PageUses { frames }
    }
}

/// Reads what a `struct page` says about its page.
struct PageReader<'a> {
    memory: &'a KernelMemory,
    map: &'a KernelMap,
    /// `compound_head`, from Linux 7.0 on `compound_info`.
    compound: u64,
    mapping: u64,
    page_type: u64,
    refcount: u64,
    slab_cache: u64,
    types: PageTypes,
    /// `PG_slab` up to 6.9, `PG_lru`, `PG_reserved` as bits of the flags.
    slab_bit: Option<u64>,
    lru_bit: u64,
    reserved_bit: u64,
}

/// How a kernel encodes `page_type`.
#[derive(Clone, Copy)]
enum PageTypes {
    /// From 6.12 on: a number in the top byte (`enum pagetype`).
    Numbers { buddy: u32, table: u32, slab: u32 },
    /// Before: bits that are cleared (include/linux/page-flags.h: `PG_buddy` 0x80, `PG_table` 0x200
    /// in 6.1).
    Bits,
}

impl<'a> PageReader<'a> {
    fn new(
        kernel: &KernelView<'_>,
        memory: &'a KernelMemory,
        map: &'a KernelMap,
    ) -> Option<PageReader<'a>> {
        let of_page = |member| layout_of::member(kernel.model, "page", member);
        let flag = |name| {
            layout_of::enumerator(kernel.model, "pageflags", name).map(|bit| 1u64 << (bit & 63))
        };
        let number = |name| layout_of::enumerator(kernel.model, "pagetype", name).map(|n| n as u32);
        let types = match (
            number("PGTY_buddy"),
            number("PGTY_table"),
            number("PGTY_slab"),
        ) {
            (Some(buddy), Some(table), Some(slab)) => PageTypes::Numbers { buddy, table, slab },
            _ => PageTypes::Bits,
        };
        Some(PageReader {
            memory,
            map,
            compound: of_page("compound_head").or_else(|| of_page("compound_info"))?,
            mapping: of_page("mapping")?,
            page_type: of_page("page_type")?,
            refcount: of_page("_refcount")?,
            slab_cache: layout_of::member(kernel.model, "slab", "slab_cache")?,
            types,
            slab_bit: flag("PG_slab"),
            lru_bit: flag("PG_lru").unwrap_or(0),
            reserved_bit: flag("PG_reserved").unwrap_or(0),
        })
    }

    fn usage(&self, frame: u64) -> PageUse {
        let page = self.map.struct_pages.start + frame * self.map.struct_page_size;
        self.read(page, frame).unwrap_or_default()
    }

    /// The head of the compound page that `page` is part of. Bit 0 of `compound` marks a tail page;
    /// the rest is the head's address, or, if `compound_info` is a mask
    /// (include/linux/page-flags.h, `_compound_head`), what turns the tail's address into the
    /// head's. A mask has all high bits set, so it is not an address in the array.
    fn head(&self, page: u64, compound: u64) -> u64 {
        if compound & 1 == 0 {
            page
        } else if self.map.struct_pages.contains(&(compound - 1)) {
            compound - 1
        } else {
            page & compound
        }
    }

    fn read(&self, page: u64, frame: u64) -> Option<PageUse> {
        let size = self.map.struct_page_size as usize;
        self.memory.bytes(page, size)?;
        let head = self.head(page, self.memory.u64(page + self.compound)?);
        let first = match head == page {
            true => frame,
            false => head.checked_sub(self.map.struct_pages.start)? / self.map.struct_page_size,
        };
        let flags = self.memory.u64(head)?;
        let page_type = self.memory.u32(head + self.page_type)?;
        let (buddy, table, slab) = match self.types {
            PageTypes::Numbers { buddy, table, slab } => {
                let kind = page_type >> 24;
                (kind == buddy, kind == table, kind == slab)
            }
            PageTypes::Bits => {
                // The top bits are set in every page with a type, which distinguishes it from a map
                // count; a type's own bit is cleared.
                let has = |bit: u32| page_type & (0xf000_0000 | bit) == 0xf000_0000;
                (
                    has(0x80),
                    has(0x200),
                    self.slab_bit.is_some_and(|bit| flags & bit != 0),
                )
            }
        };
        if slab {
            let cache = self.memory.u64(head + self.slab_cache)?;
            let cache = *self.map.cache_at.get(&cache)?;
            return Some(PageUse::Slab {
                cache,
                first: u32::try_from(first).ok()?,
            });
        }
        let refcount = self.memory.u32(head + self.refcount)?;
        let mapping = self.memory.u64(head + self.mapping)?;
        Some(if table {
            PageUse::PageTable
        } else if buddy || (refcount == 0 && flags & self.reserved_bit == 0) {
            // Reserved pages (firmware's, the kernel image's) may have no reference and are never
            // handed out.
            PageUse::Free
        } else if flags & self.reserved_bit != 0 {
            PageUse::Kernel
        } else if flags & self.lru_bit != 0 || mapping != 0 {
            // Reclaimable, or part of a file or an anonymous mapping.
            PageUse::Contents
        } else {
            PageUse::Kernel
        })
    }
}
