//! Subjects: what accesses are counted for, and where each is inside an object or variable.

use linemate_recording::{GuestAddr, PAGE};
use linemate_types::ByteOffset;
use rustc_hash::FxHashMap;

use crate::kinds::{ObjectKind, Origin};
use crate::ledger::Bucket;
use crate::map::KernelMap;
use crate::schema::TypeIndex;
use crate::sites::SiteUse;
use crate::votes::Placement;

/// A subject's number: dense, in creation order.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct SubjectId(pub u32);

impl SubjectId {
    /// Its place in a list of all subjects.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A byte of a subject's objects, which identifies a field.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct FieldRef {
    pub subject: SubjectId,
    /// Bytes from the start of its type, or of the variable.
    pub offset: u32,
}

impl FieldRef {
    /// The same as an offset in a type.
    pub fn byte(self) -> ByteOffset {
        ByteOffset(self.offset.into())
    }
}

/// What accesses are counted for: a type, a variable, the untyped objects of one cache and site, or
/// a whole bucket.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Subject {
    pub bucket: Bucket,
    /// Its type, if known.
    pub ty: Option<TypeIndex>,
    /// The variable's name; for untyped heap objects their origin, `slab(CACHE)`, `kmalloc(SIZE)`,
    /// …; else empty.
    pub label: String,
    /// Where untyped heap objects were allocated.
    pub site: Option<GuestAddr>,
    /// Whether its objects have an owner: one CPU each.
    pub percpu: bool,
    /// Whether it belongs to a program, not the kernel.
    pub program: bool,
    /// Whether each thread of a program has its own: a thread's control block, a thread-local
    /// variable.
    pub of_threads: bool,
}

/// A placement with its subject.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) stride: u64,
    pub(crate) subject: SubjectId,
}

/// Subjects of whole buckets, and the list of all.
#[derive(Debug, Default)]
pub(crate) struct Subjects {
    pub(crate) list: Vec<Subject>,
    pub(crate) numbers: FxHashMap<Subject, SubjectId>,
}

impl Subject {
    /// Whether it is a variable of a program: not one of each thread.
    #[must_use]
    pub fn is_program_variable(&self) -> bool {
        let is_variable = matches!(
            self.bucket,
            Bucket::GlobalTyped | Bucket::GlobalScalar | Bucket::GlobalNamed | Bucket::StackShared
        );
        is_variable && self.program && !self.of_threads && !self.label.is_empty()
    }
}

impl Subjects {
    pub(crate) fn number(&mut self, subject: Subject) -> SubjectId {
        let next = SubjectId(self.list.len() as u32);
        let list = &mut self.list;
        *self.numbers.entry(subject).or_insert_with_key(|s| {
            list.push(s.clone());
            next
        })
    }

    pub(crate) fn bucket(&mut self, bucket: Bucket) -> SubjectId {
        self.number(Subject {
            bucket,
            ty: None,
            label: String::new(),
            site: None,
            percpu: false,
            program: false,
            of_threads: false,
        })
    }

    pub(crate) fn typed(
        &mut self,
        bucket: Bucket,
        ty: TypeIndex,
        label: &str,
        percpu: bool,
    ) -> SubjectId {
        self.number(Subject {
            bucket,
            ty: Some(ty),
            label: label.to_owned(),
            site: None,
            percpu,
            program: false,
            of_threads: false,
        })
    }
}

pub(crate) fn clip(offset: u64) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

pub(crate) fn bare(bucket: Bucket) -> Subject {
    Subject {
        bucket,
        ty: None,
        label: String::new(),
        site: None,
        percpu: false,
        program: false,
        of_threads: false,
    }
}

pub(crate) fn find(extents: &[Extent], at: u64) -> Option<Extent> {
    let i = extents.partition_point(|e| e.start <= at).checked_sub(1)?;
    (at < extents[i].end).then_some(extents[i])
}

pub(crate) fn extents(
    subjects: &mut Subjects,
    form: &[Placement],
    bucket: Bucket,
    label: &str,
    percpu: bool,
) -> Vec<Extent> {
    let extent = |p: &Placement| Extent {
        start: p.start,
        end: p.start.saturating_add(p.size),
        stride: p.stride,
        subject: subjects.typed(bucket, p.ty, label, percpu),
    };
    form.iter().map(extent).collect()
}

/// The name of a slab cache's objects of unknown type: not the cache's own, which usually is the
/// name of its objects' type.
pub(crate) fn of_cache(cache: &str) -> String {
    format!("slab({cache})")
}

/// What a program's allocation without a type is called.
pub(crate) fn of_allocation(kind: ObjectKind) -> String {
    match kind.origin {
        Origin::Mapping => format!("mmap({})", kind.size),
        _ => format!("malloc({})", kind.size),
    }
}

/// The subject of the bytes of a kind's objects that no placement covers.
pub(crate) fn rest_of(
    subjects: &mut Subjects,
    map: &KernelMap,
    kind: &ObjectKind,
    typed: bool,
) -> SubjectId {
    let cache = |c: u32| map.caches.get(c as usize).map_or("", |c| c.name.as_str());
    let bucket = match (kind.origin, kind.site, kind.usage) {
        (Origin::Pages, _, SiteUse::PageTable) => Bucket::PageTable,
        (Origin::Pages, _, SiteUse::Contents) => Bucket::PageContents,
        (Origin::Pages, _, SiteUse::Slab) => Bucket::HeapVacant,
        (Origin::Pages, ..) => Bucket::UnknownKernelPage,
        // Before `typed`: packet data is contents whatever a cast pointer into it was taken for.
        (_, _, SiteUse::Contents) => Bucket::HeapContents,
        // For a kind with a type, only what its placements do not cover comes here.
        _ if typed => Bucket::HeapTail,
        (_, Some(_), _) => Bucket::HeapSite,
        (_, None, _) => Bucket::HeapCache,
    };
    let label = match kind.origin {
        Origin::Cache(c) => of_cache(cache(c)),
        Origin::Kmalloc => format!("kmalloc({})", kind.size),
        Origin::Percpu => format!("per-CPU allocation of {}", kind.size),
        Origin::Pages if kind.size == PAGE => "1 page".to_owned(),
        Origin::Pages => format!("{} pages", kind.size / PAGE),
        Origin::Virtual => format!("vmalloc({})", kind.size),
        Origin::Program | Origin::Mapping => of_allocation(*kind),
    };
    subjects.number(Subject {
        label,
        site: kind.site,
        percpu: kind.origin == Origin::Percpu,
        ..bare(bucket)
    })
}
