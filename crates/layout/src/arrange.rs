//! Applies the edits of one type: from its units in their old order to slots in a new one.
//!
//! Decides what may move where and says why not; how slots become offsets is [`crate::layout`]'s.

use linemate_types::{ByteAlign, ByteSize, Composite, CompositeKind, Type, TypeModel};

use crate::edit::{Alignment, Edit, Position, Statement, Target};
use crate::nesting::size_of;
use crate::origin::{Forced, Origin, Unit, UnitKind};
pub use crate::slot::Slot;

/// The largest alignment that can be asked for: a page.
pub const MAX_ALIGN: u64 = 4096;
/// The most padding that can be asked for at one place, in bytes.
pub const MAX_PAD: ByteSize = ByteSize(1 << 20);

/// Why an edit is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A path that names no field of the type.
    #[error(
        "there is no field or group `{name}`{}",
        linemate_text::suggestion(nearest)
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names most like it.
        nearest: Vec<String>,
    },
    /// A field of a member's type.
    #[error(
        "`{path}` is inside the member `{member}`: move `{member}` as a whole, or edit its type{}",
        header(type_name)
    )]
    Inside {
        /// What was asked for.
        path: String,
        /// The member, by its path.
        member: String,
        /// The tag of the member's type; empty when it has none.
        type_name: String,
    },
    /// Part of a run of bit-fields.
    #[error(
        "`{field}` shares its bytes with other bit-fields, which move together: name the first, `{first}`"
    )]
    SplitsBitFields {
        /// What was asked for.
        field: String,
        /// What to ask for.
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
    /// In two groups, or pulled out of one.
    #[error("`{field}` is in group `{group}` already: leave it out here or there")]
    InGroup {
        /// The field, as the edit names it.
        field: String,
        /// The group that it is in already.
        group: String,
    },
    /// Something is moved in between the fields of a group.
    #[error(
        "`{field}` would then be on the lines of group `{group}`: add it to the group, or move it relative to the group"
    )]
    IntoGroup {
        /// The field that was to move.
        field: String,
        /// The group that it would part.
        group: String,
    },
    /// A group's name that is taken.
    #[error("`{name}` names a field or group already: give the group another name")]
    GroupName {
        /// The name that a field or group has already.
        name: String,
    },
    /// Moved relative to itself.
    #[error("`{field}` cannot be before or after itself")]
    Itself {
        /// The field, as the edit names it.
        field: String,
    },
    /// Not a usable alignment.
    #[error(
        "{bytes} is not an alignment: give a power of two from 1 to {MAX_ALIGN}; the nearest is {nearest}"
    )]
    BadAlignment {
        /// What was asked for.
        bytes: ByteSize,
        /// The nearest alignment that is possible, in bytes.
        nearest: u64,
    },
    /// Padding to less than the field has.
    #[error("`{field}` has {size} bytes: padding it to {bytes} would cut it")]
    PadCuts {
        /// The field, as the edit names it.
        field: String,
        /// Its size in bytes.
        size: ByteSize,
        /// What was asked for.
        bytes: ByteSize,
    },
    /// More padding than [`MAX_PAD`] bytes.
    #[error("{bytes} bytes of padding are too many: {MAX_PAD} at most")]
    PadTooLong {
        /// What was asked for.
        bytes: ByteSize,
    },
    /// Two members of one anonymous struct, relative to each other.
    #[error(
        "`{field}` and `{other}` are in one anonymous struct, which moves as a whole: their order in it stays"
    )]
    OneWhole {
        /// The field that was to move.
        field: String,
        /// The field that it was to go to.
        other: String,
    },
    /// Something that can be done to a field, asked of a group or of an anonymous member.
    #[error("`{name}` {what}: {advice}")]
    NotAField {
        /// What was asked for.
        name: String,
        /// What it is: the predicate of the message.
        what: &'static str,
        /// What to edit in its place.
        advice: &'static str,
    },
    /// An edit further up has removed it.
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

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entity {
    Unit(usize),
    Group(usize),
}

