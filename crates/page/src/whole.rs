//! A page of the documents of an answer.

use std::collections::BTreeMap;

use linemate_answers::{Advised, LayoutChange, Page, PageType};

use crate::answered::{About, Answered, Frame};
use crate::document::trimmed;
use crate::headline::{errors, headline};

/// The page of an answer, about a recording if it is of one.
#[must_use]
pub fn page(frame: Frame, about: Option<About>, answered: Answered) -> Page {
    let mut page = Page {
        schema: Page::SCHEMA.into(),
        headline: headline(&answered, about.as_ref(), frame.type_name.is_some()),
        prediction_errors: errors(&answered),
        tool: frame.tool,
        title: frame.title,
        settings: frame.settings,
        type_name: frame.type_name,
        ..Page::default()
    };
    if let Some(about) = about {
        page.report = Some(about.report);
        page.rows_left_out = about.rows_left_out;
        page.types = about.types;
    }
    match answered {
        Answered::Counts => {}
        Answered::Costs { whole, .. } => {
            page.costs = Some(trimmed(*whole, &page.types));
        }
        Answered::WhatIf(document) => {
            page.layouts.clone_from(&document.layouts);
            page.whatif = Some(*document);
        }
        Answered::Advice { document, layouts } => {
            page.layouts = layouts;
            page.advise = Some(Advised::Advice(document));
        }
        Answered::Survey(document) => page.advise = Some(Advised::Survey(document)),
        Answered::Diff { document, others } => {
            page.layouts = in_both(&page.types, others);
            page.diff = Some(*document);
        }
        Answered::Cases(cases) => page.cases = cases,
    }
    page
}

/// The layouts of types that both recordings have.
fn in_both(types: &[PageType], others: Vec<PageType>) -> Vec<LayoutChange> {
    let mut others: BTreeMap<String, _> = others
        .into_iter()
        .rev()
        .map(|other| (other.view.name.clone(), other.view.layout))
        .collect();
    let change = |PageType { view, .. }: &PageType| {
        Some(LayoutChange {
            type_name: view.name.clone(),
            line_bytes: view.line_size,
            before: view.layout.clone(),
            after: others.remove(&view.name)?,
            line_starts: Vec::new(),
        })
    };
    types.iter().filter_map(change).collect()
}
