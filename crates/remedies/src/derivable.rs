//! Counters that are written whenever a bit of a bitmap is: their value is the bitmap's weight, and
//! they are 0 if the bitmap is empty.

use std::collections::{BTreeMap, BTreeSet};

use linemate_answers::{Remedy, RemedyKind};
use linemate_attribution::bitmap::BitmapId;
use linemate_layout::Edit;
use linemate_types::Type;

use super::context::{Context, is_named, percent, stake, trial};
use super::fields::{Field, FieldId};

/// The minimum share of a counter's writes that accompany the bitmap's: below that, it counts
/// something else as well.
const TOGETHER: (u64, u64) = (9, 10);

/// Instructions that write a counter: at least one that adds and one that subtracts.
const WRITERS_MIN: usize = 2;

#[derive(Default)]
struct Together {
    writes: u64,
    instructions: BTreeSet<u64>,
}

pub(super) fn find(context: &Context<'_>) -> Vec<Remedy> {
    let mut pairs: BTreeMap<(FieldId, BitmapId), Together> = BTreeMap::new();
    for ((write, bitmap), count) in &context.in_turn.counters {
        if let Some(field) = context.fields.at(write.field) {
            let pair = pairs.entry((field, *bitmap)).or_default();
            pair.writes += count;
            pair.instructions.insert(write.pc.0);
        }
    }
    let one = |((id, bitmap), together): (&(FieldId, BitmapId), &Together)| {
        one(context, *id, *bitmap, together)
    };
    pairs.iter().filter_map(one).collect()
}

fn one(
    context: &Context<'_>,
    id: FieldId,
    bitmap: BitmapId,
    together: &Together,
) -> Option<Remedy> {
    let field = context.fields.get(id);
    // Without a declaration that an edit can name, nothing could be tried.
    let home = field.home.as_ref().filter(|_| is_named(field))?;
    let writes = field.used.writes();
    let enough = together.writes * TOGETHER.1 >= writes * TOGETHER.0;
    if !enough || together.instructions.len() < WRITERS_MIN || !is_integer(context, field) {
        return None;
    }
    let cost = context.costs.sum(id, |_| true);
    if cost.sharing_misses() == 0 {
        return None;
    }
    let bitmap = context.in_turn.bitmaps.get(&bitmap)?;
    let mut reasons = context.reasons(&[id], |_| true);
    reasons.notes.push(format!(
        "{:.1} % of its {writes} writes come with an atomic on the bitmap {bitmap}, by {} instructions",
        percent(together.writes, writes),
        together.instructions.len(),
    ));
    Some(Remedy {
        kind: RemedyKind::Derive,
        subject: format!("{} from {bitmap}", field.name),
        advice: format!(
            "drop {0} and test the bitmap instead (is it empty, how many bits are set), if {0} counts its bits and an approximate answer will do",
            home.member
        ),
        concerns: vec![field.owner.clone()],
        stake: stake(&cost),
        reasons,
        trials: vec![trial(
            Some(&home.subject),
            vec![Edit::Remove(home.member.clone())],
        )],
    })
}

/// Whether a field is an integer of 4 or 8 bytes; a struct of one such member (`atomic_t`) is.
pub(super) fn is_integer(context: &Context<'_>, field: &Field) -> bool {
    let model = context.analysis.model();
    let Some(leaf) = field.leaf.as_ref().filter(|l| matches!(l.size, 4 | 8)) else {
        return false;
    };
    let mut id = model.strip(leaf.type_id);
    // atomic_long_t holds an atomic64_t holds an s64: by-value chains end.
    while let Some(Type::Composite(composite)) = model.get(id) {
        let [only] = &composite.members[..] else {
            return false;
        };
        id = model.strip(only.type_id);
    }
    matches!(model.get(id), Some(Type::Int { .. }))
}
