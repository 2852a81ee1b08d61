//! What advice for a type of a program adds: not every language keeps the order of members that its source has.

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
        "Rust" => {
            "rustc orders fields itself, so an order needs #[repr(C)]. A line of its own: #[repr(align(64))] or crossbeam's CachePadded, \
         around a field or around what the type is split into. Patches are made for C only."
        }
        "C++" => {
            "members keep the order of the source. A line of its own: alignas(std::hardware_destructive_interference_size). \
         Patches are made for C only."
        }
        _ => "`linemate patch --source TREE` makes the edit a patch of the program's tree.",
    };
    format!("A type of a program in {language}{place}: {how}")
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
        let c = advice(Language::C, Some("server.c:7"));
        assert!(
            c.starts_with("A type of a program in C, declared in server.c:7: `linemate patch"),
            "{c}"
        );
        let cpp = advice(Language::Cpp, Some("server.hpp:9"));
        assert!(cpp.contains("server.hpp:9"), "{cpp}");
        assert!(cpp.contains("alignas(std::hardware_destructive_interference_size)"));
        let rust = advice(Language::Rust, None);
        assert!(!rust.contains("declared"), "{rust}");
        for word in ["#[repr(C)]", "#[repr(align(64))]", "CachePadded", "split"] {
            assert!(rust.contains(word), "{word}: {rust}");
        }
    }
}
