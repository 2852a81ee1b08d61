//! The languages of definitions, and their bodies as the reader of C takes them.
//!
//! [`Dialect::masked`] writes blanks over what C does not know (template arguments, initialisers,
//! types of Rust) and a preprocessor line's place over what is not a data member (methods, access
//! specifiers). Every byte keeps its place, so what is read there is cut out of the original text.

pub(crate) mod cpp;
pub(crate) mod rust;

use std::ops::Range;
use std::path::Path;

use linemate_types::Language;

use crate::lex::{Token, TokenKind, lex};

/// The language of a definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    #[default]
    C,
    Cpp,
    Rust,
}

/// Where a class or struct is defined, in bytes of its file.
#[derive(Clone, Debug)]
pub(crate) struct DefinitionPlace {
    /// The first byte after its attributes.
    pub(crate) start: usize,
    /// Its `class` or `struct`.
    pub(crate) keyword: usize,
    /// The bytes between the braces.
    pub(crate) body: Range<usize>,
}

/// A text of the length of the original.
pub(crate) struct Masked {
    pub(crate) text: String,
    /// What is not a data member: one token each.
    others: Vec<Range<usize>>,
}

impl Dialect {
    /// The dialect of a type in the debug information: a kernel's have no language.
    #[must_use]
    pub fn of(language: Option<Language>) -> Dialect {
        match language {
            Some(Language::Cpp) => Dialect::Cpp,
            Some(Language::Rust) => Dialect::Rust,
            _ => Dialect::C,
        }
    }

    /// Whether a file can have definitions of this language.
    pub(crate) fn reads(self, path: &Path) -> bool {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        match self {
            Dialect::C => matches!(extension, "h" | "c"),
            Dialect::Cpp => {
                is_header(path) || matches!(extension, "c" | "cc" | "cpp" | "cxx" | "C")
            }
            Dialect::Rust => extension == "rs",
        }
    }

    /// The definitions called `name` in the text of a file, in order.
    pub(crate) fn find(self, text: &str, name: &str) -> Vec<DefinitionPlace> {
        match self {
            Dialect::C => Vec::new(),
            Dialect::Cpp => cpp::find(text, name),
            Dialect::Rust => rust::find(text, name),
        }
    }

    /// The body of a definition for the reader of C.
    pub(crate) fn masked(self, body: &str) -> Masked {
        match self {
            Dialect::C => Masked {
                text: body.to_owned(),
                others: Vec::new(),
            },
            Dialect::Cpp => cpp::masked(body),
            Dialect::Rust => rust::masked(body),
        }
    }
}

/// Whether other files include this one.
pub(crate) fn is_header(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str());
    matches!(
        extension,
        Some("h" | "hh" | "hpp" | "hxx" | "inl" | "ipp" | "tpp")
    )
}

impl Masked {
    fn new(original: &str, blanks: &[Range<usize>], others: Vec<Range<usize>>) -> Masked {
        let mut bytes = original.as_bytes().to_vec();
        for (ranges, mask) in [(blanks, b' '), (&others, b'x')] {
            for range in ranges {
                bytes[range.clone()].fill(mask);
            }
        }
        // Ranges are of tokens, so no character is cut; if one were, nothing of the text is read.
        let text = String::from_utf8(bytes).unwrap_or_else(|_| " ".repeat(original.len()));
        Masked { text, others }
    }

    /// The tokens of C, and a preprocessor line for each part that is not a data member.
    pub(crate) fn tokens(&self) -> Vec<Token<'_>> {
        let mut tokens = Vec::new();
        let mut at = 0;
        for other in &self.others {
            tokens.extend(part(&self.text, at..other.start));
            tokens.push(Token {
                kind: TokenKind::Directive,
                text: &self.text[other.clone()],
                start: other.start,
            });
            at = other.end;
        }
        tokens.extend(part(&self.text, at..self.text.len()));
        tokens
    }
}

/// The tokens of a part of a text.
fn part(text: &str, range: Range<usize>) -> impl Iterator<Item = Token<'_>> {
    let start = range.start;
    lex(&text[range]).into_iter().map(move |token| Token {
        start: token.start + start,
        ..token
    })
}
