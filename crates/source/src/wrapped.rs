//! Fields of Rust on cache lines of their own: their types wrapped in one that is aligned to a
//! line.
//!
//! The wrapper dereferences to what it holds, and values in literals of the struct are wrapped, so
//! most uses stay as they are. The compiler says where they do not.

use std::ops::Range;
use std::str::FromStr;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::dialect::rust::{RustStruct, is_sign, is_word};

const WRAPPER: &str = "CacheLine";
/// Words before a name and a brace that are not a literal's.
const NOT_LITERALS: [&str; 6] = ["struct", "impl", "for", "enum", "union", "trait"];

/// The wrapper's definition. Its field has a name, so that `.0` finds that of what it holds, and it
/// prints as what it holds, so that a program's output stays.
fn definition(bytes: u64) -> String {
    format!(
        "

/// A value on cache lines of its own.
#[repr(align({bytes}))]
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct {WRAPPER}<T> {{
    value: T,
}}

impl<T> {WRAPPER}<T> {{
    #[allow(dead_code)]
    pub(crate) const fn new(value: T) -> Self {{
        Self {{ value }}
    }}
}}

impl<T: core::fmt::Debug> core::fmt::Debug for {WRAPPER}<T> {{
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {{
        core::fmt::Debug::fmt(&self.value, f)
    }}
}}

impl<T> core::ops::Deref for {WRAPPER}<T> {{
    type Target = T;

    fn deref(&self) -> &T {{
        &self.value
    }}
}}

impl<T> core::ops::DerefMut for {WRAPPER}<T> {{
    fn deref_mut(&mut self) -> &mut T {{
        &mut self.value
    }}
}}"
    )
}

/// Text to put in place of other text.
struct TextChange {
    place: Range<usize>,
    text: String,
}

/// The text of the file with these fields of the struct wrapped.
pub(crate) fn wrapped(text: &str, item: &RustStruct, fields: &[String], bytes: u64) -> String {
    let mut changes = Vec::new();
    for field in item.fields.iter().filter(|f| fields.contains(&f.name)) {
        wrap(&field.type_range, &format!("{WRAPPER}<"), ">", &mut changes);
    }
    literals(text, &item.name, fields, &mut changes);
    if !text.contains(&format!("struct {WRAPPER}<")) {
        let end = item.place.body.end + 1;
        let text = definition(bytes);
        changes.push(TextChange {
            place: end..end,
            text,
        });
    }
    changes.sort_by_key(|change| change.place.start);
    let mut text = text.to_owned();
    // From the end, because a change moves what is behind it.
    for change in changes.into_iter().rev() {
        text.replace_range(change.place, &change.text);
    }
    text
}

fn wrap(place: &Range<usize>, before: &str, after: &str, changes: &mut Vec<TextChange>) {
    for (at, text) in [(place.start, before), (place.end, after)] {
        changes.push(TextChange {
            place: at..at,
            text: text.to_owned(),
        });
    }
}

/// Wraps the fields' values where the struct is written out.
fn literals(text: &str, name: &str, fields: &[String], changes: &mut Vec<TextChange>) {
    let mut streams: Vec<TokenStream> = TokenStream::from_str(text).into_iter().collect();
    while let Some(stream) = streams.pop() {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        for (at, tree) in trees.iter().enumerate() {
            let TokenTree::Group(group) = tree else {
                continue;
            };
            if group.delimiter() == Delimiter::Brace && is_literal(&trees[..at], name) {
                values(group, fields, changes);
            }
            streams.push(group.stream());
        }
    }
}

/// Whether braces after these trees are a literal of the struct.
fn is_literal(before: &[TokenTree], name: &str) -> bool {
    let [rest @ .., last] = before else {
        return false;
    };
    let is_name = is_word(Some(last), name) || is_word(Some(last), "Self");
    // After `->` it is a function's body.
    let is_other = NOT_LITERALS.iter().any(|word| is_word(rest.last(), word));
    is_name && !is_other && !is_sign(rest.last(), '>')
}

/// Wraps the values of these fields in a literal.
fn values(literal: &Group, fields: &[String], changes: &mut Vec<TextChange>) {
    let trees: Vec<TokenTree> = literal.stream().into_iter().collect();
    for part in trees.split(|tree| is_sign(Some(tree), ',')) {
        let [TokenTree::Ident(field), value @ ..] = part else {
            continue;
        };
        let name = field.to_string();
        if !fields
            .iter()
            .any(|field| field == name.trim_start_matches("r#"))
        {
            continue;
        }
        match value {
            [] => changes.push(TextChange {
                place: field.span().byte_range(),
                text: format!("{name}: {WRAPPER}::new({name})"),
            }),
            [colon, first, ..] if is_sign(Some(colon), ':') => {
                let end = part[part.len() - 1].span().byte_range().end;
                let place = first.span().byte_range().start..end;
                wrap(&place, &format!("{WRAPPER}::new("), ")", changes);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::rust::items;

    #[test]
    fn types_and_values_are_wrapped() {
        let text = "struct Q { pub head: A<u8, u8>, tail: A, rest: u8 }\nimpl Q {\n    fn new(tail: A) -> Self {\n        \
                    Self { head: A::new(1, 2), tail, rest: 0 }\n    }\n}\nfn f() -> Q { Q { head: x, ..old } }\n";
        let fields = ["head".to_owned(), "tail".to_owned()];
        let new = wrapped(text, &items(text, "Q")[0], &fields, 64);
        for part in [
            "struct Q { pub head: CacheLine<A<u8, u8>>, tail: CacheLine<A>, rest: u8 }\n\n/// A value on",
            "#[repr(align(64))]",
            "-> Self {\n        Self { head: CacheLine::new(A::new(1, 2)), tail: CacheLine::new(tail), rest: 0 }\n",
            "fn f() -> Q { Q { head: CacheLine::new(x), ..old } }",
        ] {
            assert!(new.contains(part), "{part}: {new}");
        }
        assert_eq!(new.matches("struct CacheLine").count(), 1);
    }
}
