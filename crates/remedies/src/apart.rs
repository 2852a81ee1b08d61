//! Objects of different CPUs that share a line: neighbours in an array, and adjacent allocations.
//!
//! Each CPU uses an object of its own, and only the line is exchanged. Objects are neighbours in an
//! array if one starts where the other ends and both are of one type; a slab cache whose slots have
//! no room in between is like that, too. Other arrays are found by the offsets in their type
//! ([`super::elements`]).

pub(crate) mod neighbours;

use std::collections::{BTreeMap, BTreeSet};

use linemate_answers::{Remedy, RemedyKind, Stake, Trial};
use linemate_attribution::schema::TypeIndex;
use linemate_attribution::{Bucket, FieldRef, Subject, SubjectId};
use linemate_layout::edit::Alignment;
use linemate_layout::{Edit, EditSubject};
use linemate_types::{CompositeKind, Language, Member, MemberRole, TypeId, TypeModel};

use self::neighbours::{Meetings, What};
use super::context::{Context, is_named, trial};
use super::costs::Cost;
use super::elements;
use super::fields::{FieldId, first_member, subject_of};
use super::holders::{self, InHolder, held, is_library};

/// Arrays whose elements should be padded.
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
        subject: holders::called(model, id, &name),
        advice: match schema.size(ty) % line {
            0 => format!(
                "start the array at a line, so that each element has lines of its own: {}{}",
                aligned(language(model, id), line),
                heap_in_c(context, ty, line)
            ),
            _ => format!(
                "give each element lines of its own ({} bytes each): {}{}",
                schema.size(ty).next_multiple_of(line),
                of_held(model, id, aligned(language(model, id), line)),
                heap_in_c(context, ty, line)
            ),
        },
        concerns: vec![name],
        stake: stake(&cost),
        reasons,
        trials: match moves(context, ty) {
            true => own_lines(model, id, line).into_iter().collect(),
            false => Vec::new(),
        },
    })
}

/// Whether edits move some objects of a type: not those on stacks.
fn moves(context: &Context<'_>, ty: TypeIndex) -> bool {
    let movable = context.scene.movable.iter();
    let subjects = context.analysis.subjects().iter().zip(movable);
    let mut of_type = subjects.filter(|(subject, _)| subject.ty == Some(ty));
    of_type.any(|(_, movable)| movable.is_some())
}

/// Types and blocks whose objects should be allocated apart. Not a type whose elements should be
/// padded: that is the same alignment.
pub(super) fn blocks(context: &Context<'_>) -> Vec<Remedy> {
    let found = &context.neighbours.blocks;
    let families: BTreeSet<TypeId> = found
        .iter()
        .filter_map(|(what, (_, others))| shared_base(context, *what, others))
        .collect();
    let of_families: BTreeMap<TypeId, Remedy> = families
        .into_iter()
        .filter_map(|base| Some((base, family(context, base)?)))
        .collect();
    let is_array = |what: &What| match what {
        What::Type(ty) => context.neighbours.elements.contains_key(ty),
        What::Block(_) => false,
    };
    let in_family = |what: &What| bases(context, *what).any(|of| of_families.contains_key(&of));
    let alone = found
        .iter()
        .filter(|(what, _)| !is_array(what) && !in_family(what));
    let alone: Vec<Remedy> = alone
        .filter_map(|(what, (meetings, others))| one_kind(context, *what, *meetings, others))
        .collect();
    of_families.into_values().chain(alone).collect()
}

/// The base classes at the start of a class, from the nearest to the last.
fn bases(context: &Context<'_>, what: What) -> impl Iterator<Item = TypeId> {
    let (model, schema) = (context.analysis.model(), context.analysis.schema());
    let base = |id: &TypeId| {
        let first = model.composite(*id)?.members.first()?;
        let is_base = first.role == MemberRole::Base && first.offset.0 == 0;
        is_base.then(|| model.strip(first.type_id))
    };
    let class = match what {
        What::Type(ty) => schema.get(ty).map(|about| about.id),
        What::Block(_) => None,
    };
    let found = std::iter::successors(class.as_ref().and_then(base), base);
    // What contains itself by value is refused with the model, so this ends.
    found.collect::<Vec<_>>().into_iter()
}

/// The nearest base class that a class has in common with a neighbour of another class.
fn shared_base(context: &Context<'_>, what: What, others: &BTreeSet<What>) -> Option<TypeId> {
    let others: BTreeSet<TypeId> = others
        .iter()
        .filter(|other| **other != what)
        .flat_map(|other| bases(context, *other))
        .collect();
    bases(context, what).find(|base| others.contains(base))
}

