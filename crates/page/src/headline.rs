//! The answer in one sentence: what the page begins with.

use linemate_report::model::{Report, View};
use linemate_report::{CostsDocument, WhatIfDocument};
use linemate_study::costs::Cost;
use linemate_text::shown;

/// What a layout can change of a row's cycles, at most.
fn changeable(row: &Cost) -> u64 {
    let causes = &row.causes;
    causes.false_sharing + causes.cold + causes.capacity + causes.unshared
}

fn percent(part: f64, whole: f64) -> String {
    let share = if whole > 0.0 {
        100.0 * part / whole
    } else {
        0.0
    };
    format!("{share:.1} %")
}

/// A count to three digits: `11.8 M`.
pub(crate) fn short(value: f64) -> String {
    let units = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    match units.into_iter().find(|(unit, _)| value.abs() >= *unit) {
        None => format!("{value:.0}"),
        Some((unit, name)) => match value / unit {
            part if part.abs() < 9.995 => format!("{part:.2}{name}"),
            part if part.abs() < 99.95 => format!("{part:.1}{name}"),
            part => format!("{part:.0}{name}"),
        },
    }
}

/// What costs most, or what the type costs, and how much of it a layout can change.
#[must_use]
pub fn of_costs(document: &CostsDocument, type_name: Option<&str>) -> Option<String> {
    let costs = &document.costs;
    let typed = |row: &&Cost| {
        document.costs.fields.iter().any(|field| {
            let owner = field.name.split_once('.').map(|(owner, _)| owner);
            owner == Some(row.name.as_str())
        })
    };
    let row = match type_name {
        Some(name) => costs.types.iter().find(|row| row.name == name),
        None => costs
            .types
            .iter()
            .filter(typed)
            .max_by_key(|row| changeable(row)),
    }?;
    let cycles = row.cycles as f64;
    Some(format!(
        "{} costs {} cycles on {}, {} of all; a layout can change at most {} of that: false sharing {}, cold misses {}, capacity {}, unshared {}",
        shown(&row.name),
        short(cycles),
        shown(&costs.machine),
        percent(cycles, costs.whole.cycles as f64),
        percent(changeable(row) as f64, cycles),
        percent(row.causes.false_sharing as f64, cycles),
        percent(row.causes.cold as f64, cycles),
        percent(row.causes.capacity as f64, cycles),
        percent(row.causes.unshared as f64, cycles),
    ))
}

/// What is accessed most, or how often the type is.
#[must_use]
pub fn of_report(report: &Report, type_name: Option<&str>) -> String {
    let View::Types(rows) = &report.view else {
        return String::new();
    };
    let typed = rows.iter().filter(|row| row.size.is_some());
    let name = match type_name {
        Some(name) => name,
        None => match typed.clone().max_by_key(|row| row.figures.accesses) {
            Some(row) => row.name.as_str(),
            None => return "No access to a type that is known".to_owned(),
        },
    };
    let of_type = typed.filter(|row| row.name == name);
    let accesses: u64 = of_type.map(|row| row.figures.accesses).sum();
    format!(
        "{}: {} accesses, {} of all; give --machine to see what they cost",
        shown(name),
        short(accesses as f64),
        percent(accesses as f64, report.ledger.total as f64)
    )
}

/// What the edits change.
#[must_use]
pub fn of_whatif(document: &WhatIfDocument) -> String {
    let sentence = |result: &linemate_study::WhatIf| {
        let names: Vec<&str> = result.sizes.iter().map(|size| size.name.as_str()).collect();
        let measure = &result.types;
        let verdict = match (measure.significant, measure.difference < 0.0) {
            (false, _) => "not significant",
            (true, true) => "better",
            (true, false) => "worse",
        };
        let part = |value: f64| 100.0 * value / measure.without.max(1.0);
        format!(
            "{} on {}: {:+.2} ± {:.2} % of {} cycles, {verdict}",
            shown(&names.join(", ")),
            shown(&result.machine),
            part(measure.difference),
            part(measure.ci95),
            short(measure.without),
        )
    };
    let sentences: Vec<String> = document.results.iter().map(sentence).collect();
    sentences.join("; ")
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn counts_have_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (999.0, "999"),
            (1000.0, "1.00 k"),
            (9996.0, "10.0 k"),
            (-118_153_250.0, "-118 M"),
            (2.5e9, "2.50 G"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
