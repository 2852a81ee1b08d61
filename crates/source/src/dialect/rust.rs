//! Rust: where structs are defined, their fields, and what they ask of their layout.
//!
//! The tokens are those of proc-macro2. Groups are visited from a list, so nesting costs no stack.

use std::ops::Range;
use std::str::FromStr;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::{DefinitionPlace, Masked};

/// A struct in the text of a file.
pub(crate) struct RustStruct {
    pub(crate) name: String,
    pub(crate) place: DefinitionPlace,
    /// What is in the parentheses of `#[repr(…)]`.
    repr: Option<Range<usize>>,
    /// Whether fields have the order of the source.
    pub(crate) is_repr_c: bool,
    /// Whether comparisons follow the order of the source.
    pub(crate) is_compared: bool,
    pub(crate) is_tuple: bool,
    pub(crate) fields: Vec<RustField>,
}

pub(crate) struct RustField {
    /// As the debug information has it: `__0` for the first of a tuple.
    pub(crate) name: String,
    /// From its visibility to its comma, which the last one may lack.
    range: Range<usize>,
    /// Before `range`, without doc comments.
    attributes: Vec<Range<usize>>,
    has_comma: bool,
    /// Whether `#[cfg(…)]` can remove it.
    pub(crate) is_conditional: bool,
    pub(crate) type_range: Range<usize>,
}

/// The structs called `name`, in the order of the text; none if the text is not Rust.
pub(crate) fn items(text: &str, name: &str) -> Vec<RustStruct> {
    let mut found = Vec::new();
    let mut streams: Vec<TokenStream> = TokenStream::from_str(text).into_iter().collect();
    while let Some(stream) = streams.pop() {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        for at in 0..trees.len() {
            found.extend(item(text, &trees, at, name));
            if let TokenTree::Group(group) = &trees[at] {
                streams.push(group.stream());
            }
        }
    }
    found.sort_by_key(|item: &RustStruct| item.place.start);
    found
}

pub(crate) fn find(text: &str, name: &str) -> Vec<DefinitionPlace> {
    let items = items(text, name).into_iter();
    items.map(|item| item.place).collect()
}

pub(crate) fn is_word(tree: Option<&TokenTree>, word: &str) -> bool {
    matches!(tree, Some(TokenTree::Ident(ident)) if ident == word)
}

