//! Memory that a program cuts into objects by hand: a buffer of bytes in which one CPU alone writes
//! some, and another some within a line of those.
//!
//! Its accesses are of several sizes, so elements of one size do not show it, and debug information
//! does not say which struct is where.

use std::collections::{BTreeMap, BTreeSet};

use linemate_answers::{Remedy, RemedyKind};
use linemate_attribution::tally::{CpuSet, RARE_PART};
use linemate_experiment::ranges::{are_apart, own_writers, owners};

use super::{ArrayUse, Range, apart, own_ranges, ranges_note, written};
use crate::context::Context;
use crate::costs::Cost;
use crate::fields::FieldId;

/// Of a variable or block without a struct that is in one place; its elements are bytes.
pub(super) fn one(context: &Context<'_>, name: &str, block: &ArrayUse) -> Option<Remedy> {
    let line = context.options.machine.line.bytes();
    let writers = written(&block.writers);
    let pairs = within_a_line(&writers, line);
    let ids: Vec<FieldId> = block.fields.iter().copied().collect();
    let mut cost = Cost::default();
    for id in &ids {
        cost.add(&context.costs.sum(*id, |_| true));
    }
    if pairs == 0 || cost.false_sharing_misses == 0 {
        return None;
    }
    let mut reasons = context.reasons(&ids, |_| true);
    let (places, are) = match pairs {
        1 => ("1 place", "is"),
        _ => (&*format!("{pairs} places"), "are"),
    };
    reasons.notes.push(format!(
        "{places} written by one CPU {are} less than a line before one written by another"
    ));
    reasons
        .notes
        .extend(ranges_note("bytes", &spans(&owners(&writers))));
    Some(Remedy {
        kind: RemedyKind::PadElements,
        subject: name.to_owned(),
        advice: format!(
            "start each object in it at a multiple of {line} bytes; if a function of the program gives them out, `record --allocator FUNCTION:ARGUMENT` shows their types"
        ),
        concerns: vec![name.to_owned()],
        stake: apart::stake(&cost),
        reasons,
        trials: vec![own_ranges(&[name])],
    })
}

/// How many written places belong to one CPU each, not the same as the next within a line.
fn within_a_line(writers: &BTreeMap<u64, CpuSet>, line: u64) -> usize {
    let own = own_writers(writers);
    let differ = |pair: &&[(u64, BTreeSet<u16>)]| {
        let [(a, one), (b, other)] = [&pair[0], &pair[1]];
        b - a < line && one.len() == 1 && other.len() == 1 && are_apart(one, other)
    };
    let pairs = own.windows(2).filter(differ).count();
    // As of elements: where few of many differ, parts of the buffer are threads', not objects.
    match (pairs as u64).saturating_mul(RARE_PART) < own.len() as u64 {
        true => 0,
        false => pairs,
    }
}

/// Places in a row that one CPU writes, none between them that several do.
fn spans(owners: &[(u64, Option<u16>)]) -> Vec<Range> {
    let of_one = owners.chunk_by(|(_, one), (_, other)| one == other);
    let span = |places: &[(u64, Option<u16>)]| {
        let ((first, cpu), (last, _)) = (*places.first()?, *places.last()?);
        cpu.map(|cpu| Range { first, last, cpu })
    };
    of_one.filter_map(span).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(writers: &[(u64, &[u16])]) -> usize {
        let set = |cpus: &[u16]| {
            let mut set = CpuSet::default();
            cpus.iter().for_each(|cpu| set.insert(*cpu));
            set
        };
        let writers = writers.iter().map(|(place, cpus)| (*place, set(cpus)));
        within_a_line(&writers.collect(), 64)
    }

    #[test]
    fn objects_of_two_fields_within_a_line_are_found() {
        let of = |cpu: u16| [(24 * u64::from(cpu), cpu), (24 * u64::from(cpu) + 12, cpu)];
        let all: Vec<(u64, u16)> = (0..4).flat_map(of).collect();
        let writers: Vec<(u64, &[u16])> = all
            .iter()
            .map(|(place, cpu)| (*place, std::slice::from_ref(cpu)))
            .collect();
        assert_eq!(pairs(&writers), 3);
        let owners: Vec<(u64, Option<u16>)> = all.iter().map(|(p, cpu)| (*p, Some(*cpu))).collect();
        let found: Vec<(u64, u64, u16)> = spans(&owners)
            .iter()
            .map(|span| (span.first, span.last, span.cpu))
            .collect();
        assert_eq!(found, [(0, 12, 0), (24, 36, 1), (48, 60, 2), (72, 84, 3)]);
        let shared = [(0, Some(1)), (8, None), (16, Some(1))];
        assert_eq!(spans(&shared).len(), 2);
    }

    #[test]
    fn what_is_a_line_away_or_shared_is_left_alone() {
        assert_eq!(pairs(&[(0, &[0]), (64, &[1])]), 0);
        assert_eq!(pairs(&[(0, &[0]), (63, &[1])]), 1);
        assert_eq!(pairs(&[(0, &[0, 1]), (8, &[0, 1])]), 0);
        assert_eq!(pairs(&[(0, &[2]), (8, &[2])]), 0);
        // Two threads' parts of one buffer.
        let parts: Vec<(u64, &[u16])> = (0..40)
            .map(|n| (8 * n, if n < 20 { &[1][..] } else { &[2] }))
            .collect();
        assert_eq!(pairs(&parts), 0);
    }
}