/// Classes that are derived from one, whose objects are neighbours: one alignment serves all.
fn family(context: &Context<'_>, base: TypeId) -> Option<Remedy> {
    let model = context.analysis.model();
    let (mut all, mut cost, mut pairs) = (Vec::new(), Cost::default(), 0);
    let mut names = BTreeSet::new();
    for (what, (meetings, _)) in &context.neighbours.blocks {
        let What::Type(ty) = *what else { continue };
        if !bases(context, *what).any(|of| of == base) {
            continue;
        }
        if let Some((ids, of_type)) = at_stake(context, ty) {
            names.insert(context.fields.get(*ids.first()?).owner.clone());
            all.extend(ids);
            cost.add(&of_type);
            pairs += meetings.pairs;
        }
    }
    let line = context.options.machine.line.bytes();
    let mut reasons = context.reasons(&all, |_| true);
    let derived: Vec<&str> = names.iter().map(String::as_str).collect();
    reasons.notes.push(format!(
        "{} derive from it; {pairs} of their objects share a line with the next, which another CPU uses",
        derived.join(", "),
    ));
    let how = allocated_apart(language(model, base), line);
    let trial = own_lines(model, base, line)?;
    (!names.is_empty()).then(|| Remedy {
        kind: RemedyKind::AllocateApart,
        subject: model.composite_name(base).to_owned(),
        advice: format!("allocate each on lines of its own: {how}"),
        concerns: names.into_iter().collect(),
        stake: stake(&cost),
        reasons,
        trials: vec![trial],
    })
}

fn one_kind(
    context: &Context<'_>,
    what: What,
    meetings: Meetings,
    others: &BTreeSet<What>,
) -> Option<Remedy> {
    let (model, schema) = (context.analysis.model(), context.analysis.schema());
    let (ids, cost) = match what {
        What::Type(ty) => at_stake(context, ty)?,
        What::Block(subject) => lost_where_met(context, block_field(context, subject)?)?,
    };
    let name = context.fields.get(*ids.first()?).owner.clone();
    let line = context.options.machine.line.bytes();
    let (how, trial, subject) = match what {
        What::Type(ty) => {
            let id = schema.get(ty)?.id;
            let how = of_held(model, id, allocated_apart(language(model, id), line));
            let subject = holders::called(model, id, &name);
            (how, own_lines(model, id, line), subject)
        }
        What::Block(_) => {
            let trial = elements::own_ranges(&[&name]);
            (block_apart(line), Some(trial), name.clone())
        }
    };
    let mut reasons = context.reasons(&ids, |_| true);
    let others: Vec<&str> = others.iter().map(|other| called(context, *other)).collect();
    let (objects, share) = match meetings.pairs {
        1 => ("1 object".to_owned(), "shares"),
        pairs => (format!("{pairs} objects"), "share"),
    };
    reasons.notes.push(format!(
        "{objects} {share} a line with the next object, which another CPU uses ({}; {} bytes apart)",
        others.join(", "),
        meetings.bytes,
    ));
    Some(Remedy {
        kind: RemedyKind::AllocateApart,
        subject,
        advice: format!("allocate each on lines of its own: {how}"),
        concerns: vec![name],
        stake: stake(&cost),
        reasons,
        trials: trial.into_iter().collect(),
    })
}

/// What an object is called in a note.
fn called<'c>(context: &'c Context<'_>, what: What) -> &'c str {
    match what {
        What::Type(ty) => context.analysis.schema().name(ty),
        What::Block(subject) => &context.analysis.subjects()[subject.index()].label,
    }
}

/// The field that all bytes of a block are.
fn block_field(context: &Context<'_>, subject: SubjectId) -> Option<FieldId> {
    let at = FieldRef { subject, offset: 0 };
    let id = context.fields.at(at)?;
    is_named(context.fields.get(id)).then_some(id)
}

