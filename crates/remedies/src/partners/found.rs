//! Which objects belong together one to one, by the pointers that lead from one to the other.

use std::collections::BTreeMap;

use linemate_attribution::Analysis;
use linemate_attribution::schema::TypeIndex;
use linemate_experiment::scene::{Neighbours, TypePair};
use linemate_recording::{Accesses, GuestAddr};

use crate::costs::MeasuredCosts;
use crate::fields::{FieldId, Fields};
use crate::links::{ByCode, Meetings, Question};
use crate::trials::ids_of;

/// The share of a pointer's uses that have to lead from an object to its usual target, which no
/// other object's pointer usually leads to. The rest is for pointers that were only compared, and
/// for objects that came and went.
const PARTNERS: (u64, u64) = (9, 10);

/// One pair is not a population.
const PAIRS_MIN: usize = 2;

/// How often a pair's pointer has to be followed on average: set-up, one use and tear-down are not
/// a pattern.
const FOLLOWED_MIN: u64 = 4;

/// Which objects belong together by a pointer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Partners {
    /// From the object with the pointer to its usual target, if no other object's pointer usually
    /// leads there; how often.
    pub(crate) pairs: BTreeMap<(u64, u64), u64>,
    /// How often the pointer was followed.
    pub(crate) steps: u64,
    /// Of those, to the usual target.
    pub(crate) steady: u64,
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
            // One object that many point to is shared, however steady each pointer is.
            if claims.get(&to) == Some(&1) {
                partners.pairs.insert((from, to), count);
                partners.exclusive += sums.get(&from).copied().unwrap_or(0);
            }
        }
        partners
    }

    /// What the code that follows the pointer agrees on. Code that leads elsewhere follows another
    /// pointer.
    fn of_code(by_code: &ByCode) -> Partners {
        let mut sum = Meetings::new();
        for meetings in by_code.values() {
            // By code first: instructions that only compare the pointer seem to lead to the next
            // object touched, and would spoil the sum.
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

/// The partners for a question, and the pointer that shows them.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) pointer: FieldId,
    pub(crate) partners: Partners,
    pub(crate) types: (TypeIndex, TypeIndex),
    /// The same types for edits: the one with the pointer first.
    pub(crate) pair: TypePair,
}

impl Answer {
    /// The partners as a scene counts neighbours.
    pub(crate) fn neighbours(&self) -> (TypePair, Neighbours) {
        let pairs = self.partners.pairs.iter();
        let pair = |((a, b), count): (&(u64, u64), &u64)| {
            ((GuestAddr(*a), GuestAddr(*b)), Accesses(*count))
        };
        (self.pair.clone(), pairs.map(pair).collect())
    }
}

/// For each question, the most followed pointer among those that lead from one object to one other.
pub(crate) fn answers(
    analysis: &Analysis<'_>,
    fields: &Fields,
    costs: &MeasuredCosts,
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
        let pair = TypePair {
            first: ids_of(model, schema.name(types.0)),
            second: ids_of(model, schema.name(types.1)),
        };
        let known = !pair.first.is_empty() && !pair.second.is_empty();
        if known && pair.first != pair.second {
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
