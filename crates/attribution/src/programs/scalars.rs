//! Heap objects that are arrays of numbers or pointers: a string's bytes, a hash table's buckets;
//! and such arrays next to structs in one object.
//!
//! Like structs, they are recognised by how code accesses them, but the offset in the object says
//! nothing. A known struct outweighs any scalar: its members are scalars, too.

use std::collections::{BTreeMap, BTreeSet};

use linemate_recording::GuestAddr;
use rustc_hash::FxHashMap;

use super::debug::ScalarName;
use super::heap::Heap;
use crate::index::ObjectId;
use crate::kinds::{FormId, KindId};
use crate::subjects::clip;
use crate::votes::{Placement, Votes};

type Weights = BTreeMap<ScalarName, u64>;

/// The size of the parts of objects that votes are counted for: a line, so that a struct's
/// neighbour is another part.
const PART: u64 = 64;

/// The share of what known functions do to bytes next to structs that has to be by pointers to
/// scalars: the rest uses registers about which nothing is known, because optimised code does not
/// describe all of them. One half is a choice based on one program, SQLite, which nine tenths would
/// leave without types; the oracles have no wrong name with it. Whether another program has is
/// unknown.
const BESIDE_SHARE: (u64, u64) = (1, 2);

/// What an access says about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ScalarVote {
    pub(crate) object: ObjectId,
    /// Which part of it, see [`part_of`].
    pub(crate) part: u32,
    /// The scalar that the register points to; `None` if the debug information has the function but
    /// not the register's target.
    pub(crate) name: Option<ScalarName>,
}

/// The part of an object that contains a byte.
pub(crate) fn part_of(offset: u64) -> u32 {
    clip(offset / PART)
}

