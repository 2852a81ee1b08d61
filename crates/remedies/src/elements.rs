//! Arrays that are members of a type, or programs' variables and blocks of numbers, whose elements
//! each belong to one CPU, with several on a line.
//!
//! Counts are by offset in a type, over all its objects: an offset is an element only if one object
//! is accessed, or if no CPU that writes it in any block writes the next in any.

mod cut;

use std::collections::{BTreeMap, BTreeSet};

use linemate_answers::{Remedy, RemedyKind, Trial};
use linemate_attribution::schema::TypeIndex;
use linemate_attribution::tally::{CpuSet, Key, RARE_PART};
use linemate_attribution::{Bucket, Subject, SubjectId};
use linemate_experiment::ranges::{self, CpuParts, UsersByPc, are_apart, own_writers, owners};
use linemate_layout::Edit;
use linemate_layout::edit::Alignment;
use linemate_recording::AccessKind;
use linemate_types::{ByteSize, TypeId};

use super::apart;
use super::context::{Context, is_named, trial};
use super::costs::Cost;
use super::fields::{Field, FieldId, Home, home};
use super::writers::SET_UP_PART;

/// An array: the type around it and the path to it, or a variable; and bytes from element to
/// element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ArrayId<'a> {
    outer: Option<TypeIndex>,
    name: &'a str,
    stride: u64,
}

impl<'a> ArrayId<'a> {
    /// The type, and the path in it to the struct that declares the array.
    fn struct_around(self) -> (Option<TypeIndex>, Option<&'a str>) {
        let path = self.name.rsplit_once('.').map(|(path, _)| path);
        (self.outer, path)
    }
}

/// What is known of an array.
#[derive(Default)]
struct ArrayUse {
    /// Who writes each element.
    writers: BTreeMap<u64, UsersByPc>,
    fields: BTreeSet<FieldId>,
    subjects: BTreeSet<SubjectId>,
}

/// What is known of all arrays.
#[derive(Default)]
struct ArrayUses<'a> {
    by_id: BTreeMap<ArrayId<'a>, ArrayUse>,
    /// What has no struct, by name: its bytes are the elements.
    bytes: BTreeMap<&'a str, ArrayUse>,
}

/// Edits do not move what is on stacks, so no trial could show the gain of padding there.
fn moves(subject: &Subject) -> bool {
    subject.bucket != Bucket::StackTyped
}

fn arrays<'a>(context: &'a Context<'_>) -> ArrayUses<'a> {
    let mut arrays = ArrayUses::default();
    let subjects = context.analysis.subjects();
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
        // The kernel clears variables of programs when it loads them, on any CPU.
        let is_kernel = key.pc.0 >> 63 == 1;
        let is_own = !is_kernel || !subjects[key.subject.index()].program;
        let of_bytes = array_id.outer.is_none();
        let block = of_bytes.then(|| arrays.bytes.entry(array_id.name).or_default());
        let array = arrays.by_id.entry(array_id).or_default();
        for (array, number) in [(Some(array), number), (block, key.offset.into())] {
            let Some(array) = array else { continue };
            array.fields.insert(id);
            array.subjects.insert(key.subject);
            if key.kind != AccessKind::Load && is_own {
                let writers = array.writers.entry(number).or_default();
                writers.add(key.pc, count.count, &count.cpus);
            }
        }
    }
    arrays
}

pub(super) fn find(context: &Context<'_>) -> Vec<Remedy> {
    let subjects = context.analysis.subjects();
    let ArrayUses {
        by_id: arrays,
        bytes,
    } = arrays(context);
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
        shared(context, *id, array, parts)
    });
    let found: Vec<SharedArray<'_>> = found.collect();
    let known = found.iter().filter(|array| array.id.outer.is_none());
    let known: BTreeSet<&str> = known.map(|array| array.id.name).collect();
    let cut = bytes
        .iter()
        .filter(|(name, block)| !known.contains(*name) && blocks(block) <= 1)
        .filter_map(|(name, block)| cut::one(context, name, block))
        .collect::<Vec<_>>();
    let groups = grouped(found);
    let padded = groups.iter();
    let padded = padded.filter_map(|arrays| remedy(context, arrays));
    padded.chain(cut).collect()
}

