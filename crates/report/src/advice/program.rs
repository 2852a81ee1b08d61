//! What advice for a type of a program has to say besides: not every language keeps the order of members that its source has.

use linemate_answers::ProgramSource;
use linemate_types::{Language, TypeId, TypeModel};

/// Of a type; none of a kernel's.
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

/// How the edit gets into the source, in one line.
#[must_use]
pub fn source_advice(source: &ProgramSource) -> String {
    let language = &source.language;
    let place = source
        .declared
        .as_ref()
        .map(|at| format!(", declared in {at}"));
    let place = place.unwrap_or_default();
    let how = if *language == Language::Rust.name() {
        "rustc orders fields itself, so an order needs #[repr(C)]. A line of its own: #[repr(align(64))] or crossbeam's CachePadded, \
         around a field or around what the type is split into. Patches are made for C only."
    } else if *language == Language::Cpp.name() {
        "members keep the order of the source. A line of its own: alignas(std::hardware_destructive_interference_size). \
         Patches are made for C only."
    } else {
        "`linemate patch --source TREE` makes the edit a patch of the program's tree."
    };
    format!("A type of a program in {language}{place}: {how}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use linemate_types::{Composite, CompositeKind, Name, SourceLine, Type};

    use super::*;

    fn source(language: Option<Language>, declared: Option<(&str, u32)>) -> Option<ProgramSource> {
        let composite = Composite {
            language,
            declared: declared.map(|(file, line)| SourceLine {
                file: Name::from(file),
                line,
            }),
            ..Composite::new(CompositeKind::Struct, Name::from("conn"), 0, Vec::new())
        };
        let model = TypeModel::new(vec![Type::Void, Type::Composite(composite)], 8).unwrap();
        program_source(&model, TypeId(1))
    }

    #[test]
    fn a_kernels_type_has_no_language() {
        assert_eq!(source(None, None), None);
    }

    #[test]
    fn each_language_is_told_what_it_has() {
        let c = source(Some(Language::C), Some(("server.c", 7))).unwrap();
        assert!(is_patched(&c));
        assert!(
            source_advice(&c)
                .starts_with("A type of a program in C, declared in server.c:7: `linemate patch"),
            "{}",
            source_advice(&c)
        );
        let cpp = source(Some(Language::Cpp), Some(("server.hpp", 9))).unwrap();
        assert!(!is_patched(&cpp));
        assert!(
            source_advice(&cpp).contains("server.hpp:9"),
            "{}",
            source_advice(&cpp)
        );
        assert!(
            source_advice(&cpp).contains("alignas(std::hardware_destructive_interference_size)")
        );
        let rust = source(Some(Language::Rust), None).unwrap();
        assert!(!is_patched(&rust));
        assert!(
            !source_advice(&rust).contains("declared"),
            "{}",
            source_advice(&rust)
        );
        for word in ["#[repr(C)]", "#[repr(align(64))]", "CachePadded", "split"] {
            assert!(
                source_advice(&rust).contains(word),
                "{word}: {}",
                source_advice(&rust)
            );
        }
    }
}
