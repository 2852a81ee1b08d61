//! The request for a patch, and the types of the recorded kernel that it is about.

use std::collections::BTreeMap;
use std::path::Path;

use linemate_answers::PatchEvidence;
use linemate_layout::plan::{resolve, subject_name};
use linemate_layout::{EditFile, EditSubject, Plan};
use linemate_source::tree::SourceTree;
use linemate_source::{Dialect, Item, Sought, Wanted};
use linemate_types::{LineSize, TypeId, TypeModel};

use crate::error::PatchError;

/// The request for a patch.
#[derive(Clone, Copy)]
pub struct Request<'r> {
    /// The name of the file of edits in messages.
    pub edit: &'r str,
    pub model: &'r TypeModel,
    pub tree: &'r SourceTree,
    /// The file of the definition, if several match.
    pub file: Option<&'r Path>,
    pub line: LineSize,
    /// For comments, from [`crate::rewording`].
    pub rewordings: &'r [String],
    pub evidence: &'r PatchEvidence,
}

impl<'r> Request<'r> {
    pub(crate) fn plan(&self, edits: &EditFile, line: LineSize) -> Result<Plan<'r>, PatchError> {
        Plan::new(self.model, line, edits, &BTreeMap::new()).map_err(|error| PatchError::Plan {
            path: self.edit.to_owned(),
            error: Box::new(error),
        })
    }

    /// The requirements of the plan on a subject; `None` if it leaves its members alone.
    pub(crate) fn target(
        &self,
        plan: &mut Plan<'_>,
        edits: &EditFile,
        subject: &EditSubject,
    ) -> Result<Option<EditedType>, PatchError> {
        let ids = resolve(self.model, subject).map_err(|reason| PatchError::Subject {
            subject: subject_name(subject),
            reason: Box::new(reason),
        })?;
        let Some(id) = ids.first().map(|id| self.model.strip(*id)) else {
            return Ok(None);
        };
        let wanted = Wanted::new(plan, id, edits)?;
        let sought = sought(self.model, id, subject);
        Ok(wanted.map(|wanted| EditedType { id, sought, wanted }))
    }
}

/// A type of the recorded kernel, where to search for it and the requirements.
pub(crate) struct EditedType {
    pub(crate) id: TypeId,
    pub(crate) sought: Sought,
    pub(crate) wanted: Wanted,
}

fn sought(model: &TypeModel, id: TypeId, subject: &EditSubject) -> Sought {
    let composite = model.composite(id);
    let tag = tag(composite.map_or("", |c| &*c.name)).to_owned();
    let dialect = Dialect::of(composite.and_then(|c| c.language));
    match subject {
        _ if !tag.is_empty() && dialect != Dialect::C => {
            let declared = composite.and_then(|c| c.declared.clone());
            Sought::Item(Item::new(dialect, &tag, declared))
        }
        _ if !tag.is_empty() => Sought::Tag(tag),
        EditSubject::Named(name) => Sought::Typedef(name.clone()),
        EditSubject::With(members) => Sought::Members(members.clone()),
    }
}

/// The subjects of the edits' sections, each once.
pub(crate) fn subjects(edits: &EditFile) -> Vec<&EditSubject> {
    let mut found: Vec<&EditSubject> = Vec::new();
    for subject in edits.sections.iter().filter_map(|s| s.subject.as_ref()) {
        if !found.contains(&subject) {
            found.push(subject);
        }
    }
    found
}

/// A type's tag in its source: a program's type whose name the kernel also has is called after its
/// file, `node@server`.
fn tag(name: &str) -> &str {
    name.split_once('@').map_or(name, |(tag, _)| tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_has_no_file() {
        assert_eq!((tag("node@server"), tag("node")), ("node", "node"));
    }
}
