//! The answer in one sentence: what a report begins with.

use linemate_study::costs::Cost;
use linemate_text::shown;

use crate::CostsDocument;
use crate::model::{Report, Share, TypeView, View};
use crate::print::percent;
use crate::sums::share;

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
                "{} is shared most: of its {} accesses, {} of all, {} are to fields that are written and that several CPUs access.",
                shown(&row.name),
                row.figures.accesses,
                percent(share(row.figures.accesses, whole)),
                percent(share(shared, row.figures.accesses))
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

/// How often a type is accessed, of `whole` accesses, and by how many CPUs.
#[must_use]
pub fn type_headline(view: &TypeView, whole: u64) -> String {
    let figures = &view.figures;
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

/// What that type costs, without one what costs most of what can be laid out, and how much of that a layout can change; none if there is no
/// such type.
#[must_use]
pub fn costs_headline(document: &CostsDocument, type_name: Option<&str>) -> Option<String> {
    let row = match type_name {
        Some(name) => document.costs.types.iter().find(|row| row.name == name),
        None => document.laid_out().max_by_key(|row| row.cycles),
    }?;
    let causes = &row.causes;
    let part = |cycles| percent(share(cycles, row.cycles));
    Some(format!(
        "{} {}on {}: {} cycles, {} of all; a layout can change {} of that at most: false sharing {}, cold misses {}, capacity misses {}, \
         unshared {}.",
        shown(&row.name),
        if type_name.is_none() {
            "costs most "
        } else {
            ""
        },
        shown(&document.costs.machine),
        row.cycles,
        percent(share(row.cycles, document.costs.whole.cycles)),
        part(causes.false_sharing + causes.cold + causes.capacity + causes.unshared),
        part(causes.false_sharing),
        part(causes.cold),
        part(causes.capacity),
        part(causes.unshared),
    ))
}

impl CostsDocument {
    /// The rows of types that can be laid out: those of which fields are known. Names of files are in names of types, and have dots, too.
    pub(crate) fn laid_out(&self) -> impl Iterator<Item = &Cost> {
        let fields = self.costs.fields.iter();
        let owners: std::collections::BTreeSet<&str> = fields
            .flat_map(|field| {
                let dots = field.name.match_indices('.');
                dots.map(|(dot, _)| &field.name[..dot])
            })
            .collect();
        let types = self.costs.types.iter();
        types.filter(move |row| owners.contains(row.name.as_str()))
    }
}
