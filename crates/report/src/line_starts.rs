//! Members that may have an alignment for the line that they start, and what edits do to them.

use linemate_answers::KeptLineStart;
use linemate_text::shown;

/// A line for those of `type_name` that are kept and one for those that are not; no line for none.
pub(crate) fn line_starts_text(type_name: &str, starts: &[KeptLineStart]) -> String {
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
