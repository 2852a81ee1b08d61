//! Programs' heap objects: structs if code accesses them as such, else arrays of scalars, else what
//! their site requested.

use std::collections::{BTreeMap, BTreeSet};

use linemate_recording::{GuestAddr, VirtualTime};
use rustc_hash::{FxHashMap, FxHashSet};

use super::code::ProgramFacts;
use super::debug::{Pointee, ScalarName};
use super::evidence::Evidence;
use super::heap::Heap;
use super::heap_index::{HeapIndex, HeapPlace};
use super::located::{InProgram, of_program};
use super::places::UserAddr;
use super::scalars::{self, Alike};
use crate::index::ObjectId;
use crate::kinds::{FormId, Forms, KindId, ObjectKind};
use crate::ledger::Bucket;
use crate::schema::{Schema, TypeIndex};
use crate::subjects::{Extent, Subject, SubjectId, Subjects, clip, find, of_allocation};
use crate::votes::{Placement, Votes};

/// A block longer than this is counted in parts, each as if it were an object, where no struct
/// covers it: else a table of a compressor, which many instructions read all over, has a row for
/// each of its bytes and each instruction, and the answer takes 11 GB. A multiple of a
/// line and of the element sizes 8, 16, 24, 32, 40, 48, 64, 72, 80, 96, 128 and 256, so that such
/// elements are at the same offsets in every part. A choice: with parts of 60,480 bytes a report
/// of zstd takes twice the memory (evidence/benchmarks.md).
const PART_OF_BLOCK: u64 = 11_520;

/// The share of the accesses with an index that has to lead to whole structs. Not all: an access
/// that crosses a page is recorded as two, and the second is not where the pointer leads. A choice.
const WHOLE: (u64, u64) = (9, 10);

/// All objects: where they are and what is in them.
#[derive(Debug)]
pub(super) struct ObjectNames {
    index: HeapIndex,
    /// By object: its form, and what no placement covers.
    objects: Vec<(FormId, SubjectId)>,
    forms: Vec<Vec<Extent>>,
    /// What no placement covers and has no element type.
    untyped: FxHashSet<SubjectId>,
}

impl ObjectNames {
    pub(super) fn new(
        facts: ProgramFacts<'_>,
        schema: &Schema,
        subjects: &mut Subjects,
        mut heap: Heap,
        index: HeapIndex,
        evidence: &Evidence,
    ) -> ObjectNames {
        vote(&mut heap, schema, evidence);
        let declared = declared(&heap, facts);
        for (kind, of) in &declared {
            if let Pointee::Struct(ty) = of {
                heap.kinds.declare(*kind, *ty);
            }
        }
        let mut decider = heap.kinds.decide(schema);
        let of_objects = heap.objects.iter();
        let of_objects = of_objects.map(|o| decider.form(schema, o.kind, o.signature));
        let of_objects: Vec<FormId> = of_objects.collect();
        let decided = decider.finish();
        let forms = decided.forms.iter().map(|form| extents(subjects, form));
        let forms = forms.collect();
        let alike = heap.objects.iter().zip(&of_objects);
        let alike: Vec<Alike> = alike.map(|(o, form)| (o.kind, *form)).collect();
        let arrays = ScalarArrays::new(&heap, &declared, &decided, &of_objects, evidence);
        // By (kind, form): objects that are alike share one subject for the rest, and there are far
        // fewer of these than objects.
        let different: BTreeSet<Alike> = alike.iter().copied().collect();
        let rest = different.into_iter().map(|of| {
            let array = arrays
                .of(of)
                .map(|name| &*facts.debug.scalars[name.0 as usize]);
            (of, rest_of(subjects, heap.kinds.get(of.0), array))
        });
        let rest: BTreeMap<Alike, SubjectId> = rest.collect();
        let untyped = rest.iter().filter(|(of, _)| arrays.of(**of).is_none());
        ObjectNames {
            index,
            untyped: untyped.map(|(_, subject)| *subject).collect(),
            objects: alike.iter().map(|of| (of.1, rest[of])).collect(),
            forms,
        }
    }

    /// The object at an address at a time.
    pub(super) fn at(&self, at: UserAddr, time: VirtualTime) -> Option<InProgram> {
        let HeapPlace { object, offset } = self.index.at(at, time)?;
        Some(self.inside(object, offset))
    }

    /// What the program has mapped at an address at a time.
    pub(super) fn mapped_at(&self, at: UserAddr, time: VirtualTime) -> Option<InProgram> {
        let HeapPlace { object, offset } = self.index.mapped_at(at, time)?;
        Some(self.inside(object, offset))
    }

    /// Whether blocks of a subject have neither a struct nor an element type.
    pub(super) fn is_untyped(&self, subject: SubjectId) -> bool {
        self.untyped.contains(&subject)
    }

    fn inside(&self, object: ObjectId, offset: u64) -> InProgram {
        let (form, rest) = self.objects[object.0 as usize];
        match find(&self.forms[form.0 as usize], offset) {
            Some(extent) => {
                let within = offset - extent.start;
                InProgram {
                    subject: extent.subject,
                    offset: clip(within.checked_rem(extent.stride).unwrap_or(within)),
                    object: true,
                }
            }
            None => InProgram {
                subject: rest,
                offset: clip(offset % PART_OF_BLOCK),
                object: true,
            },
        }
    }
}

