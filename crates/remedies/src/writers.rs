//! Structs of one line whose members different CPUs write: lines of their own for each writer's
//! members.
//!
//! [`super::own_line`] gives one member of a larger struct a line. A struct of one line grows for
//! it in every object, so more has to be at stake.

use std::collections::BTreeMap;

use linemate_answers::{Remedy, RemedyKind};
use linemate_attribution::schema::TypeIndex;
use linemate_attribution::tally::CpuSet;
use linemate_layout::Edit;
use linemate_recording::{AccessKind, GuestAddr};
use linemate_types::Language;

use super::apart::{language, stake};
use super::context::{Context, trial};
use super::fields::{FieldId, subject_of};

/// The share of the type's cost that has to be false sharing: a tenth, as `advise` demands of each
/// line that a layout adds.
const STAKE_SHARE: u64 = 10;

/// The most sets: more writers than these want an element of an array each, not a member.
const SETS_MAX: usize = 8;

/// A member of whose accesses a smaller part writes is only set up, and so does an instruction that
/// writes less often, by this factor, than the one that writes most: once in an object's life, and
/// the members' users thousands of times. A choice.
const RARE_PART: u64 = 16;

pub(super) fn find(context: &Context<'_>) -> Vec<Remedy> {
    let mut uses: BTreeMap<TypeIndex, BTreeMap<String, MemberUse>> = BTreeMap::new();
    for (key, count) in context.tally.rows() {
        let Some(id) = context.fields.at(key.field()) else {
            continue;
        };
        let field = context.fields.get(id);
        let (Some(ty), Some(leaf), false) = (field.outer, &field.leaf, field.owned) else {
            continue;
        };
        let path = leaf.path.split(['.', '[']).next().unwrap_or_default();
        let member = uses.entry(ty).or_default().entry(path.to_owned());
        let member = member.or_default();
        member.accesses += count.count;
        if key.kind != AccessKind::Load {
            let (times, cpus) = member.writes.entry(key.pc).or_default();
            *times += count.count;
            cpus.merge(&count.cpus);
        }
    }
    let found = uses.iter();
    found
        .filter_map(|(ty, members)| one(context, *ty, members))
        .collect()
}

/// Who uses a member.
#[derive(Default)]
struct MemberUse {
    accesses: u64,
    /// By instruction: how often it writes, on which CPUs.
    writes: BTreeMap<GuestAddr, (u64, CpuSet)>,
}

impl MemberUse {
    fn writers(&self) -> Vec<u16> {
        let counts = || self.writes.values().map(|(count, _)| *count);
        let mut cpus = CpuSet::default();
        if counts().sum::<u64>().saturating_mul(RARE_PART) >= self.accesses {
            let most = counts().max().unwrap_or(0);
            let often = |count: u64| count.saturating_mul(RARE_PART) >= most;
            let writers = self.writes.values().filter(|(count, _)| often(*count));
            writers.for_each(|(_, set)| cpus.merge(set));
        }
        cpus.iter().collect()
    }
}

/// Members by who writes them, those that nobody does among them.
fn by_writers(members: &BTreeMap<String, MemberUse>) -> BTreeMap<Vec<u16>, Vec<&str>> {
    let mut sets: BTreeMap<Vec<u16>, Vec<&str>> = BTreeMap::new();
    for (name, used) in members {
        sets.entry(used.writers()).or_default().push(name);
    }
    sets
}

