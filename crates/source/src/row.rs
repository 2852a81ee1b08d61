//! A definition as a row of pieces: conditions that open and close, and leaves between them.
//!
//! Takes out leaves and inserts them such that each keeps its conditions; it does not decide which,
//! nor where.

mod heading;
mod merge;

use std::collections::{BTreeMap, BTreeSet};

use crate::access::access_specifier;
use crate::body::{self, BodyNode};
use crate::condition::Condition;
use crate::idiom::columns;
use crate::matching::{Leaf, Refusal, Refused, refuse};
use crate::wanted::Wanted;

/// A piece of the definition's text.
#[derive(Clone, Debug)]
pub(crate) enum TextPiece {
    /// `#if`, with the comments before it. `made`: it was not in the old text.
    Open {
        lead: String,
        text: String,
        condition: Condition,
        made: bool,
    },
    /// `#else` or `#elif`; the condition is that of what follows.
    Else { text: String, condition: Condition },
    /// `#endif`
    Close { text: String, made: bool },
    /// What moves as one.
    Leaf(PlacedLeaf),
    /// A line with nothing on it.
    Blank(String),
    /// Comments and other preprocessor lines.
    Loose(String),
    /// The leaf with that rank was here.
    Gone(usize),
}

/// A leaf in the row.
#[derive(Clone, Debug)]
pub(crate) struct PlacedLeaf {
    pub(crate) leaf: Leaf,
    /// Place of its first member in the wanted order; `None` if the recorded kernel lacks it.
    pub(crate) rank: Option<usize>,
    /// The conditions around it.
    pub(crate) conditions: Vec<Condition>,
    /// Its number in the old text.
    pub(crate) number: usize,
    /// Whether it was separated from what preceded it in the old text.
    pub(crate) apart: bool,
    /// The access specifier before it in the old text; empty without one.
    pub(crate) access: String,
}

#[derive(Clone, Debug)]
pub(crate) struct PieceRow {
    pub(crate) pieces: Vec<TextPiece>,
    /// How the old text wrote the first and the last line of each condition, if it can be written
    /// again.
    lines: BTreeMap<Condition, (String, String)>,
}

/// What a leaf needs around it at a place.
struct Gap {
    at: usize,
    /// How many of the leaf's conditions are open there.
    shared: usize,
    /// The open conditions that are not the leaf's, outermost first: they are split.
    torn: Vec<Condition>,
}

impl PieceRow {
    pub(crate) fn new(mut pieces: Vec<TextPiece>) -> PieceRow {
        let (mut apart, mut access) = (false, String::new());
        for piece in &mut pieces {
            if let TextPiece::Loose(text) = piece {
                access = access_specifier(text).unwrap_or(access);
            }
            match piece {
                TextPiece::Leaf(placed) => {
                    (placed.apart, apart) = (apart, false);
                    placed.access.clone_from(&access);
                }
                TextPiece::Blank(_) => apart = true,
                TextPiece::Open { .. } | TextPiece::Else { .. } | TextPiece::Close { .. } => {}
                TextPiece::Loose(_) | TextPiece::Gone(_) => apart = false,
            }
        }
        let lines = merge::spellings(&pieces);
        PieceRow { pieces, lines }
    }

    /// Takes out the leaves whose members do not stay.
    pub(crate) fn cut(&mut self, staying: &BTreeSet<usize>) -> Vec<PlacedLeaf> {
        self.leave_headings(staying);
        let mut moving = Vec::new();
        for piece in &mut self.pieces {
            let rank = match piece {
                TextPiece::Leaf(PlacedLeaf {
                    rank: Some(rank), ..
                }) if !staying.contains(rank) => *rank,
                _ => continue,
            };
            if let TextPiece::Leaf(mut placed) = std::mem::replace(piece, TextPiece::Gone(rank)) {
                // Only what moves: style checks read the lines that a patch adds, and any other
                // line would become one.
                tidy(&mut placed.leaf.nodes);
                moving.push(placed);
            }
        }
        moving
    }

