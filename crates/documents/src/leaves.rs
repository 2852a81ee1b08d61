//! The fields of a type with their places, and the same after edits.

use linemate_answers::{ArrayExtent, BitRange, FieldMap, FieldPlace, LayoutChange};
use linemate_layout::Layouts;
use linemate_layout::plan::Plan;
use linemate_types::{ByteSize, FlatType, FlattenError, Leaf, LineSize, TypeId, TypeModel};
use thiserror::Error;

use crate::line_starts::line_starts;

/// Why there is no layout to show.
#[derive(Debug, Error)]
pub enum LayoutChangeError {
    /// The type's fields cannot be listed.
    #[error(transparent)]
    Fields(#[from] FlattenError),
    /// The type cannot be laid out.
    #[error(transparent)]
    Layout(#[from] linemate_layout::origin::OriginError),
}

/// The fields of type `id`.
///
/// # Errors
/// Too many members (hostile types only).
pub(crate) fn field_map(model: &TypeModel, id: TypeId) -> Result<FieldMap, FlattenError> {
    let flat = FlatType::new(model, id)?;
    Ok(FieldMap {
        size: model.size_of(id).unwrap_or(0),
        fields: flat
            .leaves()
            .iter()
            .map(|leaf| place(model, leaf))
            .collect(),
    })
}

/// The fields of type `id` under `layouts`.
fn laid_out(layouts: &mut Layouts<'_>, id: TypeId) -> Result<FieldMap, LayoutChangeError> {
    let model = layouts.model();
    let flat = FlatType::new(model, id)?;
    let layout = layouts.of(id)?;
    let mut fields = Vec::with_capacity(flat.leaves().len());
    for leaf in flat.leaves() {
        let Some(offset) = layout.moved(leaf.offset) else {
            continue;
        };
        let mut field = place(model, leaf);
        field.offset = offset.0;
        // Elements are as far apart as the first two of them; of a nested array, within its first
        // element.
        for array in field.arrays.iter_mut().filter(|array| array.count > 1) {
            let second = layout.moved(leaf.offset + ByteSize(array.stride));
            array.stride = second.map_or(array.stride, |at| at.0.abs_diff(offset.0));
        }
        fields.push(field);
    }
    Ok(FieldMap {
        size: layout.size.0,
        fields,
    })
}

/// The types that `plan` edits, before and after, for lines of `line`; of a name with variants the
/// first.
///
/// # Errors
/// A type that cannot be laid out.
pub fn layout_changes(
    plan: &mut Plan<'_>,
    line: LineSize,
) -> Result<Vec<LayoutChange>, LayoutChangeError> {
    let mut unedited = Layouts::new(plan.layouts.model(), line);
    let mut changes = Vec::new();
    for (name, ids) in plan.types.clone() {
        let Some(id) = ids.first() else { continue };
        changes.push(LayoutChange {
            type_name: name,
            line_bytes: line.bytes(),
            before: laid_out(&mut unedited, *id)?,
            after: laid_out(&mut plan.layouts, *id)?,
            line_starts: line_starts(plan, *id)?,
        });
    }
    Ok(changes)
}

fn place(model: &TypeModel, leaf: &Leaf) -> FieldPlace {
    FieldPlace {
        path: leaf.path.clone(),
        type_name: model.type_name(leaf.type_id),
        offset: leaf.offset.0,
        size: leaf.size,
        bits: leaf.bits.map(|(start, width)| BitRange {
            start: start.0 % 8,
            width,
        }),
        arrays: leaf
            .arrays
            .iter()
            .map(|(stride, count)| ArrayExtent {
                stride: *stride,
                count: *count,
            })
            .collect(),
    }
}
