//! Reads one member declaration: which names it declares, where it can be split, which alignment it
//! requests.
//!
//! Macros are not expanded, so position, and if needed spelling, decides what is a name and what an
//! attribute: attributes start with two underscores or are all capitals. Mistakes are found later,
//! when the names are compared with the recorded kernel's, or by the compiler.

mod declarator;
mod deep;
mod words;

use std::ops::Range;

use crate::body::{self, Body, BodyError};
use crate::dialect::{Dialect, rust};
use crate::lex::{Token, TokenKind, lex};
use declarator::declarators;
use deep::{Deep, close, deepen};
use words::{TAG_WORDS, is_attribute_like};

pub use declarator::Declarator;
pub(crate) use words::{is_call_word, is_type_word};

/// What a declaration is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclarationShape {
    /// `int a, *b;`, also `struct { … } a;`. Without a declarator it declares nothing itself (a
    /// `struct T { … };`, or `;`).
    Plain(Vec<Declarator>),
    /// `union { … };`: its members are the enclosing type's.
    Anonymous(Body),
    /// `DECLARE_BITMAP(a, 8);` or a macro without arguments: the words in it.
    Macro(Vec<String>),
    /// A preprocessor line cuts through it.
    Torn,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    pub shape: DeclarationShape,
    /// One past the specifiers: `int` in `int a, b;`.
    pub specifier: usize,
    /// Whether the specifiers define a type in braces, or what is between commas is not understood:
    /// then it cannot be split.
    pub defines_type: bool,
    pub dialect: Dialect,
}

/// What requests a start on a line of the machine.
pub const LINE_ALIGNMENTS: [&str; 4] = [
    "____cacheline_aligned",
    "____cacheline_aligned_in_smp",
    "____cacheline_internodealigned_in_smp",
    "_Alignas(SMP_CACHE_BYTES)",
];

impl Declaration {
    /// Reads the text of a member in a language.
    ///
    /// # Errors
    /// If braces in it contain something other than a list of members.
    pub(crate) fn of(dialect: Dialect, text: &str, depth: usize) -> Result<Declaration, BodyError> {
        match dialect {
            Dialect::C => Declaration::read(text, depth),
            Dialect::Cpp => {
                let masked = dialect.masked(text).text;
                let mut declaration = Declaration::read(&masked, depth)?;
                with_initialisers(&mut declaration, text, &masked);
                declaration.dialect = dialect;
                Ok(declaration)
            }
            Dialect::Rust => Ok(Declaration {
                shape: DeclarationShape::Plain(vec![Declarator {
                    name: rust::field_name(text),
                    range: 0..text.len(),
                    bits: false,
                }]),
                specifier: 0,
                defines_type: true,
                dialect,
            }),
        }
    }

    /// Reads the text of a declaration, from its first word to its `;`.
    ///
    /// # Errors
    /// If braces in it contain something other than a list of members.
    pub fn read(text: &str, depth: usize) -> Result<Declaration, BodyError> {
        let tokens = lex(text);
        let mut open = 0_i64;
        for token in &tokens {
            match token.text {
                "{" | "(" => open += 1,
                "}" | ")" => open -= 1,
                _ if token.kind == TokenKind::Directive && open == 0 => {
                    return Ok(Declaration::bare(DeclarationShape::Torn));
                }
                _ => {}
            }
        }
        let mut deep = deepen(&tokens);
        if deep.last().is_some_and(|d| d.token.is(";")) {
            deep.pop();
        }
        if let Some(words) = macro_words(&deep) {
            return Ok(Declaration::bare(DeclarationShape::Macro(words)));
        }
        // Conditions within braces belong to the inner type; within parentheses only a macro that
        // moves whole can have them.
        if has_inner_directive(&tokens) {
            return Ok(Declaration::bare(DeclarationShape::Torn));
        }
        let open = deep.iter().position(|d| d.depth == 0 && d.token.is("{"));
        let after = open.map_or(0, |open| close(&deep, open));
        let declarators = declarators(&deep, after);
        let specifier = declarators.specifier;
        let tagged = open.is_some_and(|open| has_tag(&deep[..open]));
        let is_enum = deep.iter().any(|d| d.depth == 0 && d.token.is("enum"));
        if let Some(open) = open {
            if declarators.found.is_empty() && !tagged && !is_enum {
                let (from, to) = (deep[open].token.end(), deep[after - 1].token.start);
                let inner = body::read(text.get(from..to).unwrap_or(""), depth + 1)?;
                let shape = DeclarationShape::Anonymous(inner);
                return Ok(Declaration {
                    shape,
                    specifier,
                    defines_type: true,
                    dialect: Dialect::C,
                });
            }
        }
        Ok(Declaration {
            shape: DeclarationShape::Plain(declarators.found),
            specifier,
            defines_type: open.is_some() || declarators.unread,
            dialect: Dialect::C,
        })
    }

