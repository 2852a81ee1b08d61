//! Applies the edits of one type: turns its units in their old order into slots in a new one.
//!
//! Decides what may move where, and why not; [`crate::layout`] turns slots into offsets.

use std::sync::Arc;

use linemate_types::{ByteAlign, ByteSize, Composite, CompositeKind, Type, TypeModel};

use crate::edit::{Alignment, Edit, Target};
use crate::inside::check_inherited;
use crate::nesting::{anonymous_names, size_of, unit_name};
use crate::origin::{Forced, Origin, UnitKind};
pub use crate::slot::Slot;

/// The largest alignment that an edit can request: a page.
pub const MAX_ALIGN: u64 = 4096;
/// The most padding that an edit can request at one place, in bytes.
pub const MAX_PAD: ByteSize = ByteSize(1 << 20);

/// Why an edit is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A path that is not a field of the type.
    #[error(
        "there is no field or group `{name}`{}",
        linemate_text::suggestion(nearest)
    )]
    Unknown {
        /// The path as given.
        name: String,
        /// The most similar names.
        nearest: Vec<String>,
    },
    /// A field of a member's type.
    #[error(
        "`{path}` is inside the member `{member}`: move `{member}` as a whole, or edit its type{}",
        header(type_name)
    )]
    Inside {
        /// The path as given.
        path: String,
        /// The member, by its path.
        member: String,
        /// The tag of the member's type; empty if it has none.
        type_name: String,
    },
    /// A field of a base class.
    #[error("`{field}` is inherited from `{base}`: edit that class, under `type {base}`")]
    Inherited {
        /// The field as given.
        field: String,
        /// The class that declares it.
        base: String,
    },
    /// Part of a run of bit-fields.
    #[error(
        "`{field}` shares its bytes with other bit-fields, which move together: name the first, `{first}`"
    )]
    SplitsBitFields {
        /// The field as given.
        field: String,
        /// The field to name instead.
        first: String,
    },
    /// The member that has to stay last.
    #[error("`{field}` is a flexible array (or ends in one): it stays last, with nothing after it")]
    Flexible {
        /// The field, as the edit names it.
        field: String,
    },
    /// Twice in one statement.
    #[error("`{field}` is named twice")]
    Twice {
        /// The field, as the edit names it.
        field: String,
    },
    /// In two groups, or moved out of one.
    #[error("`{field}` is in group `{group}` already: leave it out here or there")]
    InGroup {
        /// The field, as the edit names it.
        field: String,
        /// The group that already contains it.
        group: String,
    },
    /// A move into the middle of a group.
    #[error(
        "`{field}` would then be on the lines of group `{group}`: add it to the group, or move it relative to the group"
    )]
    IntoGroup {
        /// The field that was to move.
        field: String,
        /// The group that it would split.
        group: String,
    },
    /// A group's name that is already used.
    #[error("`{name}` names a field or group already: give the group another name")]
    GroupName {
        /// The name of an existing field or group.
        name: String,
    },
    /// Moved relative to itself.
    #[error("`{field}` cannot be before or after itself")]
    Itself {
        /// The field, as the edit names it.
        field: String,
    },
    /// An unusable alignment.
    #[error(
        "{bytes} is not an alignment: give a power of two from 1 to {MAX_ALIGN}; the nearest is {nearest}"
    )]
    BadAlignment {
        /// The alignment as given.
        bytes: ByteSize,
        /// The nearest possible alignment, in bytes.
        nearest: u64,
    },
    /// Padding to less than the field's size.
    #[error("`{field}` has {size} bytes: padding it to {bytes} would cut it")]
    PadCuts {
        /// The field, as the edit names it.
        field: String,
        /// Its size in bytes.
        size: ByteSize,
        /// The number as given.
        bytes: ByteSize,
    },
    /// More padding than [`MAX_PAD`] bytes.
    #[error("{bytes} bytes of padding are too many: {MAX_PAD} at most")]
    PadTooLong {
        /// The number as given.
        bytes: ByteSize,
    },
    /// Two members of one nameless member with a tag, relative to each other.
    #[error(
        "`{field}` and `{other}` are in one member without a name, which moves as a whole: edit its type"
    )]
    OneWhole {
        /// The field that was to move.
        field: String,
        /// The field that it was to move to.
        other: String,
    },
    /// One group of members of several structs.
    #[error(
        "`{field}` is in an anonymous struct and `{other}` is not in the same: make a group of members of one struct"
    )]
    Apart {
        /// The member of an anonymous struct.
        field: String,
        /// The member elsewhere.
        other: String,
    },
    /// A member of an anonymous struct that is in another type, too.
    #[error(
        "the anonymous struct of `{field}` is in `{other}`, too, as far as the types show: it stays as it is"
    )]
    Shared {
        /// The member, as the edit names it.
        field: String,
        /// The tag of the other type.
        other: String,
    },
    /// An operation on fields, applied to a group or an anonymous member.
    #[error("`{name}` {what}: {advice}")]
    NotAField {
        /// The name as given.
        name: String,
        /// What it is: the predicate of the message.
        what: &'static str,
        /// What to edit instead.
        advice: &'static str,
    },
    /// An earlier edit has removed it.
    #[error("`{field}` was removed further up")]
    Removed {
        /// The field, as the edit names it.
        field: String,
    },
}

