//! Bases: virtual ones get their offsets, and a base without its virtual bases gets a type of its
//! own.
//!
//! For a virtual base, debug information says how the running program finds it. In an object of
//! exactly one type its offset is known: after everything else, in declaration order of the bases
//! (Itanium C++ ABI, 2.4). And a base whose last bytes the derived class uses, or whose virtual
//! bases are elsewhere, holds less than an object of its type: then its member gets a type with the
//! same name and members, but shorter, so that no two members share bytes. An empty base holds
//! nothing: its `sizeof` of a byte is for objects of its own.

use std::collections::{BTreeMap, HashMap, HashSet};

use linemate_types::{BitOffset, Composite, Member, MemberRole, Name, Type, TypeId};

/// How deep types may be nested here.
const DEPTH_MAX: u32 = 32;
/// How many bases a class may have, directly and indirectly.
const BASES_MAX: usize = 1 << 10;

/// The direct virtual bases of classes, in declaration order.
pub(crate) type VirtualBases = HashMap<TypeId, Vec<TypeId>>;

/// A virtual base, and its offset.
struct Placed {
    base: TypeId,
    start: u64,
    size: u64,
}

/// Places the virtual bases of all classes in `types`, and shortens bases; returns how many virtual
/// bases could not be placed.
pub(crate) fn place(types: &mut Vec<Type>, told: &VirtualBases) -> usize {
    let mut left_out = 0;
    let mut placed: BTreeMap<TypeId, Vec<Placed>> = BTreeMap::new();
    let mut known = HashMap::new();
    // All offsets first: shortening a base makes types, and an offset is computed from whole ones.
    for (id, t) in (0u32..).map(TypeId).zip(types.iter()) {
        if told.is_empty() || !matches!(t, Type::Composite(_)) {
            continue;
        }
        let all = virtual_bases(types, told, id);
        match places(types, id, &all, &mut known) {
            Some(members) if !members.is_empty() => {
                placed.insert(id, members);
            }
            Some(_) => {}
            None => left_out += all.len(),
        }
    }
    let mut shortened = Shortened::default();
    shortened.bases(types, &placed);
    for (id, members) in placed {
        for Placed { base, start, size } in members {
            let type_id = shortened.shorter(types, base, size);
            let member = Member {
                role: MemberRole::VirtualBase,
                ..Member::new(Name::default(), type_id, BitOffset(start * 8))
            };
            if let Some(Type::Composite(composite)) = types.get_mut(id.0 as usize) {
                composite.members.push(member);
            }
        }
    }
    left_out
}

/// The class that `id` refers to.
fn composite(types: &[Type], id: TypeId) -> Option<&Composite> {
    let mut id = id;
    for _ in 0..DEPTH_MAX {
        match types.get(id.0 as usize)? {
            Type::Composite(composite) => return Some(composite),
            Type::Typedef { target, .. } | Type::Qualified { target, .. } => id = *target,
            _ => return None,
        }
    }
    None
}

/// The virtual bases of `id` and of all its bases, each once, in the order of the inheritance
/// graph.
fn virtual_bases(types: &[Type], told: &VirtualBases, id: TypeId) -> Vec<TypeId> {
    let mut all = Vec::new();
    let mut seen = HashSet::new();
    let mut open = vec![(id, false)];
    while let Some((id, is_virtual)) = open.pop() {
        // Also ends if a broken file has a class that is its own base.
        if seen.len() > BASES_MAX || !seen.insert(id) {
            continue;
        }
        if is_virtual {
            all.push(id);
        }
        // The first base is taken next, so it is pushed last.
        if let Some(composite) = composite(types, id) {
            let bases = composite.members.iter().rev();
            let bases = bases.filter(|m| m.role == MemberRole::Base);
            open.extend(bases.map(|member| (member.type_id, false)));
        }
        let virtuals = told.get(&id).into_iter().flatten().rev();
        open.extend(virtuals.map(|base| (*base, true)));
    }
    all
}

/// A type without virtual bases: where its last member ends, and its alignment.
#[derive(Clone, Copy)]
struct OwnExtent {
    end: u64,
    alignment: u64,
}

type Known = HashMap<TypeId, OwnExtent>;

/// Each type is visited once; recursion: at most `depth`.
fn own(types: &[Type], id: TypeId, known: &mut Known, depth: u32) -> OwnExtent {
    let mut found = OwnExtent {
        end: 0,
        alignment: 1,
    };
    if let Some(known) = known.get(&id) {
        return *known;
    }
    let (Some(composite), true) = (composite(types, id), depth > 0) else {
        return found;
    };
    found.alignment = found.alignment.max(u64::from(composite.alignment));
    for member in &composite.members {
        let start = member.offset.0 / 8;
        let inner = match member.role {
            MemberRole::Field => extent(types, member.type_id, known, depth - 1),
            // A base without its virtual bases: the derived class places those.
            _ => own(types, member.type_id, known, depth - 1),
        };
        let end = match member.bits {
            // The byte where the bit-field ends, not where its storage unit does: the next member
            // may start there.
            Some(bits) => (member.offset.0 + u64::from(bits)).div_ceil(8),
            None => start.saturating_add(inner.end),
        };
        found.end = found.end.max(end);
        found.alignment = found.alignment.max(inner.alignment);
    }
    known.insert(id, found);
    found
}

