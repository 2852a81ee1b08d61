//! `--html`: the page of an answer, and the general part that every page has.

use std::path::Path;
use std::process::{Command, Stdio};

use linemate_answers::{By, CostsDocument, Page, View};
use linemate_documents::{ReportOptions, report_document};
use linemate_files::Output;
use linemate_page::{About, Frame, detailed, html, page_type, shorten};
use linemate_session::Session;
use linemate_types::LineSize;

use crate::files::OutFile;
use crate::output::to_stderr;

/// Of the options in `--help`.
const HEADING: &str = "Page";

/// The version of linemate.
pub(crate) const TOOL: &str = env!("CARGO_PKG_VERSION");

/// Whether to write a page.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct PageArgs {
    /// Also write an interactive page: one self-contained HTML file (docs/guide/page.md)
    #[arg(long, help_heading = HEADING, value_name = "FILE")]
    html: Option<OutFile>,
    /// Open the page in the browser
    #[arg(long, help_heading = HEADING, requires = "html")]
    open: bool,
}

/// Where the page goes.
pub(crate) struct PageOutput<'a> {
    file: Option<(Output, &'a Path)>,
    open: bool,
}

impl PageArgs {
    /// Whether a page was requested.
    pub(crate) fn is_wanted(&self) -> bool {
        self.html.is_some()
    }

    /// Checks that the page can be written. Before the work, which can take minutes.
    pub(crate) fn output(&self) -> anyhow::Result<PageOutput<'_>> {
        let file = self.html.as_ref().map(|path| {
            let output = path.output()?;
            anyhow::Ok((output, &**path))
        });
        Ok(PageOutput {
            file: file.transpose()?,
            open: self.open,
        })
    }
}

impl PageOutput<'_> {
    /// Whether a page was requested.
    pub(crate) fn is_wanted(&self) -> bool {
        self.file.is_some()
    }

    /// Writes the page, and prints its path and contents. Without `--html` nothing is written.
    pub(crate) fn write(self, make: impl FnOnce() -> anyhow::Result<Page>) -> anyhow::Result<()> {
        let Some((output, path)) = self.file else {
            return Ok(());
        };
        let page = make()?;
        output.write(&html(&page)?)?;
        to_stderr(&format!("wrote {}: {}", path.display(), page.headline));
        if self.open {
            open(path);
        }
        Ok(())
    }
}

/// Opens the page in a browser; without one, only prints a note.
fn open(path: &Path) {
    let started = Command::new("xdg-open")
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(why) = started {
        let path = path.display();
        to_stderr(&format!("cannot open {path} in a browser: xdg-open: {why}"));
    }
}

/// The frame of a page with the title `title`, without a type.
pub(crate) fn frame(title: String) -> Frame {
    Frame {
        tool: TOOL.to_owned(),
        title,
        ..Frame::default()
    }
}

/// Collects the data of a recording: `asked` first, then the most expensive types.
pub(crate) fn about(
    session: &Session<'_>,
    line: LineSize,
    costs: Option<&CostsDocument>,
    asked: &[String],
) -> anyhow::Result<About> {
    let (analysis, counted) = (session.analysis(), session.counted());
    let mut options = ReportOptions {
        by: By::Type,
        type_name: None,
        all: true,
        top: usize::MAX,
        line,
    };
    let mut report = report_document(analysis, counted, &options)?;
    let mut types = Vec::new();
    for name in detailed(&report, costs, asked) {
        let is_asked = asked.contains(&name);
        options.type_name = Some(name);
        // An expensive item need not be a type: a variable, page contents.
        let Ok(report) = report_document(analysis, counted, &options) else {
            continue;
        };
        if let View::Type(view) = report.view {
            types.push(page_type(*view, is_asked));
        }
    }
    let rows_left_out = shorten(&mut report);
    Ok(About {
        report,
        rows_left_out,
        types,
    })
}
