//! The requested type or variable, wherever its bytes are: in objects of its own, or inside other
//! types' (a node of a list, the contents of an `Arc`).

use std::collections::BTreeSet;

use linemate_answers::Remedy;
use linemate_attribution::Analysis;
use linemate_attribution::schema::TypeIndex;
use linemate_types::TypeId;

use super::fields::{Field, FieldId, Fields, is_inside};
use super::trials::ids_of;

/// What advice is requested for.
#[derive(Debug, Default)]
pub(crate) struct Focus {
    /// Outermost types and variables that are the focus, or mostly consist of it: advice about
    /// their objects is about it.
    owners: BTreeSet<String>,
    types: BTreeSet<TypeIndex>,
    /// Names of its fields inside other types.
    inner: BTreeSet<String>,
    /// All fields of it.
    pub(crate) fields: Vec<FieldId>,
}

impl Focus {
    /// What `name` means among the accessed fields; `None` if it matches none of them.
    pub(crate) fn new(analysis: &Analysis<'_>, fields: &Fields, name: &str) -> Option<Focus> {
        let (model, schema) = (analysis.model(), analysis.schema());
        let ids = ids_of(model, name);
        let mut focus = Focus::default();
        for (number, field) in fields.iter() {
            let outer = field.outer.and_then(|ty| schema.get(ty)).map(|ty| ty.id);
            let is_outer = |id: TypeId| ids.contains(&model.strip(id));
            if field.owner == name || outer.is_some_and(is_outer) {
                focus.own(field);
            } else {
                let path = field.leaf.as_ref().map(|leaf| &*leaf.path);
                let Some((outer, path)) = outer.zip(path) else {
                    continue;
                };
                if !is_inside(model, outer, path, &ids) {
                    continue;
                }
                focus.inner.insert(field.name.clone());
                let size = |id: TypeId| model.size_of(id).unwrap_or(0);
                // More than half: what an `Arc` or a list node wraps is what the user means,
                // whatever is around it.
                if ids.iter().any(|id| 2 * size(*id) > size(outer)) {
                    focus.own(field);
                }
            }
            focus.fields.push(number);
        }
        (!focus.fields.is_empty()).then_some(focus)
    }

    fn own(&mut self, field: &Field) {
        self.owners.insert(field.owner.clone());
        self.types.extend(field.outer);
    }

    /// Whether advice is requested for a type's objects.
    pub(crate) fn is_type(&self, ty: TypeIndex) -> bool {
        self.types.contains(&ty)
    }

    /// Whether a remedy is about it: about its objects, or about a field of it inside others.
    pub(crate) fn concerns(&self, remedy: &Remedy) -> bool {
        let about = |field: &String| {
            // `FIELD in FUNCTION`, `FIELD from BITMAP`; an array goes by the start of its elements'
            // names.
            let rest = remedy.subject.strip_prefix(field.as_str());
            let element = field.strip_prefix(remedy.subject.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
                || element.is_some_and(|rest| rest.starts_with('.'))
        };
        remedy
            .concerns
            .iter()
            .any(|name| self.owners.contains(name))
            || self.inner.iter().any(about)
    }
}
