//! Words of C and of the kernel, by what they mean in a declaration.

const TYPE_WORDS: [&str; 14] = [
    "void",
    "char",
    "short",
    "int",
    "long",
    "float",
    "double",
    "signed",
    "unsigned",
    "_Bool",
    "__signed__",
    "__int128",
    "bool",
    "typeof",
];
pub(super) const TAG_WORDS: [&str; 3] = ["struct", "union", "enum"];
/// Words that neither form a type nor are a name.
pub(super) const QUALIFIERS: [&str; 16] = [
    "const",
    "volatile",
    "restrict",
    "_Atomic",
    "static",
    "__rcu",
    "__user",
    "__percpu",
    "__iomem",
    "__kernel",
    "__force",
    "__private",
    "__bitwise",
    "__packed",
    "__extension__",
    "__restrict",
];
/// Words that are not macros although a parenthesis follows them.
const CALL_WORDS: [&str; 10] = [
    "typeof",
    "__typeof__",
    "__typeof",
    "typeof_unqual",
    "_Atomic",
    "__attribute__",
    "__attribute",
    "_Alignas",
    "alignas",
    "__aligned",
];
/// Whether `word` is a word of C itself that can start or make up a type.
pub(crate) fn is_type_word(word: &str) -> bool {
    TYPE_WORDS.contains(&word) || TAG_WORDS.contains(&word) || QUALIFIERS.contains(&word)
}

/// Whether a parenthesis after `word` does not make it a declaring macro.
pub(crate) fn is_call_word(word: &str) -> bool {
    CALL_WORDS.contains(&word)
}

/// Whether `word` is spelled like an attribute.
pub(super) fn is_attribute_like(word: &str) -> bool {
    word.starts_with("__") || (word.len() > 1 && !word.contains(|c: char| c.is_ascii_lowercase()))
}
