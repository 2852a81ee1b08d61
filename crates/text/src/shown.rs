//! Text from files, made safe to print.
//!
//! A recording, a kernel or a BTF blob can have any text as a name. Printed unescaped, an escape
//! sequence in it would change the terminal's title or colours, and a newline would forge a line of
//! output. So every name is printed with [`shown`], all text output passes [`shown_lines`], and all
//! JSON [`json_escaped`].

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter, Write};

/// Whether a character changes how the text around it is displayed: C0, DEL, C1, line and paragraph
/// separators, and controls of the writing direction.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

/// Whether a text contains characters that change how it is displayed, including newlines and tabs.
pub fn has_unsafe(text: &str) -> bool {
    text.contains(is_unsafe)
}

/// One line of text from a file; see [`shown`].
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(&'a str);

/// Displays `text` in one line, with each unsafe character as `\n`, `\x1b` or `\u{202e}`. Other
/// text is unchanged.
pub fn shown(text: &str) -> Shown<'_> {
    Shown(text)
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(&escaped(self.0, |_| false))
    }
}

/// Escapes like [`shown`], but lets newlines and tabs through: for a whole output whose lines are
/// our own.
pub fn shown_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, is_kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_escaped = |c: char| is_unsafe(c) && !is_kept(c);
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Writing to a String does not fail.
        let _ = match c {
            c if !is_escaped(c) => out.write_char(c),
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            '\t' => out.write_str("\\t"),
            c if u32::from(c) < 0x100 => write!(out, "\\x{:02x}", u32::from(c)),
            c => write!(out, "\\u{{{:x}}}", u32::from(c)),
        };
    }
    Cow::Owned(out)
}

/// The same JSON without unsafe characters other than newlines: in JSON they occur only inside
/// strings, where `\u` means the same.
pub fn json_escaped(json: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| is_unsafe(c) && c != '\n';
    if !json.contains(is_escaped) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        // All of them are below U+10000: one `\u` each. Writing to a String does not fail.
        let _ = match is_escaped(c) {
            true => write!(out, "\\u{:04x}", u32::from(c)),
            false => out.write_char(c),
        };
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_drives_a_terminal_is_escaped() {
        let cases = [
            ("task_struct", "task_struct"),
            ("Größe | 大小", "Größe | 大小"),
            ("\x1b[31mred", "\\x1b[31mred"),
            ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
            ("a\nb\r\tc\0", "a\\nb\\r\\tc\\x00"),
            ("\x7f\u{9b}2J\u{85}", "\\x7f\\x9b2J\\x85"),
            (
                "\u{202e}evil\u{2066}\u{200f}",
                "\\u{202e}evil\\u{2066}\\u{200f}",
            ),
            ("\u{2028}\u{2029}\u{61c}", "\\u{2028}\\u{2029}\\u{61c}"),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(text).to_string(), expected);
        }
        assert_eq!(format!("[{:>4}]", shown("\n")), "[  \\n]");
    }

    #[test]
    fn lines_keep_their_ends() {
        assert_eq!(shown_lines("a\n\tb\n"), "a\n\tb\n");
        assert_eq!(shown_lines("a\x1b\n\r"), "a\\x1b\n\\r");
    }

    #[test]
    fn json_keeps_its_values() {
        let json = "{\n  \"a\": \"\u{9b}\u{202e}\x7f\\u001b\"\n}\n";
        let safe = json_escaped(json);
        assert_eq!(safe, "{\n  \"a\": \"\\u009b\\u202e\\u007f\\u001b\"\n}\n");
        assert_eq!(json_escaped("{\n}\n"), "{\n}\n");
    }
}
