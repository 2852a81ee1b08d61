//! Types within types: what a value contains by value, and where.

use linemate_types::{ByteOffset, ByteSize, Composite, Type, TypeId, TypeModel};

use crate::origin::Unit;

/// `sizeof` a type; 0 for what has none.
pub fn size_of(model: &TypeModel, id: TypeId) -> ByteSize {
    ByteSize(model.size_of(id).unwrap_or(0))
}

/// The type of `wanted` that contains byte `offset` of a value of type `id`, and the byte's offset
/// in it; the outermost one. Recursion: at most as deep as types nest.
pub fn enclosing(
    model: &TypeModel,
    id: TypeId,
    offset: ByteOffset,
    wanted: &dyn Fn(TypeId) -> bool,
) -> Option<(TypeId, ByteOffset)> {
    let id = model.strip(id);
    // Before its members: the outermost one is wanted.
    if wanted(id) {
        return Some((id, offset));
    }
    match model.get(id)? {
        Type::Array { element, .. } => {
            let size = model.size_of(*element)?;
            let within = ByteOffset(offset.0.checked_rem(size)?);
            enclosing(model, *element, within, wanted)
        }
        Type::Composite(composite) => composite.members.iter().find_map(|member| {
            let into = offset.after(member.offset.byte())?;
            (member.bits.is_none() && into < size_of(model, member.type_id))
                .then(|| enclosing(model, member.type_id, into.end(), wanted))?
        }),
        _ => None,
    }
}

/// Whether a value of type `id` is one of `set` or contains one by value. Recursion: at most as
/// deep as types nest.
pub fn embeds(model: &TypeModel, id: TypeId, set: &[TypeId]) -> bool {
    let id = model.strip(id);
    match model.get(id) {
        _ if set.contains(&id) => true,
        Some(Type::Array { element, .. }) => embeds(model, *element, set),
        Some(Type::Composite(c)) => c.members.iter().any(|m| embeds(model, m.type_id, set)),
        _ => false,
    }
}

/// The name of a unit in edits.
pub(crate) fn unit_name<'m>(
    model: &'m TypeModel,
    composite: &'m Composite,
    unit: &Unit,
) -> Option<&'m str> {
    let member = &composite.members[unit.main(composite)?];
    match member.name.is_empty() {
        true => anonymous_names(model, member.type_id).first().copied(),
        false => Some(&member.name),
    }
}

/// The names by which the members of an anonymous struct or union are accessed from outside.
/// Recursion: as deep as types nest.
pub(crate) fn anonymous_names(model: &TypeModel, id: TypeId) -> Vec<&str> {
    let mut names = Vec::new();
    for member in model.composite(id).map_or(&[][..], |c| &c.members) {
        if member.name.is_empty() {
            names.extend(anonymous_names(model, member.type_id));
        } else {
            names.push(&*member.name);
        }
    }
    names
}
