//! Which type a user means, and what else the user may have meant.

use crate::{Composite, CompositeKind, Type, TypeId, TypeModel};

/// How a user calls a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeQuery<'a> {
    /// By a name: see [`TypeModel::lookup`].
    Named(&'a str),
    /// A struct by members that it has itself, not inside another member; for structs without a name.
    With(&'a [String]),
}

/// The type that a user means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundType {
    /// The type; the first of those with the members asked for.
    pub id: TypeId,
    /// All variants of it, itself among them, ascending. BTF can have several of a struct or union, of one name and size, that
    /// differ only in what their pointers point to.
    pub variants: Vec<TypeId>,
}

/// Why no type is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// There is none. With names like the one asked for, best first.
    Absent(Vec<String>),
    /// This many structs, each laid out otherwise than the others, have the members asked for.
    Ambiguous(usize),
}

impl TypeModel {
    /// The type that is meant: a struct, union or enum.
    ///
    /// # Errors
    /// When there is none, or several structs that are laid out differently have the members.
    pub fn find(&self, query: TypeQuery<'_>) -> Result<FoundType, NotFound> {
        match query {
            TypeQuery::Named(name) => {
                let absent = || NotFound::Absent(self.nearest_names(name));
                let id = self.lookup(name).ok_or_else(absent)?;
                let variants = self.variants(id);
                Ok(FoundType { id, variants })
            }
            TypeQuery::With(members) => self.find_with(members),
        }
    }

    fn variants(&self, id: TypeId) -> Vec<TypeId> {
        let Some(Type::Composite(composite)) = self.get(id) else {
            return vec![id];
        };
        if composite.name.is_empty() {
            return vec![id];
        }
        let is_variant = |id: &TypeId| match self.get(*id) {
            Some(Type::Composite(c)) => c.kind == composite.kind && c.size == composite.size,
            _ => false,
        };
        let named = self.named(&composite.name).iter().copied();
        named.filter(is_variant).collect()
    }

    fn find_with(&self, members: &[String]) -> Result<FoundType, NotFound> {
        // The structs, those that are laid out alike together.
        let mut layouts: Vec<(&Composite, Vec<TypeId>)> = Vec::new();
        for (id, t) in self.iter() {
            let Type::Composite(composite) = t else {
                continue;
            };
            let has = |name: &String| composite.members.iter().any(|m| *m.name == **name);
            if composite.kind != CompositeKind::Struct || !members.iter().all(has) {
                continue;
            }
            match layouts.iter_mut().find(|(c, _)| are_alike(c, composite)) {
                Some((_, ids)) => ids.push(id),
                None => layouts.push((composite, vec![id])),
            }
        }
        let count = layouts.len();
        match layouts.into_iter().next() {
            None => Err(NotFound::Absent(Vec::new())),
            Some((_, variants)) if count == 1 => Ok(FoundType {
                id: variants[0],
                variants,
            }),
            Some(_) => Err(NotFound::Ambiguous(count)),
        }
    }

    /// The struct or union that is called `name`, or the typedef of that name where its type has none of its own.
    pub fn declared(&self, name: &str) -> Option<TypeId> {
        let id = self.lookup(name)?;
        let composite = self.composite(id)?;
        if composite.name.is_empty() {
            self.typedef_named(name.trim())
        } else {
            Some(id)
        }
    }

    /// The names of structs, unions and typedefs that are most like `name`, at most three: see [`linemate_text::nearest`].
    pub fn nearest_names(&self, name: &str) -> Vec<String> {
        let wanted = name.split_whitespace().last().unwrap_or("");
        let types = self.iter().map(|(_, t)| t);
        let offered = types.filter(|t| matches!(t, Type::Composite(_) | Type::Typedef { .. }));
        linemate_text::nearest(wanted, offered.map(Type::name))
    }
}

/// Whether the members have the same names and places.
fn are_alike(a: &Composite, b: &Composite) -> bool {
    let mut pairs = a.members.iter().zip(&b.members);
    a.members.len() == b.members.len()
        && pairs.all(|(a, b)| a.name == b.name && a.offset == b.offset)
}
