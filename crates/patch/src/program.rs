//! Types of programs: their language and place, and which edits can be a patch.

use linemate_answers::ProgramSource;
use linemate_layout::EditFile;
use linemate_source::wanted;
use linemate_types::{TypeId, TypeModel};

/// The language and place of a program's type; none for a kernel's.
#[must_use]
pub fn program_source(model: &TypeModel, id: TypeId) -> Option<ProgramSource> {
    let composite = model.composite(id)?;
    let declared = composite.declared.as_ref();
    Some(ProgramSource {
        language: composite.language?.name().to_owned(),
        declared: declared.map(|at| at.to_string()),
    })
}

/// Whether a patch can make the edits: they concern only layouts.
#[must_use]
pub fn takes(edits: &EditFile) -> bool {
    wanted::check(edits).is_ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::num::NonZeroU32;

    use linemate_layout::parse;
    use linemate_types::{Composite, CompositeKind, Language, Name, SourceLine, Type};

    use super::*;

    fn model(language: Option<Language>) -> TypeModel {
        let composite = Composite {
            language,
            declared: Some(SourceLine {
                file: Name::from("server.x"),
                line: NonZeroU32::new(7),
            }),
            ..Composite::new(CompositeKind::Struct, Name::from("conn"), 0, Vec::new())
        };
        TypeModel::new(vec![Type::Void, Type::Composite(composite)], 8).unwrap()
    }

    #[test]
    fn a_type_of_a_program_has_a_place() {
        assert_eq!(program_source(&model(None), TypeId(1)), None);
        let cpp = program_source(&model(Some(Language::Cpp)), TypeId(1)).unwrap();
        assert_eq!(cpp.language, "C++");
        assert_eq!(cpp.declared.as_deref(), Some("server.x:7"));
        assert!(takes(&parse("type conn\nmove a first\n").unwrap()));
        let removed = parse("type conn\nremove a\n").unwrap();
        assert!(!takes(&removed), "more than a layout");
    }
}
