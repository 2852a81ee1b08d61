//! Arrays that are members of a type, or programs' variables and blocks of numbers, whose elements
//! each belong to one CPU, with several on a line.
//!
//! Counts are by offset in a type, over all its objects: an offset is an element only if one object
//! is accessed, or if no CPU that writes it in any block writes the next in any.

use std::collections::{BTreeMap, BTreeSet};

use linemate_answers::{Remedy, RemedyKind, Trial};
use linemate_attribution::schema::TypeIndex;
use linemate_attribution::tally::{CpuSet, Key};
use linemate_attribution::{Bucket, Subject, SubjectId};
use linemate_experiment::ranges::{self, CpuParts, UsersByPc, are_apart, own_writers, owners};
use linemate_layout::Edit;
use linemate_layout::edit::Alignment;
use linemate_recording::AccessKind;
use linemate_types::ByteSize;

use super::apart;
use super::context::{Context, is_named, trial};
use super::costs::Cost;
use super::fields::{Field, FieldId, Home, home};

/// An array: the type around it and the path to it, or a variable; and bytes from element to
/// element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ArrayId<'a> {
    outer: Option<TypeIndex>,
    name: &'a str,
    stride: u64,
}

/// What is known of an array.
#[derive(Default)]
struct ArrayUse {
    /// Who writes each element.
    writers: BTreeMap<u64, UsersByPc>,
    fields: BTreeSet<FieldId>,
    subjects: BTreeSet<SubjectId>,
}

pub(super) fn find(context: &Context<'_>) -> Vec<Remedy> {
    let mut arrays: BTreeMap<ArrayId<'_>, ArrayUse> = BTreeMap::new();
    let subjects = context.analysis.subjects();
    // Edits do not move what is on stacks, so no trial could show the gain of padding there.
    let moves = |subject: &Subject| subject.bucket != Bucket::StackTyped;
    for (key, count) in context.tally.rows() {
        if !moves(&subjects[key.subject.index()]) {
            continue;
        }
        let Some(id) = context.fields.at(key.field()) else {
            continue;
        };
        let Some((array_id, number)) = element(context.fields.get(id), &key) else {
            continue;
        };
        let array = arrays.entry(array_id).or_default();
        array.fields.insert(id);
        array.subjects.insert(key.subject);
        if key.kind != AccessKind::Load {
            let writers = array.writers.entry(number).or_default();
            writers.add(key.pc, count.count, &count.cpus);
        }
    }
    let mut objects: BTreeMap<TypeIndex, usize> = BTreeMap::new();
    for (subject, bases) in subjects.iter().zip(context.scene.objects) {
        if let Some(ty) = subject.ty.filter(|_| moves(subject)) {
            let size = ByteSize(context.analysis.schema().size(ty));
            *objects.entry(ty).or_default() += ranges::objects(bases.keys(), size);
        }
    }
    // With several objects, element 3 is an offset in each of them: its writers are the users of
    // different arrays.
    let blocks = |array: &ArrayUse| {
        let counts = array.subjects.iter().map(|subject| {
            let bases = context.scene.objects[subject.index()].keys();
            ranges::objects(bases, context.neighbours.size(*subject))
        });
        counts.sum::<usize>()
    };
    let found = arrays.iter().filter_map(|(id, array)| {
        let parts = match id.outer {
            // Of objects with a type, an edit pads the array in each.
            Some(ty) => Some(CpuParts::OfOne).filter(|_| objects.get(&ty) == Some(&1))?,
            None if blocks(array) <= 1 => CpuParts::OfOne,
            None => CpuParts::OfEach,
        };
        one(context, *id, array, parts)
    });
    found.collect()
}

/// The array that an access goes to, and the element's number.
fn element<'f>(field: &'f Field, key: &Key) -> Option<(ArrayId<'f>, u64)> {
    // Thread-local data is not an array: an offset in it exists once per thread.
    if field.owned || !is_named(field) {
        return None;
    }
    let offset = u64::from(key.offset);
    let Some(ty) = field.outer else {
        // A program's variable or block without a struct holds numbers. The contents of the
        // kernel's are unknown.
        let by_program = key.pc.0 >> 63 == 0;
        let array = ArrayId {
            outer: None,
            name: &field.owner,
            stride: key.size.into(),
        };
        let number = offset.checked_div(array.stride).filter(|_| by_program)?;
        return Some((array, number));
    };
    let leaf = field.leaf.as_ref()?;
    let (stride, _) = leaf.arrays.first()?;
    let (path, _) = leaf.path.split_once("[]")?;
    let number = offset.checked_sub(leaf.offset.0)?.checked_div(*stride)?;
    let array = ArrayId {
        outer: Some(ty),
        name: path,
        stride: *stride,
    };
    Some((array, number))
}

