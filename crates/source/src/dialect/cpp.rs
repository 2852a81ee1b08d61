//! C++: where classes are defined, and which parts of their bodies are data members.
//!
//! It reads tokens, not C++: what it takes for a member and is not, or the reverse, the comparison
//! with the debug information finds, and the compiler has the last word.

use std::ops::Range;

use super::{DefinitionPlace, Masked};
use crate::lex::{Token, TokenKind, lex};

/// Words that begin something other than a data member.
const OTHER_WORDS: [&str; 9] = [
    "using",
    "friend",
    "typedef",
    "static",
    "static_assert",
    "template",
    "operator",
    "explicit",
    "virtual",
];
/// Words before a class's braces that are not its name.
const NOT_NAMES: [&str; 2] = ["final", "alignas"];
const CLASS_WORDS: [&str; 3] = ["struct", "class", "union"];
/// Words between a function's parameters and its body.
const AFTER_PARAMETERS: [&str; 6] = ["const", "noexcept", "override", "final", "try", "mutable"];
/// Words whose parentheses are not parameters.
const CALLED_WORDS: [&str; 5] = [
    "alignas",
    "decltype",
    "__attribute__",
    "__declspec",
    "noexcept",
];

/// Words before those that begin something other than a data member: `inline static int made;`.
const SPECIFIERS: [&str; 4] = ["inline", "constexpr", "constinit", "const"];

/// Tokens of template arguments, or of a class's bases, at most: a text of `<` alone is read in
/// linear time.
const ARGUMENTS_MAX: usize = 1 << 12;

/// The significant tokens of a text.
fn significant(text: &str) -> Vec<Token<'_>> {
    let tokens = lex(text).into_iter();
    tokens.filter(Token::is_significant).collect()
}

/// The definitions of the classes called `name`, in order.
pub(crate) fn find(text: &str, name: &str) -> Vec<DefinitionPlace> {
    let tokens = significant(text);
    // `enum class E` declares an enumeration.
    let is_enum = |at: usize| at > 0 && tokens[at - 1].is("enum");
    let is_start = |at: &usize| CLASS_WORDS.contains(&tokens[*at].text) && !is_enum(*at);
    let starts = (0..tokens.len()).filter(is_start);
    let closings = closings(&tokens);
    starts
        .filter_map(|at| definition(&tokens, &closings, at, name))
        .collect()
}

/// By token, the bracket that closes the one there. Found at once, so that nested brackets take no
/// more time.
pub(crate) fn closings(tokens: &[Token<'_>]) -> Vec<Option<usize>> {
    let mut found = vec![None; tokens.len()];
    let mut open = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => open.push(at),
            ")" | "]" | "}" => {
                if let Some(opens) = open.pop() {
                    found[opens] = Some(at);
                }
            }
            _ => {}
        }
    }
    found
}

