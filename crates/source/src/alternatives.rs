//! Members that a definition declares in several places, each under a condition: the recorded
//! order shows which of them the recorded kernel has. Linux's `dst_entry` has its reference count
//! once for 64 bits and once for 32.

use std::collections::BTreeMap;

use crate::matching::{Leaf, OpenNode};

/// A leaf with members.
#[derive(Clone, Debug)]
struct DeclaredLeaf {
    members: Vec<usize>,
    conditional: bool,
}

/// What to make of several places that all fit the recorded order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeveralFit {
    /// Unknown which is the recorded one.
    Undecided,
    /// The first one counts: after a move several can fit, and the order is right if one does.
    /// This does not show that the recorded one moved.
    Any,
}

/// Empties the leaves that the recorded kernel lacks: those whose members other leaves declare, in
/// a place that contradicts the recorded order. They keep their place. Where the order does not
/// show which leaf is the recorded one, all stay as they are.
pub(crate) fn keep_recorded(items: &mut [OpenNode], several: SeveralFit) {
    let mut declared = Vec::new();
    collect(items, false, &mut declared);
    let mut places: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, leaf) in declared.iter().enumerate() {
        for member in &leaf.members {
            places.entry(*member).or_default().push(at);
        }
    }
    let bounds = bounds(&declared, &places);
    let mut lacks = vec![false; declared.len()];
    for (member, places) in places.iter().filter(|(_, places)| places.len() > 1) {
        // A leaf moves as one, so all of it has to be declared elsewhere, too.
        let alike = |at: &usize| {
            let leaf = &declared[*at];
            leaf.conditional && leaf.members == declared[places[0]].members
        };
        let mut fitting = places.iter().filter(|at| bounds[**at].admit(*member));
        let Some(recorded) = fitting.next() else {
            continue;
        };
        let is_decided = several == SeveralFit::Any || fitting.next().is_none();
        if is_decided && places.iter().all(alike) {
            for at in places {
                lacks[*at] = at != recorded;
            }
        }
    }
    empty(items, &mut lacks.into_iter());
}

/// The members around a leaf that are declared once, and so where the recorded ones are.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    last_before: Option<usize>,
    first_after: Option<usize>,
}

impl Bounds {
    fn admit(self, member: usize) -> bool {
        self.last_before.is_none_or(|before| before < member)
            && self.first_after.is_none_or(|after| after > member)
    }
}

/// Of each leaf.
fn bounds(declared: &[DeclaredLeaf], places: &BTreeMap<usize, Vec<usize>>) -> Vec<Bounds> {
    let once = |leaf: &DeclaredLeaf| {
        let members = leaf.members.iter().copied();
        let once = members.filter(|member| places.get(member).is_some_and(|at| at.len() == 1));
        once.collect::<Vec<usize>>()
    };
    let mut bounds = Vec::new();
    let mut last_before = None;
    for leaf in declared {
        bounds.push(Bounds {
            last_before,
            first_after: None,
        });
        last_before = last_before.max(once(leaf).into_iter().max());
    }
    let mut first_after = None;
    for (leaf, bounds) in declared.iter().zip(&mut bounds).rev() {
        bounds.first_after = first_after;
        first_after = once(leaf).into_iter().chain(first_after).min();
    }
    bounds
}

/// Leaves with members, in the order of the text. Recursion: as deep as conditions nest.
fn collect(items: &[OpenNode], conditional: bool, found: &mut Vec<DeclaredLeaf>) {
    for item in items {
        match item {
            OpenNode::Leaf(leaf) if leaf.members.is_empty() => {}
            OpenNode::Leaf(leaf) => found.push(DeclaredLeaf {
                members: leaf.members.clone(),
                conditional,
            }),
            OpenNode::Block(block) => {
                for (_, _, items) in &block.arms {
                    collect(items, true, found);
                }
            }
            OpenNode::Blank(_) | OpenNode::Loose(_) => {}
        }
    }
}

/// Takes the members of each leaf with members for which `lacks` says so. Recursion: as deep as
/// conditions nest.
fn empty(items: &mut [OpenNode], lacks: &mut impl Iterator<Item = bool>) {
    for item in items {
        match item {
            OpenNode::Leaf(Leaf { members, .. }) if !members.is_empty() => {
                if lacks.next() == Some(true) {
                    members.clear();
                }
            }
            OpenNode::Block(block) => {
                for (_, _, items) in &mut block.arms {
                    empty(items, lacks);
                }
            }
            OpenNode::Leaf(_) | OpenNode::Blank(_) | OpenNode::Loose(_) => {}
        }
    }
}