fn one(
    context: &Context<'_>,
    id: ArrayId<'_>,
    array: &ArrayUse,
    parts: CpuParts,
) -> Option<Remedy> {
    let ArrayId {
        outer: ty,
        name: path,
        stride,
    } = id;
    let line = context.options.machine.line.bytes();
    let writers = array.writers.iter().map(|(n, all)| (*n, all.often()));
    let writers: BTreeMap<u64, CpuSet> = writers.collect();
    let pairs = apart_on_a_line(stride, &writers, line, parts);
    let ids: Vec<FieldId> = array.fields.iter().copied().collect();
    let mut cost = Cost::default();
    for id in &ids {
        cost.add(&context.costs.sum(*id, |_| true));
    }
    if pairs == 0 || cost.false_sharing_misses == 0 {
        return None;
    }
    let owner = context.fields.get(*ids.first()?).owner.clone();
    let mut reasons = context.reasons(&ids, |_| true);
    let by_one = "written by one CPU and share a line with the next, which another one writes";
    let in_each = "in each block on a line with the next, and no CPU writes both";
    let how = match parts {
        CpuParts::OfOne => by_one,
        CpuParts::OfEach => in_each,
    };
    let note = format!("elements are {stride} bytes apart: {pairs} are {how}");
    reasons.notes.push(note);
    let ranges = match parts {
        CpuParts::OfOne => ranges_of(&owners(&writers)),
        CpuParts::OfEach => Vec::new(),
    };
    reasons.notes.extend(ranges_note(&ranges));
    let (model, schema) = (context.analysis.model(), context.analysis.schema());
    let outer = ty.and_then(|ty| schema.get(ty)).map(|about| about.id);
    let how = match outer {
        Some(outer) => apart::aligned(apart::language(model, outer), line),
        None => format!("an alignment of {line} bytes (_Alignas, alignas, CachePadded)"),
    };
    let place = outer.and_then(|outer| home(model, outer, path, 0));
    Some(Remedy {
        kind: RemedyKind::PadElements,
        subject: match ty {
            Some(_) => format!("{owner}.{path}[]"),
            None => owner.clone(),
        },
        advice: match ranges.iter().any(|range| range.first < range.last) {
            true => format!(
                "start each CPU's elements on a line of their own: a block for each, with {how}"
            ),
            false => format!(
                "give each element lines of its own ({} bytes each), as a struct with {how}",
                stride.next_multiple_of(line),
            ),
        },
        stake: apart::stake(&cost),
        reasons,
        trials: match (ty, place) {
            (None, _) => vec![own_ranges(&[&owner])],
            (_, place) => place.map(padded).into_iter().collect(),
        },
        concerns: vec![owner],
    })
}

/// The edits that give what each CPU writes of variables or blocks lines of its own.
pub(super) fn own_ranges(names: &[&str]) -> Trial {
    let edit = |name: &&str| Edit::PadRanges {
        name: (*name).to_owned(),
        alignment: Alignment::Line,
    };
    trial(None, names.iter().map(edit).collect())
}

/// The edit that pads the elements of an array.
fn padded(place: Home) -> Trial {
    let (field, stride) = (place.member.clone(), Alignment::Line);
    let edits = vec![
        Edit::Align {
            field: place.member,
            alignment: Alignment::Line,
        },
        Edit::PadElements { field, stride },
    ];
    trial(Some(&place.subject), edits)
}

/// Elements in a row that one CPU writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u64,
    last: u64,
    cpu: u16,
}

/// The elements that one CPU each writes, as far as they follow each other.
fn ranges_of(owners: &[(u64, Option<u16>)]) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    for (number, owner) in owners {
        let Some(cpu) = *owner else { continue };
        match ranges.last_mut() {
            Some(range) if range.cpu == cpu && range.last + 1 == *number => range.last = *number,
            _ => ranges.push(Range {
                first: *number,
                last: *number,
                cpu,
            }),
        }
    }
    ranges
}

/// The maximum number of ranges named in a remedy: enough to see the pattern.
const RANGES_NAMED: usize = 4;

