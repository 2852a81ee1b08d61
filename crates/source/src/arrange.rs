//! Brings the leaves of a definition into the wanted order, moving as little text as possible.
//!
//! The leaves that can stay are the heaviest increasing run; the others are cut out and put after
//! their new neighbour, where the fewest conditions have to be opened or closed. Members that the
//! recorded kernel lacks stay where they are.

use std::collections::{BTreeMap, BTreeSet};

use crate::body::{self, BodyNode};
use crate::condition::Condition;
use crate::matching::{Leaf, MAX_LEAVES, OpenBlock, OpenNode, Refusal, Refused, each_leaf, refuse};
use crate::row::{PieceRow, PlacedLeaf, TextPiece};
use crate::wanted::Wanted;

/// The definition in the wanted order.
pub(crate) fn arrange(items: &[OpenNode], wanted: &Wanted) -> Result<PieceRow, Refused> {
    let mut ranks = vec![0; wanted.members.len()];
    for (rank, member) in wanted.order.iter().enumerate() {
        if let Some(slot) = ranks.get_mut(*member) {
            *slot = rank;
        }
    }
    // First with each block whose members stay together as one leaf; blocks that turn out to stay
    // are then taken apart, so that something can be inserted.
    let folded = flatten(items, wanted, &ranks, &BTreeSet::new())?;
    let staying = staying(&folded);
    let mut row = PieceRow::new(flatten(items, wanted, &ranks, &staying)?);
    let (barriers, followers) = (row.barriers(), row.followers());
    let mut moving = row.cut(&staying);
    moving.sort_by_key(|placed| placed.rank);
    row.clean(&mut moving);
    for placed in moving {
        let rank = placed.rank.unwrap_or(0);
        row.insert(placed, rank.checked_sub(1), rank, wanted)?;
    }
    lower(&mut row, &followers, wanted)?;
    row.merge();
    row.check_barriers(&barriers, wanted)?;
    Ok(row)
}

/// A member that the recorded kernel lacks must not end up before everything because its
/// predecessor has moved: it follows that, or the end of its group.
fn lower(
    row: &mut PieceRow,
    followers: &BTreeMap<usize, usize>,
    wanted: &Wanted,
) -> Result<(), Refused> {
    let mut leading = row.cut_leading(followers);
    row.clean(&mut leading);
    let group = |rank: usize| {
        wanted
            .order
            .get(rank)
            .and_then(|m| wanted.members[*m].group)
    };
    // The last first: each goes directly after its place.
    for mut placed in leading.into_iter().rev() {
        placed.rank = None;
        let Some(mut rank) = followers.get(&placed.number).copied() else {
            continue;
        };
        while group(rank).is_some() && group(rank) == group(rank + 1) {
            rank += 1;
        }
        row.insert(placed, Some(rank), rank + 1, wanted)?;
    }
    Ok(())
}

fn flatten(
    items: &[OpenNode],
    wanted: &Wanted,
    ranks: &[usize],
    staying: &BTreeSet<usize>,
) -> Result<Vec<TextPiece>, Refused> {
    let mut flat = Flattener {
        wanted,
        ranks,
        staying,
        pieces: Vec::new(),
        conditions: Vec::new(),
        leaves: 0,
    };
    flat.items(items)?;
    Ok(flat.pieces)
}

struct Flattener<'a> {
    wanted: &'a Wanted,
    ranks: &'a [usize],
    /// Blocks with these members are not folded.
    staying: &'a BTreeSet<usize>,
    pieces: Vec<TextPiece>,
    conditions: Vec<Condition>,
    leaves: usize,
}

