//! Objects of one type that each have an owner: the CPU that uses it most. A worker's queue is its
//! own, and others post to it; counted by CPU alone, every CPU then does everything to the type.

use std::collections::{BTreeMap, BTreeSet};

use linemate_attribution::schema::TypeIndex;
use linemate_attribution::{Analysis, Subject};
use linemate_experiment::scene::{Scene, Step};
use linemate_recording::{AccessKind, CpuId, GuestAddr};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::apart::neighbours::allocated;

/// Whose access it is, of an object that has an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    /// The owner's.
    Owner,
    /// Another CPU's.
    Other,
}

/// The owners of objects, of the types whose objects have different ones.
pub(crate) struct Owners<'a> {
    subjects: &'a [Subject],
    /// By subject; empty for other types.
    owners: Vec<FxHashMap<GuestAddr, CpuId>>,
}

/// What is known of a type's objects.
#[derive(Default)]
struct OwnersOfType {
    owners: BTreeSet<CpuId>,
    /// Accesses to objects that have one.
    owned: u64,
    accesses: u64,
}

impl<'a> Owners<'a> {
    /// Examines the objects that [`super::writers`] has advice for: the kernel's of one line, and
    /// programs'.
    pub(crate) fn new(analysis: &'a Analysis<'_>, scene: &Scene<'_>, line: u64) -> Owners<'a> {
        let subjects = analysis.subjects();
        let wanted = |subject: &Subject| {
            let ty = subject.ty.filter(|_| allocated(subject).is_some())?;
            (subject.program || analysis.schema().size(ty) <= line).then_some(ty)
        };
        let mut types: BTreeMap<TypeIndex, OwnersOfType> = BTreeMap::new();
        for (subject, objects) in subjects.iter().zip(scene.objects) {
            let Some(ty) = wanted(subject) else {
                continue;
            };
            let known = types.entry(ty).or_default();
            for users in objects.values() {
                known.accesses += users.total();
                if let Some(owner) = users.majority() {
                    known.owners.insert(owner);
                    known.owned += users.total();
                }
            }
        }
        let have_owners = |ty: &TypeIndex| {
            let known = &types[ty];
            known.owners.len() > 1 && 2 * known.owned > known.accesses
        };
        let owners = subjects.iter().zip(scene.objects);
        let owners = owners.map(|(subject, objects)| match wanted(subject) {
            Some(ty) if have_owners(&ty) => {
                let owned = objects.iter();
                owned
                    .filter_map(|(base, users)| Some((*base, users.majority()?)))
                    .collect()
            }
            _ => FxHashMap::default(),
        });
        Owners {
            subjects,
            owners: owners.collect(),
        }
    }

    /// Whose an access is. What the kernel does to a program's memory is nobody's: it does so on
    /// any CPU.
    #[inline]
    pub(crate) fn role(&self, step: &Step) -> Option<Role> {
        let of_type = self.owners.get(step.subject.index())?;
        if of_type.is_empty() {
            return None;
        }
        let access = &step.access;
        if self.subjects[step.subject.index()].program && access.pc.0 >> 63 == 1 {
            return None;
        }
        let base = GuestAddr(access.addr.0.wrapping_sub(step.offset.into()));
        let owner = of_type.get(&base)?;
        Some(match *owner == access.cpu {
            true => Role::Owner,
            false => Role::Other,
        })
    }
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
    pub(crate) fn count(&mut self, role: Role, kind: AccessKind, times: u64) {
        *match (role, kind) {
            (Role::Owner, AccessKind::Load) => &mut self.owner_loads,
            (Role::Owner, _) => &mut self.owner_writes,
            (Role::Other, AccessKind::Load) => &mut self.other_loads,
            (Role::Other, _) => &mut self.other_writes,
        } += times;
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
