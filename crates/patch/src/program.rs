//! Types of programs: those in C are rewritten like a kernel's, others are not.

use linemate_answers::ProgramSource;
use linemate_layout::EditFile;
use linemate_layout::plan::{resolve, subject_name};
use linemate_source::wanted;
use linemate_types::{Language, TypeId, TypeModel};

use crate::request::subjects;

/// The language and place of a program's type; none for a kernel's.
#[must_use]
pub fn program_source(model: &TypeModel, id: TypeId) -> Option<ProgramSource> {
    let composite = model.composite(id)?;
    let declared = composite.declared.as_ref();
    Some(ProgramSource {
        language: composite.language?.name().to_owned(),
        declared: declared.map(|at| format!("{}:{}", at.file, at.line)),
    })
}

/// Whether `linemate patch` rewrites it.
#[must_use]
pub fn is_patched(source: &ProgramSource) -> bool {
    source.language == Language::C.name()
}

/// A type in the edits that is not written in C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotC {
    /// Its name in the edits.
    pub subject: String,
    pub source: ProgramSource,
}

/// The first type of the edits that no patch is written for.
#[must_use]
pub fn not_c(model: &TypeModel, edits: &EditFile) -> Option<NotC> {
    subjects(edits).into_iter().find_map(|subject| {
        let ids = resolve(model, subject).unwrap_or_default();
        let source = ids.first().and_then(|id| program_source(model, *id))?;
        (!is_patched(&source)).then(|| NotC {
            subject: subject_name(subject),
            source,
        })
    })
}

/// Whether a patch can make the edits: they concern only layouts, and types of a kernel or in C.
#[must_use]
pub fn takes(model: &TypeModel, edits: &EditFile) -> bool {
    wanted::check(edits).is_ok() && not_c(model, edits).is_none()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use linemate_layout::parse;
    use linemate_types::{Composite, CompositeKind, Name, SourceLine, Type};

    use super::*;

    fn model(language: Option<Language>) -> TypeModel {
        let composite = Composite {
            language,
            declared: Some(SourceLine {
                file: Name::from("server.x"),
                line: 7,
            }),
            ..Composite::new(CompositeKind::Struct, Name::from("conn"), 0, Vec::new())
        };
        TypeModel::new(vec![Type::Void, Type::Composite(composite)], 8).unwrap()
    }

    #[test]
    fn types_of_kernels_and_of_c_are_patched() {
        let edits = parse("type conn\nmove a first\n").unwrap();
        assert_eq!(program_source(&model(None), TypeId(1)), None);
        assert_eq!(not_c(&model(None), &edits), None);
        assert!(takes(&model(Some(Language::C)), &edits));
        let removed = parse("type conn\nremove a\n").unwrap();
        assert!(!takes(&model(None), &removed), "more than a layout");
        for language in [Language::Cpp, Language::Rust] {
            let refused = not_c(&model(Some(language)), &edits).unwrap();
            assert!(!takes(&model(Some(language)), &edits));
            assert_eq!(refused.subject, "conn");
            assert_eq!(refused.source.declared.as_deref(), Some("server.x:7"));
        }
    }
}
