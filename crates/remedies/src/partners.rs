//! Objects of two types that belong together one to one: they could be one allocation.

pub(crate) mod found;

use linemate_answers::{Remedy, RemedyEffect, RemedyKind, Trial};
use linemate_experiment::scene::TypePair;
use linemate_layout::{Edit, EditFile, Position, Section, Statement};
use linemate_recording::{CpuId, GuestAddr};
use linemate_types::{Type, TypeId, TypeModel};

use self::found::Answer;
use super::context::{Context, percent, stake, trial};
use super::costs::Cost;
use super::fields::{Field, FieldId};

/// The maximum number of pointers to the objects, and of arrays of such pointers, that are named.
const POINTERS_NAMED: usize = 4;

pub(super) fn find(context: &Context<'_>) -> Vec<Remedy> {
    let answers = context.answers.iter();
    answers.filter_map(|answer| one(context, answer)).collect()
}

fn one(context: &Context<'_>, answer: &Answer) -> Option<Remedy> {
    // What different CPUs use belongs on different lines.
    let of_one_cpu = of_one_cpu(context, answer);
    if 2 * of_one_cpu <= answer.partners.pairs.len() {
        return None;
    }
    let schema = context.analysis.schema();
    let (a, b) = (
        schema.name(answer.types.0).to_owned(),
        schema.name(answer.types.1).to_owned(),
    );
    let of = |name: &str| -> Vec<FieldId> {
        let fields = context.fields.iter();
        fields
            .filter(|(_, field)| field.outer.is_some() && field.owner == name)
            .map(|(id, _)| id)
            .collect()
    };
    let cost = |ids: &[FieldId]| {
        let mut sum = Cost::default();
        for id in ids {
            sum.add(&context.costs.sum(*id, |_| true));
        }
        sum
    };
    let (of_a, of_b) = (of(&a), of(&b));
    let (cost_a, cost_b) = (cost(&of_a), cost(&of_b));
    // The smaller of both is at stake: one allocation saves the access to one of the two, not the
    // first one's own misses.
    let smaller = if cost_a.cycles < cost_b.cycles {
        cost_a
    } else {
        cost_b
    };
    let both: Vec<FieldId> = of_a.into_iter().chain(of_b).collect();
    let mut reasons = context.reasons(&both, |_| true);
    reasons.notes.push(notes(context, answer, of_one_cpu));
    let pointers = pointers(context, &answer.pair);
    if !pointers.is_empty() {
        let direct = pointers.iter().filter(|(_, array)| !array);
        let arrays = pointers.iter().filter(|(_, array)| *array);
        let listed: Vec<String> = direct
            .take(POINTERS_NAMED)
            .chain(arrays.take(POINTERS_NAMED))
            .map(|(id, array)| {
                let field = context.fields.get(*id);
                let elements = if *array { "[]" } else { "" };
                format!("{}{elements} ({} loads)", field.name, field.used.loads)
            })
            .collect();
        reasons
            .notes
            .push(format!("reached through {}", listed.join(", ")));
    }
    let colocate = Edit::Colocate(a.clone(), b.clone());
    let mut trials = vec![trial(None, vec![colocate.clone()])];
    trials.extend(without_spare_arrays(context, &colocate, &pointers));
    Some(Remedy {
        kind: RemedyKind::CoAllocate,
        subject: format!("{a} with its {b}"),
        advice:
            "allocate the two as one object, so that one is found from the other without a pointer"
                .to_owned(),
        concerns: vec![a, b],
        stake: stake(&smaller),
        reasons,
        trials,
    })
}

fn notes(context: &Context<'_>, answer: &Answer, of_one_cpu: usize) -> String {
    let partners = &answer.partners;
    format!(
        "{} links each of {} objects to its own partner: {:.0} % of the {} times it was followed; in {of_one_cpu} of the pairs \
         one CPU makes most accesses to both",
        context.fields.get(answer.pointer).name,
        partners.pairs.len(),
        percent(partners.steady, partners.steps),
        partners.steps,
    )
}

/// In how many pairs one CPU makes more than half of the accesses to either object.
fn of_one_cpu(context: &Context<'_>, answer: &Answer) -> usize {
    let one_cpu = |(a, b): &&(u64, u64)| {
        let first = main_user(context, &answer.pair.first, *a);
        first.is_some() && first == main_user(context, &answer.pair.second, *b)
    };
    answer.partners.pairs.keys().filter(one_cpu).count()
}

/// The CPU that makes more than half of the accesses to an object.
fn main_user(context: &Context<'_>, ids: &[TypeId], base: u64) -> Option<CpuId> {
    let subjects = context.scene.types.iter().zip(context.scene.objects);
    let users = subjects
        .filter(|(id, _)| id.is_some_and(|id| ids.contains(&id)))
        .find_map(|(_, objects)| objects.get(&GuestAddr(base)))?;
    users.majority()
}

/// Fields that point to objects of the two types, directly or through an array; most loaded first.
/// The second: through an array.
fn pointers(context: &Context<'_>, pair: &TypePair) -> Vec<(FieldId, bool)> {
    let model = context.analysis.model();
    let mut found: Vec<(FieldId, bool)> = Vec::new();
    for (id, field) in context.fields.iter() {
        let Some(depth) = depth_of_pointer(model, field, pair) else {
            continue;
        };
        if field.used.loads > 0 {
            found.push((id, depth == 2));
        }
    }
    let loads = |id: FieldId| context.fields.get(id).used.loads;
    found.sort_by_key(|(id, _)| (std::cmp::Reverse(loads(*id)), *id));
    found
}

/// 1 for a pointer to one of the two types, 2 for a pointer to such pointers.
fn depth_of_pointer(model: &TypeModel, field: &Field, pair: &TypePair) -> Option<usize> {
    let mut id = model.strip(field.leaf.as_ref()?.type_id);
    for depth in 0..=2 {
        match model.get(id) {
            Some(Type::Pointer { target }) => id = model.strip(*target),
            _ => return (pair.first.contains(&id) || pair.second.contains(&id)).then_some(depth),
        }
    }
    None
}

/// One object needs one array to be found by: the same edit without the other arrays' pointers.
fn without_spare_arrays(
    context: &Context<'_>,
    colocate: &Edit,
    pointers: &[(FieldId, bool)],
) -> Option<Trial> {
    let arrays = pointers.iter().filter(|(_, array)| *array);
    let homes: Vec<_> = arrays
        .filter_map(|(id, _)| context.fields.get(*id).home.clone())
        .collect();
    let kept = homes.first()?;
    let statement = |edit| Statement {
        edit,
        at: Position::default(),
    };
    let mut sections = vec![Section {
        subject: None,
        statements: vec![statement(colocate.clone())],
    }];
    for home in homes.iter().skip(1).filter(|h| h.subject == kept.subject) {
        sections.push(Section {
            subject: Some(home.subject.clone()),
            statements: vec![statement(Edit::Remove(home.member.clone()))],
        });
    }
    (sections.len() > 1).then(|| Trial {
        edits: EditFile { sections }.to_string(),
        effect: RemedyEffect::NotTried,
    })
}
