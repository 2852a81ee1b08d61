//! Documents as rows.

use linemate_answers::tables::{
    CostsRow, CpuPairsRow, EffectsRow, FieldsRow, FunctionsRow, LedgerRow, LineCostsRow, LinesRow,
    TypesRow,
};
use linemate_answers::{
    Cost, CostsDocument, LedgerView, Measure, MeasuredRow, PairCost, Report, Share, View, WhatIf,
    WhatIfDocument,
};

use crate::error::ExportError;
use crate::table::Table;

/// The names with most accesses.
fn names(shares: &[Share]) -> String {
    let names: Vec<&str> = shares.iter().map(|share| share.name.as_str()).collect();
    names.join(", ")
}

pub(crate) fn ledger(view: &LedgerView) -> Table {
    Table::new(view.groups.iter().flat_map(|group| {
        group.buckets.iter().map(|bucket| LedgerRow {
            group: group.name.to_string(),
            bucket: bucket.name.to_string(),
            accesses: bucket.accesses,
        })
    }))
}

pub(crate) fn types(report: &Report) -> Result<Table, ExportError> {
    let View::Types(rows) = &report.view else {
        return Err(ExportError::NoRows("types"));
    };
    Ok(Table::new(rows.iter().map(|row| TypesRow {
        type_name: row.name.clone(),
        kind: row.kind.to_string(),
        place: row.place.clone(),
        size: row.size,
        objects: row.objects,
        shared: row.shared,
        figures: row.figures.clone(),
        functions: names(&row.functions),
    })))
}

pub(crate) fn fields(report: &Report) -> Result<Table, ExportError> {
    let View::Fields(rows) = &report.view else {
        return Err(ExportError::NoRows("fields"));
    };
    Ok(Table::new(rows.iter().map(|row| FieldsRow {
        type_name: row.type_name.clone(),
        field: row.field.clone(),
        aliases: row.aliases.join(" | "),
        offset: row.offset,
        size: row.size,
        line: row.line,
        figures: row.figures.clone(),
        functions: names(&row.functions),
    })))
}

pub(crate) fn lines(report: &Report) -> Result<Table, ExportError> {
    let View::Lines(rows) = &report.view else {
        return Err(ExportError::NoRows("lines"));
    };
    Ok(Table::new(rows.iter().map(|row| LinesRow {
        type_name: row.type_name.clone(),
        line: row.line,
        figures: row.figures.clone(),
        fields: names(&row.fields),
    })))
}

pub(crate) fn functions(report: &Report) -> Result<Table, ExportError> {
    let View::Functions(rows) = &report.view else {
        return Err(ExportError::NoRows("functions"));
    };
    Ok(Table::new(rows.iter().map(|row| FunctionsRow {
        function: row.name.clone(),
        accesses: row.figures.accesses,
        loads: row.figures.loads,
        stores: row.figures.stores,
        rmws: row.figures.rmws,
        silent: row.figures.silent,
        readers: row.figures.readers,
        writers: row.figures.writers,
        types: names(&row.types),
    })))
}

pub(crate) fn costs(document: &CostsDocument) -> Table {
    let costs = &document.costs;
    let parts = [
        ("everything", std::slice::from_ref(&costs.whole)),
        ("type", &costs.types),
        ("field", &costs.fields),
        ("function", &costs.functions),
    ];
    let rows = |(subject, rows): (&'static str, _)| of_subject(subject, rows);
    Table::new(parts.into_iter().flat_map(rows))
}

fn of_subject(subject: &'static str, rows: &[Cost]) -> impl Iterator<Item = CostsRow> {
    rows.iter().map(move |row| CostsRow {
        subject,
        name: row.name.clone(),
        loads: row.loads,
        stores: row.stores,
        misses: row.misses,
        cycles: row.cycles,
        waited: row.waited,
        hitm_domain: row.hitm[0],
        hitm_socket: row.hitm[1],
        hitm_remote: row.hitm[2],
        upgrades: row.upgrades,
        llc: row.llc,
        forwards: row.forwards,
        dram: row.dram,
        cold: row.causes.cold,
        capacity: row.causes.capacity,
        true_sharing: row.causes.true_sharing,
        false_sharing: row.causes.false_sharing,
        unshared: row.causes.unshared,
    })
}

pub(crate) fn line_costs(document: &CostsDocument) -> Table {
    Table::new(document.costs.lines.iter().map(|line| LineCostsRow {
        name: line.name.clone(),
        start: line.start,
        lines: line.lines,
        hitm: line.hitm,
        misses: line.misses,
        cycles: line.cycles,
    }))
}

pub(crate) fn cpu_pairs(document: &CostsDocument) -> Table {
    let row = |pair: &PairCost| CpuPairsRow {
        from_cpu: pair.from.0,
        from_copy: pair.from.1,
        to_cpu: pair.to.0,
        to_copy: pair.to.1,
        hitm: pair.hitm,
        cycles: pair.cycles,
    };
    Table::new(document.costs.pairs.iter().map(row))
}

pub(crate) fn effects(document: &WhatIfDocument) -> Table {
    Table::new(document.results.iter().flat_map(effects_of))
}

fn effects_of(result: &WhatIf) -> Vec<EffectsRow> {
    let llc = &result.llc_misses;
    let mut rows = vec![
        effect("everything", "everything", "cycles", &result.whole),
        effect("everything", "everything", "LLC misses", &llc.whole),
        effect("everything", "kernel", "LLC misses", &llc.kernel),
        effect("everything", "duration", "cycles", &result.duration),
        effect("everything", "CPU time", "cycles", &result.time.cycles),
        effect("types", "reported types", "cycles", &result.types),
        effect("types", "reported types", "LLC misses", &llc.types),
    ];
    let parts: [(_, &[MeasuredRow]); 4] = [
        ("cause", &result.causes),
        ("source", &result.sources),
        ("field", &result.fields),
        ("function", &result.functions),
    ];
    for (subject, of) in parts {
        for row in of {
            rows.push(effect(subject, &row.name, "count", &row.count));
            rows.push(effect(subject, &row.name, "cycles", &row.cycles));
        }
    }
    rows
}

fn effect(subject: &'static str, name: &str, unit: &'static str, of: &Measure) -> EffectsRow {
    EffectsRow {
        subject,
        name: name.to_owned(),
        unit,
        without: of.without,
        with: of.with,
        difference: of.difference,
        ci95: of.ci95,
        significant: of.significant,
    }
}
