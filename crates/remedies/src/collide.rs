//! Objects that a CPU uses at such distances that their lines collide in few sets of its L2.
//!
//! An allocator hands out objects at multiples of their slots. If a CPU uses every eighth of them,
//! say, its objects have a stride that divides the size of a way of the L2, and reach only some of
//! the sets; with more objects than those sets have ways, they evict each other, however much room
//! the other sets have. Randomised freelists have no stride.

pub(crate) mod strides;

use linemate_answers::{Remedy, RemedyKind, Stake, TypeSets};
use linemate_attribution::schema::TypeIndex;
use linemate_layout::Edit;

use self::strides::Stride;
use super::context::{Context, trial};

pub(super) fn find(context: &Context<'_>) -> Vec<Remedy> {
    let found = context.collisions.types.iter();
    found
        .filter_map(|(ty, (stride, sets))| one(context, *ty, *stride, sets))
        .collect()
}

fn one(context: &Context<'_>, ty: TypeIndex, stride: Stride, sets: &TypeSets) -> Option<Remedy> {
    let (ids, cost) = context.fields_of(ty);
    if cost.capacity_misses == 0 {
        return None;
    }
    let name = context.fields.get(*ids.first()?).owner.clone();
    let (l2, most) = (&sets.l2, &sets.l2.most);
    let of_sets = |count: u64| match count {
        1 => "1 set".to_owned(),
        more => format!("{more} sets"),
    };
    let mut reasons = context.reasons(&ids, |_| true);
    reasons.notes.push(format!(
        "CPU {} uses {} objects, mostly {} bytes apart: they start in {} of {} sets of its L2",
        sets.cpu, stride.objects, stride.bytes, stride.starts, l2.sets
    ));
    reasons.notes.push(format!(
        "their {} lines map to {}, up to {} in one that has {} ways: {} beyond the ways",
        most.lines,
        of_sets(most.reached),
        most.fullest,
        l2.ways,
        most.beyond
    ));
    // One line more than a stride that divides a way: consecutive objects then start in consecutive
    // sets.
    let padded = stride.bytes + context.options.machine.line.bytes();
    Some(Remedy {
        kind: RemedyKind::SpreadOverSets,
        subject: name.clone(),
        advice: format!(
            "allocate them per CPU (alloc_percpu), or in a cache of their own, or pad the distance between a CPU's objects to {padded} bytes"
        ),
        concerns: vec![name.clone()],
        stake: Stake {
            misses: cost.capacity_misses,
            cycles: cost.capacity_cycles,
        },
        reasons,
        trials: vec![trial(None, vec![Edit::AllocatePercpu(name)])],
    })
}
