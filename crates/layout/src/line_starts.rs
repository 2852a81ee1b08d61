//! Members that may have requested the line they start ([`crate::origin::Unit::may_ask_for_line`]),
//! under edits.
//!
//! BTF does not show whether they did, so an answer that depends on it names them, with the edit
//! that overrides the assumption.

use linemate_types::{BitOffset, ByteSize, TypeId};

use crate::arrange::Slot;
use crate::edit::{Alignment, Edit};
use crate::inside::anonymous_structs;
use crate::layout::Layouts;
use crate::nesting::unit_name;
use crate::origin::{BUILT_LINE, OriginError};

/// A member whose line start the edited layout depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineStart {
    /// The member, as named in edits.
    pub member: String,
    /// Whether it keeps a line start; otherwise an edit moved it off one.
    pub kept: bool,
    /// The edit that requests the opposite.
    pub otherwise: Edit,
}

impl Layouts<'_> {
    /// The members of struct `id`, and of anonymous structs in it that are edited, that would start
    /// elsewhere if none kept its line start, and those that an edit moved off theirs. None for a
    /// type without edits.
    ///
    /// # Errors
    /// If it is not a struct or union, or its members overlap.
    pub fn line_starts(&mut self, id: TypeId) -> Result<Vec<LineStart>, OriginError> {
        let id = self.model().strip(id);
        let mut found = self.own_line_starts(id)?;
        for inside in anonymous_structs(self.model(), id) {
            found.extend(self.own_line_starts(inside)?);
        }
        Ok(found)
    }

    /// Likewise, without those in anonymous structs.
    pub(crate) fn own_line_starts(&mut self, id: TypeId) -> Result<Vec<LineStart>, OriginError> {
        let (Some(slots), Some(composite)) = (self.slots(id), self.model().composite(id)) else {
            return Ok(Vec::new());
        };
        let slots = slots.to_vec();
        let origin = self.origin(id)?;
        let freed = slots.iter().map(|slot| Slot {
            keeps_line: false,
            ..slot.clone()
        });
        let freed: Vec<Slot> = freed.collect();
        // For a unit: where it starts, and where it would if none kept its line start.
        let kept = self.structure(id, composite, &origin, &slots).offsets;
        let freed = self.structure(id, composite, &origin, &freed).offsets;
        let mut found = Vec::new();
        for slot in &slots {
            let unit = &origin.units[slot.unit];
            let (true, Some(first), Some(name)) = (
                unit.may_ask_for_line,
                unit.main(composite),
                unit_name(self.model(), composite, unit),
            ) else {
                continue;
            };
            let alignment = match slot.keeps_line {
                true if kept[first] != freed[first] => {
                    Alignment::Bytes(ByteSize(self.natural_align(composite, unit).bytes()))
                }
                // An explicit `align` settles it.
                false if slot.forced.is_none() && !starts_line(kept[first]) => Alignment::Line,
                _ => continue,
            };
            let field = name.to_owned();
            found.push(LineStart {
                member: field.clone(),
                kept: slot.keeps_line,
                otherwise: Edit::Align { field, alignment },
            });
        }
        Ok(found)
    }
}

fn starts_line(start: Option<BitOffset>) -> bool {
    start.is_some_and(|start| start.byte().is_aligned(BUILT_LINE.into()))
}
