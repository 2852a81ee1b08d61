//! Objects of different CPUs that share a line: neighbours in an array, and what an allocator gave out side by side.
//!
//! Each CPU uses an object of its own, and nothing is exchanged but the line. Objects are neighbours of an array if one starts where the other ends
//! and both are of one type; a slab cache whose slots have no room between is like that, too. Other arrays are told by the
//! places in their type ([`super::elements`]).

use std::collections::{BTreeMap, BTreeSet};

use linemate_answers::{Remedy, RemedyKind, Stake, Trial};
use linemate_attribution::schema::TypeIndex;
use linemate_attribution::{Analysis, Bucket, Subject};
use linemate_layout::edit::Alignment;
use linemate_layout::{Edit, EditSubject};
use linemate_recording::GuestAddr;
use linemate_study::scene::Scene;
use linemate_types::{Language, TypeId, TypeModel};
use rustc_hash::FxHashSet;

use super::costs::Cost;
use super::fields::{FieldId, subject_of};
use super::{Context, trial};

/// An object that one CPU makes more than half of the accesses to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Owned {
    start: u64,
    end: u64,
    ty: TypeIndex,
    cpu: u16,
    /// Whether an allocator gave it out, other than the per-CPU one.
    allocated: bool,
}

/// Neighbours of different CPUs with a line in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Meetings {
    /// How many pairs.
    pairs: usize,
    /// From the first of the first pair to the second, in bytes.
    bytes: u64,
}

impl Meetings {
    fn add(&mut self, bytes: u64) {
        if self.pairs == 0 {
            self.bytes = bytes;
        }
        self.pairs += 1;
    }
}

/// What lies on one line and belongs to different CPUs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Neighbours {
    /// Elements of arrays.
    elements: BTreeMap<TypeIndex, Meetings>,
    /// Objects that were allocated, with the types of those next to them.
    blocks: BTreeMap<TypeIndex, (Meetings, BTreeSet<TypeIndex>)>,
    /// The lines that they meet on, by number: what parting objects can change is what is lost there.
    lines: FxHashSet<u64>,
    /// Bytes of a line.
    line: u64,
}

impl Neighbours {
    /// Looks at all objects that are not per-CPU.
    pub(crate) fn new(analysis: &Analysis<'_>, scene: &Scene<'_>, line: u64) -> Neighbours {
        let mut owned = Vec::new();
        for (subject, objects) in analysis.subjects().iter().zip(scene.objects) {
            let (Some(ty), Some(allocated)) = (subject.ty, allocated(subject)) else {
                continue;
            };
            let size = analysis.schema().size(ty);
            owned.extend(objects.iter().filter_map(|(base, users)| {
                Some(Owned {
                    start: *base,
                    end: base.checked_add(size)?,
                    ty,
                    cpu: linemate_study::majority(users)?,
                    allocated,
                })
            }));
        }
        Neighbours::of(owned, line)
    }

    fn of(mut owned: Vec<Owned>, line: u64) -> Neighbours {
        owned.sort_unstable();
        let mut found = Neighbours {
            line,
            ..Neighbours::default()
        };
        for pair in owned.windows(2) {
            let [a, b] = [pair[0], pair[1]];
            // Objects that overlap were there at different times.
            let share = a.start < a.end && a.end <= b.start && (a.end - 1) / line == b.start / line;
            if !share || a.cpu == b.cpu {
                continue;
            }
            let bytes = b.start - a.start;
            let number = b.start / line;
            if a.ty == b.ty && a.end == b.start {
                found.elements.entry(a.ty).or_default().add(bytes);
                found.lines.insert(number);
            } else if a.allocated && b.allocated {
                found.lines.insert(number);
                for (own, other) in BTreeSet::from([(a.ty, b.ty), (b.ty, a.ty)]) {
                    let (meetings, others) = found.blocks.entry(own).or_default();
                    meetings.add(bytes);
                    others.insert(other);
                }
            }
        }
        found
    }

    /// Whether objects of different CPUs meet on the line of an address.
    #[inline]
    pub(crate) fn meet_at(&self, address: GuestAddr) -> bool {
        address
            .0
            .checked_div(self.line)
            .is_some_and(|number| self.lines.contains(&number))
    }
}

/// Whether an allocator gave out the objects of a subject, if they have places that an edit can change and no owner by design.
fn allocated(subject: &Subject) -> Option<bool> {
    match subject.bucket {
        _ if subject.percpu || subject.of_threads => None,
        Bucket::Field => Some(true),
        Bucket::GlobalTyped => Some(false),
        _ => None,
    }
}

