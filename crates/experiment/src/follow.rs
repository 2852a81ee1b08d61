//! Which array a pointer leads to, by the order of accesses.
//!
//! A recording has addresses and no values, and its memory images hold what distinguishes slabs and
//! pages, not the heap: they would be larger than the recording. But to follow a pointer *is* two
//! accesses, one after the other: the pointer is loaded, then an element of what it leads to. So
//! the array of each owner (an object of the pointer's type) is the one that is used directly after
//! loads of that pointer, and whose uses come directly after no other owner's as often:
//!
//! * A load of the pointer is followed when one of the CPU's next `REACH` accesses is to a heap
//!   object without a type, of the size of an element, at a multiple of it. The first such access
//!   ends the search.
//! * It counts only if no other pointer of that type to things of that size waits for its use:
//!   where `tg->se` and `tg->cfs_rq` are loaded before either is followed, it is not known which is
//!   which. One use elsewhere that is not mixed decides for all.
//! * An owner's array is found when each is the other's most frequent, without a tie.
//!
//! Addresses identify objects: an array that is freed and whose place is used again counts as the
//! same one.

use linemate_attribution::{Analysis, Bucket, FieldRef, SubjectId};
use linemate_layout::nesting::{embeds, enclosing};
use linemate_layout::pointer::PointerChase;
use linemate_recording::{Access, AccessKind, Accesses, GuestAddr};
use linemate_types::{ByteOffset, ByteSize, TypeId, TypeModel};
use rustc_hash::FxHashMap;

/// How many accesses after a pointer's load its array is searched for: between them are, at most,
/// an index and a spill.
const REACH: Accesses = Accesses(8);

/// What pointers lead to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrays {
    /// How many objects' pointers were loaded.
    pub owners: usize,
    /// The first bytes of their arrays, with the subject that their accesses count for; ascending.
    pub found: Vec<(GuestAddr, SubjectId)>,
}

/// A pointer at a place of a subject's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pointer {
    chase: usize,
    /// Bytes from the start of its owner.
    into: ByteOffset,
}

/// Where the pointers are, by subject and offset; and which subjects can be arrays.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pointers: FxHashMap<FieldRef, Vec<Pointer>>,
    arrays: Vec<bool>,
    /// By chase: where the pointer itself is, and bytes of an element.
    chases: Vec<(ByteOffset, ByteSize)>,
}

impl Places {
    pub(crate) fn new(
        chases: &[PointerChase],
        analysis: &Analysis<'_>,
        types: &[Option<TypeId>],
    ) -> Places {
        let model = analysis.model();
        let mut places = Places {
            chases: chases.iter().map(|c| (c.field.offset, c.element)).collect(),
            ..Places::default()
        };
        if chases.is_empty() {
            return places;
        }
        places.arrays = analysis
            .subjects()
            .iter()
            // An array of pointers or of numbers has no type of its own in the kernel, and no
            // function receives it as a struct.
            .map(|s| s.ty.is_none() && matches!(s.bucket, Bucket::HeapSite | Bucket::HeapCache))
            .collect();
        for (subject, id) in (0u32..).map(SubjectId).zip(types) {
            let Some(id) = *id else { continue };
            for (number, chase) in chases.iter().enumerate() {
                if embeds(model, id, &chase.field.types) {
                    places.add(model, subject, id, number, chase);
                }
            }
        }
        places
    }

    fn add(
        &mut self,
        model: &TypeModel,
        subject: SubjectId,
        id: TypeId,
        number: usize,
        c: &PointerChase,
    ) {
        let size = model.size_of(id).unwrap_or(0);
        for offset in 0..u32::try_from(size).unwrap_or(u32::MAX) {
            let wanted = |t| c.field.types.contains(&t);
            let field = FieldRef { subject, offset };
            let Some((_, into)) = enclosing(model, id, field.byte(), &wanted) else {
                continue;
            };
            // Rivals too: a load of another pointer to the same kind of thing makes the next use
            // ambiguous.
            if into == c.field.offset || c.rivals.contains(&into) {
                let pointer = Pointer {
                    chase: number,
                    into,
                };
                let here = self.pointers.entry(field).or_default();
                here.push(pointer);
            }
        }
    }
}

/// A chase, and an object that has its pointer.
type Owner = (usize, GuestAddr);

/// How often which array was used after an owner's pointer.
#[derive(Debug, Default)]
pub(crate) struct Votes {
    /// (chase, owner) to (array, its subject) to how often.
    uses: FxHashMap<Owner, FxHashMap<(GuestAddr, SubjectId), Accesses>>,
    /// (chase, owner) of which the pointer was loaded.
    owners: rustc_hash::FxHashSet<Owner>,
}

