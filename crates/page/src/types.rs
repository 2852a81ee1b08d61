//! Which types' fields are in the page, and in which detail: every figure of every field, the rest
//! as far as the file stays small.

use std::collections::{BTreeMap, BTreeSet};

use linemate_answers::{
    CostsDocument, FieldColumns, FieldRow, Figures, LineColumns, LineRow, PageType, Report,
    TypeView, View,
};

/// The types whose fields are in the page, including the requested ones.
const DETAILED_MAX: usize = 24;
/// The maximum number of fields of a type with the functions that use them: `task_struct` has
/// thousands of fields, counting the elements of its arrays.
const FIELDS_MAX: usize = 400;
/// The maximum number of fields, and of lines, of a type whose accesses over time are in the page:
/// for a requested one, and for others.
const TIMES_ASKED: usize = 24;
const TIMES_OTHER: usize = 8;

fn line_columns(lines: &[LineRow]) -> LineColumns {
    let column = |of: fn(&LineRow) -> u64| lines.iter().map(of).collect();
    LineColumns {
        line: column(|row| row.line),
        loads: column(|row| row.figures.loads),
        stores: column(|row| row.figures.stores),
        rmws: column(|row| row.figures.rmws),
    }
}

/// The accesses of each line with any.
pub(crate) fn line_accesses(columns: &LineColumns) -> impl Iterator<Item = (u64, u64)> {
    let counts = columns.loads.iter().zip(&columns.stores).zip(&columns.rmws);
    let sum = |((loads, stores), rmws): ((&u64, &u64), &u64)| {
        loads.saturating_add(*stores).saturating_add(*rmws)
    };
    columns.line.iter().copied().zip(counts.map(sum))
}

fn push(columns: &mut FieldColumns, row: FieldRow) {
    let Figures {
        accesses: _, // The sum of loads, stores and RMWs.
        loads,
        stores,
        rmws,
        silent,
        remote_share,
        readers,
        writers,
    } = row.figures;
    columns.field.push(row.field);
    columns.offset.push(row.offset);
    columns.size.push(row.size);
    columns.loads.push(loads);
    columns.stores.push(stores);
    columns.rmws.push(rmws);
    columns.silent.push(silent);
    columns.remote_share.push(remote_share);
    columns.readers.push(readers);
    columns.writers.push(writers);
}

/// The fields, by offset.
fn touched_columns(columns: &FieldColumns) -> impl Iterator<Item = Touched<'_>> {
    let places = columns.field.iter().zip(&columns.offset).zip(&columns.size);
    let counts = columns.loads.iter().zip(&columns.stores).zip(&columns.rmws);
    places.zip(counts).map(
        |(((path, offset), size), ((loads, stores), rmws))| Touched {
            path,
            offset: *offset,
            size: *size,
            accesses: loads.saturating_add(*stores).saturating_add(*rmws),
        },
    )
}

/// A field that is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touched<'a> {
    pub(crate) path: &'a str,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) accesses: u64,
}

/// The page's form of `view`; more of a type that was `asked` for is included over time.
#[must_use]
pub fn page_type(mut view: TypeView, asked: bool) -> PageType {
    let most = if asked { TIMES_ASKED } else { TIMES_OTHER };
    let over_time = |rows: &Vec<Vec<u64>>| rows.iter().flatten().sum::<u64>();
    let (fields, lines) = (&mut view.times.fields, &mut view.times.lines);
    let fields_without_times = keep_busiest(fields, most, |f| over_time(&f.accesses)).len();
    let lines_without_times = keep_busiest(lines, most, |l| over_time(&l.accesses)).len();
    for place in &mut view.places {
        place.fields.clear();
    }
    let line_sums = line_columns(&std::mem::take(&mut view.lines));
    let mut rest = FieldColumns::default();
    for row in keep_busiest(&mut view.fields, FIELDS_MAX, |row| row.figures.accesses) {
        push(&mut rest, row);
    }
    PageType {
        view,
        rest,
        line_sums,
        fields_without_times,
        lines_without_times,
    }
}

/// Every field that is accessed.
pub(crate) fn touched(page: &PageType) -> impl Iterator<Item = Touched<'_>> {
    let rows = page.view.fields.iter().map(|row| Touched {
        path: &row.field,
        offset: row.offset,
        size: row.size,
        accesses: row.figures.accesses,
    });
    rows.chain(touched_columns(&page.rest))
}