fn header(type_name: &str) -> String {
    if type_name.is_empty() {
        String::new()
    } else {
        format!(" under `type {type_name}`")
    }
}

/// What a name refers to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entity {
    Unit(usize),
    Group(usize),
}

/// The members of a type on their way from the old order to the new.
pub(crate) struct Arrangement<'a> {
    model: &'a TypeModel,
    composite: &'a Composite,
    origin: Arc<Origin>,
    slots: Vec<Slot>,
    groups: Vec<String>,
}

impl<'a> Arrangement<'a> {
    pub(crate) fn new(model: &'a TypeModel, composite: &'a Composite, origin: Arc<Origin>) -> Self {
        let slots = Slot::originals(&origin);
        Arrangement {
            model,
            composite,
            origin,
            slots,
            groups: Vec::new(),
        }
    }

    pub(crate) fn slots(self) -> Vec<Slot> {
        self.slots
    }

    /// Applies one statement; edits that do not change the order of members do nothing here, but
    /// their fields are checked.
    pub(crate) fn apply(&mut self, edit: &Edit) -> Result<(), Refusal> {
        check_inherited(self.model, self.composite, edit)?;
        match edit {
            Edit::Order(fields) => self.order(fields),
            Edit::Move { field, target } => {
                let entity = self.entity(field, &[])?;
                self.move_to(entity, field, target)
            }
            Edit::Align { field, alignment } => {
                let forced = forced(*alignment)?;
                let unit = self.unit(field, &[])?;
                let slot = self.slot_mut(unit);
                slot.forced = Some(forced);
                // The edit states the member's alignment, so nothing is inferred any more.
                slot.keeps_line = false;
                Ok(())
            }
            Edit::Isolate(fields) => self.group(fields.join(" "), None, fields),
            Edit::Group {
                name,
                target,
                fields,
            } => self.group(name.clone(), target.as_ref(), fields),
            Edit::PadTo { field, bytes } => self.pad_to(field, *bytes),
            Edit::PadAfter { field, bytes } => {
                let unit = self.movable(field, &[])?;
                self.slot_mut(unit).after = padding(*bytes)?;
                Ok(())
            }
            Edit::PadElements { field, stride } => self.pad_elements(field, *stride),
            Edit::Remove(field) => self.remove(field),
            Edit::Reuse { field, .. } | Edit::SkipSilent(field) | Edit::SkipArray(field) => {
                self.unit(field, &[]).map(|_| ())
            }
            Edit::LayoutFrom(_)
            | Edit::Colocate(..)
            | Edit::Percpu(_)
            | Edit::AllocatePercpu(_)
            | Edit::BaseAlign { .. }
            | Edit::PadRanges { .. }
            | Edit::SkipSilentIn(_) => Ok(()),
        }
    }

    /// Repeats what an `align` of the first member of an anonymous struct states: recorded offsets
    /// show an alignment of the struct, which may be that member's.
    pub(crate) fn align_inside(&mut self, edit: &Edit) -> Result<(), Refusal> {
        let Edit::Align { field, alignment } = edit else {
            return Ok(());
        };
        let asked = forced(*alignment)?;
        let unit = self.unit(field, &[])?;
        let first = unit_name(self.model, self.composite, &self.origin.units[unit]);
        if first == Some(field.as_str()) {
            let slot = self.slot_mut(unit);
            slot.forced = slot.forced.map(|_| asked);
            slot.keeps_line = false;
        }
        Ok(())
    }

    fn order(&mut self, fields: &[String]) -> Result<(), Refusal> {
        let entities = self.entities(fields)?;
        for (i, pair) in entities.windows(2).enumerate() {
            let (before, field) = (fields[i].clone(), &fields[i + 1]);
            // Two bit-fields of one run are already next to each other.
            if pair[0] == pair[1] && !self.is_anonymous_struct(pair[0]) {
                continue;
            }
            self.move_to(pair[1], field, &Target::After(before))?;
        }
        Ok(())
    }

