//! The inputs of the rules, and the building blocks of their advice.

use std::collections::BTreeMap;

use linemate_answers::{FunctionUse, Reasons, RemedyEffect, Stake, Trial};
use linemate_attribution::in_turn::InTurn;
use linemate_attribution::schema::TypeIndex;
use linemate_attribution::tally::CpuSet;
use linemate_attribution::{Analysis, Tally};
use linemate_experiment::Cpus;
use linemate_experiment::scene::Scene;
use linemate_layout::{Edit, EditFile, EditSubject, Section, Statement};

use super::apart::neighbours::Neighbours;
use super::collide::strides::Collisions;
use super::costs::{Act, Cost, MeasuredCosts};
use super::fields::{Field, FieldId, Fields};
use super::focus::Focus;
use super::model::RemedyOptions;
use super::partners::found::Answer;

/// Everything that the rules use.
pub(crate) struct Context<'a> {
    pub(crate) analysis: &'a Analysis<'a>,
    pub(crate) options: &'a RemedyOptions,
    pub(crate) tally: &'a Tally,
    pub(crate) in_turn: &'a InTurn,
    pub(crate) fields: &'a Fields,
    pub(crate) scene: &'a Scene<'a>,
    pub(crate) costs: &'a MeasuredCosts,
    pub(crate) answers: &'a [Answer],
    pub(crate) collisions: &'a Collisions,
    pub(crate) neighbours: &'a Neighbours,
    pub(crate) cpus: Cpus,
    pub(crate) focus: Option<&'a Focus>,
}

impl Context<'_> {
    /// The fields of a type outside per-CPU memory, and what they cost together.
    pub(crate) fn fields_of(&self, ty: TypeIndex) -> (Vec<FieldId>, Cost) {
        let fields = self.fields.iter();
        let ids: Vec<FieldId> = fields
            // Per-CPU objects are apart by design.
            .filter(|(_, field)| field.outer == Some(ty) && !field.percpu && is_named(field))
            .map(|(id, _)| id)
            .collect();
        let mut cost = Cost::default();
        for id in &ids {
            cost.add(&self.costs.sum(*id, |_| true));
        }
        (ids, cost)
    }

    /// The fewest cycles at stake worth mentioning: [`FLOOR_SHARE`] of the cost of everything, or
    /// of the requested type.
    pub(crate) fn floor(&self) -> u64 {
        let of = |focus: &Focus| -> u64 {
            let fields = focus.fields.iter();
            fields.map(|id| self.costs.sum(*id, |_| true).cycles).sum()
        };
        // Of the type if one is given: it may cost less in total than the floor of everything.
        let cycles = self.focus.map_or(self.costs.whole.cycles, of);
        cycles.div_ceil(FLOOR_SHARE).max(1)
    }

    /// The uses of some fields together, with the functions that pay most for `acts`.
    pub(crate) fn reasons(&self, ids: &[FieldId], wanted: impl Fn(Act) -> bool) -> Reasons {
        let mut reasons = Reasons::default();
        let (mut readers, mut writers) = (CpuSet::default(), CpuSet::default());
        let mut functions: BTreeMap<u32, Cost> = BTreeMap::new();
        for id in ids {
            let used = &self.fields.get(*id).used;
            reasons.loads += used.loads;
            reasons.stores += used.stores;
            reasons.silent_stores += used.silent_stores;
            reasons.rmws += used.rmws;
            readers.merge(&used.readers);
            writers.merge(&used.writers);
            for (act, function, cost) in self.costs.of(*id) {
                if wanted(act) {
                    functions.entry(function).or_default().add(cost);
                }
            }
        }
        reasons.readers = readers.len();
        reasons.writers = writers.len();
        reasons.functions = self.top_functions(&functions);
        reasons
    }

    fn top_functions(&self, costs: &BTreeMap<u32, Cost>) -> Vec<FunctionUse> {
        let mut functions: Vec<FunctionUse> = costs
            .iter()
            .map(|(site, cost)| FunctionUse {
                name: self.function(*site).to_owned(),
                accesses: cost.accesses,
                misses: cost.misses,
                cycles: cost.cycles,
            })
            .collect();
        let key = |f: &FunctionUse| std::cmp::Reverse((f.cycles, f.accesses));
        functions.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name)));
        functions.truncate(FUNCTIONS_NAMED);
        functions
    }

    pub(crate) fn function(&self, site: u32) -> &str {
        self.scene
            .sites
            .get(site as usize)
            .map_or("", |site| &site.function)
    }
}

/// A remedy with a smaller share at stake is not listed: half of a thousandth, which tables show as
/// 0.0 %.
const FLOOR_SHARE: u64 = 2000;

/// The maximum number of functions named in a remedy.
const FUNCTIONS_NAMED: usize = 4;

/// What is lost to all misses.
pub(crate) fn stake(cost: &Cost) -> Stake {
    Stake {
        misses: cost.misses,
        cycles: cost.cycles,
    }
}

/// A trial of edits of one type, or of edits that name theirs.
pub(crate) fn trial(subject: Option<&EditSubject>, edits: Vec<Edit>) -> Trial {
    trial_of([(subject.cloned(), edits)])
}

/// A trial of edits of several types.
pub(crate) fn trial_of(types: impl IntoIterator<Item = (Option<EditSubject>, Vec<Edit>)>) -> Trial {
    let statement = |edit| Statement {
        edit,
        at: linemate_layout::Position::default(),
    };
    let section = |(subject, edits): (_, Vec<Edit>)| Section {
        subject,
        statements: edits.into_iter().map(statement).collect(),
    };
    let file = EditFile {
        sections: types.into_iter().map(section).collect(),
    };
    Trial {
        edits: file.to_string(),
        effect: RemedyEffect::NotTried,
    }
}

/// `part` of `whole` in percent.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        100.0 * part as f64 / whole as f64
    }
}

/// Whether a field's outermost type has a tag or its variable a name: nobody can find it otherwise.
pub(crate) fn is_named(field: &Field) -> bool {
    !field.owner.is_empty()
}
