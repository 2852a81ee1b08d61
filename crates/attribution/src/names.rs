//! Names for accesses: address and time in, bucket, object and field out.
//!
//! [`Names`] is built once from all that the first pass collected; from then on it only answers, so any number of threads can
//! ask at once. It counts nothing ([`crate::tally`] does).

use std::collections::BTreeMap;

use linemate_programs::Programs;
use linemate_recording::{Access, CpuId, GuestAddr, VirtualTime};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::collect::{Collected, NO_CPU, Object};
use crate::index::{Lifetime, LifetimeIndex, NEVER, ObjectId, Tenant};
use crate::kinds::{FormId, KindId, ObjectKind, Origin};
use crate::ledger::Bucket;
use crate::map::{KernelMap, PageUse, STACK_SIZE, Variables};
use crate::programs::{Code, DebugInformation, Found, ProgramNames};
use crate::schema::{Schema, TypeIndex};
use crate::sites::SiteUse;
use crate::spans::Spans;
use crate::subjects::{
    Extent, FieldRef, Subject, SubjectId, Subjects, VariableNames, bare, clip, extents, find,
    of_cache, rest_of, variables,
};
use crate::votes::{Bounds, Placement, Votes};

/// Where an access went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// What it is counted for; the bucket is the subject's.
    pub subject: SubjectId,
    /// Bytes from the start of the type (of the element in an array), or of the variable. 0 where there is neither.
    pub offset: u32,
    /// The first byte of the object: what tells it from its siblings. 0 where there is none.
    pub object: GuestAddr,
    /// The CPU that owns the object, if it is a per-CPU one.
    pub owner: Option<CpuId>,
}

