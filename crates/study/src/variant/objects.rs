//! What edits of whole objects mean for the objects of a recording.

use std::collections::BTreeSet;

use linemate_answers::Paired;
use linemate_layout::plan::{ObjectRule, Plan};
use linemate_types::{ByteAlign, TypeId, TypeModel};
use rustc_hash::FxHashMap;

use super::{Setting, Variant, VariantError, resize, subjects_of};
use crate::ownership::majority;
use crate::relocate::{Area, Moves, Resize, colocate, gather, slot};
use crate::scene::Scene;

impl Variant {
    /// Gives the objects that the plan is about their new addresses.
    pub(super) fn apply_objects(
        &mut self,
        plan: &mut Plan<'_>,
        scene: &Scene<'_>,
        setting: &Setting<'_>,
        area: &mut Area,
    ) -> Result<(), VariantError> {
        let mut questions = setting.questions.iter();
        for rule in plan.objects.clone() {
            match rule {
                ObjectRule::BaseAlign(..) => {}
                ObjectRule::Percpu(ids) => {
                    let size = resize(plan, ids[0], ByteAlign::ONE);
                    self.copy(scene, &ids, size, setting.cpus, area);
                }
                ObjectRule::AllocatePercpu(ids) => {
                    let size = resize(plan, ids[0], ByteAlign::ONE);
                    let moved = gather(&owned(scene, &ids), size, area);
                    if moved.is_empty() {
                        let name = name_of(plan.layouts.model(), &ids);
                        return Err(VariantError::NoObjects(format!("{name} of one CPU")));
                    }
                    self.relocate(scene, &ids, moved);
                }
                ObjectRule::Colocate(a, b) => {
                    let pairs = questions
                        .next()
                        .map_or_else(Vec::new, |q| pair_up(scene, *q, &a));
                    self.colocate((&a, &b), &pairs, plan, scene, area)?;
                }
            }
        }
        Ok(())
    }

    /// Gives each CPU a copy of each object, in its own per-CPU memory.
    fn copy(
        &mut self,
        scene: &Scene<'_>,
        ids: &[TypeId],
        size: Resize,
        cpus: usize,
        area: &mut Area,
    ) {
        let objects = || {
            subjects_of(scene, ids)
                .flat_map(|s| scene.objects[s].keys().map(move |base| (s, *base)))
        };
        let stride = size.new.next_multiple_of(size.align.max(1));
        let bytes = stride.saturating_mul(objects().count() as u64);
        for cpu in 0..cpus {
            let start = area.take_percpu(bytes);
            for ((subject, base), i) in objects().zip(0u64..) {
                let copies = &mut self.edit(subject).copies;
                copies.insert((base, cpu as u16), start + i * stride);
            }
        }
    }

    /// Makes one object of each pair.
    fn colocate(
        &mut self,
        (a, b): (&[TypeId], &[TypeId]),
        pairs: &[(u16, u64, u64)],
        plan: &mut Plan<'_>,
        scene: &Scene<'_>,
        area: &mut Area,
    ) -> Result<(), VariantError> {
        let (first, mut second) = (
            resize(plan, a[0], ByteAlign::ONE),
            resize(plan, b[0], ByteAlign::ONE),
        );
        // What was allocated after the second (statistics after an entity) comes along.
        let bases: BTreeSet<u64> = subjects_of(scene, b)
            .flat_map(|subject| scene.objects[subject].keys().copied())
            .collect();
        second.new += slot(bases.into_iter(), second.old) - second.old;
        let (firsts, seconds) = colocate(pairs, first, second, area);
        let count = |ids: &[TypeId]| -> usize {
            subjects_of(scene, ids)
                .map(|s| scene.objects[s].len())
                .sum()
        };
        self.paired.push(Paired {
            pairs: pairs.len(),
            first_alone: count(a) - pairs.len(),
            second_alone: count(b) - pairs.len(),
        });
        if pairs.is_empty() {
            let name = |ids| name_of(plan.layouts.model(), ids);
            let missing = format!("{} with its {}", name(a), name(b));
            return Err(VariantError::NoObjects(missing));
        }
        self.relocate(scene, a, firsts);
        self.relocate(scene, b, seconds);
        Ok(())
    }

    /// Objects of these types have new addresses.
    fn relocate(&mut self, scene: &Scene<'_>, ids: &[TypeId], moved: Moves) {
        let moved: FxHashMap<u64, u64> = moved.into_iter().collect();
        for subject in subjects_of(scene, ids) {
            for base in scene.objects[subject].keys() {
                if let Some(new) = moved.get(base) {
                    self.edit(subject).moved.insert(*base, *new);
                    self.relocated += 1;
                }
            }
        }
    }
}

/// What the first of a type's variants is called.
fn name_of(model: &TypeModel, ids: &[TypeId]) -> String {
    let first = ids.first().and_then(|id| model.composite(*id));
    first.map_or_else(String::new, |c| (*c.name).to_owned())
}

/// The objects of these types with the CPU that makes more than half of the accesses to each; others are left out.
fn owned(scene: &Scene<'_>, ids: &[TypeId]) -> Vec<(u16, u64)> {
    let objects = subjects_of(scene, ids).flat_map(|subject| &scene.objects[subject]);
    let owned = objects.filter_map(|(base, users)| Some((majority(users)?, *base)));
    owned.collect()
}

/// (owner, first, second): the most frequent neighbours first, each object once. The owner is the CPU that uses the first most.
fn pair_up(scene: &Scene<'_>, question: usize, first: &[TypeId]) -> Vec<(u16, u64, u64)> {
    let mut candidates: Vec<(u64, u64, u64)> = scene.neighbours[question]
        .iter()
        .map(|((a, b), count)| (*count, *a, *b))
        .collect();
    candidates.sort_unstable_by_key(|(count, a, b)| (std::cmp::Reverse(*count), *a, *b));
    let (mut taken_a, mut taken_b) = (FxHashMap::default(), FxHashMap::default());
    let mut pairs = Vec::new();
    for (_, a, b) in candidates {
        if taken_a.contains_key(&a) || taken_b.contains_key(&b) {
            continue;
        }
        taken_a.insert(a, ());
        taken_b.insert(b, ());
        let users = subjects_of(scene, first).find_map(|s| scene.objects[s].get(&a));
        let owner = users.and_then(|users| majority(users)).unwrap_or(u16::MAX);
        pairs.push((owner, a, b));
    }
    pairs
}