impl Votes {
    pub(crate) fn merge(&mut self, other: Votes) {
        self.owners.extend(other.owners);
        for (owner, arrays) in other.uses {
            let mine = self.uses.entry(owner).or_default();
            for (array, count) in arrays {
                *mine.entry(array).or_default() += count;
            }
        }
    }

    /// Owners and arrays that are each other's most frequent.
    pub(crate) fn mutual_arrays(&self, chases: usize) -> Vec<Arrays> {
        let mut of_array: FxHashMap<(GuestAddr, SubjectId), FxHashMap<Owner, Accesses>> =
            FxHashMap::default();
        for (owner, arrays) in &self.uses {
            for (array, count) in arrays {
                of_array.entry(*array).or_default().insert(*owner, *count);
            }
        }
        let mut found = vec![Arrays::default(); chases];
        for (chase, _) in &self.owners {
            found[*chase].owners += 1;
        }
        for (owner, arrays) in &self.uses {
            let Some(array) = most(arrays) else { continue };
            if of_array.get(&array).and_then(most) == Some(*owner) {
                found[owner.0].found.push(array);
            }
        }
        for arrays in &mut found {
            arrays.found.sort_unstable();
        }
        found
    }
}

/// What comes up most, if it does so alone.
fn most<K: Copy + PartialEq>(counts: &FxHashMap<K, Accesses>) -> Option<K> {
    let (key, top) = counts.iter().max_by_key(|(_, count)| **count)?;
    // A tie decides nothing: tables have no order that a winner could be taken by.
    let alone = counts.values().filter(|count| *count == top).count() == 1;
    alone.then_some(*key)
}

/// A pointer that a CPU has loaded.
#[derive(Clone, Copy, Debug)]
struct Loaded {
    pointer: Pointer,
    owner: GuestAddr,
    at: Accesses,
}

/// Follows one CPU after the other through a chunk.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    /// By CPU: its accesses so far, and pointers loaded not long ago.
    cpus: Vec<(Accesses, Vec<Loaded>)>,
    pub(crate) votes: Votes,
}

impl Follower {
    /// Forgets what was loaded: another chunk need not continue where the last one ended.
    pub(crate) fn restart(&mut self, cpus: usize) {
        self.cpus.clear();
        self.cpus.resize_with(cpus, Default::default);
    }

    /// The next access, and where it goes.
    pub(crate) fn access(&mut self, places: &Places, access: &Access, field: FieldRef) {
        if places.chases.is_empty() {
            return;
        }
        let Some((now, loaded)) = self.cpus.get_mut(usize::from(access.cpu.0)) else {
            return;
        };
        *now += Accesses::ONE;
        let now = *now;
        if let Some(pointers) = places.pointers.get(&field) {
            // A part of a pointer, or a store to it, leads nowhere.
            if access.kind == AccessKind::Load && access.size == 8 {
                loaded.retain(|l| now - l.at <= REACH);
                self.votes.load(places, pointers, access.addr, now, loaded);
            }
        } else if !loaded.is_empty() && places.arrays.get(field.subject.index()) == Some(&true) {
            loaded.retain(|l| now - l.at <= REACH);
            self.votes.follow(places, access, field, loaded);
            // The first use ends the search, also of pointers that it was not counted for: what
            // comes next is more likely its successor.
            loaded.clear();
        }
    }
}

impl Votes {
    /// Pointers were loaded from `addr`.
    fn load(
        &mut self,
        places: &Places,
        pointers: &[Pointer],
        addr: GuestAddr,
        now: Accesses,
        loaded: &mut Vec<Loaded>,
    ) {
        for pointer in pointers {
            let owner = addr.wrapping_sub(pointer.into);
            // Loaded once more, it is still one pointer.
            loaded.retain(|l| (l.owner, l.pointer) != (owner, *pointer));
            if pointer.into == places.chases[pointer.chase].0 {
                self.owners.insert((pointer.chase, owner));
            }
            loaded.push(Loaded {
                pointer: *pointer,
                owner,
                at: now,
            });
        }
    }

    /// An object that can be an array was accessed after `loaded`.
    fn follow(&mut self, places: &Places, access: &Access, field: FieldRef, loaded: &[Loaded]) {
        let offset = field.byte();
        let array = access.addr.wrapping_sub(offset);
        for (chase, (pointer, element)) in places.chases.iter().enumerate() {
            if ByteSize::from(access.size) != *element || offset.0 % element.0 != 0 {
                continue;
            }
            let mut of_chase = loaded.iter().filter(|l| l.pointer.chase == chase);
            let (Some(one), None) = (of_chase.next(), of_chase.next()) else {
                continue;
            };
            if one.pointer.into == *pointer {
                let uses = self.uses.entry((chase, one.owner)).or_default();
                *uses.entry((array, field.subject)).or_default() += Accesses::ONE;
            }
        }
    }
}
