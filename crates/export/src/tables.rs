//! Documents as rows.

use linemate_answers::{CostsDocument, Figures, LedgerView, Report, Share, View, WhatIfDocument};

use crate::ExportError;
use crate::schema::{
    COSTS, CPU_PAIRS, EFFECTS, FIELDS, FUNCTIONS, LEDGER, LINE_COSTS, LINES, TYPES,
};
use crate::table::{Table, Value};

/// `accesses` to `writers` of a row.
fn figures(row: &Figures) -> Vec<Value> {
    vec![
        row.accesses.into(),
        row.loads.into(),
        row.stores.into(),
        row.rmws.into(),
        row.silent.into(),
        row.remote_share.into(),
        row.readers.into(),
        row.writers.into(),
    ]
}

/// The names with most accesses.
fn names(shares: &[Share]) -> Value {
    let names: Vec<&str> = shares.iter().map(|share| share.name.as_str()).collect();
    names.join(", ").into()
}

pub(crate) fn ledger(view: &LedgerView) -> Table {
    let mut table = Table::new(&LEDGER);
    for group in &view.groups {
        for bucket in &group.buckets {
            table.add(vec![
                group.name.as_ref().into(),
                bucket.name.as_ref().into(),
                bucket.accesses.into(),
            ]);
        }
    }
    table
}

pub(crate) fn types(report: &Report) -> Result<Table, ExportError> {
    let View::Types(rows) = &report.view else {
        return Err(ExportError::NoRows("types"));
    };
    let mut table = Table::new(&TYPES);
    for row in rows {
        let mut values: Vec<Value> = vec![
            row.name.as_str().into(),
            row.kind.as_ref().into(),
            row.place.as_str().into(),
            row.size.into(),
            row.objects.into(),
            row.shared.into(),
        ];
        values.extend(figures(&row.figures));
        values.push(names(&row.functions));
        table.add(values);
    }
    Ok(table)
}

pub(crate) fn fields(report: &Report) -> Result<Table, ExportError> {
    let View::Fields(rows) = &report.view else {
        return Err(ExportError::NoRows("fields"));
    };
    let mut table = Table::new(&FIELDS);
    for row in rows {
        let mut values: Vec<Value> = vec![
            row.type_name.as_str().into(),
            row.field.as_str().into(),
            row.aliases.join(" | ").into(),
            row.offset.into(),
            row.size.into(),
            row.line.into(),
        ];
        values.extend(figures(&row.figures));
        values.push(names(&row.functions));
        table.add(values);
    }
    Ok(table)
}

pub(crate) fn lines(report: &Report) -> Result<Table, ExportError> {
    let View::Lines(rows) = &report.view else {
        return Err(ExportError::NoRows("lines"));
    };
    let mut table = Table::new(&LINES);
    for row in rows {
        let mut values: Vec<Value> = vec![row.type_name.as_str().into(), row.line.into()];
        values.extend(figures(&row.figures));
        values.push(names(&row.fields));
        table.add(values);
    }
    Ok(table)
}

pub(crate) fn functions(report: &Report) -> Result<Table, ExportError> {
    let View::Functions(rows) = &report.view else {
        return Err(ExportError::NoRows("functions"));
    };
    let mut table = Table::new(&FUNCTIONS);
    for row in rows {
        let of = &row.figures;
        table.add(vec![
            row.name.as_str().into(),
            of.accesses.into(),
            of.loads.into(),
            of.stores.into(),
            of.rmws.into(),
            of.silent.into(),
            of.readers.into(),
            of.writers.into(),
            names(&row.types),
        ]);
    }
    Ok(table)
}

pub(crate) fn costs(document: &CostsDocument) -> Table {
    let costs = &document.costs;
    let mut table = Table::new(&COSTS);
    let parts = [
        ("everything", std::slice::from_ref(&costs.whole)),
        ("type", &costs.types),
        ("field", &costs.fields),
        ("function", &costs.functions),
    ];
    for (of, rows) in parts {
        for row in rows {
            let causes = &row.causes;
            table.add(vec![
                of.into(),
                row.name.as_str().into(),
                row.loads.into(),
                row.stores.into(),
                row.misses.into(),
                row.cycles.into(),
                row.waited.into(),
                row.hitm[0].into(),
                row.hitm[1].into(),
                row.hitm[2].into(),
                row.upgrades.into(),
                row.llc.into(),
                row.forwards.into(),
                row.dram.into(),
                causes.cold.into(),
                causes.capacity.into(),
                causes.true_sharing.into(),
                causes.false_sharing.into(),
                causes.unshared.into(),
            ]);
        }
    }
    table
}

pub(crate) fn line_costs(document: &CostsDocument) -> Table {
    let mut table = Table::new(&LINE_COSTS);
    for line in &document.costs.lines {
        table.add(vec![
            line.name.as_str().into(),
            line.start.into(),
            line.lines.into(),
            line.hitm.into(),
            line.misses.into(),
            line.cycles.into(),
        ]);
    }
    table
}

pub(crate) fn cpu_pairs(document: &CostsDocument) -> Table {
    let mut table = Table::new(&CPU_PAIRS);
    for pair in &document.costs.pairs {
        table.add(vec![
            pair.from.0.into(),
            pair.from.1.into(),
            pair.to.0.into(),
            pair.to.1.into(),
            pair.hitm.into(),
            pair.cycles.into(),
        ]);
    }
    table
}

pub(crate) fn effects(document: &WhatIfDocument) -> Table {
    let mut table = Table::new(&EFFECTS);
    for result in &document.results {
        let llc = &result.llc_misses;
        let mut measures = vec![
            ("everything", "everything", "cycles", result.whole),
            ("everything", "everything", "LLC misses", llc.whole),
            ("everything", "kernel", "LLC misses", llc.kernel),
            ("everything", "duration", "cycles", result.duration),
            ("types", "reported types", "cycles", result.types),
            ("types", "reported types", "LLC misses", llc.types),
        ];
        let parts = [
            ("cause", &result.causes),
            ("source", &result.sources),
            ("field", &result.fields),
            ("function", &result.functions),
        ];
        for (of, rows) in parts {
            for row in rows {
                measures.push((of, &row.name, "count", row.count));
                measures.push((of, &row.name, "cycles", row.cycles));
            }
        }
        for (of, name, unit, measure) in measures {
            table.add(vec![
                of.into(),
                name.into(),
                unit.into(),
                measure.without.into(),
                measure.with.into(),
                measure.difference.into(),
                measure.ci95.into(),
                measure.significant.into(),
            ]);
        }
    }
    table
}
