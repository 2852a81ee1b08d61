//! A type's memory layout as an SVG picture: one row per line, bytes to scale.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use linemate_answers::{CostsDocument, FieldMap, FieldPlace, PageType, TypeView};
use linemate_text::{short, shown};

use crate::types::{line_accesses, touched};

/// A field and its figure.
#[derive(Clone, Debug)]
struct FieldValue {
    offset: u64,
    size: u64,
    name: String,
    value: u64,
}

/// The meaning of a picture's colours.
#[derive(Clone, Copy, Debug)]
pub enum Heat<'a> {
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

    fn values(self, page: &PageType) -> Vec<FieldValue> {
        let fields = touched(page).map(|field| FieldValue {
            offset: field.offset,
            size: field.size,
            name: field.path.to_owned(),
            value: match self {
                Heat::Accesses => field.accesses,
                Heat::Cycles(_) => 0,
            },
        });
        let mut values: Vec<FieldValue> = fields.collect();
        if let Heat::Cycles(document) = self {
            add_cycles(&mut values, &page.view, document);
        }
        values
    }

    /// The figure of each line. Accesses count where they start, as in the report; cycles in their
    /// field's first line.
    fn totals(self, page: &PageType, values: &[FieldValue]) -> BTreeMap<u64, u64> {
        let mut totals: BTreeMap<u64, u64> = BTreeMap::new();
        let mut add = |line: u64, value: u64| {
            if value > 0 {
                *totals.entry(line).or_default() += value;
            }
        };
        match self {
            Heat::Accesses => {
                let lines = line_accesses(&page.line_sums);
                lines.for_each(|(line, accesses)| add(line, accesses));
            }
            Heat::Cycles(_) => {
                let bytes = page.view.line_size.max(1);
                values.iter().for_each(|v| add(v.offset / bytes, v.value));
            }
        }
        totals
    }
}

/// Each cell's cycles go to the field that has its byte.
fn add_cycles(values: &mut [FieldValue], view: &TypeView, document: &CostsDocument) {
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
/// Magma from its light end, in steps: perceptually even, readable for colour-blind people, and in
/// print.
const COLOURS: [&str; 6] = [
    "#fcf0b2", "#feb77e", "#f9795d", "#d2426f", "#942c80", "#4c117a",
];
/// From this colour on, text is light.
const DARK_FROM: usize = 3;

/// The picture of a type: lines that nothing touches are folded.
#[must_use]
pub fn svg(page: &PageType, heat: Heat<'_>) -> String {
    let view = &page.view;
    let (map, bytes) = (&view.layout, view.line_size.max(1));
    let mut values = heat.values(page);
    values.retain(|value| value.offset < map.size);
    let most = values.iter().map(|v| v.value).max().unwrap_or(0);
    let mut totals = heat.totals(page, &values);
    totals.retain(|line, _| line.saturating_mul(bytes) < map.size);
    let sum: u64 = totals.values().sum();
    let painted = painted(map, values);
    let mut rows = String::new();
    let mut top = HEAD;
    let mut next = 0;
    for (number, total) in totals {
        fold(&mut rows, next..number, &mut top);
        line(&mut rows, number, &painted, bytes, map.size, top, most);
        let share = 100.0 * total as f64 / sum.max(1) as f64;
        let _ = writeln!(
            rows,
            r#"<text x="{}" y="{}">{} · {share:.1} %</text>"#,
            MARGIN + TRACK + 8,
            top + 20,
            short(total as f64),
        );
        top += ROW;
        next = number + 1;
    }
    fold(&mut rows, next..map.size.div_ceil(bytes), &mut top);
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
        map.size,
        view.line_size,
        heat.name(),
        short(most as f64),
    )
}

/// What is painted, from bottom to top: all fields of the type, then the accessed ones, the highest
/// last. Of fields that share bytes the highest one is visible.
fn painted(map: &FieldMap, mut values: Vec<FieldValue>) -> Vec<FieldValue> {
    let field = |field: &FieldPlace| FieldValue {
        offset: field.offset,
        size: field.end().saturating_sub(field.offset),
        // An array has the name of the whole.
        name: match field.path.find("[]") {
            Some(at) => field.path[..at + 2].to_owned(),
            None => field.path.clone(),
        },
        value: 0,
    };
    values.sort_by_key(|value| (value.value, std::cmp::Reverse(value.size)));
    map.fields.iter().map(field).chain(values).collect()
}

fn fold(rows: &mut String, lines: std::ops::Range<u64>, top: &mut u64) {
    if lines.is_empty() {
        return;
    }
    let last = lines.end - 1;
    let which = match lines.start == last {
        true => format!("line {last}"),
        false => format!("lines {} to {last}", lines.start),
    };
    let _ = writeln!(
        rows,
        r#"<text x="{MARGIN}" y="{}" opacity="0.6">{which}: nothing</text>"#,
        *top + 14
    );
    *top += ROW - 12;
}