fn one(
    context: &Context<'_>,
    ty: TypeIndex,
    members: &BTreeMap<String, MemberUse>,
) -> Option<Remedy> {
    let (model, about) = (context.analysis.model(), context.analysis.schema().get(ty)?);
    let line = context.options.machine.line.bytes();
    // What elements and blocks lose to their neighbours is another remedy's.
    let neighbours = context.neighbours;
    let meets = neighbours.elements.contains_key(&ty) || neighbours.blocks.contains_key(&ty);
    if about.size > line || meets {
        return None;
    }
    let (ids, cost) = context.fields_of(ty);
    let sets = by_writers(members);
    let enough = cost.false_cycles.saturating_mul(STAKE_SHARE) >= cost.cycles;
    if cost.false_sharing_misses == 0 || !enough || !(2..=SETS_MAX).contains(&sets.len()) {
        return None;
    }
    let written: Vec<&Vec<&str>> = sets
        .iter()
        .filter(|(writers, _)| !writers.is_empty())
        .map(|(_, names)| names)
        .collect();
    let isolate = |names: &&Vec<&str>| {
        let names = names.iter().map(|name| (*name).to_owned());
        Edit::Isolate(names.collect())
    };
    let edits = written.iter().map(isolate).collect();
    Some(Remedy {
        kind: RemedyKind::OwnLine,
        subject: context.fields.get(*ids.first()?).owner.clone(),
        advice: advice(language(model, about.id), line, &written),
        concerns: vec![context.fields.get(*ids.first()?).owner.clone()],
        stake: stake(&cost),
        reasons: reasons(context, &ids, &sets),
        trials: vec![trial(Some(&subject_of(model, about.id)?), edits)],
    })
}

fn advice(language: Option<Language>, line: u64, written: &[&Vec<&str>]) -> String {
    let how = match language {
        None => "____cacheline_aligned_in_smp".to_owned(),
        Some(Language::C) => format!("_Alignas({line})"),
        Some(Language::Cpp) => "alignas(std::hardware_destructive_interference_size)".to_owned(),
        Some(Language::Rust) => "crossbeam's CachePadded".to_owned(),
    };
    let firsts: Vec<String> = written.iter().map(|names| names.join(" ")).collect();
    format!(
        "give each writer's members lines of their own, {how} on the first of each: {}",
        firsts.join("; ")
    )
}

/// The fields' use, and which CPUs write which members.
fn reasons(
    context: &Context<'_>,
    ids: &[FieldId],
    sets: &BTreeMap<Vec<u16>, Vec<&str>>,
) -> linemate_answers::Reasons {
    let mut reasons = context.reasons(ids, |_| true);
    for (writers, names) in sets {
        let who = match writers.len() {
            0 => "nobody writes".to_owned(),
            1 => format!("CPU {} writes", writers[0]),
            count => format!("{count} CPUs write"),
        };
        reasons.notes.push(format!("{who} {}", names.join(", ")));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(accesses: u64, writes: &[(u64, u16)]) -> MemberUse {
        let set = |cpu: u16| {
            let mut set = CpuSet::default();
            set.insert(cpu);
            set
        };
        let writes = writes.iter().map(|(count, cpu)| (*count, set(*cpu)));
        MemberUse {
            accesses,
            writes: (0..).map(GuestAddr).zip(writes).collect(),
        }
    }

    #[test]
    fn what_sets_an_object_up_does_not_count_as_a_writer() {
        let members: BTreeMap<String, MemberUse> = [
            ("head", used(1000, &[(1, 0), (400, 1)])),
            ("tail", used(1000, &[(1, 0), (400, 2)])),
            ("mask", used(2000, &[(1, 0)])),
            ("size", used(2000, &[(1, 0)])),
            // By many instructions, none of which does much.
            ("state", used(1000, &[(50, 3); 20])),
            // The CPU that sets it up uses it, too.
            ("spare", used(100, &[(1, 0), (50, 0)])),
        ]
        .into_iter()
        .map(|(name, used)| (name.to_owned(), used))
        .collect();
        let sets = by_writers(&members);
        let expected: Vec<(Vec<u16>, Vec<&str>)> = vec![
            (vec![], vec!["mask", "size"]),
            (vec![0], vec!["spare"]),
            (vec![1], vec!["head"]),
            (vec![2], vec!["tail"]),
            (vec![3], vec!["state"]),
        ];
        assert_eq!(sets.into_iter().collect::<Vec<_>>(), expected);
    }
}
