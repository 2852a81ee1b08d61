//! Which fields of a type are used together.
//!
//! Two fields are *used together* if one CPU touches both in one object within [`WINDOW`]
//! instructions. That is the distance of one helper inlined into a loop or a function: it separates
//! "these are looked at side by side" from "both are touched somewhere in this system call".
//! Counting is a stream: a short list of recent accesses per CPU, no lengths of anything.

use std::collections::BTreeMap;

use linemate_recording::{Access, GuestAddr};
use linemate_types::{ByteOffset, FlatType, TypeModel};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::names::Located;
use crate::schema::{Schema, TypeIndex};
use crate::subjects::Subject;

/// How far apart two uses may be, in instructions. Chosen on recordings of the sleep workload
/// (docs/model/attribution.md).
pub const WINDOW: u64 = 48;

/// The number of recent accesses that are compared; more than one instruction in three touching one
/// object is rare.
const RECENT: usize = 16;

/// Types with more fields than this are not grouped: the pair counts would grow with the square.
const FIELDS_MAX: usize = 1500;

/// Beyond this many bytes of a type, fields are not distinguished.
const BYTES_MAX: u64 = 1 << 20;

/// Pair counts of the fields of all types with objects in the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoUses {
    /// By type and two of its fields, by [`linemate_types::LeafId`] and in order of use: by the
    /// object's owner, and by others.
    pairs: BTreeMap<(TypeIndex, u16, u16), [u32; 2]>,
}

/// Pair counts of a type's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoUse {
    /// By two fields in order of use: by the object's owner, and by other CPUs. Objects without an
    /// owner: all in the first.
    pairs: FxHashMap<(u16, u16), [u32; 2]>,
}

/// Whose uses are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The object's owner (or anyone, if objects have no owner).
    Owner = 0,
    /// CPUs other than the owner.
    Others = 1,
}

impl CoUses {
    /// Those of one type.
    #[must_use]
    pub fn of(&self, ty: TypeIndex) -> CoUse {
        let range = (ty, 0, 0)..=(ty, u16::MAX, u16::MAX);
        let pairs = self.pairs.range(range);
        CoUse {
            pairs: pairs
                .map(|((_, a, b), counts)| ((*a, *b), *counts))
                .collect(),
        }
    }

    fn add(&mut self, key: (TypeIndex, u16, u16), counts: [u32; 2]) {
        let sum = self.pairs.entry(key).or_default();
        for (sum, part) in sum.iter_mut().zip(counts) {
            *sum = sum.saturating_add(part);
        }
    }

    /// Adds the counts of another part of the recording.
    pub(crate) fn merge(&mut self, other: CoUses) {
        for (key, counts) in other.pairs {
            self.add(key, counts);
        }
    }
}

impl CoUse {
    #[cfg(test)]
    pub(crate) fn add(&mut self, by: By, a: usize, b: usize, count: u32) {
        self.pairs.entry((a as u16, b as u16)).or_default()[by as usize] += count;
    }

    /// How often two fields were used together.
    #[must_use]
    pub fn together(&self, by: By, a: usize, b: usize) -> u64 {
        let at = |a: usize, b: usize| {
            let fields = u16::try_from(a).ok().zip(u16::try_from(b).ok());
            let counts = fields.and_then(|fields| self.pairs.get(&fields));
            counts.map_or(0, |counts| counts[by as usize])
        };
        u64::from(at(a, b)) + if a == b { 0 } else { u64::from(at(b, a)) }
    }
}

/// Which field is at which byte, for all types with objects in the recording.
#[derive(Debug)]
pub(crate) struct FieldTables {
    types: Vec<(TypeIndex, Vec<Option<u16>>)>,
    /// By subject: its place in `types`; `None` if fields are not distinguished.
    of_subject: Vec<Option<u32>>,
}

impl FieldTables {
    /// Fields are the types' leaves, by [`linemate_types::LeafId`].
    pub(crate) fn new(model: &TypeModel, schema: &Schema, subjects: &[Subject]) -> FieldTables {
        let mut types: Vec<(TypeIndex, Vec<Option<u16>>)> = Vec::new();
        let mut known: FxHashMap<TypeIndex, Option<u32>> = FxHashMap::default();
        let mut table = |ty: TypeIndex| {
            *known.entry(ty).or_insert_with(|| {
                types.push((ty, fields_of(model, schema, ty)?));
                Some((types.len() - 1) as u32)
            })
        };
        let of_subject = subjects.iter().map(|s| table(s.ty?)).collect();
        FieldTables { types, of_subject }
    }
}

