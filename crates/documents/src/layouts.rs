//! Where the members of a type are, and how often each is accessed.

use linemate_answers::{BitRange, KernelLayout, LayoutDocument, MemberEntry, TypeLayout, TypeView};
use linemate_types::{FlattenError, Layout, LineSize, TypeId, TypeModel, named_members};

use crate::leaves::field_map;

/// The layout of the struct or union `id`, with lines of that size.
///
/// # Errors
/// No struct or union, or too many members (hostile types only).
pub fn type_layout(
    model: &TypeModel,
    id: TypeId,
    line: LineSize,
) -> Result<TypeLayout, FlattenError> {
    let layout = Layout::new(model, id, line).ok_or(FlattenError::NoSuchType(id))?;
    let members = named_members(model, id, line)?.into_iter().map(|member| {
        let place = member.place;
        MemberEntry {
            name: member.name.to_string(),
            type_name: model.type_name(member.type_id),
            offset: place.offset.0,
            size: place.size,
            bits: place.bits.map(|(start, width)| BitRange { start, width }),
            line: place.offset.line(line).0,
            hole: place.hole,
            bit_hole: place.bit_hole,
            forced_alignment: place.forced_alignment,
            heat: None,
        }
    });
    Ok(TypeLayout {
        size: layout.size,
        lines: layout.lines(line),
        holes: layout.holes,
        hole_bytes: layout.hole_bytes(),
        bit_holes: layout.bit_holes,
        padding: layout.padding,
        bit_padding: layout.bit_padding,
        forced_alignment: layout.forced_alignment,
        members: members.collect(),
        fields: field_map(model, id)?.fields,
    })
}

/// The document of these kernels.
#[must_use]
pub fn layout_document(
    type_name: &str,
    line: LineSize,
    kernels: Vec<KernelLayout>,
) -> LayoutDocument {
    LayoutDocument {
        schema: LayoutDocument::SCHEMA.into(),
        type_name: type_name.to_owned(),
        line: line.bytes(),
        kernels,
    }
}

/// Puts to each member how often it is accessed in a recording of this kernel.
pub fn add_heat(layout: &mut TypeLayout, view: &TypeView) {
    for member in &mut layout.members {
        member.heat = Some(view.heat(member.offset, member.size));
    }
}
