//! Stores that leave memory unchanged, if they take a line from other CPUs: test before the store.

use std::collections::BTreeMap;

use linemate_answers::{Remedy, RemedyKind};
use linemate_layout::Edit;
use linemate_recording::AccessKind;

use super::context::{Context, is_named, percent, stake, trial};
use super::costs::Act;
use super::fields::{FieldId, Home};

/// An instruction belongs to a field if at least this share of its accesses go to the field's
/// declaration. Code that serves many fields (clearing, copying, list helpers) cannot be changed
/// for one of them.
const OWN: (u64, u64) = (9, 10);

/// By field: silent stores by instructions of its own, and by all.
type Silent = BTreeMap<FieldId, (u64, u64)>;

pub(super) fn find(context: &Context<'_>) -> Vec<Remedy> {
    let own = own_silent_stores(context);
    let remedy = |(id, (own, all)): (&FieldId, &(u64, u64))| {
        // Most of them have to be the field's own for its code to be the place to change.
        if 2 * own <= *all {
            return None;
        }
        one(context, *id)
    };
    own.iter().filter_map(remedy).collect()
}

fn one(context: &Context<'_>, id: FieldId) -> Option<Remedy> {
    let field = context.fields.get(id);
    let home = field.home.as_ref().filter(|_| is_named(field))?;
    let silent = context.costs.sum(id, |act| act == Act::SilentStore);
    if silent.sharing_misses() == 0 {
        return None;
    }
    let mut reasons = context.reasons(&[id], |act| act == Act::SilentStore);
    reasons.notes.push(format!(
        "{:.1} % of its stores are silent; {} of them had to fetch the line or the right to write from another core",
        percent(reasons.silent_stores, reasons.stores),
        silent.sharing_misses(),
    ));
    Some(Remedy {
        kind: RemedyKind::SkipSilentStores,
        subject: field.name.clone(),
        advice: format!("test before the store: if ({0} != v) {0} = v;", home.member),
        concerns: vec![field.owner.clone()],
        stake: stake(&silent),
        reasons,
        trials: vec![trial(
            Some(&home.subject),
            vec![Edit::SkipSilent(home.member.clone())],
        )],
    })
}

fn own_silent_stores(context: &Context<'_>) -> Silent {
    let rows = context.tally.rows();
    let mut by_instruction: BTreeMap<u64, (u64, BTreeMap<&Home, u64>)> = BTreeMap::new();
    for (key, count) in rows.iter().filter(|(key, _)| key.kind == AccessKind::Store) {
        let entry = by_instruction.entry(key.pc.0).or_default();
        entry.0 += count.count;
        let field = context.fields.at(key.field());
        if let Some(home) = field.and_then(|id| context.fields.get(id).home.as_ref()) {
            *entry.1.entry(home).or_default() += count.count;
        }
    }
    let mut silent = Silent::new();
    for (key, count) in rows {
        if key.kind != AccessKind::Store || count.silent == 0 {
            continue;
        }
        let Some(id) = context.fields.at(key.field()) else {
            continue;
        };
        let Some(home) = context.fields.get(id).home.as_ref() else {
            continue;
        };
        let (all, homes) = &by_instruction[&key.pc.0];
        let to_home = homes.get(home).copied().unwrap_or(0);
        let entry = silent.entry(id).or_default();
        entry.1 += count.silent;
        // By all stores of the instruction, silent or not: a `memset` of many types belongs to
        // none.
        if to_home * OWN.1 >= all * OWN.0 {
            entry.0 += count.silent;
        }
    }
    silent
}
