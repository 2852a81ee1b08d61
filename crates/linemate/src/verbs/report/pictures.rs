//! `linemate report --html` and `--svg`.

use linemate_answers::{CostsDocument, Page};
use linemate_files::Output;
use linemate_machine::Machine;
use linemate_page::{About, Answered, Frame, Heat, svg};
use linemate_session::Session;
use linemate_types::LineSize;

use super::Args;
use crate::files::OutFile;
use crate::output::to_stderr;
use crate::page::{about, frame};
use crate::show::Outputs;

/// Where the page and the picture go.
pub(super) struct Pictures<'a> {
    pub(super) outputs: Outputs<'a>,
    svg: Option<Output>,
}

impl<'a> Pictures<'a> {
    /// Checks that they can be written.
    pub(super) fn new(args: &'a Args) -> anyhow::Result<Pictures<'a>> {
        Ok(Pictures {
            outputs: args.showing.with_page(&args.page)?,
            svg: args.svg.as_ref().map(OutFile::output).transpose()?,
        })
    }

    /// Whether any is requested.
    pub(super) fn are_wanted(&self) -> bool {
        self.svg.is_some() || self.outputs.has_page()
    }

    /// Writes the picture, and collects the page's data about the recording; nothing if neither was
    /// requested.
    pub(super) fn draw(
        &mut self,
        args: &Args,
        session: &Session<'_>,
        costs: Option<&CostsDocument>,
        type_name: Option<&str>,
    ) -> anyhow::Result<Option<About>> {
        if !self.are_wanted() {
            return Ok(None);
        }
        let line = match costs.map(|document| document.costs.line_bytes) {
            Some(bytes) => LineSize::new(bytes)?,
            None => args.question.line(),
        };
        let asked: Vec<String> = type_name.map(str::to_owned).into_iter().collect();
        let about = about(session, line, costs, &asked)?;
        if let (Some(output), Some(page)) = (self.svg.take(), about.types.first()) {
            let heat = costs.map_or(Heat::Accesses, Heat::Cycles);
            output.write(&svg(page, heat))?;
            if let Some(path) = &args.svg {
                to_stderr(&format!("wrote {}", path.display()));
            }
        }
        Ok(Some(about))
    }
}

/// The page of a report, on `machines`.
pub(super) fn page(
    args: &Args,
    machines: &[Machine],
    about: Option<About>,
    answered: Answered,
) -> Page {
    let types = about.as_ref().map_or(&[][..], |about| &about.types);
    // The name as in the documents: `--type 'struct rq'` is about `rq`.
    let asked = args.question.type_name.as_ref().and(types.first());
    let type_name = asked.map(|page| page.view.name.clone());
    let place = args.question.place();
    let title = match &type_name {
        Some(name) => format!("{name} in {place}"),
        None => place,
    };
    let frame = Frame {
        settings: args.question.settings(machines),
        type_name,
        ..frame(title)
    };
    linemate_page::page(frame, about, answered)
}
