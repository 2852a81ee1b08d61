//! Whose memory it is, when recorded CPUs are cloned: see docs/model/scaling.md.

use std::collections::BTreeMap;
use std::ops::Range;

use linemate_attribution::counted::{Objects, Users};
use linemate_attribution::schema::Schema;
use linemate_attribution::{Analysis, Bucket, Names, Subject, SubjectId};
use linemate_recording::{Access, CpuId, GuestAddr};
use linemate_replay::{Fate, Sharing};
use linemate_types::{ByteSize, TypeId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::step::Step;

/// Bytes of a kernel stack on x86-64 (`THREAD_SIZE` without KASAN).
const STACK_BYTES: ByteSize = ByteSize(16 << 10);

/// Answers what clones share, and which types subjects have.
#[derive(Debug)]
pub struct Ownership {
    /// By subject: the model's type for the subject's type.
    pub types: Vec<Option<TypeId>>,
    /// The same of subjects whose objects edits move; `None` for what is on programs' stacks, and
    /// for `struct page`.
    pub movable: Vec<Option<TypeId>>,
    sharing: Vec<SubjectSharing>,
    /// The first idle task and its stack.
    first_idle: [Range<GuestAddr>; 2],
    /// Where CPUs' units of the first per-CPU chunk begin, ascending.
    units: Vec<(GuestAddr, CpuId)>,
    unit_bytes: ByteSize,
}

#[derive(Clone, Debug)]
enum SubjectSharing {
    All(Sharing),
    /// Registers of devices, which no cache holds.
    Device,
    /// Each CPU's own part of per-CPU memory.
    PerCpu,
    /// Cloned objects by address; the others are shared.
    ByObject(FxHashSet<GuestAddr>),
}

impl Ownership {
    /// Of a recording with that many CPUs and these objects.
    pub fn new(analysis: &Analysis<'_>, objects: &Objects, cpus: usize) -> Ownership {
        let types = subject_types(analysis);
        let mut population: FxHashMap<TypeId, usize> = FxHashMap::default();
        for (id, objects) in types.iter().zip(objects) {
            if let Some(id) = id {
                *population.entry(*id).or_default() += objects.len();
            }
        }
        let nothing = BTreeMap::new();
        let sharing = analysis.subjects().iter().enumerate().map(|(at, subject)| {
            let count = types[at].and_then(|id| population.get(&id)).copied();
            // Over all subjects of a type, whichever cache or site its objects are from: a
            // population is one of the type.
            let plenty = count.unwrap_or(0) >= cpus;
            of_subject(subject, plenty, objects.get(at).unwrap_or(&nothing))
        });
        let sharing = sharing.collect();
        let percpu = &analysis.directory().percpu;
        let start = |offset: &u64| GuestAddr(offset.wrapping_add(percpu.section.start));
        let starts = percpu.offsets.iter().map(start).zip((0..).map(CpuId));
        let mut units: Vec<(GuestAddr, CpuId)> = starts.collect();
        units.sort_unstable();
        let movable = types.iter().zip(analysis.subjects());
        let movable = movable.map(|(id, subject)| id.filter(|_| is_movable(subject)));
        Ownership {
            movable: movable.collect(),
            types,
            sharing,
            first_idle: first_idle(analysis),
            units,
            unit_bytes: ByteSize(percpu.unit_size),
        }
    }

    /// The access with what is known of it, independent of the question.
    #[inline]
    pub fn step(&self, names: &Names, access: &Access) -> Step {
        let step = self.unshared_step(names, access);
        Step {
            sharing: self.sharing(step.subject, access.addr, step.offset),
            ..step
        }
    }

    /// The same for a replay without clones, for which it does not matter whose memory it is.
    #[inline]
    pub fn unshared_step(&self, names: &Names, access: &Access) -> Step {
        let at = names.locate(access);
        Step {
            fate: self.fate(at.subject),
            ..Step::new(access, at.subject, at.offset)
        }
    }

    /// Whose memory an access goes to: at `addr`, `offset` bytes into an object of the subject.
    #[inline]
    pub fn sharing(&self, subject: SubjectId, addr: GuestAddr, offset: u32) -> Sharing {
        // A task and a stack like others, but variables of the kernel image, which are shared
        // otherwise.
        if self.first_idle.iter().any(|part| part.contains(&addr)) {
            return Sharing::Cloned;
        }
        match &self.sharing[subject.0 as usize] {
            SubjectSharing::All(sharing) => *sharing,
            SubjectSharing::Device => Sharing::Shared,
            // Outside of the first chunk the owner is not known. Cloned, other CPUs' accesses to it
            // stay in their group.
            SubjectSharing::PerCpu => self.unit(addr).map_or(Sharing::Cloned, Sharing::OfCpu),
            SubjectSharing::ByObject(cloned) => {
                let base = addr.wrapping_sub(offset);
                match cloned.contains(&base) {
                    true => Sharing::Cloned,
                    false => Sharing::Shared,
                }
            }
        }
    }

    /// The CPU whose unit of the first per-CPU chunk has the address. Of later chunks nobody knows
    /// where they begin.
    fn unit(&self, addr: GuestAddr) -> Option<CpuId> {
        let after = self.units.partition_point(|(start, _)| *start <= addr);
        let (start, cpu) = self.units[after.checked_sub(1)?];
        (ByteSize(addr.0 - start.0) < self.unit_bytes).then_some(cpu)
    }

    /// Whether accesses go through the caches.
    #[inline]
    pub fn fate(&self, subject: SubjectId) -> Fate {
        match &self.sharing[subject.0 as usize] {
            SubjectSharing::Device => Fate::Uncached,
            _ => Fate::Cached,
        }
    }

    /// By subject: whether it has a type, so that edits can move it.
    pub fn typed(&self) -> Vec<bool> {
        self.types.iter().map(Option::is_some).collect()
    }
}

/// Whether edits move a subject's objects. Folios, slabs and page tables' descriptors overlay a
/// `struct page`, and would have to follow.
fn is_movable(subject: &Subject) -> bool {
    !is_on_stack(subject) && subject.bucket != Bucket::StructPage
}

/// Whether a subject's objects are on programs' stacks. What else is in their bytes at other times
/// has other names or none, and what only code without debug information accesses of them, too: an
/// edit that moved some of their accesses would part them from the others.
pub fn is_on_stack(subject: &Subject) -> bool {
    subject.bucket == Bucket::StackTyped
}

/// `plenty`: there are as many objects of its type as CPUs.
fn of_subject(
    subject: &Subject,
    plenty: bool,
    objects: &BTreeMap<GuestAddr, Users>,
) -> SubjectSharing {
    match subject.bucket {
        Bucket::Device => SubjectSharing::Device,
        Bucket::GlobalTyped
        | Bucket::GlobalScalar
        | Bucket::GlobalNamed
        | Bucket::UnknownImage
        | Bucket::UnknownArea => SubjectSharing::All(Sharing::Shared),
        // The kernel's own objects, of which there are fewer than CPUs, are one for all; what one
        // CPU mostly uses belongs to that CPU.
        Bucket::Field | Bucket::StackShared if !subject.percpu && !plenty => {
            let own = |(base, users): (&GuestAddr, &Users)| users.majority().map(|_| *base);
            SubjectSharing::ByObject(objects.iter().filter_map(own).collect())
        }
        Bucket::PercpuTyped | Bucket::PercpuNamed | Bucket::UnknownPercpu => SubjectSharing::PerCpu,
        Bucket::Field if subject.percpu => SubjectSharing::PerCpu,
        // Also what has no type: no contention is invented for what is not known.
        _ => SubjectSharing::All(Sharing::Cloned),
    }
}

/// Where the first idle task and its stack lie; a part that the kernel has no symbol for is empty.
fn first_idle(analysis: &Analysis<'_>) -> [Range<GuestAddr>; 2] {
    let model = analysis.model();
    let task = model.struct_named("task_struct");
    let task_bytes = ByteSize(task.and_then(|id| model.size_of(id)).unwrap_or(0));
    [("init_task", task_bytes), ("init_stack", STACK_BYTES)].map(|(symbol, bytes)| {
        let start = analysis.symbols().address_of(symbol).unwrap_or(0);
        let end = start.saturating_add(if start == 0 { 0 } else { bytes.0 });
        GuestAddr(start)..GuestAddr(end)
    })
}

/// By subject: the model's type for its type.
fn subject_types(analysis: &Analysis<'_>) -> Vec<Option<TypeId>> {
    let (_, numbers) = Schema::of_model(analysis.model());
    let mut ids = FxHashMap::default();
    for (id, index) in numbers {
        let known = ids.entry(index).or_insert(id);
        // Several ids name one type (a definition in each compilation unit of a program): the
        // lowest, so that it does not depend on a table's order.
        *known = id.min(*known);
    }
    let id = |subject: &Subject| Some(TypeId(*ids.get(&subject.ty?)?));
    analysis.subjects().iter().map(id).collect()
}
