//! Finds the names in a declaration, and where it can be split.

use std::ops::Range;

use super::deep::{Deep, close};
use super::words::{QUALIFIERS, TAG_WORDS, is_attribute_like, is_type_word};

/// One name of a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declarator {
    /// `None` for a bit-field without a name.
    pub name: Option<String>,
    /// Its text in the declaration, from `*` or name on, with attributes and width.
    pub range: Range<usize>,
    /// Whether it is a bit-field.
    pub bits: bool,
}

/// The declarators of a declaration.
pub(super) struct Declarators {
    /// One byte after the specifiers.
    pub(super) specifier: usize,
    /// In the order of the text.
    pub(super) found: Vec<Declarator>,
    /// Whether something between commas declares nothing that is understood: text in no declarator
    /// must not get lost.
    pub(super) unread: bool,
}

/// Reads the declarators; `behind` is the first token after braces, 0 without.
pub(super) fn declarators(deep: &[Deep<'_>], after: usize) -> Declarators {
    let (mut found, mut skipped) = (Vec::new(), false);
    let mut specifier = deep.last().map_or(0, |d| d.token.end());
    let mut start = after;
    for segment in deep[after..].split(|d| d.depth == 0 && d.token.is(",")) {
        let first = start == after;
        let outside = if first { &deep[..start] } else { &[][..] };
        let from = start;
        start += segment.len() + 1;
        let Some(one) = Stretch::new(outside, segment, first).declarator() else {
            skipped = true;
            continue;
        };
        let (begin, declarator) = one;
        if first {
            specifier = deep[..from + begin].last().map_or(0, |d| d.token.end());
        }
        found.push(declarator);
    }
    let unread = skipped && !found.is_empty();
    Declarators {
        specifier,
        found,
        unread,
    }
}

/// The text between two commas.
struct Stretch<'a, 't> {
    tokens: &'a [Deep<'t>],
    /// Whether a type precedes it, in braces or before a comma.
    typed: bool,
    /// Whether the specifiers are in it.
    first: bool,
}

impl<'a, 't> Stretch<'a, 't> {
    fn new(outside: &[Deep<'_>], tokens: &'a [Deep<'t>], first: bool) -> Self {
        Stretch {
            tokens,
            typed: !first || !outside.is_empty(),
            first,
        }
    }

    fn at(&self, depth: usize, text: &str) -> Option<usize> {
        self.tokens
            .iter()
            .position(|d| d.depth == depth && d.token.is(text))
    }

    /// The declarator and the token that it begins with.
    fn declarator(&self) -> Option<(usize, Declarator)> {
        let end = self.tokens.last()?.token.end();
        let colon = self.at(0, ":");
        let head = &self.tokens[..colon.unwrap_or(self.tokens.len())];
        let (begin, name) = match self.name_at(head) {
            Some(name) => {
                let star = head[..name]
                    .iter()
                    .position(|d| d.depth == 0 && (d.token.is("*") || self.pointer_paren(d)));
                let begin = if self.first { star.unwrap_or(name) } else { 0 };
                (begin, Some(head[name].token.text.to_owned()))
            }
            None => (colon?, None),
        };
        let range = self.tokens.get(begin)?.token.start..end;
        Some((
            begin,
            Declarator {
                name,
                range,
                bits: colon.is_some(),
            },
        ))
    }

    /// Whether this is the parenthesis of `(*name)`.
    fn pointer_paren(&self, d: &Deep<'_>) -> bool {
        let at = self
            .tokens
            .iter()
            .position(|t| t.token.start == d.token.start);
        let inner = at.and_then(|at| self.tokens.get(at + 1));
        d.token.is("(") && inner.is_some_and(|i| i.token.is("*") || i.token.is("^"))
    }

    /// The token in `head` that is the name.
    fn name_at(&self, head: &[Deep<'_>]) -> Option<usize> {
        // `(*name)(int)`, `(*(*name)(int))[4]`: the innermost parenthesis that starts with a star.
        let pointers = (0..head.len()).filter(|i| self.pointer_paren(&head[*i]));
        let mut innermost: Option<usize> = None;
        for open in pointers {
            let inside = innermost
                .is_none_or(|o| head[open].depth == head[o].depth + 1 && open < close(head, o));
            if inside && (innermost.is_some() || head[open].depth == 0) {
                innermost = Some(open);
            }
        }
        if let Some(open) = innermost {
            let depth = head[open].depth + 1;
            let inside = &head[open + 1..close(head, open).saturating_sub(1).max(open + 1)];
            let name = inside
                .iter()
                .take_while(|d| d.depth >= depth && !d.token.is("["));
            let last = name
                .enumerate()
                .filter(|(_, d)| {
                    d.depth == depth && d.token.is_word() && !is_type_word(d.token.text)
                })
                .last();
            return last.map(|(i, _)| open + 1 + i);
        }
        // `name[4]`: the word before the first bracket.
        if let Some(bracket) = head.iter().position(|d| d.depth == 0 && d.token.is("[")) {
            let before = bracket.checked_sub(1)?;
            return head[before].token.is_word().then_some(before);
        }
        self.last_name(head)
    }

    /// The last word, without trailing attributes.
    fn last_name(&self, head: &[Deep<'_>]) -> Option<usize> {
        let mut end = head.len();
        loop {
            let mut last = end.checked_sub(1)?;
            let mut called = false;
            if head[last].token.is(")") {
                let open = head[..last]
                    .iter()
                    .rposition(|d| d.depth == 0 && d.token.is("("))?;
                last = open.checked_sub(1)?;
                called = true;
            }
            let token = head[last].token;
            if !token.is_word() {
                return None;
            }
            // What is spelled like an attribute is the name if nothing before it can be: `u8 KEY;`,
            // but `u64 a ____cacheline_aligned;`.
            let attribute =
                called || is_attribute_like(token.text) || QUALIFIERS.contains(&token.text);
            if attribute
                && (called || QUALIFIERS.contains(&token.text) || self.has_name(&head[..last]))
            {
                end = last;
                continue;
            }
            let named = self.has_name(&head[..=last]);
            // After braces, `} __attribute;` names nothing.
            let after_braces = self.first && self.typed && attribute;
            return (named && !after_braces).then_some(last);
        }
    }

    /// Whether these tokens end in something that can be a name, preceded by a type.
    fn has_name(&self, head: &[Deep<'_>]) -> bool {
        let outer: Vec<&Deep<'_>> = head.iter().filter(|d| d.depth == 0).collect();
        let Some((last, before)) = outer.split_last() else {
            return false;
        };
        let after_tag = before
            .last()
            .is_some_and(|d| TAG_WORDS.contains(&d.token.text));
        if !last.token.is_word() || is_type_word(last.token.text) || after_tag {
            return false;
        }
        let makes_type = |d: &&&Deep<'_>| {
            let word = d.token.is_word() && !QUALIFIERS.contains(&d.token.text);
            (word && !TAG_WORDS.contains(&d.token.text)) || d.token.is("*")
        };
        self.typed || before.iter().any(|d| makes_type(&d))
    }
}
