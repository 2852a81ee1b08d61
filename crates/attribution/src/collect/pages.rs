//! The part of the first pass for whole pages: handed out, found to be page tables, freed.

use linemate_recording::{PAGE, Return, VirtualTime};

use super::{Collector, PendingAllocation};
use crate::index::ObjectId;
use crate::kinds::{ObjectKind, Origin};
use crate::map::STACK_SIZE;
use crate::sites::SiteUse;
use crate::votes::Bounds;

impl Collector<'_> {
    /// An entry of a page table was passed: its page is one.
    pub(super) fn page_table(&mut self, addr: u64, time: VirtualTime) {
        let Some(frame) = self.map.frame(addr) else {
            return;
        };
        match self.living_pages(addr - addr % PAGE) {
            Some(object) => {
                let about = self.out.kinds.get(self.out.objects[object.0 as usize].kind);
                if about.usage != SiteUse::PageTable {
                    let kind = ObjectKind {
                        usage: SiteUse::PageTable,
                        ..about
                    };
                    let kind = self.out.kinds.number(kind, Bounds::Exact(about.size), None);
                    self.out.objects[object.0 as usize].kind = kind;
                }
            }
            None => {
                self.out.page_tables.entry(frame).or_insert(time);
            }
        }
    }

    pub(super) fn pages(&mut self, call: &PendingAllocation, ret: &Return) {
        let Some(addr) = self.map.page_address(ret.value) else {
            return;
        };
        // 1 GiB at most, far beyond the page allocator's own limit: an order from a broken
        // recording must not shift everything out.
        let size = PAGE << call.order.unwrap_or(0).min(18);
        let first = (addr - self.map.direct_map.start) / PAGE;
        for frame in first..first + size / PAGE {
            self.out.frame_taken.entry(frame).or_insert(call.time);
        }
        // An allocator inside another, as for heap objects.
        if let Some(inner) = self
            .living_pages(addr)
            .filter(|o| self.out.objects[o.0 as usize].birth >= call.time)
        {
            self.kill(inner, call.time);
        }
        let kind = ObjectKind {
            origin: Origin::Pages,
            site: Some(call.caller),
            size,
            usage: call.usage,
        };
        let kind = self.out.kinds.number(kind, Bounds::Exact(size), None);
        let object = self.birth(addr..addr.saturating_add(size), call.time, kind, None);
        self.out.objects[object.0 as usize].ready = ret.time;
        if call.usage == SiteUse::Slab {
            if let Some(cache) = self.cache_allocating_pages(ret.stack.0) {
                self.out.slab_caches.insert(object, cache);
            }
        }
    }

    /// The cache of the nearest allocation in progress on the stack of `pointer`, above it.
    fn cache_allocating_pages(&self, pointer: u64) -> Option<u32> {
        // Stacks grow down, so a caller's pointer is above; the nearest pending allocation is the
        // one that ran out of slabs.
        let same = |stack: &&u64| **stack > pointer && **stack / STACK_SIZE == pointer / STACK_SIZE;
        let nearest = self.pending.keys().filter(same).min()?;
        let cache = self.pending[nearest].iter().find_map(|p| p.cache)?;
        self.map.cache_at.get(&cache).copied()
    }

    pub(super) fn living_pages(&self, addr: u64) -> Option<ObjectId> {
        let list = self.live.get(&(addr / PAGE))?;
        let is_pages = |o: &&ObjectId| {
            let object = &self.out.objects[o.0 as usize];
            object.range.start == addr && self.out.kinds.get(object.kind).origin == Origin::Pages
        };
        list.iter().find(is_pages).copied()
    }

    pub(super) fn free_pages(&mut self, page: Option<u64>, order: u64, time: VirtualTime) {
        let Some(addr) = page.and_then(|p| self.map.page_address(p)) else {
            return;
        };
        if let Some(object) = self.living_pages(addr) {
            self.kill(object, time);
        }
        let first = (addr - self.map.direct_map.start) / PAGE;
        for frame in first..first + (1u64 << order.min(18)) {
            // Only the first time: it ends what was known at the start. Later lives are objects of
            // their own.
            self.out.frame_freed.entry(frame).or_insert(time);
            self.empty_page(addr / PAGE + (frame - first), time);
        }
    }

    /// Freeing a page ends everything in it.
    fn empty_page(&mut self, page: u64, time: VirtualTime) {
        for object in self.live.get(&page).cloned().unwrap_or_default() {
            if self
                .out
                .kinds
                .get(self.out.objects[object.0 as usize].kind)
                .origin
                != Origin::Pages
            {
                self.kill(object, time);
            }
        }
    }
}