/// Arrays whose elements are to be padded.
pub(super) fn elements(context: &Context<'_>) -> Vec<Remedy> {
    let found = context.neighbours.elements.iter();
    found
        .filter_map(|(ty, meetings)| one_array(context, *ty, *meetings))
        .collect()
}

fn one_array(context: &Context<'_>, ty: TypeIndex, meetings: Meetings) -> Option<Remedy> {
    let (model, schema) = (context.analysis.model(), context.analysis.schema());
    let id = schema.get(ty)?.id;
    let (ids, cost) = at_stake(context, ty)?;
    let name = context.fields.get(*ids.first()?).owner.clone();
    let line = context.options.machine.line.bytes();
    let mut reasons = context.reasons(&ids, |_| true);
    reasons.notes.push(format!(
        "elements are {} bytes apart: {} share a line with the next, which another CPU uses",
        meetings.bytes, meetings.pairs
    ));
    Some(Remedy {
        kind: RemedyKind::PadElements,
        subject: name.clone(),
        advice: format!(
            "give each element lines of its own ({} bytes each): {}",
            schema.size(ty).next_multiple_of(line),
            aligned(language(model, id), line)
        ),
        concerns: vec![name],
        stake: stake(&cost),
        reasons,
        trials: own_lines(model, id, line).into_iter().collect(),
    })
}

/// Types whose objects are to be allocated apart.
pub(super) fn blocks(context: &Context<'_>) -> Vec<Remedy> {
    let found = context.neighbours.blocks.iter();
    found
        .filter_map(|(ty, (meetings, others))| one_type(context, *ty, *meetings, others))
        .collect()
}

fn one_type(
    context: &Context<'_>,
    ty: TypeIndex,
    meetings: Meetings,
    others: &BTreeSet<TypeIndex>,
) -> Option<Remedy> {
    let (model, schema) = (context.analysis.model(), context.analysis.schema());
    let id = schema.get(ty)?.id;
    let (ids, cost) = at_stake(context, ty)?;
    let name = context.fields.get(*ids.first()?).owner.clone();
    let line = context.options.machine.line.bytes();
    let mut reasons = context.reasons(&ids, |_| true);
    let others: Vec<&str> = others.iter().map(|other| schema.name(*other)).collect();
    reasons.notes.push(format!(
        "{} times one is on a line with another CPU's next object, the first time {} bytes away; those are {}",
        meetings.pairs,
        meetings.bytes,
        others.join(", ")
    ));
    Some(Remedy {
        kind: RemedyKind::AllocateApart,
        subject: name.clone(),
        advice: format!(
            "allocate each on lines of its own: {}",
            allocated_apart(language(model, id), line)
        ),
        concerns: vec![name],
        stake: stake(&cost),
        reasons,
        trials: own_lines(model, id, line).into_iter().collect(),
    })
}

/// The edit that makes objects of a type start lines and fill them.
fn own_lines(model: &TypeModel, id: TypeId, line: u64) -> Option<Trial> {
    let (alignment, subject) = (Alignment::Line, subject_of(model, id)?);
    // An alignment of a type that fills lines changes no layout, only where objects start.
    if model.size_of(id)? % line == 0 {
        let EditSubject::Named(type_name) = subject else {
            return None;
        };
        let edit = Edit::BaseAlign {
            type_name,
            alignment,
        };
        return Some(trial(None, vec![edit]));
    }
    let field = first_member(model, id)?;
    Some(trial(
        Some(&subject),
        vec![Edit::Align { field, alignment }],
    ))
}

/// The fields of a type outside of per-CPU memory, and what they cost on lines where objects of different CPUs meet; `None` where nothing was lost to
/// other words there. What a type loses elsewhere, it loses to its own fields.
fn at_stake(context: &Context<'_>, ty: TypeIndex) -> Option<(Vec<FieldId>, Cost)> {
    let (ids, _) = context.fields_of(ty);
    let mut cost = Cost::default();
    for id in &ids {
        cost.add(&context.costs.met(*id));
    }
    (cost.false_sharing_misses > 0).then_some((ids, cost))
}

pub(super) fn stake(cost: &Cost) -> Stake {
    Stake {
        misses: cost.false_sharing_misses,
        cycles: cost.false_cycles,
    }
}

/// The member that a struct begins with; of an anonymous one the first of its own. As deep as types nest.
fn first_member(model: &TypeModel, id: TypeId) -> Option<String> {
    let first = model.composite(id)?.members.first()?;
    match first.name.is_empty() {
        false => Some(first.name.to_string()),
        true => first_member(model, first.type_id),
    }
}

/// The language of a program's type; `None` for the kernel's.
pub(super) fn language(model: &TypeModel, id: TypeId) -> Option<Language> {
    model.composite(id)?.language
}

