//! A type that declares groups, with its members as they are used.

use std::collections::{BTreeMap, BTreeSet};

use linemate_answers::{Costs, DeclaredType, GroupUse, MisplacedMember, Misplacement};
use linemate_layout::nesting::embeds;
use linemate_types::{ByteOffset, DeclaredGroup, TypeId, TypeModel, declared_groups};

use super::DeclaringType;
use super::direction::{Directions, Purpose};
use crate::report::{Sum, UsedMember, largest, member_of};

/// A function that writes this share of a type's accessed members sets up whole objects: it clears,
/// copies or initialises them. What it does says nothing about where a member belongs.
const SET_UP: f64 = 0.25;

/// A direct member as it is used, but for set-up.
pub(super) struct Member {
    offset: ByteOffset,
    end: ByteOffset,
    sum: Sum,
    cycles: u64,
    false_sharing: u64,
    pub(super) functions: BTreeMap<String, u64>,
    /// The number of its group.
    group: Option<usize>,
}

impl Member {
    pub(super) fn accesses(&self) -> u64 {
        self.sum.accesses()
    }

    /// How often it changes: without writes that are known to leave memory as it was.
    fn writes(&self) -> u64 {
        let figures = self.sum.figures();
        (figures.stores + figures.rmws).saturating_sub(figures.silent)
    }
}

/// A type with its members.
pub(super) struct GroupedType<'t> {
    of: &'t DeclaringType,
    groups: Vec<DeclaredGroup>,
    set_up: BTreeSet<&'t str>,
    pub(super) members: BTreeMap<&'t str, Member>,
}

/// The functions that set up whole objects.
fn set_up<'t>(members: &[(&'t str, &'t UsedMember)]) -> BTreeSet<&'t str> {
    let mut written: BTreeMap<&str, usize> = BTreeMap::new();
    for (function, sum) in members.iter().flat_map(|(_, used)| &used.by) {
        let writes = sum.figures().stores + sum.figures().rmws;
        *written.entry(function).or_default() += usize::from(writes > 0);
    }
    let least = SET_UP * members.len() as f64;
    // Of one or two members any function would write a quarter.
    let is_one = |count: usize| count > 1 && count as f64 >= least;
    let functions = written.into_iter().filter(|(_, count)| is_one(*count));
    functions.map(|(function, _)| function).collect()
}

/// Members whose types declare groups of their own, such as the `sock` in a `tcp_sock`.
fn bases<'m>(model: &'m TypeModel, id: TypeId, with_groups: &[TypeId]) -> Vec<&'m str> {
    let others: Vec<TypeId> = with_groups.iter().copied().filter(|of| *of != id).collect();
    let members = model.composite(id).map_or(&[][..], |of| &of.members);
    let bases = members
        .iter()
        .filter(|member| embeds(model, member.type_id, &others));
    bases.map(|member| member.name.as_str()).collect()
}

