//! What advice for a type of a program has to say besides: not every language keeps the order of members that its source has.

use linemate_types::{Language, TypeId, TypeModel};
use serde::{Deserialize, Serialize};

/// What a program's type is written in, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramSource {
    /// `C`, `C++` or `Rust`.
    pub language: String,
    /// `FILE:LINE`, if the debug information says it: rustc does not for all types.
    pub declared: Option<String>,
}

impl ProgramSource {
    /// Of a type; none of a kernel's.
    #[must_use]
    pub fn of(model: &TypeModel, id: TypeId) -> Option<ProgramSource> {
        let composite = model.composite(id)?;
        let declared = composite.declared.as_ref();
        Some(ProgramSource {
            language: composite.language?.name().to_owned(),
            declared: declared.map(|at| format!("{}:{}", at.file, at.line)),
        })
    }

    /// Whether `linemate patch` rewrites it.
    #[must_use]
    pub fn is_patched(&self) -> bool {
        self.language == Language::C.name()
    }

    /// How the edit gets into the source, in one line.
    #[must_use]
    pub fn advice(&self) -> String {
        let language = &self.language;
        let place = self
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
}
