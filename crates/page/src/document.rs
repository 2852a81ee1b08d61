//! What the page shows: the documents of `--json`, side by side.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use linemate_report::case::Results;
use linemate_report::model::{Report, TypeView, View};
use linemate_report::{CostsDocument, LayoutChange, WhatIfDocument};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The schema's name and version.
pub const SCHEMA: &str = "linemate.page/1";

/// The types whose fields are in the page, beside those that were asked for.
const DETAILED_MAX: usize = 24;
/// The most rows of a list that is not about those types.
const ROWS_MAX: usize = 400;
/// The most fields of a type: `task_struct` has thousands, by the elements of its arrays.
const FIELDS_MAX: usize = 600;
/// The most fields, and the most lines, of a type whose accesses over time are in the page: of one that was asked for, and of others.
const TIMES_ASKED: usize = 24;
const TIMES_OTHER: usize = 8;
/// A field of another type stays from this part of its line's cycles on, as in the command's tables.
const NEIGHBOUR_PART: u64 = 100;

/// What the page shows (docs/schema-page.md).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Page {
    /// [`SCHEMA`].
    pub schema: Cow<'static, str>,
    /// The version of linemate.
    pub tool: String,
    /// What the page is called.
    pub title: String,
    /// The answer in one sentence.
    pub headline: String,
    /// The type that was asked for.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// Every setting in effect, by the name of its option.
    pub settings: BTreeMap<String, String>,
    /// `linemate report --by type --json`, with at most 400 rows.
    pub report: Option<Report>,
    /// `linemate report --type T --json`, its `type`, for several types.
    pub types: Vec<TypeView>,
    /// `linemate report --machine M --json`, of the fields and lines only those of `types`.
    pub costs: Option<CostsDocument>,
    /// `linemate whatif --json`.
    pub whatif: Option<WhatIfDocument>,
    /// `linemate advise --json`, with or without a type.
    pub advise: Option<Value>,
    /// `linemate diff --json`.
    pub diff: Option<Value>,
    /// Layouts that belong together: of `whatif` and `advise` before and after, of `diff` both kernels'.
    pub layouts: Vec<LayoutChange>,
    /// `linemate case run --json`, of several cases.
    pub cases: Vec<Results>,
}

impl Page {
    /// An empty page, made by version `tool`.
    #[must_use]
    pub fn new(tool: &str, title: String, settings: BTreeMap<String, String>) -> Page {
        Page {
            schema: SCHEMA.into(),
            tool: tool.to_owned(),
            title,
            settings,
            ..Page::default()
        }
    }
}

/// The types to show the fields of: `asked`, then those that cost most, or are accessed most where nothing is known about costs.
#[must_use]
pub fn detailed(report: &Report, costs: Option<&CostsDocument>, asked: &[String]) -> Vec<String> {
    let View::Types(rows) = &report.view else {
        return asked.to_vec();
    };
    // A type can have several rows: one for each variable, cache and site.
    let mut ranks: BTreeMap<&str, u64> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.size.is_some()) {
        *ranks.entry(&row.name).or_default() += row.figures.accesses;
    }
    if let Some(costs) = costs {
        let cycles: BTreeMap<&str, u64> = costs
            .costs
            .types
            .iter()
            .map(|row| (row.name.as_str(), row.cycles))
            .collect();
        for (name, rank) in &mut ranks {
            *rank = cycles.get(name).copied().unwrap_or(0);
        }
    }
    let mut ranked: Vec<(&str, u64)> = ranks.into_iter().collect();
    ranked.sort_by_key(|(name, rank)| (std::cmp::Reverse(*rank), *name));
    let mut names = asked.to_vec();
    for (name, _) in ranked.into_iter().take(DETAILED_MAX) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// A type as the page has it: without lines and the fields of each place, of 600 fields those with most accesses, and over time those fields
/// and lines that have most: more of them of one that was asked for.
#[must_use]
pub fn condensed(mut view: TypeView, asked: bool) -> TypeView {
    let most = if asked { TIMES_ASKED } else { TIMES_OTHER };
    busiest(&mut view.times.fields, most, |field| &field.accesses);
    busiest(&mut view.times.lines, most, |line| &line.accesses);
    for place in &mut view.places {
        place.fields.clear();
    }
    view.lines.clear();
    let mut ranks: Vec<u64> = view.fields.iter().map(|row| row.figures.accesses).collect();
    ranks.sort_unstable_by_key(|accesses| std::cmp::Reverse(*accesses));
    if let Some(least) = ranks.get(FIELDS_MAX) {
        view.fields.retain(|row| row.figures.accesses > *least);
    }
    view
}

/// Keeps the `most` that have most accesses, in their order; of equals the first.
fn busiest<T>(list: &mut Vec<T>, most: usize, accesses: impl Fn(&T) -> &Vec<Vec<u64>>) {
    let sum = |item: &T| accesses(item).iter().flatten().sum::<u64>();
    let mut ranked: Vec<(u64, usize)> = list.iter().map(sum).zip(0..).collect();
    ranked.sort_by_key(|(sum, at)| (std::cmp::Reverse(*sum), *at));
    let kept: BTreeSet<usize> = ranked.into_iter().take(most).map(|(_, at)| at).collect();
    let mut at = 0..;
    list.retain(|_| at.next().is_some_and(|at| kept.contains(&at)));
}

/// The costs as the page has them: fields and lines of `types` only, no functions, and no row that is too small to be seen.
#[must_use]
pub fn trimmed(mut document: CostsDocument, types: &[TypeView]) -> CostsDocument {
    let shown = |name: &str| types.iter().any(|view| view.name == name);
    let costs = &mut document.costs;
    costs.fields.retain(|row| {
        let owner = row.name.split_once('.').map(|(owner, _)| owner);
        row.cycles > 0 && owner.is_some_and(shown)
    });
    costs.lines.retain(|line| shown(&line.name));
    for line in &mut costs.lines {
        let least = line.cycles;
        line.neighbours
            .retain(|cell| cell.cycles.saturating_mul(NEIGHBOUR_PART) >= least);
    }
    costs.types.truncate(ROWS_MAX);
    costs.functions.clear();
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_stay_in_their_order() {
        let mut list = vec![
            (0, vec![vec![1]]),
            (1, vec![vec![], vec![3, 4]]),
            (2, vec![]),
            (3, vec![vec![7]]),
            (4, vec![vec![7]]),
        ];
        busiest(&mut list, 2, |(_, rows)| rows);
        let names: Vec<i32> = list.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, [1, 3]);
    }
}
