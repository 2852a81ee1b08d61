//! Several type models merged into one: a kernel's types and those of the programs recorded on it.

use std::collections::BTreeSet;

use crate::{
    Composite, Member, ModelError, Name, Parameter, Prototype, SectionVariable, Type, TypeId,
    TypeModel,
};

/// A merged type model, and where each source's ids are in it.
#[derive(Clone, Debug)]
pub struct JoinedModel {
    pub model: TypeModel,
    shifts: Vec<u32>,
}

impl JoinedModel {
    /// The id in the merged model of `id` in the model with this number.
    #[must_use]
    pub fn id(&self, model: usize, id: TypeId) -> TypeId {
        match id {
            TypeId::VOID => id,
            TypeId(number) => {
                TypeId(number.saturating_add(self.shifts.get(model).copied().unwrap_or(0)))
            }
        }
    }
}

/// Merges models. The first one's types keep their names and ids; a struct, union or enum of a
/// later one becomes `name@LABEL` if an earlier model has its name, too. A typedef that names a
/// struct without a tag counts as its tag.
///
/// # Errors
/// [`ModelError`], if there are more types than a model can have.
pub fn join(first: &TypeModel, later: &[(&str, &TypeModel)]) -> Result<JoinedModel, ModelError> {
    let mut types: Vec<Type> = first.iter().map(|(_, ty)| ty.clone()).collect();
    let mut shifts = vec![0];
    let mut taken: BTreeSet<String> = tags(first).map(str::to_owned).collect();
    for (label, model) in later {
        // Each model's `void` maps to the first one's, so one type less is added.
        let shift = types.len() as u32 - 1;
        shifts.push(shift);
        let shifted = Shifted {
            model,
            shift,
            label,
            taken: &taken,
        };
        types.extend(model.iter().skip(1).map(|(_, ty)| shifted.ty(ty)));
        // After its own types: types within one model may share a name.
        taken.extend(tags(model).map(str::to_owned));
    }
    let model = TypeModel::new(types, first.pointer_size())?;
    Ok(JoinedModel { model, shifts })
}

/// The names of a model's structs, unions and enums.
fn tags(model: &TypeModel) -> impl Iterator<Item = &str> {
    let named = model.iter().filter_map(|(id, ty)| match ty {
        Type::Composite(_) => Some(model.composite_name(id)),
        Type::Enum { .. } => Some(ty.name()),
        _ => None,
    });
    named.filter(|name| !name.is_empty())
}

struct Shifted<'a> {
    model: &'a TypeModel,
    shift: u32,
    label: &'a str,
    taken: &'a BTreeSet<String>,
}

impl Shifted<'_> {
    fn id(&self, id: TypeId) -> TypeId {
        match id {
            TypeId::VOID => id,
            TypeId(number) => TypeId(number.saturating_add(self.shift)),
        }
    }

    fn tag(&self, name: &Name) -> Name {
        if self.taken.contains(name.as_str()) {
            return Name::from(format!("{}@{}", name.as_str(), self.label).as_str());
        }
        name.clone()
    }

    fn ty(&self, ty: &Type) -> Type {
        let mut ty = ty.clone();
        match &mut ty {
            Type::Void | Type::Int { .. } | Type::Float { .. } => {}
            Type::Forward { name, .. } | Type::Enum { name, .. } => *name = self.tag(name),
            Type::Typedef { name, target } => {
                // It names its target: otherwise that has a tag, or another typedef names it.
                if self.model.composite_name(*target) == name.as_str() {
                    *name = self.tag(name);
                }
                *target = self.id(*target);
            }
            Type::Pointer { target }
            | Type::Qualified { target, .. }
            | Type::DeclarationTag { target, .. } => *target = self.id(*target),
            Type::Array { element, index, .. } => {
                (*element, *index) = (self.id(*element), self.id(*index));
            }
            Type::Composite(composite) => self.composite(composite),
            Type::Prototype(prototype) => self.prototype(prototype),
            Type::Function { prototype, .. } => *prototype = self.id(*prototype),
            Type::Variable { type_id, .. } => *type_id = self.id(*type_id),
            Type::Section { variables, .. } => self.section(variables),
        }
        ty
    }

    fn composite(&self, composite: &mut Composite) {
        composite.name = self.tag(&composite.name);
        for Member { type_id, .. } in &mut composite.members {
            *type_id = self.id(*type_id);
        }
    }

    fn prototype(&self, prototype: &mut Prototype) {
        prototype.result = self.id(prototype.result);
        for Parameter { type_id, .. } in &mut prototype.parameters {
            *type_id = self.id(*type_id);
        }
    }

    fn section(&self, variables: &mut [SectionVariable]) {
        for variable in variables {
            variable.variable = self.id(variable.variable);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::{CompositeKind, IntEncoding};
    use linemate_units::BitOffset;

    fn model(tag: &str, size: u32) -> TypeModel {
        let int = Type::Int {
            name: "int".into(),
            size,
            bits: (8 * size) as u8,
            bit_offset: 0,
            encoding: IntEncoding::Signed,
        };
        let member = Member::new("a".into(), TypeId(1), BitOffset(0));
        let composite = Composite::new(CompositeKind::Struct, tag.into(), size, vec![member]);
        let pointer = Type::Pointer { target: TypeId(2) };
        let types = vec![Type::Void, int, Type::Composite(composite), pointer];
        TypeModel::new(types, 8).unwrap()
    }

    #[test]
    fn each_models_types_are_its_own() {
        let (kernel, server, other) = (model("file", 4), model("file", 8), model("conn", 2));
        let joined = join(&kernel, &[("server", &server), ("lib.so", &other)]).unwrap();
        let all = &joined.model;
        let size = |name: &str| all.size_of(all.struct_named(name).unwrap());
        assert_eq!(size("file"), Some(4));
        assert_eq!(size("file@server"), Some(8));
        assert_eq!(size("conn"), Some(2));
        for (number, tag) in [(0, "file"), (1, "file@server"), (2, "conn")] {
            let pointer = joined.id(number, TypeId(3));
            let target = all.pointer_to_composite(pointer).unwrap();
            assert_eq!(all.composite(target).unwrap().name.as_str(), tag);
            assert_eq!(joined.id(number, TypeId(2)), target);
        }
        assert_eq!(joined.id(2, TypeId::VOID), TypeId::VOID);
    }

    /// A typedef of a struct without a tag, and a pointer to it.
    fn typedefs(name: &str, size: u32) -> TypeModel {
        let mut types: Vec<Type> = model("", size).iter().map(|(_, ty)| ty.clone()).collect();
        types.push(Type::Typedef {
            name: name.into(),
            target: TypeId(2),
        });
        TypeModel::new(types, 8).unwrap()
    }

    #[test]
    fn a_typedef_that_names_a_struct_is_its_models_own_like_a_tag() {
        let (kernel, server, other) = (model("conn", 4), typedefs("conn", 8), typedefs("conn", 2));
        let joined = join(&kernel, &[("server", &server), ("lib.so", &other)]).unwrap();
        let name = |number| joined.model.composite_name(joined.id(number, TypeId(2)));
        assert_eq!([0, 1, 2].map(name), ["conn", "conn@server", "conn@lib.so"]);
        let found = joined.model.lookup("conn@lib.so");
        assert_eq!(found, Some(joined.id(2, TypeId(2))));
    }
}
