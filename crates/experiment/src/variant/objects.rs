//! What edits of whole objects mean for the objects of a recording.

use std::collections::BTreeSet;
use std::sync::Arc;

use linemate_answers::Paired;
use linemate_attribution::counted::Users;
use linemate_layout::plan::{ObjectRule, Plan};
use linemate_recording::{Accesses, CpuId, GuestAddr};
use linemate_types::{ByteAlign, TypeId, TypeModel};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Variant, VariantError, resize, subjects_of};
use crate::ranges::{self, Written};
use crate::relocate::{
    Area, Moves, ObjectPair, Owned, Resize, colocate, every, gather, relocate, slot, times,
};
use crate::scene::Scene;
use crate::watch::TypePair;

impl Variant {
    /// Gives the objects that the plan is about their new addresses.
    pub(super) fn apply_objects(
        &mut self,
        plan: &mut Plan<'_>,
        scene: &Scene<'_>,
        area: &mut Area,
    ) -> Result<(), VariantError> {
        for rule in plan.objects.clone() {
            match rule {
                ObjectRule::BaseAlign(..) => {}
                ObjectRule::Percpu(ids) => {
                    let size = resize(plan, ids[0], ByteAlign::ONE);
                    if self.copy(scene, &ids, size, area) == 0 {
                        let name = name_of(plan.layouts.model(), &ids);
                        let own = format!("{name} that is not inside another type");
                        return Err(VariantError::NoObjects(own));
                    }
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
                ObjectRule::SkipSilentIn(name) => self.skip_silent(&name, scene)?,
                ObjectRule::PadRanges(name, align) => self.pad_ranges(&name, align, scene, area)?,
                ObjectRule::Colocate(first, second) => {
                    self.colocate(&TypePair { first, second }, plan, scene, area)?;
                }
            }
        }
        Ok(())
    }

    /// Gives each CPU a copy of each object, in its own per-CPU memory. Returns how many objects
    /// there are.
    fn copy(&mut self, scene: &Scene<'_>, ids: &[TypeId], size: Resize, area: &mut Area) -> usize {
        let objects = || {
            subjects_of(scene, ids)
                .flat_map(|s| scene.objects[s].keys().map(move |base| (s, *base)))
        };
        let stride = size.new.align_up(size.align);
        let count = objects().count();
        let bytes = times(stride, count);
        // CPU by CPU: a CPU's copies are adjacent, as its per-CPU area has them.
        for cpu in (0..scene.cpus as u16).map(CpuId) {
            let start = area.take_percpu(bytes);
            for ((subject, base), copy) in objects().zip(every(start, stride)) {
                self.edit(subject).copies.insert((base, cpu), copy);
            }
        }
        count
    }

    /// What each CPU alone writes of an array starts at a multiple of `align`; each of several
    /// blocks does, and in them what no CPU writes that writes what is before.
    fn pad_ranges(
        &mut self,
        name: &str,
        align: ByteAlign,
        scene: &Scene<'_>,
        area: &mut Area,
    ) -> Result<(), VariantError> {
        let before = self.relocated;
        let session = scene.session;
        for subject in ranges::named(session, name) {
            let written = Written::new(session, subject);
            let bases = ranges::bases(session, subject);
            let old = written.size;
            let (map, new) = written.apart(align, ranges::parts(session, subject, old));
            self.edit(subject).map = Some(Arc::new(map));
            let moved = relocate(&bases, Resize { old, new, align }, area);
            self.relocated += moved.len();
            self.edit(subject).moved.extend(moved);
        }
        match self.relocated > before {
            true => Ok(()),
            false => Err(no_memory(scene, name, "pad")),
        }
    }

    /// Stores that change nothing of what has that name are not made.
    fn skip_silent(&mut self, name: &str, scene: &Scene<'_>) -> Result<(), VariantError> {
        let named = ranges::named(scene.session, name);
        for subject in &named {
            self.edit(*subject).skip_silent = true;
        }
        match named.is_empty() {
            false => Ok(()),
            true => Err(no_memory(scene, name, "store in")),
        }
    }

    /// Makes one object of each pair.
    fn colocate(
        &mut self,
        types: &TypePair,
        plan: &mut Plan<'_>,
        scene: &Scene<'_>,
        area: &mut Area,
    ) -> Result<(), VariantError> {
        let (a, b) = (&types.first, &types.second);
        let pairs = pair_up(scene, types);
        let (first, mut second) = (
            resize(plan, a[0], ByteAlign::ONE),
            resize(plan, b[0], ByteAlign::ONE),
        );
        // What was allocated after the second (statistics after an entity) comes along.
        let bases: BTreeSet<GuestAddr> = subjects_of(scene, b)
            .flat_map(|subject| scene.objects[subject].keys().copied())
            .collect();
        second.new += slot(bases.into_iter(), second.old) - second.old;
        let (firsts, seconds) = colocate(&pairs, first, second, area);
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
            let name = |ids: &[TypeId]| name_of(plan.layouts.model(), ids);
            let missing = format!("{} with its {}", name(a), name(b));
            return Err(VariantError::NoObjects(missing));
        }
        self.relocate(scene, a, firsts);
        self.relocate(scene, b, seconds);
        Ok(())
    }

