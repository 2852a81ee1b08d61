//! The answer in one sentence: what a report begins with.

use linemate_answers::{
    Cost, CostsDocument, LedgerGroup, Report, Share, TypeView, View, is_large, share,
};
use linemate_text::shown;

use crate::print::percent;

/// What of a recording is shared most, or accessed most.
#[must_use]
pub fn report_headline(report: &Report) -> String {
    let whole = report.ledger.total;
    let most = |name: &str, verb: &str, accesses: u64| {
        format!(
            "{} {verb} most: {accesses} accesses, {} of all.",
            shown(name),
            percent(share(accesses, whole))
        )
    };
    let first = match &report.view {
        View::Types(rows) => rows.first().map(|row| match row.shared {
            Some(shared) if shared > 0 => format!(
                "Most shared: {}: {shared} of its {} accesses ({}) are to bytes that come from another CPU{}; it has {} of all accesses.",
                shown(&row.name),
                row.figures.accesses,
                percent(share(shared, row.figures.accesses)),
                most_by(&row.functions),
                percent(share(row.figures.accesses, whole)),
            ),
            _ => most(&row.name, "is accessed", row.figures.accesses),
        }),
        View::Fields(rows) => rows.first().map(|row| {
            let name = format!("{}.{}", row.type_name, row.field);
            most(&name, "is accessed", row.figures.accesses)
        }),
        View::Lines(rows) => rows.first().map(|row| {
            let name = format!("line {} of {}", row.line, row.type_name);
            most(&name, "is accessed", row.figures.accesses)
        }),
        View::Functions(rows) => rows
            .first()
            .map(|row| most(&row.name, "accesses memory", row.figures.accesses)),
        View::Sources(rows) => rows
            .first()
            .map(|row| most(&row.name, "accesses memory", row.figures.accesses)),
        View::Cpus(rows) => rows.iter().max_by_key(|row| row.accesses).map(|row| {
            let name = format!("CPU {}", row.cpu);
            most(&name, "accesses memory", row.accesses)
        }),
        View::Type(view) => Some(type_headline(view, whole)),
    };
    first.unwrap_or_else(|| "No access to a type that can be laid out.".to_owned())
}

fn most_by(functions: &[Share]) -> String {
    let first = functions.first();
    first.map_or(String::new(), |by| format!(", most by {}", shown(&by.name)))
}

/// How often a type is accessed, of `whole` accesses, and by how many CPUs.
#[must_use]
pub fn type_headline(view: &TypeView, whole: u64) -> String {
    let figures = &view.figures;
    if figures.accesses == 0 {
        return format!(
            "No access is attributed to {}: the recording has the type, but not where objects of it are.",
            shown(&view.name)
        );
    }
    let others = figures.remote_share.map_or(String::new(), |remote| {
        format!(", {} of them by other CPUs than the owner", percent(remote))
    });
    let by = view.fields.iter().max_by_key(|row| row.figures.accesses);
    let by = by.and_then(|row| row.functions.first());
    let by = by.map_or(String::new(), |Share { name, .. }| {
        format!("; its hottest field is used most by {}", shown(name))
    });
    format!(
        "{}: {} accesses, {} of all{others}; {} CPUs read it, {} write it{by}.",
        shown(&view.name),
        figures.accesses,
        percent(share(figures.accesses, whole)),
        figures.readers,
        figures.writers
    )
}

/// Whether a row is the kernel's memory in a recording without names for it: nobody can change
/// that.
fn is_unnamed(row: &Cost) -> bool {
    row.name == LedgerGroup::UNNAMED
}