/// Gives each object's votes to its kind.
fn vote(heap: &mut Heap, schema: &Schema, evidence: &Evidence) {
    let indexed = with_indexed(heap, schema, evidence);
    let silent = Votes::default();
    for (id, object) in (0u32..).zip(&mut heap.objects) {
        let id = ObjectId(id);
        let votes = indexed.get(&id).or_else(|| evidence.votes.get(&id));
        object.signature = heap.kinds.retire(object.kind, votes.unwrap_or(&silent));
    }
}

/// The votes of the objects that were accessed by a pointer to a struct and an index. The index may
/// be that of an array in the struct; so it counts only if the object has room for one struct
/// alone, or if nine in ten of such accesses lead to whole structs from its start and no pointer
/// says that there is something else.
fn with_indexed(heap: &Heap, schema: &Schema, evidence: &Evidence) -> FxHashMap<ObjectId, Votes> {
    let mut by_object: BTreeMap<(ObjectId, TypeIndex), Vec<(u64, u64)>> = BTreeMap::new();
    for (vote, weight) in &evidence.indexed {
        let all = by_object.entry((vote.object, vote.ty)).or_default();
        all.push((vote.offset, *weight));
    }
    let mut votes: FxHashMap<ObjectId, Votes> = FxHashMap::default();
    for ((object, ty), indexed) in by_object {
        let range = &heap.objects[object.0 as usize].range;
        let (length, size) = (range.end - range.start, schema.size(ty));
        let is_alone = length == size;
        let is_whole = |(offset, _): &&(u64, u64)| offset.checked_rem(size) == Some(0);
        let weight = |(_, weight): &(u64, u64)| *weight;
        let all: u64 = indexed.iter().map(weight).sum();
        let whole: u64 = indexed.iter().filter(is_whole).map(weight).sum();
        let known = evidence.votes.get(&object);
        let is_other = known.is_some_and(|votes| votes.iter().any(|(_, of, _)| of != ty));
        let is_array = !is_other && whole.saturating_mul(WHOLE.1) >= all.saturating_mul(WHOLE.0);
        if !is_alone && !is_array {
            continue;
        }
        let of_object = votes
            .entry(object)
            .or_insert_with(|| evidence.votes.get(&object).cloned().unwrap_or_default());
        for (offset, weight) in indexed.iter().filter(|vote| is_alone || is_whole(vote)) {
            of_object.add(if is_alone { 0 } else { *offset }, ty, *weight);
        }
    }
    votes
}

/// The elements that the requesting code says the objects of a kind hold, by kind.
fn declared(heap: &Heap, facts: ProgramFacts<'_>) -> BTreeMap<KindId, Pointee> {
    let kinds = (0u32..).map(KindId).take(heap.kinds.len());
    let declared = kinds.filter_map(|kind| {
        let call = facts.code.at(heap.kinds.get(kind).site?)?;
        Some((kind, facts.debug.allocates(call.place)?))
    });
    declared.collect()
}

/// Which objects are arrays of scalars, or have such arrays next to their structs.
struct ScalarArrays {
    /// According to the requesting code.
    declared: BTreeMap<KindId, ScalarName>,
    /// According to how the objects are accessed.
    whole: BTreeMap<KindId, ScalarName>,
    /// According to how they are accessed next to their structs.
    beside: BTreeMap<Alike, ScalarName>,
}

impl ScalarArrays {
    fn new(
        heap: &Heap,
        declared: &BTreeMap<KindId, Pointee>,
        decided: &Forms,
        of_objects: &[FormId],
        evidence: &Evidence,
    ) -> ScalarArrays {
        let scalars = declared.iter().filter_map(|(kind, of)| match of {
            Pointee::Scalar(name) => Some((*kind, *name)),
            Pointee::Struct(_) | Pointee::Indexed(_) => None,
        });
        let structs = heap.objects.iter().zip(of_objects);
        let structs = structs.filter(|(_, form)| !decided.forms[form.0 as usize].is_empty());
        let structs = structs.map(|(object, _)| object.kind).collect();
        ScalarArrays {
            declared: scalars.collect(),
            whole: scalars::element_types(heap, &structs, &evidence.scalars),
            beside: scalars::beside(
                heap,
                of_objects,
                &decided.forms,
                &evidence.scalars,
                &evidence.votes,
            ),
        }
    }

    fn of(&self, alike: Alike) -> Option<ScalarName> {
        let declared = self.declared.get(&alike.0);
        let reached = || self.whole.get(&alike.0).or_else(|| self.beside.get(&alike));
        declared.or_else(reached).copied()
    }
}

fn extents(subjects: &mut Subjects, form: &[Placement]) -> Vec<Extent> {
    let extent = |p: &Placement| Extent {
        start: p.start,
        end: p.start.saturating_add(p.size),
        stride: p.stride,
        subject: subjects.number(Subject {
            ty: Some(p.ty),
            ..of_program(Bucket::Field)
        }),
    };
    form.iter().map(extent).collect()
}

/// The subject of what no placement covers; `array`: the type of the elements if the objects are
/// arrays of scalars.
fn rest_of(subjects: &mut Subjects, kind: ObjectKind, array: Option<&str>) -> SubjectId {
    let (bucket, label) = match array {
        Some(element) => (Bucket::HeapScalar, format!("{element}[]")),
        None => (Bucket::HeapSite, of_allocation(kind)),
    };
    subjects.number(Subject {
        label,
        site: kind.site.filter(|site| *site != GuestAddr(0)),
        ..of_program(bucket)
    })
}
