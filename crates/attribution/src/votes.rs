//! What lies where: settles contradicting sightings into placements.
//!
//! A sighting says "a T was handed over at this offset". Functions are called with casts, embedded members and
//! stale pointers, so a sighting is a vote, not a fact. A candidate's score is the weight of all votes that it
//! *explains*: those for itself and for what it embeds at exactly that offset. Candidates are placed by falling
//! score without overlap, so the outermost type wins over its members (it explains them, they do not explain it),
//! and a wrong sighting loses against what it contradicts.
//!
//! It does not know what a heap, a cache or an address is: offsets in, placements out.

use rustc_hash::FxHashMap;

use crate::schema::{Schema, TypeIndex};

/// A type that more than this many members of other types embed (`list_head`, `work_struct`, `spinlock`) says
/// little about what an object *is*: it does not name an object of more than twice its size.
const EMBEDDERS_MAX: usize = 60;

/// The factor for a candidate whose size is exactly that of the object: sizes coincide by chance in about one
/// struct out of 200, so this is the strongest evidence beside a sighting.
const EXACT_FIT: u64 = 4;

/// The share of the weight that a type without a sighting of its own has to explain before it names an object.
const UNSIGHTED_SHARE: (u64, u64) = (9, 10);

/// How many times larger a struct can be than an object of the cache with its name: `kmem_cache` has room for 1024 nodes.
const CUT_MAX: u64 = 64;

/// The extent that placements have to fit in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// An object whose size is known to the byte: a dedicated cache, a requested size.
    Exact(u64),
    /// A slot of a general cache: the object is larger than `over` (else it would lie in a smaller cache) and at most `size`.
    Slot {
        /// Bytes of the slot.
        size: u64,
        /// Bytes of the next smaller cache's slot.
        over: u64,
    },
    /// An address space: any number of objects.
    Open,
}

impl Bounds {
    fn end(self) -> u64 {
        match self {
            Bounds::Exact(size) | Bounds::Slot { size, .. } => size,
            Bounds::Open => u64::MAX,
        }
    }

    fn fits(self, size: u64) -> bool {
        match self {
            Bounds::Exact(exact) => size == exact,
            Bounds::Slot { size: slot, over } => size > over && size <= slot,
            Bounds::Open => false,
        }
    }
}

/// Sightings of one object or of all objects of a kind: weight by offset and type.
#[derive(Clone, Debug, Default)]
pub struct Votes {
    weights: FxHashMap<(u64, TypeIndex), u64>,
}

/// A type at an offset.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Placement {
    /// Offset of the first byte.
    pub start: u64,
    /// Bytes covered: the type's size, times the elements, or up to the end for a flexible array.
    pub size: u64,
    /// What lies there.
    pub ty: TypeIndex,
    /// Bytes from one element to the next, if this is an array of `ty`; else the same as `size`.
    pub stride: u64,
}

/// What [`Votes::settle`] finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// In order of offset, without overlap.
    pub placements: Vec<Placement>,
    /// The weight of the votes that the placements explain.
    pub explained: u64,
    /// The weight of all votes.
    pub total: u64,
}

impl Votes {
    /// Adds `weight` to the vote for `ty` at `offset`.
    pub fn add(&mut self, offset: u64, ty: TypeIndex, weight: u64) {
        let entry = self.weights.entry((offset, ty)).or_default();
        *entry = entry.saturating_add(weight);
    }

    /// Adds all of `other`'s votes, each with the weight 1: one object, one vote for what was seen in it. Otherwise
    /// one long-lived object could outvote all its siblings.
    pub fn add_object(&mut self, other: &Votes) {
        for &(offset, ty) in other.weights.keys() {
            self.add(offset, ty, 1);
        }
    }

