//! Which access specifier applies to each member of a C++ class.

use crate::body::{Body, BodyNode};
use crate::lex::{Token, lex};

/// The names of the members, each with the specifier that applies to it; empty for the class's own.
pub(crate) fn access(body: &Body) -> Vec<(String, String)> {
    let mut found = Vec::new();
    nodes(&body.nodes, &mut String::new(), &mut found);
    found.sort();
    found
}

/// The specifier that a text between members is, if it is one.
pub(crate) fn access_specifier(text: &str) -> Option<String> {
    let words = lex(text).into_iter();
    let mut words = words.filter(Token::is_significant);
    let word = words.next().filter(Token::is_word)?;
    words.next().filter(|token| token.is(":"))?;
    Some(word.text.to_owned())
}

/// Recursion: as deep as conditions nest.
fn nodes(nodes_in: &[BodyNode], specifier: &mut String, found: &mut Vec<(String, String)>) {
    for node in nodes_in {
        match node {
            BodyNode::Blank(_) => {}
            BodyNode::Loose(text) => {
                if let Some(own) = access_specifier(text) {
                    *specifier = own;
                }
            }
            BodyNode::Member(member) => {
                let names = member.declaration.names().into_iter();
                found.extend(names.map(|name| (name, specifier.clone())));
            }
            BodyNode::Block(block) => {
                for arm in &block.arms {
                    nodes(&arm.nodes, specifier, found);
                }
            }
        }
    }
}
