//! Joins the conditions that leaves brought with them with adjacent ones, and writes their ends.

use std::collections::BTreeMap;

use super::{PieceRow, TextPiece};
use crate::body::BodyNode;
use crate::condition::Condition;

/// The most lines in a block whose `#endif` needs no comment (the kernel's coding style: "more than
/// a few lines").
const SHORT_BLOCK: usize = 4;

impl PieceRow {
    /// Joins a condition that closes with the same condition opening directly after, if one of them
    /// was made here.
    pub(crate) fn merge(&mut self) {
        self.unfold();
        let mut at = 0;
        while at + 1 < self.pieces.len() {
            if self.mergeable(at) {
                self.keep_end(at);
                self.pieces.drain(at..at + 2);
                at = at.saturating_sub(1);
            } else {
                at += 1;
            }
        }
        self.drop_made_empties();
        self.name_ends();
    }

    /// Restores the comment on the `#endif` of long blocks that the old text had.
    fn name_ends(&mut self) {
        let mut open: Vec<(Option<Condition>, usize)> = Vec::new();
        for at in 0..self.pieces.len() {
            match &mut self.pieces[at] {
                TextPiece::Open { condition, .. } => {
                    // Nesting is not visible at a glance either.
                    for (_, lines) in &mut open {
                        *lines += SHORT_BLOCK;
                    }
                    open.push((Some(condition.clone()), 0));
                }
                TextPiece::Else { .. } => {
                    if let Some((condition, _)) = open.last_mut() {
                        *condition = None;
                    }
                }
                TextPiece::Close { text, made } => {
                    let Some((Some(condition), lines)) = open.pop() else {
                        continue;
                    };
                    if *made && text == "#endif\n" && lines > SHORT_BLOCK {
                        if let Some((_, end)) = self.lines.get(&condition) {
                            text.clone_from(end);
                        }
                    }
                }
                piece => {
                    let lines = piece.text().matches('\n').count();
                    for (_, inside) in &mut open {
                        *inside += lines;
                    }
                }
            }
        }
    }

    /// If the block that opens after the `#endif` at `at` ends without a comment, it gets that
    /// one's end.
    fn keep_end(&mut self, at: usize) {
        let TextPiece::Close { text: kept, .. } = self.pieces[at].clone() else {
            return;
        };
        if let Some(end) = self.end_of(at + 1) {
            if let TextPiece::Close { text, .. } = &mut self.pieces[end] {
                if text == "#endif\n" {
                    *text = kept;
                }
            }
        }
    }

    /// Takes blocks that moved as one apart again if they landed next to their own condition.
    fn unfold(&mut self) {
        let mut at = 0;
        while at < self.pieces.len() {
            if let Some(parts) = self.unfolded(at) {
                self.pieces.splice(at..=at, parts);
                at += 2;
            }
            at += 1;
        }
    }

    /// The block at `at` as its directives and what is in between; `None` if it must not be taken
    /// apart.
    fn unfolded(&self, at: usize) -> Option<[TextPiece; 3]> {
        let TextPiece::Leaf(placed) = &self.pieces[at] else {
            return None;
        };
        let [BodyNode::Block(block)] = placed.leaf.nodes.as_slice() else {
            return None;
        };
        let ([arm], true) = (block.arms.as_slice(), block.lead.is_empty()) else {
            return None;
        };
        let after = at
            .checked_sub(1)
            .is_some_and(|i| matches!(self.pieces[i], TextPiece::Close { .. }));
        let before = matches!(self.pieces.get(at + 1), Some(TextPiece::Open { .. }));
        if !after && !before {
            return None;
        }
        let condition = arm.condition.clone();
        let open = TextPiece::Open {
            lead: String::new(),
            text: arm.directive.clone(),
            condition: condition.clone(),
            made: true,
        };
        let close = TextPiece::Close {
            text: block.end.clone(),
            made: true,
        };
        let mut inner = placed.clone();
        inner.leaf.nodes = arm.nodes.clone();
        inner.conditions.push(condition);
        Some([open, TextPiece::Leaf(inner), close])
    }

    fn mergeable(&self, at: usize) -> bool {
        let (
            TextPiece::Close { made: first, .. },
            TextPiece::Open {
                condition,
                made: second,
                lead,
                ..
            },
        ) = (&self.pieces[at], &self.pieces[at + 1])
        else {
            return false;
        };
        let mut depth = 0;
        let opening = self.pieces[..at].iter().rev().find(|piece| match piece {
            TextPiece::Close { .. } => {
                depth += 1;
                false
            }
            TextPiece::Open { .. } if depth > 0 => {
                depth -= 1;
                false
            }
            TextPiece::Open { .. } | TextPiece::Else { .. } => depth == 0,
            _ => false,
        });
        // An `#endif` after `#else` or `#elif` does not close the condition of its `#if`: what is
        // put before it is under another one.
        let same = matches!(opening, Some(TextPiece::Open { condition: c, .. }) if c == condition);
        same && (*first || *second) && lead.is_empty()
    }

    /// Splitting at the edge of a condition leaves an empty one.
    fn drop_made_empties(&mut self) {
        let mut at = 0;
        while at + 1 < self.pieces.len() {
            let empty = match (&self.pieces[at], &self.pieces[at + 1]) {
                (TextPiece::Open { made, lead, .. }, TextPiece::Close { made: too, .. }) => {
                    (*made || *too) && lead.is_empty()
                }
                _ => false,
            };
            if empty {
                self.pieces.drain(at..at + 2);
                at = at.saturating_sub(1);
            } else {
                at += 1;
            }
        }
    }
}

/// The first and the last line of blocks without alternatives, the first of each condition; only
/// those that fill one line.
pub(super) fn spellings(pieces: &[TextPiece]) -> BTreeMap<Condition, (String, String)> {
    let (mut open, mut found) = (Vec::new(), BTreeMap::new());
    for piece in pieces {
        match piece {
            TextPiece::Open {
                text, condition, ..
            } => open.push(Some((condition, text))),
            TextPiece::Else { .. } => {
                if let Some(last) = open.last_mut() {
                    *last = None;
                }
            }
            TextPiece::Close { text: end, .. } => {
                let Some(Some((condition, text))) = open.pop() else {
                    continue;
                };
                let plain =
                    |line: &String| line.matches('\n').count() == 1 && line.starts_with('#');
                if plain(text) && plain(end) && !text.contains("/*") && !text.contains("//") {
                    found
                        .entry(condition.clone())
                        .or_insert_with(|| (text.clone(), end.clone()));
                }
            }
            _ => {}
        }
    }
    found
}
