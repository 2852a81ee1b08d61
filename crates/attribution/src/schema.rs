//! The types of a recording in the form that attribution asks for: what lies at an offset of a type, whether
//! one type lies inside another at an offset, and which types embed a given one.
//!
//! It does not read BTF itself (`crate::btf` fills it from the types crate, tests by hand), it prints no layouts, and
//! it knows structs and unions only: a scalar is a size.
//!
//! All walks over types are bounded by [`MAX_DEPTH`], so a hostile or cyclic schema gives a short answer, not a hang.

use rustc_hash::FxHashMap;

/// The deepest nesting that is followed. The kernel's deepest struct nests 12 levels.
pub const MAX_DEPTH: usize = 24;

/// A struct or union of the schema. Types of the same kind, name and size are one type: BTF keeps variants of a
/// struct that differ only in what a member points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeIndex(pub u32);

/// What a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A number, pointer, enum or anything else without members.
    Scalar,
    /// A struct or union.
    Aggregate(TypeIndex),
    /// An array; zero elements: a flexible array.
    Array {
        /// What each element is.
        element: Box<Shape>,
        /// Bytes from one element to the next.
        element_size: u64,
        /// How many.
        count: u64,
    },
}

/// A member of a struct or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name; empty for an anonymous struct or union.
    pub name: String,
    /// Bytes from the start of the type. For a bit-field: of the byte that holds its first bit.
    pub offset: u64,
    /// Bytes. For a bit-field: of the bytes that its bits touch.
    pub size: u64,
    /// Whether it is a bit-field; several can share a byte, the first named one stands for all.
    pub bitfield: bool,
    /// What it is.
    pub shape: Shape,
}

/// A struct or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// Its tag; empty for an anonymous one.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Whether the members share their place.
    pub union: bool,
    /// In the order of declaration.
    pub members: Vec<Member>,
}

/// The innermost member at an offset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Leaf {
    /// Offset from the start of the outermost type.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// The path from the outermost type, such as `cfs.avg.load_avg` or `pri_to_cpu[0].count`.
    /// Bytes that belong to no member: `(padding)`.
    pub path: String,
}

/// The name of bytes between members.
pub const PADDING: &str = "(padding)";

/// All types.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    types: Vec<Type>,
    by_name: FxHashMap<String, Vec<TypeIndex>>,
    embedders: Vec<Vec<(TypeIndex, u64)>>,
}

impl Schema {
    /// Builds a schema of `types`; a [`TypeIndex`] is an index into it. Aggregates that point outside are treated as scalars.
    #[must_use]
    pub fn new(types: Vec<Type>) -> Schema {
        let mut by_name: FxHashMap<String, Vec<TypeIndex>> = FxHashMap::default();
        let mut embedders = vec![Vec::new(); types.len()];
        for (i, ty) in types.iter().enumerate() {
            let index = TypeIndex(u32::try_from(i).unwrap_or(u32::MAX));
            if !ty.name.is_empty() {
                by_name.entry(ty.name.clone()).or_default().push(index);
            }
            for member in &ty.members {
                if let Some((inner, _)) = aggregate_of(&member.shape)
                    && let Some(list) = embedders.get_mut(inner.0 as usize)
                {
                    list.push((index, member.offset));
                }
            }
        }
        Schema { types, by_name, embedders }
    }

    /// The type, if there is one.
    #[must_use]
    pub fn get(&self, index: TypeIndex) -> Option<&Type> {
        self.types.get(index.0 as usize)
    }

    /// Its size in bytes, 0 for an unknown type.
    #[must_use]
    pub fn size(&self, index: TypeIndex) -> u64 {
        self.get(index).map_or(0, |t| t.size)
    }

    /// Its name, `(anonymous)` for one without.
    #[must_use]
    pub fn name(&self, index: TypeIndex) -> &str {
        match self.get(index) {
            Some(t) if !t.name.is_empty() => &t.name,
            _ => "(anonymous)",
        }
    }

    /// The types with this name, largest first (a name can have several variants).
    #[must_use]
    pub fn named(&self, name: &str) -> Vec<TypeIndex> {
        let mut found = self.by_name.get(name).cloned().unwrap_or_default();
        found.sort_by_key(|t| (std::cmp::Reverse(self.size(*t)), *t));
        found
    }

