//! From a file of edits to its effect on a kernel's types: layouts, and rules about accesses and
//! objects.
//!
//! Every impossible edit is refused here, before anything is replayed.

use std::collections::BTreeMap;

use linemate_types::{ByteAlign, ByteSize, FlatType, NotFound, TypeId, TypeModel};

use crate::arrange::{Refusal, forced};
use crate::edit::{Alignment, Edit, EditFile, EditSubject, Position, Statement};
pub use crate::error::{PlanError, PlanReason};
use crate::foreign;
use crate::layout::Layouts;
use crate::nesting::size_of;
pub use crate::pointer::Field;
use crate::pointer::{PointerChase, pointer_chase};

/// What happens to accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessRule {
    /// The load of the field in that function that follows an atomic read-modify-write of it by the
    /// same CPU disappears.
    Reuse {
        /// The field whose accesses change.
        field: Field,
        /// The symbol of the function that loads it again.
        function: String,
    },
    /// A store that leaves the field unchanged becomes the load that finds this out.
    SkipSilent {
        /// The field whose accesses change.
        field: Field,
    },
    /// The array behind a pointer is not accessed.
    SkipArray(PointerChase),
}

/// What happens to whole objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectRule {
    /// An object of the first type and its partner of the second become one.
    Colocate(Vec<TypeId>, Vec<TypeId>),
    /// Each CPU gets its own.
    Percpu(Vec<TypeId>),
    /// Those that a CPU uses most are next to each other in per-CPU memory.
    AllocatePercpu(Vec<TypeId>),
    /// They start at multiples of that many bytes.
    BaseAlign(Vec<TypeId>, ByteAlign),
    /// What each CPU alone writes of what has that name starts at multiples of that many bytes.
    PadRanges(String, ByteAlign),
    /// Stores that leave what has that name unchanged become the loads that find this out.
    SkipSilentIn(String),
}

/// A checked file of edits.
#[derive(Debug)]
pub struct Plan<'m> {
    /// The layouts under the edits.
    pub layouts: Layouts<'m>,
    /// About accesses, in order.
    pub accesses: Vec<AccessRule>,
    /// About objects, in order.
    pub objects: Vec<ObjectRule>,
    /// The edited types, each with its variants, in order of first mention.
    pub types: Vec<(String, Vec<TypeId>)>,
}

