//! Which struct a statement edits: the type that its header names, or an anonymous struct in it.
//!
//! Linux's `mm_struct` has all of its members in one anonymous struct, and structs with
//! `__randomize_layout` often do. A statement whose members all are in the same one edits that.
//! An anonymous struct of one member has nothing to arrange: its name means the struct as a whole,
//! as for unions and as in a statement that also names members elsewhere.

use std::collections::BTreeSet;

use linemate_types::{Composite, CompositeKind, Language, Member, Type, TypeId, TypeModel};

use crate::arrange::Refusal;
use crate::edit::{Edit, Target};
use crate::nesting::anonymous_names;

/// From the edited type to an anonymous struct in it, outermost first.
pub(crate) type Path = Vec<TypeId>;

/// The anonymous structs of an edited type, and the groups that edits make in them.
pub(crate) struct Insides<'m> {
    model: &'m TypeModel,
    root: TypeId,
    groups: Vec<(String, Path)>,
}

impl<'m> Insides<'m> {
    /// Of struct `root`, before any edit.
    pub(crate) fn new(model: &'m TypeModel, root: TypeId) -> Insides<'m> {
        let groups = Vec::new();
        Insides {
            model,
            root,
            groups,
        }
    }

    /// The way to the struct whose members a statement edits.
    ///
    /// # Errors
    /// A group of members of several structs, or with a name that something else has.
    pub(crate) fn edited(&mut self, edit: &Edit) -> Result<Path, Refusal> {
        let names = names(edit);
        let paths: Vec<Path> = names.iter().map(|name| self.path(name)).collect();
        let common = common(&paths).unwrap_or_else(|| vec![self.root]);
        let known = names.iter().all(|name| self.knows(name));
        // Two of them: one is elsewhere than the other.
        let apart = names.iter().zip(&paths).find(|(_, path)| **path != common);
        let other = names.iter().find(|name| self.path(name) == common);
        if let (true, Some((field, _))) = (known, apart) {
            let is_group = |name: &&str| self.group(name).is_some_and(|path| *path != common);
            let groups = matches!(edit, Edit::Isolate(_) | Edit::Group { .. });
            if groups || names.iter().any(is_group) {
                let other = other.or_else(|| names.iter().find(|n| *n != field));
                return Err(Refusal::Apart {
                    field: (*field).to_owned(),
                    other: other.map_or_else(String::new, |name| (*name).to_owned()),
                });
            }
        }
        match edit {
            Edit::Isolate(fields) => self.groups.push((fields.join(" "), common.clone())),
            Edit::Group { name, .. } if self.knows(name) => {
                return Err(Refusal::GroupName { name: name.clone() });
            }
            Edit::Group { name, .. } => self.groups.push((name.clone(), common.clone())),
            _ => {}
        }
        Ok(common)
    }

    /// Refuses an anonymous struct that another type contains as well: in BTF equal structs
    /// without a tag are one.
    pub(crate) fn check_unshared(&self, inside: TypeId, edit: &Edit) -> Result<(), Refusal> {
        match self.other_holder(inside) {
            Some(other) => Err(Refusal::Shared {
                field: names(edit).first().copied().unwrap_or_default().to_owned(),
                other,
            }),
            None => Ok(()),
        }
    }

    /// The tag of another type that contains `inside`.
    fn other_holder(&self, inside: TypeId) -> Option<String> {
        let root = self.model.composite_name(self.root);
        let mut holders = BTreeSet::from([inside]);
        loop {
            let known = holders.len();
            for (id, t) in self.model.iter() {
                let Type::Composite(holder) = t else { continue };
                let held = |m: &Member| holders.contains(&self.value(m.type_id));
                // Variants of the edited type have its name, and the same edits.
                let own = id == self.root || (!root.is_empty() && *holder.name == *root);
                if own || !holder.members.iter().any(held) {
                    continue;
                }
                if !holder.name.is_empty() {
                    return Some(holder.name.to_string());
                }
                holders.insert(id);
            }
            if holders.len() == known {
                return None;
            }
        }
    }

    /// The type of an array's elements, or of anything else.
    fn value(&self, id: TypeId) -> TypeId {
        let mut id = self.model.strip(id);
        while let Some(Type::Array { element, .. }) = self.model.get(id) {
            id = self.model.strip(*element);
        }
        id
    }

    fn group(&self, name: &str) -> Option<&Path> {
        let found = self.groups.iter().find(|(group, _)| group == name);
        found.map(|(_, path)| path)
    }

    fn knows(&self, name: &str) -> bool {
        self.group(name).is_some() || anonymous_names(self.model, self.root).contains(&name)
    }

    /// The way to the struct that a name, known or not, is a member of.
    fn path(&self, name: &str) -> Path {
        if let Some(path) = self.group(name) {
            return path.clone();
        }
        // A path into a member is refused there, with the member.
        let member = name.split(['.', '[']).next().unwrap_or(name);
        let mut path = vec![self.root];
        while let Some(inner) = path.last().and_then(|id| self.step(*id, member)) {
            path.push(inner);
        }
        let single = |id: &TypeId| {
            let composite = self.model.composite(*id);
            composite.is_some_and(|c| c.members.len() == 1)
        };
        while path.len() > 1 && path.last().is_some_and(single) {
            path.pop();
        }
        path
    }

    /// The anonymous struct in `id` that has the member.
    fn step(&self, id: TypeId, member: &str) -> Option<TypeId> {
        let members = &self.model.composite(id)?.members;
        let mut inner = members
            .iter()
            .filter_map(|m| anonymous_struct(self.model, m));
        inner.find(|id| anonymous_names(self.model, *id).contains(&member))
    }
}

/// Whether a member of a struct is an anonymous struct in which edits arrange members: then its
/// members' names alone do not mean it as a whole.
pub fn is_arranged_inside(model: &TypeModel, member: &Member) -> bool {
    let several = |id: &TypeId| model.composite(*id).is_some_and(|c| c.members.len() > 1);
    anonymous_struct(model, member)
        .is_some_and(|id| several(&id) || anonymous_structs(model, id).iter().any(several))
}

/// The class of C++ that a member of a derived one is: its members are the class's, and edited
/// there.
pub fn base_class<'m>(model: &'m TypeModel, member: &Member) -> Option<&'m str> {
    let class = model.composite(model.strip(member.type_id))?;
    let is_base = member.name.is_empty()
        && !class.name.is_empty()
        && class.kind == CompositeKind::Struct
        && class.language == Some(Language::Cpp);
    is_base.then_some(&*class.name)
}

