//! Objects of two types that belong together one by one: they could be one allocation.

use std::collections::BTreeMap;

use linemate_attribution::Analysis;
use linemate_attribution::schema::TypeIndex;
use linemate_layout::{Edit, EditFile, Position, Section, Statement};
use linemate_types::{Type, TypeId, TypeModel};

use super::costs::Cost;
use super::evidence::Evidence;
use super::fields::{Field, FieldId};
use super::trial::{Pair, ids_of};
use super::{Context, Effect, Kind, Remedy, Trial, percent, stake, trial};

/// How many pairs of types are looked at object by object: those that are used in turn most often. More would cost memory for each pair of
/// objects that meet.
const QUESTIONS_MAX: usize = 16;

/// The share of the steps between two types that objects have to make which are each other's most frequent neighbour. Where objects meet at
/// random, about half of them are by chance.
const PARTNERS: (u64, u64) = (9, 10);

/// One pair is no population.
const PAIRS_MIN: usize = 2;

/// How many pointers are named that lead to the objects.
const POINTERS_NAMED: usize = 6;

/// The pairs of types whose objects are worth matching.
pub(super) fn questions(
    analysis: &Analysis<'_>,
    evidence: &Evidence,
    focus: Option<&str>,
) -> Vec<Pair> {
    let (model, schema) = (analysis.model(), analysis.names().schema());
    let named = |ty: &TypeIndex| schema.get(*ty).is_some_and(|t| !t.name.is_empty());
    let asked = |ty: &TypeIndex| focus.is_none_or(|focus| schema.name(*ty) == focus);
    let mut pairs: Vec<(u64, &(TypeIndex, TypeIndex))> = evidence
        .in_turn
        .iter()
        .filter(|((a, b), _)| named(a) && named(b) && (asked(a) || asked(b)))
        .map(|(pair, count)| (*count, pair))
        .collect();
    pairs.sort_by_key(|(count, pair)| (std::cmp::Reverse(*count), **pair));
    let ids = |(_, (a, b)): (u64, &(TypeIndex, TypeIndex))| {
        let (a, b) = (
            ids_of(model, schema.name(*a)),
            ids_of(model, schema.name(*b)),
        );
        (!a.is_empty() && !b.is_empty() && a != b).then_some((a, b))
    };
    let mut found: Vec<Pair> = Vec::new();
    for pair in pairs.into_iter().filter_map(ids) {
        if found.len() < QUESTIONS_MAX && !found.contains(&pair) {
            found.push(pair);
        }
    }
    found
}

/// Which objects of two types belong together.
#[derive(Debug, Default, PartialEq, Eq)]
struct Partners {
    /// Each other's most frequent neighbours.
    pairs: Vec<(u64, u64)>,
    /// Steps from one type to the other.
    steps: u64,
    /// Of those, the ones between partners.
    between: u64,
    /// Steps of objects of the first type that have a partner, and of the second.
    of_partners: [u64; 2],
}

impl Partners {
    fn new(neighbours: &BTreeMap<(u64, u64), u64>) -> Partners {
        let mut best: [BTreeMap<u64, (u64, u64)>; 2] = Default::default();
        let mut sums: [BTreeMap<u64, u64>; 2] = Default::default();
        for ((a, b), count) in neighbours {
            for (side, (me, other)) in [(a, b), (b, a)].into_iter().enumerate() {
                *sums[side].entry(*me).or_default() += count;
                let known = best[side].entry(*me).or_insert((*count, *other));
                // Ascending order: of equals the first stays.
                if *count > known.0 {
                    *known = (*count, *other);
                }
            }
        }
        let mut partners = Partners {
            steps: neighbours.values().sum(),
            ..Partners::default()
        };
        for (a, (count, b)) in &best[0] {
            if best[1].get(b).is_some_and(|(_, back)| back == a) {
                partners.pairs.push((*a, *b));
                partners.between += count;
                partners.of_partners[0] += sums[0].get(a).copied().unwrap_or(0);
                partners.of_partners[1] += sums[1].get(b).copied().unwrap_or(0);
            }
        }
        partners
    }

    fn belong_together(&self) -> bool {
        let enough = |part: u64| part * PARTNERS.1 >= self.steps * PARTNERS.0;
        self.pairs.len() >= PAIRS_MIN && self.of_partners.into_iter().all(enough)
    }
}

pub(super) fn find(context: &Context<'_>) -> Vec<Remedy> {
    let counted = context.pairs.iter().zip(&context.scene.neighbours);
    counted
        .filter_map(|(pair, neighbours)| one(context, pair, &Partners::new(neighbours)))
        .collect()
}

