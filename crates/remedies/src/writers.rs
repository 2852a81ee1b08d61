//! Structs whose members different CPUs write: lines of their own for each writer's members. Of the
//! kernel, structs of one line; of programs, any.
//!
//! [`super::own_line`] gives one member of a larger struct a line, which is no answer to two
//! writers. The struct grows in every object, so more has to be at stake. The kernel's larger
//! structs are left to the search: many have a writer on every line, and room on others.

use std::collections::BTreeMap;

use linemate_answers::{Remedy, RemedyKind, Trial};
use linemate_attribution::schema::TypeIndex;
use linemate_attribution::tally::{Count, CpuSet, Key, RARE_PART};
use linemate_experiment::ranges::Writers;
use linemate_layout::{Edit, EditSubject, derived_class};
use linemate_recording::AccessKind;
use linemate_types::{Language, Type, TypeId, TypeModel};

use super::apart::neighbours::What;
use super::apart::{aligned, heap_in_c, language, stake};
use super::context::{Context, trial_of};
use super::fields::{FieldId, home, member_at};
use super::holders::held;
use super::locks::is_in_lock;

/// The share of the type's cost that has to be false sharing: a tenth, as `advise` demands of each
/// line that a layout adds.
pub(super) const STAKE_SHARE: u64 = 10;

/// The part of a struct's accesses below which the writes to a member only set it up: one in a
/// thousand, too few to be worth a line.
const SET_UP_PART: u64 = 1000;

/// The most sets: more writers than these want an element of an array each, not a member.
pub(super) const SETS_MAX: usize = 8;

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
        let path = leaf.path.split('[').next().unwrap_or_default();
        let member = uses.entry(ty).or_default().entry(path.to_owned());
        let of_program = context.analysis.subjects()[key.subject.index()].program;
        member.or_default().add(&key, count, of_program);
    }
    let found = uses.iter();
    found
        .filter_map(|(ty, members)| one(context, *ty, members))
        .collect()
}

/// Who uses a member, or a variable.
#[derive(Clone, Default)]
pub(super) struct MemberUse {
    pub(super) accesses: u64,
    /// The CPUs that use it.
    cpus: CpuSet,
    writes: Writers,
}

impl MemberUse {
    /// Counts accesses that are alike. `of_program`: to a program's memory.
    pub(super) fn add(&mut self, key: &Key, count: &Count, of_program: bool) {
        self.accesses += count.count;
        self.cpus.merge(&count.cpus);
        // The kernel writes variables of programs when it loads them, on any CPU. What a system
        // call writes for its caller is left out with it.
        let by_kernel = of_program && key.pc.0 >> 63 == 1;
        if key.kind != AccessKind::Load && !by_kernel {
            self.writes.add(key.pc, count.count, &count.cpus);
        }
    }

    fn merge(&mut self, other: &MemberUse) {
        self.accesses += other.accesses;
        self.cpus.merge(&other.cpus);
        self.writes.merge(&other.writes);
    }

    /// Those who do not only set it up.
    pub(super) fn writers(&self) -> Vec<u16> {
        match self.writes.count().saturating_mul(RARE_PART) >= self.accesses {
            true => self.writes.often().iter().collect(),
            false => Vec::new(),
        }
    }
}

/// Who uses the leaves of a type, by their paths.
type Leaves = BTreeMap<String, MemberUse>;

/// Members by who writes them, those that nobody does among them.
type Sets<'l> = BTreeMap<Vec<u16>, Vec<&'l str>>;

/// The members at the paths that begin with `prefix`, with the use of all that is in each.
fn members<'l>(leaves: &'l Leaves, prefix: &str) -> BTreeMap<&'l str, MemberUse> {
    let mut members: BTreeMap<&str, MemberUse> = BTreeMap::new();
    for (path, used) in leaves {
        if let Some(rest) = path.strip_prefix(prefix) {
            let name = rest.split('.').next().unwrap_or_default();
            members.entry(name).or_default().merge(used);
        }
    }
    members
}

