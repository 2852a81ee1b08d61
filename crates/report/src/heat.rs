//! How often the members of a layout are accessed, next to them.

use std::fmt::Write as _;

use linemate_answers::{Heat, TypeView};

fn heat_text(heat: Heat) -> Option<String> {
    let figures = [
        (heat.loads, "loads"),
        (heat.stores, "stores"),
        (heat.rmws, "RMW"),
    ];
    let parts = figures.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// A layout in pahole's form (`linemate_types::pahole`), with how often each member is accessed
/// after its offset and size.
#[must_use]
pub fn with_heat(printed: &str, view: &TypeView) -> String {
    let mut out = String::new();
    for line in printed.lines() {
        out.push_str(line);
        let bytes = place(line);
        let heat = bytes.and_then(|(offset, size)| heat_text(view.heat(offset, size)));
        if let Some(heat) = heat {
            // Writing to a String does not fail.
            let _ = write!(out, " {heat}");
        }
        out.push('\n');
    }
    out
}

/// Offset and size that a line of pahole's ends with: `/*  8  4 */`, of bit-fields
/// `/*  8: 3  4 */`.
fn place(line: &str) -> Option<(u64, u64)> {
    let (_, comment) = line.rsplit_once("/*")?;
    let comment = comment.trim_end().strip_suffix("*/")?;
    let (offset, rest) = comment.trim().split_once([' ', ':'])?;
    let size = rest.rsplit(' ').next()?;
    Some((offset.parse().ok()?, size.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_its_bytes() {
        for (line, bytes) in [
            ("\tint    x;     /*     8     4 */", Some((8, 4))),
            ("\tint    x:3;   /*     8: 3  4 */", Some((8, 4))),
            ("\t};            /*    16    24 */", Some((16, 24))),
            ("\t/* XXX 4 bytes hole, try to pack */", None),
            ("\t/* --- cacheline 1 boundary (64 bytes) --- */", None),
            ("\t/* size: 4, cachelines: 1, members: 2 */", None),
            ("};", None),
        ] {
            assert_eq!(place(line), bytes, "{line}");
        }
    }
}
