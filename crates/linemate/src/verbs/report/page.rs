//! `linemate report --html` and `--svg`.

use anyhow::Context;
use linemate_files::Output;
use linemate_page::{Heat, Page, svg, trimmed};
use linemate_recording::Recording;
use linemate_report::{CostsDocument, costs_headline, report_headline, type_headline};
use linemate_study::Session;
use linemate_study::costs::{CostRun, costs};
use linemate_study::experiment::line_of;
use linemate_types::LineSize;

use super::Args;
use crate::output::tell;
use crate::page::{About, PageOutput, TOOL, about, settings};

/// Where the page and the picture go.
pub(super) struct Pictures<'a> {
    page: PageOutput<'a>,
    svg: Option<Output>,
}

impl<'a> Pictures<'a> {
    /// Checks that they can be written.
    pub(super) fn new(args: &'a Args) -> anyhow::Result<Pictures<'a>> {
        Ok(Pictures {
            page: args.page.output()?,
            svg: args.svg.as_deref().map(Output::new).transpose()?,
        })
    }

    /// Writes what was asked for. The page is about all types, so what they cost is replayed without regard to `--type`.
    pub(super) fn write(
        self,
        args: &Args,
        session: &Session<'_>,
        recording: &Recording,
        run: Option<CostRun<'_>>,
    ) -> anyhow::Result<()> {
        if self.svg.is_none() && !self.page.is_wanted() {
            return Ok(());
        }
        let name = || args.input.path().display().to_string();
        let document = match run {
            None => None,
            Some(run) => {
                let found = costs(session, None, run).with_context(name)?;
                Some(CostsDocument::new(
                    TOOL,
                    recording,
                    run.machine,
                    None,
                    found,
                ))
            }
        };
        let line = match run {
            Some(run) => line_of(run.machine),
            None => args.line.unwrap_or(LineSize::B64),
        };
        let asked = args.type_name.as_slice();
        let about = about(session, line, document.as_ref(), asked)?;
        if let (Some(output), Some(view)) = (self.svg, about.types.first()) {
            let heat = document.as_ref().map_or(Heat::Accesses, Heat::Cycles);
            output.write(&svg(view, heat))?;
            if let Some(path) = &args.svg {
                tell(&format!("wrote {}", path.display()));
            }
        }
        self.page.write(|| Ok(page(args, about, run, document)))
    }
}

fn page(
    args: &Args,
    about: About,
    run: Option<CostRun<'_>>,
    document: Option<CostsDocument>,
) -> Page {
    let machines: Vec<_> = run.iter().map(|run| run.machine).collect();
    let mut settings = settings(&machines, &args.replaying);
    if run.is_none() {
        let line = args.line.unwrap_or(LineSize::B64);
        settings.insert("line".to_owned(), line.bytes().to_string());
    }
    // The name as it is in the documents: `--type 'struct rq'` is about `rq`.
    let asked = args.type_name.as_ref().and(about.types.first());
    let asked = asked.map(|view| view.name.clone());
    let title = match &asked {
        Some(name) => format!("{name} in {}", args.input.path().display()),
        None => args.input.path().display().to_string(),
    };
    let from_costs = document
        .as_ref()
        .and_then(|d| costs_headline(d, asked.as_deref()));
    let headline = from_costs.unwrap_or_else(|| match about.types.first() {
        Some(view) if asked.is_some() => type_headline(view, about.report.ledger.total),
        _ => report_headline(&about.report),
    });
    let costs = document.map(|document| trimmed(document, &about.types));
    Page {
        headline,
        type_name: asked,
        report: Some(about.report),
        types: about.types,
        costs,
        ..Page::new(TOOL, title, settings)
    }
}