    /// Removes what the removed leaves left behind: empty conditions, double blank lines.
    pub(crate) fn clean(&mut self, moving: &mut [PlacedLeaf]) {
        while let Some((open, close)) = self.empty_block() {
            let gone = self.pieces[open..=close].iter().find_map(|p| match p {
                TextPiece::Gone(rank) => Some(*rank),
                _ => None,
            });
            if let (Some(rank), TextPiece::Open { lead, .. }) = (gone, &self.pieces[open]) {
                let comments = lead.trim_end_matches([' ', '\t']).to_owned();
                if let Some(placed) = moving.iter_mut().find(|p| p.rank == Some(rank)) {
                    prepend(&mut placed.leaf.nodes, &comments);
                }
            }
            self.pieces.splice(open..=close, gone.map(TextPiece::Gone));
        }
        self.drop_empty_arms();
        self.drop_blanks();
    }

    /// The first innermost block with nothing left in it, if something was taken out of it.
    fn empty_block(&self) -> Option<(usize, usize)> {
        let mut open = None;
        let mut gone = false;
        for (i, piece) in self.pieces.iter().enumerate() {
            match piece {
                TextPiece::Open { .. } => (open, gone) = (Some(i), false),
                TextPiece::Gone(_) => gone = true,
                TextPiece::Blank(_) | TextPiece::Else { .. } => {}
                TextPiece::Leaf(_) | TextPiece::Loose(_) => open = None,
                TextPiece::Close { .. } => match open.take() {
                    Some(open) if gone => return Some((open, i)),
                    _ => {}
                },
            }
        }
        None
    }

    /// Turns `#ifdef A #else x #endif` into `#ifndef A x #endif`, and drops an empty `#else`.
    fn drop_empty_arms(&mut self) {
        let mut at = 0;
        while at < self.pieces.len() {
            if let TextPiece::Else { condition, .. } = &self.pieces[at] {
                if let Some((open, close)) = self.two_arms(at) {
                    let condition = condition.clone();
                    if self.is_empty(open + 1, at) {
                        let text = format!("{}\n", condition.opening());
                        self.pieces.remove(at);
                        if let TextPiece::Open {
                            text: old,
                            condition: c,
                            ..
                        } = &mut self.pieces[open]
                        {
                            (*old, *c) = (text, condition);
                        }
                        continue;
                    }
                    if self.is_empty(at + 1, close) {
                        self.pieces.remove(at);
                        continue;
                    }
                }
            }
            at += 1;
        }
    }

    /// Whether something was taken out between these places and nothing is left.
    fn is_empty(&self, from: usize, to: usize) -> bool {
        let pieces = &self.pieces[from..to];
        pieces.iter().any(|p| matches!(p, TextPiece::Gone(_)))
            && pieces
                .iter()
                .all(|p| matches!(p, TextPiece::Gone(_) | TextPiece::Blank(_)))
    }

    /// The `#if` and the `#endif` of the `#else` at `at`, if there are no other alternatives.
    fn two_arms(&self, at: usize) -> Option<(usize, usize)> {
        let mut depth = 0;
        let open = (0..at).rev().find(|i| match &self.pieces[*i] {
            TextPiece::Close { .. } => {
                depth += 1;
                false
            }
            TextPiece::Open { .. } if depth == 0 => true,
            TextPiece::Open { .. } => {
                depth -= 1;
                false
            }
            TextPiece::Else { .. } => depth == 0,
            _ => false,
        })?;
        let close = self.end_of(at)?;
        let both = matches!(self.pieces[open], TextPiece::Open { .. })
            && matches!(self.pieces[close], TextPiece::Close { .. });
        both.then_some((open, close))
    }

    /// The next `#else` or `#endif` on the level of the `#if` or `#else` at `at`.
    fn end_of(&self, at: usize) -> Option<usize> {
        let mut depth = 0;
        (at + 1..self.pieces.len()).find(|i| match &self.pieces[*i] {
            TextPiece::Open { .. } => {
                depth += 1;
                false
            }
            TextPiece::Close { .. } if depth > 0 => {
                depth -= 1;
                false
            }
            TextPiece::Else { .. } | TextPiece::Close { .. } => depth == 0,
            _ => false,
        })
    }