impl<'t> GroupedType<'t> {
    pub(super) fn new(
        model: &TypeModel,
        of: &'t DeclaringType,
        with_groups: &[TypeId],
    ) -> GroupedType<'t> {
        let uses = &of.uses;
        let groups = declared_groups(model, uses.id);
        let bases = bases(model, uses.id, with_groups);
        let own = uses
            .members
            .iter()
            .map(|(name, used)| (name.as_str(), used));
        let own: Vec<(&str, &UsedMember)> = own.filter(|(name, _)| !bases.contains(name)).collect();
        let set_up = set_up(&own);
        let mut members: BTreeMap<&str, Member> = BTreeMap::new();
        for (name, used) in own {
            let mut member = Member {
                offset: used.offset,
                end: used.end,
                sum: Sum::default(),
                cycles: 0,
                false_sharing: 0,
                functions: BTreeMap::new(),
                group: groups.iter().position(|group| group.has(used.offset)),
            };
            for (function, sum) in used
                .by
                .iter()
                .filter(|(of, _)| !set_up.contains(of.as_str()))
            {
                member.sum.merge(sum);
                member.functions.insert(function.clone(), sum.accesses());
            }
            members.insert(name, member);
        }
        add_costs(&mut members, &uses.name, &of.costs);
        GroupedType {
            of,
            groups,
            set_up,
            members,
        }
    }

    pub(super) fn purpose(&self, member: &Member) -> Option<Purpose> {
        let group = self.groups.get(member.group?)?;
        Some(Purpose::of(&group.name))
    }

    pub(super) fn row(&self) -> DeclaredType {
        let groups = self.groups.iter().enumerate();
        DeclaredType {
            type_name: self.of.uses.name.clone(),
            size: self.of.uses.size.0,
            cycles: self.of.costs.fields.iter().map(|row| row.cycles).sum(),
            set_up: self.set_up.iter().map(|&name| name.to_owned()).collect(),
            groups: groups
                .map(|(number, group)| self.group(number, group))
                .collect(),
        }
    }

    fn group(&self, number: usize, group: &DeclaredGroup) -> GroupUse {
        let members = self.members.values();
        let of = || members.clone().filter(|of| of.group == Some(number));
        let mut sum = Sum::default();
        let mut functions: BTreeMap<String, u64> = BTreeMap::new();
        for member in of() {
            sum.merge(&member.sum);
            for (name, accesses) in &member.functions {
                *functions.entry(name.clone()).or_default() += accesses;
            }
        }
        let figures = sum.figures();
        GroupUse {
            name: group.name.clone(),
            offset: group.start.0,
            bytes: group.end.0.saturating_sub(group.start.0),
            members: of().filter(|member| member.accesses() > 0).count(),
            loads: figures.loads,
            writes: figures.stores + figures.rmws,
            cycles: of().map(|member| member.cycles).sum(),
            functions: largest(&functions),
        }
    }

    pub(super) fn findings(&self, directions: &Directions<'_>) -> Vec<MisplacedMember> {
        let used = self
            .members
            .iter()
            .filter(|(_, member)| member.accesses() > 0);
        let kinds = used.flat_map(|(name, member)| {
            let kinds = self.kinds(member, directions);
            kinds.into_iter().map(move |kind| (name, member, kind))
        });
        kinds
            .map(|(name, member, kind)| self.finding(name, member, kind))
            .collect()
    }

    /// What is wrong with a member's place.
    fn kinds(&self, member: &Member, directions: &Directions<'_>) -> Vec<Misplacement> {
        let Some(purpose) = self.purpose(member) else {
            return vec![Misplacement::Outside];
        };
        let written = purpose.read && member.writes() > 0;
        let other = purpose
            .direction
            .is_some_and(|declared| directions.are_other(member, declared));
        let kinds = [
            (written, Misplacement::Written),
            (other, Misplacement::OtherDirection),
        ];
        kinds
            .into_iter()
            .filter(|(is, _)| *is)
            .map(|(_, kind)| kind)
            .collect()
    }

    fn finding(&self, name: &str, member: &Member, kind: Misplacement) -> MisplacedMember {
        let group = member.group.and_then(|group| self.groups.get(group));
        let figures = member.sum.figures();
        MisplacedMember {
            type_name: self.of.uses.name.clone(),
            member: name.to_owned(),
            offset: member.offset.0,
            group: group.map(|group| group.name.clone()),
            kind,
            loads: figures.loads,
            writes: figures.stores + figures.rmws,
            silent: figures.silent,
            readers: figures.readers,
            writers: figures.writers,
            cycles: member.cycles,
            neighbours: match kind {
                Misplacement::Written => self.neighbours(name, member),
                Misplacement::OtherDirection | Misplacement::Outside => 0,
            },
            functions: largest(&member.functions),
        }
    }

    /// False sharing of the other members of a member's lines, if the type starts a line: the
    /// member's part of it, by its part of these lines' writes.
    fn neighbours(&self, name: &str, member: &Member) -> u64 {
        let line = self.of.costs.line_bytes.max(1);
        let lines = |of: &Member| of.offset.0 / line..=of.end.0.saturating_sub(1) / line;
        let own = lines(member);
        let meets = |of: &Member| {
            let other = lines(of);
            own.start() <= other.end() && other.start() <= own.end()
        };
        let others = self.members.iter().filter(|(other, _)| **other != name);
        let others = others.map(|(_, of)| of).filter(|of| meets(of));
        let (mut cycles, mut writes) = (0, member.writes());
        for other in others {
            cycles += other.false_sharing;
            writes += other.writes();
        }
        (cycles as f64 * member.writes() as f64 / writes.max(1) as f64) as u64
    }
}

fn add_costs(members: &mut BTreeMap<&str, Member>, type_name: &str, costs: &Costs) {
    for row in &costs.fields {
        if let Some(member) = members.get_mut(member_of(type_name, &row.name)) {
            member.cycles += row.cycles;
            member.false_sharing += row.causes.false_sharing;
        }
    }
}
