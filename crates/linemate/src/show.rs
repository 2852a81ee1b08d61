//! How an answer is shown: as text or JSON on standard output, and as a page.

use std::fmt::Write as _;

use linemate_answers::Page;
use linemate_report::Text;
use serde::Serialize;

use crate::number::{ROWS_MAX, between};
use crate::output;
use crate::page::{PageArgs, PageOutput};

/// How to show an answer.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct Showing {
    /// Maximum number of rows in a table, 0 to 1000000
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = between(0, ROWS_MAX))]
    pub(crate) top: usize,
    /// Explain the columns below each table
    #[arg(long, conflicts_with = "json")]
    explain: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// `--top` of a verb with several tables.
pub(crate) fn few(arg: clap::Arg) -> clap::Arg {
    arg.default_value("20")
}

impl Showing {
    /// Shows `document`: its JSON, or its text with the command that usually follows.
    pub(crate) fn show(
        self,
        document: &impl Serialize,
        text: impl FnOnce() -> Text,
        next: Option<String>,
    ) -> anyhow::Result<()> {
        if self.json {
            return output::json(document);
        }
        let mut text = text();
        if self.explain {
            text.explain();
        }
        if let Some(next) = next {
            // Writing to a text does not fail.
            let _ = writeln!(text, "\n{next}");
        }
        output::fitted(&text)
    }

    /// The same with the requested page. Must be called before the work: that a page cannot be
    /// written is reported at once.
    pub(crate) fn with_page(self, page: &PageArgs) -> anyhow::Result<Outputs<'_>> {
        Ok(Outputs {
            showing: self,
            page: page.output()?,
        })
    }
}

/// Where an answer goes.
pub(crate) struct Outputs<'a> {
    showing: Showing,
    page: PageOutput<'a>,
}

impl Outputs<'_> {
    /// Whether a page is made.
    pub(crate) fn has_page(&self) -> bool {
        self.page.is_wanted()
    }

    /// Writes the page, then shows `document`.
    pub(crate) fn show(
        self,
        document: &impl Serialize,
        page: impl FnOnce() -> anyhow::Result<Page>,
        text: impl FnOnce() -> Text,
        next: Option<String>,
    ) -> anyhow::Result<()> {
        self.page.write(page)?;
        self.showing.show(document, text, next)
    }
}