/// A class of C++ that has the one of that name as a base. Its members may follow in the rest of
/// the base's last line, after the base's last member (Itanium C++ ABI, 2.4): a layout that leaves
/// that line to the base holds only if its end is a member.
pub fn derived_class<'m>(model: &'m TypeModel, base: &str) -> Option<&'m str> {
    model.iter().find_map(|(_, ty)| {
        let Type::Composite(class) = ty else {
            return None;
        };
        let mut bases = class.members.iter().filter_map(|m| base_class(model, m));
        bases.any(|name| name == base).then_some(&*class.name)
    })
}

/// Refuses to arrange members of `composite` that a base class declares: a base is part of its
/// derived classes as a whole, so nothing would move.
pub(crate) fn check_inherited(
    model: &TypeModel,
    composite: &Composite,
    edit: &Edit,
) -> Result<(), Refusal> {
    let arranged = match edit {
        Edit::Order(fields) | Edit::Isolate(fields) | Edit::Group { fields, .. } => &fields[..],
        Edit::Move { field, .. }
        | Edit::Align { field, .. }
        | Edit::PadTo { field, .. }
        | Edit::PadAfter { field, .. }
        | Edit::PadElements { field, .. }
        | Edit::Remove(field) => std::slice::from_ref(field),
        _ => &[],
    };
    for field in arranged {
        if let Some(base) = inherited_from(model, composite, field) {
            return Err(Refusal::Inherited {
                field: field.clone(),
                base: base.to_owned(),
            });
        }
    }
    Ok(())
}

/// The base class that declares a member of `composite`; `None` if a name is its own or unknown.
fn inherited_from<'m>(model: &'m TypeModel, composite: &Composite, name: &str) -> Option<&'m str> {
    let member = name.split(['.', '[']).next().unwrap_or(name);
    if composite.members.iter().any(|m| &*m.name == member) {
        return None;
    }
    let mut bases = composite.members.iter().filter_map(|m| {
        let base = base_class(model, m)?;
        let id = model.strip(m.type_id);
        // The one that declares it may be a base of the base.
        let inner = inherited_from(model, model.composite(id)?, member);
        let has = anonymous_names(model, id).contains(&member);
        has.then(|| inner.unwrap_or(base))
    });
    bases.next()
}

/// The struct without a tag that a member without a name is.
pub(crate) fn anonymous_struct(model: &TypeModel, member: &Member) -> Option<TypeId> {
    let id = model.strip(member.type_id);
    let composite = model.composite(id)?;
    let names = member.name.is_empty() && composite.name.is_empty();
    (names && composite.kind == CompositeKind::Struct).then_some(id)
}

/// All anonymous structs in struct `id`, each once.
pub(crate) fn anonymous_structs(model: &TypeModel, id: TypeId) -> Vec<TypeId> {
    let mut found = vec![id];
    let mut at = 0;
    while let Some(id) = found.get(at).copied() {
        for member in model.composite(id).map_or(&[][..], |c| &c.members) {
            let inner = anonymous_struct(model, member);
            found.extend(inner.filter(|id| !found.contains(id)));
        }
        at += 1;
    }
    found.remove(0);
    found
}

/// What all paths start with.
fn common(paths: &[Path]) -> Option<Path> {
    let (first, others) = paths.split_first()?;
    let shared = |path: &Path| path.iter().zip(first).take_while(|(a, b)| a == b).count();
    let length = others.iter().map(shared).min().unwrap_or(first.len());
    Some(first[..length].to_vec())
}

/// The fields and groups that a statement names, without the name that it gives.
fn names(edit: &Edit) -> Vec<&str> {
    let (fields, target): (&[String], _) = match edit {
        Edit::Order(fields) | Edit::Isolate(fields) => (fields, None),
        Edit::Group { fields, target, .. } => (fields, target.as_ref()),
        Edit::Move { field, target } => (std::slice::from_ref(field), Some(target)),
        Edit::Align { field, .. }
        | Edit::PadTo { field, .. }
        | Edit::PadAfter { field, .. }
        | Edit::PadElements { field, .. }
        | Edit::Reuse { field, .. }
        | Edit::Remove(field)
        | Edit::SkipSilent(field)
        | Edit::SkipArray(field) => (std::slice::from_ref(field), None),
        Edit::LayoutFrom(_)
        | Edit::Colocate(..)
        | Edit::Percpu(_)
        | Edit::AllocatePercpu(_)
        | Edit::BaseAlign { .. }
        | Edit::PadRanges { .. }
        | Edit::SkipSilentIn(_) => (&[], None),
    };
    let place = match target {
        Some(Target::After(name) | Target::Before(name)) => Some(name),
        _ => None,
    };
    let names = fields.iter().chain(place);
    names.map(String::as_str).collect()
}
