//! Rewrites a definition in the text of its file: the wanted order, alignments, a comment for each
//! group. Nothing outside its braces changes.

use std::collections::BTreeSet;

use crate::access::access;
use crate::alternatives::SeveralFit;
use crate::arrange::arrange;
use crate::body::{self, BodyError, BodyNode, DeclaredMember};
use crate::conserve::{Inventory, lost_token};
use crate::declaration::{DeclarationShape, alignments};
use crate::definition::Definition;
use crate::dialect::Dialect;
use crate::idiom::Idiom;
use crate::lex::{TokenKind, lex};
use crate::matching::{OpenNode, Refusal, Refused, matched};
use crate::row::{PieceRow, TextPiece};
use crate::rust_struct;
use crate::wanted::Wanted;

/// Why a definition cannot be rewritten, with the line in its file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {reason}")]
pub struct RewriteError {
    /// The line in the file, counted from 1.
    pub line: u32,
    pub reason: RewriteReason,
}

/// The reason of a [`RewriteError`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RewriteReason {
    /// The text between the braces is not understood.
    #[error(transparent)]
    Body(#[from] body::BodyReason),
    /// It does not match the recorded kernel, or cannot be moved.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Checks that the definition has the members of the recorded kernel, in their order.
///
/// # Errors
/// The first disagreement.
pub fn check(file: &str, definition: &Definition, wanted: &Wanted) -> Result<(), RewriteError> {
    if definition.dialect == Dialect::Rust {
        return rust_struct::check(file, definition, wanted);
    }
    let parts = Parts::new(file, definition)?;
    matched(&parts.body, wanted, SeveralFit::Undecided).map_err(|e| parts.at(e))?;
    Ok(())
}

/// Checks that a rewritten definition has the wanted order. Unlike [`check`], it accepts a member
/// that several places declare if one of them fits: a move can make a second one fit. For tests and
/// fuzzing: a patch is proven by compiling.
///
/// # Errors
/// The first disagreement.
pub fn check_rewritten(
    file: &str,
    definition: &Definition,
    wanted: &Wanted,
) -> Result<(), RewriteError> {
    if definition.dialect == Dialect::Rust {
        return rust_struct::check(file, definition, &reached(wanted));
    }
    let parts = Parts::new(file, definition)?;
    matched(&parts.body, &reached(wanted), SeveralFit::Any).map_err(|e| parts.at(e))?;
    Ok(())
}

/// The file's text with the definition as wanted. `intents` has a sentence for each group of
/// [`Wanted::groups`]. The very same text if there is nothing to change.
///
/// # Errors
/// If the definition does not match the recorded kernel, or the change cannot be made safely.
pub fn rewrite(
    file: &str,
    definition: &Definition,
    wanted: &Wanted,
    idiom: &Idiom,
    intents: &[String],
) -> Result<String, RewriteError> {
    if definition.dialect == Dialect::Rust {
        return rust_struct::rewrite(file, definition, wanted);
    }
    rewrite_body(file, definition, wanted, idiom, intents)
}

/// [`rewrite()`] for what is written in the body alone.
pub(crate) fn rewrite_body(
    file: &str,
    definition: &Definition,
    wanted: &Wanted,
    idiom: &Idiom,
    intents: &[String],
) -> Result<String, RewriteError> {
    let parts = Parts::new(file, definition)?;
    let old = &file[definition.body.clone()];
    let mut items = matched(&parts.body, wanted, SeveralFit::Undecided).map_err(|e| parts.at(e))?;
    let mut aligned = BTreeSet::new();
    align(&mut items, wanted, idiom, &mut aligned).map_err(|e| parts.at(e))?;
    let mut row = arrange(&items, wanted).map_err(|e| parts.at(e))?;
    let indentation = parts.indentation();
    if format!("{}{}", parts.head, row.print(&indentation)) == *old {
        return Ok(file.to_owned());
    }
    let comments: Vec<String> = intents
        .iter()
        .map(|intent| comment(intent, &indentation))
        .collect();
    // In this order: `set_apart` adds no blank line where it finds a group's comment.
    annotate(&mut row, wanted, &comments);
    set_apart(&mut row, &aligned);
    let mut new = row.print(&indentation);
    if !new.rsplit('\n').next().unwrap_or("").trim().is_empty() {
        new.truncate(new.trim_end().len());
        new.push('\n');
    }
    let after = body::read_as(definition.dialect, &new).map_err(|e| parts.at_body(&e))?;
    let (mine, theirs) = (access(&parts.body), access(&after));
    if let Some((moved, _)) = mine.iter().find(|one| !theirs.contains(one)) {
        return Err(parts.at(Refused {
            line: 0,
            reason: Refusal::Access(moved.clone()),
        }));
    }
    let lost = Inventory::of(&parts.body).difference(&Inventory::of(&after), &comments);
    let whole = format!("{}{new}", parts.head);
    // C's tokens are not Rust's: a lifetime begins a character there.
    let lost_token = || lost_token(old, &whole).filter(|_| definition.dialect != Dialect::Rust);
    if let Some(lost) = lost.or_else(lost_token) {
        return Err(parts.at(Refused {
            line: 0,
            reason: Refusal::Lost(lost),
        }));
    }
    if let Err(wrong) = matched(&after, &reached(wanted), SeveralFit::Any) {
        return Err(parts.at(Refused {
            line: 0,
            reason: Refusal::Lost(wrong.reason.to_string()),
        }));
    }
    let mut text = file[..definition.body.start].to_owned();
    text.push_str(parts.head);
    text.push_str(&new);
    text.push_str(&file[definition.body.end..]);
    Ok(text)
}

/// How well members carry a group's alignment, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carriers {
    /// Those that a config can remove: under a condition.
    pub conditional: Vec<String>,
    /// Members of anonymous structs and unions, whose alignment is written before them and not in
    /// the tree's style.
    pub anonymous: Vec<String>,
    /// Those whose declaration requests an alignment.
    pub aligned: Vec<String>,
}

