//! All output for users passes through here, made safe to print: see `linemate_text`.

use std::io::{self, Write};

use anstyle::AnsiColor;
use anyhow::Context;
use linemate_report::Text;
use linemate_text::{json_escaped, shown, shown_lines};
use serde::Serialize;

use crate::terminal::{self, Terminal};

/// Writes text to standard output. Names from files have been escaped by `shown` or a table; if one
/// was missed, it still cannot control a terminal.
pub(crate) fn text(text: &str) -> anyhow::Result<()> {
    write(&shown_lines(text))
}

/// The width of tables that go to a file or another program, unless `COLUMNS` is set: what an
/// editor or a mail shows. Names in C++ and Rust have hundreds of letters.
const PIPED_COLUMNS: usize = 120;

/// Writes prose and tables to standard output: as wide as the terminal and through the pager if
/// there is one, in colour unless that is unwanted.
pub(crate) fn fitted(text: &Text) -> anyhow::Result<()> {
    let terminal = Terminal::of_stdout();
    let fitted = match terminal.width {
        Some(width) => text.fitted(Some(width)),
        None => text.piped(PIPED_COLUMNS),
    };
    let safe = shown_lines(&fitted).to_string();
    let text = if terminal.colours {
        verdicts_in_colour(&safe)
    } else {
        safe
    };
    match terminal.pager(text.lines().count()) {
        Some(pager) => terminal::page(&pager, &text).or_else(|_| write(&text)),
        None => write(&text),
    }
}

/// A row's verdict, its last word: green if it is `better` and red if it is `worse`. The word says
/// it without the colour.
fn verdicts_in_colour(text: &str) -> String {
    let paint = |line: &str| {
        let colours = [("better", AnsiColor::Green), ("worse", AnsiColor::Red)];
        for (verdict, colour) in colours {
            if let Some(row) = line.strip_suffix(&format!("  {verdict}")) {
                let style = colour.on_default();
                return format!("{row}  {style}{verdict}{style:#}\n");
            }
        }
        format!("{line}\n")
    };
    text.lines().map(paint).collect()
}

/// Writes a document to standard output as JSON, with its exact values.
pub(crate) fn json(document: &impl Serialize) -> anyhow::Result<()> {
    json_text(&linemate_report::pretty(document)?)
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

/// A line on standard error. Nobody reading it is not a reason to fail.
pub(crate) fn to_stderr(line: &str) {
    let _ = writeln!(io::stderr(), "linemate: {}", shown(line));
}

/// An error with its causes, in one line. A cause that the previous error already states is left
/// out, and so are the system's numbers of errors, whose names are there.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let text = without_number(cause.to_string());
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

/// The text without ` (os error N)` at its end.
fn without_number(mut text: String) -> String {
    let numbered = text.strip_suffix(')').and_then(|rest| {
        let (before, number) = rest.rsplit_once(" (os error ")?;
        number.parse::<i32>().is_ok().then_some(before.len())
    });
    if let Some(end) = numbered {
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_words_that_have_a_colour() {
        let text = "a  better\nb better\nworse\nc  worse\n";
        assert_eq!(
            verdicts_in_colour(text),
            "a  \u{1b}[32mbetter\u{1b}[0m\nb better\nworse\nc  \u{1b}[31mworse\u{1b}[0m\n"
        );
    }

    #[test]
    fn an_error_is_one_line_without_repetitions() {
        let cause = linemate_recording::Error::Io {
            doing: "open the recording",
            source: io::Error::from_raw_os_error(2),
        };
        let error = Err::<(), _>(cause).context("/no/such").unwrap_err();
        assert_eq!(
            one_line(&error),
            "/no/such: cannot open the recording: No such file or directory"
        );
        let error = anyhow::anyhow!("a (os error x)").context("b");
        assert_eq!(one_line(&error), "b: a (os error x)");
        let error = anyhow::anyhow!("a\n  b\x1b[2J");
        assert_eq!(one_line(&error), "a b\\x1b[2J");
    }
}