/// The element type of each kind of objects that has one: the scalar that its objects were accessed
/// as most often; without accesses, that of the objects of all sizes from the same site, unless one
/// of those is a struct. `structs`: kinds that are or contain one.
pub(super) fn element_types(
    heap: &Heap,
    structs: &BTreeSet<KindId>,
    votes: &FxHashMap<ScalarVote, u64>,
) -> BTreeMap<KindId, ScalarName> {
    let site = |kind: KindId| heap.kinds.get(kind).site.filter(|s| *s != GuestAddr(0));
    let mut of_kind: BTreeMap<KindId, Weights> = BTreeMap::new();
    let mut of_site: BTreeMap<GuestAddr, Weights> = BTreeMap::new();
    for (vote, weight) in votes {
        let Some(name) = vote.name else { continue };
        let kind = heap.objects[vote.object.0 as usize].kind;
        *of_kind.entry(kind).or_default().entry(name).or_default() += weight;
        if let Some(site) = site(kind) {
            *of_site.entry(site).or_default().entry(name).or_default() += weight;
        }
    }
    for site in structs.iter().filter_map(|kind| site(*kind)) {
        // A site that also allocates structs is a wrapper: sizes without accesses may be either.
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

/// The objects of a kind that are alike in their structs.
pub(super) type Alike = (KindId, FormId);

/// What is next to the structs of objects that contain some.
#[derive(Debug, Default)]
struct Beside {
    weights: Weights,
    /// Of all accesses by known functions.
    all: u64,
    /// Whether something there was accessed as a struct that was not believed.
    doubtful: bool,
}

/// The scalar that the bytes next to the structs of alike objects are mostly accessed as: an object
/// may be a page of bytes followed by the structs that describe it. An arena is not such an object,
/// so nothing there may have been accessed as a struct, and half of what known functions do there
/// has to be by pointers to scalars. `forms`: by object; `placements`: by form.
pub(super) fn beside(
    heap: &Heap,
    forms: &[FormId],
    placements: &[Vec<Placement>],
    votes: &FxHashMap<ScalarVote, u64>,
    structs: &FxHashMap<ObjectId, Votes>,
) -> BTreeMap<Alike, ScalarName> {
    let form = |object: ObjectId| forms[object.0 as usize];
    let placed = |object| &*placements[form(object).0 as usize];
    let alike = |object: ObjectId| (heap.objects[object.0 as usize].kind, form(object));
    let mut found: BTreeMap<Alike, Beside> = BTreeMap::new();
    for (vote, weight) in votes {
        let start = u64::from(vote.part) * PART;
        let structs = placed(vote.object);
        // Members are scalars, too: only bytes that are certainly outside every struct count.
        if structs.is_empty() || overlaps(structs, start, PART) {
            continue;
        }
        let beside = found.entry(alike(vote.object)).or_default();
        beside.all += weight;
        if let Some(name) = vote.name {
            *beside.weights.entry(name).or_default() += weight;
        }
    }
    for (object, votes) in structs {
        let structs = placed(*object);
        let outside = |(offset, ..): (u64, _, _)| !overlaps(structs, offset, 1);
        if let Some(beside) = found.get_mut(&alike(*object)) {
            beside.doubtful |= votes.iter().any(outside);
        }
    }
    let scalar = |(alike, beside): (Alike, Beside)| {
        let name = heaviest(&beside.weights).filter(|_| !beside.doubtful)?;
        let (part, whole) = BESIDE_SHARE;
        let known: u64 = beside.weights.values().sum();
        let enough = known.saturating_mul(whole) >= beside.all.saturating_mul(part);
        enough.then_some((alike, name))
    };
    found.into_iter().filter_map(scalar).collect()
}

/// Whether one of the structs contains one of these bytes.
fn overlaps(structs: &[Placement], start: u64, bytes: u64) -> bool {
    let after = structs.partition_point(|p| p.start < start.saturating_add(bytes));
    let last = after.checked_sub(1).map(|i| &structs[i]);
    last.is_some_and(|p| p.start.saturating_add(p.size) > start)
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
    use crate::collect::Object;
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
                cpu: None,
                ready: VirtualTime(0),
            });
        }
        heap
    }

    fn decided(
        objects: &[(u64, u64)],
        structs: &[u32],
        votes: &[(u32, u32, u64)],
    ) -> Vec<(u32, u32)> {
        let votes = votes.iter().map(|(object, name, weight)| {
            let vote = ScalarVote {
                object: ObjectId(*object),
                part: 0,
                name: Some(ScalarName(*name)),
            };
            (vote, *weight)
        });
        let structs = structs.iter().map(|kind| KindId(*kind)).collect();
        let found = element_types(&heap(objects), &structs, &votes.collect());
        found.iter().map(|(kind, name)| (kind.0, name.0)).collect()
    }

    #[test]
    fn what_objects_are_mostly_reached_as_is_what_they_are() {
        let objects = [(7, 32), (7, 32)];
        assert_eq!(decided(&objects, &[], &[(0, 0, 2), (1, 1, 3)]), [(0, 1)]);
        assert_eq!(decided(&objects, &[], &[(0, 1, 2), (1, 0, 2)]), [(0, 0)]);
        assert_eq!(decided(&objects, &[], &[]), []);
    }

    #[test]
    fn a_struct_weighs_more_than_any_scalar() {
        assert_eq!(decided(&[(7, 32)], &[0], &[(0, 1, 100)]), []);
    }

    #[test]
    fn other_sizes_of_a_site_speak_for_those_that_nothing_reached() {
        let objects = [(7, 32), (7, 48), (8, 48)];
        assert_eq!(decided(&objects, &[], &[(0, 1, 1)]), [(0, 1), (1, 1)]);
        // Not if the site hands out structs, too: a wrapper of malloc.
        assert_eq!(decided(&objects, &[1], &[(0, 1, 1)]), [(0, 1)]);
        // Nor if the site is unknown.
        assert_eq!(decided(&[(0, 32), (0, 48)], &[], &[(0, 1, 1)]), [(0, 1)]);
    }

    /// Two objects of 4096 bytes of a page, a struct of 128 after them, and 64 more; the same
    /// without a struct.
    fn beside_of(votes: &[(u32, u64, Option<u32>, u64)], structs: &[(u32, u64)]) -> usize {
        let heap = heap(&[(7, 4288), (7, 4288), (7, 4288)]);
        let placement = Placement {
            start: 4096,
            size: 128,
            ty: crate::schema::TypeIndex(0),
            stride: 128,
        };
        let forms = [FormId(1), FormId(1), FormId(0)];
        let votes = votes.iter().map(|(object, offset, name, weight)| {
            let vote = ScalarVote {
                object: ObjectId(*object),
                part: part_of(*offset),
                name: name.map(ScalarName),
            };
            (vote, *weight)
        });
        let structs = structs.iter().map(|(object, offset)| {
            let mut votes = Votes::default();
            votes.add(*offset, crate::schema::TypeIndex(0), 1);
            (ObjectId(*object), votes)
        });
        let placements = [Vec::new(), vec![placement]];
        let (votes, structs) = (votes.collect(), structs.collect());
        let found = beside(&heap, &forms, &placements, &votes, &structs);
        let expected = BTreeMap::from([((KindId(0), FormId(1)), ScalarName(5))]);
        assert!(found.is_empty() || found == expected, "{found:?}");
        found.len()
    }

    #[test]
    fn bytes_beside_structs_are_what_they_are_reached_as() {
        let bytes = [
            (0, 0, Some(5), 6),
            (1, 4032, Some(5), 3),
            (1, 4224, Some(5), 1),
        ];
        assert_eq!(beside_of(&bytes, &[(0, 4096)]), 1);
        // The struct's members are numbers, too.
        assert_eq!(
            beside_of(&[(0, 4096, Some(5), 6), (0, 4160, Some(5), 6)], &[]),
            0
        );
        // An object in which no struct is known may be anything.
        assert_eq!(beside_of(&[(2, 0, Some(5), 6)], &[]), 0);
    }

    #[test]
    fn an_arena_is_no_array() {
        let bytes = (0, 0, Some(5), 9);
        assert_eq!(beside_of(&[bytes, (0, 64, None, 9)], &[]), 1);
        assert_eq!(beside_of(&[bytes, (0, 64, None, 10)], &[]), 0);
        // A checksum over bytes takes eight of them at a time.
        assert_eq!(beside_of(&[bytes, (0, 64, Some(6), 2)], &[]), 1);
        assert_eq!(
            beside_of(&[bytes], &[(1, 64)]),
            0,
            "a struct that was not believed"
        );
    }
}