    /// If blank lines were on both sides of what was taken out, keeps those of one side; at the
    /// edges of a condition none.
    fn drop_blanks(&mut self) {
        let mut kept: Vec<TextPiece> = Vec::new();
        let mut pieces = std::mem::take(&mut self.pieces).into_iter().peekable();
        while let Some(piece) = pieces.next() {
            if !matches!(piece, TextPiece::Blank(_) | TextPiece::Gone(_)) {
                kept.push(piece);
                continue;
            }
            let mut run = vec![piece];
            while let Some(next) =
                pieces.next_if(|p| matches!(p, TextPiece::Blank(_) | TextPiece::Gone(_)))
            {
                run.push(next);
            }
            if run.iter().all(|p| matches!(p, TextPiece::Blank(_))) {
                kept.append(&mut run);
                continue;
            }
            let left = matches!(
                kept.last(),
                None | Some(TextPiece::Open { .. } | TextPiece::Else { .. })
            );
            let right = matches!(
                pieces.peek(),
                None | Some(TextPiece::Close { .. } | TextPiece::Else { .. })
            );
            if left || right {
                continue;
            }
            let sides = run.split(|p| matches!(p, TextPiece::Gone(_)));
            let blanks = sides.max_by_key(|side| side.len()).unwrap_or_default();
            // Pieces that are adjacent for the first time can be joined.
            if let (true, Some(TextPiece::Close { made, .. })) =
                (blanks.is_empty(), kept.last_mut())
            {
                *made = true;
            }
            kept.extend(blanks.to_vec());
        }
        self.pieces = kept;
    }

    /// For each leaf that the recorded kernel lacks, by number, the rank of the last member before
    /// it.
    pub(crate) fn followers(&self) -> BTreeMap<usize, usize> {
        let mut last = None;
        let mut found = BTreeMap::new();
        for piece in &self.pieces {
            let TextPiece::Leaf(placed) = piece else {
                continue;
            };
            match (placed.rank, last) {
                (Some(rank), _) => last = Some(rank + placed.leaf.members.len() - 1),
                (None, Some(last)) => {
                    found.insert(placed.number, last);
                }
                (None, None) => {}
            }
        }
        found
    }

    /// Takes out the leaves of `followers` that precede all members. Each gets a rank of its own,
    /// for [`PieceRow::clean`].
    pub(crate) fn cut_leading(&mut self, followers: &BTreeMap<usize, usize>) -> Vec<PlacedLeaf> {
        let mut leading = Vec::new();
        for piece in &mut self.pieces {
            let TextPiece::Leaf(placed) = piece else {
                continue;
            };
            if placed.rank.is_some() {
                break;
            }
            if !followers.contains_key(&placed.number) {
                continue;
            }
            let rank = usize::MAX - placed.number;
            placed.rank = Some(rank);
            if let TextPiece::Leaf(placed) = std::mem::replace(piece, TextPiece::Gone(rank)) {
                leading.push(placed);
            }
        }
        leading
    }

    /// Puts a leaf between the last one of at most the first of these ranks, and the first of at
    /// least the other.
    pub(crate) fn insert(
        &mut self,
        placed: PlacedLeaf,
        below: Option<usize>,
        above: usize,
        wanted: &Wanted,
    ) -> Result<(), Refused> {
        let mut ranked: Vec<(usize, usize)> = Vec::new();
        for (at, piece) in self.pieces.iter().enumerate() {
            if let TextPiece::Leaf(PlacedLeaf {
                rank: Some(rank), ..
            }) = piece
            {
                ranked.push((*rank, at));
            }
        }
        let from = ranked
            .iter()
            .filter(|(rank, _)| below.is_some_and(|b| *rank <= b))
            .max();
        let from = from.map_or(0, |(_, at)| at + 1);
        let to = ranked.iter().filter(|(rank, _)| *rank >= above).min();
        let to = to.map_or(self.pieces.len(), |(_, at)| *at);
        let Some(gap) = self.best_gap(&placed, from, to) else {
            let name = wanted
                .order
                .get(above)
                .map_or_else(String::new, |m| wanted.members[*m].first_name());
            return refuse(placed.leaf.line, Refusal::Tears(name));
        };
        let conditions = placed.conditions[gap.shared..].to_vec();
        let mut pieces = Vec::new();
        let before_gap = gap.at.checked_sub(1).map(|i| &self.pieces[i]);
        let comments = lead(&placed.leaf);
        let starts_paragraph =
            comments.matches('\n').count() > 1 || (placed.apart && comments.contains("/*"));
        let not_meant = self.is_headed(gap.at) && !self.is_headed_after(gap.at);
        if matches!(before_gap, Some(TextPiece::Leaf(_))) && (starts_paragraph || not_meant) {
            pieces.push(TextPiece::Blank("\n".to_owned()));
        }
        let close = || TextPiece::Close {
            text: "#endif\n".to_owned(),
            made: true,
        };
        let open = |condition: &Condition| TextPiece::Open {
            lead: String::new(),
            text: match self.lines.get(condition) {
                Some((opening, _)) => opening.clone(),
                None => format!("{}\n", condition.opening()),
            },
            condition: condition.clone(),
            made: true,
        };
        pieces.extend(gap.torn.iter().map(|_| close()));
        pieces.extend(conditions.iter().map(open));
        pieces.push(TextPiece::Leaf(placed));
        pieces.extend(conditions.iter().map(|_| close()));
        pieces.extend(gap.torn.iter().map(open));
        if conditions.is_empty() && gap.torn.is_empty() && self.starts_paragraph(gap.at) {
            pieces.push(TextPiece::Blank("\n".to_owned()));
        }
        self.pieces.splice(gap.at..gap.at, pieces);
        Ok(())
    }

