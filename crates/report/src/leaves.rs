//! The fields of a type with their places, and the same after edits.

use linemate_layout::Layouts;
use linemate_layout::plan::Plan;
use linemate_types::{ByteSize, FlatType, FlattenError, Leaf, LineSize, TypeId, TypeModel};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::line_starts::{KeptLineStart, line_starts};

/// A type's fields, touched or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldMap {
    /// `sizeof`, in bytes.
    pub size: u64,
    /// The fields, in declaration order of the recorded kernel.
    pub fields: Vec<FieldPlace>,
}

/// A field's place (docs/reference/json/layout.md).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldPlace {
    /// The names from the type on, `[]` for each array.
    pub path: String,
    /// Its C type; of an array that of one element.
    #[serde(rename = "type")]
    pub type_name: String,
    /// First byte, in first elements of arrays.
    pub offset: u64,
    /// Bytes; of a bit-field those that its bits touch.
    pub size: u64,
    /// For a bit-field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits: Option<BitRange>,
    /// The arrays around it, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrays: Vec<ArrayExtent>,
}

/// The bits of a bit-field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BitRange {
    /// The first.
    pub start: u64,
    /// How many.
    pub width: u32,
}

/// An array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayExtent {
    /// Bytes from element to element.
    pub stride: u64,
    /// Elements; 0 of a flexible one.
    pub count: u64,
}

impl FieldPlace {
    /// The end of the last element; of a flexible array, which has no bytes of the type's, its start.
    #[must_use]
    pub fn end(&self) -> u64 {
        if self.arrays.iter().any(|array| array.count == 0) {
            return self.offset;
        }
        let beyond = |end: u64, array: &ArrayExtent| {
            end.saturating_add(array.stride.saturating_mul(array.count.saturating_sub(1)))
        };
        let first = self.offset.saturating_add(self.size);
        self.arrays.iter().fold(first, beyond)
    }
}

/// A type before and after edits, both as in a kernel built for lines of that size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutChange {
    /// The type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// Without edits.
    pub before: FieldMap,
    /// With them; fields that were removed are not in it.
    pub after: FieldMap,
    /// Members whose line start the new layout takes for granted, or ends, though nothing says whether they asked for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub line_starts: Vec<KeptLineStart>,
}

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

impl FieldMap {
    /// The fields of type `id`.
    ///
    /// # Errors
    /// Too many members (hostile types only).
    pub(crate) fn new(model: &TypeModel, id: TypeId) -> Result<FieldMap, FlattenError> {
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
            // Elements are as far apart as the first two of them; of a nested array, within its first element.
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
}

/// The types that `plan` edits, before and after, for lines of `line`; of a name with variants the first.
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
            before: FieldMap::laid_out(&mut unedited, *id)?,
            after: FieldMap::laid_out(&mut plan.layouts, *id)?,
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