/// The definition whose `class` is token `at`, if it is one of that name.
fn definition(
    tokens: &[Token<'_>],
    closings: &[Option<usize>],
    at: usize,
    name: &str,
) -> Option<DefinitionPlace> {
    let mut next = at + 1;
    let mut tag = None;
    let open = loop {
        let token = tokens.get(next)?;
        match token.text {
            "{" => break next,
            "(" | "[" => next = closings[next]?,
            "<" if tag.is_some() => next = angle_end(tokens, next)?,
            ":" if is_pair(tokens, next) => next += 1,
            // Bases: whatever is between here and the brace.
            ":" => {
                let last = tokens.len().min(next + ARGUMENTS_MAX);
                let brace = (next..last).find(|i| matches!(tokens[*i].text, "{" | ";" | ")"));
                break brace.filter(|i| tokens[*i].is("{"))?;
            }
            word if NOT_NAMES.contains(&word) || word.starts_with("__") => {}
            word if CLASS_WORDS.contains(&word) => return None,
            word if token.is_word() => tag = Some(word),
            _ => return None,
        }
        next += 1;
    };
    let close = closings[open].filter(|_| tag == Some(name))?;
    Some(DefinitionPlace {
        start: tokens[at].start,
        keyword: tokens[at].start,
        body: tokens[open].end()..tokens[close].start,
    })
}

/// Whether tokens `at` and the next are one `::`.
pub(crate) fn is_pair(tokens: &[Token<'_>], at: usize) -> bool {
    let next = tokens.get(at + 1);
    tokens[at].is(":") && next.is_some_and(|n| n.is(":") && n.start == tokens[at].end())
}

/// Whether token `at` is a colon of its own.
pub(crate) fn is_colon(tokens: &[Token<'_>], at: usize) -> bool {
    let second = at
        .checked_sub(1)
        .is_some_and(|before| is_pair(tokens, before));
    tokens[at].is(":") && !is_pair(tokens, at) && !second
}

/// The bracket that closes the one at `open`.
pub(crate) fn closing(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match (token.kind, token.text) {
            (TokenKind::Sign, "(" | "[" | "{") => depth += 1,
            (TokenKind::Sign, ")" | "]" | "}") => depth = depth.checked_sub(1)?,
            _ => continue,
        }
        if depth == 0 {
            return Some(i);
        }
    }
    None
}

/// The `>` of the template arguments that begin at `open`; `None` if it is an operator.
fn angle_end(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let tokens = &tokens[..tokens.len().min(open + ARGUMENTS_MAX)];
    let (mut depth, mut at) = (0_usize, open);
    loop {
        match tokens.get(at)?.text {
            "<" => depth += 1,
            ">" => depth -= 1,
            "(" | "[" | "{" => at = closing(tokens, at)?,
            ";" | ")" | "]" | "}" => return None,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
        at += 1;
    }
}

/// The body of a class, with its data members alone.
pub(crate) fn masked(body: &str) -> Masked {
    let tokens = significant(body);
    let (mut blanks, mut others) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        let start = tokens[at].start;
        if let Some(end) = other_end(&tokens, at) {
            others.push(start..with_comment(body, tokens[end - 1].end()));
            at = end;
        } else {
            at = member(&tokens, at, &mut blanks);
        }
    }
    Masked::new(body, &blanks, others)
}

/// The end of what belongs to the line of an item that ends at `end`: the comment behind it.
fn with_comment(body: &str, end: usize) -> usize {
    let mut at = end;
    for token in lex(body[end..].lines().next().unwrap_or("")) {
        match token.kind {
            TokenKind::Blank => {}
            // A comment that continues below has its end there.
            TokenKind::Comment if token.text.starts_with("/*") => {
                let inside = end + token.start + "/*".len();
                at = body[inside..]
                    .find("*/")
                    .map_or(body.len(), |close| inside + close + "*/".len());
            }
            TokenKind::Comment => at = end + token.end(),
            _ => break,
        }
    }
    at
}

/// One past the item at `at`, if that is not a data member.
fn other_end(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    if let Some(end) = label_end(tokens, at) {
        return Some(end);
    }
    let first = tokens[past_specifiers(tokens, at)];
    if first.is("~") || OTHER_WORDS.contains(&first.text) {
        return item_end(tokens, at);
    }
    if let Some(end) = nested_type_end(tokens, at) {
        return Some(end);
    }
    is_function(tokens, at).then(|| item_end(tokens, at))?
}

/// The first token after specifiers and attributes.
fn past_specifiers(tokens: &[Token<'_>], at: usize) -> usize {
    let mut next = at;
    while next + 1 < tokens.len() {
        let is_attribute = tokens[next].is("[") && tokens[next + 1].is("[");
        let attribute = is_attribute.then(|| closing(tokens, next));
        next = match attribute.flatten() {
            Some(close) => close + 1,
            None if SPECIFIERS.contains(&tokens[next].text) => next + 1,
            None => break,
        };
    }
    next.min(tokens.len() - 1)
}

/// One past `public:`.
fn label_end(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    let is_label = matches!(
        tokens[at].text,
        "public" | "protected" | "private" | "signals"
    );
    let colon = (at + 1..tokens.len().min(at + 3)).find(|i| is_colon(tokens, *i))?;
    is_label.then_some(colon + 1)
}

/// One past the definition or declaration of a type that declares no member.
fn nested_type_end(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    let word = tokens[at].text;
    if !CLASS_WORDS.contains(&word) && word != "enum" {
        return None;
    }
    let mut next = at + 1;
    let (mut tagged, mut bases) = (word == "enum", false);
    while let Some(token) = tokens.get(next) {
        match token.text {
            // `struct cell *next{nullptr};`
            "*" | "&" | "=" if !bases => return None,
            ":" => bases = true,
            ";" => {
                // `struct Cell;` declares a type; `struct cell *next;` a member.
                let names = tokens[at + 1..next].iter().filter(|t| t.is_word()).count();
                return (names == 1 && next == at + 2).then_some(next + 1);
            }
            "{" => break,
            "(" | "[" => next = closing(tokens, next)?,
            _ => tagged |= token.is_word() && !NOT_NAMES.contains(&token.text),
        }
        next += 1;
    }
    let close = closing(tokens, next)?;
    let declares = tokens.get(close + 1).is_some_and(|t| !t.is(";"));
    (tagged && !declares).then_some((close + 2).min(tokens.len()))
}

/// Whether the declaration at `at` is a function's: parentheses that are not a pointer's, before
/// any initialiser.
fn is_function(tokens: &[Token<'_>], at: usize) -> bool {
    let mut next = at;
    while let Some(token) = tokens.get(next) {
        match token.text {
            ";" | "=" | "{" | "}" => return false,
            "operator" => return true,
            "[" => match closing(tokens, next) {
                Some(close) => next = close,
                None => return false,
            },
            "<" => next = angle_end(tokens, next).unwrap_or(next),
            "(" => {
                let called = next > at && CALLED_WORDS.contains(&tokens[next - 1].text);
                let Some(close) = closing(tokens, next) else {
                    return false;
                };
                if !called {
                    return !is_pointer(&tokens[next + 1..close]);
                }
                next = close;
            }
            _ => {}
        }
        next += 1;
    }
    false
}

/// Whether these tokens in parentheses are `*name` or `Class::*name`.
fn is_pointer(inside: &[Token<'_>]) -> bool {
    let star = inside
        .iter()
        .position(|t| matches!(t.text, "*" | "&" | "^"));
    star.is_some_and(|star| star == 0 || (star > 1 && is_pair(inside, star - 2)))
}

/// One past a function, or anything else that ends with a semicolon.
fn item_end(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    let (mut next, mut parameters, mut initialises) = (at, false, false);
    while let Some(token) = tokens.get(next) {
        match token.text {
            ";" => return Some(next + 1),
            "}" => return None,
            ":" if parameters && is_colon(tokens, next) => initialises = true,
            "(" | "[" => {
                parameters |= token.is("(");
                next = closing(tokens, next)?;
            }
            "{" => {
                let before = next.checked_sub(1).map(|i| tokens[i])?;
                next = closing(tokens, next)?;
                // `Q() : B<int>{1}, tail{0} {}`: a brace after a member or a base initialises that;
                // the next one is the constructor's body.
                let named = before.is_word() && !AFTER_PARAMETERS.contains(&before.text);
                let is_initialiser = initialises && (named || before.is(">"));
                if parameters && !is_initialiser && !before.is("=") {
                    let semicolon = tokens.get(next + 1).is_some_and(|t| t.is(";"));
                    return Some(next + 1 + usize::from(semicolon));
                }
            }
            _ => {}
        }
        next += 1;
    }
    None
}

/// One past the data member at `at`; `blanks` gets what the reader of C is not to see.
fn member(tokens: &[Token<'_>], at: usize, blanks: &mut Vec<Range<usize>>) -> usize {
    let (mut next, mut defines, mut initialiser) = (at, false, None);
    while let Some(token) = tokens.get(next) {
        let from = token.start;
        match token.text {
            ";" | "," => {
                blanks.extend(initialiser.take().map(|start| start..from));
                if token.is(";") {
                    return next + 1;
                }
            }
            word if CLASS_WORDS.contains(&word) || word == "enum" => defines = true,
            // `struct cell *next{nullptr};` initialises a pointer and defines nothing.
            "*" | "&" if defines => defines = false,
            "=" if initialiser.is_none() => initialiser = Some(from),
            "{" if defines => {
                // Its members are read as this class's are.
                let close = closing(tokens, next).unwrap_or(tokens.len());
                inner(&tokens[next + 1..close], blanks);
                (next, defines) = (close, false);
            }
            "{" => {
                initialiser.get_or_insert(from);
                next = closing(tokens, next).unwrap_or(tokens.len());
            }
            "(" => {
                let close = closing(tokens, next).unwrap_or(tokens.len());
                // `(Class::*name)` is a pointer like `(*name)`.
                let star = (next..close)
                    .find(|i| tokens[*i].is("*") && is_pointer(&tokens[next + 1..close]));
                blanks.extend(star.map(|star| token.end()..tokens[star].start));
                next = close;
            }
            "[" => {
                let close = closing(tokens, next).unwrap_or(tokens.len());
                let attribute = tokens.get(next + 1).is_some_and(|t| t.is("["));
                blanks.extend(
                    tokens
                        .get(close)
                        .filter(|_| attribute)
                        .map(|t| from..t.end()),
                );
                next = close;
            }
            "<" => {
                if let Some(end) = angle_end(tokens, next) {
                    blanks.push(from..tokens[end].end());
                    next = end;
                }
            }
            ":" if is_pair(tokens, next) => {
                blanks.push(from..tokens[next + 1].end());
                next += 1;
            }
            _ => {}
        }
        next += 1;
    }
    tokens.len()
}

/// The members of an anonymous struct or of a type that is defined with its member. What is not a
/// data member there is left to the reader of C.
fn inner(tokens: &[Token<'_>], blanks: &mut Vec<Range<usize>>) {
    // One level: deeper ones are taken as they are.
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            "<" if depth == 0 => {
                let end = angle_end(tokens, at);
                blanks.extend(end.map(|end| token.start..tokens[end].end()));
            }
            ":" if depth == 0 && is_pair(tokens, at) => {
                blanks.push(token.start..tokens[at + 1].end());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Dialect;

    /// The names of the data members, and the first words of the rest.
    fn sketch(body: &str) -> String {
        let nodes = crate::body::read_as(Dialect::Cpp, body).unwrap();
        assert_eq!(nodes.print(), body);
        let others = masked(body).others.into_iter();
        let others: Vec<&str> = others
            .map(|range| body[range].split_whitespace().next().unwrap_or(""))
            .collect();
        format!("{} | {}", nodes.names().join(" "), others.join(" "))
    }

    #[test]
    fn data_members_and_others() {
        for (body, expected) in [
            ("\n\tstd::atomic<long> a{0}, b = 1;\n", "a b | "),
            (
                " public:\n Ring() : head_(0), tail_{0} {}\n private:\n std::atomic<int> head_, tail_;\n",
                "head_ tail_ | public: Ring() private:",
            ),
            (
                "int f() const noexcept { if (a < b) return 1; return 2; }\nint a;",
                "a | int",
            ),
            (
                "std::map<int, std::vector<T>> m;\nstd::function<void(int)> f;\n",
                "m f | ",
            ),
            (
                "void (*fn)(int);\nint (Class::*member)(long);\n",
                "fn member | ",
            ),
            (
                "[[no_unique_address]] Alloc alloc;\nalignas(64) T *const p = nullptr;\n",
                "alloc p | ",
            ),
            (
                "struct Cell {\n int f();\n T data;\n};\nenum class E { A, B };\nstruct Fwd;\nCell *c;",
                "c | struct enum struct",
            ),
            (
                "union { int a; std::atomic<int> b; };\nunsigned x : 3 = 1, y : 2;",
                "a b x y | ",
            ),
            (
                "template <class U> void f(U u) { }\nusing T = int;\nstatic int s;\nfriend class X;\nint z;",
                "z | template using static friend",
            ),
            (
                "T &ref;\nbool operator==(const A &) const = default;\n~A();\nvirtual void g() = 0;\nchar pad[64 - sizeof(int)];",
                "ref pad | bool ~A(); virtual",
            ),
            (
                "auto f() -> std::vector<int> { return {}; }\nint q = g<int>(1, 2);\nlong n = 1'000;",
                "q n | auto",
            ),
            (
                "A(int x) : a_{x}, b_(x)\n{\n}\nint a_; // of A\n",
                "a_ | A(int",
            ),
            (
                "inline static int made = 0;\nconstexpr static int N = 4;\n[[maybe_unused]] static int s;\nconst int c = N;",
                "c | inline constexpr [[maybe_unused]]",
            ),
            ("void f(); /* of\n f */\nint a;", "a | void"),
            (
                "struct node *next{nullptr}, *last = {};\nstruct D : B<int *> { int d; };\nint z;",
                "next last z | struct",
            ),
        ] {
            assert_eq!(sketch(body), expected, "{body}");
        }
    }

    #[test]
    fn classes_and_no_mentions() {
        let text = "class Q;\nenum class Q { A };\ntemplate <class Q> struct X;\nQ f(class Q &);\n\
                    namespace n { template <typename T> class alignas(64) Q final : public B<T>, C {\n T a; }; }\n\
                    struct Y { struct Q { int b; } q; };\ntemplate <> class Q<int> { int c; };\n";
        let found = find(text, "Q");
        let bodies: Vec<&str> = found
            .iter()
            .map(|place| text[place.body.clone()].trim())
            .collect();
        assert_eq!(bodies, ["T a;", "int b;", "int c;"]);
    }

    #[test]
    fn unclosed_classes_take_linear_time() {
        for part in ["struct Q {", "struct Q : ", "struct Q <(", "struct "] {
            assert!(find(&part.repeat(200_000), "Q").is_empty());
        }
    }
}