/// The array that an access goes to, and the element's number.
fn element<'f>(field: &'f Field, key: &Key) -> Option<(ArrayId<'f>, u64)> {
    // Thread-local data is not an array: an offset in it exists once per thread.
    if field.is_owned() || !is_named(field) {
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

/// An array with elements of different CPUs on a line.
struct SharedArray<'a> {
    id: ArrayId<'a>,
    parts: CpuParts,
    /// How many elements share a line with the next, which others write.
    pairs: usize,
    fields: Vec<FieldId>,
    cost: Cost,
    /// Who writes which elements; none in several objects.
    ranges: Vec<Range>,
}

fn shared<'a>(
    context: &Context<'_>,
    id: ArrayId<'a>,
    array: &ArrayUse,
    parts: CpuParts,
) -> Option<SharedArray<'a>> {
    let line = context.options.machine.line.bytes();
    let writers = written(&array.writers);
    let pairs = apart_on_a_line(id.stride, &writers, line, parts);
    let fields: Vec<FieldId> = array.fields.iter().copied().collect();
    let mut cost = Cost::default();
    for id in &fields {
        cost.add(&context.costs.sum(*id, |_| true));
    }
    let ranges = match parts {
        CpuParts::OfOne => ranges_of(&owners(&writers)),
        CpuParts::OfEach => Vec::new(),
    };
    (pairs > 0 && cost.false_sharing_misses > 0).then_some(SharedArray {
        id,
        parts,
        pairs,
        fields,
        cost,
        ranges,
    })
}

/// Arrays of one struct whose elements the same CPUs write: each thread has an element in each, as
/// in an array of structs whose members are arrays instead. One alone gains little, because a
/// thread then still meets others in the next.
fn grouped(found: Vec<SharedArray<'_>>) -> Vec<Vec<SharedArray<'_>>> {
    let mut groups: Vec<Vec<SharedArray<'_>>> = Vec::new();
    for array in found {
        let alike = |group: &&mut Vec<SharedArray<'_>>| {
            let first = &group[0];
            let of_one_struct =
                first.id.outer.is_some() && first.id.struct_around() == array.id.struct_around();
            of_one_struct && first.ranges == array.ranges
        };
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(array),
            None => groups.push(vec![array]),
        }
    }
    groups
}

fn remedy(context: &Context<'_>, arrays: &[SharedArray<'_>]) -> Option<Remedy> {
    let first = arrays.first()?;
    let ty = first.id.outer;
    let ids: Vec<FieldId> = arrays.iter().flat_map(|a| a.fields.clone()).collect();
    let owner = context.fields.get(*ids.first()?).owner.clone();
    let mut reasons = context.reasons(&ids, |_| true);
    let mut cost = Cost::default();
    for array in arrays {
        cost.add(&array.cost);
        let name = (arrays.len() > 1).then_some(array.id.name);
        reasons.notes.push(distances(array, name));
    }
    reasons.notes.extend(ranges_note("elements", &first.ranges));
    let model = context.analysis.model();
    let about = ty.and_then(|ty| context.analysis.schema().get(ty));
    let outer = about.map(|about| about.id);
    let places = arrays
        .iter()
        .map(|array| home(model, outer?, array.id.name, 0));
    let homes: Option<Vec<Home>> = places.collect();
    Some(Remedy {
        kind: RemedyKind::PadElements,
        subject: match ty {
            Some(_) => {
                let names = arrays.iter().map(|a| format!("{owner}.{}[]", a.id.name));
                names.collect::<Vec<_>>().join(", ")
            }
            None => owner.clone(),
        },
        advice: advice(context, arrays, outer),
        stake: apart::stake(&cost),
        reasons,
        trials: match ty {
            None => vec![own_ranges(&[&owner])],
            Some(_) => homes.and_then(padded).into_iter().collect(),
        },
        concerns: vec![owner],
    })
}

/// How far the elements of an array are apart, and whose they are; with its name among several.
fn distances(array: &SharedArray<'_>, name: Option<&str>) -> String {
    let (stride, pairs) = (array.id.stride, array.pairs);
    let bytes = if stride == 1 { "byte" } else { "bytes" };
    let (comma, how) = match array.parts {
        CpuParts::OfOne => (
            ",",
            "each written by one CPU, share a line with the next, written by another",
        ),
        CpuParts::OfEach => (
            "",
            "share a line with the next, written by other CPUs in each block",
        ),
    };
    let of = name.map(|name| format!(" of {name}")).unwrap_or_default();
    format!("elements{of} are {stride} {bytes} apart; {pairs} of them{comma} {how}")
}

