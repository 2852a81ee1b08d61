//! The distances between one CPU's objects of a type, and how their lines map to sets.

use std::collections::BTreeMap;

use linemate_answers::TypeSets;
use linemate_attribution::schema::TypeIndex;
use linemate_attribution::{Analysis, Bucket, Subject, SubjectId};
use linemate_experiment::scene::Scene;
use linemate_experiment::variant::Variant;
use linemate_experiment::{Experiment, ExperimentError};
use linemate_machine::Machine;
use linemate_recording::{CpuId, GuestAddr};

/// A distance is the stride if more than this share of the distances between neighbours equal it:
/// then it is a pattern, not chance.
const HABIT: (usize, usize) = (1, 2);

/// Objects that one CPU uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stride {
    pub(crate) objects: u64,
    /// Bytes between most of them.
    pub(crate) bytes: u64,
    /// Sets in which objects at that distance can start.
    pub(crate) starts: u64,
}

/// Types whose objects collide, with how their lines map to sets.
#[derive(Debug, Default)]
pub(crate) struct Collisions {
    pub(crate) types: BTreeMap<TypeIndex, (Stride, TypeSets)>,
}

impl Collisions {
    /// Examines the objects from allocators, and reads the accesses to those at a stride.
    ///
    /// # Errors
    /// A damaged recording.
    pub(crate) fn new(
        analysis: &Analysis<'_>,
        experiment: &Experiment<'_>,
    ) -> Result<Collisions, ExperimentError> {
        let (scene, machine) = (experiment.scene, experiment.machine);
        let owned = owned(analysis, scene);
        let mut suspects: Vec<TypeIndex> = owned
            .iter()
            // From addresses alone, which costs nothing: only types that may collide are read from
            // the stream.
            .filter(|(_, bases)| Stride::of(bases, machine).is_some())
            .map(|((ty, _), _)| *ty)
            .collect();
        suspects.dedup();
        if suspects.is_empty() {
            return Ok(Collisions::default());
        }
        let mut type_of = vec![None; scene.keys.len()];
        for (subject, about) in (0u32..).zip(analysis.subjects()) {
            let ty = about.ty.filter(|_| is_allocated(about));
            let number = ty.and_then(|ty| suspects.binary_search(&ty).ok());
            if let Some(key) = scene.subject_key(SubjectId(subject)) {
                type_of[key.0 as usize] = number;
            }
        }
        let variant = Variant::as_recorded(scene);
        let found = experiment.sets(&[&variant], suspects.len(), &type_of)?;
        let collision = |(ty, sets): (TypeIndex, Vec<Option<TypeSets>>)| {
            let sets = sets.into_iter().next().flatten()?;
            let cpu = CpuId(u16::try_from(sets.cpu).ok()?);
            let stride = Stride::of(owned.get(&(ty, cpu))?, machine)?;
            // What no cache of that size holds is not a matter of sets.
            let too_many = sets.l2.most.lines.saturating_sub(machine.l2.lines());
            (sets.l2.most.beyond > too_many).then_some((ty, (stride, sets)))
        };
        let types = suspects.into_iter().zip(found).filter_map(collision);
        Ok(Collisions {
            types: types.collect(),
        })
    }
}

/// Whether the subject's objects came from an allocator other than the per-CPU one.
fn is_allocated(subject: &Subject) -> bool {
    subject.bucket == Bucket::Field && !subject.percpu
}

/// The bases of allocated objects by type and by the CPU that makes more than half of the accesses
/// to them; ascending.
fn owned(
    analysis: &Analysis<'_>,
    scene: &Scene<'_>,
) -> BTreeMap<(TypeIndex, CpuId), Vec<GuestAddr>> {
    let mut owned: BTreeMap<(TypeIndex, CpuId), Vec<GuestAddr>> = BTreeMap::new();
    for (subject, objects) in analysis.subjects().iter().zip(scene.objects) {
        let Some(ty) = subject.ty else { continue };
        if !is_allocated(subject) {
            continue;
        }
        for (base, users) in objects {
            if let Some(cpu) = users.majority() {
                owned.entry((ty, cpu)).or_default().push(*base);
            }
        }
    }
    owned.values_mut().for_each(|bases| bases.sort_unstable());
    owned
}

impl Stride {
    /// For objects at these addresses, ascending, if they have a stride and are more than its sets
    /// have ways for.
    fn of(bases: &[GuestAddr], machine: &Machine) -> Option<Stride> {
        let mut distances: BTreeMap<u64, usize> = BTreeMap::new();
        for pair in bases.windows(2) {
            *distances.entry(pair[1].0 - pair[0].0).or_default() += 1;
        }
        let (bytes, count) = distances.iter().max_by_key(|(_, count)| **count)?;
        if count * HABIT.1 <= (bases.len() - 1) * HABIT.0 || *bytes == 0 {
            return None;
        }
        // Addresses a period apart are in one set. The period is a power of two, so a stride's
        // multiples repeat after period ÷ (the power of two in the stride) steps.
        let period = u64::from(machine.l2.sets) * machine.line.bytes();
        let step = period.min(1 << bytes.trailing_zeros().min(63));
        let starts = (period / step.max(machine.line.bytes())).max(1);
        let objects = bases.len() as u64;
        (objects > starts * u64::from(machine.l2.ways)).then_some(Stride {
            objects,
            bytes: *bytes,
            starts,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn stride(bases: impl Iterator<Item = u64>) -> Option<(u64, u64, u64)> {
        // 2048 sets of 16 ways, lines of 64 bytes: a way holds 128 KiB.
        let machine = linemate_machine::find("gnr-2s-480").unwrap();
        let bases: Vec<GuestAddr> = bases.map(GuestAddr).collect();
        Stride::of(&bases, &machine).map(|s| (s.objects, s.bytes, s.starts))
    }

    #[test]
    fn a_stride_has_room_for_as_many_as_its_sets_have_ways() {
        let every = |bytes: u64, count: u64| (0..count).map(move |i| 0x1000 + i * bytes);
        assert_eq!(stride(every(8192, 256)), None);
        assert_eq!(stride(every(8192, 257)), Some((257, 8192, 16)));
        // The factors of two in the stride matter: 9 KiB is 1 KiB nine times.
        assert_eq!(stride(every(9 << 10, 2048)), None);
        assert_eq!(stride(every(9 << 10, 2049)), Some((2049, 9 << 10, 128)));
        // One set.
        assert_eq!(stride(every(1 << 20, 17)), Some((17, 1 << 20, 1)));
        // An object in each line: all sets.
        assert_eq!(stride(every(8 << 10 | 64, 30_000)), None);
        assert_eq!(stride(every(8, 3)), None);
        assert_eq!(stride(std::iter::empty()), None);
    }

    #[test]
    fn what_has_no_habit_has_no_stride() {
        // Slots of 512 bytes, of which every second pair is 8 KiB apart.
        let spread = (0..1000).map(|i| i * 8192 + (i / 2 * 7919 % 16) * 512 * (i % 2));
        let mut bases: Vec<u64> = spread.collect();
        bases.sort_unstable();
        assert_eq!(stride(bases.into_iter()), None);
    }
}
