//! Slots of slabs without a tracked object: objects from before the recording, and those handed out
//! in bulk.

use linemate_recording::VirtualTime;
use rustc_hash::FxHashMap;

use crate::collect::Object;
use crate::index::{NEVER, ObjectId, Tenant};
use crate::kinds::{KindId, Kinds, Origin};
use crate::ledger::Bucket;
use crate::map::{KernelMap, PageUse};
use crate::sites::SiteUse;
use crate::spans::Spans;
use crate::subjects::{Subject, SubjectId, Subjects, bare, of_cache};

/// What the first pass knows about slabs.
pub(super) struct SlabFacts {
    /// When objects of a cache were handed out without an event that says which.
    pub(super) handed_out: FxHashMap<u32, Spans>,
    /// What those objects are.
    pub(super) handed_out_kinds: FxHashMap<u32, KindId>,
    /// The caches for which page objects were allocated, as far as the calls show.
    pub(super) taken: FxHashMap<ObjectId, u32>,
}

/// Everything known about slabs' slots.
#[derive(Debug)]
pub(super) struct Slabs {
    /// By cache: what its objects from before the recording are.
    kinds: FxHashMap<u32, KindId>,
    /// By cache: the subject of objects about which nothing more is known.
    rest: Vec<SubjectId>,
    handed_out: FxHashMap<u32, Spans>,
    handed_out_kinds: FxHashMap<u32, KindId>,
    /// The caches of the slabs allocated during the recording.
    taken: FxHashMap<ObjectId, u32>,
}

/// A slot with an object in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlabSlot {
    /// What is known about the object.
    pub(super) kind: Option<KindId>,
    /// The subject of what no placement of that kind covers.
    pub(super) rest: SubjectId,
}

impl Slabs {
    pub(super) fn new(
        subjects: &mut Subjects,
        map: &KernelMap,
        kinds: &Kinds,
        objects: &[Object],
        facts: SlabFacts,
    ) -> Slabs {
        let numbered = (0u32..).map(KindId).zip(kinds.iter());
        let before = numbered.filter_map(|(id, kind)| match (kind.origin, kind.site) {
            (Origin::Cache(cache), None) => Some((cache, id)),
            _ => None,
        });
        let rest = map.caches.iter().map(|cache| {
            subjects.number(Subject {
                label: of_cache(&cache.name),
                ..bare(Bucket::HeapCache)
            })
        });
        Slabs {
            kinds: before.collect(),
            rest: rest.collect(),
            handed_out: facts.handed_out,
            handed_out_kinds: facts.handed_out_kinds,
            taken: taken(map, objects, kinds, facts.taken),
        }
    }

    /// The cache of a slab allocated during the recording.
    pub(super) fn cache(&self, slab: ObjectId) -> Option<u32> {
        self.taken.get(&slab).copied()
    }

    /// A slot of a slab from before the recording; `None` if it is free.
    pub(super) fn old(&self, cache: u32, tenant: Tenant, time: VirtualTime) -> Option<SlabSlot> {
        // No event has ever named the slot: it held an object when recording began and has not been
        // freed since.
        if tenant == Tenant::Unknown {
            return Some(self.slot(cache, &self.kinds));
        }
        let freed = tenant.since().unwrap_or(VirtualTime(0));
        self.new_since(cache, freed, time)
    }

    /// A slot whose object was handed out in bulk at some time between two; `None` if none was.
    ///
    /// No event says which object is handed out, so any slot that was free then may be one of them.
    /// The object lives from the call, as others do: what the allocator clears before it returns is
    /// the object's. What it does from then on to a slot that stays free (a link written or read)
    /// is also taken for the object's.
    pub(super) fn new_since(
        &self,
        cache: u32,
        from: VirtualTime,
        to: VirtualTime,
    ) -> Option<SlabSlot> {
        let spans = self.handed_out.get(&cache)?;
        spans
            .overlaps(from, to)
            .then(|| self.slot(cache, &self.handed_out_kinds))
    }

    fn slot(&self, cache: u32, kinds: &FxHashMap<u32, KindId>) -> SlabSlot {
        SlabSlot {
            kind: kinds.get(&cache).copied(),
            rest: self.rest[cache as usize],
        }
    }
}

/// The caches of slabs allocated during the recording: from the calls, else from the page marks at
/// the end.
fn taken(
    map: &KernelMap,
    objects: &[Object],
    kinds: &Kinds,
    told: FxHashMap<ObjectId, u32>,
) -> FxHashMap<ObjectId, u32> {
    let mut found = told;
    for (object, id) in objects.iter().zip(0u32..) {
        let kind = kinds.get(object.kind);
        let kept =
            (kind.origin, kind.usage) == (Origin::Pages, SiteUse::Slab) && object.death == NEVER;
        let usage = map.frame(object.range.start).filter(|_| kept);
        if let Some(PageUse::Slab { cache, .. }) = usage.map(|f| map.pages_at_stop.of(f)) {
            // The calls first: they were made when the slab was.
            found.entry(ObjectId(id)).or_insert(cache);
        }
    }
    found
}