impl<'m> Plan<'m> {
    /// Checks `file` against the types of `model` and computes its effect for a kernel whose lines
    /// have `line` bytes. `images` has the types of the kernels that `layout-from` names.
    ///
    /// # Errors
    /// The first impossible edit, and why.
    pub fn new(
        model: &'m TypeModel,
        line: linemate_types::LineSize,
        file: &EditFile,
        images: &BTreeMap<String, TypeModel>,
    ) -> Result<Plan<'m>, PlanError> {
        let layouts = Layouts::new(model, line);
        let mut plan = Plan {
            layouts,
            accesses: Vec::new(),
            objects: Vec::new(),
            types: Vec::new(),
        };
        // Sections about one type form one list, in order: a later one continues an earlier one.
        let mut by_type: BTreeMap<TypeId, Vec<&Statement>> = BTreeMap::new();
        for (subject, statement) in file.statements() {
            if statement.edit.names_its_types() {
                plan.object_rule(statement)?;
                continue;
            }
            let Some(subject) = subject else { continue };
            let ids = plan.subject(subject, statement.at)?;
            for id in ids {
                by_type.entry(id).or_default().push(statement);
            }
        }
        for (id, statements) in by_type {
            plan.edit_type(id, &statements, images)?;
        }
        Ok(plan)
    }

    /// The variables and allocations of programs that edits are about, by name, and what they are
    /// padded to.
    pub fn memory(&self) -> impl Iterator<Item = (&str, Option<ByteAlign>)> {
        self.objects.iter().filter_map(|rule| match rule {
            ObjectRule::PadRanges(name, align) => Some((name.as_str(), Some(*align))),
            ObjectRule::SkipSilentIn(name) => Some((name.as_str(), None)),
            _ => None,
        })
    }

    /// The types that a header names, which count as edited from now on.
    fn subject(&mut self, subject: &EditSubject, at: Position) -> Result<Vec<TypeId>, PlanError> {
        let name = subject_name(subject);
        let found = resolve(self.layouts.model(), subject);
        let ids = found.map_err(|reason| PlanError {
            at,
            subject: name.clone(),
            reason,
        })?;
        self.mention(name, &ids);
        Ok(ids)
    }

    fn mention(&mut self, name: String, ids: &[TypeId]) {
        if self.types.iter().all(|(_, known)| known != ids) {
            self.types.push((name, ids.to_vec()));
        }
    }

    fn object_rule(&mut self, statement: &Statement) -> Result<(), PlanError> {
        let mut named =
            |name: &String| self.subject(&EditSubject::Named(name.clone()), statement.at);
        let rule = match &statement.edit {
            Edit::Colocate(a, b) => {
                let (first, second) = (named(a)?, named(b)?);
                if first == second {
                    let reason = Refusal::Twice { field: b.clone() }.into();
                    return Err(PlanError {
                        at: statement.at,
                        subject: a.clone(),
                        reason,
                    });
                }
                ObjectRule::Colocate(first, second)
            }
            Edit::Percpu(a) => ObjectRule::Percpu(named(a)?),
            Edit::AllocatePercpu(a) => ObjectRule::AllocatePercpu(named(a)?),
            Edit::BaseAlign {
                type_name,
                alignment,
            } => {
                let ids = named(type_name)?;
                let align = self.alignment(*alignment).map_err(|refusal| PlanError {
                    at: statement.at,
                    subject: type_name.clone(),
                    reason: refusal.into(),
                })?;
                ObjectRule::BaseAlign(ids, align)
            }
            Edit::PadRanges { name, alignment } => {
                let align = self.alignment(*alignment).map_err(|refusal| PlanError {
                    at: statement.at,
                    subject: name.clone(),
                    reason: refusal.into(),
                })?;
                ObjectRule::PadRanges(name.clone(), align)
            }
            Edit::SkipSilentIn(name) => ObjectRule::SkipSilentIn(name.clone()),
            _ => return Ok(()),
        };
        self.objects.push(rule);
        Ok(())
    }

    fn alignment(&self, alignment: Alignment) -> Result<ByteAlign, Refusal> {
        Ok(forced(alignment)?.on(self.layouts.line()))
    }

    /// Applies the statements about one type.
    fn edit_type(
        &mut self,
        id: TypeId,
        statements: &[&Statement],
        images: &BTreeMap<String, TypeModel>,
    ) -> Result<(), PlanError> {
        let model = self.layouts.model();
        let subject = match model.composite_name(id) {
            "" => "anonymous struct",
            name => name,
        };
        let fail = |at, reason| PlanError {
            at,
            subject: subject.to_owned(),
            reason,
        };
        let mut orders: Vec<Statement> = Vec::new();
        let mut adopted = None;
        for statement in statements {
            let at = statement.at;
            match &statement.edit {
                Edit::Reuse { field, function } => {
                    let field = self.field(id, field).map_err(|e| fail(at, e))?;
                    self.add_rule(AccessRule::Reuse {
                        field,
                        function: function.clone(),
                    });
                }
                Edit::SkipSilent(field) => {
                    let field = self.field(id, field).map_err(|e| fail(at, e))?;
                    self.add_rule(AccessRule::SkipSilent { field });
                }
                Edit::SkipArray(name) => {
                    let field = self.field(id, name).map_err(|e| fail(at, e))?;
                    let rule = pointer_chase(model, field, name).map_err(|e| fail(at, e))?;
                    self.add_rule(AccessRule::SkipArray(rule));
                }
                Edit::LayoutFrom(image) => {
                    let other = images.get(image);
                    let other =
                        other.ok_or_else(|| fail(at, PlanReason::NoImage(image.clone())))?;
                    adopted =
                        Some(foreign::adopt(model, id, other).map_err(|e| fail(at, e.into()))?);
                }
                _ => orders.push((*statement).clone()),
            }
            // The other kernel's layout has no slots to move.
            if adopted.is_some() && !orders.is_empty() {
                return Err(fail(at, PlanReason::ForeignAndEdits));
            }
        }
        if let Some(foreign) = adopted {
            self.layouts.adopt(id, foreign);
        } else if !orders.is_empty() {
            self.layouts
                .edit(id, &orders)
                .map_err(|(at, e)| fail(at, e))?;
        }
        Ok(())
    }

    /// The bytes of a field of type `id`, by a path as reports print it (`avg.load_avg`) or a
    /// member's name.
    fn field(&self, id: TypeId, path: &str) -> Result<Field, PlanReason> {
        let model = self.layouts.model();
        let types = vec![id];
        // A member of that name first: it may be a struct, which has no leaf.
        if let Some(composite) = model.composite(id) {
            if let Some(member) = composite.members.iter().find(|m| &*m.name == path) {
                let bits = member.offset.0 % 8 + u64::from(member.bits.unwrap_or(0));
                let bytes = match member.bits {
                    Some(_) => ByteSize(bits.div_ceil(8)),
                    None => size_of(model, member.type_id),
                };
                return Ok(Field {
                    types,
                    offset: member.offset.byte(),
                    bytes,
                });
            }
        }
        let flat = FlatType::new(model, id).ok();
        let leaves = flat.as_ref().map_or(&[][..], FlatType::leaves);
        if let Some(leaf) = leaves
            .iter()
            // Within arrays one path has many offsets.
            .find(|leaf| leaf.path == path && leaf.arrays.is_empty())
        {
            return Ok(Field {
                types,
                offset: leaf.offset,
                bytes: ByteSize(leaf.size),
            });
        }
        let paths = leaves.iter().map(|leaf| leaf.path.as_str());
        Err(Refusal::Unknown {
            name: path.to_owned(),
            nearest: linemate_text::nearest(path, paths),
        }
        .into())
    }

    /// Adds a rule; the variants of one type share theirs if the field is at the same offset.
    fn add_rule(&mut self, mut rule: AccessRule) {
        let types = std::mem::take(&mut rule.field_mut().types);
        let same = self.accesses.iter_mut().find(|known| {
            let mut known = (**known).clone();
            known.field_mut().types.clear();
            known == rule
        });
        match same {
            Some(known) => known.field_mut().types.extend(types),
            None => {
                rule.field_mut().types = types;
                self.accesses.push(rule);
            }
        }
    }
}

impl AccessRule {
    fn field_mut(&mut self) -> &mut Field {
        match self {
            AccessRule::Reuse { field, .. } | AccessRule::SkipSilent { field } => field,
            AccessRule::SkipArray(chase) => &mut chase.field,
        }
    }
}

/// The name of a subject in messages.
pub fn subject_name(subject: &EditSubject) -> String {
    match subject {
        EditSubject::Named(name) => name.clone(),
        EditSubject::With(members) => format!("struct with {}", members.join(", ")),
    }
}

/// The ids of the types that a subject names: all variants of a struct or union
/// ([`linemate_types::FoundType`]).
///
/// # Errors
/// If there is none, or several different ones.
pub fn resolve(model: &TypeModel, subject: &EditSubject) -> Result<Vec<TypeId>, PlanReason> {
    let found = model.find(subject.query()).map_err(|fault| match fault {
        NotFound::Absent(nearest) => PlanReason::NoType(nearest),
        NotFound::Ambiguous(count) => PlanReason::Ambiguous { count },
    })?;
    match (model.composite(found.id), subject) {
        (None, EditSubject::Named(name)) => Err(PlanReason::NoType(model.nearest_names(name))),
        _ => Ok(found.variants),
    }
}