fn by_writers<'l>(leaves: &'l Leaves, prefix: &str) -> Sets<'l> {
    let mut sets = Sets::new();
    let members = members(leaves, prefix);
    let all: u64 = members.values().map(|used| used.accesses).sum();
    for (name, used) in members {
        // A class's pointer to its virtual functions is written by each constructor, and may have
        // no other access.
        let is_set_up = used.writes.count().saturating_mul(SET_UP_PART) < all;
        let writers = if is_set_up {
            Vec::new()
        } else {
            used.writers()
        };
        sets.entry(writers).or_default().push(name);
    }
    sets
}

/// The path to the struct whose members different CPUs write: from the outermost, each member that
/// has more than half of the accesses and members of its own with different writers. What counts
/// references around an object is not what its users share.
fn contended(leaves: &Leaves) -> String {
    let mut prefix = String::new();
    // Each turn makes the path longer, which has as many parts as types nest.
    loop {
        let here = members(leaves, &prefix);
        let all: u64 = here.values().map(|used| used.accesses).sum();
        let most = here.iter().find(|(_, used)| 2 * used.accesses > all);
        let Some(mut inner) = most.map(|(name, _)| format!("{prefix}{name}.")) else {
            return prefix;
        };
        // Through wrappers, which have one member.
        while let [(only, _)] = &Vec::from_iter(members(leaves, &inner))[..] {
            inner = format!("{inner}{only}.");
        }
        if by_writers(leaves, &inner).len() < 2 {
            return prefix;
        }
        prefix = inner;
    }
}

/// The use of the locks at the paths that begin with `prefix`. They are written at least once for
/// each time that one is taken.
fn locks(model: &TypeModel, outer: TypeId, leaves: &Leaves, prefix: &str) -> MemberUse {
    let mut all = MemberUse::default();
    let inside = leaves.iter().filter(|(path, _)| path.starts_with(prefix));
    let locks = inside.filter(|(path, _)| is_in_lock(model, outer, path));
    locks.for_each(|(_, used)| all.merge(used));
    all
}

/// Whether those who use the members have taken a lock among them: the same CPUs write all that is
/// written, and what nobody writes is read by CPUs that use the locks, and no more often than those
/// are written. The line comes to the holder with the lock. What takes it from him before he is
/// done are the attempts of others, and those of a replay are not real ones: its sections overlap.
fn is_guarded(members: &BTreeMap<&str, MemberUse>, sets: &Sets<'_>, locks: &MemberUse) -> bool {
    let written = sets.keys().filter(|writers| !writers.is_empty());
    let unwritten = sets.get(&Vec::new()).into_iter().flatten();
    let mut reads = unwritten.filter_map(|name| members.get(name));
    let taken = locks.writes.count();
    let takers: Vec<u16> = locks.cpus.iter().collect();
    let is_inside = |used: &MemberUse| {
        used.accesses <= taken && used.cpus.iter().all(|cpu| takers.contains(&cpu))
    };
    taken > 0 && written.count() == 1 && reads.all(is_inside)
}

/// How members get lines of their own.
struct OwnLine {
    advice: String,
    trial: Trial,
}