/// Which members carry a group's alignment less well than others.
///
/// # Errors
/// If the contents of the definition are not understood.
pub fn carriers(file: &str, definition: &Definition) -> Result<Carriers, RewriteError> {
    let parts = Parts::new(file, definition)?;
    let mut found = Carriers::default();
    for (conditions, member) in parts.body.members() {
        let names = member.declaration.names();
        if matches!(member.declaration.shape, DeclarationShape::Anonymous(_)) {
            found.anonymous.extend(names.clone());
        }
        if !alignments(&member.text).is_empty() {
            found.aligned.extend(names.clone());
        }
        if !conditions.is_empty() {
            found.conditional.extend(names);
        }
    }
    Ok(found)
}

/// A definition that is as wanted: the members in the wanted order, with nothing left to do.
fn reached(wanted: &Wanted) -> Wanted {
    let members = wanted.order.iter().filter_map(|m| wanted.members.get(*m));
    let members: Vec<_> = members
        .map(|member| crate::wanted::Recorded {
            align: None,
            group: None,
            ..member.clone()
        })
        .collect();
    Wanted {
        order: (0..members.len()).collect(),
        members,
        groups: Vec::new(),
        line: wanted.line,
    }
}

/// A definition's contents: the rest of its brace's line, and the rest.
pub(crate) struct Parts<'f> {
    head: &'f str,
    pub(crate) body: body::Body,
    /// The line of the file that the body starts on, counted from 1.
    pub(crate) line: u32,
}