/// The members of a type on their way from the old order to the new.
pub(crate) struct Arrangement<'a> {
    model: &'a TypeModel,
    composite: &'a Composite,
    origin: &'a Origin,
    slots: Vec<Slot>,
    groups: Vec<String>,
}

impl<'a> Arrangement<'a> {
    pub(crate) fn new(model: &'a TypeModel, composite: &'a Composite, origin: &'a Origin) -> Self {
        let slots = Slot::originals(origin);
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

    /// Applies one statement; edits that do not change the order of members do nothing here, but their fields are checked.
    pub(crate) fn apply(&mut self, statement: &Statement) -> Result<(), (Position, Refusal)> {
        self.apply_edit(&statement.edit)
            .map_err(|refusal| (statement.at, refusal))
    }

    fn apply_edit(&mut self, edit: &Edit) -> Result<(), Refusal> {
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
                // The edit says what the member asks for: the guess about it ends.
                slot.keeps_line = false;
                Ok(())
            }
            Edit::Isolate(fields) => self.group(fields.join(" "), None, fields),
            Edit::Group {
                name,
                target,
                fields,
            } => {
                if self.lookup(name).is_some() || self.groups.contains(name) {
                    return Err(Refusal::GroupName { name: name.clone() });
                }
                self.group(name.clone(), target.as_ref(), fields)
            }
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
            | Edit::BaseAlign { .. } => Ok(()),
        }
    }

    fn order(&mut self, fields: &[String]) -> Result<(), Refusal> {
        let entities = self.entities(fields)?;
        for (i, pair) in entities.windows(2).enumerate() {
            let (before, field) = (fields[i].clone(), &fields[i + 1]);
            // Two bit-fields of one run: they are next to each other as they are.
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
        let member = self.origin.units[unit].members.first();
        let id = member.map(|i| self.composite.members[*i].type_id);
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
            // At least as long as before: elements of fewer bytes would be cut, not padded.
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
        // The bytes of the others would have to be found within one storage unit, whose layout is
        // the compiler's.
        if members.len() > 1 {
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
        // Nothing takes its place: members after it move up, as in a kernel that is compiled
        // without it.
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
        // Where the first of them is when the others are gone.
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
        // Whether groups allow the place is known only with the moved ones taken out, so all is put
        // back if not.
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

    /// Refuses to put something of group `own` between slots `before` and `after` unless groups allow it.
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
            // It may be moved within its group, and at the group's edges.
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

    /// The slots of an entity: first, and one after the last.
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
        // It is there: `unit` refuses what was removed.
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

    /// The unit of a field that may be before others.
    fn movable(&self, field: &str, companions: &[String]) -> Result<usize, Refusal> {
        let unit = self.unit(field, companions)?;
        match self.origin.units[unit].kind {
            UnitKind::Flexible => Err(Refusal::Flexible {
                field: field.to_owned(),
            }),
            _ => Ok(unit),
        }
    }

    /// Whether it is an anonymous struct. In an anonymous union all members are at the same place, so naming two of them asks for nothing that is not so.
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

    /// The unit that `field` names, when it is still there. `companions` are the names of the same statement: with the
    /// first bit-field of a run among them its others may be named too.
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
        let first = members
            .first()
            .map_or("", |i| &*self.composite.members[*i].name);
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

    /// What to answer to a name that is not a field.
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

/// What an edit calls a unit by.
pub(crate) fn unit_name<'m>(
    model: &'m TypeModel,
    composite: &'m Composite,
    unit: &Unit,
) -> Option<&'m str> {
    let member = &composite.members[*unit.members.first()?];
    match member.name.is_empty() {
        true => anonymous_names(model, member.type_id).first().copied(),
        false => Some(&member.name),
    }
}

/// The names that the members of an anonymous struct or union are known by outside. Recursion: as deep as types nest.
fn anonymous_names(model: &TypeModel, id: linemate_types::TypeId) -> Vec<&str> {
    let mut names = Vec::new();
    for member in model.composite(id).map_or(&[][..], |c| &c.members) {
        if member.name.is_empty() {
            names.extend(anonymous_names(model, member.type_id));
        } else {
            names.push(&*member.name);
        }
    }
    names
}

/// What an alignment asks of a place, if it is a power of two.
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
