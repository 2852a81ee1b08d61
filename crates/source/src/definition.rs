//! Finds struct definitions in the text of a file.

use std::ops::Range;

use linemate_types::SourceLine;

use crate::dialect::{DefinitionPlace, Dialect};
use crate::lex::{Token, TokenKind, lex};

/// The definition to search for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sought {
    /// `struct TAG { … }`
    Tag(String),
    /// `typedef struct { … } NAME;`
    Typedef(String),
    /// A struct without a tag whose text has all these words.
    Members(Vec<String>),
    /// A class of C++ or a struct of Rust.
    Item(Item),
}

/// A type of a program in a language with namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub dialect: Dialect,
    /// As the debug information has it: `ns::Ring<int, 8>`.
    pub full_name: String,
    /// As its definition has it: `Ring`.
    pub name: String,
    /// Where it is declared, if the debug information says so.
    pub declared: Option<SourceLine>,
}

impl Item {
    #[must_use]
    pub fn new(dialect: Dialect, full_name: &str, declared: Option<SourceLine>) -> Item {
        let (mut depth, mut plain) = (0_usize, String::new());
        for c in full_name.chars() {
            match c {
                '<' => depth += 1,
                '>' => depth = depth.saturating_sub(1),
                c if depth == 0 => plain.push(c),
                _ => {}
            }
        }
        let name = plain.rsplit("::").next().unwrap_or("").to_owned();
        Item {
            dialect,
            full_name: full_name.to_owned(),
            name,
            declared,
        }
    }

    fn at(&self, text: &str, place: DefinitionPlace) -> Definition {
        Definition {
            tag: Some(self.name.clone()),
            body: place.body,
            after: Vec::new(),
            is_typedef: false,
            line: line_of(text, place.keyword),
            dialect: self.dialect,
        }
    }

    /// Whether the debug information says that it is declared at that place.
    pub(crate) fn is_declared_at(&self, path: &str, line: u32) -> bool {
        let file = |path: &str| path.rsplit('/').next().map(str::to_owned);
        let declared = self.declared.as_ref();
        declared.is_some_and(|at| {
            at.line.is_some_and(|at| at.get() == line) && file(&at.file) == file(path)
        })
    }
}

impl Sought {
    /// A word that a file must contain to be worth reading.
    pub fn needle(&self) -> &str {
        match self {
            Sought::Tag(name) | Sought::Typedef(name) => name,
            Sought::Members(names) => names.first().map_or("", String::as_str),
            Sought::Item(item) => &item.name,
        }
    }

    pub fn dialect(&self) -> Dialect {
        match self {
            Sought::Item(item) => item.dialect,
            _ => Dialect::C,
        }
    }
}

/// A definition's place in its file; all ranges are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    pub tag: Option<String>,
    /// The bytes between the braces.
    pub body: Range<usize>,
    /// Words between the closing brace and the `;`: attributes, the variable or the typedef's name.
    pub after: Vec<String>,
    /// Whether it is a `typedef`.
    pub is_typedef: bool,
    /// The line of `struct`, counted from 1.
    pub line: u32,
    pub dialect: Dialect,
}

/// The line of byte `at`, counted from 1.
pub fn line_of(text: &str, at: usize) -> u32 {
    let lines = memchr::memchr_iter(b'\n', &text.as_bytes()[..at]).count();
    u32::try_from(lines + 1).unwrap_or(u32::MAX)
}

/// All matching definitions in `text`, in order.
pub fn find(text: &str, sought: &Sought) -> Vec<Definition> {
    if let Sought::Item(item) = sought {
        let places = item.dialect.find(text, &item.name).into_iter();
        return places.map(|place| item.at(text, place)).collect();
    }
    let tokens: Vec<Token<'_>> = lex(text)
        .into_iter()
        .filter(Token::is_significant)
        .collect();
    let structs = (0..tokens.len()).filter(|i| tokens[*i].is("struct"));
    let found = structs.filter_map(|at| definition(text, &tokens, at));
    found
        .filter(|definition| matches(text, definition, sought))
        .collect()
}

fn matches(text: &str, definition: &Definition, sought: &Sought) -> bool {
    match sought {
        Sought::Tag(tag) => definition.tag.as_ref() == Some(tag),
        Sought::Typedef(name) => definition.is_typedef && definition.after.contains(name),
        Sought::Members(names) => {
            let words = lex(&text[definition.body.clone()]);
            let has = |name: &String| words.iter().any(|t| t.is_word() && t.text == name);
            definition.tag.is_none() && names.iter().all(has)
        }
        Sought::Item(_) => false,
    }
}

/// What may precede a tag, or a brace without one.
const ATTRIBUTES: [&str; 6] = [
    "__attribute__",
    "__attribute",
    "__packed",
    "__aligned",
    "_Alignas",
    "alignas",
];

