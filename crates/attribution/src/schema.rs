//! The types of a recording as attribution needs them: whether one type is inside another at an
//! offset, and which types embed a given one.
//!
//! It knows only structs and unions. Field paths belong to the types crate
//! ([`linemate_types::FlatType`]): counting goes by offset, and a path is looked up when it is
//! printed.
//!
//! All walks over types are bounded by [`MAX_DEPTH`], so a hostile or cyclic schema gives a short
//! answer, not a hang.

use std::ops::RangeInclusive;

use linemate_types::{Composite, CompositeKind, Type as ModelType, TypeId, TypeModel};
use rustc_hash::FxHashMap;

/// The deepest nesting that is followed. The kernel's deepest struct nests 12 levels.
pub const MAX_DEPTH: usize = 24;

/// A struct or union of the schema. Types of the same kind, name and size are one type: BTF has
/// variants of a struct that differ only in a member's target.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct TypeIndex(pub u32);

/// What kind of thing a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberShape {
    /// A number, pointer, enum or anything else without members.
    Scalar,
    /// A struct or union.
    Aggregate(TypeIndex),
    /// An array; zero elements: a flexible array.
    Array {
        /// What each element is.
        element: Box<MemberShape>,
        /// Bytes from one element to the next.
        element_size: u64,
        count: u64,
    },
}

/// A member of a struct or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaMember {
    /// Its name; empty for an anonymous struct or union.
    pub name: String,
    /// Bytes from the start of the type. For a bit-field: of the byte with its first bit.
    pub offset: u64,
    /// Bytes. For a bit-field: of the bytes that its bits touch.
    pub size: u64,
    pub shape: MemberShape,
}

/// A struct or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// Its tag, or the name of the typedef that names it; empty if it has neither.
    pub name: String,
    pub size: u64,
    /// Whether the members share their offset.
    pub union: bool,
    /// In the order of declaration.
    pub members: Vec<SchemaMember>,
    /// Its id in the type model it was made from; void for none.
    pub id: TypeId,
}

/// A type inside another one, at some byte of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enclosed {
    pub ty: TypeIndex,
    /// Bytes from the inner type's start to that byte.
    pub offset: u64,
    /// The members from the outer type on: `se`, `avg.load`, `cfs_rq[]` for any element of an
    /// array.
    pub path: String,
}

#[derive(Clone, Debug, Default)]
pub struct Schema {
    types: Vec<Type>,
    by_name: FxHashMap<String, Vec<TypeIndex>>,
    embedders: Vec<Vec<(TypeIndex, u64)>>,
}