    fn pad_to(&mut self, field: &str, bytes: ByteSize) -> Result<(), Refusal> {
        let unit = self.movable(field, &[])?;
        let size = self.origin.units[unit].bytes;
        if bytes < size {
            return Err(Refusal::PadCuts {
                field: field.to_owned(),
                size,
                bytes,
            });
        }
        self.slot_mut(unit).least = padding(bytes)?;
        Ok(())
    }

    fn pad_elements(&mut self, field: &str, stride: Alignment) -> Result<(), Refusal> {
        let unit = self.unit(field, &[])?;
        let member = self.origin.units[unit].main(self.composite);
        let id = member.map(|i| self.composite.members[i].type_id);
        let ty = id.and_then(|id| self.model.get(self.model.strip(id)));
        let Some(Type::Array { element, .. }) = ty else {
            return Err(Refusal::NotAField {
                name: field.to_owned(),
                what: "is not an array",
                advice: "pad the member itself, `pad F to N`",
            });
        };
        if let Alignment::Bytes(bytes) = stride {
            let size = size_of(self.model, *element);
            // At least as long as before: smaller elements would be cut, not padded.
            if padding(bytes)? < size {
                return Err(Refusal::PadCuts {
                    field: format!("{field}[]"),
                    size,
                    bytes,
                });
            }
        }
        self.slot_mut(unit).stride = Some(stride);
        Ok(())
    }

    fn remove(&mut self, field: &str) -> Result<(), Refusal> {
        let unit = self.unit(field, &[])?;
        let members = &self.origin.units[unit].members;
        let refuse = |what, advice| {
            Err(Refusal::NotAField {
                name: field.to_owned(),
                what,
                advice,
            })
        };
        // The remaining bits would have to be found within one storage unit, whose layout is up to
        // the compiler.
        let bits = |i: &&usize| self.composite.members[**i].bits.is_some();
        if members.iter().filter(bits).count() > 1 {
            return refuse(
                "shares its bytes with other bit-fields",
                "they cannot be removed apart",
            );
        }
        if members
            .first()
            .is_some_and(|i| self.composite.members[*i].name.is_empty())
        {
            return refuse(
                "is in an anonymous struct or union",
                "its place stays, so removing it does not change the layout",
            );
        }
        // Nothing takes its place: members after it move up, as in a kernel compiled without it.
        self.slots.retain(|slot| slot.unit != unit);
        Ok(())
    }

    /// Puts `fields` after the first of them, as a group, and the group at its place.
    fn group(
        &mut self,
        name: String,
        target: Option<&Target>,
        fields: &[String],
    ) -> Result<(), Refusal> {
        let mut units: Vec<usize> = Vec::new();
        for (i, field) in fields.iter().enumerate() {
            if fields[..i].contains(field) {
                return Err(Refusal::Twice {
                    field: field.clone(),
                });
            }
            let unit = self.movable(field, fields)?;
            if let Some(group) = self.slot(unit).and_then(|s| s.group) {
                let group = self.groups[group].clone();
                return Err(Refusal::InGroup {
                    field: field.clone(),
                    group,
                });
            }
            if !units.contains(&unit) {
                units.push(unit);
            }
        }
        let first = units.first().and_then(|u| self.position(*u)).unwrap_or(0);
        // Where the first of them is once the others are gone.
        let at = self.slots[..first]
            .iter()
            .filter(|slot| !units.contains(&slot.unit))
            .count();
        let group = self.groups.len();
        let mut members = Vec::new();
        for unit in &units {
            if let Some(at) = self.position(*unit) {
                members.push(Slot {
                    group: Some(group),
                    keeps_line: false,
                    ..self.slots.remove(at)
                });
            }
        }
        self.slots.splice(at..at, members);
        self.groups.push(name.clone());
        match target {
            Some(target) => self.move_to(Entity::Group(group), &name, target),
            None => Ok(()),
        }
    }