pub(crate) fn is_sign(tree: Option<&TokenTree>, sign: char) -> bool {
    matches!(tree, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

/// The struct whose keyword is tree `at`, if it is one of that name.
fn item(text: &str, trees: &[TokenTree], at: usize, name: &str) -> Option<RustStruct> {
    if !is_word(trees.get(at), "struct") || !is_word(trees.get(at + 1), name) {
        return None;
    }
    let body = body(&trees[at + 2..])?;
    let is_tuple = body.delimiter() == Delimiter::Parenthesis;
    let visibility = trees[..at].iter().rposition(|tree| !is_visibility(tree));
    let first = visibility.map_or(0, |last| last + 1);
    let attributes: Vec<&Group> = attributes(text, &trees[..first]).collect();
    let reprs: Vec<Group> = attributes.iter().filter_map(|group| repr(group)).collect();
    let start = trees[first].span().byte_range().start;
    Some(RustStruct {
        is_repr_c: reprs.iter().any(|repr| has_word(&text[inside(repr)], "C")),
        is_compared: attributes
            .iter()
            .any(|group| has_word(&text[inside(group)], "PartialOrd")),
        repr: reprs.first().map(inside),
        is_tuple,
        fields: fields(
            text,
            &body.stream().into_iter().collect::<Vec<_>>(),
            is_tuple,
        ),
        name: name.to_owned(),
        place: DefinitionPlace {
            start,
            keyword: trees[at].span().byte_range().start,
            body: inside(body),
        },
    })
}

/// Whether a word is in an attribute, however deep: `cfg_attr(x, derive(…))`.
fn has_word(attribute: &str, word: &str) -> bool {
    let mut words = attribute.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|one| one == word)
}

/// The fields of a struct, from what follows its name.
fn body(trees: &[TokenTree]) -> Option<&Group> {
    let (mut depth, mut bounds) = (0_i64, false);
    for (at, tree) in trees.iter().enumerate() {
        // The `>` of `->` closes nothing.
        let is_arrow = at > 0 && is_sign(trees.get(at - 1), '-');
        depth += i64::from(is_sign(Some(tree), '<'));
        depth -= i64::from(is_sign(Some(tree), '>') && !is_arrow);
        bounds |= is_word(Some(tree), "where");
        match tree {
            TokenTree::Group(group) if depth <= 0 => match group.delimiter() {
                // Those of a constant generic argument are within `<…>`.
                Delimiter::Brace => return Some(group),
                // After `where` they are a bound's: `F: Fn(u8)`.
                Delimiter::Parenthesis if !bounds => return Some(group),
                _ => {}
            },
            tree if is_sign(Some(tree), ';') => return None,
            _ => {}
        }
    }
    None
}

/// `pub`, and what is in parentheses after it.
fn is_visibility(tree: &TokenTree) -> bool {
    match tree {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => {
            let first = group.stream().into_iter().next();
            ["crate", "self", "super", "in"]
                .iter()
                .any(|word| is_word(first.as_ref(), word))
        }
        // What else is in parentheses is a field of a tuple.
        tree => is_word(Some(tree), "pub"),
    }
}

/// What is between a group's delimiters.
fn inside(group: &Group) -> Range<usize> {
    group.span_open().byte_range().end..group.span_close().byte_range().start
}

/// The attributes at the end of these trees, the last first; comments are not.
fn attributes<'t>(text: &'t str, trees: &'t [TokenTree]) -> impl Iterator<Item = &'t Group> {
    let pairs = trees.rchunks_exact(2).map_while(|pair| match pair {
        [sign, TokenTree::Group(group)] if is_sign(Some(sign), '#') => Some((sign, group)),
        _ => None,
    });
    // proc-macro2 gives a doc comment as an attribute, too, whose sign is not in the text.
    pairs
        .filter(|(sign, _)| text[sign.span().byte_range().start..].starts_with('#'))
        .map(|(_, group)| group)
}

/// The parentheses of `[repr(…)]`.
fn repr(attribute: &Group) -> Option<Group> {
    let mut trees = attribute.stream().into_iter();
    let is_repr = is_word(trees.next().as_ref(), "repr");
    match trees.next() {
        Some(TokenTree::Group(group)) if is_repr => Some(group),
        _ => None,
    }
}

/// The fields among the trees in a struct's braces or parentheses.
fn fields(text: &str, trees: &[TokenTree], is_tuple: bool) -> Vec<RustField> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < trees.len() {
        let end = field_end(trees, at);
        let one = &trees[at..end.unwrap_or(trees.len())];
        found.extend(field(
            text,
            one,
            is_tuple.then_some(found.len()),
            end.map(|end| &trees[end]),
        ));
        at = end.map_or(trees.len(), |end| end + 1);
    }
    found
}

/// The comma that ends the field that begins at `from`: one outside of `<…>`.
fn field_end(trees: &[TokenTree], from: usize) -> Option<usize> {
    let mut depth = 0_i64;
    for at in from..trees.len() {
        let tree = trees.get(at);
        let is_arrow = at > from && is_sign(trees.get(at - 1), '-');
        depth += i64::from(is_sign(tree, '<'));
        depth -= i64::from(is_sign(tree, '>') && !is_arrow);
        if depth <= 0 && is_sign(tree, ',') {
            return Some(at);
        }
    }
    None
}