impl<'f> Parts<'f> {
    pub(crate) fn new(file: &'f str, definition: &Definition) -> Result<Parts<'f>, RewriteError> {
        let text = &file[definition.body.clone()];
        let mut head = 0;
        for token in lex(text) {
            match token.kind {
                TokenKind::Blank | TokenKind::Comment => {}
                TokenKind::Newline => {
                    head = token.end();
                    break;
                }
                _ => break,
            }
        }
        let line = crate::definition::line_of(file, definition.body.start + head);
        let error = |e: BodyError| RewriteError {
            line: line + e.line,
            reason: e.reason.into(),
        };
        let body = body::read_as(definition.dialect, &text[head..]).map_err(error)?;
        Ok(Parts {
            head: &text[..head],
            body,
            line,
        })
    }

    fn at(&self, refused: Refused) -> RewriteError {
        let reason = match refused.reason {
            Refusal::Twice { name, other } => Refusal::Twice {
                name,
                other: other + self.line,
            },
            reason => reason,
        };
        RewriteError {
            line: self.line + refused.line,
            reason: reason.into(),
        }
    }

    fn at_body(&self, error: &BodyError) -> RewriteError {
        RewriteError {
            line: self.line + error.line,
            reason: error.reason.into(),
        }
    }

    /// The indentation of the first member that starts a line.
    fn indentation(&self) -> String {
        let members = self.body.members();
        let leads = members.iter().map(|(_, member)| member.lead.as_str());
        let own = leads
            .map(|lead| lead.rsplit('\n').next().unwrap_or(lead))
            .find(|lead| !lead.is_empty() && lead.trim().is_empty());
        match own {
            Some(own) if !self.head.is_empty() => own.to_owned(),
            _ => "\t".to_owned(),
        }
    }
}

/// Adds the alignments; `changed` gets the members whose text has changed. Recursion: as deep as
/// conditions nest.
fn align(
    items: &mut [OpenNode],
    wanted: &Wanted,
    idiom: &Idiom,
    changed: &mut BTreeSet<usize>,
) -> Result<(), Refused> {
    for item in items {
        match item {
            OpenNode::Blank(_) | OpenNode::Loose(_) => {}
            OpenNode::Block(block) => {
                for (_, _, items) in &mut block.arms {
                    align(items, wanted, idiom, changed)?;
                }
            }
            OpenNode::Leaf(leaf) => {
                for member in leaf.members.clone() {
                    let Some(asked) = wanted.members[member].align else {
                        continue;
                    };
                    let name = wanted.members[member].first_name();
                    let no_place = Refused {
                        line: leaf.line,
                        reason: Refusal::NoPlace(name),
                    };
                    let declared = declaring(&mut leaf.nodes, &wanted.members[member].names)
                        .ok_or_else(|| no_place.clone())?;
                    let old = declared.text.clone();
                    idiom.apply(declared, asked).ok_or(no_place)?;
                    if declared.text != old {
                        changed.insert(member);
                    }
                }
            }
        }
    }
    Ok(())
}

/// The declaration of a member among nodes; `None` inside a block that moves as one.
fn declaring<'a>(nodes: &'a mut [BodyNode], names: &[String]) -> Option<&'a mut DeclaredMember> {
    nodes.iter_mut().find_map(|node| match node {
        BodyNode::Member(member)
            if member.declaration.names().iter().any(|n| names.contains(n)) =>
        {
            Some(&mut **member)
        }
        _ => None,
    })
}

/// A comment in kernel style, at most 80 columns wide.
pub(crate) fn comment(intent: &str, indentation: &str) -> String {
    // Text that would end the comment is not part of a sentence.
    let intent = intent.replace("*/", "* /").replace("/*", "/ *");
    let width = indentation
        .chars()
        .map(|c| if c == '\t' { 8 } else { 1 })
        .sum::<usize>();
    let one = format!("{indentation}/* {intent} */\n");
    if width + intent.chars().count() + 6 <= 80 && !intent.contains('\n') {
        return one;
    }
    let mut text = format!("{indentation}/*\n");
    for line in wrap(&intent, 77_usize.saturating_sub(width).max(20)) {
        text.push_str(format!("{indentation} * {line}").trim_end());
        text.push('\n');
    }
    text.push_str(&format!("{indentation} */\n"));
    text
}

