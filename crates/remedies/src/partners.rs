//! Objects of two types that belong together one by one: they could be one allocation.

use std::collections::BTreeMap;

use linemate_answers::{Remedy, RemedyEffect, RemedyKind, Trial};
use linemate_attribution::Analysis;
use linemate_attribution::schema::TypeIndex;
use linemate_layout::{Edit, EditFile, Position, Section, Statement};
use linemate_types::{Type, TypeId, TypeModel};

use super::costs::{Cost, Costs};
use super::fields::{Field, FieldId, Fields};
use super::links::{ByCode, Meetings, Question};
use super::trials::{Pair, ids_of};
use super::{Context, percent, stake, trial};

/// The share of a pointer's uses that have to lead from an object to the one it mostly leads to, and to an object that no other
/// object's pointer mostly leads to. The rest is for pointers that were only compared, and for objects that came and went.
const PARTNERS: (u64, u64) = (9, 10);

/// One pair is not a population.
const PAIRS_MIN: usize = 2;

/// How often a pair's pointer has to be followed on average: setting up, one use and tearing down are not habit.
const FOLLOWED_MIN: u64 = 4;

/// How many pointers are named that lead to the objects, and how many arrays of such pointers.
const POINTERS_NAMED: usize = 4;

/// Which objects belong together by a pointer.
#[derive(Debug, Default, PartialEq, Eq)]
struct Partners {
    /// From the object with the pointer to the one it mostly leads to, where no other object's pointer mostly leads there; how often.
    pairs: BTreeMap<(u64, u64), u64>,
    /// How often the pointer was followed.
    steps: u64,
    /// Of those, to the object it mostly leads to.
    steady: u64,
    /// From objects in `pairs`.
    exclusive: u64,
}

impl Partners {
    fn new(meetings: &Meetings) -> Partners {
        // By object with the pointer: (most frequent, where to), and all.
        let mut best: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
        for ((from, to), count) in meetings {
            *sums.entry(*from).or_default() += count;
            let known = best.entry(*from).or_insert((*count, *to));
            // Ascending order: of equals the first stays.
            if *count > known.0 {
                *known = (*count, *to);
            }
        }
        let mut claims: BTreeMap<u64, usize> = BTreeMap::new();
        for (_, to) in best.values() {
            *claims.entry(*to).or_default() += 1;
        }
        let mut partners = Partners {
            steps: meetings.values().sum(),
            ..Partners::default()
        };
        for (from, (count, to)) in best {
            partners.steady += count;
            if claims.get(&to) == Some(&1) {
                partners.pairs.insert((from, to), count);
                partners.exclusive += sums.get(&from).copied().unwrap_or(0);
            }
        }
        partners
    }

    /// What the code that follows the pointer agrees on. Code that leads elsewhere follows another pointer.
    fn of_code(by_code: &ByCode) -> Partners {
        let mut sum = Meetings::new();
        for meetings in by_code.values() {
            if Partners::new(meetings).one_each() {
                for (pair, count) in meetings {
                    *sum.entry(*pair).or_default() += count;
                }
            }
        }
        Partners::new(&sum)
    }

    /// Whether the pointer leads from each object to one of its own.
    fn one_each(&self) -> bool {
        let enough = |part: u64| part * PARTNERS.1 >= self.steps * PARTNERS.0;
        enough(self.steady) && enough(self.exclusive)
    }

    fn belong_together(&self) -> bool {
        let often = self.steps >= FOLLOWED_MIN * self.pairs.len() as u64;
        self.pairs.len() >= PAIRS_MIN && often && self.one_each()
    }
}

/// The partners that answer a question, and the pointer that tells them.
#[derive(Debug)]
pub(super) struct Answer {
    pointer: FieldId,
    partners: Partners,
    types: (TypeIndex, TypeIndex),
    /// The same types for edits: the one with the pointer first.
    pub(super) pair: Pair,
}

impl Answer {
    /// The partners as a scene counts neighbours.
    pub(super) fn neighbours(&self) -> BTreeMap<(u64, u64), u64> {
        self.partners.pairs.clone()
    }
}

