//! Arrays that are members of a type, of whose elements each is one CPU's, with several on a line.
//!
//! Counts are by place in a type, over all its objects: only where one object is accessed is a place an element.

use std::collections::{BTreeMap, BTreeSet};

use linemate_attribution::schema::TypeIndex;
use linemate_attribution::tally::CpuSet;
use linemate_layout::Edit;
use linemate_layout::edit::Alignment;
use linemate_recording::AccessKind;

use super::costs::Cost;
use super::fields::{FieldId, home};
use super::{Context, Remedy, RemedyKind, apart, is_named, trial};

/// An array: the type around it, and the path to it.
type ArrayId<'a> = (TypeIndex, &'a str);

/// What is known of an array.
#[derive(Default)]
struct MemberArray {
    /// Bytes from element to element.
    stride: u64,
    /// Who writes each element.
    writers: BTreeMap<u64, CpuSet>,
    fields: BTreeSet<FieldId>,
}

pub(super) fn find(context: &Context<'_>) -> Vec<Remedy> {
    let mut arrays: BTreeMap<ArrayId<'_>, MemberArray> = BTreeMap::new();
    for (key, count) in context.tally.rows() {
        let Some(id) = context.fields.at(key.field()) else {
            continue;
        };
        let field = context.fields.get(id);
        let (Some(ty), Some(leaf), false) = (field.outer, &field.leaf, field.percpu) else {
            continue;
        };
        let (Some((stride, _)), Some((path, _))) =
            (leaf.arrays.first(), leaf.path.split_once("[]"))
        else {
            continue;
        };
        let into = u64::from(key.offset).checked_sub(leaf.offset.0);
        let (Some(number), true) = (into.and_then(|at| at.checked_div(*stride)), is_named(field))
        else {
            continue;
        };
        let array = arrays.entry((ty, path)).or_default();
        array.stride = *stride;
        array.fields.insert(id);
        if key.kind != AccessKind::Load {
            array.writers.entry(number).or_default().merge(&count.cpus);
        }
    }
    let mut objects: BTreeMap<TypeIndex, usize> = BTreeMap::new();
    for (subject, bases) in context
        .analysis
        .subjects()
        .iter()
        .zip(context.scene.objects)
    {
        if let Some(ty) = subject.ty {
            *objects.entry(ty).or_default() += bases.len();
        }
    }
    arrays.retain(|(ty, _), _| objects.get(ty) == Some(&1));
    arrays
        .iter()
        .filter_map(|(id, array)| one(context, *id, array))
        .collect()
}

fn one(context: &Context<'_>, (ty, path): ArrayId<'_>, array: &MemberArray) -> Option<Remedy> {
    let line = context.options.machine.line.bytes();
    let pairs = apart_on_a_line(array.stride, &array.writers, line);
    let ids: Vec<FieldId> = array.fields.iter().copied().collect();
    let mut cost = Cost::default();
    for id in &ids {
        cost.add(&context.costs.sum(*id, |_| true));
    }
    if pairs == 0 || cost.false_sharing_misses == 0 {
        return None;
    }
    let owner = context.fields.get(*ids.first()?).owner.clone();
    let (model, schema) = (context.analysis.model(), context.analysis.schema());
    let outer = schema.get(ty)?.id;
    let place = home(model, outer, path, 0)?;
    let mut reasons = context.reasons(&ids, |_| true);
    reasons.notes.push(format!(
        "elements are {} bytes apart: {pairs} are written by one CPU and share a line with the next, which another one writes",
        array.stride
    ));
    let (field, stride) = (place.member.clone(), Alignment::Line);
    let edits = vec![
        Edit::Align {
            field: field.clone(),
            alignment: Alignment::Line,
        },
        Edit::PadElements { field, stride },
    ];
    Some(Remedy {
        kind: RemedyKind::PadElements,
        subject: format!("{owner}.{path}[]"),
        advice: format!(
            "give each element lines of its own ({} bytes each), as a struct with {}",
            array.stride.next_multiple_of(line),
            apart::aligned(apart::language(model, outer), line)
        ),
        concerns: vec![owner],
        stake: apart::stake(&cost),
        reasons,
        trials: vec![trial(Some(&place.subject), edits)],
    })
}

/// How many elements share a line with the next and are written by one CPU each, not the same. CPUs that write all elements set the array up and do not
/// count, unless they are an element's only writers.
fn apart_on_a_line(stride: u64, writers: &BTreeMap<u64, CpuSet>, line: u64) -> usize {
    if stride % line == 0 {
        return 0;
    }
    let sets = writers
        .values()
        .map(|set| set.iter().collect::<BTreeSet<u16>>());
    let everywhere = sets.reduce(|all, set| &all & &set).unwrap_or_default();
    let owner = |set: &CpuSet| {
        let all: BTreeSet<u16> = set.iter().collect();
        let own = &all - &everywhere;
        let own = if own.is_empty() { all } else { own };
        own.first().copied().filter(|_| own.len() == 1)
    };
    let owners: Vec<(u64, Option<u16>)> = writers.iter().map(|(n, set)| (*n, owner(set))).collect();
    let differ = |pair: &&[(u64, Option<u16>)]| {
        let [(a, one), (b, other)] = [pair[0], pair[1]];
        a + 1 == b && one.is_some() && other.is_some() && one != other
    };
    owners.windows(2).filter(differ).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(stride: u64, writers: &[&[u16]]) -> usize {
        let set = |cpus: &&[u16]| {
            let mut set = CpuSet::default();
            cpus.iter().for_each(|cpu| set.insert(*cpu));
            set
        };
        let writers = (0..).zip(writers.iter().map(set)).collect();
        apart_on_a_line(stride, &writers, 64)
    }

    #[test]
    fn elements_with_writers_of_their_own_are_found() {
        assert_eq!(pairs(8, &[&[0], &[1], &[2]]), 2);
        // Set up by CPU 0, which has one of its own, too.
        assert_eq!(pairs(16, &[&[0], &[0, 1], &[0, 2], &[0, 3]]), 3);
        assert_eq!(pairs(96, &[&[0], &[1]]), 1);
    }

    #[test]
    fn what_several_write_or_has_its_line_is_left_alone() {
        assert_eq!(pairs(64, &[&[0], &[1]]), 0);
        assert_eq!(pairs(8, &[&[0, 1], &[0, 1]]), 0);
        assert_eq!(pairs(8, &[&[0, 1, 2], &[0, 1, 3], &[2, 3]]), 0);
        assert_eq!(pairs(8, &[&[2], &[2]]), 0);
        assert_eq!(pairs(8, &[]), 0);
    }
}
