//! Types within types: what a value holds by value, and where.

use linemate_types::{Type, TypeId, TypeModel};

/// The type of `wanted` that holds byte `offset` of a value of type `id`, and the byte's offset in it; the outermost one. Recursion:
/// at most as deep as types nest.
pub fn enclosing(
    model: &TypeModel,
    id: TypeId,
    offset: u64,
    wanted: &dyn Fn(TypeId) -> bool,
) -> Option<(TypeId, u64)> {
    let id = model.strip(id);
    if wanted(id) {
        return Some((id, offset));
    }
    match model.get(id)? {
        Type::Array { element, .. } => {
            let size = model.size_of(*element)?;
            enclosing(model, *element, offset.checked_rem(size)?, wanted)
        }
        Type::Composite(composite) => composite.members.iter().find_map(|member| {
            let start = member.offset.0 / 8;
            let size = model.size_of(member.type_id).unwrap_or(0);
            let into = offset.checked_sub(start)?;
            (member.bits.is_none() && into < size)
                .then(|| enclosing(model, member.type_id, into, wanted))?
        }),
        _ => None,
    }
}

/// Whether a value of type `id` is one of `set` or holds one by value. Recursion: at most as deep as types nest.
pub fn embeds(model: &TypeModel, id: TypeId, set: &[TypeId]) -> bool {
    let id = model.strip(id);
    match model.get(id) {
        _ if set.contains(&id) => true,
        Some(Type::Array { element, .. }) => embeds(model, *element, set),
        Some(Type::Composite(c)) => c.members.iter().any(|m| embeds(model, m.type_id, set)),
        _ => false,
    }
}