fn line(
    rows: &mut String,
    number: u64,
    painted: &[FieldValue],
    bytes: u64,
    size: u64,
    top: u64,
    most: u64,
) {
    let _ = writeln!(rows, r#"<text x="8" y="{}">line {number}</text>"#, top + 20);
    let begin = number * bytes;
    let end = begin.saturating_add(bytes).min(size);
    let scaled = |bytes_from: u64| TRACK as f64 * bytes_from as f64 / bytes as f64;
    let _ = writeln!(
        rows,
        r#"<g><title>bytes of no field: holes and padding</title><rect class="b" x="{MARGIN}" y="{top}" width="{:.1}" height="28" fill="url(#none)"/></g>"#,
        scaled(end - begin),
    );
    for field in painted {
        let first = field.offset.max(begin);
        let last = field.offset.saturating_add(field.size).min(end);
        if first >= last {
            continue;
        }
        let (x, width) = (MARGIN as f64 + scaled(first - begin), scaled(last - first));
        let step = step(field.value, most);
        let fill = step.map_or("#f2f2f2", |step| COLOURS[step]);
        let name = shown(&field.name).to_string();
        let _ = write!(
            rows,
            r#"<g><title>{}: bytes {first} to {}, {}</title><rect class="b" x="{x:.1}" y="{top}" width="{width:.1}" height="28" fill="{fill}"/>"#,
            escaped(&name),
            last - 1,
            field.value
        );
        // Seven units per letter; what does not fit is in the title.
        let letters: String = name.chars().take((width / 7.4) as usize).collect();
        let light = step.is_some_and(|step| step >= DARK_FROM);
        let _ = writeln!(
            rows,
            r#"<text{} x="{:.1}" y="{}">{}</text></g>"#,
            if light { r#" class="light""# } else { "" },
            x + 2.0,
            top + 18,
            escaped(&letters)
        );
    }
}

/// The step of the scale, by the square root: few fields have most of it.
fn step(value: u64, most: u64) -> Option<usize> {
    let part = (value as f64 / most.max(1) as f64).sqrt();
    (value > 0).then(|| ((part * COLOURS.len() as f64) as usize).min(COLOURS.len() - 1))
}

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
    use linemate_answers::{FieldRow, Figures, LineRow, TypeTimes};

    use super::*;
    use crate::page_type;

    fn view(name: &str, fields: &[(&str, u64, u64, u64)], size: u64) -> PageType {
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
        let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
        for (_, offset, _, accesses) in fields {
            *sums.entry(offset / 64).or_default() += accesses;
        }
        let lines = sums.into_iter().map(|(line, accesses)| LineRow {
            type_name: name.to_owned(),
            line,
            figures: Figures {
                accesses,
                loads: accesses,
                ..Figures::default()
            },
            fields: Vec::new(),
            members: Vec::new(),
        });
        let view = TypeView {
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
            lines: lines.collect(),
            groups: Vec::new(),
            times: TypeTimes::default(),
        };
        page_type(view, true)
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
    fn shares_are_of_all_accesses() {
        let mut page = view("rq", &[("a", 0, 8, 30), ("b", 64, 8, 10)], 128);
        // For an access to a field of two lines that starts in the second.
        if let Some(loads) = page.line_sums.loads.last_mut() {
            *loads = 970;
        }
        let picture = svg(&page, Heat::Accesses);
        assert!(picture.contains("30 · 3.0 %"), "{picture}");
        assert!(picture.contains("970 · 97.0 %"), "{picture}");
    }

    #[test]
    fn of_fields_that_share_bytes_the_one_with_most_is_seen() {
        let fields = [("whole", 0, 16, 3), ("half", 8, 8, 9), ("cold", 16, 8, 0)];
        let picture = svg(&view("rq", &fields, 32), Heat::Accesses);
        let at = |name: &str, end: &str| {
            let title = format!("<title>{name}: bytes ");
            picture.match_indices(&title).map(|(at, _)| at).find(|at| {
                let line = picture[*at..].split("</title>").next();
                line.is_some_and(|line| line.ends_with(end))
            })
        };
        let (hole, whole, half) = (
            picture.find("bytes of no field"),
            at("whole", " 3"),
            at("half", " 9"),
        );
        assert!(hole.is_some() && hole < whole && whole < half, "{picture}");
        // Bytes 24 to 31 belong to nothing: only the hatched background is there.
        assert!(at("cold", " to 23, 0").is_some(), "{picture}");
        assert_eq!(picture.matches(r#"width="512.0""#).count(), 1, "{picture}");
    }

    #[test]
    fn sizes_that_cannot_be_do_no_harm() {
        let fields = [("wide", 8, u64::MAX, 1), ("beyond", u64::MAX - 1, 4, 1)];
        let picture = svg(&view("rq", &fields, 1 << 60), Heat::Accesses);
        assert!(picture.len() < 4096, "{picture}");
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
