//! What advice for a type of a program adds: not every language keeps the order of members that its
//! source has.

use linemate_answers::ProgramSource;

/// How the edit gets into the source, in one line.
#[must_use]
pub fn source_advice(source: &ProgramSource) -> String {
    let place = source
        .declared
        .as_ref()
        .map(|at| format!(", declared in {at}"));
    let place = place.unwrap_or_default();
    let language = source.language.as_str();
    let how = match language {
        "Rust" => " Rust aligns types, and orders fields only with #[repr(C)].",
        _ => "",
    };
    format!(
        "A type of a program in {language}{place}: `linemate patch --source TREE` makes the edit a patch of the program's tree.{how}"
    )
}

#[cfg(test)]
mod tests {
    use linemate_types::Language;

    use super::*;

    fn advice(language: Language, declared: Option<&str>) -> String {
        source_advice(&ProgramSource {
            language: language.name().to_owned(),
            declared: declared.map(str::to_owned),
        })
    }

    #[test]
    fn each_language_has_advice_of_its_own() {
        let cpp = advice(Language::Cpp, Some("server.hpp:9"));
        assert!(
            cpp.starts_with(
                "A type of a program in C++, declared in server.hpp:9: `linemate patch"
            ),
            "{cpp}"
        );
        let rust = advice(Language::Rust, None);
        assert!(!rust.contains("declared"), "{rust}");
        assert!(
            rust.contains("#[repr(C)]") && !cpp.contains("repr"),
            "{rust}"
        );
    }
}