    /// Offset, type and weight of every vote, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, TypeIndex, u64)> + '_ {
        self.weights
            .iter()
            .map(|(&(offset, ty), &weight)| (offset, ty, weight))
    }

    /// What was voted for, sorted, without the weights.
    #[must_use]
    pub fn keys_sorted(&self) -> Vec<(u64, TypeIndex)> {
        let mut keys: Vec<(u64, TypeIndex)> = self.weights.keys().copied().collect();
        keys.sort_unstable();
        keys
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// Settles the votes. `hint` is a name that may be a type's (a cache's name).
    #[must_use]
    pub fn settle(&self, schema: &Schema, bounds: Bounds, hint: Option<&str>) -> Settled {
        let mut votes: Vec<(u64, TypeIndex, u64)> =
            self.weights.iter().map(|(&(o, t), &w)| (o, t, w)).collect();
        votes.sort_unstable();
        let mut settling = Settling {
            schema,
            bounds,
            votes: &votes,
            known: FxHashMap::default(),
        };
        let mut candidates = settling.sighted();
        settling.add_containers(&mut candidates, hint);
        if let Some(ty) = settling.hinted(hint) {
            let mut candidate = settling.candidate(0, ty, true);
            candidate.score = candidate.score.saturating_mul(EXACT_FIT);
            candidates.push(candidate);
        }
        candidates.retain(|c| settling.is_telling(c));
        // The best first; of equals the outermost; the rest only to be the same in every run.
        candidates.sort_by(|a, b| {
            (b.score, b.size, a.offset, schema.name(a.ty), a.ty).cmp(&(
                a.score,
                a.size,
                b.offset,
                schema.name(b.ty),
                b.ty,
            ))
        });
        settling.place(&candidates)
    }
}

#[derive(Clone, Debug)]
struct Candidate {
    offset: u64,
    ty: TypeIndex,
    size: u64,
    explained: u64,
    score: u64,
}

struct Settling<'a> {
    schema: &'a Schema,
    bounds: Bounds,
    votes: &'a [(u64, TypeIndex, u64)],
    known: FxHashMap<(TypeIndex, TypeIndex, u64), bool>,
}