/// What the requested type costs, wherever it is; without one what costs most, where in the source,
/// and for which causes. None if nothing costs anything.
#[must_use]
pub fn costs_headline(document: &CostsDocument) -> Option<String> {
    let costs = &document.costs;
    let asked = document.type_name.as_deref();
    let row = match asked {
        Some(name) => Cost::sum(name, &costs.places),
        None => costs.types.iter().find(|row| !is_unnamed(row))?.clone(),
    };
    if row.cycles == 0 {
        return None;
    }
    let part = |cycles| percent(share(cycles, row.cycles));
    let causes = &row.causes;
    let not_true = causes.false_sharing + causes.cold + causes.capacity + causes.unshared;
    let mut of = vec![
        ("false sharing", causes.false_sharing),
        ("cold misses", causes.cold),
        ("capacity misses", causes.capacity),
        ("unshared", causes.unshared),
    ];
    let is_laid_out =
        asked.is_some() || laid_out(document).any(|laid_out| laid_out.name == row.name);
    if !is_laid_out {
        of.insert(0, ("true sharing", causes.true_sharing));
    }
    let of = of.iter().map(|(name, cycles)| (name, part(*cycles)));
    // What rounds to nothing explains nothing.
    let of = of.filter(|(_, part)| *part != percent(0.0));
    let of: Vec<String> = of.map(|(name, part)| format!("{name} {part}")).collect();
    let of = of.join(", ");
    let hottest = costs
        .hottest
        .as_ref()
        .filter(|place| place.name == row.name);
    Some(format!(
        "{} {}on {}: {} cycles, {} of all{}{}; {}.",
        shown(&row.name),
        match asked {
            Some(_) => "",
            None if costs.types.first().is_some_and(is_unnamed) =>
                "costs most of the program's memory ",
            None => "costs most ",
        },
        shown(&costs.machine),
        row.cycles,
        percent(share(row.cycles, costs.whole.cycles)),
        most_in(&costs.fields, &row),
        hottest.map_or(String::new(), |place| format!(
            ", most at {}",
            shown(place.at())
        )),
        match (is_laid_out, of.is_empty()) {
            (true, false) => format!("{} of that is not true sharing: {of}", part(not_true)),
            (true, true) => "all of that is true sharing".to_owned(),
            (false, false) => of,
            (false, true) => "of no type that can be laid out".to_owned(),
        }
    ))
}

/// The fields of a row that cost most of it: the first, and up to two more that cost at least half
/// as much. A choice: two writers of a line cost about the same. Of members of a union the first.
fn most_in(fields: &[Cost], row: &Cost) -> String {
    let of_row = fields.iter().filter_map(|field| {
        let inside = field.name.strip_prefix(row.name.as_str())?;
        let name = inside.strip_prefix('.')?.split(" | ").next()?;
        Some((name, field.cycles))
    });
    let all: Vec<(&str, u64)> = of_row.collect();
    let most = all.iter().map(|(_, cycles)| *cycles).max().unwrap_or(0);
    let hot = all
        .iter()
        .filter(|(_, cycles)| *cycles > 0 && cycles.saturating_mul(2) >= most);
    let hot: Vec<String> = hot
        .map(|(name, _)| shown(name).to_string())
        .take(3)
        .collect();
    match hot.is_empty() || all.len() == 1 {
        true => String::new(),
        false => format!(", most in {}", hot.join(", ")),
    }
}

/// The rows of types that can be laid out: those of which fields are known. Names of files are in
/// names of types, and have dots, too.
fn laid_out(document: &CostsDocument) -> impl Iterator<Item = &Cost> {
    let fields = document.costs.fields.iter();
    let owners: std::collections::BTreeSet<&str> = fields
        .flat_map(|field| {
            let dots = field.name.match_indices('.');
            dots.map(|(dot, _)| &field.name[..dot])
        })
        .collect();
    let types = document.costs.types.iter();
    types.filter(move |row| owners.contains(row.name.as_str()))
}

/// Those, and what costs much without being one.
pub(crate) fn costly(document: &CostsDocument) -> impl Iterator<Item = &Cost> {
    let laid_out: std::collections::BTreeSet<&str> =
        laid_out(document).map(|row| row.name.as_str()).collect();
    let whole = document.costs.whole.cycles;
    let shown =
        move |row: &&Cost| laid_out.contains(row.name.as_str()) || is_large(row.cycles, whole);
    document.costs.types.iter().filter(shown)
}
