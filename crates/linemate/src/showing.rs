//! The options of every verb that prints tables.

use std::fmt::Write as _;

use linemate_report::Text;

use crate::output;

/// How to show tables.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct Showing {
    /// Explain the columns below each table
    #[arg(long, conflicts_with = "json")]
    explain: bool,
}

impl Showing {
    /// Prints it, and the step that follows.
    pub(crate) fn print(self, mut text: Text, next: Option<String>) -> anyhow::Result<()> {
        if self.explain {
            text.explain();
        }
        if let Some(next) = next {
            // Writing to a text does not fail.
            let _ = writeln!(text, "\n{next}");
        }
        output::fitted(&text)
    }
}
