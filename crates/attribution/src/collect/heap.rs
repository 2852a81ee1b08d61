//! The part of the first pass for heap allocations: which object a return yields, of which cache
//! and size.
//!
//! Objects from before the recording are not made here: [`Collector::implied`] finds them in their
//! slabs.

use linemate_recording::VirtualTime;

use super::{Collector, PendingAllocation};
use crate::index::ObjectId;
use crate::kinds::{ObjectKind, Origin};
use crate::map::PageUse;
use crate::votes::{Bounds, Hint};

impl<'a> Collector<'a> {
    pub(super) fn heap(&mut self, call: &PendingAllocation, addr: u64) {
        // An error, or memory that `kvmalloc` got from `vmalloc`, whose own return is watched.
        if !self.map.direct_map.contains(&addr) {
            return;
        }
        let mut birth = call.time;
        if let Some(inner) = self.begun_at(addr, call.time) {
            let inner_object = &self.out.objects[inner.0 as usize];
            if self.out.kinds.get(inner_object.kind).origin != Origin::Pages {
                return self.ask_outer(inner, call);
            }
            // A slab allocated for this very object, which got its first slot; or a large block.
            birth = inner_object.ready;
        }
        // The argument first, if there is one: a merged cache's slabs have the name of another.
        let cache = call
            .cache
            .and_then(|c| self.map.cache_at.get(&c))
            .copied()
            .or_else(|| self.cache_of_page(addr));
        let origin = match (cache, call.size) {
            (Some(cache), _) => Origin::Cache(cache),
            (None, Some(size)) => self
                .general_cache(size)
                .map_or(Origin::Kmalloc, Origin::Cache),
            (None, None) => return,
        };
        let size = match (call.size, cache) {
            (Some(size), _) => size,
            (None, Some(cache)) => self.map.caches[cache as usize].object_size,
            (None, None) => return,
        };
        let kind = ObjectKind {
            origin,
            site: Some(call.caller),
            size,
            usage: call.usage,
        };
        let hint = self.hint_of(origin);
        let kind = self.out.kinds.number(kind, Bounds::Exact(size), hint);
        self.birth(addr..addr.saturating_add(size), birth, kind, None);
    }

    /// An allocator inside another: the object exists; the outer call knows better who asked for
    /// it.
    fn ask_outer(&mut self, inner: ObjectId, call: &PendingAllocation) {
        let about = self.out.kinds.get(self.out.objects[inner.0 as usize].kind);
        let outer = ObjectKind {
            site: Some(call.caller),
            ..about
        };
        let hint = self.hint_of(about.origin);
        let kind = self
            .out
            .kinds
            .number(outer, Bounds::Exact(about.size), hint);
        self.out.objects[inner.0 as usize].kind = kind;
    }

    /// The innermost live object that starts at `addr` and was born at `time` or later.
    fn begun_at(&self, addr: u64, time: VirtualTime) -> Option<ObjectId> {
        self.living(addr).filter(|o| {
            let object = &self.out.objects[o.0 as usize];
            object.range.start == addr && object.birth >= time
        })
    }

    fn hint_of(&self, origin: Origin) -> Option<Hint<'a>> {
        let Origin::Cache(cache) = origin else {
            return None;
        };
        self.map.caches.get(cache as usize)?.hint()
    }

    fn cache_of_page(&self, addr: u64) -> Option<u32> {
        let frame = self.map.frame(addr)?;
        let uses = [
            self.map.pages_at_start.of(frame),
            self.map.pages_at_stop.of(frame),
        ];
        let intact = !self.out.frame_freed.contains_key(&frame);
        uses.into_iter()
            // Once a frame was freed, what the start's image says about it no longer holds.
            .skip(usize::from(!intact))
            .find_map(|u| match u {
                PageUse::Slab { cache, .. } => Some(cache),
                _ => None,
            })
    }

    fn general_cache(&self, size: u64) -> Option<u32> {
        let plain = |name: &str| {
            name.strip_prefix("kmalloc-")
                .is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()))
        };
        let fitting = self
            .map
            .caches
            .iter()
            .enumerate()
            .filter(|(_, c)| plain(&c.name) && c.object_size >= size);
        fitting
            // As `kmalloc` chooses: the smallest general cache with room.
            .min_by_key(|(i, c)| (c.object_size, *i))
            .map(|(i, _)| i as u32)
    }
}
