//! Where an access to the kernel's memory went: which area of the address space, then what is
//! there.

use linemate_recording::{Access, GuestAddr, VirtualTime};
use rustc_hash::FxHashSet;

use super::frames::FrameTimes;
use super::located::{Located, Wholes};
use super::objects::Objects;
use super::percpu::{InUnit, PercpuNames};
use super::slabs::{SlabFacts, SlabSlot, Slabs};
use super::variables::VariableNames;
use crate::collect::Collected;
use crate::index::{ObjectId, Tenant};
use crate::ledger::Bucket;
use crate::map::{KernelMap, PageUse, STACK_SIZE};
use crate::schema::Schema;
use crate::subjects::{Extent, SubjectId, Subjects, clip, extents, find};
use crate::votes::Bounds;

/// Finds where an access to the kernel's memory went.
#[derive(Debug)]
pub(super) struct KernelNames {
    map: KernelMap,
    whole: Wholes,
    /// Kernel stacks: addresses divided by [`STACK_SIZE`].
    stacks: FxHashSet<u64>,
    objects: Objects,
    slabs: Slabs,
    frames: FrameTimes,
    globals: VariableNames,
    percpu: PercpuNames,
    /// Sightings outside tracked objects.
    elsewhere: Vec<Extent>,
    /// The subject of pages' own structs, if the types have one of their size.
    struct_page: Option<SubjectId>,
}

impl KernelNames {
    // The areas number their subjects in this order, which orders rows that are otherwise equal.
    pub(super) fn new(
        subjects: &mut Subjects,
        schema: &Schema,
        map: KernelMap,
        collected: Collected,
    ) -> KernelNames {
        let whole = Wholes::new(subjects);
        let (kinds, list) = (&collected.kinds, &collected.objects);
        let objects = Objects::new(subjects, schema, &map, kinds, list);
        let facts = SlabFacts {
            handed_out: collected.handed_out,
            handed_out_kinds: collected.handed_out_kinds,
            taken: collected.slab_caches,
        };
        let slabs = Slabs::new(subjects, &map, kinds, list, facts);
        let in_image = &collected.in_image;
        let globals = VariableNames::new(subjects, schema, &map.globals, in_image, false);
        let percpu = PercpuNames::new(subjects, schema, &map, &collected.in_percpu);
        let elsewhere = collected.elsewhere.decide(schema, Bounds::Open, None);
        KernelNames {
            whole,
            stacks: collected.stacks,
            objects,
            slabs,
            frames: FrameTimes {
                freed: collected.frame_freed,
                taken: collected.frame_taken,
                page_tables: collected.page_tables,
            },
            globals,
            percpu,
            elsewhere: extents(subjects, &elsewhere.placements, Bucket::Field, "", false),
            struct_page: struct_page(subjects, schema, &map),
            map,
        }
    }

    /// The first byte, the birth and the name of every tracked object.
    pub(super) fn objects(&self) -> impl Iterator<Item = (GuestAddr, VirtualTime, Located)> {
        self.objects.iter().map(|(id, object)| {
            let start = GuestAddr(object.start);
            (start, object.birth, self.objects.inside(id, start))
        })
    }

    /// Counted only for a bucket.
    pub(super) fn nowhere(&self, bucket: Bucket) -> Located {
        Located {
            subject: self.whole.of(bucket),
            offset: 0,
            object: GuestAddr(0),
            owner: None,
        }
    }

    /// Where an access went.
    pub(super) fn locate(&self, access: &Access) -> Located {
        let found = self.locate_at(access.addr, access.time);
        // Some pages are allocated in bulk, which has no event; but nobody clears a page that stays
        // free.
        if found.subject == self.whole.of(Bucket::UnknownFreePage)
            && self.map.clears_pages(access.pc)
        {
            return self.nowhere(Bucket::PageCleared);
        }
        found
    }