/// The edit that makes objects of a type start lines and fill them.
fn own_lines(model: &TypeModel, id: TypeId, line: u64) -> Option<Trial> {
    if let Some(held) = held(model, id) {
        let (subject, edits) = held.own_lines();
        return Some(trial(Some(&subject), edits));
    }
    let (alignment, subject) = (Alignment::Line, subject_of(model, id)?);
    // An alignment of a type that fills lines changes no layout, only where objects start. A union
    // (an enum of Rust with values, what `std::variant` holds) and what is inherited have no member
    // that an edit could align.
    let composite = model.composite(id)?;
    let inherits = |m: &Member| m.role != MemberRole::Field && m.offset.0 == 0;
    let fills_lines = model.size_of(id)? % line == 0;
    if fills_lines
        || composite.kind == CompositeKind::Union
        || composite.members.iter().any(inherits)
    {
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

/// The fields of a type outside per-CPU memory, and their cost on lines where objects of different
/// CPUs meet; `None` if nothing was lost to other words there. What a type loses elsewhere, it
/// loses to its own fields.
fn at_stake(context: &Context<'_>, ty: TypeIndex) -> Option<(Vec<FieldId>, Cost)> {
    let (ids, _) = context.fields_of(ty);
    let mut cost = Cost::default();
    for id in &ids {
        // Only where objects of different CPUs meet: on other lines a type loses to its own fields,
        // which separating objects does not change.
        cost.add(&context.costs.met(*id));
    }
    (cost.false_sharing_misses > 0).then_some((ids, cost))
}

/// The same of the one field that a block is.
fn lost_where_met(context: &Context<'_>, id: FieldId) -> Option<(Vec<FieldId>, Cost)> {
    let cost = context.costs.met(id);
    (cost.false_sharing_misses > 0).then(|| (vec![id], cost))
}

pub(super) fn stake(cost: &Cost) -> Stake {
    Stake {
        misses: cost.false_sharing_misses,
        cycles: cost.false_cycles,
    }
}

/// What to add for a type of C with objects on the heap: `malloc` does not know their alignment,
/// and code that is compiled for it may fail elsewhere.
pub(super) fn heap_in_c(context: &Context<'_>, ty: TypeIndex, line: u64) -> String {
    let model = context.analysis.model();
    let id = context.analysis.schema().get(ty).map(|about| about.id);
    let is_c = id.and_then(|id| language(model, id)) == Some(Language::C);
    let mut subjects = context
        .analysis
        .subjects()
        .iter()
        .zip(context.scene.objects);
    let is_of_heap = |s: &Subject| s.ty == Some(ty) && s.program && s.bucket == Bucket::Field;
    match is_c && subjects.any(|(subject, objects)| is_of_heap(subject) && !objects.is_empty()) {
        // Not of what is mapped: processes may share that.
        true => format!("; on the heap by aligned_alloc({line}, …), which does not zero"),
        false => String::new(),
    }
}

/// `how` with the class that it is about, if that is not the type that has the remedy.
fn of_held(model: &TypeModel, id: TypeId, how: String) -> String {
    match held(model, id) {
        Some(InHolder { name, .. }) => format!("{how}: {name}"),
        None if is_library(model, id) => format!("{how}, of a struct around it"),
        None => how,
    }
}

/// The language of a program's type; `None` for the kernel's.
pub(super) fn language(model: &TypeModel, id: TypeId) -> Option<Language> {
    model.composite(id)?.language
}

/// How a language requests elements that start lines and fill them.
pub(super) fn aligned(language: Option<Language>, line: u64) -> String {
    match language {
        None => "____cacheline_aligned on its first member, or per-CPU memory; of a slab cache: SLAB_HWCACHE_ALIGN".to_owned(),
        Some(Language::C) => format!("_Alignas({line}) on its first member"),
        Some(Language::Cpp) => "alignas(std::hardware_destructive_interference_size)".to_owned(),
        Some(Language::Rust) => format!("#[repr(align({line}))], or crossbeam's CachePadded"),
    }
}

/// How a program allocates blocks without a struct that start lines of `line` bytes and fill them.
fn block_apart(line: u64) -> String {
    format!(
        "aligned_alloc({line}, …) with the size rounded up to a multiple of {line}, or a struct with that alignment"
    )
}

/// How a program in a language, or the kernel if it is `None`, allocates objects that start lines
/// of `line` bytes and fill them.
#[must_use]
pub fn allocated_apart(language: Option<Language>, line: u64) -> String {
    match language {
        None => "kmem_cache_create with SLAB_HWCACHE_ALIGN, or a size that kmalloc aligns to lines (a power of two)".to_owned(),
        Some(Language::C) => {
            format!("aligned_alloc({line}, …) with the size rounded up to a multiple of {line}")
        }
        Some(Language::Cpp) => {
            "alignas(std::hardware_destructive_interference_size) on the class, which `new` then honours".to_owned()
        }
        Some(Language::Rust) => {
            format!("#[repr(align({line}))] on the type, or crossbeam's CachePadded around it")
        }
    }
}
