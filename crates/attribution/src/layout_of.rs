//! Offsets of the few members of the kernel's own bookkeeping that attribution reads from memory
//! images.
//!
//! They come from the recording's types, so they match its kernel; a member that a kernel lacks is
//! `None`.

use linemate_types::{CompositeKind, Type, TypeId, TypeModel};

/// Bytes from the start of `struct name` to its member, which may be in an anonymous struct or
/// union.
pub(crate) fn member(model: &TypeModel, name: &str, member: &str) -> Option<u64> {
    member_of(model, model.struct_named(name)?, member, 8)
}

fn member_of(model: &TypeModel, id: TypeId, wanted: &str, depth: usize) -> Option<u64> {
    let depth = depth.checked_sub(1)?;
    let composite = model.composite(id)?;
    composite.members.iter().find_map(|m| {
        let at = m.offset.0 / 8;
        match (&*m.name == wanted, m.name.is_empty()) {
            (true, _) => Some(at),
            (_, true) => member_of(model, m.type_id, wanted, depth).map(|inner| at + inner),
            _ => None,
        }
    })
}

/// Bytes of `struct name`.
pub(crate) fn size(model: &TypeModel, name: &str) -> Option<u64> {
    model.size_of(model.composite_named(name, CompositeKind::Struct)?)
}

/// The value of an enumerator of the enum called `name`.
pub(crate) fn enumerator(model: &TypeModel, name: &str, enumerator: &str) -> Option<i64> {
    model
        .named(name)
        .iter()
        .find_map(|id| match model.get(*id) {
            Some(Type::Enum { values, .. }) => values
                .iter()
                .find(|v| &*v.name == enumerator)
                .map(|v| v.value),
            _ => None,
        })
}
