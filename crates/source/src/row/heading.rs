//! Comments about several members: they stay with those that stay, and what is put after those
//! becomes separate.

use std::collections::BTreeSet;

use super::{PieceRow, PlacedLeaf, TextPiece, lead, prepend};
use crate::body::BodyNode;
use crate::remarks;

impl PieceRow {
    /// Gives a comment about several members to the next one of its paragraph that stays, if the
    /// first does not.
    pub(super) fn leave_headings(&mut self, staying: &BTreeSet<usize>) {
        let stays = |placed: &PlacedLeaf| placed.rank.is_none_or(|rank| staying.contains(&rank));
        for at in 0..self.pieces.len() {
            let TextPiece::Leaf(first) = &self.pieces[at] else {
                continue;
            };
            if stays(first) || !remarks::is_about_several(lead(&first.leaf)) {
                continue;
            }
            let paragraph = self.pieces[at + 1..].iter().map_while(|piece| match piece {
                TextPiece::Leaf(placed) if !lead(&placed.leaf).contains("/*") => Some(placed),
                _ => None,
            });
            let Some(next) = paragraph.map(stays).position(|stays| stays) else {
                continue;
            };
            let comments = match &mut self.pieces[at] {
                TextPiece::Leaf(first) => take_comments(&mut first.leaf.nodes),
                _ => continue,
            };
            if let TextPiece::Leaf(heir) = &mut self.pieces[at + 1 + next] {
                prepend(&mut heir.leaf.nodes, &comments);
            }
        }
    }

    /// Whether a comment about several members covers what would be put at `at`.
    pub(super) fn is_headed(&self, at: usize) -> bool {
        let before = self.pieces[..at].iter().rev();
        let paragraph = before.map_while(|piece| match piece {
            TextPiece::Leaf(placed) => Some(lead(&placed.leaf)),
            _ => None,
        });
        let mut comments = paragraph.filter(|lead| lead.contains("/*"));
        comments.next().is_some_and(remarks::is_about_several)
    }

    /// Whether that comment also covers what is at `at`.
    pub(super) fn is_headed_after(&self, at: usize) -> bool {
        let next = self.pieces.get(at);
        matches!(next, Some(TextPiece::Leaf(placed)) if !lead(&placed.leaf).contains("/*"))
    }
}

/// Takes out the lines of comments before the first member or condition.
fn take_comments(nodes: &mut [BodyNode]) -> String {
    let lead = match nodes.first_mut() {
        Some(BodyNode::Member(member)) => &mut member.lead,
        Some(BodyNode::Block(block)) => &mut block.lead,
        _ => return String::new(),
    };
    let end = lead.rfind('\n').map_or(0, |newline| newline + 1);
    lead.drain(..end).collect()
}