fn one(context: &Context<'_>, pair: &Pair, partners: &Partners) -> Option<Remedy> {
    if !partners.belong_together() {
        return None;
    }
    let model = context.analysis.model();
    let name = |ids: &[TypeId]| {
        model
            .composite(*ids.first()?)
            .map(|composite| composite.name.to_string())
    };
    let (a, b) = (name(&pair.0)?, name(&pair.1)?);
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
    let smaller = if cost_a.cycles < cost_b.cycles {
        cost_a
    } else {
        cost_b
    };
    let both: Vec<FieldId> = of_a.into_iter().chain(of_b).collect();
    let mut reasons = context.reasons(&both, |_| true);
    reasons.notes.push(notes(context, pair, partners));
    let pointers = pointers(context, pair);
    if !pointers.is_empty() {
        let listed: Vec<String> = pointers
            .iter()
            .take(POINTERS_NAMED)
            .map(|(id, _)| context.fields.get(*id))
            .map(|field| format!("{} ({} loads)", field.name, field.used.loads))
            .collect();
        reasons
            .notes
            .push(format!("reached through {}", listed.join(", ")));
    }
    let colocate = Edit::Colocate(a.clone(), b.clone());
    let mut trials = vec![trial(None, vec![colocate.clone()])];
    trials.extend(without_spare_arrays(context, &colocate, &pointers));
    Some(Remedy {
        kind: Kind::CoAllocate,
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

fn notes(context: &Context<'_>, pair: &Pair, partners: &Partners) -> String {
    let mut of_one_cpu = 0;
    for (a, b) in &partners.pairs {
        let (first, second) = (
            main_user(context, &pair.0, *a),
            main_user(context, &pair.1, *b),
        );
        of_one_cpu += usize::from(first.is_some() && first == second);
    }
    format!(
        "{} pairs that are each other's most frequent neighbour make {:.0} and {:.0} % of all steps between the two types, {:.0} % of \
         them inside of a pair; {of_one_cpu} pairs belong to one CPU",
        partners.pairs.len(),
        percent(partners.of_partners[0], partners.steps),
        percent(partners.of_partners[1], partners.steps),
        percent(partners.between, partners.steps),
    )
}

/// The CPU that makes more than half of the accesses to an object.
fn main_user(context: &Context<'_>, ids: &[TypeId], base: u64) -> Option<usize> {
    let subjects = context.scene.types.iter().zip(&context.scene.objects);
    let users = subjects
        .filter(|(id, _)| id.is_some_and(|id| ids.contains(&id)))
        .find_map(|(_, objects)| objects.get(&base))?;
    let total: u64 = users.iter().map(|count| u64::from(*count)).sum();
    users.iter().position(|count| 2 * u64::from(*count) > total)
}

/// Fields that point to objects of the two types, directly or through an array; most loaded first. The second: through an array.
fn pointers(context: &Context<'_>, pair: &Pair) -> Vec<(FieldId, bool)> {
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
fn depth_of_pointer(model: &TypeModel, field: &Field, pair: &Pair) -> Option<usize> {
    let mut id = model.strip(field.leaf.as_ref()?.type_id);
    for depth in 0..=2 {
        match model.get(id) {
            Some(Type::Pointer { target }) => id = model.strip(*target),
            _ => return (pair.0.contains(&id) || pair.1.contains(&id)).then_some(depth),
        }
    }
    None
}

/// What one object needs is one array to be found by: the same edit without the other arrays' pointers.
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
        effect: Effect::NotTried,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partners(steps: &[(u64, u64, u64)]) -> Partners {
        Partners::new(
            &steps
                .iter()
                .map(|(a, b, count)| ((*a, *b), *count))
                .collect(),
        )
    }

    #[test]
    fn objects_that_prefer_each_other_are_partners() {
        let one_to_one = partners(&[(1, 11, 9), (1, 12, 2), (2, 12, 9), (2, 11, 1)]);
        assert_eq!(one_to_one.pairs, [(1, 11), (2, 12)]);
        assert_eq!((one_to_one.steps, one_to_one.between), (21, 18));
        assert!(one_to_one.belong_together());
    }

    #[test]
    fn what_many_share_is_nobodys_partner() {
        // Ten of the first share each one of the second: a file's inode.
        let steps: Vec<(u64, u64, u64)> = (0..20).map(|a| (a, 100 + a / 10, 5)).collect();
        let many_to_one = partners(&steps);
        assert_eq!(many_to_one.pairs.len(), 2);
        assert_eq!(many_to_one.of_partners, [10, 100]);
        assert!(!many_to_one.belong_together());
        assert!(
            !partners(&[(1, 11, 100)]).belong_together(),
            "one pair is no population"
        );
    }
}
