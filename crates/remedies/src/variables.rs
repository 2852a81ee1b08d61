//! Programs' variables on one line of which different CPUs write different ones.
//!
//! The program decides where variables are, so each is edited by its name: what several CPUs use,
//! or one of them writes, gets lines of its own.

use std::collections::{BTreeMap, BTreeSet};

use linemate_answers::{Remedy, RemedyKind};
use linemate_attribution::SubjectId;
use linemate_attribution::tally::RARE_PART;

use super::apart::stake;
use super::context::{Context, is_named};
use super::costs::Cost;
use super::elements::own_ranges;
use super::fields::FieldId;
use super::writers::{MemberUse, SETS_MAX, STAKE_SHARE, Sharers, by};

/// How a variable is used.
#[derive(Default)]
struct VariableUse {
    used: MemberUse,
    fields: BTreeSet<FieldId>,
}

type Variables = BTreeMap<SubjectId, VariableUse>;

pub(super) fn find(context: &Context<'_>) -> Vec<Remedy> {
    let variables = variables(context);
    let lines: BTreeSet<Vec<SubjectId>> = lines(context, &variables).into_values().collect();
    let found = lines.iter();
    found
        .filter_map(|together| one(context, together, &variables))
        .collect()
}

/// Programs' variables that edits can give another place, with their use.
fn variables(context: &Context<'_>) -> Variables {
    let subjects = context.analysis.subjects();
    let mut variables = Variables::new();
    for (key, count) in context.tally.rows() {
        // Of an array of structs each element has a place of its own, and a remedy.
        let is_one = context.scene.objects[key.subject.index()].len() == 1;
        if !is_one || !subjects[key.subject.index()].is_program_variable() {
            continue;
        }
        let Some(id) = context.fields.at(key.field()) else {
            continue;
        };
        if is_named(context.fields.get(id)) {
            let variable = variables.entry(key.subject).or_default();
            variable.used.add(&key, count, true);
            variable.fields.insert(id);
        }
    }
    variables
}

/// Which variables are on each line, by its number.
fn lines(context: &Context<'_>, variables: &Variables) -> BTreeMap<u64, Vec<SubjectId>> {
    let line = context.options.machine.line.bytes();
    let mut lines: BTreeMap<u64, Vec<SubjectId>> = BTreeMap::new();
    for subject in variables.keys() {
        let size = context.neighbours.size(*subject).0.max(1);
        for base in context.scene.objects[subject.index()].keys() {
            // The first and the last line alone: what is between is the variable's own.
            let ends = BTreeSet::from([base.0 / line, base.0.saturating_add(size - 1) / line]);
            for number in ends {
                let here = lines.entry(number).or_default();
                if here.last() != Some(subject) {
                    here.push(*subject);
                }
            }
        }
    }
    lines
}

/// The variables by who shares them; those that are hardly used next to the others take the line
/// from nobody.
fn by_sharers(together: &[SubjectId], variables: &Variables) -> BTreeMap<Sharers, Vec<SubjectId>> {
    let used = |subject: &SubjectId| variables.get(subject).map(|variable| &variable.used);
    let most = together.iter().filter_map(used).map(|used| used.accesses);
    let most = most.max().unwrap_or(0);
    let mut sets: BTreeMap<Sharers, Vec<SubjectId>> = BTreeMap::new();
    for subject in together {
        let often = used(subject).filter(|used| used.accesses.saturating_mul(RARE_PART) >= most);
        let sharers = often.map_or(Sharers::NONE, MemberUse::by_cpu);
        sets.entry(sharers).or_default().push(*subject);
    }
    sets
}

/// Those that lose the line to others of them: the only one that is written does not. What it loses
/// to its own members, no other place ends.
fn losers(together: &[SubjectId], written: &[SubjectId]) -> impl Iterator<Item = SubjectId> {
    let loses = |subject: &SubjectId| written.len() > 1 || !written.contains(subject);
    together.iter().copied().filter(loses)
}

