//! Which fields of a type are used together.
//!
//! Two fields are *used together* when one CPU touches both in one object within [`WINDOW`] instructions. That is the distance of one
//! helper inlined into a loop or a function: it tells "these are looked at side by side" from "both are touched somewhere in this
//! system call". Counting is a stream: a short list of recent accesses per CPU, no lengths of anything.

use linemate_recording::{Access, GuestAddr};
use linemate_types::{FlatType, TypeModel};

use crate::names::{Located, Names};
use crate::schema::{Schema, TypeIndex};

/// In instructions.
pub const WINDOW: u64 = 48;

/// The most recent accesses that are looked back at; more than one instruction in three touching one object is rare.
const RECENT: usize = 16;

/// Types with more fields than this are not grouped: the pair counts would grow with the square.
const FIELDS_MAX: usize = 1500;

/// No field at this offset.
const NONE: u16 = u16::MAX;

/// Pair counts of a type's fields.
#[derive(Clone, Debug)]
pub struct CoUse {
    /// The type.
    pub ty: TypeIndex,
    field_at: Vec<u16>,
    fields: usize,
    /// By the object's owner, and by other CPUs. Objects without an owner: all in the first.
    pairs: [Vec<u32>; 2],
}

/// Whose uses are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The object's owner (or anyone, where objects have no owner).
    Owner = 0,
    /// Other CPUs than the owner.
    Others = 1,
}

impl CoUse {
    /// Empty counts. Fields are the type's leaves, by [`linemate_types::LeafId`].
    #[must_use]
    pub fn new(model: &TypeModel, schema: &Schema, ty: TypeIndex) -> CoUse {
        let mut field_at = Vec::new();
        let mut fields = 0;
        if let Some(about) = schema.get(ty) {
            if let Ok(flat) = FlatType::new(model, about.id) {
                if flat.leaves().len() <= FIELDS_MAX {
                    fields = flat.leaves().len();
                    let hit = |offset| {
                        flat.find(linemate_types::ByteOffset(offset), 1)
                            .map_or(NONE, |h| h.leaf.0 as u16)
                    };
                    field_at = (0..about.size.min(1 << 20)).map(hit).collect();
                }
            }
        }
        CoUse {
            ty,
            field_at,
            fields,
            pairs: [vec![0; fields * fields], vec![0; fields * fields]],
        }
    }

    /// Counts for fields 0 to `fields` - 1 of no type.
    #[cfg(test)]
    pub(crate) fn of_fields(fields: usize) -> CoUse {
        let none = || vec![0; fields * fields];
        CoUse {
            ty: TypeIndex(0),
            field_at: Vec::new(),
            fields,
            pairs: [none(), none()],
        }
    }

    /// Adds uses together.
    #[cfg(test)]
    pub(crate) fn add(&mut self, by: By, a: usize, b: usize, count: u32) {
        self.pairs[by as usize][a * self.fields + b] += count;
    }

    /// How often two fields were used together.
    #[must_use]
    pub fn together(&self, by: By, a: usize, b: usize) -> u64 {
        let at = |a: usize, b: usize| {
            self.pairs[by as usize]
                .get(a * self.fields + b)
                .copied()
                .unwrap_or(0)
        };
        u64::from(at(a, b)) + if a == b { 0 } else { u64::from(at(b, a)) }
    }

    /// Adds the counts of another part of the recording.
    pub fn merge(&mut self, other: &CoUse) {
        for (sum, part) in self
            .pairs
            .iter_mut()
            .flatten()
            .zip(other.pairs.iter().flatten())
        {
            *sum = sum.saturating_add(*part);
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Recent {
    time: u64,
    object: GuestAddr,
    field: u16,
}

/// Counts pairs in a stream of accesses.
#[derive(Debug)]
pub struct CoUseCollector<'n> {
    counts: CoUse,
    names: &'n Names,
    /// By CPU: a ring of its latest accesses to objects of the type.
    recent: Vec<([Recent; RECENT], usize)>,
}

const NOTHING: Recent = Recent {
    time: 0,
    object: GuestAddr(0),
    field: NONE,
};

impl<'n> CoUseCollector<'n> {
    pub(crate) fn new(counts: CoUse, names: &'n Names) -> CoUseCollector<'n> {
        CoUseCollector {
            counts,
            names,
            recent: Vec::new(),
        }
    }

    /// A window does not reach over the border of two chunks, so chunks can be counted in any order.
    pub(crate) fn start_chunk(&mut self) {
        self.recent.clear();
    }

    pub(crate) fn access(&mut self, access: &Access, at: &Located) {
        if self.names.subjects()[at.subject.0 as usize].ty != Some(self.counts.ty) {
            return;
        }
        let Some(&field) = self
            .counts
            .field_at
            .get(at.offset as usize)
            .filter(|f| **f != NONE)
        else {
            return;
        };
        let cpu = usize::from(access.cpu.0);
        if cpu >= self.recent.len() {
            self.recent.resize(cpu + 1, ([NOTHING; RECENT], 0));
        }
        let (ring, next) = &mut self.recent[cpu];
        let time = access.time.0;
        let by = if at.owner.is_none_or(|owner| owner == access.cpu) {
            By::Owner
        } else {
            By::Others
        };
        let pairs = &mut self.counts.pairs[by as usize];
        for other in ring.iter().filter(|o| {
            o.field != NONE && o.object == at.object && time.saturating_sub(o.time) <= WINDOW
        }) {
            let pair =
                &mut pairs[usize::from(other.field) * self.counts.fields + usize::from(field)];
            *pair = pair.saturating_add(1);
        }
        ring[*next] = Recent {
            time,
            object: at.object,
            field,
        };
        *next = (*next + 1) % RECENT;
    }

    pub(crate) fn finish(self) -> CoUse {
        self.counts
    }
}
