//! Finds the recorded kernel's members in a definition's text, and reports where the two disagree.
//!
//! The result is a tree like the body's, whose leaves move as one. Members that were not compiled
//! into the recorded kernel are leaves without members: they keep their place.

use std::collections::HashMap;

use crate::alternatives::{SeveralFit, keep_recorded};
use crate::body::{Body, BodyNode, ConditionalBlock, DeclaredMember};
use crate::condition::Condition;
use crate::declaration::{Declaration, DeclarationShape};
use crate::dialect::Dialect;
use crate::wanted::{Align, Wanted};

/// The maximum number of members of a definition: the largest in Linux has a few hundred.
pub const MAX_LEAVES: usize = 4096;

/// What moves as one.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) nodes: Vec<BodyNode>,
    /// The members in it, by their index in [`Wanted::members`], ascending.
    pub(crate) members: Vec<usize>,
    /// From the start of the body.
    pub(crate) line: u32,
}

/// A block whose members can move one by one.
#[derive(Clone, Debug)]
pub(crate) struct OpenBlock {
    pub(crate) lead: String,
    pub(crate) arms: Vec<(String, Condition, Vec<OpenNode>)>,
    pub(crate) end: String,
}

#[derive(Clone, Debug)]
pub(crate) enum OpenNode {
    Blank(String),
    Loose(String),
    Leaf(Leaf),
    Block(OpenBlock),
}

/// Why a definition cannot be rewritten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A recorded member is missing.
    #[error(
        "the recorded member `{0}` is not in this definition: the tree is of another version, or a macro hides it"
    )]
    Missing(String),
    /// A member that the recorded kernel lacks, under no condition.
    #[error("`{0}` is not a recorded member: the tree is of another version")]
    Unrecorded(String),
    #[error(
        "`{later}` is after `{earlier}` here, but before it in the recording: the tree is of another version"
    )]
    OtherOrder {
        /// The one that precedes the other here.
        earlier: String,
        later: String,
    },
    /// In several places, of which the recorded order does not select one.
    #[error(
        "`{name}` is declared here and at line {other}, and the recorded order does not show which one the kernel has"
    )]
    Twice {
        name: String,
        /// The other line, counted like the error's own.
        other: u32,
    },
    /// Members that cannot be separated.
    #[error("`{first}` and `{second}` are declared together here ({what}) and cannot be separated")]
    Tied {
        first: String,
        second: String,
        /// By what.
        what: &'static str,
    },
    /// No place for an alignment.
    #[error("`{0}` is declared in a way that takes no alignment")]
    NoPlace(String),
    /// Preprocessor lines within one declaration.
    #[error("preprocessor lines split this declaration, so `{0}` cannot be moved")]
    Torn(String),
    /// Into the middle of alternatives.
    #[error(
        "`{0}` would have to go between alternatives of one #if/#elif chain, which cannot be split"
    )]
    Tears(String),
    /// C++ initialises members in the order of their declarations.
    #[error("`{member}` is initialised from `{from}`, which the edit's order initialises after it")]
    Initialised { member: String, from: String },
    /// Comparisons follow the order of members: C++'s defaulted `<=>`, Rust's derived `PartialOrd`.
    #[error(
        "`{0}` compares its members in the order of the source, so another order changes which is less: write the comparison out first"
    )]
    Compared(String),
    /// The source does not order the fields.
    #[error(
        "rustc orders the fields of `{0}` itself: give it #[repr(C)], then record and advise again"
    )]
    Unordered(String),
    /// Rust aligns types, not fields.
    #[error(
        "Rust aligns types, not fields: give `{0}` a type that is aligned to a line (crossbeam's CachePadded, or a struct with #[repr(align(64))])"
    )]
    OwnLine(String),
    /// Another part of a class.
    #[error("`{0}` would come under another access specifier: move it there by hand first")]
    Access(String),
    /// Across a barrier.
    #[error("`{0}` would cross this line, which bounds the members that are laid out at random")]
    Barrier(String),
    #[error("the definition has {0} members: {max} at most", max = MAX_LEAVES)]
    TooMany(usize),
    /// The result does not contain what was there. A bug, or a misread definition: never written.
    #[error("after the move {0}: this definition cannot be moved safely")]
    Lost(String),
}

