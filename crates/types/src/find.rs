//! Which type a user means, and which ones with similar names exist.

use linemate_units::BitOffset;

use crate::{Composite, CompositeKind, MemberRole, Name, Type, TypeId, TypeModel};

/// How a user names a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeQuery<'a> {
    /// By a name: see [`TypeModel::lookup`].
    Named(&'a str),
    /// A struct by its direct members, for structs without a name.
    With(&'a [String]),
}

/// The type that a user means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundType {
    /// The type; the first with the given members.
    pub id: TypeId,
    /// All variants of it, including itself, ascending. BTF can have several of a struct or union,
    /// of one name and size, that differ only in what their pointers point to; a class of C++ has
    /// one for each length that it has as a base ([`Composite::is_part`]).
    pub variants: Vec<TypeId>,
}

/// Why no type matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// There is none. With the most similar names, best first.
    Absent(Vec<String>),
    /// This many structs with different layouts have the given members.
    Ambiguous(usize),
}

impl TypeModel {
    /// The named type: a struct, union or enum.
    ///
    /// # Errors
    /// If there is none, or several structs with different layouts have the members.
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
        let name = self.composite_name(id);
        // Structs without a name have nothing else in common.
        if name.is_empty() {
            return vec![id];
        }
        let is_variant = |id: &TypeId| match self.get(*id) {
            Some(Type::Composite(c)) => {
                c.kind == composite.kind && (c.size == composite.size || is_part_of(c, composite))
            }
            _ => false,
        };
        // Of a name without a tag, the typedefs' targets; a tag may have a typedef of its name,
        // too.
        let named = self.named(name).iter().map(|named| self.strip(*named));
        let mut variants: Vec<TypeId> = Vec::new();
        for named in named.filter(|id| self.composite_name(*id) == name && is_variant(id)) {
            if !variants.contains(&named) {
                variants.push(named);
            }
        }
        variants
    }

    fn find_with(&self, members: &[String]) -> Result<FoundType, NotFound> {
        // The structs, grouped by identical layout.
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

    /// The struct, union, enum or typedef whose name with its scopes or generic arguments is
    /// longer: `Queue` means `app::Queue<int>` if the program has nothing else that it could mean.
    /// A name without arguments means a type that has none, if there is one: a library's
    /// `either::Either<A, B>` does not hide a program's `app::Either`.
    pub(crate) fn short_named(&self, name: &str) -> Option<TypeId> {
        let in_scopes = self.only_named(|full| is_end_of(name, full));
        in_scopes.or_else(|| self.only_named(|full| is_short_for(name, full)))
    }

    /// The type with that name; `None` if types of several names match.
    fn only_named(&self, is_meant: impl Fn(&str) -> bool) -> Option<TypeId> {
        let mut found: Option<TypeId> = None;
        for id in self.scoped() {
            let full = self.get(*id).map_or("", Type::name);
            if !is_meant(full) {
                continue;
            }
            // By the full name: several types of one name are variants, not different types.
            let known = found.and_then(|known| self.get(known)).map(Type::name);
            if known.is_some_and(|known| known != full) {
                return None;
            }
            found = found.or(Some(*id));
        }
        found
    }

    /// The structs, unions, enums and typedefs whose names end in `name`, ignoring scopes, generic
    /// arguments and the file that [`crate::join()`] appends to distinguish equal names: everything
    /// that [`TypeModel::lookup`] could take for `Queue`.
    pub fn short_names(&self, name: &str) -> Vec<TypeId> {
        let fits = |id: &&TypeId| {
            let full = self.get(**id).map_or("", Type::name);
            let tag = full.split_once('@').map_or(full, |(tag, _)| tag);
            is_short_for(name, full) || is_short_for(name, tag)
        };
        self.scoped().iter().filter(fits).copied().collect()
    }

    /// The struct or union called `name`, or the typedef of that name if its type has none of its
    /// own.
    pub fn declared(&self, name: &str) -> Option<TypeId> {
        let id = self.lookup(name)?;
        let composite = self.composite(id)?;
        if composite.name.is_empty() {
            self.typedef_named(name.trim())
        } else {
            Some(id)
        }
    }

    /// The names of structs, unions and typedefs closest to `name`, at most three: see
    /// [`linemate_text::nearest`].
    pub fn nearest_names(&self, name: &str) -> Vec<String> {
        let wanted = name.split_whitespace().last().unwrap_or("");
        let types = self.iter().map(|(_, t)| t);
        let offered = types.filter(|t| matches!(t, Type::Composite(_) | Type::Typedef { .. }));
        linemate_text::nearest(wanted, offered.map(Type::name))
    }
}