/// Size and alignment of a member's type. Recursion: at most `depth`.
fn extent(types: &[Type], id: TypeId, known: &mut Known, depth: u32) -> OwnExtent {
    let scalar = |size: u32| OwnExtent {
        end: u64::from(size),
        // On x86-64 no scalar needs more than 16.
        alignment: u64::from(size).clamp(1, 16),
    };
    if depth == 0 {
        return scalar(0);
    }
    match types.get(id.0 as usize) {
        Some(Type::Int { size, .. } | Type::Float { size, .. } | Type::Enum { size, .. }) => {
            scalar(*size)
        }
        Some(Type::Pointer { .. }) => scalar(8),
        Some(Type::Typedef { target, .. } | Type::Qualified { target, .. }) => {
            extent(types, *target, known, depth - 1)
        }
        Some(Type::Array { element, count, .. }) => {
            let element = extent(types, *element, known, depth - 1);
            OwnExtent {
                end: element.end.saturating_mul(u64::from(*count)),
                ..element
            }
        }
        Some(Type::Composite(composite)) => OwnExtent {
            end: u64::from(composite.size),
            // DWARF has a struct's alignment only if the source requested it; otherwise it is that
            // of its members.
            alignment: own(types, id, known, depth - 1).alignment,
        },
        _ => scalar(0),
    }
}

/// The offsets of the virtual bases `all` of `id`. `None` if the class with them does not end where
/// it should.
fn places(types: &[Type], id: TypeId, all: &[TypeId], known: &mut Known) -> Option<Vec<Placed>> {
    let mut placed = Vec::new();
    if all.is_empty() {
        return Some(placed);
    }
    let class = composite(types, id)?;
    let OwnExtent {
        mut end,
        mut alignment,
    } = own(types, id, known, DEPTH_MAX);
    for base in all {
        let inner = own(types, *base, known, DEPTH_MAX);
        let start = end.checked_next_multiple_of(inner.alignment)?;
        end = start.checked_add(inner.end)?;
        alignment = alignment.max(inner.alignment);
        placed.push(Placed {
            base: *base,
            start,
            size: inner.end,
        });
    }
    // The class's own size is the proof: a wrong offset would be worse than none.
    let is_filled = end.checked_next_multiple_of(alignment)? == u64::from(class.size);
    is_filled.then_some(placed)
}

/// The shorter types that were made.
#[derive(Default)]
struct Shortened {
    known: HashMap<(TypeId, u64), TypeId>,
    lengths: HashMap<TypeId, OwnExtent>,
}

impl Shortened {
    /// Gives bases that extend into the next member a shorter type.
    fn bases(&mut self, types: &mut Vec<Type>, placed: &BTreeMap<TypeId, Vec<Placed>>) {
        for (index, id) in (0..types.len()).zip((0u32..).map(TypeId)) {
            let Type::Composite(composite) = &types[index] else {
                continue;
            };
            if composite.members.iter().all(|m| m.role != MemberRole::Base) {
                continue;
            }
            let mut starts: Vec<u64> = composite.members.iter().map(|m| m.offset.0 / 8).collect();
            starts.extend(placed.get(&id).into_iter().flatten().map(|p| p.start));
            starts.sort_unstable();
            let mut shorter = Vec::new();
            for (number, member) in composite.members.iter().enumerate() {
                let start = member.offset.0 / 8;
                // The next member that starts later: an empty base shares its offset with others.
                let next = starts.partition_point(|other| *other <= start);
                let room = match own(types, member.type_id, &mut self.lengths, DEPTH_MAX).end {
                    0 => Some(0),
                    _ => starts.get(next).map(|next| next - start),
                };
                if let (MemberRole::Base, Some(room)) = (member.role, room) {
                    shorter.push((number, member.type_id, room));
                }
            }
            let mut empty = Vec::new();
            for (number, base, room) in shorter {
                let type_id = self.shorter(types, base, room);
                if room == 0 {
                    empty.push(type_id);
                }
                if let Type::Composite(composite) = &mut types[index] {
                    composite.members[number].type_id = type_id;
                }
            }
            // Before what is at their offset, wherever they are declared: else the bytes of that
            // look like a hole.
            if let Type::Composite(composite) = &mut types[index] {
                let members = &mut composite.members;
                members
                    .sort_by_key(|m| !(m.role == MemberRole::Base && empty.contains(&m.type_id)));
            }
        }
    }

    /// The type `id`, or if it is longer than `room`, a copy without what does not fit.
    fn shorter(&mut self, types: &mut Vec<Type>, id: TypeId, room: u64) -> TypeId {
        let Some(whole) = composite(types, id) else {
            return id;
        };
        let Some(size) = u32::try_from(room).ok().filter(|room| *room < whole.size) else {
            return id;
        };
        // Each length once, or every class with that base would have a type of its own.
        if let Some(known) = self.known.get(&(id, room)) {
            return *known;
        }
        let mut short = whole.clone();
        short.size = size;
        short.is_part = true;
        let lengths = &mut self.lengths;
        short.members.retain(|member| {
            let length = match member.bits {
                Some(bits) => u64::from(bits),
                None => extent(types, member.type_id, lengths, DEPTH_MAX).end * 8,
            };
            let fits = member.offset.0.saturating_add(length) <= u64::from(size) * 8;
            // Its offset is that in an object of exactly the base's type, which this is not.
            fits && member.role != MemberRole::VirtualBase
        });
        let Ok(number) = u32::try_from(types.len()) else {
            return id;
        };
        types.push(Type::Composite(short));
        self.known.insert((id, room), TypeId(number));
        TypeId(number)
    }
}
