//! The kernel's tracked objects: heap objects, per-CPU allocations and pages.

use linemate_recording::{CpuId, GuestAddr, VirtualTime};
use rustc_hash::FxHashSet;

use super::located::Located;
use crate::collect::Object;
use crate::index::{Lifetime, LifetimeIndex, ObjectId, Tenant};
use crate::kinds::{FormId, KindId, Kinds, Origin};
use crate::ledger::Bucket;
use crate::map::KernelMap;
use crate::schema::Schema;
use crate::subjects::{Extent, SubjectId, Subjects, clip, extents, find, rest_of};

/// A block longer than this is counted in parts, each as if it were an object, where no struct
/// covers it: else a block of megabytes that the kernel clears has a row for each of its bytes. A
/// multiple of a line, and longer than a kernel stack, which has to stay one object.
const PART_OF_BLOCK: u64 = 64 << 10;

/// An object, as far as its accesses need it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) start: u64,
    pub(super) birth: VirtualTime,
    /// For pages: when the allocator handed them out. Until then it clears them.
    pub(super) ready: VirtualTime,
    kind: KindId,
    form: FormId,
    cpu: Option<CpuId>,
}

/// All objects: where they are and what is in them.
#[derive(Debug)]
pub(super) struct Objects {
    heap: LifetimeIndex,
    pages: LifetimeIndex,
    /// The objects, by [`ObjectId`].
    list: Vec<Named>,
    /// What is where in objects of a form, by [`FormId`].
    forms: Vec<Vec<Extent>>,
    /// By kind: the form of its objects without sightings.
    kind_forms: Vec<FormId>,
    /// By kind: what no placement covers.
    kind_rest: Vec<Rest>,
}

/// What no placement of an object covers.
#[derive(Clone, Copy, Debug)]
struct Rest {
    subject: SubjectId,
    bucket: Bucket,
}

impl Objects {
    pub(super) fn new(
        subjects: &mut Subjects,
        schema: &Schema,
        map: &KernelMap,
        kinds: &Kinds,
        objects: &[Object],
    ) -> Objects {
        let mut decider = kinds.decide(schema);
        let named = objects.iter().map(|o| Named {
            start: o.range.start,
            birth: o.birth,
            ready: o.ready,
            kind: o.kind,
            form: decider.form(schema, o.kind, o.signature),
            cpu: o.cpu,
        });
        let list: Vec<Named> = named.collect();
        let decided = decider.finish();
        let percpu = list.iter().filter(|o| o.cpu.is_some()).map(|o| o.form);
        let percpu: FxHashSet<FormId> = percpu.collect();
        let forms = (0u32..).map(FormId).zip(&decided.forms);
        let forms = forms
            .map(|(id, form)| extents(subjects, form, Bucket::Field, "", percpu.contains(&id)));
        let forms = forms.collect();
        let kind_rest = kinds.iter().zip(&decided.of_kind).map(|(kind, form)| {
            let typed = !decided.forms[form.0 as usize].is_empty();
            let subject = rest_of(subjects, map, &kind, typed);
            let bucket = subjects.list[subject.index()].bucket;
            Rest { subject, bucket }
        });
        let kind_rest = kind_rest.collect();
        let lifetimes = |pages: bool| {
            let all = (0u32..).map(ObjectId).zip(objects);
            let of = all.filter(|(_, o)| (kinds.get(o.kind).origin == Origin::Pages) == pages);
            let of: Vec<Lifetime> = of.map(|(id, object)| lifetime(id, object)).collect();
            // Pages separately from what is in them: a page lives around its slab's objects, and
            // one index would have to say which of both is meant.
            LifetimeIndex::new(&of)
        };
        Objects {
            heap: lifetimes(false),
            pages: lifetimes(true),
            list,
            forms,
            kind_forms: decided.of_kind,
            kind_rest,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ObjectId, &Named)> {
        (0u32..).map(ObjectId).zip(&self.list)
    }

    pub(super) fn get(&self, id: ObjectId) -> Named {
        self.list[id.0 as usize]
    }

    /// The heap object at an address at a time.
    pub(super) fn at(&self, addr: GuestAddr, time: VirtualTime) -> Tenant {
        self.heap.at(addr, time)
    }

    /// The pages handed out there.
    pub(super) fn pages_at(&self, addr: GuestAddr, time: VirtualTime) -> Option<ObjectId> {
        match self.pages.at(addr, time) {
            Tenant::Alive { object, .. } => Some(object),
            _ => None,
        }
    }

    /// What is where in objects of a kind that have no sightings.
    pub(super) fn of_kind(&self, kind: KindId) -> &[Extent] {
        let form = self.kind_forms[kind.0 as usize];
        &self.forms[form.0 as usize]
    }

    /// Whether nothing is known about a byte of pages that [`Objects::inside`] has `found`.
    pub(super) fn is_unknown_page(&self, pages: ObjectId, found: &Located) -> bool {
        let rest = self.kind_rest[self.get(pages).kind.0 as usize];
        rest.bucket == Bucket::UnknownKernelPage && rest.subject == found.subject
    }

    /// The byte of an object that is at an address.
    pub(super) fn inside(&self, id: ObjectId, addr: GuestAddr) -> Located {
        let object = self.get(id);
        let offset = addr.0 - object.start;
        match find(&self.forms[object.form.0 as usize], offset) {
            Some(extent) => {
                Located::inside(&extent, offset, object.start + extent.start, object.cpu)
            }
            None => {
                let inside = offset % PART_OF_BLOCK;
                Located {
                    subject: self.kind_rest[object.kind.0 as usize].subject,
                    offset: clip(inside),
                    object: GuestAddr(addr.0 - inside),
                    owner: object.cpu,
                }
            }
        }
    }
}

fn lifetime(object: ObjectId, about: &Object) -> Lifetime {
    Lifetime {
        range: about.range.clone(),
        birth: about.birth,
        death: about.death,
        object,
    }
}