    /// Objects of these types have new addresses.
    fn relocate(&mut self, scene: &Scene<'_>, ids: &[TypeId], moved: Moves) {
        let moved: FxHashMap<GuestAddr, GuestAddr> = moved.into_iter().collect();
        for subject in subjects_of(scene, ids) {
            for base in scene.objects[subject].keys().copied() {
                if let Some(new) = moved.get(&base) {
                    self.edit(subject).moved.insert(base, *new);
                    self.relocated += 1;
                }
            }
        }
    }
}

/// What the first of a type's variants is called.
fn name_of(model: &TypeModel, ids: &[TypeId]) -> String {
    let first = ids.first().map(|id| model.composite_name(model.strip(*id)));
    first.unwrap_or_default().to_owned()
}

/// The objects of these types with the CPU that makes more than half of the accesses to each;
/// others are left out.
fn owned(scene: &Scene<'_>, ids: &[TypeId]) -> Vec<Owned> {
    let objects = subjects_of(scene, ids).flat_map(|subject| &scene.objects[subject]);
    let owned = objects.filter_map(|(base, users)| {
        Some(Owned {
            owner: users.majority()?,
            base: *base,
        })
    });
    owned.collect()
}

/// The most frequent neighbours first, each object once.
fn pair_up(scene: &Scene<'_>, types: &TypePair) -> Vec<ObjectPair> {
    let counted = scene.neighbours.iter().find(|(pair, _)| pair == types);
    let mut candidates: Vec<(Accesses, GuestAddr, GuestAddr)> = counted
        .iter()
        .flat_map(|(_, counted)| counted)
        .map(|((a, b), count)| (*count, *a, *b))
        .collect();
    candidates.sort_unstable_by_key(|(count, a, b)| (std::cmp::Reverse(*count), *a, *b));
    let (mut taken_a, mut taken_b) = (FxHashSet::default(), FxHashSet::default());
    let mut pairs = Vec::new();
    // Greedy, the most frequent pair first: an object has one partner, and ties go to the lower
    // addresses.
    for (_, first, second) in candidates {
        if taken_a.contains(&first) || taken_b.contains(&second) {
            continue;
        }
        taken_a.insert(first);
        taken_b.insert(second);
        let users = subjects_of(scene, &types.first).find_map(|s| scene.objects[s].get(&first));
        pairs.push(ObjectPair {
            owner: users.and_then(Users::majority),
            first,
            second,
        });
    }
    pairs
}

fn no_memory(scene: &Scene<'_>, name: &str, purpose: &'static str) -> VariantError {
    let names = ranges::names(scene.session);
    VariantError::NoMemory {
        name: name.to_owned(),
        purpose,
        nearest: linemate_text::nearest(name, names.iter().map(String::as_str)),
    }
}
