//! A type as it is in memory, as an SVG picture: one row per line, bytes to scale.

use std::fmt::Write as _;

use linemate_report::model::TypeView;
use linemate_report::{CostsDocument, FieldMap};
use linemate_text::shown;

use crate::blocks::{Block, BlockKind, Value, blocks};
use crate::headline::short;

/// What the colours of a picture say.
#[derive(Clone, Copy, Debug)]
pub enum Heat<'a> {
    /// Accesses.
    Accesses,
    /// Cycles of accesses that left their core.
    Cycles(&'a CostsDocument),
}

impl Heat<'_> {
    fn name(self) -> &'static str {
        match self {
            Heat::Accesses => "accesses",
            Heat::Cycles(_) => "cycles of accesses that left their core",
        }
    }

    fn values(self, view: &TypeView) -> Vec<Value> {
        let fields = view.fields.iter().map(|row| Value {
            offset: row.offset,
            size: row.size,
            name: row.field.clone(),
            value: match self {
                Heat::Accesses => row.figures.accesses,
                Heat::Cycles(_) => 0,
            },
        });
        let mut values: Vec<Value> = fields.collect();
        if let Heat::Cycles(document) = self {
            add_cycles(&mut values, view, document);
        }
        values
    }
}

/// Each cell's cycles go to the field that has its byte.
fn add_cycles(values: &mut [Value], view: &TypeView, document: &CostsDocument) {
    for line in document.costs.lines.iter().filter(|l| l.name == view.name) {
        for cell in &line.cells {
            let Ok(at) = u64::try_from(line.start + i64::from(cell.offset)) else {
                continue;
            };
            let field = values
                .iter_mut()
                .find(|v| (v.offset..v.offset.saturating_add(v.size)).contains(&at));
            if let Some(value) = field {
                value.value += cell.cycles;
            }
        }
    }
}

/// Widths and heights in the picture's units.
const MARGIN: u64 = 96;
const TRACK: u64 = 1024;
const TOTAL: u64 = 90;
const ROW: u64 = 34;
const HEAD: u64 = 64;
/// Magma from its light end, in steps: even to the eye, readable for colour-blind people, and in print.
const COLOURS: [&str; 6] = [
    "#fcf0b2", "#feb77e", "#f9795d", "#d2426f", "#942c80", "#4c117a",
];
/// From this colour on, text is light.
const DARK_FROM: usize = 3;