/// By byte; `None` for a type with too many fields.
fn fields_of(model: &TypeModel, schema: &Schema, ty: TypeIndex) -> Option<Vec<Option<u16>>> {
    let about = schema.get(ty)?;
    let flat = FlatType::new(model, about.id).ok()?;
    if flat.leaves().len() > FIELDS_MAX {
        return None;
    }
    let at = |offset| {
        let hit = flat.find(ByteOffset(offset), 1)?;
        u16::try_from(hit.leaf.0).ok()
    };
    Some((0..about.size.min(BYTES_MAX)).map(at).collect())
}

#[derive(Clone, Copy, Debug)]
struct RecentUse {
    time: u64,
    object: GuestAddr,
    field: u16,
}

/// A CPU's latest accesses to objects of a type.
#[derive(Clone, Debug, Default)]
struct Ring {
    latest: Vec<RecentUse>,
    next: usize,
}

/// Two fields of a type, in order of use: one word, because a table of them is read at each access
/// for each access shortly before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct UsedPair(u64);

impl UsedPair {
    fn new(ty: u32, before: u16, field: u16) -> UsedPair {
        UsedPair(u64::from(ty) << 32 | u64::from(before) << 16 | u64::from(field))
    }

    /// The type and both fields.
    fn parts(self) -> (u32, u16, u16) {
        ((self.0 >> 32) as u32, (self.0 >> 16) as u16, self.0 as u16)
    }
}

/// Counts pairs in a stream of accesses.
#[derive(Debug)]
pub(crate) struct CoUseCollector<'t> {
    tables: &'t FieldTables,
    pairs: FxHashMap<UsedPair, [u32; 2]>,
    /// By CPU, then type.
    rings: Vec<Vec<Ring>>,
}

impl<'t> CoUseCollector<'t> {
    pub(crate) fn new(tables: &'t FieldTables) -> CoUseCollector<'t> {
        CoUseCollector {
            tables,
            pairs: FxHashMap::default(),
            rings: Vec::new(),
        }
    }

    /// A window does not extend across the boundary of two chunks, so chunks can be counted in any
    /// order.
    pub(crate) fn start_chunk(&mut self) {
        for ring in self.rings.iter_mut().flatten() {
            ring.latest.clear();
            ring.next = 0;
        }
    }

    #[inline]
    pub(crate) fn access(&mut self, access: &Access, at: &Located) {
        let Some(ty) = self.tables.of_subject[at.subject.0 as usize] else {
            return;
        };
        let fields = &self.tables.types[ty as usize].1;
        let Some(Some(field)) = fields.get(at.offset as usize).copied() else {
            return;
        };
        let cpu = usize::from(access.cpu.0);
        if cpu >= self.rings.len() {
            let rings = vec![Ring::default(); self.tables.types.len()];
            self.rings.resize(cpu + 1, rings);
        }
        let ring = &mut self.rings[cpu][ty as usize];
        let time = access.time.0;
        let by = match at.owner {
            Some(owner) if owner != access.cpu => By::Others,
            _ => By::Owner,
        };
        // Compared one by one: sixteen entries are searched faster than any table of them.
        let near = |o: &&RecentUse| o.object == at.object && time.saturating_sub(o.time) <= WINDOW;
        for other in ring.latest.iter().filter(near) {
            // In order of use, which is free here; readers add both orders.
            let pair = UsedPair::new(ty, other.field, field);
            let counts = self.pairs.entry(pair).or_default();
            counts[by as usize] = counts[by as usize].saturating_add(1);
        }
        let now = RecentUse {
            time,
            object: at.object,
            field,
        };
        match ring.latest.get_mut(ring.next) {
            Some(oldest) => *oldest = now,
            None => ring.latest.push(now),
        }
        ring.next = (ring.next + 1) % RECENT;
    }

    pub(crate) fn finish(self) -> CoUses {
        let mut all = CoUses::default();
        for (pair, counts) in self.pairs {
            let (ty, a, b) = pair.parts();
            all.add((self.tables.types[ty as usize].0, a, b), counts);
        }
        all
    }
}