/// The fields of some variables, and what they cost.
fn fields(
    context: &Context<'_>,
    variables: &Variables,
    wanted: impl Iterator<Item = SubjectId>,
) -> (Vec<FieldId>, Cost) {
    let fields = wanted.filter_map(|subject| variables.get(&subject));
    let ids: BTreeSet<FieldId> = fields
        .flat_map(|variable| &variable.fields)
        .copied()
        .collect();
    let mut cost = Cost::default();
    for id in &ids {
        cost.add(&context.costs.sum(*id, |_| true));
    }
    (ids.into_iter().collect(), cost)
}

fn one(context: &Context<'_>, together: &[SubjectId], variables: &Variables) -> Option<Remedy> {
    let (ids, cost) = fields(context, variables, together.iter().copied());
    let sets = by_sharers(together, variables);
    let written = sets.iter().filter(|(sharers, _)| sharers.have_writers());
    let written: Vec<SubjectId> = written.flat_map(|(_, them)| them).copied().collect();
    let (_, lost) = fields(context, variables, losers(together, &written));
    let enough = lost.false_cycles.saturating_mul(STAKE_SHARE) >= cost.cycles;
    if lost.false_sharing_misses == 0 || !enough || !(2..=SETS_MAX).contains(&sets.len()) {
        return None;
    }
    let label = |subject: &SubjectId| context.analysis.subjects()[subject.index()].label.as_str();
    let written: Vec<&str> = written.iter().map(label).collect();
    let line = context.options.machine.line.bytes();
    let mut reasons = context.reasons(&ids, |_| true);
    reasons.notes.extend(sets.iter().map(|(sharers, them)| {
        let names: Vec<&str> = them.iter().map(label).collect();
        by(sharers, &names.join(", "))
    }));
    Some(Remedy {
        kind: RemedyKind::OwnLine,
        subject: (*written.first()?).to_owned(),
        advice: format!(
            "give each variable that is written lines of its own, as a struct with an alignment of {line} bytes (_Alignas, alignas, CachePadded), so that nothing follows it on its line: {}",
            written.join("; ")
        ),
        concerns: written.iter().map(|name| (*name).to_owned()).collect(),
        stake: stake(&lost),
        reasons,
        trials: vec![own_ranges(&written)],
    })
}

#[cfg(test)]
mod tests {
    use linemate_attribution::tally::{Count, Key};
    use linemate_recording::{AccessKind, GuestAddr};

    use super::super::writers::Writers;
    use super::*;

    /// A variable that those CPUs write that often.
    fn variable(subject: u32, accesses: u64, writers: &[u16]) -> (SubjectId, VariableUse) {
        let (subject, mut used) = (SubjectId(subject), MemberUse::default());
        let mut add = |kind, count, cpus: &[u16]| {
            let key = Key {
                subject,
                offset: 0,
                pc: GuestAddr(0x40_1000 + kind as u64),
                kind,
                size: 8,
            };
            let mut count = Count {
                count,
                ..Count::default()
            };
            cpus.iter().for_each(|cpu| count.cpus.insert(*cpu));
            used.add(&key, &count, true);
        };
        add(AccessKind::Load, accesses / 2, &[0, 1]);
        if !writers.is_empty() {
            add(AccessKind::Store, accesses / 2, writers);
        }
        let fields = BTreeSet::new();
        (subject, VariableUse { used, fields })
    }

    #[test]
    fn the_only_one_that_is_written_loses_to_none() {
        let all = [
            variable(0, 1000, &[0, 1]),
            variable(1, 1000, &[]),
            variable(2, 1000, &[2]),
            // Hardly used.
            variable(3, 10, &[3]),
        ];
        let variables = Variables::from(all);
        let ids = [0, 1, 2, 3].map(SubjectId);
        let sets = by_sharers(&ids, &variables);
        let by = |writers: &[u16], is_read| Sharers {
            writers: Writers::Cpus(writers.to_vec()),
            is_read,
        };
        let expected = [
            (Sharers::NONE, vec![ids[1], ids[3]]),
            (by(&[0, 1], false), vec![ids[0]]),
            // All are read by CPUs 0 and 1.
            (by(&[2], true), vec![ids[2]]),
        ];
        assert_eq!(sets, expected.into());
        let losers = |written: &[SubjectId]| losers(&ids, written).collect::<Vec<_>>();
        assert_eq!(losers(&[ids[0], ids[2]]), ids);
        assert_eq!(losers(&[ids[0]]), ids[1..]);
    }
}
