//! Loads of a field shortly after the same CPU's atomic on it: the atomic's result was available.

use std::collections::BTreeMap;

use linemate_answers::{FunctionUse, Remedy, RemedyKind};
use linemate_layout::Edit;

use super::context::{Context, is_named, percent, stake, trial};
use super::costs::{Act, Cost};
use super::fields::FieldId;
use super::locks;

pub(super) fn find(context: &Context<'_>) -> Vec<Remedy> {
    let mut rows: BTreeMap<(FieldId, u32), Cost> = BTreeMap::new();
    for ((id, act, function), cost) in &context.costs.rows {
        if *act == Act::LoadBehindRmw {
            rows.entry((*id, *function)).or_default().add(cost);
        }
    }
    let one = |((id, function), cost): (&(FieldId, u32), &Cost)| one(context, *id, *function, cost);
    rows.iter().filter_map(one).collect()
}

fn one(context: &Context<'_>, id: FieldId, function: u32, after: &Cost) -> Option<Remedy> {
    let field = context.fields.get(id);
    let home = field.home.as_ref().filter(|_| is_named(field))?;
    // A load that hits costs nothing that a result would save.
    if after.sharing_misses() == 0 || locks::is_lock(context.analysis, field) {
        return None;
    }
    let exchanges = context.costs.exchanges.get(&(id, function));
    // Most of them feed a compare-and-exchange, which needs the latest value.
    if 2 * exchanges.copied().unwrap_or(0) > after.accesses {
        return None;
    }
    let name = context.function(function).to_owned();
    let loads = context
        .costs
        .of(id)
        .filter(|(act, f, _)| *f == function && matches!(act, Act::Load | Act::LoadBehindRmw))
        .map(|(_, _, cost)| cost.accesses)
        .sum();
    let mut reasons = context.reasons(&[id], |act| act == Act::Rmw);
    reasons.notes.push(format!(
        "{:.1} % of {name}'s {loads} loads come within {} instructions of the CPU's own atomic, with no store of its own between; {} of \
         those fetched the line again",
        percent(after.accesses, loads),
        super::costs::REUSE_WINDOW,
        after.sharing_misses(),
    ));
    reasons.functions.insert(
        0,
        FunctionUse {
            name: format!("{name} (those loads)"),
            accesses: after.accesses,
            misses: after.misses,
            cycles: after.cycles,
        },
    );
    let reuse = Edit::Reuse {
        field: home.member.clone(),
        function: name.clone(),
    };
    let mut trials = vec![trial(Some(&home.subject), vec![reuse.clone()])];
    // Also on a line of its own, if that is in the same struct; and that alone, to separate the
    // gains.
    if field.room.as_ref() == Some(home) {
        let isolate = Edit::Isolate(vec![home.member.clone()]);
        trials.push(trial(Some(&home.subject), vec![isolate.clone()]));
        trials.push(trial(Some(&home.subject), vec![isolate, reuse]));
    }
    Some(Remedy {
        kind: RemedyKind::ReuseResult,
        subject: format!("{} in {name}", field.name),
        advice: format!(
            "use what the atomic on {} returned instead of loading it again",
            home.member
        ),
        concerns: vec![field.owner.clone()],
        stake: stake(after),
        reasons,
        trials,
    })
}
