//! Which object a pointer leads to, learnt from use: a CPU loads a pointer field of one object and
//! touches an object of the pointer's type directly after.
//!
//! A recording has no values, so a pointer that is only compared with NULL can look like one that
//! leads to the next object of its type. Which it is depends on the code, so meetings are counted
//! separately by the instruction that loads the pointer and the one that touches the object.

use std::collections::BTreeMap;

use linemate_attribution::couse::WINDOW;
use linemate_attribution::in_turn::InTurn;
use linemate_attribution::schema::TypeIndex;
use linemate_attribution::{Analysis, Bucket};
use linemate_experiment::scene::Step;
use linemate_recording::AccessKind;
use linemate_types::TypeModel;
use rustc_hash::FxHashMap;

use super::fields::{Field, FieldId, Fields};
use super::focus::Focus;

/// How many pairs of types are examined object by object: those used alternately most often. Each
/// costs memory for each pair of objects that meet.
const QUESTIONS_MAX: usize = 16;

/// The maximum number of meetings stored in total, some 60 bytes each; later ones are not counted.
const MEETINGS_MAX: usize = 1 << 21;

/// How many of a CPU's latest pointers wait to be followed.
const WAITING_MAX: usize = 8;

/// Two types, the smaller first, and the fields of one that point to the other.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) types: (TypeIndex, TypeIndex),
    pub(crate) pointers: Vec<FieldId>,
}

/// The pairs of types worth examining: used alternately, and one has a loaded pointer to the other.
pub(crate) fn questions(
    analysis: &Analysis<'_>,
    in_turn: &InTurn,
    fields: &Fields,
    focus: Option<&Focus>,
) -> Vec<Question> {
    let (model, schema) = (analysis.model(), analysis.schema());
    let mut pointers: BTreeMap<(TypeIndex, TypeIndex), Vec<FieldId>> = BTreeMap::new();
    for (id, field) in fields.iter() {
        let (Some(outer), Some(name)) = (field.outer, pointee(model, field)) else {
            continue;
        };
        let target = schema.named(name).first().copied();
        if let Some(target) = target.filter(|target| *target != outer && field.used.loads > 0) {
            let pair = (outer.min(target), outer.max(target));
            pointers.entry(pair).or_default().push(id);
        }
    }
    let asked = |ty: &TypeIndex| focus.is_none_or(|focus| focus.is_type(*ty));
    let mut found: Vec<(u64, Question)> = pointers
        .into_iter()
        .filter(|((a, b), _)| asked(a) || asked(b))
        .filter_map(|(types, pointers)| {
            let count = *in_turn.types.get(&types)?;
            Some((count, Question { types, pointers }))
        })
        .collect();
    found.sort_by_key(|(count, question)| (std::cmp::Reverse(*count), question.types));
    found.truncate(QUESTIONS_MAX);
    found.into_iter().map(|(_, question)| question).collect()
}

/// The name of the struct that a field points to.
fn pointee<'m>(model: &'m TypeModel, field: &Field) -> Option<&'m str> {
    let leaf = field.leaf.as_ref()?;
    let target = model.pointer_to_composite(leaf.type_id)?;
    Some(model.composite_name(target)).filter(|name| !name.is_empty())
}

/// How often a pointer of one object led to another one.
pub(crate) type Meetings = BTreeMap<(u64, u64), u64>;

/// Meetings by the code that makes them.
pub(crate) type ByCode = BTreeMap<CodePair, Meetings>;

/// The instruction that loads a pointer, and the one that touches the object.
type CodePair = (u64, u64);

/// A pointer of one object that led to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Meeting {
    /// The pointer that leads there.
    field: FieldId,
    code: CodePair,
    /// The object with the pointer.
    from: u64,
    /// The object that it leads to.
    to: u64,
}

/// A pointer that was loaded.
#[derive(Clone, Copy, Debug)]
struct LoadedPointer {
    field: FieldId,
    object: u64,
    time: u64,
    pc: u64,
}

/// Follows pointers through a recording.
pub(crate) struct Follower<'n> {
    analysis: &'n Analysis<'n>,
    /// By pointer field: the type it points to.
    targets: FxHashMap<FieldId, TypeIndex>,
    /// By type: whether something points to it.
    wanted: FxHashMap<TypeIndex, ()>,
    /// Pointers that each CPU has loaded and not followed yet.
    waiting: Vec<Vec<LoadedPointer>>,
    meetings: FxHashMap<Meeting, u64>,
}

impl<'n> Follower<'n> {
    pub(crate) fn new(
        analysis: &'n Analysis<'_>,
        fields: &Fields,
        questions: &[Question],
    ) -> Follower<'n> {
        let mut targets = FxHashMap::default();
        for question in questions {
            for id in &question.pointers {
                let (a, b) = question.types;
                let outer = fields.get(*id).outer;
                targets.insert(*id, if outer == Some(a) { b } else { a });
            }
        }
        Follower {
            analysis,
            wanted: targets.values().map(|ty| (*ty, ())).collect(),
            targets,
            waiting: Vec::new(),
            meetings: FxHashMap::default(),
        }
    }

    /// Handles the next access to a field.
    pub(crate) fn step(&mut self, step: &Step, field: FieldId) {
        let subject = &self.analysis.subjects()[step.subject.0 as usize];
        // A pointer to per-CPU memory leads to another object on each CPU.
        if subject.bucket != Bucket::Field || subject.percpu {
            return;
        }
        let Some(ty) = subject.ty else { return };
        let access = &step.access;
        let points = access.kind == AccessKind::Load && self.targets.contains_key(&field);
        if !points && !self.wanted.contains_key(&ty) {
            return;
        }
        let cpu = usize::from(access.cpu.0);
        if cpu >= self.waiting.len() {
            self.waiting.resize_with(cpu + 1, Vec::new);
        }
        let base = access.addr.0.wrapping_sub(u64::from(step.offset));
        let waiting = &mut self.waiting[cpu];
        waiting.retain(|w| access.time.0.saturating_sub(w.time) <= WINDOW);
        let targets = &self.targets;
        // The latest pointer to this type leads here.
        let leads_here = |w: &LoadedPointer| targets.get(&w.field) == Some(&ty);
        // The latest one: an older pointer to the same type was compared, or already followed.
        if let Some(at) = waiting.iter().rposition(leads_here) {
            let from = waiting.remove(at);
            let code = (from.pc, access.pc.0);
            let meeting = Meeting {
                field: from.field,
                code,
                from: from.object,
                to: base,
            };
            // Known meetings continue to count, so only rare ones are dropped.
            let room = self.meetings.len() < MEETINGS_MAX;
            match self.meetings.get_mut(&meeting) {
                Some(count) => *count += 1,
                None if room => {
                    self.meetings.insert(meeting, 1);
                }
                None => {}
            }
        }
        if points {
            if waiting.len() == WAITING_MAX {
                waiting.remove(0);
            }
            waiting.push(LoadedPointer {
                field,
                object: base,
                time: access.time.0,
                pc: access.pc.0,
            });
        }
    }

    /// The meetings, by pointer field.
    pub(crate) fn finish(self) -> BTreeMap<FieldId, ByCode> {
        let mut found: BTreeMap<FieldId, ByCode> = BTreeMap::new();
        for (meeting, count) in self.meetings {
            let pairs = found.entry(meeting.field).or_default();
            let pairs = pairs.entry(meeting.code).or_default();
            pairs.insert((meeting.from, meeting.to), count);
        }
        found
    }
}
