//! Fields that are constantly written next to others: a line of their own.
//!
//! The search for layouts does this better if several fields are to blame; this rule names single
//! culprits, together with the other remedies for the same field.

use std::collections::BTreeMap;

use linemate_answers::{Remedy, RemedyKind, Stake};
use linemate_attribution::schema::TypeIndex;
use linemate_layout::Edit;

use super::context::{Context, is_named, trial};
use super::costs::{Act, Cost};
use super::fields::FieldId;

pub(super) fn find(context: &Context<'_>) -> Vec<Remedy> {
    let line = context.options.machine.line.bytes();
    let mut lines: BTreeMap<(TypeIndex, &str, u64), Vec<FieldId>> = BTreeMap::new();
    for (id, field) in context.fields.iter().filter(|(_, f)| is_named(f)) {
        if let (Some(ty), Some(leaf)) = (field.outer, &field.leaf) {
            let number = leaf.offset.0 / line;
            lines
                .entry((ty, &field.owner, number))
                .or_default()
                .push(id);
        }
    }
    lines.values().filter_map(|ids| one(context, ids)).collect()
}

fn one(context: &Context<'_>, ids: &[FieldId]) -> Option<Remedy> {
    let writes = |id: &FieldId| {
        context
            .costs
            .sum(*id, |act| !matches!(act, Act::Load | Act::LoadBehindRmw))
    };
    let all: u64 = ids.iter().map(|id| writes(id).sharing_misses()).sum();
    let culprit = ids
        .iter()
        .copied()
        // One field that makes most of them: with two culprits, a line for one does not help
        // against the other.
        .find(|id| 2 * writes(id).sharing_misses() > all)?;
    let mut at_stake = Cost::default();
    let mut victims: Vec<(u64, &str)> = Vec::new();
    for id in ids {
        let cost = context.costs.sum(*id, |_| true);
        at_stake.add(&cost);
        if *id != culprit && cost.false_sharing_misses > 0 {
            victims.push((cost.false_cycles, &context.fields.get(*id).name));
        }
    }
    if victims.is_empty() {
        return None;
    }
    victims.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    let field = context.fields.get(culprit);
    let room = field.room.as_ref()?;
    let listed: Vec<&str> = victims.iter().take(4).map(|(_, name)| *name).collect();
    let mut reasons = context.reasons(&[culprit], |_| true);
    reasons
        .notes
        .push(format!("it takes the line from {}", listed.join(", ")));
    Some(Remedy {
        kind: RemedyKind::OwnLine,
        subject: field.name.clone(),
        advice: format!("start a line with {} and put nothing after it", room.member),
        concerns: vec![field.owner.clone()],
        stake: Stake {
            misses: at_stake.false_sharing_misses,
            cycles: at_stake.false_cycles,
        },
        reasons,
        trials: vec![trial(
            Some(&room.subject),
            vec![Edit::Isolate(vec![room.member.clone()])],
        )],
    })
}