/// The picture of `view`: lines that nothing touches are folded.
#[must_use]
pub fn svg(view: &TypeView, heat: Heat<'_>) -> String {
    let found = blocks(&view.layout, &heat.values(view));
    let most = found.iter().map(|b| b.value).max().unwrap_or(0);
    let sum: u64 = found.iter().map(|b| b.value).sum();
    let mut rows = String::new();
    let mut top = HEAD;
    let mut folded = Vec::new();
    for (number, parts) in lines(&view.layout, view.line_size, &found)
        .iter()
        .enumerate()
    {
        let total: u64 = parts.iter().map(|part| part.value).sum();
        if total == 0 {
            folded.push(number);
            continue;
        }
        fold(&mut rows, &mut folded, &mut top);
        line(&mut rows, number, parts, view.line_size, (top, most));
        let share = 100.0 * total as f64 / sum.max(1) as f64;
        let _ = writeln!(
            rows,
            r#"<text x="{}" y="{}">{} · {share:.0} %</text>"#,
            MARGIN + TRACK + 8,
            top + 20,
            short(total as f64),
        );
        top += ROW;
    }
    fold(&mut rows, &mut folded, &mut top);
    let name = escaped(&view.name);
    let (width, height) = (MARGIN + TRACK + TOTAL + 20, top + 16);
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{name} as it is in memory">
<defs><pattern id="none" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" fill="#fff"/><line x1="0" y1="0" x2="0" y2="6" stroke="#999" stroke-width="2"/></pattern></defs>
<style>text {{ font: 12px ui-monospace, monospace; fill: #222 }} .light {{ fill: #fff }} rect.b {{ stroke: #666 }}</style>
<rect width="{width}" height="{height}" fill="#fff"/>
<text x="8" y="22" style="font-size:16px;font-weight:bold">{name}, {} bytes, lines of {}</text>
<text x="8" y="44">colour and figures: {}; hatched: holes and padding; the most of a field: {}</text>
{rows}</svg>
"##,
        view.layout.size,
        view.line_size,
        heat.name(),
        short(most as f64),
    )
}

/// The parts of blocks that are in each line.
fn lines(map: &FieldMap, bytes: u64, found: &[Block]) -> Vec<Vec<Block>> {
    let count = usize::try_from(map.size.div_ceil(bytes)).unwrap_or(0);
    let mut rows: Vec<Vec<Block>> = vec![Vec::new(); count];
    for block in found {
        let mut at = block.offset;
        while at < block.offset + block.size {
            let number = at / bytes;
            let end = ((number + 1) * bytes).min(block.offset + block.size);
            let part = Block {
                offset: at,
                size: end - at,
                // A field of several lines counts in its first.
                value: if at == block.offset { block.value } else { 0 },
                ..block.clone()
            };
            if let Some(row) = usize::try_from(number).ok().and_then(|n| rows.get_mut(n)) {
                row.push(part);
            }
            at = end;
        }
    }
    rows
}

fn fold(rows: &mut String, folded: &mut Vec<usize>, top: &mut u64) {
    let (Some(first), Some(last)) = (folded.first(), folded.last()) else {
        return;
    };
    let which = match first == last {
        true => format!("line {first}"),
        false => format!("lines {first} to {last}"),
    };
    let _ = writeln!(
        rows,
        r#"<text x="{MARGIN}" y="{}" opacity="0.6">{which}: nothing</text>"#,
        *top + 14
    );
    *top += ROW - 12;
    folded.clear();
}

fn line(rows: &mut String, number: usize, parts: &[Block], bytes: u64, (top, most): (u64, u64)) {
    let _ = writeln!(rows, r#"<text x="8" y="{}">line {number}</text>"#, top + 20);
    for part in parts {
        let x = MARGIN as f64 + TRACK as f64 * (part.offset % bytes) as f64 / bytes as f64;
        let width = TRACK as f64 * part.size as f64 / bytes as f64;
        let step = step(part.value, most);
        let fill = match (part.kind, step) {
            (BlockKind::Hole | BlockKind::Padding, _) => "url(#none)",
            (_, None) => "#f2f2f2",
            (_, Some(step)) => COLOURS[step],
        };
        let _ = write!(
            rows,
            r#"<g><title>{}: bytes {} to {}, {}</title><rect class="b" x="{x:.1}" y="{top}" width="{width:.1}" height="28" fill="{fill}"/>"#,
            label(part),
            part.offset,
            part.offset + part.size - 1,
            part.value
        );
        // Seven units to a letter; what does not fit is in the title.
        let letters = (width / 7.4) as usize;
        let name: String = shown(&part.name)
            .to_string()
            .chars()
            .take(letters)
            .collect();
        let light = step.is_some_and(|step| step >= DARK_FROM);
        let _ = writeln!(
            rows,
            r#"<text{} x="{:.1}" y="{}">{}</text></g>"#,
            if light { r#" class="light""# } else { "" },
            x + 2.0,
            top + 18,
            escaped(&name)
        );
    }
}

/// The step of the scale, by the square root: few fields have most of it.
fn step(value: u64, most: u64) -> Option<usize> {
    let part = (value as f64 / most.max(1) as f64).sqrt();
    (value > 0).then(|| ((part * COLOURS.len() as f64) as usize).min(COLOURS.len() - 1))
}

fn label(part: &Block) -> String {
    match part.kind {
        BlockKind::Hole => "hole".to_owned(),
        BlockKind::Padding => "padding".to_owned(),
        _ => escaped(&part.name),
    }
}

/// Text for XML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in shown(text).to_string().chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use linemate_report::FieldPlace;
    use linemate_report::model::{FieldRow, Figures};

    use super::*;

    fn view(name: &str, fields: &[(&str, u64, u64, u64)], size: u64) -> TypeView {
        let places = fields.iter().map(|(path, offset, size, _)| FieldPlace {
            path: (*path).to_owned(),
            type_name: "int".to_owned(),
            offset: *offset,
            size: *size,
            bits: None,
            arrays: Vec::new(),
        });
        let rows = fields.iter().filter(|field| field.3 > 0);
        let rows = rows.map(|(path, offset, size, accesses)| FieldRow {
            type_name: name.to_owned(),
            field: (*path).to_owned(),
            aliases: Vec::new(),
            offset: *offset,
            size: *size,
            line: offset / 64,
            figures: Figures {
                accesses: *accesses,
                ..Figures::default()
            },
            functions: Vec::new(),
        });
        TypeView {
            name: name.to_owned(),
            size,
            line_size: 64,
            figures: Figures::default(),
            places: Vec::new(),
            fields: rows.collect(),
            layout: FieldMap {
                size,
                fields: places.collect(),
            },
            lines: Vec::new(),
            groups: Vec::new(),
        }
    }

    #[test]
    fn lines_are_drawn_to_scale_and_cold_ones_fold() {
        let fields = [
            ("hot", 0, 8, 10),
            ("warm", 8, 4, 1),
            ("cold", 64, 8, 0),
            ("end", 192, 8, 5),
        ];
        let picture = svg(&view("rq", &fields, 256), Heat::Accesses);
        // 1024 units for 64 bytes.
        assert!(
            picture.contains(r#"x="96.0" y="64" width="128.0""#),
            "{picture}"
        );
        assert!(
            picture.contains(r#"x="224.0" y="64" width="64.0""#),
            "{picture}"
        );
        assert!(picture.contains("lines 1 to 2: nothing"), "{picture}");
        assert!(picture.contains("line 3</text>"), "{picture}");
        assert!(!picture.contains("line 1</text>"), "{picture}");
    }

    #[test]
    fn names_are_text() {
        let picture = svg(
            &view("<x>\u{1b}", &[("\"&<b>", 0, 64, 1)], 64),
            Heat::Accesses,
        );
        assert!(picture.contains("&lt;x&gt;\\x1b"), "{picture}");
        assert!(
            !picture.contains("<b>") && !picture.contains('\u{1b}'),
            "{picture}"
        );
    }

    #[test]
    fn an_empty_type_is_a_picture_too() {
        let picture = svg(&view("void", &[], 0), Heat::Accesses);
        assert!(picture.starts_with("<svg") && picture.contains("void, 0 bytes"));
    }
}
