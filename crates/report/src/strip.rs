//! A cache line as a strip of text: its bytes to scale, the fields in it, and below each what is
//! known about it.
//!
//! ```text
//!         0       8       16      24
//! line 0  |nr_runni|curr   |..............
//!          r2 w2    r2
//! ```

use std::fmt::Write as _;

use linemate_text::shown;
use unicode_width::UnicodeWidthChar;

/// Columns of the title, before the strip.
const MARGIN: usize = 8;
/// The maximum number of columns for a byte: names rarely need more.
const SCALE_MAX: usize = 4;
/// Columns for a byte where there is no terminal.
const SCALE_PIPED: usize = 2;

/// A cache line as a strip of characters.
#[derive(Clone, Debug)]
pub(crate) struct Strip {
    /// What it is called, in at most 7 columns.
    pub(crate) title: String,
    /// Bytes of the line.
    pub(crate) bytes: u64,
    /// What is in it. Of those that share bytes the first one is drawn.
    pub(crate) parts: Vec<StripPart>,
}

/// A field, or the part of it that is in the line.
#[derive(Clone, Debug)]
pub(crate) struct StripPart {
    /// Bytes from the line's start.
    pub(crate) offset: u64,
    /// Bytes in the line.
    pub(crate) size: u64,
    pub(crate) name: String,
    /// What is said below the name, from the fullest to the shortest: the first one that fits is
    /// taken.
    pub(crate) notes: Vec<String>,
}

/// Where the strip's columns are.
#[derive(Clone, Copy)]
enum Scale {
    /// That many columns for a byte.
    Columns(usize),
    /// That many bytes in a column.
    Bytes(u64),
}

impl Scale {
    fn new(bytes: u64, width: Option<usize>) -> Scale {
        let Some(width) = width else {
            return Scale::Columns(SCALE_PIPED);
        };
        // The strip's end takes a column.
        let room = width.saturating_sub(MARGIN + 1).max(1) as u64;
        match (room / bytes) as usize {
            0 => Scale::Bytes(bytes.div_ceil(room).next_power_of_two()),
            columns => Scale::Columns(columns.min(SCALE_MAX)),
        }
    }

    fn column(self, byte: u64) -> usize {
        match self {
            Scale::Columns(columns) => byte as usize * columns,
            Scale::Bytes(bytes) => (byte / bytes) as usize,
        }
    }
}

/// The strips, with a ruler above them, in at most `width` columns.
pub(crate) fn drawn(strips: &[Strip], width: Option<usize>) -> String {
    let mut out = String::new();
    let mut ruled = None;
    for strip in strips {
        let scale = Scale::new(strip.bytes.max(1), width);
        if ruled.replace(strip.bytes) != Some(strip.bytes) {
            ruler(&mut out, strip.bytes, scale);
        }
        let (names, notes) = rows(strip, scale);
        // Writing to a String does not fail.
        let _ = writeln!(out, "{:<MARGIN$}{names}", shown(&strip.title).to_string());
        if !notes.trim().is_empty() {
            let _ = writeln!(out, "{:<MARGIN$}{}", "", notes.trim_end());
        }
    }
    out
}

fn ruler(out: &mut String, bytes: u64, scale: Scale) {
    let mut line = String::new();
    for byte in (0..bytes).step_by(8) {
        let at = scale.column(byte);
        // Where numbers would touch, every other one is left out.
        if at == 0 || line.len() < at {
            let _ = write!(line, "{:width$}{byte}", "", width = at - line.len());
        }
    }
    let _ = writeln!(out, "{:MARGIN$}{line}", "");
}

/// The row of names and the row of notes.
fn rows(strip: &Strip, scale: Scale) -> (String, String) {
    let end = scale.column(strip.bytes);
    let mut names = vec!['.'; end];
    let mut notes = vec![' '; end];
    let mut taken = vec![false; end];
    for part in &strip.parts {
        let first = scale.column(part.offset);
        let last = scale
            .column((part.offset + part.size).min(strip.bytes))
            .max(first + 1);
        let Some(columns) = taken
            .get_mut(first..last)
            .filter(|columns| !columns.contains(&true))
        else {
            continue;
        };
        columns.fill(true);
        names[first..last].fill(' ');
        names[first] = '|';
        put(&mut names[first + 1..last], &part.name);
        // A note of one column fits below the field's edge.
        let room = if last - first == 1 {
            first..last
        } else {
            first + 1..last
        };
        let fits = |note: &&String| note.chars().count() <= room.len();
        if let Some(note) = part.notes.iter().find(fits) {
            put(&mut notes[room], note);
        }
    }
    names.push('|');
    (names.into_iter().collect(), notes.into_iter().collect())
}

/// Writes as much of a text as there is room for; letters that take two columns, or none, as `?`.
fn put(columns: &mut [char], text: &str) {
    let text = shown(text).to_string();
    for (column, letter) in columns.iter_mut().zip(text.chars()) {
        *column = match letter.width() {
            Some(1) => letter,
            _ => '?',
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(offset: u64, size: u64, name: &str, notes: &[&str]) -> StripPart {
        StripPart {
            offset,
            size,
            name: name.to_owned(),
            notes: notes.iter().map(|&note| note.to_owned()).collect(),
        }
    }

    fn strip() -> Strip {
        Strip {
            title: "line 1".to_owned(),
            bytes: 64,
            parts: vec![
                part(0, 4, "nr_running", &["r10 w2", "w"]),
                part(8, 8, "curr", &["r10 w2", "w"]),
                part(10, 4, "hidden", &[]),
                part(16, 1, "flag", &["r1", "r"]),
                part(60, 4, "\u{1b}[2Jend", &["r1", "r"]),
            ],
        }
    }

    #[test]
    fn bytes_are_to_scale() {
        assert_eq!(
            drawn(&[strip()], Some(80)),
            "        0       8       16      24      32      40      48      56\n\
             line 1  |nr_....|curr   |...........................................|\\x1|\n\
             \x20        w       r10 w2 r                                            r1\n"
        );
    }

    #[test]
    fn no_row_is_wider_than_the_terminal() {
        for (bytes, widths) in [
            (64, [30, 73, 80, 120, 200, 500]),
            (128, [40, 80, 137, 150, 264, 300]),
        ] {
            for width in widths {
                let strip = Strip { bytes, ..strip() };
                let text = drawn(&[strip], Some(width));
                assert!(
                    text.lines().all(|line| line.chars().count() <= width),
                    "{width}:\n{text}"
                );
                assert!(text.lines().count() >= 2);
            }
        }
    }
}