/// Words in lines of at most `width` characters; line ends stay.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}

/// The place before the piece at `first` and of the conditions that open with it; whether a
/// paragraph already starts there.
fn front(row: &PieceRow, first: usize) -> (usize, bool) {
    let mut at = first;
    while at > 0 && matches!(&row.pieces[at - 1], TextPiece::Open { lead, .. } if lead.is_empty()) {
        at -= 1;
    }
    let starts = at.checked_sub(1).is_none_or(|before| {
        matches!(
            row.pieces[before],
            TextPiece::Blank(_) | TextPiece::Open { .. } | TextPiece::Else { .. }
        )
    });
    (at, starts)
}

/// Puts a comment after the one that precedes a member; false if it has none.
fn add_to_comment(nodes: &mut [BodyNode], comment: &str) -> bool {
    let Some(BodyNode::Member(member)) = nodes.first_mut() else {
        return false;
    };
    let at = member.lead.rfind('\n').map_or(0, |at| at + 1);
    let has = at > 0 && member.lead[..at].contains("*/");
    if has {
        member.lead.insert_str(at, comment);
    }
    has
}

/// Puts a blank line before what starts a cache line now, unless its group's comment is there: a
/// paragraph of its own.
fn set_apart(row: &mut PieceRow, aligned: &BTreeSet<usize>) {
    let mut at = 0;
    while at < row.pieces.len() {
        let starts_line = match &row.pieces[at] {
            TextPiece::Leaf(placed) => placed
                .leaf
                .members
                .first()
                .is_some_and(|m| aligned.contains(m)),
            _ => false,
        };
        if starts_line {
            if let (place, false) = front(row, at) {
                if !matches!(row.pieces[place - 1], TextPiece::Loose(_)) {
                    row.pieces.insert(place, TextPiece::Blank("\n".to_owned()));
                    at += 1;
                }
            }
        }
        at += 1;
    }
}

/// Puts each group's comment before it, and blank lines around it.
fn annotate(row: &mut PieceRow, wanted: &Wanted, comments: &[String]) {
    for (number, comment) in comments.iter().enumerate().take(wanted.groups.len()) {
        let in_group = |piece: &TextPiece| match piece {
            TextPiece::Leaf(placed) => placed
                .leaf
                .members
                .iter()
                .any(|m| wanted.members[*m].group == Some(number)),
            _ => false,
        };
        let Some(first) = row.pieces.iter().position(in_group) else {
            continue;
        };
        let last = row.pieces.iter().rposition(in_group).unwrap_or(first);
        let alone = first == last;
        let closes = row.pieces[last + 1..]
            .iter()
            .take_while(|p| matches!(p, TextPiece::Close { .. }))
            .count();
        let after = last + 1 + closes;
        if !matches!(
            row.pieces.get(after),
            None | Some(TextPiece::Blank(_) | TextPiece::Else { .. })
        ) {
            row.pieces.insert(after, TextPiece::Blank("\n".to_owned()));
        }
        if alone {
            if let TextPiece::Leaf(placed) = &mut row.pieces[first] {
                if add_to_comment(&mut placed.leaf.nodes, comment) {
                    continue;
                }
            }
        }
        let (at, starts) = front(row, first);
        let mut pieces = Vec::new();
        if !starts {
            pieces.push(TextPiece::Blank("\n".to_owned()));
        }
        pieces.push(TextPiece::Loose(comment.clone()));
        // A comment of the member itself does not belong to the group's.
        let own = match &row.pieces[at] {
            TextPiece::Leaf(placed) => crate::row::lead(&placed.leaf).contains("/*"),
            _ => false,
        };
        if own {
            pieces.push(TextPiece::Blank("\n".to_owned()));
        }
        row.pieces.splice(at..at, pieces);
    }
}
