//! `linemate whatif --html`, and the layouts that `--json` holds.

use std::collections::BTreeMap;

use linemate_answers::{LayoutChange, Page, WhatIf, WhatIfDocument};
use linemate_layout::{EditFile, Plan};
use linemate_machine::Machine;
use linemate_page::{empty_page, of_whatif};
use linemate_report::layout_changes;
use linemate_study::Session;
use linemate_study::experiment::line_of;
use linemate_types::{LineSize, TypeModel};

use super::Args;
use crate::page::{TOOL, about, settings};

/// The edited types before and after, for each line size of the results once.
pub(super) fn layouts(
    session: &Session<'_>,
    edits: &EditFile,
    images: &BTreeMap<String, TypeModel>,
    results: &[WhatIf],
) -> anyhow::Result<Vec<LayoutChange>> {
    let model = session.analysis().model();
    let mut changes = Vec::new();
    for line in [LineSize::B64, LineSize::B128] {
        if results.iter().any(|r| r.line_bytes == line.bytes()) {
            let mut plan = Plan::new(model, line, edits, images)?;
            changes.extend(layout_changes(&mut plan, line)?);
        }
    }
    Ok(changes)
}

/// The page of a what-if: the edited types first.
pub(super) fn page(
    args: &Args,
    session: &Session<'_>,
    machines: &[Machine],
    document: WhatIfDocument,
) -> anyhow::Result<Page> {
    let sizes = document.results.first().map(|result| &result.sizes);
    let names: Vec<String> = sizes
        .into_iter()
        .flatten()
        .map(|s| s.name.clone())
        .collect();
    let line = machines.first().map_or(LineSize::B64, line_of);
    let about = about(session, line, None, &names)?;
    let machines: Vec<&Machine> = machines.iter().collect();
    let mut settings = settings(&machines, &args.replaying);
    settings.insert("interleavings".to_owned(), args.interleavings.to_string());
    settings.insert("ablate".to_owned(), args.ablate.to_string());
    let title = format!(
        "{}: edits tried on {}",
        names.join(", "),
        args.input.path().display()
    );
    Ok(Page {
        headline: of_whatif(&document),
        type_name: names.first().cloned(),
        report: Some(about.report),
        rows_left_out: about.rows_left_out,
        types: about.types,
        layouts: document.layouts.clone(),
        whatif: Some(document),
        ..empty_page(TOOL, title, settings)
    })
}