/// The field of these trees, without its comma; of a tuple with its number.
fn field(
    text: &str,
    trees: &[TokenTree],
    number: Option<usize>,
    comma: Option<&TokenTree>,
) -> Option<RustField> {
    let is_attribute = |at: &usize| is_sign(trees.get(*at), '#');
    // An attribute is two trees: its sign and its brackets.
    let from = (0..trees.len()).step_by(2).find(|at| !is_attribute(at))?;
    let named = trees[from..].iter().position(|tree| !is_visibility(tree))? + from;
    // After the name and its colon.
    let typed = trees.get(if number.is_some() { named } else { named + 2 });
    let place = |tree: &TokenTree| tree.span().byte_range();
    let (start, end) = (place(trees.get(from)?).start, place(trees.last()?).end);
    let is_comment = |at: usize| !text[place(&trees[at]).start..].starts_with('#');
    let own: Vec<usize> = (0..from).step_by(2).filter(|at| !is_comment(*at)).collect();
    Some(RustField {
        name: match number {
            Some(number) => format!("__{number}"),
            None => plain_name(trees.get(named)?)?,
        },
        range: start..comma.map_or(end, |comma| place(comma).end),
        attributes: own
            .iter()
            .map(|at| place(&trees[*at]).start..place(&trees[*at + 1]).end)
            .collect(),
        is_conditional: own.iter().any(|at| is_cfg(&trees[*at + 1])),
        has_comma: comma.is_some(),
        type_range: typed.map_or(start, |tree| place(tree).start)..end,
    })
}

/// A name as the debug information has it: `r#type` is `type`.
pub(crate) fn plain_name(tree: &TokenTree) -> Option<String> {
    match tree {
        TokenTree::Ident(ident) => Some(ident.to_string().trim_start_matches("r#").to_owned()),
        _ => None,
    }
}

/// Whether an attribute can remove what it is on.
fn is_cfg(attribute: &TokenTree) -> bool {
    match attribute {
        TokenTree::Group(group) => is_word(group.stream().into_iter().next().as_ref(), "cfg"),
        _ => false,
    }
}

/// The fields in a struct's braces.
fn fields_of(body: &str) -> Vec<RustField> {
    let stream = TokenStream::from_str(body).unwrap_or_default();
    fields(body, &stream.into_iter().collect::<Vec<_>>(), false)
}

/// The name of the one field in a text.
pub(crate) fn field_name(text: &str) -> Option<String> {
    fields_of(text).into_iter().next().map(|field| field.name)
}

/// Whether the last field of a body lacks a comma, and where that would be.
pub(crate) fn missing_comma(body: &str) -> Option<usize> {
    let last = fields_of(body).pop().filter(|field| !field.has_comma)?;
    Some(last.range.end)
}

/// The body of a struct: each field as a word with a semicolon, each attribute as a comment.
pub(crate) fn masked(body: &str) -> Masked {
    let mut bytes = body.as_bytes().to_vec();
    for field in fields_of(body) {
        for attribute in &field.attributes {
            // At least four bytes: `#[a]`.
            bytes[attribute.clone()].fill(b'x');
            bytes[attribute.start..attribute.start + 2].copy_from_slice(b"/*");
            bytes[attribute.end - 2..attribute.end].copy_from_slice(b"*/");
        }
        bytes[field.range.clone()].fill(b'x');
        bytes[field.range.end - 1] = b';';
    }
    Masked {
        text: String::from_utf8(bytes).unwrap_or_else(|_| " ".repeat(body.len())),
        others: Vec::new(),
    }
}

impl RustStruct {
    /// The text of the file with the type aligned to that many bytes.
    pub(crate) fn aligned(&self, text: &str, bytes: u64) -> String {
        let ask = format!("align({bytes})");
        let Some(repr) = &self.repr else {
            let start = self.place.start;
            let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
            let indentation: String = text[line..start]
                .chars()
                .take_while(|c| c.is_whitespace())
                .collect();
            return format!(
                "{}#[repr({ask})]\n{indentation}{}",
                &text[..start],
                &text[start..]
            );
        };
        let parts = text[repr.clone()].split(',').map(str::trim);
        let others = parts.filter(|part| !part.is_empty() && !part.starts_with("align"));
        let all: Vec<String> = others.map(str::to_owned).chain([ask]).collect();
        format!(
            "{}{}{}",
            &text[..repr.start],
            all.join(", "),
            &text[repr.end..]
        )
    }

