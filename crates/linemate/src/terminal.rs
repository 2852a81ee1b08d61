//! The terminal that standard output goes to.

use std::env;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::{Command, Stdio};

use anyhow::Context;

/// What standard output goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terminal {
    /// Columns that fit in a row. `None`: it is not a terminal, and `COLUMNS` is not set.
    pub(crate) width: Option<usize>,
    /// Rows that fit on the screen; `None` if there is no screen.
    height: Option<usize>,
    /// Whether colours are shown and wanted.
    pub(crate) colours: bool,
}

impl Terminal {
    /// `COLUMNS` sets the width even without a terminal; `NO_COLOR` and `TERM=dumb` turn off
    /// colours.
    pub(crate) fn of_stdout() -> Terminal {
        let is_terminal = io::stdout().is_terminal();
        let size = terminal_size::terminal_size_of(io::stdout());
        let size = size.filter(|_| is_terminal);
        let columns = env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
        let given = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        Terminal {
            width: columns
                .filter(|columns| *columns > 0)
                .or(size.map(|(width, _)| width.0.into())),
            height: size.map(|(_, height)| height.0.into()),
            colours: is_terminal && !given("NO_COLOR") && !is_dumb,
        }
    }

    /// `PAGER`, if it is set and that many lines do not fit on the screen.
    pub(crate) fn pager(&self, lines: usize) -> Option<String> {
        let pager = env::var("PAGER").ok();
        let pager = pager.filter(|pager| !pager.trim().is_empty() && pager != "cat");
        pager.filter(|_| self.height.is_some_and(|height| lines >= height))
    }
}

/// Shows the text in the pager.
///
/// # Errors
/// The pager cannot be started: nothing has been shown.
pub(crate) fn page(pager: &str, text: &str) -> anyhow::Result<()> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(pager).stdin(Stdio::piped());
    if env::var_os("LESS").is_none() {
        // Colours pass through; nothing is cleared at the end.
        command.env("LESS", "FRX");
    }
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start the pager {pager}"))?;
    if let Some(mut input) = child.stdin.take() {
        match input.write_all(text.as_bytes()) {
            // Its user has read enough.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                return Err(error).context("cannot write to the pager");
            }
            _ => {}
        }
    }
    child.wait().context("cannot wait for the pager")?;
    Ok(())
}
