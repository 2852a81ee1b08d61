//! Stores that leave memory unchanged, if they take a line from other CPUs: test before the store.

use std::collections::BTreeMap;

use linemate_answers::{Remedy, RemedyKind, Trial};
use linemate_attribution::tally::Key;
use linemate_layout::{Edit, EditSubject};
use linemate_recording::AccessKind;
use linemate_types::Language;

use super::apart::language;
use super::context::{Context, is_named, percent, stake, trial};
use super::costs::Act;
use super::fields::{Field, FieldId, Home};

/// What a store changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StoreTarget<'f> {
    /// A member.
    Member(&'f Home),
    /// A program's variable or block without a struct.
    Memory(&'f str),
}

impl<'f> StoreTarget<'f> {
    fn of(field: &'f Field) -> Option<StoreTarget<'f>> {
        let home = field.home.as_ref().map(StoreTarget::Member);
        let memory = || StoreTarget::Memory(&field.name);
        home.or_else(|| (field.outer.is_none() && !field.is_owned()).then(memory))
    }

    /// Where an access goes. The kernel's variables have no edit.
    fn at(context: &'f Context<'_>, key: &Key) -> Option<(FieldId, StoreTarget<'f>)> {
        let id = context.fields.at(key.field())?;
        let target = StoreTarget::of(context.fields.get(id))?;
        let by_program = key.pc.0 >> 63 == 0;
        let has_edit = by_program || matches!(target, StoreTarget::Member(_));
        has_edit.then_some((id, target))
    }

    /// Whether it is within an atomic of a library.
    fn is_atomic(self) -> bool {
        match self {
            StoreTarget::Member(home) => match &home.subject {
                EditSubject::Named(name) => is_atomic(name),
                EditSubject::With(_) => false,
            },
            StoreTarget::Memory(_) => false,
        }
    }

    /// What the code calls it: `x` if it is within an atomic of a library, or in a block.
    fn name(self) -> &'f str {
        match self {
            StoreTarget::Member(_) if self.is_atomic() => "x",
            StoreTarget::Member(home) => &home.member,
            // `NAME (FILE)` or `FUNCTION: NAME (FILE)`; `TYPE[] allocated at PLACE`.
            StoreTarget::Memory(name) => match name.split_once(" (") {
                Some((name, _)) if !name.contains(" allocated at ") => {
                    name.rsplit(": ").next().unwrap_or(name)
                }
                _ => "x",
            },
        }
    }

    fn trial(self) -> Trial {
        match self {
            StoreTarget::Member(home) => {
                let edit = Edit::SkipSilent(home.member.clone());
                trial(Some(&home.subject), vec![edit])
            }
            StoreTarget::Memory(name) => trial(None, vec![Edit::SkipSilentIn(name.to_owned())]),
        }
    }
}

/// An instruction belongs to a field if at least this share of its accesses go to the field's
/// declaration. Code that serves many fields (clearing, copying, list helpers) cannot be changed
/// for one of them.
const OWN: (u64, u64) = (9, 10);

/// Whether a type of that name is an atomic of the standard library of C++ or Rust.
fn is_atomic(name: &str) -> bool {
    let prefixes = ["std::atomic", "std::__atomic", "core::sync::atomic::"];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// How a language compares before it stores.
fn advice(language: Option<Language>, target: StoreTarget<'_>) -> String {
    let name = target.name();
    match language {
        Some(Language::Rust) if target.is_atomic() => {
            format!("test before the store: if {name}.load(Relaxed) != v {{ {name}.store(v, …) }}")
        }
        Some(Language::Rust) => {
            format!("test before the store: if {name} != v {{ {name} = v }}")
        }
        _ => format!("test before the store: if ({name} != v) {name} = v;"),
    }
}

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
    let target = StoreTarget::of(field).filter(|_| is_named(field))?;
    let silent = context.costs.sum(id, |act| act == Act::SilentStore);
    if silent.sharing_misses() == 0 {
        return None;
    }
    let mut reasons = context.reasons(&[id], |act| act == Act::SilentStore);
    reasons.notes.push(format!(
        "{:.1} % of its stores are silent; {} silent ones had to fetch the line, or permission to write it, from another core",
        percent(reasons.silent_stores, reasons.stores),
        silent.sharing_misses(),
    ));
    Some(Remedy {
        kind: RemedyKind::SkipSilentStores,
        subject: field.name.clone(),
        advice: advice(language_of(context, field), target),
        concerns: vec![field.owner.clone()],
        stake: stake(&silent),
        reasons,
        trials: vec![target.trial()],
    })
}

/// The language of the type around a field.
fn language_of(context: &Context<'_>, field: &Field) -> Option<Language> {
    let about = context.analysis.schema().get(field.outer?)?;
    language(context.analysis.model(), about.id)
}

fn own_silent_stores(context: &Context<'_>) -> Silent {
    let rows = context.tally.rows();
    let mut by_instruction: BTreeMap<u64, (u64, BTreeMap<StoreTarget<'_>, u64>)> = BTreeMap::new();
    for (key, count) in rows.iter().filter(|(key, _)| key.kind == AccessKind::Store) {
        let entry = by_instruction.entry(key.pc.0).or_default();
        entry.0 += count.count;
        if let Some((_, target)) = StoreTarget::at(context, key) {
            *entry.1.entry(target).or_default() += count.count;
        }
    }
    let mut silent = Silent::new();
    for (key, count) in rows {
        if key.kind != AccessKind::Store || count.silent == 0 {
            continue;
        }
        let Some((id, target)) = StoreTarget::at(context, &key) else {
            continue;
        };
        let (all, places) = &by_instruction[&key.pc.0];
        let to_it = places.get(&target).copied().unwrap_or(0);
        let entry = silent.entry(id).or_default();
        entry.1 += count.silent;
        // By all stores of the instruction, silent or not: a `memset` of many types belongs to
        // none.
        if to_it * OWN.1 >= all * OWN.0 {
            entry.0 += count.silent;
        }
    }
    silent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_says_what_the_code_says() {
        let member = |subject: &str| Home {
            subject: EditSubject::Named(subject.to_owned()),
            member: "stop".to_owned(),
        };
        let (own, atomic) = (member("state"), member("core::sync::atomic::AtomicBool"));
        let names = [
            StoreTarget::Member(&own),
            StoreTarget::Member(&atomic),
            StoreTarget::Memory("has_pinned (flags-c)"),
            StoreTarget::Memory("main: stop (flags-c)"),
            StoreTarget::Memory("int[] allocated at a.c:7 main"),
            StoreTarget::Memory("int[] allocated at a.c:7 main (inlined)"),
        ];
        let names = names.map(StoreTarget::name);
        assert_eq!(names, ["stop", "x", "has_pinned", "stop", "x", "x"]);
        let said = [
            advice(None, StoreTarget::Member(&own)),
            advice(Some(Language::Rust), StoreTarget::Member(&own)),
            advice(Some(Language::Rust), StoreTarget::Member(&atomic)),
        ];
        let expected = [
            "test before the store: if (stop != v) stop = v;",
            "test before the store: if stop != v { stop = v }",
            "test before the store: if x.load(Relaxed) != v { x.store(v, …) }",
        ];
        assert_eq!(said, expected);
        let edits = StoreTarget::Memory("has_pinned (flags-c)").trial().edits;
        assert_eq!(edits, "skip silent stores in \"has_pinned (flags-c)\"\n");
    }
}
