//! `linemate case run --html`: this case, and those in the folders beside its own that have results.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use linemate_answers::{CaseResults, Page};
use linemate_page::empty_page;
use linemate_text::shown;

use crate::page::TOOL;

/// The page, `results` first. A folder beside it whose results cannot be read is as one without results.
pub(super) fn page(folder: &Path, results: CaseResults) -> Page {
    let mut cases = beside(folder);
    cases.retain(|case| case.case != results.case);
    let case = &results;
    let settings = BTreeMap::from([("quick".to_owned(), (case.mode == "quick").to_string())]);
    let title = match cases.len() {
        0 => case.case.clone(),
        others => format!("{} and {others} other cases", case.case),
    };
    let headline = headline(case);
    cases.insert(0, results);
    Page {
        headline,
        cases,
        ..empty_page(TOOL, title, settings)
    }
}

fn beside(folder: &Path) -> Vec<CaseResults> {
    let entries = fs::canonicalize(folder)
        .ok()
        .and_then(|own| fs::read_dir(own.parent()?).ok());
    let mut paths: Vec<_> = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .collect();
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let text = linemate_files::read_text(&path.join("results.json")).ok()?;
        serde_json::from_str(&text).ok()
    };
    paths.iter().filter_map(read).collect()
}

fn headline(case: &CaseResults) -> String {
    let changes = case.predicted.iter().filter_map(|predicted| {
        let (change, ci95) = predicted.types.relative()?;
        let (edit, machine) = (shown(&predicted.edit), shown(&predicted.machine));
        Some(format!("{edit} on {machine} {change:+.1} ± {ci95:.1} %"))
    });
    let changes: Vec<String> = changes.collect();
    format!("{}: predicted {}", shown(&case.case), changes.join("; "))
}