fn one(context: &Context<'_>, ty: TypeIndex, leaves: &Leaves) -> Option<Remedy> {
    let (model, about) = (context.analysis.model(), context.analysis.schema().get(ty)?);
    let line = context.options.machine.line.bytes();
    // What elements and blocks of one CPU each lose to their neighbours is another remedy's.
    let neighbours = context.neighbours;
    let meets =
        neighbours.elements.contains_key(&ty) || neighbours.blocks.contains_key(&What::Type(ty));
    let language = language(model, about.id);
    let is_larger = about.size > line;
    if (is_larger && language.is_none()) || (meets && !has_several_users(context, ty)) {
        return None;
    }
    let (ids, cost) = context.fields_of(ty);
    let prefix = contended(leaves);
    let sets = by_writers(leaves, &prefix);
    let enough = cost.false_cycles.saturating_mul(STAKE_SHARE) >= cost.cycles;
    if cost.false_sharing_misses == 0 || !enough || !(2..=SETS_MAX).contains(&sets.len()) {
        return None;
    }
    let locks = locks(model, about.id, leaves, &prefix);
    if is_guarded(&members(leaves, &prefix), &sets, &locks) {
        return None;
    }
    let written: Vec<&Vec<&str>> = sets
        .iter()
        .filter(|(writers, _)| !writers.is_empty())
        .map(|(_, names)| names)
        .collect();
    // One member of a larger struct: the other rule's.
    if is_larger && written.iter().map(|names| names.len()).sum::<usize>() == 1 {
        return None;
    }
    let own_line = match held(model, about.id).filter(|_| prefix.is_empty()) {
        // The counts around an object cannot be moved, but the object can.
        Some(held) => OwnLine {
            advice: format!(
                "start {} on a line of its own, {}",
                held.name,
                aligned(language, line)
            ),
            trial: trial_of([held.own_lines()].map(|(subject, edits)| (Some(subject), edits))),
        },
        None => OwnLine {
            advice: advice(language, line, &written) + heap_in_c(context, ty, line).as_str(),
            trial: isolated(model, about.id, &prefix, &written)?,
        },
    };
    let mut reasons = reasons(context, &ids, &sets, &members(leaves, &prefix));
    reasons
        .notes
        .extend(derived_note(model, about.id, &prefix, &written));
    Some(Remedy {
        kind: RemedyKind::OwnLine,
        subject: context.fields.get(*ids.first()?).owner.clone(),
        advice: own_line.advice,
        concerns: vec![context.fields.get(*ids.first()?).owner.clone()],
        stake: stake(&cost),
        reasons,
        trials: vec![own_line.trial],
    })
}

/// Lines of its own for each of some sets of members of a struct in `outer`, which base classes may
/// declare.
fn isolated(model: &TypeModel, outer: TypeId, prefix: &str, sets: &[&Vec<&str>]) -> Option<Trial> {
    let mut types: BTreeMap<EditSubject, Vec<Edit>> = BTreeMap::new();
    for names in sets {
        let mut declared: BTreeMap<EditSubject, Vec<String>> = BTreeMap::new();
        for name in *names {
            let place = home(model, outer, &format!("{prefix}{name}"), 0)?;
            // A struct that has no name cannot be edited, but what holds it could. A flexible array
            // stays last: its elements can be apart, which is another remedy.
            if place.member != *name || is_flexible(model, outer, &format!("{prefix}{name}")) {
                return None;
            }
            declared
                .entry(place.subject)
                .or_default()
                .push(place.member);
        }
        for (subject, names) in declared {
            let edits = types.entry(subject).or_default();
            edits.push(Edit::Isolate(names));
        }
    }
    Some(trial_of(
        types
            .into_iter()
            .map(|(subject, edits)| (Some(subject), edits)),
    ))
}

/// What to add where a class that gets lines of its own is a base: the members of a derived class
/// may follow on the last of them (Itanium C++ ABI, 2.4), which the edit does not let them.
fn derived_note(
    model: &TypeModel,
    outer: TypeId,
    prefix: &str,
    written: &[&Vec<&str>],
) -> Option<String> {
    let names = written.iter().flat_map(|names| names.iter());
    let mut homes = names.filter_map(|name| home(model, outer, &format!("{prefix}{name}"), 0));
    let base = homes.find_map(|home| match home.subject {
        EditSubject::Named(name) => derived_class(model, &name).map(|_| name),
        EditSubject::With(_) => None,
    })?;
    Some(format!(
        "members of classes derived from {base} follow on its last line: end {base} with a member that fills it"
    ))
}