/// Whether the type name `full` ends in `name` at a scope boundary, with or without the generic
/// arguments at that end.
fn is_short_for(name: &str, full: &str) -> bool {
    is_end_of(name, full) || is_end_of(name, without_arguments(full))
}

/// Whether the type name `full` ends in `name` at a scope boundary.
fn is_end_of(name: &str, full: &str) -> bool {
    let scopes = full.strip_suffix(name).filter(|_| !name.is_empty());
    scopes.is_some_and(|scopes| scopes.is_empty() || scopes.ends_with("::") && is_closed(scopes))
}

/// `a::Queue` of `a::Queue<b::Item<c>>`.
fn without_arguments(full: &str) -> &str {
    if !full.ends_with('>') {
        return full;
    }
    let mut open = 0;
    for (at, byte) in full.bytes().enumerate().rev() {
        match byte {
            b'>' => open += 1,
            b'<' if open == 1 => return &full[..at],
            b'<' => open -= 1,
            _ => {}
        }
    }
    full
}

/// Whether no generic arguments are open: what follows `a<b::` is not a scope of its own.
fn is_closed(text: &str) -> bool {
    let count = |byte| text.bytes().filter(|b| *b == byte).count();
    count(b'<') == count(b'>')
}

/// Whether a base class without its last bytes is one of `whole`, or both are of one class: they
/// have the same members but virtual bases, which are elsewhere in each derived class.
fn is_part_of(part: &Composite, whole: &Composite) -> bool {
    let own = |of: &Composite| -> Vec<(Name, BitOffset)> {
        let own = of
            .members
            .iter()
            .filter(|m| m.role != MemberRole::VirtualBase);
        own.map(|m| (m.name.clone(), m.offset)).collect()
    };
    (part.is_part || whole.is_part) && own(part) == own(whole)
}

/// Whether the members have the same names and offsets.
fn are_alike(a: &Composite, b: &Composite) -> bool {
    let mut pairs = a.members.iter().zip(&b.members);
    a.members.len() == b.members.len()
        && pairs.all(|(a, b)| a.name == b.name && a.offset == b.offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_whole_words_outside_of_arguments() {
        for full in [
            "Queue",
            "app::Queue",
            "app::Queue<int>",
            "a<b>::Queue",
            "app::Queue<b::Item<c>>",
        ] {
            assert!(is_short_for("Queue", full), "{full}");
        }
        assert!(is_short_for("app::Queue", "x::app::Queue<int>"));
        assert!(is_short_for("Queue<int>", "app::Queue<int>"));
        for full in [
            "app::MyQueue",
            "Box<app::Queue",
            "Box<app::Queue>",
            "Queue::Node",
            "app::Queue<int>::Node",
        ] {
            assert!(!is_short_for("Queue", full), "{full}");
        }
        assert!(!is_short_for("", "app::Queue"));
    }

    #[test]
    fn a_name_without_arguments_means_a_type_without_them_first() {
        let model = |names: &[&str]| {
            let composites = names
                .iter()
                .map(|name| Composite::new(CompositeKind::Struct, (*name).into(), 4, Vec::new()));
            let types = std::iter::once(Type::Void).chain(composites.map(Type::Composite));
            TypeModel::new(types.collect(), 8).unwrap()
        };
        let names = [
            "app::Either",
            "lib::Either<lib::A, lib::B>",
            "lib::Once<u8>",
        ];
        let model_of_both = model(&names);
        assert_eq!(model_of_both.lookup("Either"), Some(TypeId(1)));
        assert_eq!(model_of_both.lookup("lib::Either"), Some(TypeId(2)));
        assert_eq!(model_of_both.lookup("Once"), Some(TypeId(3)));
        let several = model(&[
            "app::Either",
            "lib::Either",
            "lib::Once<u8>",
            "app::Once<u8>",
        ]);
        assert_eq!(several.lookup("Either"), None);
        assert_eq!(several.lookup("Once"), None);
    }
}
