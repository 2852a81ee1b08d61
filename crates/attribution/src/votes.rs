//! What is where: resolves contradicting sightings into placements.
//!
//! A sighting says "a T was passed at this offset". Functions are called with casts, embedded
//! members and stale pointers, so a sighting is a vote, not a fact. A candidate's score is the
//! weight of all votes that it *explains*: those for itself and for what it embeds at exactly that
//! offset. Candidates are placed by falling score without overlap, so the outermost type wins over
//! its members (it explains them, they do not explain it), and a wrong sighting loses against what
//! it contradicts.
//!
//! It does not know what a heap, a cache or an address is: offsets in, placements out.

use rustc_hash::FxHashMap;

use crate::schema::{Schema, TypeIndex};

/// A type embedded by more than this many members of other types (`list_head`, `work_struct`,
/// `spinlock`) says little about what an object *is*: it does not name an object of more than twice
/// its size.
pub(crate) const EMBEDDERS_MAX: usize = 60;

/// The factor for a candidate whose size is exactly the object's: sizes coincide by chance in about
/// one struct out of 200, so this is the strongest evidence apart from a sighting.
const EXACT_FIT: u64 = 4;

/// The share of the weight that a type without sightings has to explain before it names an object.
const UNSIGHTED_SHARE: (u64, u64) = (9, 10);

/// How many times larger a struct can be than an object of the cache with its name: `kmem_cache`
/// has room for 1024 nodes of up to 16 bytes each after some 200 bytes.
const CUT_MAX: u64 = 128;

/// Bytes of a line on x86-64: whatever follows a struct or a variable starts at the next multiple
/// of it at the latest.
const CACHE_LINE: u64 = 64;

/// The extent that placements have to fit in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounds {
    /// An object whose size is known to the byte: a dedicated cache, a requested size.
    Exact(u64),
    /// A slot of a general cache: the object is larger than `over` (or it would be in a smaller
    /// cache) and at most `size`.
    Slot {
        /// Bytes of the slot.
        size: u64,
        /// Bytes of the next smaller cache's slot.
        over: u64,
    },
    /// A variable: only the next symbol bounds its size. Up to a cache line of that may be padding,
    /// more if the next one starts a page or a section.
    Variable {
        /// Bytes up to the next symbol.
        size: u64,
    },
    /// An address space: any number of objects.
    Open,
}

impl Bounds {
    fn end(self) -> u64 {
        match self {
            Bounds::Exact(size) | Bounds::Slot { size, .. } | Bounds::Variable { size } => size,
            Bounds::Open => u64::MAX,
        }
    }

    fn fits(self, size: u64) -> bool {
        match self {
            Bounds::Exact(exact) => size == exact,
            Bounds::Slot { size: slot, over } => size > over && size <= slot,
            Bounds::Variable { size: room } => size + CACHE_LINE > room && size <= room,
            Bounds::Open => false,
        }
    }
}

/// What is known about an object apart from sightings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint<'a> {
    /// A name that may be a type's, a cache's or a variable's: everything with this name is alike.
    All(&'a str),
    /// A name that other things have, too: sightings have to agree before the name counts.
    Some(&'a str),
    /// What was requested: one or several of these.
    Elements(TypeIndex),
}

impl<'a> Hint<'a> {
    /// The name, if it is one.
    #[must_use]
    pub fn name(self) -> Option<&'a str> {
        match self {
            Hint::All(name) | Hint::Some(name) => Some(name),
            Hint::Elements(_) => None,
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
    pub ty: TypeIndex,
    /// Bytes from one element to the next, if this is an array of `ty`; else equal to `size`.
    pub stride: u64,
}

/// What [`Votes::decide`] places where, and how much of the votes that explains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
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

    /// Adds all of `other`'s votes, each with weight 1: one object, one vote per sighting in it.
    /// Otherwise one long-lived object could outvote all its siblings.
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

    /// The votes without weights, sorted.
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

    #[must_use]
    pub fn decide(&self, schema: &Schema, bounds: Bounds, hint: Option<Hint<'_>>) -> Decision {
        let mut votes: Vec<(u64, TypeIndex, u64)> =
            self.weights.iter().map(|(&(o, t), &w)| (o, t, w)).collect();
        votes.sort_unstable();
        let mut deciding = Deciding {
            schema,
            bounds,
            votes: &votes,
            known: FxHashMap::default(),
        };
        // Candidates first, from all sources, then one placement by score: whether to believe a
        // sighting, a container or a name is then one comparison. Votes are sorted first, because
        // sums and ties must not depend on a table's order.
        let mut candidates = deciding.sighted();
        deciding.add_containers(&mut candidates, hint.and_then(Hint::name));
        candidates.extend(deciding.of_hint(hint));
        // After all others: a tail starts where another candidate ends.
        deciding.add_tails(&mut candidates);
        candidates.retain(|c| deciding.is_specific(c));
        // The best first; of equals the outermost; the rest only so that every run is the same.
        candidates.sort_by(|a, b| {
            (b.score, b.size, a.offset, schema.name(a.ty), a.ty).cmp(&(
                a.score,
                a.size,
                b.offset,
                schema.name(b.ty),
                b.ty,
            ))
        });
        deciding.place(&candidates)
    }
}

#[derive(Clone, Debug)]
struct Candidate {
    offset: u64,
    ty: TypeIndex,
    size: u64,
    /// Bytes of an element; equal to `size` if it is not known to be an array.
    stride: u64,
    explained: u64,
    score: u64,
}

struct Deciding<'a> {
    schema: &'a Schema,
    bounds: Bounds,
    votes: &'a [(u64, TypeIndex, u64)],
    known: FxHashMap<(TypeIndex, TypeIndex, u64), bool>,
}

