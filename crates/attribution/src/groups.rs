//! Groups of fields that are used together.
//!
//! Works on counts alone, without knowledge of any type:
//!
//! 1. A field that takes a good part of its writes as atomic read-modify-writes (a lock, a contended counter) needs its line exclusively in
//!    each use: [`RMW_SHARE`]. Such fields are grouped among themselves only.
//! 2. All others are joined bottom up, the pair of groups with the strongest tie first, as long as the tie is at least [`TIE_MIN`].
//!    The tie of two fields is how often they are used together, as a share of the uses of the less used one; of two groups the
//!    average over their pairs, each pair weighted by the uses of its less used field.

use std::collections::BTreeMap;

use crate::couse::{By, CoUse};

/// How a field is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldUse {
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// RMWs.
    pub rmws: u64,
}

impl FieldUse {
    fn total(self) -> u64 {
        self.loads + self.stores + self.rmws
    }
}

/// A field whose writes are RMWs in this share is a lock or the like.
pub const RMW_SHARE: f64 = 0.25;

/// The weakest tie that joins two groups.
pub const TIE_MIN: f64 = 0.25;

/// The groups: fields by number, the most used first; groups in the order of their most used field.
#[must_use]
pub fn find(co_use: &CoUse, uses: &BTreeMap<usize, FieldUse>) -> Vec<Vec<usize>> {
    let atomic = |u: &FieldUse| u.rmws as f64 > 0.0 && u.rmws as f64 >= RMW_SHARE * (u.rmws + u.stores) as f64;
    let (locks, others): (Vec<_>, Vec<_>) = uses.iter().map(|(f, u)| (*f, *u)).partition(|(_, u)| atomic(u));
    let mut groups = cluster(co_use, &locks);
    groups.extend(cluster(co_use, &others));
    let total = |f: &usize| uses.get(f).map_or(0, |u| u.total());
    for group in &mut groups {
        group.sort_by_key(|f| (std::cmp::Reverse(total(f)), *f));
    }
    groups.sort_by_key(|g| g.first().map(|f| (std::cmp::Reverse(total(f)), *f)));
    groups
}

fn cluster(co_use: &CoUse, fields: &[(usize, FieldUse)]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = (0..fields.len()).map(|i| vec![i]).collect();
    // (weighted tie, weight) of each pair of groups, so that a join is a sum.
    let pair = |i: usize, j: usize| {
        let (a, b) = (fields[i], fields[j]);
        let weight = a.1.total().min(b.1.total()) as f64;
        let together = (co_use.together(By::Owner, a.0, b.0) + co_use.together(By::Others, a.0, b.0)) as f64;
        (together.min(weight), weight)
    };
    let count = fields.len();
    let mut ties = vec![(0.0, 0.0); count * count];
    for i in 0..count {
        for j in 0..count {
            ties[i * count + j] = pair(i, j);
        }
    }
    let mut alive: Vec<usize> = (0..count).collect();
    while let Some((i, j)) = strongest(&alive, &ties, count) {
        let moved = std::mem::take(&mut groups[j]);
        groups[i].extend(moved);
        alive.retain(|k| *k != j);
        for &k in &alive {
            let (a, b) = (ties[i * count + k], ties[j * count + k]);
            let sum = (a.0 + b.0, a.1 + b.1);
            ties[i * count + k] = sum;
            ties[k * count + i] = sum;
        }
    }
    alive.into_iter().map(|i| groups[i].iter().map(|k| fields[*k].0).collect()).collect()
}

/// The two groups with the strongest tie of at least [`TIE_MIN`]; the first of equals.
fn strongest(alive: &[usize], ties: &[(f64, f64)], count: usize) -> Option<(usize, usize)> {
    let mut best: Option<(f64, usize, usize)> = None;
    for (at, &i) in alive.iter().enumerate() {
        for &j in &alive[at + 1..] {
            let (tied, weight) = ties[i * count + j];
            let tie = if weight > 0.0 { tied / weight } else { 0.0 };
            if tie >= TIE_MIN && best.is_none_or(|(b, ..)| tie > b) {
                best = Some((tie, i, j));
            }
        }
    }
    best.map(|(_, i, j)| (i, j))
}