impl Located {
    /// Which byte.
    #[inline]
    pub fn field(&self) -> FieldRef {
        FieldRef {
            subject: self.subject,
            offset: self.offset,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Named {
    start: u64,
    kind: KindId,
    form: FormId,
    cpu: u16,
    birth: VirtualTime,
    ready: VirtualTime,
}

/// What programs' names are made of.
pub(crate) type ProgramParts<'a> = (&'a Programs, &'a DebugInformation, &'a Code, Found);

/// Answers where an access went.
#[derive(Debug)]
pub struct Names {
    map: KernelMap,
    subjects: Vec<Subject>,
    /// By bucket: the subject of what has no other.
    whole: Vec<SubjectId>,
    stacks: FxHashSet<u64>,
    heap: LifetimeIndex,
    pages: LifetimeIndex,
    objects: Vec<Named>,
    forms: Vec<Vec<Extent>>,
    kind_rest: Vec<SubjectId>,
    kind_forms: Vec<FormId>,
    /// For slots of which no event tells: by cache.
    cache_kinds: FxHashMap<u32, KindId>,
    cache_rest: Vec<SubjectId>,
    /// When objects of a cache were handed out of which no event tells which.
    handed_out: FxHashMap<u32, Spans>,
    /// What those objects are.
    handed_out_kinds: FxHashMap<u32, KindId>,
    /// The caches of the slabs that were taken during the recording.
    slab_caches: FxHashMap<ObjectId, u32>,
    frame_freed: FxHashMap<u64, VirtualTime>,
    frame_taken: FxHashMap<u64, VirtualTime>,
    page_tables: FxHashMap<u64, VirtualTime>,
    globals: VariableNames,
    percpu_variables: VariableNames,
    percpu_open: Vec<Extent>,
    elsewhere: Vec<Extent>,
    /// The subject of pages' own structs, if the types have one of their size.
    struct_page: Option<SubjectId>,
    /// First per-CPU addresses of the units, sorted, with their CPUs.
    units: Vec<(u64, u16)>,
    /// Where programs are recorded.
    programs: Option<ProgramNames>,
}

impl Names {
    /// Settles what was collected; and how many objects there are of each type.
    pub(crate) fn new(
        map: KernelMap,
        schema: &Schema,
        collected: Collected,
        programs: Option<ProgramParts<'_>>,
    ) -> (Names, BTreeMap<TypeIndex, u64>) {
        let mut subjects = Subjects::default();
        let whole: Vec<SubjectId> = Bucket::ALL.iter().map(|b| subjects.bucket(*b)).collect();
        let mut settler = collected.kinds.settle(schema);
        let objects: Vec<Named> = collected
            .objects
            .iter()
            .map(|o| Named {
                start: o.range.start,
                kind: o.kind,
                form: settler.form(schema, o.kind, o.signature),
                cpu: o.cpu,
                birth: o.birth,
                ready: o.ready,
            })
            .collect();
        let settled = settler.finish();
        let percpu_forms: FxHashSet<FormId> = objects
            .iter()
            .filter(|o| o.cpu != NO_CPU)
            .map(|o| o.form)
            .collect();
        let forms: Vec<Vec<Extent>> = (0u32..)
            .zip(&settled.forms)
            .map(|(i, form)| {
                extents(
                    &mut subjects,
                    form,
                    Bucket::Field,
                    "",
                    percpu_forms.contains(&FormId(i)),
                )
            })
            .collect();
        let kinds: Vec<ObjectKind> = (0..collected.kinds.len())
            .map(|k| collected.kinds.get(KindId(k as u32)))
            .collect();
        let kind_rest = kinds
            .iter()
            .zip(&settled.of_kind)
            .map(|(kind, form)| {
                rest_of(
                    &mut subjects,
                    &map,
                    kind,
                    !settled.forms[form.0 as usize].is_empty(),
                )
            })
            .collect();
        let cache_kinds = kinds
            .iter()
            .enumerate()
            .filter_map(|(i, k)| match (k.origin, k.site) {
                (Origin::Cache(cache), None) => Some((cache, KindId(i as u32))),
                _ => None,
            });
        let cache_kinds = cache_kinds.collect();
        let cache_rest = map
            .caches
            .iter()
            .map(|c| {
                subjects.number(Subject {
                    label: of_cache(&c.name),
                    ..bare(Bucket::HeapCache)
                })
            })
            .collect();
        let globals = variables(
            &mut subjects,
            schema,
            &map.globals,
            &collected.in_image,
            false,
        );
        let percpu_variables = variables(
            &mut subjects,
            schema,
            &map.percpu_variables,
            &collected.in_percpu,
            true,
        );
        let open = |votes: &Votes| votes.settle(schema, Bounds::Open, None).placements;
        let percpu_open = extents(
            &mut subjects,
            &open(&collected.in_percpu),
            Bucket::Field,
            "",
            true,
        );
        let elsewhere = extents(
            &mut subjects,
            &open(&collected.elsewhere),
            Bucket::Field,
            "",
            false,
        );
        let struct_page = struct_page(&mut subjects, schema, &map);
        let slab_caches = slab_caches(&map, &collected.objects, &kinds, collected.slab_caches);
        let (heap, pages) = indices(&collected.objects, &kinds);
        let mut objects_by_type = count_types(&settled.forms, &objects);
        let programs = programs.map(|(programs, debug, code, found)| {
            let parts = (programs, debug, code);
            let (names, counts) = ProgramNames::new(parts, schema, &mut subjects, found);
            for (ty, count) in counts {
                *objects_by_type.entry(ty).or_default() += count;
            }
            names
        });
        let mut units: Vec<(u64, u16)> = (0u16..)
            .zip(&map.percpu.offsets)
            .map(|(cpu, offset)| (offset.wrapping_add(map.percpu.section.start), cpu))
            .collect();
        units.sort_unstable();
        let names = Names {
            subjects: subjects.list,
            whole,
            stacks: collected.stacks,
            heap,
            pages,
            objects,
            forms,
            kind_rest,
            kind_forms: settled.of_kind,
            cache_kinds,
            cache_rest,
            handed_out: collected.handed_out,
            handed_out_kinds: collected.handed_out_kinds,
            slab_caches,
            frame_freed: collected.frame_freed,
            frame_taken: collected.frame_taken,
            page_tables: collected.page_tables,
            globals,
            percpu_variables,
            percpu_open,
            elsewhere,
            struct_page,
            units,
            programs,
            map,
        };
        (names, objects_by_type)
    }

    /// All subjects, by [`SubjectId`].
    #[must_use]
    pub fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    /// The first byte, the birth (0 for objects from before the recording) and the name of every tracked object.
    pub fn objects(&self) -> impl Iterator<Item = (GuestAddr, VirtualTime, Located)> + '_ {
        (0u32..).zip(&self.objects).map(|(id, object)| {
            let start = GuestAddr(object.start);
            (start, object.birth, self.in_object(ObjectId(id), start))
        })
    }

    /// Where an access went: by its first byte.
    #[must_use]
    pub fn locate(&self, access: &Access) -> Located {
        if access.user_mapping {
            return self.in_program(access);
        }
        let found = self.locate_at(access.addr, access.time);
        // Some pages are taken in bulk, which no event tells; but nobody clears a page that stays free.
        if found.subject == self.whole[Bucket::UnknownFreePage as usize]
            && self.map.clears_pages(access.pc)
        {
            return self.nowhere(Bucket::PageCleared);
        }
        found
    }

    /// What is at an address at a time.
    #[must_use]
    pub fn locate_at(&self, addr: GuestAddr, time: VirtualTime) -> Located {
        let a = addr.0;
        if self.map.unnamed {
            return self.nowhere(match self.map.is_device(a) {
                true => Bucket::Device,
                false => Bucket::KernelUnnamed,
            });
        }
        if self.map.image.contains(&a) {
            return self
                .in_variable(&self.map.globals, &self.globals, a, a, None)
                .unwrap_or_else(|| self.nowhere(Bucket::UnknownImage));
        }
        if let Some((cpu, percpu)) = self.unit(a) {
            return self.in_unit(addr, time, cpu, percpu);
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

    /// A page's own struct: they are one array.
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

    fn in_program(&self, access: &Access) -> Located {
        let found = self.programs.as_ref().and_then(|p| p.locate(access));
        found.map_or_else(
            || self.nowhere(Bucket::UserMapping),
            |found| Located {
                subject: found.subject,
                offset: found.offset,
                object: match found.object {
                    true => GuestAddr(access.addr.0.wrapping_sub(found.offset.into())),
                    false => GuestAddr(0),
                },
                owner: None,
            },
        )
    }

    fn nowhere(&self, bucket: Bucket) -> Located {
        Located {
            subject: self.whole[bucket as usize],
            offset: 0,
            object: GuestAddr(0),
            owner: None,
        }
    }

    /// The CPU whose unit of the first per-CPU chunk holds an address, and the per-CPU address.
    fn unit(&self, addr: u64) -> Option<(CpuId, u64)> {
        let at = self.units.partition_point(|u| u.0 <= addr).checked_sub(1)?;
        let (start, cpu) = self.units[at];
        let inside = addr - start;
        let percpu = self.map.percpu.section.start + inside;
        (inside < self.map.percpu.unit_size && self.map.in_unit(addr, percpu))
            .then_some((CpuId(cpu), percpu))
    }

    fn in_unit(&self, addr: GuestAddr, time: VirtualTime, cpu: CpuId, percpu: u64) -> Located {
        let owner = Some(cpu);
        if self.map.percpu.section.contains(&percpu) {
            if let Some(found) = self.in_variable(
                &self.map.percpu_variables,
                &self.percpu_variables,
                percpu,
                addr.0,
                owner,
            ) {
                return found;
            }
        }
        if let Tenant::Alive { object, .. } = self.heap.at(addr, time) {
            return self.in_object(object, addr);
        }
        match find(&self.percpu_open, percpu) {
            Some(extent) => self.inside(&extent, percpu, addr.0 - (percpu - extent.start), owner),
            None => Located {
                owner,
                ..self.nowhere(Bucket::UnknownPercpu)
            },
        }
    }

    fn in_variable(
        &self,
        list: &Variables,
        names: &VariableNames,
        at: u64,
        addr: u64,
        owner: Option<CpuId>,
    ) -> Option<Located> {
        let index = list.find(at)?;
        let offset = at - list.list[index].range.start;
        let object = GuestAddr(addr - offset);
        if let Some(extents) = names.extents.get(&index) {
            if let Some(extent) = find(extents, offset) {
                return Some(self.inside(&extent, offset, object.0 + extent.start, owner));
            }
        }
        let offset = offset.checked_rem(names.strides[index]).unwrap_or(offset);
        Some(Located {
            subject: names.subjects[index],
            offset: clip(offset),
            object,
            owner,
        })
    }

    fn in_direct_map(&self, addr: GuestAddr, time: VirtualTime) -> Located {
        let tenant = self.heap.at(addr, time);
        if let Tenant::Alive { object, .. } = tenant {
            return self.in_object(object, addr);
        }
        let vacant = tenant != Tenant::Unknown;
        let frame = self.map.frame(addr.0).unwrap_or(u64::MAX);
        let page = match self.pages.at(addr, time) {
            Tenant::Alive { object, .. } => Some(object),
            _ => None,
        };
        let before = |at: Option<&VirtualTime>| at.is_none_or(|t| time < *t);
        let unchanged =
            before(self.frame_freed.get(&frame)) && before(self.frame_taken.get(&frame));
        let usage = self.map.pages_at_start.of(frame);
        if unchanged && matches!(usage, PageUse::Slab { .. }) {
            return self.in_slab(addr, usage, tenant, time);
        }
        if let Some(object) = page {
            if time < self.objects[object.0 as usize].ready {
                return self.nowhere(Bucket::PageCleared);
            }
            if let Some(found) = self.in_new_slab(object, addr, tenant, time) {
                return found;
            }
            let found = self.in_object(object, addr);
            let stop = self.map.pages_at_stop.of(frame);
            return match (self.subjects[found.subject.0 as usize].bucket, stop) {
                (Bucket::UnknownKernelPage, _) if vacant => self.nowhere(Bucket::HeapVacant),
                (Bucket::UnknownKernelPage, PageUse::Slab { .. }) => {
                    self.nowhere(Bucket::HeapVacant)
                }
                (Bucket::UnknownKernelPage, PageUse::PageTable) => self.nowhere(Bucket::PageTable),
                (Bucket::UnknownKernelPage, PageUse::Contents) => {
                    self.nowhere(Bucket::PageContents)
                }
                _ => found,
            };
        }
        if unchanged && vacant {
            return self.nowhere(Bucket::HeapVacant);
        }
        if unchanged && self.page_tables.contains_key(&frame) {
            return self.nowhere(Bucket::PageTable);
        }
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

    /// A slab page from before the recording, where no tracked object lives.
    fn in_slab(
        &self,
        addr: GuestAddr,
        usage: PageUse,
        tenant: Tenant,
        time: VirtualTime,
    ) -> Located {
        let Some((cache, slot)) = self.map.slab_slot(addr.0, usage) else {
            return self.nowhere(Bucket::HeapVacant);
        };
        if !slot.contains(&addr.0) {
            return self.nowhere(Bucket::HeapVacant);
        }
        let freed = tenant.since().unwrap_or(VirtualTime(0));
        let kind = if tenant == Tenant::Unknown {
            self.cache_kinds.get(&cache)
        } else if self.handed_out(cache, freed, time) {
            self.handed_out_kinds.get(&cache)
        } else {
            return self.nowhere(Bucket::HeapVacant);
        };
        self.in_slot(cache, kind.copied(), slot.start, addr)
    }

    /// A slab that was taken during the recording, where no tracked object lives: an object that was handed out in bulk.
    fn in_new_slab(
        &self,
        slab: ObjectId,
        addr: GuestAddr,
        tenant: Tenant,
        time: VirtualTime,
    ) -> Option<Located> {
        let cache = *self.slab_caches.get(&slab)?;
        let about = self.objects[slab.0 as usize];
        let slot = self.map.slot(addr.0, about.start, cache)?;
        let since = tenant.since().unwrap_or(about.ready).max(about.ready);
        (slot.contains(&addr.0) && self.handed_out(cache, since, time)).then(|| {
            let kind = self.handed_out_kinds.get(&cache).copied();
            self.in_slot(cache, kind, slot.start, addr)
        })
    }

    /// Whether the cache was handing out objects, of which no event tells which, at some time between two. Any slot that was free
    /// then may be one of them. The object lives from the call, as others do: what the allocator clears before it returns is the
    /// object's. What it does to a slot that stays free, from there on, is taken for the object's, too: a link written or read.
    fn handed_out(&self, cache: u32, from: VirtualTime, to: VirtualTime) -> bool {
        let spans = self.handed_out.get(&cache);
        spans.is_some_and(|s| s.meets(from, to))
    }

    /// A slot whose object is of a kind, or else only known to be of a cache.
    fn in_slot(&self, cache: u32, kind: Option<KindId>, start: u64, addr: GuestAddr) -> Located {
        let form = kind.map(|k| self.kind_forms[k.0 as usize]);
        let offset = addr.0 - start;
        match form.and_then(|f| find(&self.forms[f.0 as usize], offset)) {
            Some(extent) => self.inside(&extent, offset, start + extent.start, None),
            None => Located {
                subject: self.cache_rest[cache as usize],
                offset: clip(offset),
                object: GuestAddr(start),
                owner: None,
            },
        }
    }

    fn in_vmalloc(&self, addr: GuestAddr, time: VirtualTime) -> Located {
        if self.stacks.contains(&(addr.0 / STACK_SIZE)) {
            return self.nowhere(Bucket::Stack);
        }
        if self.map.is_device(addr.0) {
            return self.nowhere(Bucket::Device);
        }
        match self.heap.at(addr, time) {
            Tenant::Alive { object, .. } => self.in_object(object, addr),
            _ => self.open(addr, Bucket::UnknownVmalloc),
        }
    }

    fn open(&self, addr: GuestAddr, otherwise: Bucket) -> Located {
        match find(&self.elsewhere, addr.0) {
            Some(extent) => self.inside(&extent, addr.0, extent.start, None),
            None => self.nowhere(otherwise),
        }
    }

    fn in_object(&self, id: ObjectId, addr: GuestAddr) -> Located {
        let object = self.objects[id.0 as usize];
        let offset = addr.0 - object.start;
        let owner = (object.cpu != NO_CPU).then_some(CpuId(object.cpu));
        match find(&self.forms[object.form.0 as usize], offset) {
            Some(extent) => self.inside(&extent, offset, object.start + extent.start, owner),
            None => Located {
                subject: self.kind_rest[object.kind.0 as usize],
                offset: clip(offset),
                object: GuestAddr(object.start),
                owner,
            },
        }
    }

    fn inside(&self, extent: &Extent, at: u64, start: u64, owner: Option<CpuId>) -> Located {
        let offset = at - extent.start;
        let inner = offset.checked_rem(extent.stride).unwrap_or(offset);
        Located {
            subject: extent.subject,
            offset: clip(inner),
            object: GuestAddr(start + (offset - inner)),
            owner,
        }
    }
}

/// The subject of `struct page`, whose fields are those of folios and slabs, too: they lie over it.
fn struct_page(subjects: &mut Subjects, schema: &Schema, map: &KernelMap) -> Option<SubjectId> {
    let found = schema.named("page").into_iter();
    let mut found = found.filter(|ty| schema.size(*ty) == map.struct_page_size);
    let page = found.next()?;
    Some(subjects.typed(Bucket::StructPage, page, "", false))
}

/// The caches of slabs that were taken during the recording: as the calls tell, else as the pages are marked at the end.
fn slab_caches(
    map: &KernelMap,
    objects: &[Object],
    kinds: &[ObjectKind],
    told: FxHashMap<ObjectId, u32>,
) -> FxHashMap<ObjectId, u32> {
    let mut found = told;
    for (object, id) in objects.iter().zip(0u32..) {
        let kind = kinds[object.kind.0 as usize];
        let kept =
            (kind.origin, kind.usage) == (Origin::Pages, SiteUse::Slab) && object.death == NEVER;
        let usage = map.frame(object.range.start).filter(|_| kept);
        if let Some(PageUse::Slab { cache, .. }) = usage.map(|f| map.pages_at_stop.of(f)) {
            found.entry(ObjectId(id)).or_insert(cache);
        }
    }
    found
}

fn indices(objects: &[Object], kinds: &[ObjectKind]) -> (LifetimeIndex, LifetimeIndex) {
    let mut heap = Vec::new();
    let mut pages = Vec::new();
    for (object, id) in objects.iter().zip(0u32..) {
        let Object {
            range,
            birth,
            death,
            kind,
            ..
        } = object;
        let list = if kinds[kind.0 as usize].origin == Origin::Pages {
            &mut pages
        } else {
            &mut heap
        };
        list.push(Lifetime {
            range: range.clone(),
            birth: *birth,
            death: *death,
            object: ObjectId(id),
        });
    }
    (LifetimeIndex::new(&heap), LifetimeIndex::new(&pages))
}

fn count_types(forms: &[Vec<Placement>], objects: &[Named]) -> BTreeMap<TypeIndex, u64> {
    let mut counts = BTreeMap::new();
    for object in objects {
        for placement in &forms[object.form.0 as usize] {
            *counts.entry(placement.ty).or_default() +=
                placement.size.checked_div(placement.stride).unwrap_or(1);
        }
    }
    counts
}