impl Deciding<'_> {
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
            // A candidate explains itself too, so a type that was sighted often beats one sighted
            // rarely at the same place.
            if self.contains(ty, inner, at - offset) {
                explained = explained.saturating_add(weight);
            }
        }
        let fit = if offset == 0 && self.bounds.fits(size) {
            EXACT_FIT
        } else {
            1
        };
        // A certain name counts as one vote without sightings: it holds until a sighting
        // contradicts it.
        let score = explained.max(u64::from(sure)).saturating_mul(fit);
        Candidate {
            offset,
            ty,
            size,
            stride: size,
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

    /// A type of exactly the object's size that explains (nearly) all sightings inside names the
    /// object even if it was never passed itself: `shmem_inode_info` is seen only through its
    /// `inode`. If several do, the hint has to decide. If the size is known only to the slot, the
    /// sighted type must be a member of nothing else that would be in such a slot: `cpupri` of
    /// `root_domain`.
    fn add_containers(&mut self, candidates: &mut Vec<Candidate>, hint: Option<&str>) {
        // In an open space any struct could surround the sighting.
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
                self.schema.containers(best.ty, best.offset, size..=size)
            }
            Bounds::Slot { .. } | Bounds::Variable { .. } => self.only_container(&best),
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
        // Several that explain the same are as good as none: a guess would name all objects of the
        // kind.
        if fitting.len() == 1 {
            candidates.append(&mut fitting);
        }
    }

    /// The only type that embeds the candidate's, if it does so at the candidate's offset and has
    /// the right size. In a slot it is enough that nothing else embeds it there that would be in
    /// such a slot: the offset is evidence too, unless it is 0, where anything can follow. Smaller
    /// types count against it, because more than the struct can have been requested.
    fn only_container(&self, inner: &Candidate) -> Vec<TypeIndex> {
        if self.schema.embedder_count(inner.ty) > EMBEDDERS_MAX {
            return Vec::new();
        }
        let slot = matches!(self.bounds, Bounds::Slot { .. }) && inner.offset > 0;
        let sizes = 0..=if slot { self.bounds.end() } else { u64::MAX };
        let found = self.schema.containers(inner.ty, inner.offset, sizes);
        let sole = slot || self.schema.sole_embedder(inner.ty).is_some();
        match found.as_slice() {
            [only] if sole && self.bounds.fits(self.schema.size(*only)) => found,
            _ => Vec::new(),
        }
    }

    fn of_hint(&mut self, hint: Option<Hint<'_>>) -> Option<Candidate> {
        let hint = hint?;
        if let Hint::Elements(ty) = hint {
            return self.elements(ty);
        }
        let ty = self.hinted(hint.name()?)?;
        let alike = matches!(hint, Hint::All(_));
        let mut candidate = self.candidate(0, ty, alike);
        candidate.score = match self.bounds {
            // Name and size agree, and nothing else is in that cache: what contradicts it is a list
            // of freed objects.
            Bounds::Exact(size) if alike && size == candidate.size => u64::MAX,
            // A name is as much evidence as an exact fit, and both multiply.
            _ => candidate.score.saturating_mul(EXACT_FIT),
        };
        (candidate.score > 0).then_some(candidate)
    }

    /// As many elements as fit, if they fill the object. They explain the sightings in each;
    /// contradicting sightings have to outweigh that, because the elements are declared and not
    /// only seen.
    fn elements(&mut self, ty: TypeIndex) -> Option<Candidate> {
        let Bounds::Exact(size) = self.bounds else {
            return None;
        };
        let stride = self.schema.size(ty);
        if size == 0 || size.checked_rem(stride) != Some(0) {
            return None;
        }
        let mut explained = 0u64;
        for i in 0..self.votes.len() {
            let (at, inner, weight) = self.votes[i];
            if self.contains(ty, inner, at % stride) {
                explained = explained.saturating_add(weight);
            }
        }
        Some(Candidate {
            offset: 0,
            ty,
            size,
            stride,
            explained,
            score: explained.max(1).saturating_mul(EXACT_FIT),
        })
    }

    /// A cache with a struct's name holds that struct, if its objects are about as large: smaller,
    /// because the struct's end depends on the machine (`task_struct` with its FPU state,
    /// `kmem_cache` with its nodes), by at most [`CUT_MAX`]; or larger, because a similar cache was
    /// merged with it. A variable is never smaller than its type.
    fn hinted(&self, hint: &str) -> Option<TypeIndex> {
        let stem = hint.trim_end_matches("_cachep").trim_end_matches("_cache");
        // Caches are named after their struct with or without `_struct` and `_cache`
        // (`vm_area_struct`, `task_struct_cachep`, `inode_cache`).
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
            Bounds::Slot { size: room, .. } | Bounds::Variable { size: room } => size <= room,
            Bounds::Open => false,
        };
        names.iter().find_map(|name| {
            self.schema
                .named(name)
                .into_iter()
                .find(|t| fits(self.schema.size(*t)))
        })
    }

    /// Whether the type says what the object is ([`EMBEDDERS_MAX`]).
    fn is_specific(&self, candidate: &Candidate) -> bool {
        match self.bounds {
            Bounds::Exact(size) | Bounds::Slot { size, .. } | Bounds::Variable { size } => {
                candidate.size.saturating_mul(2) >= size
                    || self.schema.embedder_count(candidate.ty) <= EMBEDDERS_MAX
            }
            // There is no object to compare its size with.
            Bounds::Open => true,
        }
    }

    fn place(&mut self, candidates: &[Candidate]) -> Decision {
        let mut decided = Decision {
            total: self.votes.iter().map(|v| v.2).sum(),
            ..Decision::default()
        };
        for candidate in candidates {
            let (size, stride) = self.extent(candidate);
            let at = decided
                .placements
                .partition_point(|p| p.start < candidate.offset);
            let after = decided
                .placements
                .get(at)
                .is_some_and(|p| p.start < candidate.offset.saturating_add(size));
            let before = at.checked_sub(1).is_some_and(|i| {
                let p = &decided.placements[i];
                p.start.saturating_add(p.size) > candidate.offset
            });
            // A candidate that overlaps a better one is not cut down: nobody passed half a struct.
            if !after && !before {
                decided.explained = decided.explained.saturating_add(candidate.explained);
                let placement = Placement {
                    start: candidate.offset,
                    size,
                    ty: candidate.ty,
                    stride,
                };
                decided.placements.insert(at, placement);
            }
        }
        decided
    }

    /// The types that name what follows another type up to the object's end, but extend beyond that
    /// end: structs whose last member is as long as the machine needs (`fpu` after `task_struct`,
    /// from Linux 6.16 on). They were passed at that place, another candidate ends there, and they
    /// explain (nearly) all sightings from there on.
    fn add_tails(&mut self, candidates: &mut Vec<Candidate>) {
        let Bounds::Exact(end) = self.bounds else {
            return;
        };
        let mut tails = Vec::new();
        for &(offset, ty, _) in self.votes {
            let behind = |c: &Candidate| {
                let from = c.offset.saturating_add(c.size);
                from <= offset && offset - from < CACHE_LINE
            };
            let left = end.saturating_sub(offset);
            if left == 0 || self.schema.size(ty) <= left || !candidates.iter().any(behind) {
                continue;
            }
            let mut tail = self.candidate(offset, ty, false);
            tail.size = left;
            let whole: u64 = self.votes_in(offset, left).iter().map(|v| v.2).sum();
            if tail.explained.saturating_mul(UNSIGHTED_SHARE.1)
                >= whole.saturating_mul(UNSIGHTED_SHARE.0)
            {
                tails.push(tail);
            }
        }
        candidates.append(&mut tails);
    }

    /// The bytes that a candidate covers and its stride: itself; up to the object's end, if it ends
    /// in a flexible array; or the whole object, if the object is a multiple of it and it was
    /// sighted at several places of that grid.
    fn extent(&self, candidate: &Candidate) -> (u64, u64) {
        let single = (candidate.size, candidate.stride);
        if self.bounds == Bounds::Open || candidate.stride != candidate.size {
            return single;
        }
        let end = self.bounds.end();
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
        // At least two places: one sighting at 0 could also be a struct at the start of something
        // larger.
        if candidate.offset == 0 && seen >= 2 && grid(end) {
            (end, candidate.size)
        } else {
            single
        }
    }
}

/// Whether a type's name has a word in common with the start of a cache's name, ignoring case:
/// `tcp_sock` and `TCP`.
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
mod tests;