fn advice(context: &Context<'_>, arrays: &[SharedArray<'_>], outer: Option<TypeId>) -> String {
    let line = context.options.machine.line.bytes();
    let how = match outer {
        Some(outer) => apart::aligned(apart::language(context.analysis.model(), outer), line),
        None => format!("an alignment of {line} bytes (_Alignas, alignas, CachePadded)"),
    };
    let is_range = |range: &Range| range.first < range.last;
    match arrays {
        [one] if one.ranges.iter().any(is_range) => format!(
            "start each CPU's elements on a line of their own: a block for each, with {how}"
        ),
        [one] => format!(
            "give each element lines of its own ({} bytes each), as a struct with {how}",
            one.id.stride.next_multiple_of(line),
        ),
        several => {
            let names: Vec<&str> = several.iter().map(|array| array.id.name).collect();
            let names = names.join(", ");
            format!(
                "make one array of structs of {names}: each struct has the same CPU's elements, and {how}"
            )
        }
    }
}

/// The edits that give what each CPU writes of variables or blocks lines of its own.
pub(super) fn own_ranges(names: &[&str]) -> Trial {
    let edit = |name: &&str| Edit::PadRanges {
        name: (*name).to_owned(),
        alignment: Alignment::Line,
    };
    trial(None, names.iter().map(edit).collect())
}

/// The edits that pad the elements of arrays, if all are members of one struct.
fn padded(homes: Vec<Home>) -> Option<Trial> {
    let subject = homes.first()?.subject.clone();
    let mut edits = Vec::new();
    for Home {
        member,
        subject: of,
    } in homes
    {
        if of != subject {
            return None;
        }
        let stride = Alignment::Line;
        edits.push(Edit::Align {
            field: member.clone(),
            alignment: Alignment::Line,
        });
        edits.push(Edit::PadElements {
            field: member,
            stride,
        });
    }
    Some(trial(Some(&subject), edits))
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

/// Who writes which of what `name` says; nothing without ranges.
fn ranges_note(name: &str, ranges: &[Range]) -> Option<String> {
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
    (!named.is_empty()).then(|| format!("{name} are written: {}{more}", named.join(", ")))
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
    let apart = own.windows(2).filter(differ).count();
    // Where few of many neighbours differ, as in a log that is written from its start to its end,
    // they do so by chance.
    match (apart as u64).saturating_mul(RARE_PART) < own.len() as u64 {
        true => 0,
        false => apart,
    }
}

/// Who writes each element, without those that are only set up.
fn written(writers: &BTreeMap<u64, UsersByPc>) -> BTreeMap<u64, CpuSet> {
    let most = writers.values().map(UsersByPc::count).max().unwrap_or(0);
    let used = writers
        .iter()
        .filter(|(_, all)| all.count().saturating_mul(SET_UP_PART) >= most);
    used.map(|(number, all)| (*number, all.often())).collect()
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
        assert_eq!(ranges_note("elements", &found).as_deref(), Some(note));
        assert_eq!(ranges_note("elements", &[]), None);
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
    fn few_of_many_neighbours_differ_by_chance() {
        let log = |parts: usize| -> Vec<&[u16]> {
            let of = |part: usize| -> &[u16] { if part < 2 { &[1] } else { &[2] } };
            (0..parts).map(of).collect()
        };
        assert_eq!(pairs(16, &log(16)), 1);
        assert_eq!(pairs(16, &log(17)), 0);
    }

    #[test]
    fn what_is_only_set_up_has_no_writer() {
        let used = |times| {
            let mut writers = UsersByPc::default();
            let mut cpus = CpuSet::default();
            cpus.insert(3);
            writers.add(GuestAddr(0x401000), times, &cpus);
            writers
        };
        let writers = [(0, used(5000)), (1, used(5)), (2, used(4))].into();
        let found: Vec<u64> = written(&writers).into_keys().collect();
        assert_eq!(found, [0, 1]);
    }

    #[test]
    fn what_each_thread_has_one_of_is_no_array() {
        let numbers = |of_threads| {
            let field = Field {
                name: "counts (server)".into(),
                owner: "counts (server)".into(),
                outer: None,
                leaf: None,
                percpu: false,
                of_threads,
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
