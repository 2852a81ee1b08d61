//! The first pass: calls and returns in, object lifetimes and sightings out.
//!
//! Memory is bounded by the objects and the distinct sightings, not by the length of the stream:
//! accesses are not looked at. It does not decide what anything is; [`crate::kinds`] does that when
//! everything has been seen.

mod heap;
mod pages;

use std::cmp::Reverse;
use std::ops::Range;

use linemate_recording::{
    Call, CpuId, FunctionId, FunctionTable, GuestAddr, Meaning, PAGE, Return, Role, VirtualTime,
};
use linemate_types::Symbols;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::frames::CallFrames;
use crate::index::{NEVER, ObjectId};
use crate::kinds::{KindId, Kinds, ObjectKind, Origin, SILENT, SignatureId};
use crate::map::{KernelMap, PageUse, STACK_SIZE};
use crate::pointers::is_dynamic_percpu;
use crate::schema::TypeIndex;
use crate::sites::{self, SiteUse};
use crate::spans::Spans;
use crate::votes::{Bounds, Votes};

/// The slots of the kernel's general caches on x86-64 (mm/slab_common.c, `kmalloc_info`), to know
/// what is too small for one.
const GENERAL_SIZES: [u64; 13] = [
    8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192,
];

/// The largest plausible object: 1 GiB. Larger sizes come from error values and broken recordings.
const SIZE_MAX: u64 = 1 << 30;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) range: Range<u64>,
    pub(crate) birth: VirtualTime,
    pub(crate) death: VirtualTime,
    pub(crate) kind: KindId,
    pub(crate) signature: SignatureId,
    /// The CPU that owns this copy of a per-CPU allocation.
    pub(crate) cpu: Option<CpuId>,
    /// For pages: when the allocator handed them out. Until then it clears them.
    pub(crate) ready: VirtualTime,
}

/// The result of the first pass.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) objects: Vec<Object>,
    pub(crate) kinds: Kinds,
    /// Sightings in the image, by address.
    pub(crate) in_image: Votes,
    /// Sightings in the first per-CPU chunk, by per-CPU address, outside of tracked allocations.
    pub(crate) in_percpu: Votes,
    /// Sightings anywhere else outside of tracked allocations, by address.
    pub(crate) elsewhere: Votes,
    /// Kernel stacks: addresses divided by [`STACK_SIZE`].
    pub(crate) stacks: FxHashSet<u64>,
    /// When each page frame was first freed: what was known about it at the start ends there.
    pub(crate) frame_freed: FxHashMap<u64, VirtualTime>,
    /// When each page frame was first handed out.
    pub(crate) frame_taken: FxHashMap<u64, VirtualTime>,
    /// When objects of a cache were handed out whose addresses are in no event, by cache.
    pub(crate) handed_out: FxHashMap<u32, Spans>,
    /// What the objects of [`Collected::handed_out`] are, as far as known, by cache.
    pub(crate) handed_out_kinds: FxHashMap<u32, KindId>,
    /// The caches for which page objects were allocated, as far as the calls show.
    pub(crate) slab_caches: FxHashMap<ObjectId, u32>,
    /// Page frames from before the recording that were found to be page tables.
    pub(crate) page_tables: FxHashMap<u64, VirtualTime>,
    /// Sightings through the functions' parameters: all, and those in stacks or where no object can
    /// be.
    pub(crate) sightings: u64,
    pub(crate) sightings_unused: u64,
    /// Returns without a recorded call; allocator calls without a recorded return.
    pub(crate) unpaired: u64,
}

#[derive(Clone, Copy, Debug)]
struct PendingAllocation {
    time: VirtualTime,
    caller: GuestAddr,
    cache: Option<u64>,
    size: Option<u64>,
    order: Option<u64>,
    bulk: bool,
    usage: SiteUse,
}

/// How many callers are searched for the purpose of a page: allocators nest about half as deep.
const CALLERS_ASKED: usize = 12;

