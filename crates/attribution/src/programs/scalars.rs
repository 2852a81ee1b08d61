//! Heap objects that are arrays of numbers or pointers: a string's bytes, a hash table's buckets.
//!
//! They are told by what code reaches them as, like structs, but nothing follows from where in the object that is. A struct that is
//! known weighs more than any scalar: its members are scalars, too.

use std::collections::{BTreeMap, BTreeSet};

use linemate_recording::GuestAddr;
use rustc_hash::FxHashMap;

use super::debug::ScalarName;
use super::heap::Heap;
use crate::index::ObjectId;
use crate::kinds::KindId;

type Weights = BTreeMap<ScalarName, u64>;

/// The element type of each kind of objects that has one: the scalar that its objects were reached as most often; where they were not, that
/// of the objects of all sizes from the same site, unless one of those is a struct. `structs`: kinds that are or hold one.
pub(super) fn settle(
    heap: &Heap,
    structs: &BTreeSet<KindId>,
    votes: &FxHashMap<(ObjectId, ScalarName), u64>,
) -> BTreeMap<KindId, ScalarName> {
    let site = |kind: KindId| heap.kinds.get(kind).site.filter(|s| *s != GuestAddr(0));
    let mut of_kind: BTreeMap<KindId, Weights> = BTreeMap::new();
    let mut of_site: BTreeMap<GuestAddr, Weights> = BTreeMap::new();
    for ((object, name), weight) in votes {
        let kind = heap.objects[object.0 as usize].kind;
        *of_kind.entry(kind).or_default().entry(*name).or_default() += weight;
        if let Some(site) = site(kind) {
            *of_site.entry(site).or_default().entry(*name).or_default() += weight;
        }
    }
    for site in structs.iter().filter_map(|kind| site(*kind)) {
        of_site.remove(&site);
    }
    let kinds = (0u32..).map(KindId).take(heap.kinds.len());
    let known = kinds
        .filter(|kind| !structs.contains(kind))
        .filter_map(|kind| {
            let of_site = || of_site.get(&site(kind)?);
            let weights = of_kind.get(&kind).or_else(of_site)?;
            Some((kind, heaviest(weights)?))
        });
    known.collect()
}

/// Of equals the first.
fn heaviest(weights: &Weights) -> Option<ScalarName> {
    let best = weights
        .iter()
        .max_by_key(|(name, weight)| (**weight, std::cmp::Reverse(**name)));
    Some(*best?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::{NO_CPU, Object};
    use crate::index::NEVER;
    use crate::kinds::{ObjectKind, Origin, SILENT};
    use crate::sites::SiteUse;
    use crate::votes::Bounds;
    use linemate_recording::VirtualTime;

    /// Objects of these sites and sizes, each at a place of its own.
    fn heap(objects: &[(u64, u64)]) -> Heap {
        let mut heap = Heap::default();
        for (at, (site, size)) in (1u64..).zip(objects) {
            let kind = ObjectKind {
                origin: Origin::Program,
                site: Some(GuestAddr(*site)),
                size: *size,
                usage: SiteUse::Other,
            };
            let kind = heap.kinds.number(kind, Bounds::Exact(*size), None);
            heap.objects.push(Object {
                range: at << 20..(at << 20) + size,
                birth: VirtualTime(0),
                death: NEVER,
                kind,
                signature: SILENT,
                cpu: NO_CPU,
                ready: VirtualTime(0),
            });
        }
        heap
    }

    fn settled(
        objects: &[(u64, u64)],
        structs: &[u32],
        votes: &[(u32, u32, u64)],
    ) -> Vec<(u32, u32)> {
        let votes = votes
            .iter()
            .map(|(object, name, weight)| ((ObjectId(*object), ScalarName(*name)), *weight));
        let structs = structs.iter().map(|kind| KindId(*kind)).collect();
        let found = settle(&heap(objects), &structs, &votes.collect());
        found.iter().map(|(kind, name)| (kind.0, name.0)).collect()
    }

    #[test]
    fn what_objects_are_mostly_reached_as_is_what_they_are() {
        let objects = [(7, 32), (7, 32)];
        assert_eq!(settled(&objects, &[], &[(0, 0, 2), (1, 1, 3)]), [(0, 1)]);
        assert_eq!(settled(&objects, &[], &[(0, 1, 2), (1, 0, 2)]), [(0, 0)]);
        assert_eq!(settled(&objects, &[], &[]), []);
    }

    #[test]
    fn a_struct_weighs_more_than_any_scalar() {
        assert_eq!(settled(&[(7, 32)], &[0], &[(0, 1, 100)]), []);
    }

    #[test]
    fn other_sizes_of_a_site_speak_for_those_that_nothing_reached() {
        let objects = [(7, 32), (7, 48), (8, 48)];
        assert_eq!(settled(&objects, &[], &[(0, 1, 1)]), [(0, 1), (1, 1)]);
        // Not where the site hands out structs, too: a wrapper of malloc.
        assert_eq!(settled(&objects, &[1], &[(0, 1, 1)]), [(0, 1)]);
        // Nor where the site is not known.
        assert_eq!(settled(&[(0, 32), (0, 48)], &[], &[(0, 1, 1)]), [(0, 1)]);
    }
}
