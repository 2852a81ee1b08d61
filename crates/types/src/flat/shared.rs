//! Leaves that no access distinguishes: members of a union at the same place, and bit-fields of
//! one storage unit.

use std::collections::HashMap;

use linemate_units::ByteOffset;

use super::{Leaf, LeafId};
use crate::TypeModel;

/// The arrays around a leaf, as in [`Leaf::arrays`].
type Arrays<'a> = &'a [(u64, u64)];

/// By leaf: the first leaf, in declaration order, that shares its bytes.
pub(super) fn first_of_each(model: &TypeModel, leaves: &[Leaf]) -> Vec<LeafId> {
    let mut firsts: Vec<LeafId> = (0u32..).take(leaves.len()).map(LeafId).collect();
    let mut known: HashMap<(ByteOffset, u64, Arrays<'_>), LeafId> = HashMap::new();
    for (leaf, first) in leaves.iter().zip(&mut firsts) {
        // Bit-fields are grouped by storage unit, below.
        if leaf.bits.is_none() {
            *first = *known
                .entry((leaf.offset, leaf.size, leaf.arrays.as_slice()))
                .or_insert(*first);
        }
    }
    for unit in units(model, leaves) {
        if let Some(&first) = unit.iter().min() {
            for leaf in unit {
                firsts[leaf.0 as usize] = first;
            }
        }
    }
    firsts
}

/// The bit-fields, by storage unit: the bytes of the declared type around them, aligned as in the
/// System V ABI. Compilers read and write whole bytes or words of a unit. Units that overlap
/// (adjacent bit-fields of several types, or of several members of a union) are merged.
fn units(model: &TypeModel, leaves: &[Leaf]) -> Vec<Vec<LeafId>> {
    let mut fields: Vec<(Arrays<'_>, u64, u64, LeafId)> = (0u32..)
        .map(LeafId)
        .zip(leaves)
        .filter_map(|(id, leaf)| {
            let (bit, width) = leaf.bits?;
            let unit = model.size_of(leaf.type_id).unwrap_or(0).max(1) * 8;
            let start = bit.0 - bit.0 % unit;
            // A packed bit-field may reach into the next unit.
            let end = (start + unit).max(bit.0 + u64::from(width));
            Some((leaf.arrays.as_slice(), start, end, id))
        })
        .collect();
    // By arrays first: only fields of the same arrays are merged, and each with the one before it.
    fields.sort_unstable();
    let mut units: Vec<Vec<LeafId>> = Vec::new();
    let mut last: Option<(Arrays<'_>, u64)> = None;
    for (arrays, start, end, id) in fields {
        match (&mut last, units.last_mut()) {
            (Some((same, reach)), Some(unit)) if *same == arrays && start < *reach => {
                *reach = end.max(*reach);
                unit.push(id);
            }
            _ => {
                last = Some((arrays, end));
                units.push(vec![id]);
            }
        }
    }
    units
}
