//! Objects of one type that each have an owner: the CPU that writes one field of it. A worker's
//! queue is its own, and others post to it; counted by CPU alone, every CPU then does everything to
//! the type.
//!
//! Rejected: the CPU that uses an object most. In a queue of one producer and one consumer that is
//! the one that waits, which polls: where the consumer is slow, the producer.

use std::collections::{BTreeMap, BTreeSet};

use linemate_attribution::schema::TypeIndex;
use linemate_attribution::{Analysis, Subject};
use linemate_experiment::scene::{Scene, Step};
use linemate_recording::{AccessKind, CpuId, GuestAddr};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::apart::neighbours::allocated;
use super::fields::{FieldId, Fields};

/// The most fields of objects whose uses are counted, at 150 to 200 bytes each with up to four
/// CPUs, 200 MB in all: bounds memory. Fields of objects that come later are not counted.
const COUNTED_MAX: usize = 1 << 20;

/// Who uses which fields of which objects, of the types whose objects may have owners.
pub(crate) struct Owners<'a> {
    subjects: &'a [Subject],
    /// By subject: whether its objects are examined.
    examined: Vec<bool>,
    uses: FxHashMap<ObjectField, Vec<CpuUse>>,
}

/// A field of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ObjectField {
    base: GuestAddr,
    field: FieldId,
}

/// The accesses of one CPU.
#[derive(Clone, Copy, Debug)]
struct CpuUse {
    cpu: CpuId,
    loads: u64,
    writes: u64,
}

/// The uses of a type's objects, by object.
type ObjectUses<'u> = BTreeMap<GuestAddr, Vec<(FieldId, &'u [CpuUse])>>;

impl<'a> Owners<'a> {
    /// Examines the objects that [`super::writers`] has advice for: the kernel's of one line, and
    /// programs'.
    pub(crate) fn new(analysis: &'a Analysis<'_>, scene: &Scene<'_>, line: u64) -> Owners<'a> {
        let subjects = analysis.subjects();
        let wanted = |subject: &Subject| {
            let moves = allocated(subject).is_some() || subject.of_threads;
            let ty = subject.ty.filter(|_| moves)?;
            (subject.program || analysis.schema().size(ty) <= line).then_some(ty)
        };
        let used_by_several = subjects.iter().zip(scene.objects);
        let used_by_several = used_by_several.filter_map(|(subject, objects)| {
            let ty = wanted(subject)?;
            let mut users = objects.values();
            users
                .any(|users| users.most() < users.total())
                .then_some(ty)
        });
        let used_by_several: BTreeSet<TypeIndex> = used_by_several.collect();
        let is_examined =
            |subject: &Subject| wanted(subject).is_some_and(|ty| used_by_several.contains(&ty));
        Owners {
            subjects,
            examined: subjects.iter().map(is_examined).collect(),
            uses: FxHashMap::default(),
        }
    }

    /// Counts an access to a field. What the kernel does to a program's memory counts for nobody:
    /// it does so on any CPU.
    #[inline]
    pub(crate) fn count(&mut self, step: &Step, field: FieldId) {
        let (subject, access) = (step.subject.index(), &step.access);
        let is_kernel = access.pc.0 >> 63 == 1;
        if !self.examined[subject] || self.subjects[subject].program && is_kernel {
            return;
        }
        let base = access.addr.wrapping_sub(step.offset);
        let key = ObjectField { base, field };
        let uses = match self.uses.len() < COUNTED_MAX {
            true => self.uses.entry(key).or_default(),
            false => match self.uses.get_mut(&key) {
                Some(uses) => uses,
                None => return,
            },
        };
        let at = uses.iter().position(|used| used.cpu == access.cpu);
        let at = at.unwrap_or_else(|| {
            uses.push(CpuUse {
                cpu: access.cpu,
                loads: 0,
                writes: 0,
            });
            uses.len() - 1
        });
        match access.kind {
            AccessKind::Load => uses[at].loads += 1,
            AccessKind::Store | AccessKind::Rmw => uses[at].writes += 1,
        }
    }

    /// Who uses the fields of objects that have an owner, of the types whose objects have different
    /// ones.
    pub(crate) fn finish(self, fields: &Fields) -> BTreeMap<FieldId, RoleUse> {
        let mut types: BTreeMap<TypeIndex, ObjectUses<'_>> = BTreeMap::new();
        for (key, uses) in &self.uses {
            if let Some(ty) = fields.get(key.field).outer {
                let objects = types.entry(ty).or_default();
                let of_object = objects.entry(key.base).or_default();
                of_object.push((key.field, uses));
            }
        }
        types.values().flat_map(by_role).collect()
    }
}

/// The field whose writers own a type's objects: the one with most writes by the CPU that makes
/// more than half of them to its object.
fn anchor(objects: &ObjectUses<'_>) -> Option<FieldId> {
    let mut writes: BTreeMap<FieldId, u64> = BTreeMap::new();
    for (field, uses) in objects.values().flatten() {
        if let Some(writer) = writer(uses) {
            *writes.entry(*field).or_default() += writer.writes;
        }
    }
    // Of equal ones the first.
    let most = writes.iter().rev().max_by_key(|(_, writes)| **writes);
    most.map(|(field, _)| *field)
}

/// The CPU that makes more than half of the writes.
fn writer(uses: &[CpuUse]) -> Option<&CpuUse> {
    let all: u64 = uses.iter().map(|used| used.writes).sum();
    uses.iter().find(|used| 2 * used.writes > all)
}

/// The uses of a type's fields, by whose they are; none if one CPU owns all objects, or those that
/// have an owner have at most half of the accesses.
fn by_role(objects: &ObjectUses<'_>) -> BTreeMap<FieldId, RoleUse> {
    let mut roles: BTreeMap<FieldId, RoleUse> = BTreeMap::new();
    let Some(anchor) = anchor(objects) else {
        return roles;
    };
    let (mut owners, mut all) = (BTreeSet::new(), 0);
    for uses in objects.values() {
        let accesses = uses.iter().flat_map(|(_, uses)| *uses);
        all += accesses.map(|used| used.loads + used.writes).sum::<u64>();
        let of_anchor = uses.iter().find(|(field, _)| *field == anchor);
        let Some(owner) = of_anchor.and_then(|(_, uses)| writer(uses)) else {
            continue;
        };
        owners.insert(owner.cpu);
        for (field, uses) in uses {
            let of_field = roles.entry(*field).or_default();
            uses.iter().for_each(|used| of_field.count(used, owner.cpu));
        }
    }
    let owned: u64 = roles.values().map(RoleUse::total).sum();
    if owners.len() < 2 || 2 * owned <= all {
        roles.clear();
    }
    roles
}

/// The accesses to a field of objects that have an owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RoleUse {
    pub(crate) owner_loads: u64,
    pub(crate) owner_writes: u64,
    pub(crate) other_loads: u64,
    pub(crate) other_writes: u64,
}

