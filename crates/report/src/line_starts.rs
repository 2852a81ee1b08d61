//! Members that may have asked for the line that they start, and what edits do to them.

use linemate_answers::KeptLineStart;
use linemate_layout::origin::OriginError;
use linemate_layout::plan::Plan;
use linemate_text::shown;
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

/// A line for those of `type_name` that are kept and one for those that are not; no line for none.
#[must_use]
pub fn line_starts_text(type_name: &str, starts: &[KeptLineStart]) -> String {
    let line = |kept: bool| {
        let of = || starts.iter().filter(|start| start.kept == kept);
        let members: Vec<&str> = of().map(|start| start.member.as_str()).collect();
        let edits: Vec<String> = of().map(|start| format!("`{}`", start.otherwise)).collect();
        let (members, edits) = (members.join(", "), edits.join(", "));
        match (members.is_empty(), kept) {
            (true, _) => String::new(),
            (_, true) => format!(
                "{}: left at line starts, since BTF does not show which members are aligned: {}; where the source does not align one: {}.\n",
                shown(type_name),
                shown(&members),
                shown(&edits)
            ),
            (_, false) => format!(
                "{}: moved off a line start, since BTF does not show which members are aligned: {}; where the source aligns one: {}.\n",
                shown(type_name),
                shown(&members),
                shown(&edits)
            ),
        }
    };
    line(true) + &line(false)
}
