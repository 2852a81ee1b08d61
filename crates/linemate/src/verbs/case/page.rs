//! `linemate case run --html`: this case, and those in neighbouring folders that have results.

use std::fs;
use std::path::Path;

use linemate_answers::{CaseResults, Page};
use linemate_page::Answered;

use crate::page::frame;

/// The page, `results` first. A neighbouring folder whose results cannot be read counts as one
/// without results.
pub(super) fn page(folder: &Path, results: CaseResults) -> Page {
    let mut cases = beside(folder);
    cases.retain(|case| case.case != results.case);
    let title = match cases.len() {
        0 => results.case.clone(),
        others => format!("{} and {others} other cases", results.case),
    };
    let mut frame = frame(title);
    frame.set("quick", (results.mode == "quick").to_string());
    cases.insert(0, results);
    linemate_page::page(frame, None, Answered::Cases(cases))
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