    /// What is at an address at a time.
    pub(super) fn locate_at(&self, addr: GuestAddr, time: VirtualTime) -> Located {
        let a = addr.0;
        if self.map.unnamed {
            return self.nowhere(match self.map.is_device(a) {
                true => Bucket::Device,
                false => Bucket::KernelUnnamed,
            });
        }
        if self.map.image.contains(&a) {
            return self
                .globals
                .at(&self.map.globals, a, a, None)
                .unwrap_or_else(|| self.nowhere(Bucket::UnknownImage));
        }
        // Before the direct map, which contains the units of the first chunk.
        if let Some(at) = self.percpu.unit(&self.map, a) {
            return self.in_unit(addr, time, at);
        }
        if self.map.direct_map.contains(&a) {
            return self.in_direct_map(addr, time);
        }
        if self.map.vmalloc.contains(&a) {
            return self.in_vmalloc(addr, time);
        }
        if self.map.struct_pages.contains(&a) {
            return self.in_struct_page(a);
        }
        let bucket = if self.map.entry_area.contains(&a) {
            Bucket::EntryArea
        } else if self.map.is_device(a) {
            Bucket::Device
        } else {
            Bucket::UnknownArea
        };
        self.nowhere(bucket)
    }

    /// A page's own struct: they form one array.
    fn in_struct_page(&self, addr: u64) -> Located {
        let Some(subject) = self.struct_page else {
            return self.nowhere(Bucket::StructPage);
        };
        let offset = (addr - self.map.struct_pages.start) % self.map.struct_page_size.max(1);
        Located {
            subject,
            offset: clip(offset),
            object: GuestAddr(addr - offset),
            owner: None,
        }
    }

    fn in_unit(&self, addr: GuestAddr, time: VirtualTime, at: InUnit) -> Located {
        if let Some(found) = self.percpu.variable(&self.map, at, addr) {
            return found;
        }
        if let Tenant::Alive { object, .. } = self.objects.at(addr, time) {
            return self.objects.inside(object, addr);
        }
        self.percpu.sighted(at, addr).unwrap_or_else(|| Located {
            owner: Some(at.cpu),
            ..self.nowhere(Bucket::UnknownPercpu)
        })
    }

    fn in_direct_map(&self, addr: GuestAddr, time: VirtualTime) -> Located {
        let tenant = self.objects.at(addr, time);
        if let Tenant::Alive { object, .. } = tenant {
            return self.objects.inside(object, addr);
        }
        let frame = self.map.frame(addr.0).unwrap_or(u64::MAX);
        let unchanged = self.frames.is_unchanged(frame, time);
        let usage = self.map.pages_at_start.of(frame);
        // What the start's image says holds until the frame is freed or handed out for the first
        // time.
        if unchanged && matches!(usage, PageUse::Slab { .. }) {
            return self.in_slab(addr, usage, tenant, time);
        }
        if let Some(pages) = self.objects.pages_at(addr, time) {
            return self.in_pages(pages, addr, tenant, time);
        }
        // An object was or will be there, so the page belongs to a slab that no image and no call
        // has named.
        if unchanged && tenant != Tenant::Unknown {
            return self.nowhere(Bucket::HeapVacant);
        }
        if unchanged && self.frames.is_page_table(frame) {
            return self.nowhere(Bucket::PageTable);
        }
        // Freed and not handed out again as far as events show: bulk allocations are the exception,
        // which `locate` checks for.
        if !unchanged {
            return self.nowhere(Bucket::UnknownFreePage);
        }
        match usage {
            PageUse::PageTable => self.nowhere(Bucket::PageTable),
            PageUse::Contents => self.nowhere(Bucket::PageContents),
            PageUse::Free => self.nowhere(Bucket::UnknownFreePage),
            PageUse::Kernel | PageUse::Slab { .. } => self.open(addr, Bucket::UnknownKernelPage),
            PageUse::Unknown => self.open(addr, Bucket::UnknownPage),
        }
    }

