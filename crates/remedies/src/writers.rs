//! Structs whose members different CPUs write: lines of their own for each writer's members. Of the
//! kernel, structs of one line; of programs, any.
//!
//! [`super::own_line`] gives one member of a larger struct a line, which is no answer to two
//! writers. The struct grows in every object, so more has to be at stake. The kernel's larger
//! structs are left to the search: many have a writer on every line, and room on others.

use std::collections::{BTreeMap, BTreeSet};

use linemate_answers::{Remedy, RemedyKind, Trial};
use linemate_attribution::schema::TypeIndex;
use linemate_attribution::tally::{Count, CpuSet, Key, RARE_PART};
use linemate_experiment::ranges::UsersByPc;
use linemate_layout::edit::Target;
use linemate_layout::{Edit, EditSubject, derived_class};
use linemate_recording::AccessKind;
use linemate_types::{Language, Type, TypeId, TypeModel};

use super::apart::neighbours::What;
use super::apart::{aligned, heap_in_c, language, stake};
use super::context::{Context, trial_of};
use super::fields::{FieldId, home, member_at};
use super::holders::{called, held, is_library};
use super::locks::is_in_lock;
use super::owners::RoleUse;

/// The share of the type's cost that has to be false sharing: a tenth, as `advise` demands of each
/// line that a layout adds.
pub(super) const STAKE_SHARE: u64 = 10;

/// The part of a struct's accesses below which the writes to a member only set it up: one in a
/// thousand, too few to be worth a line.
pub(super) const SET_UP_PART: u64 = 1000;

/// The most sets: more writers than these want an element of an array each, not a member.
pub(super) const SETS_MAX: usize = 8;

pub(super) fn find(context: &Context<'_>) -> Vec<Remedy> {
    let mut uses: BTreeMap<TypeIndex, BTreeMap<String, MemberUse>> = BTreeMap::new();
    for (key, count) in context.tally.rows() {
        let Some(id) = context.fields.at(key.field()) else {
            continue;
        };
        let field = context.fields.get(id);
        let of_program = context.analysis.subjects()[key.subject.index()].program;
        // Per-CPU types are left to the search. A thread's own data is not its alone where others
        // find it in a list of all threads.
        let (Some(ty), Some(leaf), false) = (field.outer, &field.leaf, field.percpu) else {
            continue;
        };
        let path = member_path(&leaf.path);
        let member = uses.entry(ty).or_default().entry(path.to_owned());
        let member = member.or_default();
        member.add(&key, count, of_program);
        member.is_bit_field |= leaf.bits.is_some();
    }
    for (id, roles) in &context.costs.roles {
        let field = context.fields.get(*id);
        let leaf = field.leaf.as_ref().map(|leaf| member_path(&leaf.path));
        let leaves = field.outer.and_then(|ty| uses.get_mut(&ty));
        if let Some(member) = leaves.zip(leaf).and_then(|(all, path)| all.get_mut(path)) {
            member.roles.add(roles);
        }
    }
    let found = uses.iter();
    found
        .filter_map(|(ty, members)| one(context, *ty, members))
        .collect()
}

/// The member that a leaf is in: up to an array's elements.
fn member_path(leaf: &str) -> &str {
    leaf.split('[').next().unwrap_or_default()
}

/// Those who write something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Writers {
    /// It is hardly ever written.
    Nobody,
    /// These CPUs.
    Cpus(Vec<u16>),
    /// The owner of each object ([`super::owners`]).
    Owner,
    /// CPUs other than the object's owner.
    Others,
    /// The owner and others.
    Both,
}

/// Who writes a member or a variable, and whether others use it. Members that are alike in both can
/// share a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sharers {
    /// Those who do not only set it up.
    pub(super) writers: Writers,
    /// Whether others than the writers use it often. What the writers alone use would take the line
    /// from them at each write.
    pub(super) is_read: bool,
}

impl Sharers {
    /// Of what is hardly ever written.
    pub(super) const NONE: Sharers = Sharers {
        writers: Writers::Nobody,
        is_read: false,
    };

