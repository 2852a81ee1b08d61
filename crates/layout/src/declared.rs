//! Alignments that the source declares, from debug information, as edits.
//!
//! BTF has none. Debug information (DWARF, from version 5 or with gcc's extension) has those that a
//! declaration requests, also where they cost nothing. As edits they are in the answer, and apply
//! wherever edits do.

use linemate_types::{BitOffset, ByteAlign, ByteSize, Composite, TypeId, TypeModel};

use crate::arrange::Slot;
use crate::edit::{Alignment, Edit, EditFile, EditSubject, Position, Section, Statement};
use crate::inside::anonymous_struct;
use crate::nesting::unit_name;
use crate::origin::{BUILT_LINE, OriginError, Unit};
use crate::plan::Plan;

/// Why debug information says nothing about the edited types.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeclaredError {
    /// It lacks an edited type.
    #[error("it has no struct {0}")]
    NoType(String),
    /// It is of another kernel.
    #[error("its struct {0} has other members or offsets than the recorded one")]
    OtherLayout(String),
    /// The recorded layout cannot be explained.
    #[error(transparent)]
    Origin(#[from] OriginError),
}

/// The statements that give the edited members what their declarations request, where `plan` has
/// inferred otherwise. Members whose alignment an edit names are left to it.
///
/// # Errors
/// If `debug` lacks an edited type, or has it in another layout.
pub fn declared(plan: &mut Plan<'_>, debug: &TypeModel) -> Result<EditFile, DeclaredError> {
    let mut sections = Vec::new();
    for (name, ids) in plan.types.clone() {
        let mut statements: Vec<Statement> = Vec::new();
        for id in ids {
            for edit in of_type(plan, id, debug, &name)? {
                if statements.iter().all(|known| known.edit != edit) {
                    let at = Position::default();
                    statements.push(Statement { edit, at });
                }
            }
        }
        if !statements.is_empty() {
            sections.push(Section {
                subject: Some(EditSubject::Named(name)),
                statements,
            });
        }
    }
    Ok(EditFile { sections })
}

fn of_type(
    plan: &mut Plan<'_>,
    id: TypeId,
    debug: &TypeModel,
    name: &str,
) -> Result<Vec<Edit>, DeclaredError> {
    let model = plan.layouts.model();
    let id = model.strip(id);
    let (Some(_), Some(recorded)) = (plan.layouts.slots(id), model.composite(id)) else {
        return Ok(Vec::new());
    };
    let tag = match recorded.name.is_empty() {
        true => name,
        false => &*recorded.name,
    };
    // `TYPE@FILE` where files declare different types of one name.
    let tag = tag.split('@').next().unwrap_or(tag);
    let mut structs = vec![(id, source_of(debug, recorded, tag)?)];
    let (mut edits, mut at) = (Vec::new(), 0);
    while let Some((id, source)) = structs.get(at).copied() {
        edits.extend(of_struct(plan, id, source)?);
        let members = model.composite(id).map_or(&[][..], |c| &c.members);
        for (member, declared) in members.iter().zip(&source.members) {
            let inner = anonymous_struct(model, member).zip(debug.composite(declared.type_id));
            let Some((id, source)) = inner else { continue };
            if model
                .composite(id)
                .is_none_or(|c| !places(c).eq(places(source)))
            {
                return Err(DeclaredError::OtherLayout(tag.to_owned()));
            }
            if structs.iter().all(|(known, _)| *known != id) {
                structs.push((id, source));
            }
        }
        at += 1;
    }
    Ok(edits)
}

/// Likewise of one struct, as its declaration has it, without those of anonymous structs in it.
fn of_struct(
    plan: &mut Plan<'_>,
    id: TypeId,
    source: &Composite,
) -> Result<Vec<Edit>, DeclaredError> {
    let (Some(slots), Some(recorded)) =
        (plan.layouts.slots(id), plan.layouts.model().composite(id))
    else {
        return Ok(Vec::new());
    };
    let slots = slots.to_vec();
    let origin = plan.layouts.origin(id)?;
    let doubted = plan.layouts.own_line_starts(id)?;
    let mut edits = Vec::new();
    for slot in slots.iter().filter(|slot| is_open(slot)) {
        let unit = &origin.units[slot.unit];
        let Some(field) = unit_name(plan.layouts.model(), recorded, unit) else {
            continue;
        };
        let natural = plan.layouts.natural_align(recorded, unit);
        let in_doubt = doubted.iter().any(|start| start.member == field);
        let by_type = || Alignment::Bytes(ByteSize(natural.bytes()));
        let declared = declared_alignment(unit, source, natural);
        // One in doubt that requests nothing starts a line by chance.
        let alignment = declared.or_else(|| in_doubt.then(by_type));
        edits.extend(alignment.map(|alignment| Edit::Align {
            field: field.to_owned(),
            alignment,
        }));
    }
    Ok(edits)
}

/// Whether neither an edit nor the recorded layout settles a member's alignment.
fn is_open(slot: &Slot) -> bool {
    slot.forced.is_none() && slot.group.is_none()
}

/// What a unit's declaration requests beyond its type's alignment.
fn declared_alignment(unit: &Unit, source: &Composite, natural: ByteAlign) -> Option<Alignment> {
    let alignments = unit.members.iter().map(|i| source.members[*i].alignment);
    let bytes = ByteAlign::new(alignments.max()?.into()).filter(|asked| *asked > natural)?;
    Some(match bytes == BUILT_LINE.into() {
        true => Alignment::Line,
        false => Alignment::Bytes(ByteSize(bytes.bytes())),
    })
}

/// The declaration in the debug information, with members as in the recorded type.
fn source_of<'d>(
    debug: &'d TypeModel,
    recorded: &Composite,
    name: &str,
) -> Result<&'d Composite, DeclaredError> {
    let found = debug.declared(name).map(|id| debug.strip(id));
    let source = found.and_then(|id| debug.composite(id));
    let source = source.ok_or_else(|| DeclaredError::NoType(name.to_owned()))?;
    match places(source).eq(places(recorded)) && source.size == recorded.size {
        true => Ok(source),
        false => Err(DeclaredError::OtherLayout(name.to_owned())),
    }
}

fn places(composite: &Composite) -> impl Iterator<Item = (&str, BitOffset)> {
    composite.members.iter().map(|m| (&*m.name, m.offset))
}