impl RoleUse {
    fn count(&mut self, used: &CpuUse, owner: CpuId) {
        let (loads, writes) = match used.cpu == owner {
            true => (&mut self.owner_loads, &mut self.owner_writes),
            false => (&mut self.other_loads, &mut self.other_writes),
        };
        *loads += used.loads;
        *writes += used.writes;
    }

    pub(crate) fn add(&mut self, other: &RoleUse) {
        self.owner_loads += other.owner_loads;
        self.owner_writes += other.owner_writes;
        self.other_loads += other.other_loads;
        self.other_writes += other.other_writes;
    }

    pub(crate) fn total(&self) -> u64 {
        self.owner_loads + self.owner_writes + self.other_loads + self.other_writes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAKEN: FieldId = FieldId(1);
    const PUT: FieldId = FieldId(2);
    const SLOTS: FieldId = FieldId(3);

    fn used(cpu: u16, loads: u64, writes: u64) -> CpuUse {
        let cpu = CpuId(cpu);
        CpuUse { cpu, loads, writes }
    }

    /// A queue of a consumer and a producer, each of which polls the other's count that often.
    fn queue(consumer: (u16, u64), producer: (u16, u64)) -> [(FieldId, Vec<CpuUse>); 3] {
        [
            (
                TAKEN,
                vec![used(consumer.0, 100, 100), used(producer.0, producer.1, 0)],
            ),
            (
                PUT,
                vec![used(consumer.0, consumer.1, 1), used(producer.0, 100, 101)],
            ),
            (
                SLOTS,
                vec![used(consumer.0, 100, 0), used(producer.0, 100, 0)],
            ),
        ]
    }

    fn roles(objects: &[[(FieldId, Vec<CpuUse>); 3]]) -> BTreeMap<FieldId, RoleUse> {
        let objects = (1..).zip(objects).map(|(base, fields)| {
            let uses = fields.iter().map(|(field, uses)| (*field, &uses[..]));
            (GuestAddr(base), uses.collect())
        });
        by_role(&objects.collect())
    }

    #[test]
    fn the_owner_of_a_queue_is_its_producer_whoever_polls() {
        let found = roles(&[queue((0, 9000), (1, 10)), queue((1, 10), (2, 9000))]);
        let taken = RoleUse {
            owner_loads: 9010,
            owner_writes: 0,
            other_loads: 200,
            other_writes: 200,
        };
        let put = RoleUse {
            owner_loads: 200,
            owner_writes: 202,
            other_loads: 9010,
            other_writes: 2,
        };
        assert_eq!((found[&TAKEN], found[&PUT]), (taken, put));
        assert_eq!(found[&SLOTS].total(), 400);
    }

    #[test]
    fn objects_of_one_owner_have_no_roles() {
        assert_eq!(
            roles(&[queue((0, 10), (1, 10)), queue((2, 10), (1, 10))]),
            BTreeMap::new()
        );
        assert_eq!(roles(&[]), BTreeMap::new());
    }

    #[test]
    fn objects_that_several_cpus_write_alike_have_no_owner() {
        let shared = [TAKEN, PUT, SLOTS].map(|field| (field, vec![used(0, 500, 9), used(1, 0, 9)]));
        assert_eq!(roles(&[shared.clone(), shared.clone()]), BTreeMap::new());
        // Two owned ones with less than half of the accesses change nothing.
        let owned = [queue((0, 1), (1, 1)), queue((1, 1), (2, 1))];
        let [first, second] = owned;
        assert_eq!(
            roles(&[first, second, shared.clone(), shared]),
            BTreeMap::new()
        );
    }
}
