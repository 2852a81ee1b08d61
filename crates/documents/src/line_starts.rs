//! Members that may have an alignment for the line that they start, and what edits do to them.

use linemate_answers::KeptLineStart;
use linemate_layout::origin::OriginError;
use linemate_layout::plan::Plan;
use linemate_types::TypeId;

/// Those of struct `id` under `plan`; none for a type that no edit is about.
///
/// # Errors
/// A type that cannot be laid out.
pub fn line_starts(plan: &mut Plan<'_>, id: TypeId) -> Result<Vec<KeptLineStart>, OriginError> {
    let found = plan.layouts.line_starts(id)?.into_iter();
    let entry = |start: linemate_layout::LineStart| KeptLineStart {
        member: start.member,
        kept: start.kept,
        otherwise: start.otherwise.to_string(),
    };
    Ok(found.map(entry).collect())
}