    /// Moves a unit or group to `target`.
    fn move_to(&mut self, entity: Entity, name: &str, target: &Target) -> Result<(), Refusal> {
        let own_group = match entity {
            Entity::Unit(unit) => {
                if self.origin.units[unit].kind == UnitKind::Flexible {
                    return Err(Refusal::Flexible {
                        field: name.to_owned(),
                    });
                }
                self.slot(unit).and_then(|s| s.group)
            }
            Entity::Group(_) => None,
        };
        let anchor = match target {
            Target::After(other) | Target::Before(other) => Some((self.entity(other, &[])?, other)),
            Target::First | Target::Last => None,
        };
        if let Some((other, other_name)) = anchor {
            if other == entity && other_name != name && self.is_anonymous_struct(entity) {
                return Err(Refusal::OneWhole {
                    field: name.to_owned(),
                    other: other_name.clone(),
                });
            }
            if other == entity {
                return Err(Refusal::Itself {
                    field: name.to_owned(),
                });
            }
            let flexible = |u: usize| self.origin.units[u].kind == UnitKind::Flexible;
            if let (Entity::Unit(u), Target::After(_)) = (other, target) {
                if flexible(u) {
                    return Err(Refusal::Flexible {
                        field: other_name.clone(),
                    });
                }
            }
        }
        // Groups can only be checked with the moved ones taken out, so everything is put back if
        // they forbid the place.
        let saved = self.slots.clone();
        let belongs = |slot: &Slot| match entity {
            Entity::Unit(unit) => slot.unit == unit,
            Entity::Group(group) => slot.group == Some(group),
        };
        let (mut moved, kept): (Vec<Slot>, Vec<Slot>) = self.slots.drain(..).partition(belongs);
        for slot in &mut moved {
            slot.keeps_line = false;
        }
        self.slots = kept;
        let at = match (target, anchor) {
            (Target::After(_), Some((other, _))) => self.span(other).1,
            (Target::Before(_), Some((other, _))) => self.span(other).0,
            (Target::First, _) => 0,
            _ => self.end(),
        };
        let fits = self.check_between(at.checked_sub(1), Some(at), own_group, name);
        if let Err(refusal) = fits {
            self.slots = saved;
            return Err(refusal);
        }
        self.slots.splice(at..at, moved);
        Ok(())
    }

    /// Refuses to put something of group `own` between slots `before` and `after` unless groups
    /// allow it.
    fn check_between(
        &self,
        before: Option<usize>,
        after: Option<usize>,
        own: Option<usize>,
        field: &str,
    ) -> Result<(), Refusal> {
        let group = |i: Option<usize>| i.and_then(|i| self.slots.get(i)).and_then(|s| s.group);
        let (before, after) = (group(before), group(after));
        let name = |group: usize| self.groups[group].clone();
        if let Some(own) = own {
            // It may move within its group, and to the group's edges.
            if before != Some(own) && after != Some(own) {
                return Err(Refusal::InGroup {
                    field: field.to_owned(),
                    group: name(own),
                });
            }
        }
        match before {
            Some(group) if after == Some(group) && own != Some(group) => Err(Refusal::IntoGroup {
                field: field.to_owned(),
                group: name(group),
            }),
            _ => Ok(()),
        }
    }

    /// The slots of an entity: first, and one past the last.
    fn span(&self, entity: Entity) -> (usize, usize) {
        let belongs = |slot: &Slot| match entity {
            Entity::Unit(unit) => slot.unit == unit,
            Entity::Group(group) => slot.group == Some(group),
        };
        let first = self.slots.iter().position(belongs).unwrap_or(0);
        let last = self
            .slots
            .iter()
            .rposition(belongs)
            .map_or(first, |last| last + 1);
        (first, last)
    }

    /// After everything but a flexible array.
    fn end(&self) -> usize {
        let flexible = |slot: &&Slot| self.origin.units[slot.unit].kind == UnitKind::Flexible;
        // C allows one only as the last member.
        self.slots.len() - usize::from(self.slots.last().filter(flexible).is_some())
    }

    fn position(&self, unit: usize) -> Option<usize> {
        self.slots.iter().position(|slot| slot.unit == unit)
    }