/// Who writes which elements; nothing without ranges.
fn ranges_note(ranges: &[Range]) -> Option<String> {
    let named = ranges.iter().take(RANGES_NAMED).map(|range| {
        let Range { first, last, cpu } = range;
        match first == last {
            true => format!("{first} by CPU {cpu}"),
            false => format!("{first} to {last} by CPU {cpu}"),
        }
    });
    let named: Vec<String> = named.collect();
    let more = if ranges.len() > RANGES_NAMED {
        ", …"
    } else {
        ""
    };
    (!named.is_empty()).then(|| format!("elements are written: {}{more}", named.join(", ")))
}

/// How many elements share a line with the next and belong to one CPU each, not the same; in each
/// of several objects, to CPUs of which none writes both.
fn apart_on_a_line(
    stride: u64,
    writers: &BTreeMap<u64, CpuSet>,
    line: u64,
    parts: CpuParts,
) -> usize {
    if stride == 0 || stride % line == 0 {
        return 0;
    }
    let own = own_writers(writers);
    let differ = |pair: &&[(u64, BTreeSet<u16>)]| {
        let [(a, one), (b, other)] = [&pair[0], &pair[1]];
        let belong = parts == CpuParts::OfEach || one.len() == 1 && other.len() == 1;
        a + 1 == *b && belong && are_apart(one, other)
    };
    own.windows(2).filter(differ).count()
}

#[cfg(test)]
mod tests {
    use linemate_attribution::SubjectId;
    use linemate_recording::GuestAddr;

    use super::*;
    use crate::fields::UseCounts;

    fn pairs_of(parts: CpuParts, stride: u64, writers: &[&[u16]]) -> usize {
        let set = |cpus: &&[u16]| {
            let mut set = CpuSet::default();
            cpus.iter().for_each(|cpu| set.insert(*cpu));
            set
        };
        let writers = (0..).zip(writers.iter().map(set)).collect();
        apart_on_a_line(stride, &writers, 64, parts)
    }

    fn pairs(stride: u64, writers: &[&[u16]]) -> usize {
        pairs_of(CpuParts::OfOne, stride, writers)
    }

    #[test]
    fn elements_of_one_writer_in_a_row_are_a_range() {
        let range = |first, last, cpu| Range { first, last, cpu };
        let owners = [
            (0, Some(1)),
            (1, Some(1)),
            (2, Some(2)),
            (3, None),
            (4, Some(2)),
            (6, Some(2)),
        ];
        let found = ranges_of(&owners);
        let expected = [
            range(0, 1, 1),
            range(2, 2, 2),
            range(4, 4, 2),
            range(6, 6, 2),
        ];
        assert_eq!(found, expected);
        let note = "elements are written: 0 to 1 by CPU 1, 2 by CPU 2, 4 by CPU 2, 6 by CPU 2";
        assert_eq!(ranges_note(&found).as_deref(), Some(note));
        assert_eq!(ranges_note(&[]), None);
    }

    #[test]
    fn elements_with_writers_of_their_own_are_found() {
        assert_eq!(pairs(8, &[&[0], &[1], &[2]]), 2);
        // Set up by CPU 0, which has one of its own, too.
        assert_eq!(pairs(16, &[&[0], &[0, 1], &[0, 2], &[0, 3]]), 3);
        assert_eq!(pairs(96, &[&[0], &[1]]), 1);
    }

    #[test]
    fn in_several_objects_elements_belong_to_cpus_that_write_one_alone() {
        // CPU 9 sets up two blocks; of each, one CPU writes the first word and another the second.
        let pairs = |writers: &[&[u16]]| pairs_of(CpuParts::OfEach, 8, writers);
        assert_eq!(pairs(&[&[9, 0, 2], &[9, 1, 3]]), 1);
        // CPUs 2 and 3 write both of a pair.
        assert_eq!(pairs(&[&[0, 2], &[1, 2, 3], &[3, 0]]), 0);
        assert_eq!(pairs(&[&[0, 2], &[], &[1, 3]]), 0);
        assert_eq!(pairs_of(CpuParts::OfOne, 8, &[&[0, 2], &[1, 3]]), 0);
    }

    #[test]
    fn what_each_thread_has_one_of_is_no_array() {
        let numbers = |owned| {
            let field = Field {
                name: "counts (server)".into(),
                owner: "counts (server)".into(),
                outer: None,
                leaf: None,
                owned,
                home: None,
                room: None,
                used: UseCounts::default(),
            };
            let key = Key {
                subject: SubjectId(0),
                offset: 24,
                pc: GuestAddr(0x401000),
                kind: AccessKind::Store,
                size: 8,
            };
            element(&field, &key).map(|(array, number)| (array.stride, number))
        };
        assert_eq!(numbers(false), Some((8, 3)));
        assert_eq!(numbers(true), None);
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