    /// Whether the type is aligned to as many bytes already.
    pub(crate) fn is_aligned(&self, text: &str, bytes: u64) -> bool {
        let repr = self.repr.clone().map_or("", |repr| &text[repr]);
        repr.split(',')
            .any(|part| part.trim() == format!("align({bytes})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Dialect;

    const TEXT: &str = "/// struct W { }\n#[derive(Default)]\n#[repr(C)]\npub(crate) struct W<'a, T> where T: Fn(u8) -> u8 {\n\
        \x20   /// first\n    a: Map<u8, Vec<T>>, // of a\n    #[cfg(x)]\n    pub b: &'a [u8; 3],\n    f: fn(u8, u8) -> u8\n}\n\
        fn main() { struct T(u8, pub (u8, u8)); struct W; }\n";

    #[test]
    fn structs_with_their_fields() {
        let found = items(TEXT, "W");
        assert_eq!(found.len(), 1);
        let item = &found[0];
        assert!(TEXT[item.place.start..].starts_with("pub(crate) struct W"));
        assert_eq!((item.is_repr_c, item.is_tuple), (true, false));
        let names: Vec<(&str, bool)> = item
            .fields
            .iter()
            .map(|f| (&*f.name, f.is_conditional))
            .collect();
        assert_eq!(names, [("a", false), ("b", true), ("f", false)]);
        assert_eq!(&TEXT[item.fields[0].range.clone()], "a: Map<u8, Vec<T>>,");
        let tuple = &items(TEXT, "T")[0];
        let types: Vec<&str> = tuple
            .fields
            .iter()
            .map(|f| &TEXT[f.range.clone()])
            .collect();
        assert_eq!((tuple.is_tuple, types), (true, vec!["u8,", "pub (u8, u8)"]));
        assert!(items("struct W { \" ", "W").is_empty());
        let text = "#[repr(C)]\n#[cfg_attr(x, derive(PartialOrd))]\n/// d\n#[repr(align(8))]\nstruct W { r#type: u8 }";
        let item = &items(text, "W")[0];
        assert_eq!((item.is_repr_c, item.is_compared), (true, true));
        assert_eq!(item.fields[0].name, "type");
    }

    #[test]
    fn the_type_gets_its_alignment_once() {
        let aligned = |text: &str| items(text, "W")[0].aligned(text, 64);
        assert!(aligned(TEXT).contains("#[repr(C, align(64))]\npub(crate) struct W"));
        let again = aligned(&aligned(TEXT));
        assert!(items(&again, "W")[0].is_aligned(&again, 64), "{again}");
        assert_eq!(again, aligned(TEXT));
        assert_eq!(
            aligned("mod m {\n    pub struct W(u8);\n}"),
            "mod m {\n    #[repr(align(64))]\n    pub struct W(u8);\n}"
        );
    }

    #[test]
    fn a_body_prints_as_it_was() {
        let body = &TEXT[items(TEXT, "W")[0].place.body.clone()];
        let read = crate::body::read_as(Dialect::Rust, body).unwrap();
        assert_eq!(
            (read.print(), read.names()),
            (body.to_owned(), vec!["a".into(), "b".into(), "f".into()])
        );
        assert_eq!(&body[..missing_comma(body).unwrap()], body.trim_end());
    }

    #[test]
    fn nesting_costs_no_stack() {
        let deep = format!("{}{}", "(".repeat(200_000), ")".repeat(200_000));
        assert!(items(&format!("fn f() {{ {deep} }}"), "W").is_empty());
        assert!(items(&format!("struct W {{ a: {deep} }}"), "W").len() == 1);
        assert!(items(&format!("struct W {{ {deep} }}"), "W").len() == 1);
    }
}