    fn slot(&self, unit: usize) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.unit == unit)
    }

    /// The slot of a unit that [`Self::unit`] found.
    fn slot_mut(&mut self, unit: usize) -> &mut Slot {
        // It exists: `unit` refuses removed ones.
        let at = self.position(unit).unwrap_or(0);
        &mut self.slots[at]
    }

    fn entities(&self, names: &[String]) -> Result<Vec<Entity>, Refusal> {
        let mut found = Vec::new();
        for (i, name) in names.iter().enumerate() {
            if names[..i].contains(name) {
                return Err(Refusal::Twice {
                    field: name.clone(),
                });
            }
            found.push(self.entity(name, names)?);
        }
        Ok(found)
    }

    fn entity(&self, name: &str, companions: &[String]) -> Result<Entity, Refusal> {
        match self.groups.iter().position(|group| group == name) {
            Some(group) => Ok(Entity::Group(group)),
            None => self.unit(name, companions).map(Entity::Unit),
        }
    }

    /// The unit of a field that other members may follow.
    fn movable(&self, field: &str, companions: &[String]) -> Result<usize, Refusal> {
        let unit = self.unit(field, companions)?;
        match self.origin.units[unit].kind {
            UnitKind::Flexible => Err(Refusal::Flexible {
                field: field.to_owned(),
            }),
            _ => Ok(unit),
        }
    }

    /// Whether it is an anonymous struct. In an anonymous union all members are at the same offset,
    /// so naming two of them requests nothing new.
    fn is_anonymous_struct(&self, entity: Entity) -> bool {
        let Entity::Unit(unit) = entity else {
            return false;
        };
        let members = &self.origin.units[unit].members;
        members.first().is_some_and(|i| {
            let member = &self.composite.members[*i];
            let composite = self.model.composite(member.type_id);
            member.name.is_empty() && composite.is_some_and(|c| c.kind == CompositeKind::Struct)
        })
    }

    /// The unit that `field` names, if it still exists. `companions` are the names in the same
    /// statement: if the first bit-field of a run is among them, the others may be named too.
    fn unit(&self, field: &str, companions: &[String]) -> Result<usize, Refusal> {
        if self.groups.iter().any(|group| group == field) {
            let (what, advice) = ("is a group", "name one of its fields");
            return Err(Refusal::NotAField {
                name: field.to_owned(),
                what,
                advice,
            });
        }
        let unit = self.lookup(field).ok_or_else(|| self.unknown(field))?;
        let members = &self.origin.units[unit].members;
        let first = self.origin.units[unit].main(self.composite);
        let first = first.map_or("", |i| &*self.composite.members[i].name);
        // By the first one's name, so that a run has one name and no edit seems to move a single
        // bit-field.
        if members.len() > 1 && first != field && !companions.iter().any(|c| c == first) {
            let (field, first) = (field.to_owned(), first.to_owned());
            return Err(Refusal::SplitsBitFields { field, first });
        }
        if self.slot(unit).is_none() {
            return Err(Refusal::Removed {
                field: field.to_owned(),
            });
        }
        Ok(unit)
    }

    fn lookup(&self, field: &str) -> Option<usize> {
        self.origin.units.iter().position(|unit| {
            unit.members.iter().any(|i| {
                let member = &self.composite.members[*i];
                if member.name.is_empty() {
                    anonymous_names(self.model, member.type_id).contains(&field)
                } else {
                    &*member.name == field
                }
            })
        })
    }

    /// The error for a name that is not a field.
    fn unknown(&self, field: &str) -> Refusal {
        if let Some((head, _)) = field.split_once(['.', '[']) {
            let member = self.composite.members.iter().find(|m| &*m.name == head);
            if let Some(member) = member {
                // The type that has the field, for the message: the user has to edit that one.
                let mut id = self.model.strip(member.type_id);
                while let Some(Type::Array { element, .. }) = self.model.get(id) {
                    id = self.model.strip(*element);
                }
                let type_name = self.model.get(id).map_or("", Type::name).to_owned();
                let (path, member) = (field.to_owned(), head.to_owned());
                return Refusal::Inside {
                    path,
                    member,
                    type_name,
                };
            }
        }
        let mut names: Vec<&str> = self.groups.iter().map(String::as_str).collect();
        for member in &self.composite.members {
            if member.name.is_empty() {
                names.extend(anonymous_names(self.model, member.type_id));
            } else {
                names.push(&member.name);
            }
        }
        Refusal::Unknown {
            name: field.to_owned(),
            nearest: linemate_text::nearest(field, names),
        }
    }
}

/// The placement that an alignment requires, if it is a power of two.
pub(crate) fn forced(alignment: Alignment) -> Result<Forced, Refusal> {
    match alignment {
        Alignment::Line => Ok(Forced::Line),
        Alignment::Bytes(bytes) => match ByteAlign::new(bytes.0) {
            Some(align) if align.bytes() <= MAX_ALIGN => Ok(Forced::Bytes(align)),
            _ => {
                let nearest = bytes.0.min(MAX_ALIGN).next_power_of_two();
                Err(Refusal::BadAlignment { bytes, nearest })
            }
        },
    }
}

fn padding(bytes: ByteSize) -> Result<ByteSize, Refusal> {
    if bytes > MAX_PAD {
        Err(Refusal::PadTooLong { bytes })
    } else {
        Ok(bytes)
    }
}