#[derive(Debug)]
pub(crate) struct Collector<'a> {
    table: &'a FunctionTable,
    map: &'a KernelMap,
    /// BTF type ids to types.
    types: &'a FxHashMap<u32, TypeIndex>,
    out: Collected,
    /// Living objects by page.
    live: FxHashMap<u64, Vec<ObjectId>>,
    votes: FxHashMap<ObjectId, Votes>,
    /// Allocations in progress, by stack pointer: unique while a call runs, and the same after a
    /// tail call.
    pending: FxHashMap<u64, Vec<PendingAllocation>>,
    /// Slots that were freed, and when.
    vacated: FxHashMap<u64, VirtualTime>,
    /// Who first asked for objects in bulk, by cache. No event has their addresses, so no event
    /// shows which of several sites an object was handed out for: all of a cache's are of one kind.
    bulk: FxHashMap<u32, GuestAddr>,
    /// The stack on which the last call was made.
    last_stack: Option<u64>,
    frames: CallFrames,
    /// By function: what its name says about the memory it allocates.
    uses: Vec<SiteUse>,
    /// By function: whether it hands out an object without being watched for its result.
    takes_from_stock: Vec<bool>,
    /// `pte_t` and the like: a page with one of these is a page table.
    entries: &'a FxHashSet<TypeIndex>,
    symbols: &'a Symbols,
    /// What sites' names say, by return address.
    site_uses: FxHashMap<u64, SiteUse>,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(
        table: &'a FunctionTable,
        map: &'a KernelMap,
        types: &'a FxHashMap<u32, TypeIndex>,
        entries: &'a FxHashSet<TypeIndex>,
        symbols: &'a Symbols,
    ) -> Self {
        Collector {
            table,
            map,
            types,
            out: Collected::default(),
            live: FxHashMap::default(),
            votes: FxHashMap::default(),
            pending: FxHashMap::default(),
            vacated: FxHashMap::default(),
            bulk: FxHashMap::default(),
            last_stack: None,
            frames: CallFrames::default(),
            uses: table
                .functions
                .iter()
                .map(|f| sites::by_name(&f.name))
                .collect(),
            takes_from_stock: table
                .functions
                .iter()
                .map(|f| sites::takes_from_stock(&f.name))
                .collect(),
            entries,
            symbols,
            site_uses: FxHashMap::default(),
        }
    }

    /// Adds what pointers point to when recording starts.
    pub(crate) fn pointed(&mut self) {
        for &(to, ty) in &self.map.pointed {
            if is_dynamic_percpu(to, &self.map.percpu) {
                self.out.in_percpu.add(to, ty, 1);
            } else {
                self.sighting(to, ty, VirtualTime(0));
            }
        }
    }

    /// Handles a recorded call of a function.
    pub(crate) fn call(&mut self, call: &Call) {
        self.stack(call.stack.0);
        // Before the function's meaning is used: an allocation that starts here needs its callers.
        self.frames.enter(call.stack, call.function);
        let Some(function) = self.table.functions.get(call.function.0 as usize) else {
            return;
        };
        if self.takes_from_stock[call.function.0 as usize] {
            let mut values = call.values.iter().flatten();
            let cache = values.find_map(|raw| self.map.cache_at.get(raw));
            if let Some(cache) = cache {
                self.hand_out(*cache, call.time, call.time);
            }
        }
        let mut value = Values::default();
        for (parameter, &raw) in function.parameters.iter().zip(&call.values) {
            let Some(raw) = raw else { continue };
            match parameter.meaning {
                Meaning::StructPointer(id) => {
                    if let Some(&ty) = self.types.get(&id) {
                        self.sighting(raw, ty, call.time);
                    }
                }
                Meaning::Cache => value.cache = Some(raw),
                Meaning::Size => value.size = Some(raw),
                Meaning::Order => value.order = Some(raw),
                Meaning::Count => value.count = Some(raw),
                Meaning::Object => value.object = Some(raw),
                Meaning::ObjectArray => value.bulk = true,
                Meaning::ObjectSlot => {}
            }
        }
        match function.role {
            Role::HeapAlloc | Role::PercpuAlloc | Role::PageAlloc | Role::VirtualAlloc => {
                self.begin(call, &value)
            }
            Role::HeapFree | Role::VirtualFree => self.free(value.object, call.time),
            Role::PercpuFree => self.free_percpu(value.object, call.time),
            Role::PageFree => self.free_pages(value.object, value.order.unwrap_or(0), call.time),
            Role::Plain | Role::ContextSwitch | Role::Interrupt | Role::Event => {}
        }
    }

    /// Handles a return.
    pub(crate) fn returned(&mut self, ret: &Return) {
        // By stack pointer: it is equal at a call and its return, and no two calls in progress
        // share it except after a tail call.
        let Some(calls) = self.pending.remove(&ret.stack.0) else {
            self.out.unpaired += 1;
            return;
        };
        let Some(role) = self
            .table
            .functions
            .get(ret.function.0 as usize)
            .map(|f| f.role)
        else {
            return;
        };
        // A tail call: the first call has the site, any may have the size.
        let Some(mut call) = calls.first().copied() else {
            return;
        };
        for later in &calls[1..] {
            call.cache = later.cache.or(call.cache);
            call.size = call.size.or(later.size);
            call.order = call.order.or(later.order);
            call.bulk |= later.bulk;
        }
        match role {
            Role::HeapAlloc if call.bulk => self.note_bulk(&call, ret.time),
            Role::HeapAlloc => self.heap(&call, ret.value),
            Role::PercpuAlloc => self.percpu(&call, ret.value),
            Role::PageAlloc => self.pages(&call, ret),
            Role::VirtualAlloc => self.virtually(&call, ret.value),
            _ => {}
        }
    }

    pub(crate) fn finish(mut self) -> Collected {
        self.out.unpaired += self.pending.values().map(|v| v.len() as u64).sum::<u64>();
        for times in self.out.handed_out.values_mut() {
            times.sort();
        }
        // What a cache's name says also holds for its objects without an event.
        for cache in 0..self.map.caches.len() as u32 {
            self.kind_of_cache(cache, None);
        }
        for cache in self.out.handed_out.keys().copied().collect::<Vec<_>>() {
            let kind = self.kind_of_cache(cache, self.bulk.get(&cache).copied());
            self.out.handed_out_kinds.insert(cache, kind);
        }
        for i in 0..self.out.objects.len() {
            if self.out.objects[i].death == NEVER {
                self.retire(ObjectId(i as u32));
            }
        }
        self.out
    }

    fn stack(&mut self, pointer: u64) {
        let block = pointer / STACK_SIZE;
        if Some(block) != self.last_stack && self.map.vmalloc.contains(&pointer) {
            self.last_stack = Some(block);
            self.out.stacks.insert(block);
        }
    }

    fn sighting(&mut self, addr: u64, ty: TypeIndex, time: VirtualTime) {
        self.out.sightings += 1;
        // A `pte_t *` shows what the page is, not what an object at that address is.
        if self.entries.contains(&ty) {
            self.page_table(addr, time);
            return;
        }
        // A struct on a stack lives as long as its frame: the address would later name something
        // else.
        if self.out.stacks.contains(&(addr / STACK_SIZE)) {
            self.out.sightings_unused += 1;
        } else if let Some(object) = self.object_at(addr, time) {
            let start = self.out.objects[object.0 as usize].range.start;
            self.votes
                .entry(object)
                .or_default()
                .add(addr - start, ty, 1);
        } else if self.map.image.contains(&addr) {
            self.out.in_image.add(addr, ty, 1);
        } else if let Some((_, percpu)) = self.map.percpu_address(addr) {
            self.out.in_percpu.add(percpu, ty, 1);
        } else if self.is_open(addr) {
            self.out.elsewhere.add(addr, ty, 1);
        } else {
            self.out.sightings_unused += 1;
        }
    }

    /// Whether an address outside every tracked object can still hold one: the kernel's own pages
    /// from before the recording, and the vmalloc area.
    fn is_open(&self, addr: u64) -> bool {
        if self.map.vmalloc.contains(&addr) {
            return true;
        }
        let Some(frame) = self.map.frame(addr) else {
            return false;
        };
        let kernels = matches!(
            self.map.pages_at_start.of(frame),
            PageUse::Kernel | PageUse::Unknown
        );
        kernels
            && !self.out.frame_freed.contains_key(&frame)
            && !self.out.frame_taken.contains_key(&frame)
    }

    /// The object at an address: a live one, else one without an event, else the pages handed out
    /// there.
    fn object_at(&mut self, addr: u64, time: VirtualTime) -> Option<ObjectId> {
        let living = self.living(addr);
        let pages = |o: &ObjectId| {
            let kind = self.out.objects[o.0 as usize].kind;
            self.out.kinds.get(kind).origin == Origin::Pages
        };
        match living {
            Some(object) if !pages(&object) => living,
            _ => self.implied(addr, time).or(living),
        }
    }

    /// The innermost live object at an address: the shortest, of two equally long ones the later.
    fn living(&self, addr: u64) -> Option<ObjectId> {
        let list = self.live.get(&(addr / PAGE))?;
        let objects = &self.out.objects;
        let holds = |o: &&ObjectId| objects[o.0 as usize].range.contains(&addr);
        list.iter()
            .filter(holds)
            // A heap object is inside the pages allocated for its slab: the shorter one is the
            // object.
            .min_by_key(|o| (length(&objects[o.0 as usize].range), Reverse(o.0)))
            .copied()
    }

    /// The object whose slot of a slab contains `addr` although its birth has no event: from before
    /// the recording, or handed out in bulk.
    fn implied(&mut self, addr: u64, time: VirtualTime) -> Option<ObjectId> {
        let (cache, range, was_there) = self.slot_at(addr)?;
        if !range.contains(&addr) {
            return None;
        }
        let freed = self.vacated.get(&range.start).copied();
        let handed_out = self.out.handed_out.get(&cache).and_then(Spans::latest);
        let (birth, site) = match (freed, handed_out) {
            (None, _) if was_there => (VirtualTime(0), None),
            // Free since before the last bulk call, so it may be one of those handed out then. That
            // it is accessed confirms it.
            (freed, Some(at)) if freed.is_none_or(|f| f <= at) => {
                (at, self.bulk.get(&cache).copied())
            }
            _ => return None,
        };
        if birth > time {
            return None;
        }
        let kind = self.kind_of_cache(cache, site);
        Some(self.birth(range, birth, kind, None))
    }

    /// The cache and the slot of a slab's address, and whether the slab predates the recording.
    fn slot_at(&self, addr: u64) -> Option<(u32, Range<u64>, bool)> {
        let frame = self.map.frame(addr)?;
        let usage = self.map.pages_at_start.of(frame);
        if matches!(usage, PageUse::Slab { .. }) && !self.out.frame_freed.contains_key(&frame) {
            let (cache, slot) = self.map.slab_slot(addr, usage)?;
            return Some((cache, slot, true));
        }
        let slab = self.live.get(&(addr / PAGE)).into_iter().flatten();
        let mut known = slab.filter_map(|o| Some((o, *self.out.slab_caches.get(o)?)));
        if let Some((slab, cache)) = known.next_back() {
            let base = self.out.objects[slab.0 as usize].range.start;
            return Some((cache, self.map.slot(addr, base, cache)?, false));
        }
        // A slab that was made during the recording, unseen: the image at the end still shows it.
        let (cache, slot) = self.map.slab_slot(addr, self.map.pages_at_stop.of(frame))?;
        Some((cache, slot, false))
    }

    fn kind_of_cache(&mut self, cache: u32, site: Option<GuestAddr>) -> KindId {
        let about = &self.map.caches[cache as usize];
        let size = about.object_size;
        let kind = ObjectKind {
            origin: Origin::Cache(cache),
            site,
            size,
            usage: SiteUse::Other,
        };
        // An object of `kmalloc-512` may have any size above the next smaller slot's: smaller ones
        // would have come from there.
        if about.is_general() {
            let over = GENERAL_SIZES
                .iter()
                .rev()
                .find(|s| **s < size)
                .copied()
                .unwrap_or(0);
            self.out
                .kinds
                .number(kind, Bounds::Slot { size, over }, None)
        } else {
            self.out
                .kinds
                .number(kind, Bounds::Exact(size), about.hint())
        }
    }

    fn begin(&mut self, call: &Call, value: &Values) {
        let size = match (value.size, value.count) {
            // `kcalloc(n, size)`: the kernel refuses an overflow, too.
            (Some(size), Some(count)) => size.checked_mul(count),
            (size, None) => size,
            (None, Some(_)) => None,
        };
        let usage = self.usage(call);
        self.pending
            .entry(call.stack.0)
            .or_default()
            .push(PendingAllocation {
                time: call.time,
                caller: call.caller,
                cache: value.cache,
                size: size.filter(|s| *s > 0 && *s <= SIZE_MAX),
                order: value.order,
                bulk: value.bulk,
                usage,
            });
    }

    /// The purpose of an allocation: what its site's name says; else for pages, which come through
    /// several layers of allocators, the nearest caller with a specific name.
    fn usage(&mut self, call: &Call) -> SiteUse {
        let symbols = self.symbols;
        let site = *self.site_uses.entry(call.caller.0).or_insert_with(|| {
            // The return address can be after the function, if the call was its last instruction.
            symbols
                .at(call.caller.0.saturating_sub(1))
                .map_or(SiteUse::Other, |(s, _)| sites::by_name(&s.name))
        });
        let of = |f: FunctionId| {
            self.uses
                .get(f.0 as usize)
                .copied()
                .unwrap_or(SiteUse::Other)
        };
        let pages = self
            .table
            .functions
            .get(call.function.0 as usize)
            .is_some_and(|f| f.role == Role::PageAlloc);
        let callers = self
            .frames
            .callers(call.stack)
            .take(CALLERS_ASKED)
            .filter(|_| pages)
            .map(of);
        std::iter::once(site)
            .chain(callers)
            .find(|u| *u != SiteUse::Other)
            .unwrap_or(SiteUse::Other)
    }

    fn note_bulk(&mut self, call: &PendingAllocation, returned: VirtualTime) {
        if let Some(cache) = call.cache.and_then(|c| self.map.cache_at.get(&c)) {
            self.bulk.entry(*cache).or_insert(call.caller);
            self.hand_out(*cache, call.time, returned);
        }
    }

    fn hand_out(&mut self, cache: u32, begin: VirtualTime, end: VirtualTime) {
        self.out
            .handed_out
            .entry(cache)
            .or_default()
            .push(begin, end);
    }

    fn percpu(&mut self, call: &PendingAllocation, cookie: u64) {
        let Some(size) = call.size.filter(|_| cookie != 0) else {
            return;
        };
        let kind = ObjectKind {
            origin: Origin::Percpu,
            site: Some(call.caller),
            size,
            usage: SiteUse::Other,
        };
        let kind = self.out.kinds.number(kind, Bounds::Exact(size), None);
        for cpu in 0..self.map.percpu.offsets.len() {
            let start = cookie.wrapping_add(self.map.percpu.offsets[cpu]);
            self.birth(
                start..start.saturating_add(size),
                call.time,
                kind,
                Some(CpuId(cpu as u16)),
            );
        }
    }

    fn virtually(&mut self, call: &PendingAllocation, addr: u64) {
        let Some(size) = call.size.filter(|_| self.map.vmalloc.contains(&addr)) else {
            return;
        };
        if self
            .living(addr)
            // `vmalloc` calls `__vmalloc_node` and so on: the innermost return comes first and made
            // the object.
            .is_some_and(|o| self.out.objects[o.0 as usize].birth >= call.time)
        {
            return;
        }
        let kind = ObjectKind {
            origin: Origin::Virtual,
            site: Some(call.caller),
            size,
            usage: SiteUse::Other,
        };
        let kind = self.out.kinds.number(kind, Bounds::Exact(size), None);
        self.birth(addr..addr.saturating_add(size), call.time, kind, None);
    }

    fn birth(
        &mut self,
        range: Range<u64>,
        time: VirtualTime,
        kind: KindId,
        cpu: Option<CpuId>,
    ) -> ObjectId {
        let origin = self.out.kinds.get(kind).origin;
        if let Some(old) = self.overlapping(&range, origin) {
            // Its free was not seen (bulk frees have no addresses).
            self.kill(old, time);
        }
        let id = ObjectId(self.out.objects.len() as u32);
        for page in pages_of(&range) {
            self.live.entry(page).or_default().push(id);
        }
        self.out.objects.push(Object {
            range,
            birth: time,
            death: NEVER,
            kind,
            signature: SILENT,
            cpu,
            ready: time,
        });
        id
    }

    fn overlapping(&self, range: &Range<u64>, origin: Origin) -> Option<ObjectId> {
        let list = self.live.get(&(range.start / PAGE))?;
        let same = |o: &&ObjectId| {
            let object = &self.out.objects[o.0 as usize];
            let pages = |origin| origin == Origin::Pages;
            // Only one that starts there: an object inside pages overlaps them by design.
            object.range.start == range.start
                && pages(self.out.kinds.get(object.kind).origin) == pages(origin)
        };
        list.iter().find(same).copied()
    }

    fn free(&mut self, addr: Option<u64>, time: VirtualTime) {
        // `kfree(NULL)` and error pointers are allowed and free nothing.
        let Some(addr) = addr.filter(|a| *a >= PAGE) else {
            return;
        };
        let Some(object) = self.object_at(addr, time) else {
            return;
        };
        let about = &self.out.objects[object.0 as usize];
        if about.range.start == addr && self.out.kinds.get(about.kind).origin != Origin::Pages {
            self.kill(object, time);
            // So that the slot is not again taken for an object from before the recording.
            self.vacated.insert(addr, time);
        }
    }

    fn free_percpu(&mut self, cookie: Option<u64>, time: VirtualTime) {
        let Some(cookie) = cookie.filter(|c| *c != 0) else {
            return;
        };
        for cpu in 0..self.map.percpu.offsets.len() {
            let start = cookie.wrapping_add(self.map.percpu.offsets[cpu]);
            if let Some(object) = self.living(start) {
                if self.out.objects[object.0 as usize].range.start == start {
                    self.kill(object, time);
                }
            }
        }
    }

    fn kill(&mut self, id: ObjectId, time: VirtualTime) {
        let range = self.out.objects[id.0 as usize].range.clone();
        for page in pages_of(&range) {
            if let Some(list) = self.live.get_mut(&page) {
                list.retain(|o| *o != id);
                if list.is_empty() {
                    self.live.remove(&page);
                }
            }
        }
        self.out.objects[id.0 as usize].death = time;
        self.retire(id);
    }

    fn retire(&mut self, id: ObjectId) {
        let votes = self.votes.remove(&id).unwrap_or_default();
        let object = &mut self.out.objects[id.0 as usize];
        object.signature = self.out.kinds.retire(object.kind, &votes);
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Values {
    cache: Option<u64>,
    size: Option<u64>,
    order: Option<u64>,
    count: Option<u64>,
    object: Option<u64>,
    bulk: bool,
}

fn length(range: &Range<u64>) -> u64 {
    range.end - range.start
}

fn pages_of(range: &Range<u64>) -> Range<u64> {
    let first = range.start / PAGE;
    first..range.end.saturating_sub(1).max(range.start) / PAGE + 1
}
