//! Code that clears or copies a part of a struct, up to a member or from it on: what a new order
//! puts into that part, or takes out of it.
//!
//! Found by `offsetof` in a statement that names a function such as `memset`. Macros are not
//! expanded, so a part that only a macro names (`memset_after`) is not found.

use std::collections::BTreeSet;

use crate::definition::line_of;
use crate::lex::{Token, lex};
use crate::wanted::Wanted;

/// What gives a member's place.
const OFFSETS: [&str; 3] = ["offsetof", "offsetofend", "__builtin_offsetof"];

/// How many tokens of a statement are read before the member: a call has fewer.
const STATEMENT_MAX: usize = 64;

/// What the user of a patch has to look at in a C file, each with its line.
#[must_use]
pub fn check_file(text: &str, tag: &str, wanted: &Wanted) -> Vec<String> {
    let tokens: Vec<Token<'_>> = lex(text)
        .into_iter()
        .filter(Token::is_significant)
        .collect();
    let mut notes = Vec::new();
    for at in 0..tokens.len() {
        if let Some(member) = member_of(&tokens[at..], tag) {
            if moves_memory(&tokens[at.saturating_sub(STATEMENT_MAX)..at]) {
                let line = line_of(text, tokens[at].start);
                notes.extend(note(wanted, member).map(|what| format!("{line}: {what}")));
            }
        }
    }
    notes
}

/// The member in `offsetof(struct TAG, MEMBER)`, if that is what begins there.
fn member_of<'t>(tokens: &[Token<'t>], tag: &str) -> Option<&'t str> {
    let [offset, open, rest @ ..] = tokens else {
        return None;
    };
    if !OFFSETS.contains(&offset.text) || !open.is("(") {
        return None;
    }
    let rest = match rest {
        [keyword, rest @ ..] if keyword.is("struct") => rest,
        _ => rest,
    };
    match rest {
        [name, comma, member, ..] if name.is(tag) && comma.is(",") => Some(member.text),
        _ => None,
    }
}

/// Whether the statement so far names a function that clears, copies or compares bytes.
fn moves_memory(before: &[Token<'_>]) -> bool {
    let statement = before.iter().rev();
    let mut statement = statement.take_while(|token| ![";", "{", "}"].contains(&token.text));
    statement.any(|token| MOVING.contains(&token.text))
}

/// Functions that clear, copy or compare bytes.
const MOVING: [&str; 8] = [
    "memset",
    "memset64",
    "memzero_explicit",
    "memcpy",
    "memmove",
    "memcmp",
    "memchr_inv",
    "bzero",
];

/// Which members are on the other side of `member` now.
fn note(wanted: &Wanted, member: &str) -> Option<String> {
    let named = |names: &Vec<String>| names.iter().any(|name| name == member);
    let at = wanted.members.iter().position(|m| named(&m.names))?;
    let new = wanted.order.iter().take_while(|other| **other != at);
    let new: BTreeSet<usize> = new.copied().collect();
    let old: BTreeSet<usize> = (0..at).collect();
    let names = |members: BTreeSet<usize>| -> String {
        let names = members.iter().map(|m| wanted.members[*m].first_name());
        names.collect::<Vec<String>>().join(", ")
    };
    let (comes, goes) = (names(&new - &old), names(&old - &new));
    let sides = match (comes.as_str(), goes.as_str()) {
        ("", "") => return None,
        (comes, "") => format!("before it now: {comes}"),
        ("", goes) => format!("no longer before it: {goes}"),
        (comes, goes) => format!("before it now: {comes}; no longer: {goes}"),
    };
    Some(format!(
        "bytes up to or from `{member}` are cleared, copied or compared here; {sides}"
    ))
}

#[cfg(test)]
mod tests {
    use linemate_types::LineSize;

    use super::*;
    use crate::wanted::Recorded;

    /// `head`, `users`, `tail`, `data`, in that order.
    fn wanted(order: [usize; 4]) -> Wanted {
        let names = ["head", "users", "tail", "data"].into_iter().enumerate();
        let members = names.map(|(unit, name)| Recorded {
            names: vec![name.to_owned()],
            align: None,
            group: None,
            unit,
            is_inherited: false,
        });
        Wanted {
            members: members.collect(),
            order: order.to_vec(),
            groups: Vec::new(),
            line: LineSize::B64,
        }
    }

    #[test]
    fn what_crosses_the_end_of_a_cleared_part_is_named() {
        let clear = "void f(struct skb *skb)\n{\n\tint n;\n\
                     \tmemset(skb, 0, offsetof(struct skb, tail));\n}\n";
        let notes = |order| check_file(clear, "skb", &wanted(order));
        assert_eq!(notes([0, 1, 2, 3]), [""; 0]);
        assert_eq!(notes([1, 0, 2, 3]), [""; 0]);
        let said = |sides: &str| {
            format!("4: bytes up to or from `tail` are cleared, copied or compared here; {sides}")
        };
        assert_eq!(notes([0, 3, 1, 2]), [said("before it now: data")]);
        assert_eq!(notes([0, 2, 1, 3]), [said("no longer before it: users")]);
        let both = said("before it now: data; no longer: head, users");
        assert_eq!(notes([3, 2, 0, 1]), [both]);
    }

    #[test]
    fn other_structs_and_places_of_one_member_are_no_concern() {
        let order = wanted([0, 3, 1, 2]);
        for text in [
            "void f(void) { memset(a, 0, offsetof(struct skb_ext, tail)); }",
            "static const int at = offsetof(struct skb, tail);",
            "void f(void) { memset(a, 0, 4); g(offsetof(struct skb, tail)); }",
            "void f(void) { memset(a, 0, offsetof(struct skb, gone)); }",
            "offsetof(struct skb",
            "offsetof",
        ] {
            assert_eq!(check_file(text, "skb", &order), [""; 0], "{text}");
        }
    }
}