fn is_flexible(model: &TypeModel, outer: TypeId, path: &str) -> bool {
    let member = member_at(model, outer, path).and_then(|id| model.get(model.strip(id)));
    matches!(member, Some(Type::Array { count: 0, .. }))
}

/// Whether more than a few accesses to a type's objects are by other CPUs than the one that makes
/// most accesses to the object.
fn has_several_users(context: &Context<'_>, ty: TypeIndex) -> bool {
    let subjects = context.analysis.subjects().iter();
    let of_type = subjects.zip(context.scene.objects);
    let of_type = of_type.filter(|(subject, _)| subject.ty == Some(ty));
    let (mut all, mut others) = (0, 0);
    for users in of_type.flat_map(|(_, objects)| objects.values()) {
        all += users.total();
        others += users.total() - users.most();
    }
    others.saturating_mul(RARE_PART) >= all
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
        "give each writer's members lines of their own, {how} on the first of each and on what follows them: {}",
        firsts.join("; ")
    )
}

/// The fields' use, and which CPUs write which members.
fn reasons(
    context: &Context<'_>,
    ids: &[FieldId],
    sets: &Sets<'_>,
    members: &BTreeMap<&str, MemberUse>,
) -> linemate_answers::Reasons {
    let mut reasons = context.reasons(ids, |_| true);
    for (writers, names) in sets {
        if !writers.is_empty() {
            let who = by(writers);
            reasons.notes.push(format!("{who} {}", names.join(", ")));
            continue;
        }
        let is_written = |name: &&str| {
            members
                .get(name)
                .is_some_and(|used| used.writes.count() > 0)
        };
        let (rarely, never): (Vec<&str>, Vec<&str>) = names.iter().partition(|n| is_written(n));
        for (how, names) in [("nobody writes", never), ("rarely written:", rarely)] {
            if !names.is_empty() {
                reasons.notes.push(format!("{how} {}", names.join(", ")));
            }
        }
    }
    reasons
}

/// Who writes, as the start of a sentence.
pub(super) fn by(writers: &[u16]) -> String {
    match writers {
        [] => "hardly anybody writes".to_owned(),
        [one] => format!("CPU {one} writes"),
        several => format!("{} CPUs write", several.len()),
    }
}

#[cfg(test)]
mod tests {
    use linemate_recording::GuestAddr;

    use super::*;

    fn used(accesses: u64, writes: &[(u64, u16)]) -> MemberUse {
        let set = |cpu: u16| {
            let mut set = CpuSet::default();
            set.insert(cpu);
            set
        };
        let mut cpus = CpuSet::default();
        writes.iter().for_each(|(_, cpu)| cpus.insert(*cpu));
        let mut all = Writers::default();
        for (pc, (count, cpu)) in (0..).map(GuestAddr).zip(writes) {
            all.add(pc, *count, &set(*cpu));
        }
        MemberUse {
            accesses,
            cpus,
            writes: all,
        }
    }

