//! The target of a definition, in terms of the recorded kernel's types: the order of members, their
//! alignments, groups.
//!
//! Made from a checked plan of edits; knows nothing about source text.

use linemate_layout::{Edit, EditFile, EditSubject, Plan, Position, Slot, origin::Forced};
use linemate_types::{Composite, LineSize, MemberRole, TypeId, TypeModel};

/// An alignment that the definition has to request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// To a line of the machine that the code is compiled for.
    Line,
    /// To that many bytes.
    Bytes(u64),
    /// To that many bytes, which the type has by itself: only written in place of another
    /// alignment.
    Own(u64),
}

/// A member as in the recorded kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its name, as recorded and as the source may have it; for an anonymous struct or union the
    /// names of its members, and theirs.
    pub names: Vec<String>,
    /// Its required alignment, if any.
    pub align: Option<Align>,
    /// Index in [`Wanted::groups`].
    pub group: Option<usize>,
    /// Members with the same number, adjacent bit-fields, move as one.
    pub unit: usize,
    /// Whether no declaration of the type's own makes it: a base class, a virtual table's pointer.
    pub is_inherited: bool,
}

impl Recorded {
    /// Its name in messages.
    pub fn first_name(&self) -> String {
        self.names.first().cloned().unwrap_or_default()
    }
}

/// A group of members that share lines with no others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name in the edit; `None` for `isolate`.
    pub name: Option<String>,
}

/// A struct's members, recorded and wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// In the order of the declaration.
    pub members: Vec<Recorded>,
    /// The wanted order: indices in `members`.
    pub order: Vec<usize>,
    pub groups: Vec<Group>,
    /// Bytes of a line of the machine that the recorded kernel was built for.
    pub line: LineSize,
}

/// Why an edit cannot be a patch of a definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WantedError {
    /// Edits that change more than an order.
    #[error(
        "{at}: `{statement}` changes code beyond the definition, which a patch of the definition cannot do: leave it out"
    )]
    Code { at: Position, statement: String },
    /// Edits that C cannot express.
    #[error("{at}: `{statement}` cannot be written as C that follows the machine: {instead}")]
    NoIdiom {
        at: Position,
        statement: String,
        instead: &'static str,
    },
    /// An edit of an anonymous struct's members.
    #[error(
        "an edit of {0} arranges members of an anonymous struct in it, which no patch is written for: leave it out, or change the source by hand"
    )]
    Inside(String),
    /// The type is not a struct.
    #[error("type {0} has no members to move")]
    NoMembers(TypeId),
}

/// Refuses statements that no change of a definition expresses.
///
/// # Errors
/// The first such statement.
pub fn check(file: &EditFile) -> Result<(), WantedError> {
    for (_, statement) in file.statements() {
        let (at, text) = (statement.at, statement.edit.to_string());
        let instead = match &statement.edit {
            Edit::Order(_)
            | Edit::Move { .. }
            | Edit::Align { .. }
            | Edit::Isolate(_)
            | Edit::Group { .. } => continue,
            Edit::Remove(_)
            | Edit::Reuse { .. }
            | Edit::SkipSilent(_)
            | Edit::SkipArray(_)
            | Edit::Colocate(..)
            | Edit::Percpu(_)
            | Edit::AllocatePercpu(_)
            | Edit::PadRanges { .. }
            | Edit::SkipSilentIn(_) => {
                return Err(WantedError::Code {
                    at,
                    statement: text,
                });
            }
            Edit::PadTo { .. } | Edit::PadAfter { .. } => {
                "align or isolate what comes next instead"
            }
            Edit::PadElements { .. } => "align the first member of the elements' type instead",
            Edit::LayoutFrom(_) => "say it with order and align",
            Edit::BaseAlign { .. } => "align the first member instead",
        };
        return Err(WantedError::NoIdiom {
            at,
            statement: text,
            instead,
        });
    }
    Ok(())
}