impl Flattener<'_> {
    /// Recursion: as deep as conditions nest.
    fn items(&mut self, items: &[OpenNode]) -> Result<(), Refused> {
        for item in items {
            match item {
                OpenNode::Blank(text) => self.pieces.push(TextPiece::Blank(text.clone())),
                OpenNode::Loose(text) => self.pieces.push(TextPiece::Loose(text.clone())),
                OpenNode::Leaf(leaf) => self.leaf(leaf.clone())?,
                OpenNode::Block(block) => match self.folded(block) {
                    Some(leaf) => self.leaf(leaf)?,
                    None => self.block(block)?,
                },
            }
        }
        Ok(())
    }

    fn leaf(&mut self, leaf: Leaf) -> Result<(), Refused> {
        let rank = leaf.members.first().map(|m| self.ranks[*m]);
        for pair in leaf.members.windows(2) {
            if self.ranks[pair[0]] + 1 != self.ranks[pair[1]] {
                let name = |m: usize| self.wanted.members[m].first_name();
                let (first, second) = (name(pair[0]), name(pair[1]));
                let what = "in alternatives of one condition, or by a macro";
                return refuse(
                    leaf.line,
                    Refusal::Tied {
                        first,
                        second,
                        what,
                    },
                );
            }
        }
        let number = self.leaves;
        self.leaves += 1;
        if self.leaves > MAX_LEAVES {
            return refuse(leaf.line, Refusal::TooMany(self.leaves));
        }
        let conditions = self.conditions.clone();
        self.pieces.push(TextPiece::Leaf(PlacedLeaf {
            leaf,
            rank,
            conditions,
            number,
            apart: false,
            access: String::new(),
        }));
        Ok(())
    }

    /// The block as one leaf, if its members move and stay together in their order.
    fn folded(&self, block: &OpenBlock) -> Option<Leaf> {
        let mut members = Vec::new();
        let mut line = u32::MAX;
        for (_, _, items) in &block.arms {
            each_leaf(items, &mut |leaf| {
                members.extend(leaf.members.iter().copied());
                line = line.min(leaf.line);
            });
        }
        let together = members
            .windows(2)
            .all(|p| self.ranks[p[0]] + 1 == self.ranks[p[1]]);
        let stays = self.staying.contains(&self.ranks[*members.first()?]);
        (together && !stays).then(|| Leaf {
            nodes: vec![to_node(block)],
            members,
            line,
        })
    }

    fn block(&mut self, block: &OpenBlock) -> Result<(), Refused> {
        for (i, (text, condition, items)) in block.arms.iter().enumerate() {
            let (text, condition) = (text.clone(), condition.clone());
            if i == 0 {
                let lead = block.lead.clone();
                self.pieces.push(TextPiece::Open {
                    lead,
                    text,
                    condition: condition.clone(),
                    made: false,
                });
            } else {
                self.pieces.push(TextPiece::Else {
                    text,
                    condition: condition.clone(),
                });
            }
            self.conditions.push(condition);
            self.items(items)?;
            self.conditions.pop();
        }
        self.pieces.push(TextPiece::Close {
            text: block.end.clone(),
            made: false,
        });
        Ok(())
    }
}

/// Recursion: as deep as conditions nest.
fn to_node(block: &OpenBlock) -> BodyNode {
    let arms = block
        .arms
        .iter()
        .map(|(directive, condition, items)| body::Arm {
            directive: directive.clone(),
            condition: condition.clone(),
            nodes: items.iter().flat_map(to_nodes).collect(),
        });
    BodyNode::Block(body::ConditionalBlock {
        lead: block.lead.clone(),
        arms: arms.collect(),
        end: block.end.clone(),
        line: 0,
    })
}

fn to_nodes(item: &OpenNode) -> Vec<BodyNode> {
    match item {
        OpenNode::Blank(text) => vec![BodyNode::Blank(text.clone())],
        OpenNode::Loose(text) => vec![BodyNode::Loose(text.clone())],
        OpenNode::Leaf(leaf) => leaf.nodes.clone(),
        OpenNode::Block(block) => vec![to_node(block)],
    }
}

/// The ranks of the members that stay: those of the increasing run of leaves with most lines of
/// text.
fn staying(pieces: &[TextPiece]) -> BTreeSet<usize> {
    let leaf = |piece: &TextPiece| match piece {
        TextPiece::Leaf(PlacedLeaf {
            leaf,
            rank: Some(rank),
            ..
        }) => {
            let mut text = String::new();
            body::print(&leaf.nodes, &mut text);
            Some((*rank, leaf.members.len(), text.matches('\n').count().max(1)))
        }
        _ => None,
    };
    let leaves: Vec<(usize, usize, usize)> = pieces.iter().filter_map(leaf).collect();
    // For each leaf the heaviest run that ends with it: its weight, and the previous leaf. Of
    // equally heavy ones the first.
    let mut best: Vec<(usize, Option<usize>)> = Vec::new();
    for (i, (rank, _, weight)) in leaves.iter().enumerate() {
        let before = (0..i).filter(|j| leaves[*j].0 < *rank);
        let before = before.max_by_key(|j| (best[*j].0, std::cmp::Reverse(*j)));
        best.push((weight + before.map_or(0, |j| best[j].0), before));
    }
    let mut at = (0..best.len()).max_by_key(|i| (best[*i].0, std::cmp::Reverse(*i)));
    let mut staying = BTreeSet::new();
    while let Some(i) = at {
        let (rank, members, _) = leaves[i];
        staying.extend(rank..rank + members);
        at = best[i].1;
    }
    staying
}