    fn bare(shape: DeclarationShape) -> Declaration {
        Declaration {
            shape,
            specifier: 0,
            defines_type: false,
            dialect: Dialect::C,
        }
    }

    /// The names that it gives the enclosing type's members, including those of anonymous structs
    /// and unions; for a macro all words in it.
    pub fn names(&self) -> Vec<String> {
        match &self.shape {
            DeclarationShape::Plain(declarators) => {
                declarators.iter().filter_map(|d| d.name.clone()).collect()
            }
            DeclarationShape::Anonymous(body) => body.names(),
            DeclarationShape::Macro(words) => words.clone(),
            DeclarationShape::Torn => Vec::new(),
        }
    }

    /// Whether it consists only of unnamed bit-fields.
    pub fn is_nameless_bits(&self) -> bool {
        match &self.shape {
            DeclarationShape::Plain(declarators) => {
                !declarators.is_empty() && declarators.iter().all(|d| d.bits && d.name.is_none())
            }
            _ => false,
        }
    }

    /// Whether everything it declares are bit-fields.
    pub fn is_bits(&self) -> bool {
        match &self.shape {
            DeclarationShape::Plain(declarators) => {
                !declarators.is_empty() && declarators.iter().all(|d| d.bits)
            }
            _ => false,
        }
    }
}

/// Extends declarators to their initialisers, which the reader of C has not seen.
fn with_initialisers(declaration: &mut Declaration, text: &str, masked: &str) {
    let DeclarationShape::Plain(declarators) = &mut declaration.shape else {
        return;
    };
    for declarator in declarators {
        let from = declarator.range.end;
        let rest = masked.get(from..).unwrap_or("");
        let blank = rest.len() - rest.trim_start_matches(' ').len();
        let initialiser = text.get(from..from + blank);
        declarator.range.end = from + initialiser.map_or(0, |text| text.trim_end().len());
    }
}