/// The definition whose `struct` is token `at`, if it is one.
fn definition(text: &str, tokens: &[Token<'_>], at: usize) -> Option<Definition> {
    let mut words = Vec::new();
    let mut next = at + 1;
    let open = loop {
        let token = tokens.get(next)?;
        match token.text {
            "{" => break next,
            "(" => next = closing(tokens, next)?,
            _ if token.is_word() => words.push(token.text),
            _ => return None,
        }
        next += 1;
    };
    let close = closing(tokens, open)?;
    // By name, because a tag may begin with underscores itself (`struct __call_single_data {`), and
    // there may be none after them (`static struct __packed { … } x;`).
    let mut tags = words.iter().rev().filter(|w| !ATTRIBUTES.contains(*w));
    let tag = tags.next().map(|tag| (*tag).to_owned());
    let end = (close + 1..tokens.len()).find(|i| tokens[*i].is(";") || tokens[*i].is("{"));
    let after = tokens[close + 1..end.unwrap_or(close + 1)].iter();
    let after = after
        .filter(|t| t.is_word())
        .map(|t| t.text.to_owned())
        .collect();
    let before = tokens[..at].iter().rev();
    let is_typedef = before
        .take_while(|t| t.kind == TokenKind::Word)
        .take(4)
        .any(|t| t.text == "typedef");
    let body = tokens[open].end()..tokens[close].start;
    Some(Definition {
        tag,
        body,
        after,
        is_typedef,
        line: line_of(text, tokens[at].start),
        dialect: Dialect::C,
    })
}

fn closing(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0_i64;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" if token.kind == TokenKind::Sign => depth += 1,
            ")" | "]" | "}" if token.kind == TokenKind::Sign => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return Some(i);
        }
    }
    None
}

/// A macro that defines a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InMacro {
    /// Its line, counted from 1.
    pub line: u32,
    /// How many characters of the tag it contains: all, or the longest piece that is pasted to
    /// others.
    pub characters: usize,
}

/// The macros whose replacement defines `struct tag`, or that paste its name together in a struct's
/// definition.
pub fn in_macros(text: &str, tag: &str) -> Vec<InMacro> {
    let mut found = Vec::new();
    for token in lex(text).iter().filter(|t| t.kind == TokenKind::Directive) {
        let replacement = token.text.trim_start_matches(['#', ' ', '\t']);
        let Some(replacement) = replacement.strip_prefix("define") else {
            continue;
        };
        let words: Vec<Token<'_>> = lex(replacement)
            .into_iter()
            .filter(Token::is_significant)
            .collect();
        let whole = words
            .windows(3)
            .any(|w| w[0].is("struct") && w[1].is(tag) && w[2].is("{"));
        let starts = (0..words.len()).filter(|i| words[*i].is("struct"));
        let pasted = starts.filter_map(|at| pasted(&words[at + 1..], tag)).max();
        let characters = match whole {
            true => tag.len(),
            false => pasted.unwrap_or(0),
        };
        if characters > 0 {
            let line = line_of(text, token.start);
            found.push(InMacro { line, characters });
        }
    }
    found
}

/// The characters of the longest piece of `tag` in a name that is pasted together before a brace.
fn pasted(words: &[Token<'_>], tag: &str) -> Option<usize> {
    let name = words.iter().take_while(|w| w.is_word() || w.is("#"));
    let name: Vec<&Token<'_>> = name.collect();
    let defines = words.get(name.len()).is_some_and(|w| w.is("{"));
    let is_pasted = name.iter().any(|w| w.is("#"));
    // The macro's parameter is a piece, too, and mostly one letter, which any tag may have.
    let pieces = name
        .iter()
        .filter(|w| w.is_word() && w.text.len() > 2 && tag.contains(w.text));
    let longest = pieces.map(|w| w.text.len()).max();
    longest.filter(|_| defines && is_pasted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(text: &str, name: &str) -> Vec<(u32, String)> {
        let found = find(text, &Sought::Tag(name.to_owned()));
        found
            .into_iter()
            .map(|d| (d.line, text[d.body].to_owned()))
            .collect()
    }

    #[test]
    fn definitions_and_no_mentions() {
        let text = "struct rq;\n/* struct rq { x } */\nextern struct rq *f(struct rq *);\n\
                    #define A struct rq { int z; }\nstruct rq\n{ int a; struct { int b; } c; } __packed;\n\
                    struct rq x = { 1 };\nstruct rq g(void) { }\n";
        assert_eq!(
            tag(text, "rq"),
            [(5, " int a; struct { int b; } c; ".to_owned())]
        );
        let at = |line, characters| [InMacro { line, characters }];
        assert_eq!(in_macros(text, "rq"), at(4, 2));
        assert_eq!(
            tag("struct __attribute__((aligned(8))) rq { int a; };", "rq").len(),
            1
        );
        for text in [
            "struct __rq { int a; };",
            "struct __packed __rq { int a; };",
        ] {
            assert_eq!(tag(text, "__rq").len(), 1, "{text}");
        }
        assert_eq!(tag("struct a { struct rq { int b; } c; };", "rq").len(), 1);
        assert_eq!(tag("struct rq { int a;", "rq"), []);
        let pasted = "#define M(n) \\\nstruct n##_rq { int a; }\n";
        assert_eq!(in_macros(pasted, "my_rq"), at(1, 3));
        assert_eq!(in_macros(pasted, "queue"), []);
        let pointer = "#define M(n) \\\nint f(struct n##_rq *q) { return 0; }\n";
        assert_eq!(in_macros(pointer, "my_rq"), []);
    }

    #[test]
    fn typedefs_and_variables() {
        let text = "typedef struct {\n\tint a;\n} spin_t;\nstatic struct { int b; int c; } nohz ____cacheline_aligned;\n";
        let found = find(text, &Sought::Typedef("spin_t".to_owned()));
        assert_eq!((found.len(), found[0].line), (1, 1));
        let found = find(text, &Sought::Members(vec!["c".to_owned(), "b".to_owned()]));
        assert_eq!((found.len(), found[0].line), (1, 4));
        assert_eq!(found[0].after, ["nohz", "____cacheline_aligned"]);
        assert_eq!(find(text, &Sought::Typedef("nohz".to_owned())), []);
        let text = "static struct __attribute__((packed)) { int a; } one;\n";
        let found = find(text, &Sought::Members(vec!["a".to_owned()]));
        assert_eq!(found.len(), 1);
    }
}
