//! `linemate report --html` and `--svg`.

use linemate_answers::{CostsDocument, Page};
use linemate_files::Output;
use linemate_machine::Machine;
use linemate_page::{Heat, empty_page, svg, trimmed};
use linemate_report::{report_headline, type_headline};
use linemate_study::Session;
use linemate_study::experiment::line_of;
use linemate_types::LineSize;

use super::Args;
use crate::files::OutFile;
use crate::output::tell;
use crate::page::{About, PageOutput, TOOL, about, settings};

/// Where the page and the picture go.
pub(super) struct Pictures<'a> {
    page: PageOutput<'a>,
    svg: Option<Output>,
}

/// What a recording costs on a machine.
pub(super) struct OnMachine<'m> {
    pub(super) machine: &'m Machine,
    /// Of all types.
    pub(super) document: CostsDocument,
    /// What the answer says about what was asked for.
    pub(super) headline: Option<String>,
}

impl<'a> Pictures<'a> {
    /// Checks that they can be written.
    pub(super) fn new(args: &'a Args) -> anyhow::Result<Pictures<'a>> {
        Ok(Pictures {
            page: args.page.output()?,
            svg: args.svg.as_ref().map(OutFile::output).transpose()?,
        })
    }

    /// Whether anything was asked for.
    pub(super) fn are_wanted(&self) -> bool {
        self.svg.is_some() || self.page.is_wanted()
    }

    /// Writes what was asked for, with what everything costs on a machine.
    pub(super) fn write(
        self,
        args: &Args,
        session: &Session<'_>,
        type_name: Option<&str>,
        costs: Option<OnMachine<'_>>,
    ) -> anyhow::Result<()> {
        if !self.are_wanted() {
            return Ok(());
        }
        let line = match &costs {
            Some(costs) => line_of(costs.machine),
            None => args.line.unwrap_or(LineSize::B64),
        };
        let asked: Vec<String> = type_name.map(str::to_owned).into_iter().collect();
        let document = costs.as_ref().map(|costs| &costs.document);
        let about = about(session, line, document, &asked)?;
        if let (Some(output), Some(view)) = (self.svg, about.types.first()) {
            let heat = document.map_or(Heat::Accesses, Heat::Cycles);
            output.write(&svg(view, heat))?;
            if let Some(path) = &args.svg {
                tell(&format!("wrote {}", path.display()));
            }
        }
        self.page.write(|| Ok(page(args, about, costs)))
    }
}

fn page(args: &Args, about: About, costs: Option<OnMachine<'_>>) -> Page {
    let machine = costs.as_ref().map(|costs| costs.machine);
    let mut settings = settings(machine.as_slice(), &args.replaying);
    if machine.is_none() {
        let line = args.line.unwrap_or(LineSize::B64);
        settings.insert("line".to_owned(), line.bytes().to_string());
    }
    // The name as it is in the documents: `--type 'struct rq'` is about `rq`.
    let asked = args.type_name.as_ref().and(about.types.first());
    let asked = asked.map(|page| page.view.name.clone());
    let title = match &asked {
        Some(name) => format!("{name} in {}", args.input.path().display()),
        None => args.input.path().display().to_string(),
    };
    let from_costs = costs.as_ref().and_then(|costs| costs.headline.clone());
    let headline = from_costs.unwrap_or_else(|| match about.types.first() {
        Some(page) if asked.is_some() => type_headline(&page.view, about.report.ledger.total),
        _ => report_headline(&about.report),
    });
    let costs = costs.map(|costs| trimmed(costs.document, &about.types));
    Page {
        headline,
        type_name: asked,
        report: Some(about.report),
        rows_left_out: about.rows_left_out,
        types: about.types,
        costs,
        ..empty_page(TOOL, title, settings)
    }
}