    #[test]
    fn what_sets_an_object_up_does_not_count_as_a_writer() {
        let leaves: Leaves = [
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
        let sets = by_writers(&leaves, "");
        let expected: Vec<(Vec<u16>, Vec<&str>)> = vec![
            (vec![], vec!["mask", "size"]),
            (vec![0], vec!["spare"]),
            (vec![1], vec!["head"]),
            (vec![2], vec!["tail"]),
            (vec![3], vec!["state"]),
        ];
        assert_eq!(sets.into_iter().collect::<Vec<_>>(), expected);
        assert_eq!(contended(&leaves), "");
    }

    #[test]
    fn wrappers_are_passed_and_what_only_sets_up_is_no_writer() {
        let leaves: Leaves = [
            ("_vptr", used(1, &[(1, 3)])),
            ("_M_use_count", used(4, &[(2, 0)])),
            (
                "_M_impl._M_storage._M_storage.reads",
                used(4000, &[(2000, 1)]),
            ),
            (
                "_M_impl._M_storage._M_storage.writes",
                used(4000, &[(2000, 2)]),
            ),
        ]
        .map(|(path, used)| (path.to_owned(), used))
        .into();
        assert_eq!(contended(&leaves), "_M_impl._M_storage._M_storage.");
        // Of 8005 accesses, one or two writes: no writer's members.
        let sets = by_writers(&leaves, "");
        let expected = [
            (vec![], vec!["_M_use_count", "_vptr"]),
            (vec![1, 2], vec!["_M_impl"]),
        ];
        assert_eq!(sets, expected.into());
    }

    #[test]
    fn what_the_kernel_writes_of_a_program_has_no_writer() {
        let key = |pc| Key {
            subject: linemate_attribution::SubjectId(0),
            offset: 0,
            pc: GuestAddr(pc),
            kind: AccessKind::Store,
            size: 8,
        };
        let mut count = Count {
            count: 4,
            ..Count::default()
        };
        count.cpus.insert(2);
        let writers = |pc, of_program| {
            let mut used = MemberUse::default();
            used.add(&key(pc), &count, of_program);
            used.writers()
        };
        let kernel = 0xffff_ffff_8100_0000;
        assert!(writers(kernel, true).is_empty());
        assert_eq!(writers(kernel, false), [2]);
        assert_eq!(writers(0x40_1000, true), [2]);
    }

    #[test]
    fn what_is_under_a_lock_stays_with_it() {
        let lock = used(400, &[(100, 0), (100, 1)]);
        let leaves = |reads: u64, reader: u16, counts: u16| -> Leaves {
            [
                ("lock", lock.clone()),
                ("total", used(400, &[(100, 0), (100, 1)])),
                ("counts", used(400, &[(200, counts)])),
                ("poisoned", used(reads, &[(1, reader)])),
            ]
            .map(|(path, used)| (path.to_owned(), used))
            .into()
        };
        let guarded = |leaves: Leaves, locks: &MemberUse| {
            is_guarded(&members(&leaves, ""), &by_writers(&leaves, ""), locks)
        };
        let without_counts = |reads, reader| {
            let mut leaves = leaves(reads, reader, 2);
            leaves.remove("counts");
            leaves
        };
        let other_writer = leaves(200, 0, 2);
        assert!(
            !guarded(other_writer, &lock),
            "one CPU writes without the lock"
        );
        assert!(guarded(without_counts(200, 0), &lock));
        let none = MemberUse::default();
        assert!(!guarded(without_counts(200, 0), &none), "no lock");
        assert!(
            !guarded(without_counts(1000, 0), &lock),
            "read without the lock, too"
        );
        assert!(
            !guarded(without_counts(200, 5), &lock),
            "read by a CPU that never takes it"
        );
    }

    #[test]
    fn what_holds_an_object_with_several_writers_is_not_what_they_share() {
        let arc = |beside: u64| -> Leaves {
            [
                ("strong", used(4, &[(4, 0)])),
                ("data.beside", used(beside, &[(1, 0)])),
                ("data.queue.head.value", used(1000, &[(400, 1)])),
                ("data.queue.tail.value", used(1000, &[(400, 2)])),
                ("data.queue.slots", used(2000, &[(1, 0)])),
            ]
            .map(|(path, used)| (path.to_owned(), used))
            .into()
        };
        let leaves = arc(9);
        assert_eq!(contended(&leaves), "data.queue.");
        let sets = by_writers(&leaves, "data.queue.");
        let expected = [
            (vec![], vec!["slots"]),
            (vec![1], vec!["head"]),
            (vec![2], vec!["tail"]),
        ];
        assert_eq!(sets, expected.into());
        assert_eq!(
            contended(&arc(9000)),
            "data.",
            "most of it is beside the queue"
        );
    }
}