    /// Whether the piece at `at` has comments of its own, and nothing preceded it.
    fn starts_paragraph(&self, at: usize) -> bool {
        match self.pieces.get(at) {
            Some(TextPiece::Loose(text)) => text.contains("/*"),
            Some(TextPiece::Leaf(placed)) => {
                placed.number == 0 && lead(&placed.leaf).contains("/*")
            }
            _ => false,
        }
    }

    /// The place between `from` and `to` under the leaf's access specifier where the fewest
    /// conditions have to be split, then opened; of several the first.
    fn best_gap(&self, placed: &PlacedLeaf, from: usize, to: usize) -> Option<Gap> {
        let mut open: Vec<(Condition, bool)> = Vec::new();
        let mut best: Option<((bool, usize, usize), Gap)> = None;
        let mut access = String::new();
        // From the row's start: conditions and an access specifier before `from` apply there.
        for at in 0..=to {
            if at >= from {
                let shared = open
                    .iter()
                    .zip(&placed.conditions)
                    .take_while(|((condition, _), own)| condition == *own)
                    .count();
                let torn = &open[shared..];
                // The rest of an alternative after the first cannot be reopened before a further
                // one.
                let chain = torn.iter().any(|(_, chained)| *chained);
                let cost = (
                    access != placed.access,
                    if chain { usize::MAX } else { torn.len() },
                    placed.conditions.len() - shared,
                );
                if !chain && best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    let torn = torn
                        .iter()
                        .map(|(condition, _)| condition.clone())
                        .collect();
                    best = Some((cost, Gap { at, shared, torn }));
                }
            }
            match self.pieces.get(at) {
                Some(TextPiece::Open { condition, .. }) => open.push((condition.clone(), false)),
                Some(TextPiece::Else { condition, .. }) => {
                    let last = self
                        .end_of(at)
                        .is_none_or(|end| matches!(self.pieces[end], TextPiece::Close { .. }));
                    open.pop();
                    open.push((condition.clone(), !last));
                }
                Some(TextPiece::Close { .. }) => {
                    open.pop();
                }
                Some(TextPiece::Loose(text)) => {
                    access = access_specifier(text).unwrap_or(access);
                }
                _ => {}
            }
        }
        best.map(|(_, gap)| gap)
    }

    /// Markers that members must not cross: line, and the members before.
    pub(crate) fn barriers(&self) -> Vec<(u32, BTreeSet<usize>)> {
        let mut before = BTreeSet::new();
        let mut found = Vec::new();
        for piece in &self.pieces {
            let TextPiece::Leaf(placed) = piece else {
                continue;
            };
            if is_barrier(&placed.leaf) {
                found.push((placed.leaf.line, before.clone()));
            }
            before.extend(placed.leaf.members.iter().copied());
        }
        found
    }

    pub(crate) fn check_barriers(
        &self,
        old: &[(u32, BTreeSet<usize>)],
        wanted: &Wanted,
    ) -> Result<(), Refused> {
        for ((line, before), (_, now)) in old.iter().zip(self.barriers()) {
            if let Some(member) = before.symmetric_difference(&now).next() {
                return refuse(
                    *line,
                    Refusal::Barrier(wanted.members[*member].first_name()),
                );
            }
        }
        Ok(())
    }

    /// The text; what shared a line with a former neighbour gets a line of its own.
    pub(crate) fn print(&self, indentation: &str) -> String {
        let mut text = String::new();
        let mut last = None;
        for piece in &self.pieces {
            let own = piece.text();
            let (directive, number) = match piece {
                TextPiece::Open { .. } | TextPiece::Else { .. } | TextPiece::Close { .. } => {
                    (true, None)
                }
                TextPiece::Leaf(placed) => (false, Some(placed.number)),
                TextPiece::Blank(_) | TextPiece::Loose(_) | TextPiece::Gone(_) => (false, None),
            };
            let neighbours = number.is_none_or(|n| n.checked_sub(1) == last);
            let bare = number.is_some() && !neighbours && !own.starts_with([' ', '\t', '\n', '#']);
            if !text.ends_with('\n')
                && ((directive && !text.is_empty())
                    || (number.is_some() && !neighbours && (bare || !text.is_empty())))
            {
                text.truncate(text.trim_end_matches([' ', '\t']).len());
                text.push('\n');
            }
            if bare {
                text.push_str(indentation);
            }
            text.push_str(&own);
            last = number.or(last);
        }
        text
    }
}