    /// Pages that were handed out during the recording, without a live tracked heap object.
    fn in_pages(
        &self,
        pages: ObjectId,
        addr: GuestAddr,
        tenant: Tenant,
        time: VirtualTime,
    ) -> Located {
        if time < self.objects.get(pages).ready {
            return self.nowhere(Bucket::PageCleared);
        }
        if let Some(found) = self.in_new_slab(pages, addr, tenant, time) {
            return found;
        }
        let found = self.objects.inside(pages, addr);
        if !self.objects.is_unknown_page(pages, &found) {
            return found;
        }
        if tenant != Tenant::Unknown {
            return self.nowhere(Bucket::HeapVacant);
        }
        let frame = self.map.frame(addr.0).unwrap_or(u64::MAX);
        // No call showed what the pages are for; if they live to the end, the image of the end
        // does.
        match self.map.pages_at_stop.of(frame) {
            PageUse::Slab { .. } => self.nowhere(Bucket::HeapVacant),
            PageUse::PageTable => self.nowhere(Bucket::PageTable),
            PageUse::Contents => self.nowhere(Bucket::PageContents),
            PageUse::Unknown | PageUse::Free | PageUse::Kernel => found,
        }
    }

    /// A slab page from before the recording, without a live tracked object.
    fn in_slab(
        &self,
        addr: GuestAddr,
        usage: PageUse,
        tenant: Tenant,
        time: VirtualTime,
    ) -> Located {
        let found = self.map.slab_slot(addr.0, usage);
        let found = found.filter(|(_, slot)| slot.contains(&addr.0));
        let found = found.and_then(|(cache, slot)| {
            let about = self.slabs.old(cache, tenant, time)?;
            Some(self.in_slot(about, slot.start, addr))
        });
        found.unwrap_or_else(|| self.nowhere(Bucket::HeapVacant))
    }

    /// A slab allocated during the recording, without a live tracked object: an object handed out
    /// in bulk.
    fn in_new_slab(
        &self,
        slab: ObjectId,
        addr: GuestAddr,
        tenant: Tenant,
        time: VirtualTime,
    ) -> Option<Located> {
        let cache = self.slabs.cache(slab)?;
        let about = self.objects.get(slab);
        let slot = self.map.slot(addr.0, about.start, cache)?;
        if !slot.contains(&addr.0) {
            return None;
        }
        // A slab's slots are free when the slab is made.
        let since = tenant.since().unwrap_or(about.ready).max(about.ready);
        let found = self.slabs.new_since(cache, since, time)?;
        Some(self.in_slot(found, slot.start, addr))
    }

    /// The object in the slot that starts at `start`.
    fn in_slot(&self, slot: SlabSlot, start: u64, addr: GuestAddr) -> Located {
        let offset = addr.0 - start;
        let kind = slot.kind.map(|kind| self.objects.of_kind(kind));
        match kind.and_then(|extents| find(extents, offset)) {
            Some(extent) => Located::inside(&extent, offset, start + extent.start, None),
            None => Located {
                subject: slot.rest,
                offset: clip(offset),
                object: GuestAddr(start),
                owner: None,
            },
        }
    }

    fn in_vmalloc(&self, addr: GuestAddr, time: VirtualTime) -> Located {
        // Before allocations: a stack is a vmalloc area, too, and has no fields.
        if self.stacks.contains(&(addr.0 / STACK_SIZE)) {
            return self.nowhere(Bucket::Stack);
        }
        if self.map.is_device(addr.0) {
            return self.nowhere(Bucket::Device);
        }
        match self.objects.at(addr, time) {
            Tenant::Alive { object, .. } => self.objects.inside(object, addr),
            _ => self.open(addr, Bucket::UnknownVmalloc),
        }
    }

    fn open(&self, addr: GuestAddr, otherwise: Bucket) -> Located {
        match find(&self.elsewhere, addr.0) {
            Some(extent) => Located::inside(&extent, addr.0, extent.start, None),
            None => self.nowhere(otherwise),
        }
    }
}

/// The subject of `struct page`, whose fields include those of folios and slabs, which overlay it.
fn struct_page(subjects: &mut Subjects, schema: &Schema, map: &KernelMap) -> Option<SubjectId> {
    let found = schema.named("page").into_iter();
    let mut found = found.filter(|ty| schema.size(*ty) == map.struct_page_size);
    let page = found.next()?;
    Some(subjects.typed(Bucket::StructPage, page, "", false))
}