/// How a language asks for elements that start lines and fill them.
pub(super) fn aligned(language: Option<Language>, line: u64) -> String {
    match language {
        None => "____cacheline_aligned on its first member, or per-CPU memory; of a slab cache: SLAB_HWCACHE_ALIGN".to_owned(),
        Some(Language::C) => format!("_Alignas({line}) on its first member"),
        Some(Language::Cpp) => "alignas(std::hardware_destructive_interference_size)".to_owned(),
        Some(Language::Rust) => format!("#[repr(align({line}))], or crossbeam's CachePadded"),
    }
}

/// How a program in a language, or the kernel where it is `None`, allocates objects that start lines of `line` bytes and fill them.
#[must_use]
pub fn allocated_apart(language: Option<Language>, line: u64) -> String {
    match language {
        None => "kmem_cache_create with SLAB_HWCACHE_ALIGN, or a size that kmalloc aligns to lines (a power of two)".to_owned(),
        Some(Language::C) => {
            format!("aligned_alloc({line}, …) with the size rounded up to a multiple of {line}")
        }
        Some(Language::Cpp) => {
            "alignas(std::hardware_destructive_interference_size) on the class, whose `new` then allocates it so".to_owned()
        }
        Some(Language::Rust) => {
            format!("#[repr(align({line}))] on the type, or crossbeam's CachePadded around it")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: u64 = 64;
    const A: TypeIndex = TypeIndex(1);
    const B: TypeIndex = TypeIndex(2);

    fn owned(start: u64, size: u64, ty: TypeIndex, cpu: u16) -> Owned {
        Owned {
            start,
            end: start + size,
            ty,
            cpu,
            allocated: true,
        }
    }

    fn meetings(pairs: usize, bytes: u64) -> Meetings {
        Meetings { pairs, bytes }
    }

    fn nobody() -> Neighbours {
        Neighbours {
            line: LINE,
            ..Neighbours::default()
        }
    }

    #[test]
    fn they_meet_on_the_line_that_both_are_on_alone() {
        // 96 bytes each: the second line is both's, the first and the third are one's.
        let found = Neighbours::of(vec![owned(0x1000, 96, A, 0), owned(0x1060, 96, A, 1)], LINE);
        let meets = [0x1000, 0x1040, 0x1060, 0x107f, 0x1080].map(|at| found.meet_at(GuestAddr(at)));
        assert_eq!(meets, [false, true, true, true, false]);
        assert!(!Neighbours::default().meet_at(GuestAddr(0x1040)));
    }

    #[test]
    fn neighbours_without_room_between_are_an_array() {
        let four = (0..4).map(|i| owned(0x1000 + 16 * i, 16, A, i as u16));
        let found = Neighbours::of(four.collect(), LINE);
        assert_eq!(found.elements, [(A, meetings(3, 16))].into());
        assert!(found.blocks.is_empty());
    }

    #[test]
    fn what_has_room_between_was_allocated_one_by_one() {
        let blocks = vec![
            owned(0x1000, 16, B, 0),
            owned(0x1020, 16, A, 1),
            owned(0x1040, 16, A, 0),
        ];
        let found = Neighbours::of(blocks, LINE);
        let of = |other| (meetings(1, 32), [other].into());
        assert_eq!(found.blocks, [(A, of(B)), (B, of(A))].into());
        assert!(found.elements.is_empty());
        // Variables are where the program has them.
        let global = |start, cpu| Owned {
            allocated: false,
            ..owned(start, 16, A, cpu)
        };
        let variables = vec![global(0x1000, 0), global(0x1020, 1)];
        assert_eq!(Neighbours::of(variables, LINE), nobody());
        let array = vec![global(0x1000, 0), global(0x1010, 1)];
        assert_eq!(Neighbours::of(array, LINE).elements.len(), 1);
    }

    #[test]
    fn one_cpu_on_a_line_or_a_line_each_is_as_it_should_be() {
        let none = |objects: Vec<Owned>| {
            assert_eq!(Neighbours::of(objects, LINE), nobody());
        };
        none(vec![owned(0x1000, 16, A, 3), owned(0x1010, 16, A, 3)]);
        none(vec![owned(0x1000, 64, A, 0), owned(0x1040, 64, A, 1)]);
        // One after the other in time.
        none(vec![owned(0x1000, 32, A, 0), owned(0x1010, 16, B, 1)]);
        none(vec![owned(0x1000, 0, A, 0), owned(0x1000, 16, B, 1)]);
    }

    #[test]
    fn elements_that_end_on_the_next_ones_line_are_neighbours() {
        let found = Neighbours::of(vec![owned(0x1000, 96, A, 0), owned(0x1060, 96, A, 1)], LINE);
        assert_eq!(found.elements, [(A, meetings(1, 96))].into());
    }
}