impl TextPiece {
    fn text(&self) -> String {
        match self {
            TextPiece::Open { lead, text, .. } => format!("{lead}{text}"),
            TextPiece::Else { text, .. } | TextPiece::Close { text, .. } => text.clone(),
            TextPiece::Blank(text) | TextPiece::Loose(text) => text.clone(),
            TextPiece::Leaf(placed) => {
                let mut text = String::new();
                body::print(&placed.leaf.nodes, &mut text);
                text
            }
            TextPiece::Gone(_) => String::new(),
        }
    }
}

/// Removes blanks before tabs, which style checks complain about in every line that a patch adds;
/// the columns stay.
fn tidy(nodes: &mut [BodyNode]) {
    for node in nodes {
        let BodyNode::Member(member) = node else {
            continue;
        };
        member.text = tidied(&member.text, columns(0, indentation(&member.lead)));
    }
}

/// A text that starts in `column`, without the blanks before tabs that do not move the tab's end.
fn tidied(old: &str, mut column: usize) -> String {
    let mut text = String::new();
    let mut blanks = 0;
    for c in old.chars() {
        match c {
            ' ' => blanks += 1,
            '\t' if blanks > 0 && blanks < 8 - column % 8 => {
                text.push(c);
                (column, blanks) = ((column / 8 + 1) * 8, 0);
            }
            c => {
                text.extend(std::iter::repeat_n(' ', blanks));
                text.push(c);
                column = match c {
                    '\n' => 0,
                    '\t' => ((column + blanks) / 8 + 1) * 8,
                    _ => column + blanks + 1,
                };
                blanks = 0;
            }
        }
    }
    text
}

/// The text before a member on its own line, if it is blank.
fn indentation(lead: &str) -> &str {
    let last = lead.rsplit('\n').next().unwrap_or(lead);
    if last.trim().is_empty() { last } else { "" }
}

/// The text before a leaf: comments and indentation.
pub(crate) fn lead(leaf: &Leaf) -> &str {
    match leaf.nodes.first() {
        Some(BodyNode::Member(member)) => &member.lead,
        Some(BodyNode::Block(block)) => &block.lead,
        _ => "",
    }
}

fn is_barrier(leaf: &Leaf) -> bool {
    matches!(leaf.nodes.as_slice(), [BodyNode::Member(member)] if member.text.starts_with("randomized_struct_fields_"))
}

/// Puts comments before the first member or condition.
pub(crate) fn prepend(nodes: &mut [BodyNode], comments: &str) {
    match nodes.first_mut() {
        Some(BodyNode::Member(member)) => member.lead.insert_str(0, comments),
        Some(BodyNode::Block(block)) => block.lead.insert_str(0, comments),
        Some(BodyNode::Blank(text) | BodyNode::Loose(text)) => text.insert_str(0, comments),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_before_tabs_go_and_columns_stay() {
        for (old, new) in [
            ("\tunsigned long \t\tn;\n", "\tunsigned long\t\tn;\n"),
            ("\tlong a;\n", "\tlong a;\n"),
            // Nine columns: the blanks alone pass a tab stop.
            ("\tint         \ta;\n", "\tint         \ta;\n"),
        ] {
            let mut body = body::read(old, 0).unwrap();
            tidy(&mut body.nodes);
            assert_eq!(body.print(), new);
        }
    }
}