    pub(super) fn have_writers(&self) -> bool {
        self.writers != Writers::Nobody
    }
}

/// Who uses a member, or a variable.
#[derive(Clone, Default)]
pub(super) struct MemberUse {
    pub(super) accesses: u64,
    /// The CPUs that use it.
    cpus: CpuSet,
    users: UsersByPc,
    writes: UsersByPc,
    /// Of objects that have an owner.
    roles: RoleUse,
    is_bit_field: bool,
}

impl MemberUse {
    /// Counts accesses that are alike. `of_program`: to a program's memory.
    pub(super) fn add(&mut self, key: &Key, count: &Count, of_program: bool) {
        self.accesses += count.count;
        self.cpus.merge(&count.cpus);
        // The kernel writes variables of programs when it loads them, on any CPU. What a system
        // call reads or writes for its caller is left out with it.
        if of_program && key.pc.0 >> 63 == 1 {
            return;
        }
        self.users.add(key.pc, count.count, &count.cpus);
        if key.kind != AccessKind::Load {
            self.writes.add(key.pc, count.count, &count.cpus);
        }
    }

    fn merge(&mut self, other: &MemberUse) {
        self.accesses += other.accesses;
        self.cpus.merge(&other.cpus);
        self.users.merge(&other.users);
        self.writes.merge(&other.writes);
        self.roles.add(&other.roles);
        self.is_bit_field |= other.is_bit_field;
    }

    /// Who shares it, by CPU.
    pub(super) fn by_cpu(&self) -> Sharers {
        if self.writes.count().saturating_mul(RARE_PART) < self.accesses {
            return Sharers::NONE;
        }
        let writers: Vec<u16> = self.writes.often().iter().collect();
        let is_read = self.users.often().iter().any(|cpu| !writers.contains(&cpu));
        Sharers {
            writers: Writers::Cpus(writers),
            is_read,
        }
    }

    /// Who shares it, by the owners of objects.
    fn by_role(&self) -> Sharers {
        let used = &self.roles;
        let often = |times: u64| times > 0 && times.saturating_mul(RARE_PART) >= used.total();
        let (writers, reads) = match (often(used.owner_writes), often(used.other_writes)) {
            (false, false) => return Sharers::NONE,
            (true, true) => (Writers::Both, 0),
            (true, false) => (Writers::Owner, used.other_loads),
            (false, true) => (Writers::Others, used.owner_loads),
        };
        Sharers {
            writers,
            is_read: often(reads),
        }
    }
}

/// Who uses the leaves of a type, by their paths.
type Leaves = BTreeMap<String, MemberUse>;

/// Members by who shares them, those that nobody writes among them.
type Sets<'l> = BTreeMap<Sharers, Vec<&'l str>>;

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

/// Members by who shares them, as `sharers` says.
fn sets<'l>(
    members: &BTreeMap<&'l str, MemberUse>,
    sharers: impl Fn(&MemberUse) -> Sharers,
) -> Sets<'l> {
    let mut sets = Sets::new();
    let all: u64 = members.values().map(|used| used.accesses).sum();
    for (name, used) in members {
        // A class's pointer to its virtual functions is written by each constructor, and may have
        // no other access.
        let is_set_up = used.writes.count().saturating_mul(SET_UP_PART) < all;
        let sharers = if is_set_up {
            Sharers::NONE
        } else {
            sharers(used)
        };
        sets.entry(sharers).or_default().push(*name);
    }
    sets
}