impl Wanted {
    /// The requirements of `plan` on struct `id`; `None` if it leaves its members alone.
    ///
    /// # Errors
    /// When `id` is not a struct, or the plan arranges members of an anonymous struct in it.
    pub fn new(
        plan: &mut Plan<'_>,
        id: TypeId,
        file: &EditFile,
    ) -> Result<Option<Wanted>, WantedError> {
        let model = plan.layouts.model();
        let composite = model.composite(id).ok_or(WantedError::NoMembers(id))?;
        let Some(slots) = plan.layouts.slots(id).map(<[Slot]>::to_vec) else {
            return Ok(None);
        };
        if plan.layouts.edited_inside(id) {
            return Err(WantedError::Inside(model.type_name(id)));
        }
        let origin = plan
            .layouts
            .origin(id)
            .map_err(|_| WantedError::NoMembers(id))?;
        let extents = plan
            .layouts
            .extents(id)
            .map_err(|_| WantedError::NoMembers(id))?;
        let line = plan.layouts.line();
        let mut members = recorded(model, composite);
        let originals = Slot::originals(&origin);
        let (mut order, mut groups, mut before) = (Vec::new(), Vec::new(), None);
        let mut numbers: Vec<usize> = Vec::new();
        for slot in &slots {
            let unit = &origin.units[slot.unit];
            let old = originals[slot.unit].forced;
            let natural = extents[slot.unit].align;
            // Also after a group: what follows must not share its last line.
            let align = match alignment(slot, old, slot.group != before, line) {
                // Such an edit says that the source has no alignment there.
                Some(Align::Bytes(bytes)) if unit.may_ask_for_line && bytes <= natural.bytes() => {
                    Some(Align::Own(bytes))
                }
                align => align,
            };
            before = slot.group;
            let group = slot.group.map(|number| {
                numbers
                    .iter()
                    .position(|n| *n == number)
                    .unwrap_or_else(|| {
                        numbers.push(number);
                        let first = unit.main(composite).and_then(|m| members.get(m));
                        groups.push(Group {
                            name: group_name(file, composite, first),
                        });
                        groups.len() - 1
                    })
            });
            for (i, member) in unit.members.iter().enumerate() {
                let recorded = &mut members[*member];
                recorded.unit = slot.unit;
                recorded.group = group;
                recorded.align = align.filter(|_| i == 0);
                order.push(*member);
            }
        }
        Ok(Some(Wanted {
            members,
            order,
            groups,
            line,
        }))
    }
}

/// The members of a struct, before any requirement.
fn recorded(model: &TypeModel, composite: &Composite) -> Vec<Recorded> {
    let members = composite.members.iter().map(|m| Recorded {
        names: match m.name.is_empty() {
            true => inner_names(model, m.type_id),
            false => source_names(&m.name),
        },
        align: None,
        group: None,
        unit: 0,
        is_inherited: m.role != MemberRole::Field || m.name.starts_with("_vptr"),
    });
    members.collect()
}

/// What the source calls a member: Linux has `#define rcu_head callback_head`
/// (include/linux/types.h), so the compiler sees a member `struct rcu_head rcu_head` by the other
/// name.
fn source_names(recorded: &str) -> Vec<String> {
    let mut names = vec![recorded.to_owned()];
    if recorded == "callback_head" {
        names.push("rcu_head".to_owned());
    }
    names
}

/// The alignment that a member requires and did not have before.
fn alignment(
    slot: &Slot,
    old: Option<Forced>,
    starts_lines: bool,
    line: LineSize,
) -> Option<Align> {
    let asked = slot.forced.filter(|forced| Some(*forced) != old);
    let enough = |forced: Forced| forced.on(line) >= line.into();
    match (asked, starts_lines) {
        (Some(Forced::Bytes(align)), true) if align < line.into() => Some(Align::Line),
        (Some(Forced::Bytes(align)), _) => Some(Align::Bytes(align.bytes())),
        (Some(Forced::Line), _) => Some(Align::Line),
        (None, true) if !slot.forced.is_some_and(enough) => Some(Align::Line),
        (None, _) => None,
    }
}

/// The name of the group that the member is in; `None` for `isolate`.
fn group_name(file: &EditFile, composite: &Composite, member: Option<&Recorded>) -> Option<String> {
    let member = member?;
    let about = |subject: Option<&EditSubject>| match subject {
        Some(EditSubject::Named(name)) => {
            composite.name.is_empty() || name.rsplit(' ').next() == Some(&*composite.name)
        }
        _ => true,
    };
    file.statements()
        .filter(|(subject, _)| about(*subject))
        .find_map(|(_, s)| match &s.edit {
            Edit::Group { name, fields, .. } if fields.iter().any(|f| member.names.contains(f)) => {
                Some(name.clone())
            }
            _ => None,
        })
}

/// The names of the members of an anonymous struct or union, and of the anonymous ones inside.
/// Recursion: as deep as types nest.
pub(crate) fn inner_names(model: &TypeModel, id: TypeId) -> Vec<String> {
    let mut names = Vec::new();
    for member in model.composite(id).map_or(&[][..], |c| &c.members) {
        if member.name.is_empty() {
            names.extend(inner_names(model, member.type_id));
        } else {
            names.push(member.name.to_string());
        }
    }
    names
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn a_member_that_a_macro_renames_has_both_names() {
        assert_eq!(source_names("callback_head"), ["callback_head", "rcu_head"]);
        assert_eq!(source_names("rcu"), ["rcu"]);
    }

    /// Members of these names, in that order now.
    pub(crate) fn wanted(names: &[&str], order: &[usize]) -> Wanted {
        let member = |(unit, name): (usize, &&str)| Recorded {
            names: vec![(*name).to_owned()],
            align: None,
            group: None,
            unit,
            is_inherited: false,
        };
        Wanted {
            members: names.iter().enumerate().map(member).collect(),
            order: order.to_vec(),
            groups: Vec::new(),
            line: LineSize::B64,
        }
    }
}
