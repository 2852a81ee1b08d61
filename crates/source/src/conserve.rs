//! Proves on the text that a rewritten definition has everything the old one had: members, their
//! conditions, comments.
//!
//! Reads both texts again and compares; it does not know how the new one was made.

use std::collections::BTreeMap;

use crate::body::{Body, BodyNode};
use crate::condition::Condition;
use crate::declaration::{DeclarationShape, alignments, joined};
use crate::lex::{TokenKind, lex};

/// A definition's inventory: how often each item occurs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Declarations without alignments, one for each name, with the conditions around them.
    pub members: BTreeMap<(Vec<Condition>, String), usize>,
    /// Comments, except those on lines of conditions.
    pub comments: BTreeMap<String, usize>,
    /// Preprocessor lines that are not conditions.
    pub directives: BTreeMap<String, usize>,
}

impl Inventory {
    /// Counts what is in `body`.
    pub fn of(body: &Body) -> Inventory {
        let mut inventory = Inventory::default();
        inventory.count(&body.nodes, &mut Vec::new());
        inventory
    }

    /// Recursion: as deep as conditions nest.
    fn count(&mut self, nodes: &[BodyNode], around: &mut Vec<Condition>) {
        for node in nodes {
            match node {
                BodyNode::Blank(text) | BodyNode::Loose(text) => self.trivia(text),
                BodyNode::Member(member) => {
                    self.trivia(&member.lead);
                    self.trivia(&member.trail);
                    for gap in gaps(&member.text, &member.declaration) {
                        self.trivia_in(gap);
                    }
                    for declaration in declarations(&member.text, &member.declaration) {
                        self.trivia_in(&declaration);
                        *self
                            .members
                            .entry((around.clone(), squeezed(&declaration)))
                            .or_default() += 1;
                    }
                }
                BodyNode::Block(block) => {
                    self.trivia(&block.lead);
                    for arm in &block.arms {
                        around.push(arm.condition.clone());
                        self.count(&arm.nodes, around);
                        around.pop();
                    }
                }
            }
        }
    }

    fn trivia(&mut self, text: &str) {
        for token in lex(text) {
            let counted = match token.kind {
                TokenKind::Comment => &mut self.comments,
                TokenKind::Directive => &mut self.directives,
                _ => continue,
            };
            *counted.entry(token.text.to_owned()).or_default() += 1;
        }
    }

    /// Comments inside of a declaration are counted with the others.
    fn trivia_in(&mut self, text: &str) {
        for token in lex(text).iter().filter(|t| t.kind == TokenKind::Comment) {
            *self.comments.entry(token.text.to_owned()).or_default() += 1;
        }
    }

    /// What `after` lacks or has too often; `added` are the comments that it may have in addition.
    /// `None` if nothing.
    pub fn difference(&self, after: &Inventory, added: &[String]) -> Option<String> {
        let mut comments = after.comments.clone();
        for comment in lex(&added.concat())
            .iter()
            .filter(|t| t.kind == TokenKind::Comment)
        {
            if let Some(count) = comments.get_mut(comment.text) {
                *count = count.saturating_sub(1);
            }
        }
        comments.retain(|_, count| *count > 0);
        let name = |(conditions, text): &(Vec<Condition>, String)| {
            let around: Vec<String> = conditions.iter().map(Condition::opening).collect();
            match around.is_empty() {
                true => format!("`{text}`"),
                false => format!("`{text}` under {}", around.join(", ")),
            }
        };
        differing(&self.members, &after.members)
            .map(name)
            .or_else(|| differing(&self.comments, &comments).map(|c| format!("the comment `{c}`")))
            .or_else(|| differing(&self.directives, &after.directives).map(|d| format!("`{d}`")))
            .map(|what| format!("{what} does not occur as often as before"))
    }
}

/// A word, number or sign that occurs less often in `after` than in `before`: text that is not C
/// can read differently next to other text. Commas are not counted, because splitting needs none;
/// nor is anything where an alignment may have gone.
pub(crate) fn lost_token(before: &str, after: &str) -> Option<String> {
    if before.contains("align") {
        return None;
    }
    let counted = |text| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for token in lex(text)
            .iter()
            .filter(|t| t.is_significant() && t.text != ",")
        {
            *counts.entry(token.text.to_owned()).or_default() += 1;
        }
        counts
    };
    let after = counted(after);
    let fewer =
        |(token, count): &(&String, &usize)| after.get(*token).is_none_or(|now| now < *count);
    let before = counted(before);
    let lost = before.iter().find(fewer);
    lost.map(|(token, _)| format!("`{token}` does not occur as often as before"))
}