/// For each question, the pointer that is followed most of those that lead from one object to one other.
pub(super) fn answers(
    analysis: &Analysis<'_>,
    fields: &Fields,
    costs: &Costs,
    questions: &[Question],
) -> Vec<Answer> {
    let (model, schema) = (analysis.model(), analysis.schema());
    let mut answers = Vec::new();
    for question in questions {
        let mut best: Option<(FieldId, Partners)> = None;
        for id in &question.pointers {
            let partners = costs.meetings.get(id).map(Partners::of_code);
            let Some(partners) = partners.filter(Partners::belong_together) else {
                continue;
            };
            if best.as_ref().is_none_or(|(_, b)| partners.steps > b.steps) {
                best = Some((*id, partners));
            }
        }
        let Some((pointer, partners)) = best else {
            continue;
        };
        let (a, b) = question.types;
        let types = if fields.get(pointer).outer == Some(a) {
            (a, b)
        } else {
            (b, a)
        };
        let pair = (
            ids_of(model, schema.name(types.0)),
            ids_of(model, schema.name(types.1)),
        );
        if !pair.0.is_empty() && !pair.1.is_empty() && pair.0 != pair.1 {
            answers.push(Answer {
                pointer,
                partners,
                types,
                pair,
            });
        }
    }
    answers
}

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
        "{} leads from each of {} objects to one of its own: {:.0} % of the {} times it was followed; one CPU uses both most in \
         {of_one_cpu} of the pairs",
        context.fields.get(answer.pointer).name,
        partners.pairs.len(),
        percent(partners.steady, partners.steps),
        partners.steps,
    )
}

/// In how many pairs one CPU makes more than half of the accesses to either object.
fn of_one_cpu(context: &Context<'_>, answer: &Answer) -> usize {
    let one_cpu = |(a, b): &&(u64, u64)| {
        let first = main_user(context, &answer.pair.0, *a);
        first.is_some() && first == main_user(context, &answer.pair.1, *b)
    };
    answer.partners.pairs.keys().filter(one_cpu).count()
}

/// The CPU that makes more than half of the accesses to an object.
fn main_user(context: &Context<'_>, ids: &[TypeId], base: u64) -> Option<usize> {
    let subjects = context.scene.types.iter().zip(context.scene.objects);
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
        effect: RemedyEffect::NotTried,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partners(steps: &[(u64, u64, u64)]) -> Partners {
        let steps = steps.iter().map(|(a, b, count)| ((*a, *b), *count));
        Partners::new(&steps.collect())
    }

    #[test]
    fn a_pointer_that_leads_to_one_object_each_makes_partners() {
        let one_to_one = partners(&[(1, 11, 19), (1, 12, 1), (2, 12, 20)]);
        assert_eq!(one_to_one.pairs, [((1, 11), 19), ((2, 12), 20)].into());
        assert_eq!(
            (one_to_one.steps, one_to_one.steady, one_to_one.exclusive),
            (40, 39, 40)
        );
        assert!(one_to_one.belong_together());
    }

    #[test]
    fn what_many_point_to_is_nobodys_partner() {
        // Two of twenty share one: a file's inode.
        let shared = partners(&[(1, 11, 10), (2, 11, 10), (3, 12, 80)]);
        assert_eq!(shared.pairs, [((3, 12), 80)].into());
        assert_eq!((shared.steady, shared.exclusive), (100, 80));
        assert!(!shared.belong_together());
    }

    #[test]
    fn a_pointer_that_changes_makes_no_partners() {
        let current = partners(&[(1, 11, 6), (1, 12, 4), (2, 13, 10)]);
        assert_eq!((current.steady, current.exclusive), (16, 20));
        assert!(!current.belong_together());
    }

    #[test]
    fn code_that_only_compares_a_pointer_is_left_out() {
        let own: Meetings = [((1, 11), 10), ((2, 12), 10)].into();
        let parents: Meetings = [((1, 13), 50), ((2, 13), 50)].into();
        let by_code: ByCode = [((100, 101), own), ((102, 103), parents)].into();
        let partners = Partners::of_code(&by_code);
        assert_eq!(partners.pairs, [((1, 11), 10), ((2, 12), 10)].into());
        assert!(partners.belong_together());
    }

    #[test]
    fn one_pair_is_no_population_and_once_no_habit() {
        assert!(!partners(&[(1, 11, 100)]).belong_together());
        assert!(!partners(&[(1, 11, 3), (2, 12, 4)]).belong_together());
        assert!(partners(&[(1, 11, 4), (2, 12, 4)]).belong_together());
    }
}