/// Members by who shares them: by CPU, or by the owners of objects where all that are written have
/// the same CPUs.
fn by_sharers<'l>(members: &BTreeMap<&'l str, MemberUse>) -> Sets<'l> {
    let by_cpu = sets(members, MemberUse::by_cpu);
    let written = |sets: &Sets<'_>| sets.keys().filter(|sharers| sharers.have_writers()).count();
    let by_role = sets(members, MemberUse::by_role);
    match written(&by_cpu) <= 1 && written(&by_role) > written(&by_cpu) {
        true => by_role,
        false => by_cpu,
    }
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
        if by_sharers(&members(leaves, &inner)).len() < 2 {
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
fn is_guarded(members: &BTreeMap<&str, MemberUse>, locks: &MemberUse) -> bool {
    let sets = sets(members, MemberUse::by_cpu);
    let written = sets.keys().filter(|sharers| sharers.have_writers());
    let written: BTreeSet<&Writers> = written.map(|sharers| &sharers.writers).collect();
    let unwritten = sets.get(&Sharers::NONE).into_iter().flatten();
    let mut reads = unwritten.filter_map(|name| members.get(name));
    let taken = locks.writes.count();
    let takers: Vec<u16> = locks.cpus.iter().collect();
    let is_inside = |used: &MemberUse| {
        used.accesses <= taken && used.cpus.iter().all(|cpu| takers.contains(&cpu))
    };
    taken > 0 && written.len() == 1 && reads.all(is_inside)
}

/// How members get lines of their own.
struct OwnLine {
    subject: String,
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
    let members = members(leaves, &prefix);
    let sets = by_sharers(&members);
    let enough = cost.false_cycles.saturating_mul(STAKE_SHARE) >= cost.cycles;
    if cost.false_sharing_misses == 0 || !enough || !(2..=SETS_MAX).contains(&sets.len()) {
        return None;
    }
    let locks = locks(model, about.id, leaves, &prefix);
    if is_guarded(&members, &locks) {
        return None;
    }
    let written: Vec<&Vec<&str>> = sets
        .iter()
        .filter(|(sharers, _)| sharers.have_writers())
        .map(|(_, names)| names)
        .collect();
    // One member of a larger struct: the other rule's.
    if is_larger && written.iter().map(|names| names.len()).sum::<usize>() == 1 {
        return None;
    }
    let owner = context.fields.get(*ids.first()?).owner.clone();
    let has_bit_fields = written.iter().copied().flatten().any(|name| {
        let used = members.get(name);
        used.is_some_and(|used| used.is_bit_field)
    });
    let how = &how(language, line, has_bit_fields);
    let own_line = match held(model, about.id).filter(|_| prefix.is_empty()) {
        // The counts around an object cannot be moved, but the object can.
        Some(held) => OwnLine {
            advice: format!(
                "start {} on a line of its own, {}",
                held.name,
                aligned(language, line)
            ),
            trial: trial_of([held.own_lines()].map(|(subject, edits)| (Some(subject), edits))),
            subject: called(model, about.id, &owner),
        },
        None => OwnLine {
            advice: advice(how, &written) + heap_in_c(context, ty, line).as_str(),
            trial: isolated(model, about.id, &prefix, &written)?,
            subject: subject(&declaring(model, about.id, &prefix, &owner), &written),
        },
    };
    let mut reasons = reasons(context, &ids, &sets, &members);
    reasons
        .notes
        .extend(derived_note(model, about.id, &prefix, &written));
    Some(Remedy {
        kind: RemedyKind::OwnLine,
        subject: own_line.subject,
        advice: own_line.advice,
        concerns: vec![owner],
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
            let is_flexible = is_flexible(model, outer, &format!("{prefix}{name}"));
            if place.member != *name || is_flexible || is_of_library(model, &place.subject) {
                return None;
            }
            declared
                .entry(place.subject)
                .or_default()
                .push(place.member);
        }
        for (subject, names) in declared {
            let edits = types.entry(subject).or_default();
            // Where rustc puts what is aligned: it orders fields by alignment.
            let first = match (language(model, outer), &names[..]) {
                (Some(Language::Rust), [one]) => Some(Edit::Move {
                    field: one.clone(),
                    target: Target::First,
                }),
                _ => None,
            };
            edits.push(Edit::Isolate(names));
            edits.extend(first);
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

fn is_of_library(model: &TypeModel, subject: &EditSubject) -> bool {
    match subject {
        EditSubject::Named(name) => model.lookup(name).is_some_and(|id| is_library(model, id)),
        EditSubject::With(_) => false,
    }
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

/// How a program in a language, or the kernel, gives sets of members lines of their own.
fn how(language: Option<Language>, line: u64, has_bit_fields: bool) -> String {
    let alignment = match language {
        None => "____cacheline_aligned_in_smp".to_owned(),
        // Neither standard allows an alignment of a bit-field; compilers have it as an extension.
        Some(Language::C | Language::Cpp) if has_bit_fields => {
            format!("__attribute__((aligned({line})))")
        }
        Some(Language::C) => format!("_Alignas({line})"),
        Some(Language::Cpp) => "alignas(std::hardware_destructive_interference_size)".to_owned(),
        Some(Language::Rust) => {
            return "each set as one field in crossbeam's CachePadded".to_owned();
        }
    };
    format!("{alignment} on the first of each and on what follows them")
}

fn advice(how: &str, written: &[&Vec<&str>]) -> String {
    let sets: Vec<String> = written.iter().map(|names| names.join(" ")).collect();
    format!(
        "give each writer's members lines of their own, {how}: {}",
        sets.join("; ")
    )
}

/// The struct at a path, by its name: an `Arc` around it is not what the program declares. The type
/// around it if it has none.
fn declaring(model: &TypeModel, outer: TypeId, prefix: &str, owner: &str) -> String {
    let path = prefix.trim_end_matches('.');
    if path.is_empty() {
        return owner.to_owned();
    }
    let at = member_at(model, outer, path).map(|id| model.composite_name(model.strip(id)));
    match at {
        None | Some("") => format!("{owner}.{path}"),
        Some(name) => name.to_owned(),
    }
}

/// What the remedy is called: the struct, and which of its members get lines of their own.
fn subject(of: &str, written: &[&Vec<&str>]) -> String {
    match written {
        [names] if names.len() == 1 => format!("{of}.{}", names.join(" ")),
        sets => {
            let sets: Vec<String> = sets.iter().map(|names| names.join(" ")).collect();
            format!("{of}: {}", sets.join("; "))
        }
    }
}

/// The fields' use, and which CPUs write which members.
fn reasons(
    context: &Context<'_>,
    ids: &[FieldId],
    sets: &Sets<'_>,
    members: &BTreeMap<&str, MemberUse>,
) -> linemate_answers::Reasons {
    let mut reasons = context.reasons(ids, |_| true);
    for (sharers, names) in sets {
        if sharers.have_writers() {
            reasons.notes.push(by(sharers, &names.join(", ")));
            continue;
        }
        let is_written = |name: &&str| {
            members
                .get(name)
                .is_some_and(|used| used.writes.count() > 0)
        };
        let (rarely, never): (Vec<&str>, Vec<&str>) = names.iter().partition(|n| is_written(n));
        for (how, names) in [("no CPU writes", never), ("rarely written:", rarely)] {
            if !names.is_empty() {
                reasons.notes.push(format!("{how} {}", names.join(", ")));
            }
        }
    }
    reasons
}

/// Who writes what has those names, and whether others use it.
pub(super) fn by(sharers: &Sharers, names: &str) -> String {
    let write = match &sharers.writers {
        Writers::Nobody => "hardly any CPU writes".to_owned(),
        Writers::Cpus(cpus) => match &cpus[..] {
            [one] => format!("CPU {one} writes"),
            several => format!("{} CPUs write", several.len()),
        },
        Writers::Owner => "one CPU of each object, its owner, writes".to_owned(),
        Writers::Others => "CPUs other than an object's owner write".to_owned(),
        Writers::Both => "an object's owner and others write".to_owned(),
    };
    let read = match (sharers.is_read, &sharers.writers) {
        (false, _) => "",
        (true, Writers::Others) => ", which the owner reads",
        (true, _) => ", which others read",
    };
    format!("{write} {names}{read}")
}

#[cfg(test)]
mod tests;
