//! Objects that several CPUs only count in: each could have its own.

use std::collections::BTreeMap;

use linemate_answers::{Remedy, RemedyKind};
use linemate_attribution::schema::TypeIndex;
use linemate_layout::Edit;

use super::context::{Context, is_named, percent, stake, trial};
use super::costs::{Act, Cost};
use super::fields::FieldId;
use super::{derivable, locks};

/// The minimum share of writing in the cost of sharing: a CPU's own copy saves the fetch before a
/// write; a reader of the sum has to visit all copies.
const WRITING: (u64, u64) = (2, 3);

/// The minimum share of atomic writes to a counter; the rest is for setting it up.
const ATOMIC: (u64, u64) = (9, 10);

pub(super) fn find(context: &Context<'_>) -> Vec<Remedy> {
    let mut types: BTreeMap<TypeIndex, Vec<FieldId>> = BTreeMap::new();
    for (id, field) in context.fields.iter() {
        if let Some(ty) = field.outer.filter(|_| !field.is_owned() && is_named(field)) {
            types.entry(ty).or_default().push(id);
        }
    }
    types.values().filter_map(|ids| one(context, ids)).collect()
}

fn one(context: &Context<'_>, ids: &[FieldId]) -> Option<Remedy> {
    let (mut all, mut writing) = (Cost::default(), Cost::default());
    let mut counters = Vec::new();
    for id in ids {
        let field = context.fields.get(*id);
        // An object whose lock is taken is shared on purpose.
        if field.used.rmws > 0 && locks::is_lock(context.analysis, field) {
            return None;
        }
        let cost = context.costs.sum(*id, |_| true);
        let writes = context.costs.sum(*id, Act::writes);
        if writes.true_sharing_misses > 0 {
            // What several CPUs write without atomics is protected by a lock and belongs to what
            // that protects; what is linked or points somewhere is not a counter.
            let atomic = field.used.rmws * ATOMIC.1 >= field.used.writes() * ATOMIC.0;
            if !atomic || !derivable::is_integer(context, field) {
                return None;
            }
            counters.push(*id);
        }
        all.add(&cost);
        writing.add(&writes);
    }
    let mut reasons = context.reasons(&counters, |_| true);
    let enough = writing.shared_cycles() * WRITING.1 >= all.shared_cycles() * WRITING.0;
    // Most of it for words that CPUs really exchange: what is lost to neighbours, another place
    // ends without a sum to read.
    let exchanged = 2 * all.true_cycles > all.shared_cycles();
    // At least half of the CPUs: a producer and a consumer have no use for copies.
    let many =
        reasons.writers > 1 && 2 * u64::from(reasons.writers) >= context.cpus.recorded as u64;
    if counters.is_empty() || !enough || !exchanged || !many {
        return None;
    }
    let name = context.fields.get(*ids.first()?).owner.clone();
    let listed: Vec<&str> = counters
        .iter()
        .map(|id| context.fields.get(*id).name.as_str())
        .collect();
    reasons.notes.push(format!(
        "{:.0} % of its sharing cost is writes, to {}",
        percent(writing.shared_cycles(), all.shared_cycles()),
        listed.join(", ")
    ));
    Some(Remedy {
        kind: RemedyKind::SplitPerCpu,
        subject: name.clone(),
        advice: "count per CPU and sum the copies where the total is read (a reference count: percpu_ref); the gain is an upper bound, because no sum is replayed"
            .to_owned(),
        concerns: vec![name.clone()],
        stake: stake(&all),
        reasons,
        trials: vec![trial(None, vec![Edit::Percpu(name)])],
    })
}
