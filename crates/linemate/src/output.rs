//! Everything that the command writes for users passes here, made safe to print: see `linemate_text`.

use std::io::{self, Write};

use anyhow::Context;
use linemate_text::{json_escaped, shown, shown_lines};
use serde::Serialize;

/// Writes text to standard output. Names in it that come from files have been escaped by `shown` or a table; what was forgotten cannot
/// drive a terminal all the same.
pub(crate) fn text(text: &str) -> anyhow::Result<()> {
    write(&shown_lines(text))
}

/// Writes a document to standard output as JSON, with its exact values.
pub(crate) fn json(document: &impl Serialize) -> anyhow::Result<()> {
    json_text(&(serde_json::to_string_pretty(document)? + "\n"))
}

/// Writes JSON that has been made to standard output.
pub(crate) fn json_text(text: &str) -> anyhow::Result<()> {
    write(&json_escaped(text))
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.context("cannot write to standard output")
}

/// A line on standard error. That nobody reads it is not a reason to fail.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "linemate: {}", shown(line));
}

/// An error with its causes, in one line. A cause that the error before it has told already is left out.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if line.is_empty() {
            line = text;
        } else if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
    }
    let lines: Vec<&str> = line.lines().map(str::trim).collect();
    shown(&lines.join(" ")).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_without_repetitions() {
        let cause = linemate_recording::Error::Io {
            doing: "open the recording",
            source: io::Error::from_raw_os_error(2),
        };
        let error = Err::<(), _>(cause).context("/no/such").unwrap_err();
        assert_eq!(
            one_line(&error),
            "/no/such: cannot open the recording: No such file or directory (os error 2)"
        );
        let error = anyhow::anyhow!("a\n  b\x1b[2J");
        assert_eq!(one_line(&error), "a b\\x1b[2J");
    }
}