impl Settling<'_> {
    fn contains(&mut self, outer: TypeIndex, inner: TypeIndex, offset: u64) -> bool {
        let schema = self.schema;
        *self
            .known
            .entry((outer, inner, offset))
            .or_insert_with(|| schema.contains(outer, inner, offset))
    }

    fn votes_in(&self, start: u64, size: u64) -> &[(u64, TypeIndex, u64)] {
        let from = self.votes.partition_point(|v| v.0 < start);
        let to = self
            .votes
            .partition_point(|v| v.0 < start.saturating_add(size));
        &self.votes[from..to.max(from)]
    }

    fn candidate(&mut self, offset: u64, ty: TypeIndex, sure: bool) -> Candidate {
        let size = self.schema.size(ty);
        let mut explained = 0u64;
        for i in 0..self.votes_in(offset, size).len() {
            let (at, inner, weight) = self.votes_in(offset, size)[i];
            if self.contains(ty, inner, at - offset) {
                explained = explained.saturating_add(weight);
            }
        }
        let fit = if offset == 0 && self.bounds.fits(size) {
            EXACT_FIT
        } else {
            1
        };
        let score = explained.max(u64::from(sure)).saturating_mul(fit);
        Candidate {
            offset,
            ty,
            size,
            explained,
            score,
        }
    }

    fn sighted(&mut self) -> Vec<Candidate> {
        let end = self.bounds.end();
        let mut found = Vec::with_capacity(self.votes.len());
        for i in 0..self.votes.len() {
            let (offset, ty, _) = self.votes[i];
            let size = self.schema.size(ty);
            if size > 0 && offset.checked_add(size).is_some_and(|e| e <= end) {
                found.push(self.candidate(offset, ty, false));
            }
        }
        found
    }

    /// A type of exactly the object's size that explains (nearly) all that was sighted inside names the object even if it was
    /// never handed over itself: `shmem_inode_info` is seen only through its `inode`. If several do, the hint has to decide.
    /// Where the size is known only to the slot, what was sighted has to be a member of nothing else: `cpupri` of `root_domain`.
    fn add_containers(&mut self, candidates: &mut Vec<Candidate>, hint: Option<&str>) {
        if self.bounds == Bounds::Open {
            return;
        }
        let total: u64 = self.votes.iter().map(|v| v.2).sum();
        let Some(best) = candidates
            .iter()
            .max_by_key(|c| (c.explained, std::cmp::Reverse((c.offset, c.ty))))
            .cloned()
        else {
            return;
        };
        let found = match self.bounds {
            Bounds::Exact(size) if best.size != size => {
                self.schema.containers(best.ty, best.offset, size)
            }
            Bounds::Slot { .. } => self.only_container(&best),
            Bounds::Exact(_) | Bounds::Open => return,
        };
        let mut fitting: Vec<Candidate> = Vec::new();
        for ty in found {
            let candidate = self.candidate(0, ty, false);
            if candidate.explained.saturating_mul(UNSIGHTED_SHARE.1)
                >= total.saturating_mul(UNSIGHTED_SHARE.0)
            {
                fitting.push(candidate);
            }
        }
        let hinted = fitting
            .iter()
            .filter(|c| hint.is_some_and(|h| resembles(self.schema.name(c.ty), h)))
            .count();
        if fitting.len() > 1 && hinted == 1 {
            fitting.retain(|c| hint.is_some_and(|h| resembles(self.schema.name(c.ty), h)));
        }
        if fitting.len() == 1 {
            candidates.append(&mut fitting);
        }
    }

    /// The type that alone embeds the candidate's, if it does so at the candidate's offset and belongs in a slot of this size.
    fn only_container(&self, inner: &Candidate) -> Vec<TypeIndex> {
        let outer = self.schema.only_embedder(inner.ty);
        let fits = |&(ty, at): &(TypeIndex, u64)| {
            at == inner.offset && self.bounds.fits(self.schema.size(ty))
        };
        outer.filter(fits).map(|(ty, _)| ty).into_iter().collect()
    }

    /// A cache that has a struct's name holds that struct, if its objects are about as large: smaller, because the struct's end
    /// depends on the machine (`task_struct` with its FPU state, `kmem_cache` with its nodes), by at most [`CUT_MAX`]; or larger,
    /// because a similar cache was merged with it. A variable is never smaller than its type.
    fn hinted(&self, hint: Option<&str>) -> Option<TypeIndex> {
        let hint = hint?;
        let stem = hint.trim_end_matches("_cachep").trim_end_matches("_cache");
        let names = [
            hint.to_owned(),
            format!("{hint}_struct"),
            stem.to_owned(),
            format!("{stem}_struct"),
        ];
        let fits = |size: u64| match self.bounds {
            Bounds::Exact(exact) => {
                size <= exact.saturating_mul(CUT_MAX) && size.saturating_mul(2) > exact
            }
            Bounds::Slot { size: slot, .. } => size <= slot,
            Bounds::Open => false,
        };
        names.iter().find_map(|name| {
            self.schema
                .named(name)
                .into_iter()
                .find(|t| fits(self.schema.size(*t)))
        })
    }

    /// See [`EMBEDDERS_MAX`].
    fn is_telling(&self, candidate: &Candidate) -> bool {
        match self.bounds {
            Bounds::Exact(size) | Bounds::Slot { size, .. } => {
                candidate.size.saturating_mul(2) >= size
                    || self.schema.embedder_count(candidate.ty) <= EMBEDDERS_MAX
            }
            Bounds::Open => true,
        }
    }

    fn place(&mut self, candidates: &[Candidate]) -> Settled {
        let mut settled = Settled {
            total: self.votes.iter().map(|v| v.2).sum(),
            ..Settled::default()
        };
        for candidate in candidates {
            let (size, stride) = self.extent(candidate);
            let at = settled
                .placements
                .partition_point(|p| p.start < candidate.offset);
            let after = settled
                .placements
                .get(at)
                .is_some_and(|p| p.start < candidate.offset.saturating_add(size));
            let before = at.checked_sub(1).is_some_and(|i| {
                let p = &settled.placements[i];
                p.start.saturating_add(p.size) > candidate.offset
            });
            if !after && !before {
                settled.explained = settled.explained.saturating_add(candidate.explained);
                let placement = Placement {
                    start: candidate.offset,
                    size,
                    ty: candidate.ty,
                    stride,
                };
                settled.placements.insert(at, placement);
            }
        }
        settled
    }

    /// The bytes that a candidate covers and its stride: itself; up to the object's end, if it ends in a flexible
    /// array; or the whole object, if the object is a multiple of it and it was sighted in several places of that grid.
    fn extent(&self, candidate: &Candidate) -> (u64, u64) {
        let single = (candidate.size, candidate.size);
        let (Bounds::Exact(end) | Bounds::Slot { size: end, .. }) = self.bounds else {
            return single;
        };
        if candidate.size >= end {
            return (end, end);
        }
        if self.schema.is_flexible(candidate.ty) {
            let size = end - candidate.offset;
            return (size, size);
        }
        let grid = |o: u64| o.checked_rem(candidate.size) == Some(0);
        let seen = self
            .votes
            .iter()
            .filter(|v| v.1 == candidate.ty && grid(v.0))
            .count();
        if candidate.offset == 0 && seen >= 2 && grid(end) {
            (end, candidate.size)
        } else {
            single
        }
    }
}