impl Schema {
    /// Builds a schema of `types`; a [`TypeIndex`] is an index into it. Aggregates with invalid
    /// indices are treated as scalars.
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
                if let Some((inner, _)) = aggregate_of(&member.shape) {
                    if let Some(list) = embedders.get_mut(inner.0 as usize) {
                        list.push((index, member.offset));
                    }
                }
            }
        }
        Schema {
            types,
            by_name,
            embedders,
        }
    }

    /// All structs and unions of a type model, and which of them each of the model's ids refers to.
    #[must_use]
    pub fn of_model(model: &TypeModel) -> (Schema, FxHashMap<u32, TypeIndex>) {
        let mut numbers: FxHashMap<u32, TypeIndex> = FxHashMap::default();
        let mut known: FxHashMap<(CompositeKind, &str, u32), TypeIndex> = FxHashMap::default();
        let mut kept: Vec<(TypeId, &Composite)> = Vec::new();
        for (id, ty) in model.iter() {
            let ModelType::Composite(composite) = ty else {
                continue;
            };
            let next = TypeIndex(kept.len() as u32);
            let mut keep = || {
                kept.push((id, composite));
                next
            };
            let index = match model.composite_name(id) {
                "" => keep(),
                name => *known
                    // By size as well: two structs of one name and different sizes are versions
                    // from different kernels or files, whose accesses must not be added up.
                    .entry((composite.kind, name, composite.size))
                    .or_insert_with(keep),
            };
            numbers.insert(id.0, index);
        }
        let types = kept
            .iter()
            .map(|(id, c)| convert(model, *id, c, &numbers))
            .collect();
        (Schema::new(types), numbers)
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

    /// Its name, `(anonymous)` for one that has neither tag nor typedef.
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
        self.types
            .iter()
            .enumerate()
            .map(|(i, t)| (TypeIndex(i as u32), t))
    }

    /// At how many places other types embed this one directly.
    #[must_use]
    pub fn embedder_count(&self, index: TypeIndex) -> usize {
        self.embedders.get(index.0 as usize).map_or(0, Vec::len)
    }

    /// Whether an `inner` is inside (or is) an `outer` at `offset`.
    #[must_use]
    pub fn contains(&self, outer: TypeIndex, inner: TypeIndex, offset: u64) -> bool {
        self.contains_within(outer, inner, offset, MAX_DEPTH)
    }

    fn contains_within(
        &self,
        outer: TypeIndex,
        inner: TypeIndex,
        offset: u64,
        depth: usize,
    ) -> bool {
        if outer == inner && offset == 0 {
            return true;
        }
        let (Some(ty), Some(depth)) = (self.get(outer), depth.checked_sub(1)) else {
            return false;
        };
        ty.members
            .iter()
            .any(|m| match offset.checked_sub(m.offset) {
                Some(rest) if rest < m.size || flexible(m) => step_into(&m.shape, rest)
                    .is_some_and(|(t, o)| self.contains_within(t, inner, o, depth)),
                _ => false,
            })
    }

    /// The type that embeds `inner`, if no other does.
    #[must_use]
    pub fn sole_embedder(&self, inner: TypeIndex) -> Option<TypeIndex> {
        let ((first, _), others) = self.embedders.get(inner.0 as usize)?.split_first()?;
        others.iter().all(|(ty, _)| ty == first).then_some(*first)
    }

    /// The types of one of `sizes` that embed `inner` at `offset` (an array counts by its first
    /// element), at any depth, sorted.
    #[must_use]
    pub fn containers(
        &self,
        inner: TypeIndex,
        offset: u64,
        sizes: RangeInclusive<u64>,
    ) -> Vec<TypeIndex> {
        let mut found = Vec::new();
        // Embedding is a DAG of a few hundred steps per type; the budget only stops a hostile
        // schema.
        let mut budget = 20_000usize;
        let mut open = vec![(inner, offset, 0usize)];
        while let Some((ty, rest, depth)) = open.pop() {
            let Some(left) = budget.checked_sub(1) else {
                break;
            };
            budget = left;
            let fits = sizes.contains(&self.size(ty));
            // A struct without a name is not allocated by itself.
            let named = self.get(ty).is_some_and(|t| !t.name.is_empty());
            if rest == 0 && ty != inner && fits && named {
                found.push(ty);
            }
            if depth < MAX_DEPTH {
                for &(outer, at) in self.embedders.get(ty.0 as usize).map_or(&[][..], |v| v) {
                    // Anything larger than every wanted size cannot be inside one of them.
                    if at <= rest && self.size(outer) <= *sizes.end() {
                        open.push((outer, rest - at, depth + 1));
                    }
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The outermost type of `inner` that contains byte `offset` of an `outer` as a member, at any
    /// depth.
    #[must_use]
    pub fn enclosed(&self, outer: TypeIndex, inner: &[TypeIndex], offset: u64) -> Option<Enclosed> {
        self.enclosed_within(outer, inner, offset, "", MAX_DEPTH)
    }

    fn enclosed_within(
        &self,
        outer: TypeIndex,
        inner: &[TypeIndex],
        offset: u64,
        path: &str,
        depth: usize,
    ) -> Option<Enclosed> {
        let (ty, depth) = (self.get(outer)?, depth.checked_sub(1)?);
        ty.members.iter().find_map(|member| {
            let rest = offset.checked_sub(member.offset)?;
            if rest >= member.size && !flexible(member) {
                return None;
            }
            let (ty, offset) = step_into(&member.shape, rest)?;
            let mut path = join(path, &member.name);
            if matches!(member.shape, MemberShape::Array { .. }) {
                path.push_str("[]");
            }
            match inner.contains(&ty) {
                true => Some(Enclosed { ty, offset, path }),
                false => self.enclosed_within(ty, inner, offset, &path, depth),
            }
        })
    }

    /// The struct or union that a member is, or is an array of: by the names from the type on, as
    /// [`Schema::enclosed`] writes them.
    #[must_use]
    pub fn at_path(&self, outer: TypeIndex, path: &str) -> Option<TypeIndex> {
        self.at_path_within(outer, path, MAX_DEPTH)
    }

    fn at_path_within(&self, outer: TypeIndex, path: &str, depth: usize) -> Option<TypeIndex> {
        let (ty, depth) = (self.get(outer)?, depth.checked_sub(1)?);
        ty.members.iter().find_map(|member| {
            let (inner, _) = aggregate_of(&member.shape)?;
            if member.name.is_empty() {
                return self.at_path_within(inner, path, depth);
            }
            let rest = path.strip_prefix(member.name.as_str())?;
            // Any element: all are of one type.
            let element = ["[]", "[0]"].iter().find_map(|any| rest.strip_prefix(any));
            let rest = element.unwrap_or(rest);
            match rest.strip_prefix('.') {
                Some(deeper) => self.at_path_within(inner, deeper, depth),
                None => rest.is_empty().then_some(inner),
            }
        })
    }

    /// Whether the type ends in a flexible array, so that an object of it can be longer than its
    /// size.
    #[must_use]
    pub fn is_flexible(&self, ty: TypeIndex) -> bool {
        self.get(ty)
            .is_some_and(|t| !t.union && t.members.last().is_some_and(flexible))
    }
}

fn convert(
    model: &TypeModel,
    id: TypeId,
    composite: &Composite,
    numbers: &FxHashMap<u32, TypeIndex>,
) -> Type {
    let members = composite.members.iter().map(|m| SchemaMember {
        name: m.name.to_string(),
        offset: m.offset.0 / 8,
        size: m.bits.map_or_else(
            || model.size_of(m.type_id).unwrap_or(0),
            |bits| (m.offset.0 % 8 + u64::from(bits)).div_ceil(8),
        ),
        shape: shape_of(model, m.type_id, numbers, MAX_DEPTH),
    });
    Type {
        name: model.composite_name(id).to_owned(),
        size: composite.size.into(),
        union: composite.kind == CompositeKind::Union,
        members: members.collect(),
        id,
    }
}

/// How the schema represents a type of the model.
pub(crate) fn shape_of(
    model: &TypeModel,
    id: TypeId,
    numbers: &FxHashMap<u32, TypeIndex>,
    depth: usize,
) -> MemberShape {
    let id = model.strip(id);
    match (model.get(id), depth.checked_sub(1)) {
        (Some(ModelType::Composite(_)), _) => numbers
            .get(&id.0)
            .map_or(MemberShape::Scalar, |t| MemberShape::Aggregate(*t)),
        (Some(ModelType::Array { element, count, .. }), Some(depth)) => MemberShape::Array {
            element: Box::new(shape_of(model, *element, numbers, depth)),
            element_size: model.size_of(*element).unwrap_or(0),
            count: (*count).into(),
        },
        _ => MemberShape::Scalar,
    }
}

fn join(path: &str, name: &str) -> String {
    match (path.is_empty(), name.is_empty()) {
        (true, _) => name.to_owned(),
        (_, true) => path.to_owned(),
        _ => format!("{path}.{name}"),
    }
}

fn flexible(member: &SchemaMember) -> bool {
    matches!(
        member.shape,
        MemberShape::Array {
            count: 0,
            element_size: 1..,
            ..
        }
    )
}

/// The struct or union that a shape is or is an array of.
pub(crate) fn aggregate_of(shape: &MemberShape) -> Option<(TypeIndex, bool)> {
    let mut shape = shape;
    let mut is_array = false;
    for _ in 0..MAX_DEPTH {
        match shape {
            MemberShape::Scalar => return None,
            MemberShape::Aggregate(t) => return Some((*t, is_array)),
            MemberShape::Array { element, .. } => {
                is_array = true;
                shape = element;
            }
        }
    }
    None
}

/// The aggregate that contains offset `rest` of a shape, and the offset inside it.
fn step_into(shape: &MemberShape, rest: u64) -> Option<(TypeIndex, u64)> {
    let mut shape = shape;
    let mut rest = rest;
    for _ in 0..MAX_DEPTH {
        match shape {
            MemberShape::Scalar => return None,
            MemberShape::Aggregate(t) => return Some((*t, rest)),
            MemberShape::Array {
                element,
                element_size,
                ..
            } => {
                rest = rest.checked_rem(*element_size)?;
                shape = element;
            }
        }
    }
    None
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn scalar(name: &str, offset: u64, size: u64) -> SchemaMember {
        SchemaMember {
            name: name.into(),
            offset,
            size,
            shape: MemberShape::Scalar,
        }
    }

    pub(crate) fn nested(name: &str, offset: u64, size: u64, ty: u32) -> SchemaMember {
        SchemaMember {
            name: name.into(),
            offset,
            size,
            shape: MemberShape::Aggregate(TypeIndex(ty)),
        }
    }

    /// An array of structs.
    pub(crate) fn array(
        name: &str,
        offset: u64,
        element_size: u64,
        count: u64,
        ty: u32,
    ) -> SchemaMember {
        SchemaMember {
            name: name.into(),
            offset,
            size: element_size * count,
            shape: MemberShape::Array {
                element: Box::new(MemberShape::Aggregate(TypeIndex(ty))),
                element_size,
                count,
            },
        }
    }

    pub(crate) fn ty(name: &str, size: u64, members: Vec<SchemaMember>) -> Type {
        Type {
            name: name.into(),
            size,
            union: false,
            members,
            id: TypeId::VOID,
        }
    }

    /// 0 list_head, 1 entity (list_head at 16), 2 task (entity at 64, lock at 200), 3 vector, 4 pri
    /// (vector[3] at 8), 5 flex, 7 skb_shared_info.
    pub(crate) fn sample() -> Schema {
        Schema::new(vec![
            ty(
                "list_head",
                16,
                vec![scalar("next", 0, 8), scalar("prev", 8, 8)],
            ),
            ty(
                "entity",
                64,
                vec![
                    scalar("load", 0, 8),
                    nested("node", 16, 16, 0),
                    scalar("on_rq", 40, 4),
                ],
            ),
            ty(
                "task",
                256,
                vec![
                    scalar("state", 0, 4),
                    nested("se", 64, 64, 1),
                    scalar("lock", 200, 4),
                ],
            ),
            ty(
                "vector",
                16,
                vec![scalar("count", 0, 4), scalar("mask", 8, 8)],
            ),
            ty(
                "pri",
                64,
                vec![
                    scalar("lock", 0, 4),
                    array("vec", 8, 16, 3, 3),
                    nested("", 56, 8, 6),
                ],
            ),
            ty(
                "flex",
                8,
                vec![scalar("n", 0, 8), array("items", 8, 16, 0, 3)],
            ),
            Type {
                name: String::new(),
                size: 8,
                union: true,
                members: vec![scalar("a", 0, 4), scalar("b", 0, 8)],
                id: TypeId::VOID,
            },
            ty("skb_shared_info", 312, vec![scalar("dataref", 32, 4)]),
        ])
    }

    #[test]
    fn containment_is_by_offset() {
        let s = sample();
        assert!(s.contains(TypeIndex(2), TypeIndex(1), 64));
        assert!(s.contains(TypeIndex(2), TypeIndex(0), 80));
        assert!(!s.contains(TypeIndex(2), TypeIndex(1), 0));
        assert!(!s.contains(TypeIndex(1), TypeIndex(2), 0));
        assert!(s.contains(TypeIndex(4), TypeIndex(3), 8 + 32));
        assert!(
            !s.contains(TypeIndex(4), TypeIndex(3), 8 + 48),
            "past the last element"
        );
        assert!(
            s.contains(TypeIndex(5), TypeIndex(3), 8 + 160),
            "a flexible array has no end"
        );
    }

    #[test]
    fn containers_need_the_exact_size() {
        let s = sample();
        assert_eq!(
            s.containers(TypeIndex(0), 80, 256..=256),
            vec![TypeIndex(2)]
        );
        assert_eq!(s.containers(TypeIndex(0), 80, 255..=255), vec![]);
        assert_eq!(s.containers(TypeIndex(0), 16, 64..=64), vec![TypeIndex(1)]);
    }

    #[test]
    fn a_type_is_found_inside_others_in_any_element_of_an_array() {
        let s = sample();
        let found = |outer, offset| {
            let found = s.enclosed(TypeIndex(outer), &[TypeIndex(0)], offset)?;
            Some((found.offset, found.path))
        };
        assert_eq!(found(2, 80), Some((0, "se.node".to_owned())));
        assert_eq!(found(2, 79), None);
        let pair = |name: &str, count| SchemaMember {
            name: name.into(),
            offset: 8,
            size: 16 * count,
            shape: MemberShape::Array {
                element: Box::new(MemberShape::Aggregate(TypeIndex(0))),
                element_size: 16,
                count,
            },
        };
        let s = Schema::new(vec![
            ty("inner", 16, vec![scalar("a", 0, 8), scalar("b", 8, 8)]),
            ty("array", 40, vec![scalar("n", 0, 8), pair("list", 2)]),
            ty("flexible", 8, vec![scalar("n", 0, 8), pair("list", 0)]),
        ]);
        let found = |outer, offset| {
            let found = s.enclosed(TypeIndex(outer), &[TypeIndex(0)], offset)?;
            Some((found.offset, found.path))
        };
        assert_eq!(found(1, 4), None);
        assert_eq!(found(1, 12), Some((4, "list[]".to_owned())));
        assert_eq!(found(1, 28), Some((4, "list[]".to_owned())));
        assert_eq!(found(1, 40), None, "beyond the array");
        assert_eq!(found(2, 60), Some((4, "list[]".to_owned())));
    }

    #[test]
    fn a_cyclic_schema_ends() {
        let s = Schema::new(vec![
            ty("a", 8, vec![nested("b", 0, 8, 1)]),
            ty("b", 8, vec![nested("a", 0, 8, 0)]),
        ]);
        assert!(!s.contains(TypeIndex(0), TypeIndex(7), 0));
        assert_eq!(s.containers(TypeIndex(0), 0, 8..=8), vec![TypeIndex(1)]);
        assert_eq!(s.enclosed(TypeIndex(0), &[TypeIndex(7)], 0), None);
    }

    #[test]
    fn structs_without_tags_are_told_apart_by_their_typedefs() {
        let mut t = linemate_testkit::btf_writer::TypeList::default();
        let int = t.unsigned("unsigned int", 4);
        let members = [linemate_testkit::btf_writer::member("a", int, 0)];
        let first = t.structure("", 4, &members);
        t.typedef("first_t", first);
        let second = t.structure("", 4, &members);
        t.typedef("second_t", second);
        let nameless = t.structure("", 4, &members);
        let model = TypeModel::new(t.types, 8).unwrap();
        let (schema, numbers) = Schema::of_model(&model);
        let name = |id: TypeId| schema.name(numbers[&id.0]);
        assert_eq!(
            [first, second, nameless].map(name),
            ["first_t", "second_t", "(anonymous)"]
        );
        assert_eq!(schema.named("second_t"), [numbers[&second.0]]);
    }
}
