//! Words that really are exchanged between CPUs: what no layout fixes.

use super::context::{Context, is_named, percent};
use super::costs::{Act, Cost};
use super::fields::{Field, FieldId};
use super::locks;
use linemate_answers::{Remedy, RemedyKind, Stake};

pub(super) fn find(context: &Context<'_>) -> Vec<Remedy> {
    let ids = context.fields.iter().filter(|(_, field)| is_named(field));
    let remedy = |(id, field): (FieldId, &Field)| {
        let cost = context.costs.sum(id, |_| true);
        // After a write each CPU fetches the line once at most: what is written less often than
        // that is a victim of another word on its line.
        let writes = context.costs.sum(id, Act::writes).accesses;
        let fetches = u64::from(context.cpus.copies) * context.cpus.replayed() as u64;
        let most = writes.saturating_mul(fetches);
        if cost.true_sharing_misses == 0 || cost.true_sharing_misses > most {
            return None;
        }
        let mut reasons = context.reasons(&[id], |_| true);
        let per_million =
            1e6 * field.used.writes() as f64 / context.costs.whole.accesses.max(1) as f64;
        reasons.notes.push(format!(
            "written {per_million:.0} times per million accesses; {:.0} % of its cost is true sharing",
            percent(cost.true_cycles, cost.cycles),
        ));
        Some(Remedy {
            kind: RemedyKind::WriteLess,
            subject: field.name.clone(),
            advice: advice(context, field, &cost),
            concerns: vec![field.owner.clone()],
            stake: Stake {
                misses: cost.true_sharing_misses,
                cycles: cost.true_cycles,
            },
            reasons,
            trials: Vec::new(),
        })
    };
    ids.filter_map(remedy).collect()
}

/// What is touched that often between two misses is not contended: a function touches a field a
/// handful of times, a whole path of the kernel a few dozen times.
const MOVES: u64 = 64;

/// A reader that reads at least as often as everybody writes sees a change each time: only fewer
/// writes help. What is written more often than read can be batched first.
fn advice(context: &Context<'_>, field: &Field, cost: &Cost) -> String {
    let accesses = field.used.loads + field.used.writes();
    let moves = cost.true_sharing_misses.saturating_mul(MOVES);
    let how = if locks::is_lock(context.analysis, field) {
        "take the lock less often, or share it among fewer CPUs"
    } else if !field.is_owned() && accesses >= moves {
        "it moves with its user from CPU to CPU; migrate less often"
    } else if field.used.loads < field.used.writes() {
        "count per CPU, or batch changes before writing"
    } else {
        "write less often, or only on a change that readers need"
    };
    // The rest of what it costs may be false sharing, which another remedy is about.
    let what = match cost.true_cycles < cost.cycles {
        true => "no layout helps against its true sharing",
        false => "no layout helps",
    };
    format!("{what}: {how}")
}