/// A refusal with its line, counted from 0 at the start of the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) line: u32,
    pub(crate) reason: Refusal,
}

pub(crate) fn refuse<T>(line: u32, reason: Refusal) -> Result<T, Refused> {
    Err(Refused { line, reason })
}

/// The body as a tree of leaves.
pub(crate) fn matched(
    body: &Body,
    wanted: &Wanted,
    several: SeveralFit,
) -> Result<Vec<OpenNode>, Refused> {
    let mut by_name = HashMap::new();
    for (index, member) in wanted.members.iter().enumerate() {
        for name in member.names.iter().filter(|_| !member.is_inherited) {
            by_name.insert(name.as_str(), index);
        }
    }
    let matcher = Matcher { wanted, by_name };
    let mut items = matcher.items(&body.nodes, false)?;
    keep_recorded(&mut items, several);
    matcher.check(&items)?;
    Ok(items)
}

struct Matcher<'w> {
    wanted: &'w Wanted,
    by_name: HashMap<&'w str, usize>,
}

impl Matcher<'_> {
    fn name(&self, member: usize) -> String {
        let names = self.wanted.members.get(member).map(|m| &m.names);
        names
            .and_then(|names| names.first())
            .cloned()
            .unwrap_or_default()
    }

    /// The members that a declaration declares.
    fn members(&self, member: &DeclaredMember) -> Vec<usize> {
        let names = member.declaration.names();
        let mut found: Vec<usize> = names
            .iter()
            .filter_map(|n| self.by_name.get(n.as_str()).copied())
            .collect();
        // Which of its words are names is unknown. Any recorded one counts, so that the declaration
        // is refused and not left behind as one that the kernel lacks.
        if member.declaration.shape == DeclarationShape::Torn {
            let words = crate::lex::lex(&member.text);
            found = words
                .iter()
                .filter_map(|t| self.by_name.get(t.text).copied())
                .collect();
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Recursion: as deep as conditions nest.
    fn items(&self, nodes: &[BodyNode], conditional: bool) -> Result<Vec<OpenNode>, Refused> {
        let mut items = Vec::new();
        for node in nodes {
            match node {
                BodyNode::Blank(text) => items.push(OpenNode::Blank(text.clone())),
                BodyNode::Loose(text) => items.push(OpenNode::Loose(text.clone())),
                BodyNode::Member(member) => {
                    for leaf in self.leaves(member, conditional)? {
                        items.push(OpenNode::Leaf(leaf));
                    }
                }
                BodyNode::Block(block) => items.push(self.block(block)?),
            }
        }
        Ok(self.join_bit_fields(items))
    }

    fn block(&self, block: &ConditionalBlock) -> Result<OpenNode, Refused> {
        let mut arms = Vec::new();
        let mut seen: Vec<usize> = Vec::new();
        let mut repeated = false;
        for arm in &block.arms {
            let members: Vec<usize> = block_members(&arm.nodes, self);
            repeated |= members.iter().any(|m| seen.contains(m));
            seen.extend(members);
        }
        // `int a;` and, after `#else`, `long a;`: one member of the recorded kernel, so all
        // alternatives move with it.
        if repeated {
            seen.sort_unstable();
            seen.dedup();
            let (nodes, line) = (vec![BodyNode::Block(block.clone())], block.line);
            return Ok(OpenNode::Leaf(Leaf {
                nodes,
                members: seen,
                line,
            }));
        }
        for arm in &block.arms {
            let items = self.items(&arm.nodes, true)?;
            arms.push((arm.directive.clone(), arm.condition.clone(), items));
        }
        let (lead, end) = (block.lead.clone(), block.end.clone());
        Ok(OpenNode::Block(OpenBlock { lead, arms, end }))
    }

    /// A declaration, split into its names.
    fn leaves(&self, member: &DeclaredMember, conditional: bool) -> Result<Vec<Leaf>, Refused> {
        let members = self.members(member);
        let line = member.line;
        if let DeclarationShape::Plain(_) = member.declaration.shape {
            // Rust removes fields by attributes, which its own check reads.
            if !conditional && member.declaration.dialect != Dialect::Rust {
                let names = member.declaration.names();
                if let Some(name) = names
                    .iter()
                    .find(|n| !self.by_name.contains_key(n.as_str()))
                {
                    return refuse(line, Refusal::Unrecorded(name.clone()));
                }
            }
        }
        if member.declaration.shape == DeclarationShape::Torn {
            if let Some(first) = members.first() {
                return refuse(line, Refusal::Torn(self.name(*first)));
            }
        }
        let whole = || {
            vec![Leaf {
                nodes: vec![BodyNode::Member(Box::new(member.clone()))],
                members: members.clone(),
                line,
            }]
        };
        let Some((first, second)) = self.parting(&members) else {
            return Ok(whole());
        };
        let tied = |what| {
            let (first, second) = (self.name(first), self.name(second));
            refuse(
                line,
                Refusal::Tied {
                    first,
                    second,
                    what,
                },
            )
        };
        match &member.declaration.shape {
            DeclarationShape::Plain(_) if member.declaration.defines_type => {
                tied("with the definition of their type")
            }
            DeclarationShape::Plain(declarators) => {
                let pieces = split(member, declarators, |name| self.by_name.contains_key(name));
                let leaf = |piece: DeclaredMember| Leaf {
                    members: self.members(&piece),
                    line,
                    nodes: vec![BodyNode::Member(Box::new(piece))],
                };
                Ok(pieces.into_iter().map(leaf).collect())
            }
            _ => tied("by a macro"),
        }
    }

    /// Two neighbours among `members` that the wanted order separates, or the second of which wants
    /// an alignment.
    fn parting(&self, members: &[usize]) -> Option<(usize, usize)> {
        let rank = |member: usize| self.wanted.order.iter().position(|m| *m == member);
        // An alignment is written at one end of the declaration, where it would be that of another
        // name, or of all.
        let aligned = |member: usize| {
            let align = self.wanted.members[member].align;
            !matches!(align, None | Some(Align::Own(_)))
        };
        members
            .windows(2)
            .map(|pair| (pair[0], pair[1]))
            .find(|(a, b)| {
                let next = rank(*a).map(|r| r + 1) == rank(*b);
                !next || aligned(*b) || aligned(*a)
            })
    }

    /// Puts adjacent bit-fields into one leaf, with what is in between; unnamed ones belong to the
    /// one before.
    fn join_bit_fields(&self, items: Vec<OpenNode>) -> Vec<OpenNode> {
        let mut joined: Vec<OpenNode> = Vec::new();
        for item in items {
            let OpenNode::Leaf(leaf) = item else {
                joined.push(item);
                continue;
            };
            let nameless = leaf.members.is_empty() && is_nameless_bits(&leaf.nodes);
            let unit = |l: &Leaf| l.members.last().map(|m| self.wanted.members[*m].unit);
            let back = joined
                .iter()
                .rposition(|i| matches!(i, OpenNode::Leaf(l) if !l.members.is_empty()));
            let Some(back) = back else {
                joined.push(OpenNode::Leaf(leaf));
                continue;
            };
            let OpenNode::Leaf(last) = &joined[back] else {
                continue;
            };
            let open = joined[back..]
                .iter()
                .any(|i| matches!(i, OpenNode::Block(_)));
            let same = unit(last) == unit(&leaf) && unit(&leaf).is_some();
            let follows = nameless && back + 1 == joined.len() && is_bits(&last.nodes);
            if (same && !open) || follows {
                let between: Vec<OpenNode> = joined.drain(back..).collect();
                joined.push(OpenNode::Leaf(join(between, leaf)));
            } else {
                joined.push(OpenNode::Leaf(leaf));
            }
        }
        joined
    }

    /// Checks that every recorded member occurs once, in the recorded order.
    fn check(&self, items: &[OpenNode]) -> Result<(), Refused> {
        let mut found: Vec<(usize, u32)> = Vec::new();
        each_leaf(items, &mut |leaf| {
            found.extend(leaf.members.iter().map(|m| (*m, leaf.line)))
        });
        for (i, (member, line)) in found.iter().enumerate() {
            if let Some((_, other)) = found[..i].iter().find(|(m, _)| m == member) {
                let (name, other) = (self.name(*member), *other);
                return refuse(*line, Refusal::Twice { name, other });
            }
        }
        let members = &self.wanted.members;
        if let Some(base) = members.iter().find(|m| m.is_inherited && m.align.is_some()) {
            return refuse(0, Refusal::NoPlace(base.first_name()));
        }
        let declared = (0..members.len()).filter(|m| !members[*m].is_inherited);
        if let Some(missing) = declared
            .into_iter()
            .find(|m| found.iter().all(|(f, _)| f != m))
        {
            return refuse(0, Refusal::Missing(self.name(missing)));
        }
        for pair in found.windows(2) {
            let ((a, _), (b, line)) = (pair[0], pair[1]);
            if a > b {
                let (earlier, later) = (self.name(a), self.name(b));
                return refuse(line, Refusal::OtherOrder { earlier, later });
            }
        }
        Ok(())
    }
}

fn block_members(nodes: &[BodyNode], matcher: &Matcher<'_>) -> Vec<usize> {
    let body = Body {
        nodes: nodes.to_vec(),
    };
    let mut found: Vec<usize> = body
        .members()
        .iter()
        .flat_map(|(_, m)| matcher.members(m))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn is_nameless_bits(nodes: &[BodyNode]) -> bool {
    matches!(nodes, [BodyNode::Member(member)] if member.declaration.is_nameless_bits())
}

fn is_bits(nodes: &[BodyNode]) -> bool {
    matches!(nodes.last(), Some(BodyNode::Member(member)) if member.declaration.is_bits())
}

fn join(items: Vec<OpenNode>, last: Leaf) -> Leaf {
    let mut joined = Leaf {
        nodes: Vec::new(),
        members: Vec::new(),
        line: last.line,
    };
    for item in items {
        match item {
            OpenNode::Blank(text) => joined.nodes.push(BodyNode::Blank(text)),
            OpenNode::Loose(text) => joined.nodes.push(BodyNode::Loose(text)),
            OpenNode::Leaf(leaf) => {
                joined.line = joined.line.min(leaf.line);
                joined.members.extend(leaf.members);
                joined.nodes.extend(leaf.nodes);
            }
            OpenNode::Block(_) => {}
        }
    }
    joined.members.extend(last.members);
    joined.nodes.extend(last.nodes);
    joined
}

/// Cuts `int a, b;` into `int a;` and `int b;`. Names that are not `known` stay with the one before
/// them.
fn split(
    member: &DeclaredMember,
    declarators: &[crate::declaration::Declarator],
    known: impl Fn(&str) -> bool,
) -> Vec<DeclaredMember> {
    let text = &member.text;
    let first = declarators
        .first()
        .map_or(member.declaration.specifier, |d| d.range.start);
    let mut pieces: Vec<(usize, usize)> = Vec::new();
    for declarator in declarators {
        let named = declarator.name.as_deref().is_some_and(&known);
        match pieces.last_mut() {
            Some(last) if !named => last.1 = declarator.range.end,
            _ => pieces.push((declarator.range.start, declarator.range.end)),
        }
    }
    let indentation = match member.lead.rfind('\n') {
        Some(at) => &member.lead[at + 1..],
        None => member.lead.as_str(),
    };
    let mut members = Vec::new();
    for (i, (from, to)) in pieces.into_iter().enumerate() {
        let piece = crate::declaration::joined(&text[..first], &text[from..to]);
        let Ok(declaration) = Declaration::of(member.declaration.dialect, &piece, 0) else {
            continue;
        };
        let (lead, trail) = match i {
            0 => (member.lead.clone(), member.trail.clone()),
            _ => (indentation.to_owned(), "\n".to_owned()),
        };
        members.push(DeclaredMember {
            lead,
            text: piece,
            trail,
            line: member.line,
            declaration,
        });
    }
    members
}

/// All leaves in the order of the text. Recursion: as deep as conditions nest.
pub(crate) fn each_leaf<'a>(items: &'a [OpenNode], visit: &mut impl FnMut(&'a Leaf)) {
    for item in items {
        match item {
            OpenNode::Leaf(leaf) => visit(leaf),
            OpenNode::Block(block) => {
                for (_, _, items) in &block.arms {
                    each_leaf(items, visit);
                }
            }
            OpenNode::Blank(_) | OpenNode::Loose(_) => {}
        }
    }
}
