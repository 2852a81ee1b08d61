//! Which functions use which direct members of a type, and how, wherever its objects are.

use std::collections::BTreeMap;

use linemate_attribution::naming::Inside;
use linemate_attribution::{Analysis, Counted};
use linemate_types::{ByteOffset, ByteSize, TypeId};

use super::resolve::{PADDING, Resolver};
use super::sums::Sum;
use super::type_view::find_type;

/// A direct member of a type, over all its fields.
#[derive(Debug, Default)]
pub(crate) struct UsedMember {
    /// Its first accessed byte.
    pub(crate) offset: ByteOffset,
    /// The end of its last accessed field.
    pub(crate) end: ByteOffset,
    /// The accesses of each function.
    pub(crate) by: BTreeMap<String, Sum>,
}

/// What is accessed of a type.
#[derive(Debug)]
pub struct TypeUses {
    /// The type's name, as `--type` takes it.
    pub(crate) name: String,
    pub(crate) id: TypeId,
    pub(crate) size: ByteSize,
    pub(crate) members: BTreeMap<String, UsedMember>,
}

impl TypeUses {
    /// The type's name, as `--type` takes it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The direct member of a field's path, with or without the type's name before it; of a union's the
/// first.
pub(crate) fn member_of<'p>(type_name: &str, path: &'p str) -> &'p str {
    let first = path.split(" | ").next().unwrap_or(path);
    let own = first
        .strip_prefix(type_name)
        .and_then(|rest| rest.strip_prefix('.'));
    let own = own.unwrap_or(first);
    own.split(['.', '[']).next().unwrap_or(own)
}

/// What is accessed of the type with that name; `None` if nothing is, or there is no such type.
#[must_use]
pub fn type_uses(analysis: &Analysis<'_>, counted: &Counted, name: &str) -> Option<TypeUses> {
    let named = find_type(analysis, counted, name).ok()?;
    let schema = analysis.schema();
    let mut inside = Inside::new(schema, named.ty);
    let mut resolver = Resolver::new(analysis);
    let mut members: BTreeMap<String, UsedMember> = BTreeMap::new();
    for (key, counts) in counted.tally.rows() {
        let subject = &analysis.subjects()[key.subject.index()];
        let place = subject.ty.and_then(|outer| inside.at(outer, key.offset));
        let Some(offset) = place.map(|place| place.offset) else {
            continue;
        };
        let field = resolver.field(named.ty, offset, key.size);
        if field.path == PADDING {
            continue;
        }
        let member = member_of(&named.name, &field.path).to_owned();
        let used = members.entry(member).or_default();
        used.add_bytes(field.offset, field.size);
        let function = resolver.function(key.pc).to_owned();
        let sum = used.by.entry(function).or_default();
        sum.add(key.kind, counts, subject.percpu);
    }
    let about = schema.get(named.ty)?;
    (!members.is_empty()).then(|| TypeUses {
        id: about.id,
        size: ByteSize(schema.size(named.ty)),
        name: named.name,
        members,
    })
}

impl UsedMember {
    fn add_bytes(&mut self, offset: u64, size: u64) {
        let end = ByteOffset(offset.saturating_add(size.max(1)));
        // An end of 0 is that of a member without any field so far, whose offset is not set yet.
        self.offset = match self.end {
            ByteOffset(0) => ByteOffset(offset),
            _ => self.offset.min(ByteOffset(offset)),
        };
        self.end = self.end.max(end);
    }
}

#[cfg(test)]
mod tests {
    use super::member_of;

    #[test]
    fn a_path_begins_with_its_member() {
        for (path, member) in [
            ("sk_backlog.tail", "sk_backlog"),
            ("sock.sk_backlog.tail", "sk_backlog"),
            ("sock.a[0].b", "a"),
            ("sock.sk_wq | sk_wq_raw", "sk_wq"),
            ("sock_flag", "sock_flag"),
        ] {
            assert_eq!(member_of("sock", path), member, "{path}");
        }
    }
}