    /// All types with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (TypeIndex, &Type)> {
        self.types.iter().enumerate().map(|(i, t)| (TypeIndex(i as u32), t))
    }

    /// In how many places other types embed this one directly.
    #[must_use]
    pub fn embedder_count(&self, index: TypeIndex) -> usize {
        self.embedders.get(index.0 as usize).map_or(0, Vec::len)
    }

    /// Whether an `inner` lies inside (or is) an `outer` at `offset`.
    #[must_use]
    pub fn contains(&self, outer: TypeIndex, inner: TypeIndex, offset: u64) -> bool {
        self.contains_within(outer, inner, offset, MAX_DEPTH)
    }

    fn contains_within(&self, outer: TypeIndex, inner: TypeIndex, offset: u64, depth: usize) -> bool {
        if outer == inner && offset == 0 {
            return true;
        }
        let (Some(ty), Some(depth)) = (self.get(outer), depth.checked_sub(1)) else { return false };
        ty.members.iter().any(|m| match offset.checked_sub(m.offset) {
            Some(rest) if rest < m.size || flexible(m) => {
                step_into(&m.shape, rest).is_some_and(|(t, o)| self.contains_within(t, inner, o, depth))
            }
            _ => false,
        })
    }

    /// The types of exactly `size` bytes that embed `inner` at `offset`, at any depth, sorted.
    #[must_use]
    pub fn containers(&self, inner: TypeIndex, offset: u64, size: u64) -> Vec<TypeIndex> {
        let mut found = Vec::new();
        // Embedding is a DAG of a few hundred steps per type; the budget only stops a hostile schema.
        let mut budget = 20_000usize;
        let mut open = vec![(inner, offset, 0usize)];
        while let Some((ty, rest, depth)) = open.pop() {
            let Some(left) = budget.checked_sub(1) else { break };
            budget = left;
            if rest == 0 && ty != inner && self.size(ty) == size && !self.name(ty).starts_with('(') {
                found.push(ty);
            }
            if depth < MAX_DEPTH {
                for &(outer, at) in self.embedders.get(ty.0 as usize).map_or(&[][..], |v| v) {
                    if at <= rest && self.size(outer) <= size {
                        open.push((outer, rest - at, depth + 1));
                    }
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Where `inner` lies inside `outer`: offsets and paths of all its places, arrays by their first element, in order of offset.
    #[must_use]
    pub fn places(&self, outer: TypeIndex, inner: TypeIndex) -> Vec<(u64, String)> {
        let mut found = Vec::new();
        self.places_within(outer, inner, 0, "", MAX_DEPTH, &mut found);
        found.sort();
        found.dedup();
        found
    }

    fn places_within(
        &self,
        outer: TypeIndex,
        inner: TypeIndex,
        base: u64,
        path: &str,
        depth: usize,
        found: &mut Vec<(u64, String)>,
    ) {
        let (Some(ty), Some(depth)) = (self.get(outer), depth.checked_sub(1)) else { return };
        if found.len() > 64 {
            return;
        }
        for member in &ty.members {
            let Some((t, is_array)) = aggregate_of(&member.shape) else { continue };
            let mut here = join(path, &member.name);
            if is_array {
                here.push_str("[0]");
            }
            let at = base.saturating_add(member.offset);
            if t == inner {
                found.push((at, here));
            } else {
                self.places_within(t, inner, at, &here, depth, found);
            }
        }
    }

    /// The innermost member of `ty` at `offset`. Past the end of a type without a flexible array there is none.
    #[must_use]
    pub fn leaf(&self, ty: TypeIndex, offset: u64) -> Option<Leaf> {
        let mut leaf = Leaf { offset: 0, size: self.size(ty), path: String::new() };
        let mut shape = Shape::Aggregate(ty);
        let mut rest = offset;
        for _ in 0..MAX_DEPTH {
            match shape {
                Shape::Scalar => return Some(leaf),
                Shape::Aggregate(index) => {
                    let ty = self.get(index)?;
                    let Some(member) = member_at(ty, rest) else {
                        return padding(ty, rest, &leaf);
                    };
                    leaf.path = join(&leaf.path, &member.name);
                    leaf.offset += member.offset;
                    leaf.size = member.size;
                    rest -= member.offset;
                    shape = member.shape.clone();
                }
                Shape::Array { element, element_size, count } => {
                    // An array of scalars is one field; an array of structs has a field per element.
                    if !holds_aggregate(&element) {
                        return Some(leaf);
                    }
                    let index = rest.checked_div(element_size)?;
                    if count != 0 && index >= count {
                        return None;
                    }
                    leaf.path.push_str(&format!("[{index}]"));
                    leaf.offset = leaf.offset.checked_add(index.checked_mul(element_size)?)?;
                    leaf.size = element_size;
                    rest -= index * element_size;
                    shape = *element;
                }
            }
        }
        Some(leaf)
    }

    /// Whether the type ends in a flexible array, so that an object of it can be longer than its size.
    #[must_use]
    pub fn is_flexible(&self, ty: TypeIndex) -> bool {
        self.get(ty).is_some_and(|t| !t.union && t.members.last().is_some_and(flexible))
    }
}

fn join(path: &str, name: &str) -> String {
    match (path.is_empty(), name.is_empty()) {
        (true, _) => name.to_owned(),
        (_, true) => path.to_owned(),
        _ => format!("{path}.{name}"),
    }
}

fn flexible(member: &Member) -> bool {
    matches!(member.shape, Shape::Array { count: 0, element_size: 1.., .. })
}

fn holds_aggregate(shape: &Shape) -> bool {
    aggregate_of(shape).is_some()
}

/// The struct or union that a shape is or is an array of.
fn aggregate_of(shape: &Shape) -> Option<(TypeIndex, bool)> {
    let mut shape = shape;
    let mut is_array = false;
    for _ in 0..MAX_DEPTH {
        match shape {
            Shape::Scalar => return None,
            Shape::Aggregate(t) => return Some((*t, is_array)),
            Shape::Array { element, .. } => {
                is_array = true;
                shape = element;
            }
        }
    }
    None
}

/// The aggregate that `rest` bytes into a shape lie in, and the offset inside it.
fn step_into(shape: &Shape, rest: u64) -> Option<(TypeIndex, u64)> {
    let mut shape = shape;
    let mut rest = rest;
    for _ in 0..MAX_DEPTH {
        match shape {
            Shape::Scalar => return None,
            Shape::Aggregate(t) => return Some((*t, rest)),
            Shape::Array { element, element_size, .. } => {
                rest = rest.checked_rem(*element_size)?;
                shape = element;
            }
        }
    }
    None
}

/// The member that holds `offset`: the first in order of declaration (for a union: its first member that
/// is long enough); a flexible array holds everything behind it.
fn member_at(ty: &Type, offset: u64) -> Option<&Member> {
    ty.members
        .iter()
        .find(|m| m.offset <= offset && offset - m.offset < m.size)
        .or_else(|| ty.members.last().filter(|m| !ty.union && flexible(m) && m.offset <= offset))
}

/// The hole between members around `offset`.
fn padding(ty: &Type, offset: u64, outer: &Leaf) -> Option<Leaf> {
    if offset >= ty.size {
        return None;
    }
    let start = ty.members.iter().map(|m| m.offset + m.size).filter(|&end| end <= offset).max().unwrap_or(0);
    let end = ty.members.iter().map(|m| m.offset).filter(|&o| o > offset).min().unwrap_or(ty.size);
    Some(Leaf { offset: outer.offset + start, size: end.saturating_sub(start), path: join(&outer.path, PADDING) })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A scalar member.
    pub(crate) fn scalar(name: &str, offset: u64, size: u64) -> Member {
        Member { name: name.into(), offset, size, bitfield: false, shape: Shape::Scalar }
    }

    /// A struct member.
    pub(crate) fn nested(name: &str, offset: u64, size: u64, ty: u32) -> Member {
        Member { name: name.into(), offset, size, bitfield: false, shape: Shape::Aggregate(TypeIndex(ty)) }
    }

    /// An array of structs.
    pub(crate) fn array(name: &str, offset: u64, element_size: u64, count: u64, ty: u32) -> Member {
        Member {
            name: name.into(),
            offset,
            size: element_size * count,
            bitfield: false,
            shape: Shape::Array { element: Box::new(Shape::Aggregate(TypeIndex(ty))), element_size, count },
        }
    }

    /// A type.
    pub(crate) fn ty(name: &str, size: u64, members: Vec<Member>) -> Type {
        Type { name: name.into(), size, union: false, members }
    }

    /// 0 list_head, 1 entity (list_head at 16), 2 task (entity at 64, lock at 200), 3 vector, 4 pri (vector[3] at 8), 5 flex.
    pub(crate) fn sample() -> Schema {
        Schema::new(vec![
            ty("list_head", 16, vec![scalar("next", 0, 8), scalar("prev", 8, 8)]),
            ty("entity", 64, vec![scalar("load", 0, 8), nested("node", 16, 16, 0), scalar("on_rq", 40, 4)]),
            ty("task", 256, vec![scalar("state", 0, 4), nested("se", 64, 64, 1), scalar("lock", 200, 4)]),
            ty("vector", 16, vec![scalar("count", 0, 4), scalar("mask", 8, 8)]),
            ty("pri", 64, vec![scalar("lock", 0, 4), array("vec", 8, 16, 3, 3), nested("", 56, 8, 6)]),
            ty("flex", 8, vec![scalar("n", 0, 8), array("items", 8, 16, 0, 3)]),
            Type { name: String::new(), size: 8, union: true, members: vec![scalar("a", 0, 4), scalar("b", 0, 8)] },
        ])
    }

    fn path(ty: u32, offset: u64) -> Option<(String, u64, u64)> {
        sample().leaf(TypeIndex(ty), offset).map(|l| (l.path, l.offset, l.size))
    }

    #[test]
    fn leaves_are_found_by_offset() {
        assert_eq!(path(2, 0), Some(("state".into(), 0, 4)));
        assert_eq!(path(2, 88), Some(("se.node.prev".into(), 88, 8)));
        assert_eq!(path(2, 8), Some((PADDING.into(), 4, 60)));
        assert_eq!(path(2, 72), Some(("se.(padding)".into(), 72, 8)));
        assert_eq!(path(2, 256), None);
        assert_eq!(path(4, 26), Some(("vec[1].count".into(), 24, 4)));
        assert_eq!(path(4, 58), Some(("a".into(), 56, 4)), "anonymous members leave no dot");
        assert_eq!(path(4, 61), Some(("b".into(), 56, 8)), "a union's first member that is long enough");
        assert_eq!(path(5, 8 + 16 * 7 + 8), Some(("items[7].mask".into(), 128, 8)), "a flexible array has no end");
    }

    #[test]
    fn containment_is_by_offset() {
        let s = sample();
        assert!(s.contains(TypeIndex(2), TypeIndex(1), 64));
        assert!(s.contains(TypeIndex(2), TypeIndex(0), 80));
        assert!(!s.contains(TypeIndex(2), TypeIndex(1), 0));
        assert!(!s.contains(TypeIndex(1), TypeIndex(2), 0));
        assert!(s.contains(TypeIndex(4), TypeIndex(3), 8 + 32));
        assert!(!s.contains(TypeIndex(4), TypeIndex(3), 8 + 48), "past the last element");
        assert!(s.contains(TypeIndex(5), TypeIndex(3), 8 + 160), "a flexible array has no end");
    }

    #[test]
    fn containers_need_the_exact_size() {
        let s = sample();
        assert_eq!(s.containers(TypeIndex(0), 80, 256), vec![TypeIndex(2)]);
        assert_eq!(s.containers(TypeIndex(0), 80, 255), vec![]);
        assert_eq!(s.containers(TypeIndex(0), 16, 64), vec![TypeIndex(1)]);
        assert_eq!(s.places(TypeIndex(2), TypeIndex(0)), vec![(80, "se.node".into())]);
    }

    #[test]
    fn a_cyclic_schema_ends() {
        let s = Schema::new(vec![ty("a", 8, vec![nested("b", 0, 8, 1)]), ty("b", 8, vec![nested("a", 0, 8, 0)])]);
        assert!(s.leaf(TypeIndex(0), 3).is_some());
        assert!(!s.contains(TypeIndex(0), TypeIndex(7), 0));
        assert_eq!(s.containers(TypeIndex(0), 0, 8), vec![TypeIndex(1)]);
        assert!(s.places(TypeIndex(0), TypeIndex(0)).len() <= 64);
    }
}