fn differing<'a, K: Ord>(
    before: &'a BTreeMap<K, usize>,
    after: &'a BTreeMap<K, usize>,
) -> Option<&'a K> {
    let changed = |key: &&'a K| before.get(*key) != after.get(*key);
    before.keys().chain(after.keys()).find(changed)
}

/// What is between names that are declared together, and after the last: in none of their texts.
fn gaps<'a>(text: &'a str, declaration: &crate::declaration::Declaration) -> Vec<&'a str> {
    let DeclarationShape::Plain(declarators) = &declaration.shape else {
        return Vec::new();
    };
    if declarators.len() < 2 || declaration.defines_type {
        return Vec::new();
    }
    let starts = declarators.iter().skip(1).map(|d| d.range.start);
    let ends = declarators.iter().map(|d| d.range.end);
    ends.zip(starts.chain([text.len()]))
        .filter_map(|(end, start)| text.get(end..start))
        .collect()
}

/// One text for each name, without the alignments.
fn declarations(text: &str, declaration: &crate::declaration::Declaration) -> Vec<String> {
    let DeclarationShape::Plain(declarators) = &declaration.shape else {
        return vec![unaligned(text)];
    };
    if declarators.len() < 2 || declaration.defines_type {
        return vec![unaligned(text)];
    }
    let head = &text[..declarators[0].range.start];
    declarators
        .iter()
        .map(|d| unaligned(&joined(head, &text[d.range.clone()])))
        .collect()
}

fn unaligned(text: &str) -> String {
    let mut text = text.to_owned();
    for range in alignments(&text).into_iter().rev() {
        text.replace_range(range, "");
    }
    text
}

/// Without comments; tokens with one blank between them.
fn squeezed(text: &str) -> String {
    let tokens: Vec<&str> = lex(text)
        .iter()
        .filter(|t| t.is_significant() || t.kind == TokenKind::Directive)
        .map(|t| t.text)
        .collect();
    tokens.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::read;

    /// What `after` is reported to lack, if `added` is the comment that it may have in addition.
    fn lost(before: &str, after: &str, added: &str) -> Option<String> {
        let of = |text: &str| Inventory::of(&read(text, 0).unwrap());
        of(before).difference(&of(after), &[added.to_owned()])
    }

    #[test]
    fn everything_is_counted() {
        let text = "/* a */\nint a; /* b */\n#ifdef X\nint b, *c;\n#endif\n#define Y 1\n";
        assert_eq!(lost(text, text, ""), None);
        let parted = "#define Y 1\n#ifdef X\nint *c;\n#endif\n/* new */\n#ifdef X\nint b __aligned(64);\n#endif\n/* a */\nint a; /* b */\n";
        assert_eq!(lost(text, parted, "/* new */"), None);
        for (old, new, what) in [
            ("int a;", "int a2;", "`int a ;`"),
            ("int b, *c;", "int b;", "`int * c ;` under #ifdef X"),
            ("#ifdef X", "#ifdef Z", "`int * c ;` under #ifdef X"),
            ("/* a */", "", "the comment `/* a */`"),
            ("/* a */", "/* a */ /* a */", "the comment `/* a */`"),
            ("/* b */", "/* B */", "the comment `/* b */`"),
            ("#define Y 1", "", "`#define Y 1`"),
        ] {
            assert_eq!(
                lost(text, &text.replace(old, new), "/* new */"),
                Some(format!("{what} does not occur as often as before")),
                "{old} -> {new}"
            );
        }
        // A comment that belongs to none of several names stays too.
        let last = "int a, b /* c */;";
        assert_eq!(
            lost(last, "int a;\nint b;", ""),
            Some("the comment `/* c */` does not occur as often as before".to_owned())
        );
        // An added comment is not a comment of the old text.
        let twice = text.replace("/* a */", "/* a */ /* a */");
        assert_eq!(lost(text, &twice, "/* a */"), None);
        assert!(lost(&twice, text, "/* a */").is_some());
    }
}
