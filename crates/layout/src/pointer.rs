//! Pointers to arrays, according to their types: for `skip array of F`.

use linemate_types::{ByteOffset, ByteSize, CompositeKind, FlatType, Type, TypeId, TypeModel};

use crate::error::PlanReason;
use crate::nesting::size_of;

/// Certain bytes of all types with these ids (the variants of one type).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The type with these bytes, with its variants.
    pub types: Vec<TypeId>,
    /// The offset of its first byte in them.
    pub offset: ByteOffset,
    /// How many bytes it has.
    pub bytes: ByteSize,
}

/// A pointer that is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointerChase {
    /// The pointer that is followed.
    pub field: Field,
    /// Bytes of an element that it points to.
    pub element: ByteSize,
    /// Where in the same type other pointers to elements of that size are.
    pub rivals: Vec<ByteOffset>,
}

/// Checks that a field is a pointer to pointers or numbers, and finds its rivals.
///
/// # Errors
/// A field that is not such a pointer, or is in a union.
pub fn pointer_chase(
    model: &TypeModel,
    field: Field,
    path: &str,
) -> Result<PointerChase, PlanReason> {
    let id = field.types.first().copied().unwrap_or_default();
    let fail = |why: &str| PlanReason::NoArray {
        field: path.to_owned(),
        why: why.to_owned(),
    };
    if in_union(model, id, field.offset) {
        return Err(fail("is in a union: it is not always valid"));
    }
    let flat = FlatType::new(model, id).ok();
    let leaves = flat.as_ref().map_or(&[][..], FlatType::leaves);
    let leaf = leaves
        .iter()
        .find(|leaf| leaf.offset == field.offset && leaf.arrays.is_empty())
        .ok_or_else(|| fail("is not a pointer"))?;
    let target = |type_id| match model.get(model.strip(type_id)) {
        Some(Type::Pointer { target }) => Some(model.strip(*target)),
        _ => None,
    };
    let pointee = target(leaf.type_id).ok_or_else(|| fail("is not a pointer"))?;
    let element = match model.get(pointee) {
        Some(Type::Pointer { .. } | Type::Int { .. } | Type::Enum { .. }) => {
            size_of(model, pointee)
        }
        _ => ByteSize::ZERO,
    };
    if element == ByteSize::ZERO {
        return Err(fail("does not point to an array of pointers or numbers"));
    }
    let rival = |leaf: &&linemate_types::Leaf| {
        let size = target(leaf.type_id).map(|pointee| size_of(model, pointee));
        // A pointer to void, or to a type that is only declared, may lead to anything.
        let fits = |size: ByteSize| size == element || size == ByteSize::ZERO;
        leaf.offset != field.offset && size.is_some_and(fits)
    };
    let rivals = leaves.iter().filter(rival).map(|leaf| leaf.offset);
    Ok(PointerChase {
        rivals: rivals.collect(),
        field,
        element,
    })
}

/// Whether the byte is in a union somewhere. Recursion: at most as deep as types nest.
fn in_union(model: &TypeModel, id: TypeId, offset: ByteOffset) -> bool {
    match model.get(model.strip(id)) {
        Some(Type::Composite(c)) => {
            c.kind == CompositeKind::Union
                || c.members.iter().any(|member| {
                    let bytes = size_of(model, member.type_id);
                    let into = offset.after(member.offset.byte());
                    into.is_some_and(|into| {
                        into < bytes && in_union(model, member.type_id, into.end())
                    })
                })
        }
        _ => false,
    }
}