/// Whether a type's name has a word in common with the start of a cache's name, whatever the case: `tcp_sock` and `TCP`.
fn resembles(type_name: &str, hint: &str) -> bool {
    let word = |s: &str| {
        s.split(['_', '-'])
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase()
    };
    word(type_name) == word(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::tests::{nested, sample, scalar, ty};

    const LIST: TypeIndex = TypeIndex(0);
    const ENTITY: TypeIndex = TypeIndex(1);
    const TASK: TypeIndex = TypeIndex(2);

    fn settle(
        votes: &[(u64, TypeIndex, u64)],
        bounds: Bounds,
        hint: Option<&str>,
    ) -> Vec<(u64, u64, String)> {
        let mut all = Votes::default();
        for &(o, t, w) in votes {
            all.add(o, t, w);
        }
        let schema = sample();
        let settled = all.settle(&schema, bounds, hint);
        settled
            .placements
            .iter()
            .map(|p| (p.start, p.size, schema.name(p.ty).to_owned()))
            .collect()
    }

    #[test]
    fn the_outermost_type_wins_however_often_its_members_are_seen() {
        let votes = [(0, TASK, 1), (64, ENTITY, 1000), (80, LIST, 5000)];
        assert_eq!(
            settle(&votes, Bounds::Exact(256), None),
            vec![(0, 256, "task".into())]
        );
        assert_eq!(
            settle(&votes, Bounds::Open, None),
            vec![(0, 256, "task".into())]
        );
    }

    #[test]
    fn a_wrong_sighting_is_outvoted() {
        // The entity at 8 contradicts the entity at 64 in a task; it overlaps the task, so it goes.
        let votes = [(0, TASK, 3), (64, ENTITY, 3), (8, ENTITY, 5)];
        assert_eq!(
            settle(&votes, Bounds::Open, None),
            vec![(0, 256, "task".into())]
        );
        // And the other way round: one wrong task over many rightly seen entities.
        let votes = [(0, TASK, 1), (0, ENTITY, 40), (128, ENTITY, 40)];
        assert_eq!(
            settle(&votes, Bounds::Open, None),
            vec![(0, 64, "entity".into()), (128, 64, "entity".into())]
        );
    }

    #[test]
    fn an_exact_fit_beats_a_slightly_more_frequent_misfit() {
        let votes = [(0, ENTITY, 3), (0, TASK, 1)];
        assert_eq!(
            settle(&votes, Bounds::Exact(256), None),
            vec![(0, 256, "task".into())]
        );
        assert_eq!(
            settle(&votes, Bounds::Exact(100), None),
            vec![(0, 64, "entity".into())],
            "a task does not fit in 100 bytes"
        );
    }

    #[test]
    fn an_unsighted_container_is_found_by_size_and_member() {
        assert_eq!(
            settle(&[(64, ENTITY, 2)], Bounds::Exact(256), None),
            vec![(0, 256, "task".into())]
        );
        assert_eq!(
            settle(&[(64, ENTITY, 2)], Bounds::Exact(264), None),
            vec![(64, 64, "entity".into())]
        );
        assert_eq!(
            settle(&[(65, ENTITY, 2)], Bounds::Exact(256), None),
            vec![(65, 64, "entity".into())]
        );
    }

    #[test]
    fn in_a_slot_only_the_sole_container_of_what_was_seen_is_found() {
        let slot = |size, over| Bounds::Slot { size, over };
        let task = vec![(0, 256, "task".to_owned())];
        let entity = |at| vec![(at, 64, "entity".to_owned())];
        assert_eq!(settle(&[(64, ENTITY, 2)], slot(512, 255), None), task);
        assert_eq!(settle(&[(64, ENTITY, 2)], slot(512, 256), None), entity(64));
        assert_eq!(settle(&[(64, ENTITY, 2)], slot(192, 96), None), entity(64));
        assert_eq!(settle(&[(72, ENTITY, 2)], slot(512, 255), None), entity(72));
        let contradicted = [(64, ENTITY, 2), (136, ENTITY, 1)];
        assert_eq!(
            settle(&contradicted, slot(512, 255), None),
            [entity(64), entity(136)].concat(),
            "a third of the votes speaks against a task"
        );
        let mut votes = Votes::default();
        votes.add(64, TypeIndex(0), 2);
        let node = |name| ty(name, 256, vec![nested("node", 64, 16, 0)]);
        let one = Schema::new(vec![ty("node", 16, vec![]), node("a")]);
        let two = Schema::new(vec![ty("node", 16, vec![]), node("a"), node("b")]);
        let first = |s: &Schema| votes.settle(s, slot(512, 255), None).placements[0].ty;
        assert_eq!(first(&one), TypeIndex(1));
        assert_eq!(first(&two), TypeIndex(0), "two types embed it there");
    }

    #[test]
    fn a_cache_with_a_types_name_and_size_needs_no_sighting() {
        assert_eq!(
            settle(&[], Bounds::Exact(256), Some("task")),
            vec![(0, 256, "task".into())]
        );
        assert_eq!(
            settle(&[], Bounds::Exact(192), Some("task")),
            vec![(0, 192, "task".into())],
            "cut off"
        );
        assert_eq!(
            settle(&[], Bounds::Exact(512), Some("task")),
            vec![],
            "too large for its name"
        );
        assert_eq!(
            settle(
                &[],
                Bounds::Slot {
                    size: 192,
                    over: 128
                },
                Some("task")
            ),
            vec![],
            "a variable is never cut off"
        );
        assert_eq!(
            settle(
                &[],
                Bounds::Slot {
                    size: 4096,
                    over: 4032
                },
                Some("task")
            ),
            vec![(0, 256, "task".into())]
        );
        assert_eq!(settle(&[], Bounds::Exact(256), None), vec![]);
    }

    #[test]
    fn arrays_and_flexible_ends_cover_the_object() {
        let votes = [(0, ENTITY, 1), (128, ENTITY, 1)];
        assert_eq!(
            settle(&votes, Bounds::Exact(192), None),
            vec![(0, 192, "entity".into())]
        );
        assert_eq!(
            settle(&[(0, TypeIndex(5), 1)], Bounds::Exact(72), None),
            vec![(0, 72, "flex".into())]
        );
    }

    #[test]
    fn a_type_that_everything_embeds_does_not_name_an_object() {
        let mut types = vec![ty("node", 16, vec![scalar("next", 0, 8)])];
        for i in 0..EMBEDDERS_MAX + 1 {
            types.push(ty(&format!("t{i}"), 24, vec![nested("node", 8, 16, 0)]));
        }
        let schema = Schema::new(types);
        let mut votes = Votes::default();
        votes.add(0, TypeIndex(0), 50);
        assert_eq!(
            votes.settle(&schema, Bounds::Exact(64), None).placements,
            vec![]
        );
        assert_eq!(
            votes
                .settle(&schema, Bounds::Exact(32), None)
                .placements
                .len(),
            1
        );
    }
}
