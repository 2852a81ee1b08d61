//! What the page shows: the documents of `--json`, side by side.

use std::collections::BTreeSet;

use linemate_answers::{CostsDocument, PageType, Report, View};

/// The maximum number of names in a list that is not about the types whose fields are in the page.
const ROWS_MAX: usize = 400;
/// A field of another type is included from this share of its line's cycles on, as in the command's
/// tables.
const NEIGHBOUR_PART: u64 = 100;

/// Drops the rows of a report's types after those of the first 400 names, and returns how many. All
/// rows of a name in the page are kept, so that they can be summed: untyped memory has one for each
/// cache and site.
pub fn shorten(report: &mut Report) -> usize {
    let View::Types(rows) = &mut report.view else {
        return 0;
    };
    let mut names: BTreeSet<String> = BTreeSet::new();
    let before = rows.len();
    rows.retain(|row| {
        let kept = names.len() < ROWS_MAX || names.contains(&row.name);
        if kept && !names.contains(&row.name) {
            names.insert(row.name.clone());
        }
        kept
    });
    before - rows.len()
}

/// Costs of everything with the fields and lines of the type that `asked` is narrowed to as they
/// are there: wherever the type is, not only in objects of its own.
#[must_use]
pub fn with_narrowed(mut whole: CostsDocument, asked: &CostsDocument) -> CostsDocument {
    let Some(name) = &asked.type_name else {
        return whole;
    };
    let costs = &mut whole.costs;
    let own = |field: &str| {
        let rest = field.strip_prefix(name.as_str());
        rest.is_some_and(|rest| rest.starts_with('.') || rest.starts_with(" ("))
    };
    costs.fields.retain(|row| !own(&row.name));
    costs.fields.extend_from_slice(&asked.costs.fields);
    costs.lines.retain(|line| line.name != *name);
    costs.lines.extend_from_slice(&asked.costs.lines);
    whole
}

/// The costs as in the page: only fields and lines of `types`, no functions, and no row that is too
/// small to be seen.
#[must_use]
pub(crate) fn trimmed(mut document: CostsDocument, types: &[PageType]) -> CostsDocument {
    let shown = |name: &str| types.iter().any(|page| page.view.name == name);
    // Names of types can have dots, too: `node@server.c`.
    let is_of = |field: &str, owner: &str| {
        let rest = field.strip_prefix(owner);
        rest.is_some_and(|rest| rest.starts_with('.'))
    };
    let costs = &mut document.costs;
    costs.fields.retain(|row| {
        let owned = types.iter().any(|page| is_of(&row.name, &page.view.name));
        row.cycles > 0 && owned
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
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::collections::BTreeMap;

    use linemate_answers::{Cost, Costs, Figures, Inputs, LedgerView, LineCost, TypeRow};

    use super::*;

    fn report(names: &[&str]) -> Report {
        let row = |name: &&str| TypeRow {
            name: (*name).to_owned(),
            kind: "heap, typed".into(),
            place: String::new(),
            places: Vec::new(),
            size: Some(8),
            objects: None,
            shared: None,
            figures: Figures::default(),
            functions: Vec::new(),
        };
        Report {
            schema: "".into(),
            inputs: Inputs {
                tool: String::new(),
                recorded_by: String::new(),
                recording: BTreeMap::new(),
                checksum: None,
                cut: None,
            },
            ledger: LedgerView {
                recorded: 0,
                total: 0,
                typed_share: 0.0,
                programs: None,
                unknown_share: 0.0,
                groups: Vec::new(),
            },
            event: None,
            view: View::Types(names.iter().map(row).collect()),
        }
    }

    #[test]
    fn a_name_in_the_page_has_all_its_rows() {
        let mut names: Vec<String> = (0..ROWS_MAX + 3).map(|at| format!("t{at}")).collect();
        names.push("t7".to_owned());
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut report = report(&names);
        assert_eq!(shorten(&mut report), 3);
        let View::Types(rows) = &report.view else {
            return assert!(matches!(report.view, View::Types(_)));
        };
        assert_eq!(rows.len(), ROWS_MAX + 1);
        assert_eq!(rows.iter().filter(|row| row.name == "t7").count(), 2);
    }

    #[test]
    fn a_type_that_was_requested_has_its_costs_wherever_it_is() {
        let row = |name: &str, cycles| Cost {
            name: name.to_owned(),
            cycles,
            ..Cost::default()
        };
        let line = |name: &str, cycles| LineCost {
            name: name.to_owned(),
            cycles,
            ..LineCost::default()
        };
        let empty = serde_json::json!({
            "schema": CostsDocument::SCHEMA, "tool": "", "recording": {}, "checksum": null,
            "type": null, "costs": Costs::default(),
        });
        let empty: CostsDocument = serde_json::from_value(empty).unwrap();
        let of = |type_name: Option<&str>, fields: Vec<Cost>, lines: Vec<LineCost>| CostsDocument {
            type_name: type_name.map(str::to_owned),
            costs: Costs {
                fields,
                lines,
                ..Costs::default()
            },
            ..empty.clone()
        };
        let (fields, lines) = (
            vec![
                row("rq.cfs.load", 7),
                row("cfs.load", 2),
                row("cfs_b.load", 3),
            ],
            vec![line("rq", 7), line("cfs", 2)],
        );
        let whole = of(None, fields, lines);
        let asked = of(Some("cfs"), vec![row("cfs.load", 9)], vec![line("cfs", 9)]);
        let costs = with_narrowed(whole.clone(), &asked).costs;
        let fields: Vec<(&str, u64)> = costs
            .fields
            .iter()
            .map(|f| (f.name.as_str(), f.cycles))
            .collect();
        assert_eq!(
            fields,
            [("rq.cfs.load", 7), ("cfs_b.load", 3), ("cfs.load", 9)]
        );
        let lines: Vec<(&str, u64)> = costs
            .lines
            .iter()
            .map(|l| (l.name.as_str(), l.cycles))
            .collect();
        assert_eq!(lines, [("rq", 7), ("cfs", 9)]);
        assert_eq!(with_narrowed(whole.clone(), &whole), whole);
    }
}