/// Whether a preprocessor line is in parentheses outside braces.
fn has_inner_directive(tokens: &[Token<'_>]) -> bool {
    let (mut braces, mut parens) = (0_i64, 0_i64);
    tokens.iter().any(|token| {
        match token.text {
            "{" => braces += 1,
            "}" => braces -= 1,
            "(" if braces == 0 => parens += 1,
            ")" if braces == 0 => parens -= 1,
            _ => {}
        }
        token.kind == TokenKind::Directive && braces == 0 && parens > 0
    })
}

/// Whether a tag is between `struct` and its brace.
fn has_tag(before: &[Deep<'_>]) -> bool {
    let keyword = before
        .iter()
        .rposition(|d| d.depth == 0 && TAG_WORDS.contains(&d.token.text));
    let words = before[keyword.map_or(0, |k| k + 1)..].iter();
    words
        .filter(|d| d.depth == 0 && d.token.is_word())
        .any(|d| !is_attribute_like(d.token.text) && !is_call_word(d.token.text))
}

/// The words in a macro that replaces a declaration; `None` if it is not one.
fn macro_words(deep: &[Deep<'_>]) -> Option<Vec<String>> {
    let first = deep.first()?.token;
    if !first.is_word() || is_type_word(first.text) || is_call_word(first.text) {
        return None;
    }
    let Some(second) = deep.get(1) else {
        return Some(vec![first.text.to_owned()]);
    };
    // `foo_t (*fn)(int);` is a member of type `foo_t`.
    let pointer = deep
        .get(2)
        .is_some_and(|d| d.token.is("*") || d.token.is("^"));
    if !second.token.is("(") || pointer {
        return None;
    }
    let mut at = close(deep, 1);
    let inside = &deep[2..at.max(3) - 1];
    while let Some(d) = deep.get(at) {
        if !d.token.is_word() || !is_attribute_like(d.token.text) {
            return None;
        }
        at += 1;
        if deep.get(at).is_some_and(|d| d.token.is("(")) {
            at = close(deep, at);
        }
    }
    let mut words: Vec<String> = inside
        .iter()
        .filter(|d| d.token.is_word())
        .map(|d| d.token.text.to_owned())
        .collect();
    // The kernel's __cacheline_group_begin(G) declares a member of that name.
    if let Some(only) = words.first().filter(|_| words.len() == 1).cloned() {
        words.push(format!("{}__{only}", first.text));
    }
    words.dedup();
    Some(words)
}

/// A declaration of one name: `char` and `b` of `char*a, b;` need a blank that was not there.
pub(crate) fn joined(specifier: &str, declarator: &str) -> String {
    let word =
        |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_' || !c.is_ascii());
    let touch = word(specifier.chars().next_back()) && word(declarator.chars().next());
    let blank = if touch { " " } else { "" };
    format!("{specifier}{blank}{declarator};")
}

/// Where a declaration requests an alignment, outside braces: the attribute with the blanks before
/// it.
pub fn alignments(text: &str) -> Vec<Range<usize>> {
    let tokens = lex(text);
    let deep = deepen(&tokens);
    let mut found = Vec::new();
    for (i, d) in deep
        .iter()
        .enumerate()
        .filter(|(_, d)| d.depth == 0 && d.token.is_word())
    {
        let group = deep
            .get(i + 1)
            .filter(|d| d.token.is("("))
            .map(|_| close(&deep, i + 1));
        let words = |group: usize| {
            deep[i + 1..group]
                .iter()
                .any(|d| matches!(d.token.text, "aligned" | "__aligned__"))
        };
        let end = match (d.token.text, group) {
            (word, _) if LINE_ALIGNMENTS.contains(&word) => i + 1,
            ("__aligned" | "alignas" | "_Alignas", Some(group)) => group,
            ("__attribute__" | "__attribute", Some(group)) if words(group) => group,
            _ => continue,
        };
        let start = text[..d.token.start].trim_end_matches([' ', '\t']).len();
        found.push(start..deep[end - 1].token.end());
    }
    found
}

/// Whether a declaration requests to start on a line of the machine.
pub fn starts_line(text: &str) -> bool {
    alignments(text)
        .into_iter()
        .any(|range| LINE_ALIGNMENTS.contains(&text[range].trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        Declaration::read(text, 0).unwrap().names()
    }

    fn texts(text: &str) -> (String, Vec<String>) {
        let declaration = Declaration::read(text, 0).unwrap();
        let DeclarationShape::Plain(declarators) = &declaration.shape else {
            panic!("{declaration:?}")
        };
        let pieces = declarators
            .iter()
            .map(|d| text[d.range.clone()].to_owned())
            .collect();
        (text[..declaration.specifier].to_owned(), pieces)
    }

    #[test]
    fn names_among_types_and_attributes() {
        for (text, name) in [
            ("raw_spinlock_t\t\t__lock;", "__lock"),
            ("unsigned int __state;", "__state"),
            ("u64 clock_task ____cacheline_aligned;", "clock_task"),
            (
                "struct uclamp_rq uclamp[UCLAMP_CNT] ____cacheline_aligned;",
                "uclamp",
            ),
            ("struct task_struct __rcu *curr;", "curr"),
            ("struct perf_domain __rcu * const pd;", "pd"),
            ("struct foo *p __counted_by(n);", "p"),
            ("u8 key[] __aligned(8);", "key"),
            ("u8 KEY;", "KEY"),
            ("struct mutex lock ____cacheline_aligned_in_smp;", "lock"),
            ("int (*fn)(int a, void (*b)(int));", "fn"),
            ("void (*(*table)(int))(char);", "table"),
            ("void (*ops[4])(void);", "ops"),
            ("int (*grid)[4];", "grid"),
            ("typeof(int) x;", "x"),
            ("__typeof__(y) *x __packed;", "x"),
            ("_Alignas(64) long z;", "z"),
            ("__attribute__((aligned(8))) long z;", "z"),
            ("unsigned long flags:4;", "flags"),
            ("u8 KERNEL_ALIGN flag ALIGNED;", "flag"),
            ("const struct sched_class *sched_class;", "sched_class"),
            ("struct { int a; } removed;", "removed"),
            (
                "struct inner { int a; } removed ____cacheline_aligned;",
                "removed",
            ),
            ("enum { A, B } kind;", "kind"),
            ("__u64 __bpf_md_ptr;", "__bpf_md_ptr"),
            ("unsigned long long\tlast;", "last"),
        ] {
            assert_eq!(names(text), [name], "{text}");
        }
    }

    #[test]
    fn declarations_without_a_name_of_their_own() {
        assert_eq!(names("unsigned int :5;"), Vec::<String>::new());
        assert!(
            Declaration::read("unsigned :0;", 0)
                .unwrap()
                .is_nameless_bits()
        );
        assert_eq!(names(";"), Vec::<String>::new());
        assert_eq!(names("struct tag { int a; };"), Vec::<String>::new());
        let union = "union { struct { int a, b; }; long c ____cacheline_aligned; } __packed;";
        assert_eq!(names(union), ["a", "b", "c"]);
    }

    #[test]
    fn macros_give_their_words() {
        assert_eq!(
            names("DECLARE_BITMAP(mask, 8);"),
            ["mask", "DECLARE_BITMAP__mask"]
        );
        assert_eq!(
            names("DECLARE_BITMAP(mask, N) __aligned(8);"),
            ["mask", "N"]
        );
        assert_eq!(
            names("struct_group(key, int a; int b;);"),
            ["key", "int", "a", "int", "b"]
        );
        assert_eq!(
            names("randomized_struct_fields_start"),
            ["randomized_struct_fields_start"]
        );
        let group = names("__cacheline_group_begin(hot);");
        assert_eq!(group, ["hot", "__cacheline_group_begin__hot"]);
        assert_eq!(names("foo_t (*fn)(int);"), ["fn"]);
    }

    #[test]
    fn where_declarations_split() {
        let (specifier, pieces) = texts("unsigned long\ta, *b[2] __packed, (*c)(int), d:3;");
        assert_eq!(specifier, "unsigned long");
        assert_eq!(pieces, ["a", "*b[2] __packed", "(*c)(int)", "d:3"]);
        let (specifier, pieces) = texts("struct foo __rcu *a, **b;");
        assert_eq!(
            (specifier.as_str(), pieces.join("|")),
            ("struct foo __rcu", "*a|**b".to_owned())
        );
        let unread = Declaration::read("i, nte *f, 7;", 0).unwrap();
        assert_eq!(
            (unread.names(), unread.defines_type),
            (vec!["f".to_owned()], true)
        );
        let (specifier, pieces) = texts("unsigned a:1, :0, b:2;");
        assert_eq!(
            (specifier.as_str(), pieces.join("|")),
            ("unsigned", "a:1|:0|b:2".to_owned())
        );
    }

    #[test]
    fn declarators_have_their_initialisers() {
        let text = "std::atomic<int> a{ 0 }, b = 1, c;";
        let read = Declaration::of(Dialect::Cpp, text, 0).unwrap();
        let DeclarationShape::Plain(declarators) = read.shape else {
            panic!("{read:?}")
        };
        let texts: Vec<&str> = declarators.iter().map(|d| &text[d.range.clone()]).collect();
        assert_eq!(texts, ["a{ 0 }", "b = 1", "c"]);
    }

    #[test]
    fn torn_declarations_are_reported() {
        let torn = Declaration::read("int a\n#ifdef X\n, b\n#endif\n;", 0).unwrap();
        assert_eq!(torn.shape, DeclarationShape::Torn);
        let inside = Declaration::read("struct {\n#ifdef X\nint b;\n#endif\nint c;};", 0).unwrap();
        assert_eq!(inside.names(), ["b", "c"]);
        let group = Declaration::read("G(k,\nint a;\n#ifdef X\nint b;\n#endif\n);", 0).unwrap();
        assert_eq!(group.names(), ["k", "int", "a", "int", "b"]);
        let typed = Declaration::read("int a M(\n#ifdef X\n1\n#endif\n);", 0).unwrap();
        assert_eq!(typed.shape, DeclarationShape::Torn);
    }

    #[test]
    fn asked_alignments() {
        let found = |text: &str| {
            alignments(text)
                .into_iter()
                .map(|r| text[r].to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            found("u64 a ____cacheline_aligned;"),
            [" ____cacheline_aligned"]
        );
        assert_eq!(
            found("u64 a\t__attribute__((aligned(64), packed));"),
            ["\t__attribute__((aligned(64), packed))"]
        );
        assert_eq!(found("alignas(64) int a;"), ["alignas(64)"]);
        assert_eq!(
            found("struct { int a __aligned(8); } b __packed;"),
            Vec::<String>::new()
        );
        assert!(starts_line("u64 a ____cacheline_aligned;"));
        assert!(!starts_line("u64 a __aligned(64);"));
    }
}