/// Keeps the `most` with most accesses, in their order; of equals the first. Returns the others, in
/// their order.
fn keep_busiest<T>(list: &mut Vec<T>, most: usize, accesses: impl Fn(&T) -> u64) -> Vec<T> {
    if list.len() <= most {
        return Vec::new();
    }
    let mut ranked: Vec<(u64, usize)> = list.iter().map(accesses).zip(0..).collect();
    ranked.sort_by_key(|(accesses, at)| (std::cmp::Reverse(*accesses), *at));
    let kept: BTreeSet<usize> = ranked.into_iter().take(most).map(|(_, at)| at).collect();
    let mut rest = Vec::new();
    for (at, item) in std::mem::take(list).into_iter().enumerate() {
        match kept.contains(&at) {
            true => list.push(item),
            false => rest.push(item),
        }
    }
    rest
}

/// The types whose fields are shown: `asked`, then those that cost most, or without costs are
/// accessed most.
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

#[cfg(test)]
mod tests {
    use linemate_answers::{FieldMap, FieldTimes, Share, TypeTimes};

    use super::*;

    #[test]
    fn the_busiest_stay_in_their_order() {
        let mut list = vec![(0, 1), (1, 7), (2, 0), (3, 7), (4, 7)];
        let rest = keep_busiest(&mut list, 2, |(_, accesses)| *accesses);
        assert_eq!(list, [(1, 7), (3, 7)]);
        assert_eq!(rest, [(0, 1), (2, 0), (4, 7)]);
    }

    /// A type with more fields than the page has functions of, most of them accessed equally often.
    fn wide(fields: u64) -> TypeView {
        let row = |at: u64| FieldRow {
            type_name: "wide".to_owned(),
            field: format!("f[{at}]"),
            aliases: Vec::new(),
            offset: 8 * at,
            size: 8,
            line: at / 8,
            figures: Figures {
                accesses: 3 + at % 3,
                loads: 1,
                stores: 1 + at % 3,
                rmws: 1,
                silent: at % 2,
                remote_share: Some(0.25),
                readers: 2,
                writers: 1,
            },
            functions: vec![Share {
                name: "f".to_owned(),
                accesses: 1,
            }],
        };
        let rows: Vec<FieldRow> = (0..fields).map(row).collect();
        let sum = |rows: &[FieldRow]| rows.iter().map(|row| row.figures.accesses).sum::<u64>();
        let figures = |accesses| Figures {
            accesses,
            loads: accesses - 2,
            stores: 1,
            rmws: 1,
            ..Figures::default()
        };
        let lines = rows.chunks(8).zip(0..).map(|(rows, line)| LineRow {
            type_name: "wide".to_owned(),
            line,
            figures: figures(sum(rows)),
            fields: vec![Share {
                name: "f".to_owned(),
                accesses: sum(rows),
            }],
            members: Vec::new(),
        });
        let times = rows.iter().map(|row| FieldTimes {
            field: row.field.clone(),
            offset: row.offset,
            accesses: vec![vec![row.figures.accesses]],
        });
        TypeView {
            name: "wide".to_owned(),
            size: 8 * fields,
            line_size: 64,
            figures: figures(sum(&rows)),
            places: Vec::new(),
            layout: FieldMap::default(),
            lines: lines.collect(),
            groups: Vec::new(),
            times: TypeTimes {
                fields: times.collect(),
                ..TypeTimes::default()
            },
            fields: rows,
        }
    }

    #[test]
    fn every_field_keeps_its_figures_and_their_sum_is_the_types() {
        let (view, fields) = (wide(2000), 2000);
        let page = page_type(view.clone(), true);
        assert_eq!(page.view.fields.len(), FIELDS_MAX);
        assert_eq!(page.rest.field.len(), fields - FIELDS_MAX);
        assert_eq!(page.fields_without_times, fields - TIMES_ASKED);
        assert!(page.view.fields.iter().all(|row| !row.functions.is_empty()));
        let sum: u64 = touched(&page).map(|field| field.accesses).sum();
        assert_eq!(sum, view.figures.accesses);
        for field in touched(&page) {
            let row = view.fields.iter().find(|row| row.field == field.path);
            let row = row.map(|row| (row.offset, row.size, row.figures.accesses));
            assert_eq!(row, Some((field.offset, field.size, field.accesses)));
        }
        let lines: Vec<(u64, u64)> = line_accesses(&page.line_sums).collect();
        let expected = view.lines.iter().map(|l| (l.line, l.figures.accesses));
        assert_eq!(lines, expected.collect::<Vec<_>>());
    }

    #[test]
    fn a_type_of_few_fields_is_whole() {
        let page = page_type(wide(24), true);
        assert_eq!(page.rest, FieldColumns::default());
        assert_eq!(
            (page.fields_without_times, page.lines_without_times),
            (0, 0)
        );
        let other = page_type(wide(24), false);
        assert_eq!(other.fields_without_times, 24 - TIMES_OTHER);
    }
}
