//! `linemate diff --html`.

use linemate_answers::{DiffDocument, LayoutChange, Page, PageType};
use linemate_machine::Machine;
use linemate_page::empty_page;
use linemate_study::Session;
use linemate_study::experiment::line_of;
use linemate_text::shown as safe;
use linemate_types::LineSize;

use super::Args;
use crate::page::{About, TOOL, about, settings};

/// What the page shows of a recording.
pub(super) fn shown(
    session: &Session<'_>,
    args: &Args,
    machine: Option<&Machine>,
) -> anyhow::Result<About> {
    let line = machine.map_or(LineSize::B64, line_of);
    about(session, line, None, args.type_name.as_slice())
}

/// The page: the fields of both, and the type in both kernels. Accesses and the ledger are those of the first.
pub(super) fn page(
    args: &Args,
    machine: Option<&Machine>,
    document: &DiffDocument,
    sides: [&Option<About>; 2],
) -> anyhow::Result<Page> {
    let machines: Vec<&Machine> = machine.into_iter().collect();
    let (a, b) = (args.a.display().to_string(), args.b.display().to_string());
    let mut page = Page {
        headline: headline(document),
        diff: Some(serde_json::to_value(document)?),
        ..empty_page(
            TOOL,
            format!("A {a}, B {b}"),
            settings(&machines, &args.replaying),
        )
    };
    let [Some(first), Some(second)] = sides else {
        return Ok(page);
    };
    for PageType { view, .. } in &first.types {
        let mut others = second.types.iter().map(|other| &other.view);
        if let Some(other) = others.find(|other| other.name == view.name) {
            page.layouts.push(LayoutChange {
                type_name: view.name.clone(),
                line_bytes: view.line_size,
                before: view.layout.clone(),
                after: other.layout.clone(),
                line_starts: Vec::new(),
            });
        }
    }
    page.type_name = args
        .type_name
        .as_ref()
        .and(first.types.first())
        .map(|t| t.view.name.clone());
    page.report = Some(first.report.clone());
    page.rows_left_out = first.rows_left_out;
    page.types.clone_from(&first.types);
    Ok(page)
}

fn headline(document: &DiffDocument) -> String {
    let sum = |fields: &linemate_answers::DiffSide| -> (u64, u64) {
        let fields = fields.fields.values();
        fields.fold((0, 0), |(accesses, cycles), f| {
            (accesses + f.loads + f.stores, cycles + f.cycles)
        })
    };
    let (a, b) = (sum(&document.a), sum(&document.b));
    let name = safe(document.type_name.as_deref().unwrap_or("all types")).to_string();
    let machine = document.machine.as_deref();
    let costs = machine.map(|machine| format!(", {} and {} cycles on {}", a.1, b.1, safe(machine)));
    format!(
        "{name}: {} accesses in A, {} in B{}",
        a.0,
        b.0,
        costs.unwrap_or_default()
    )
}
