//! The answer in one sentence: what a report begins with.

use linemate_answers::{
    Cost, CostsDocument, LedgerGroup, Remedy, RemedyEffect, Report, Share, SurveyDocument,
    SurveyRow, TypeView, View, is_large, share,
};
use linemate_text::shown;

use crate::print::{percent, relative};

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
                "Most shared: {}: {shared} of its {} accesses ({}) are to bytes that come from another CPU; it has {} of all accesses{}.",
                shown(&row.name),
                row.figures.accesses,
                percent(share(shared, row.figures.accesses)),
                percent(share(row.figures.accesses, whole)),
                most_by(&row.functions),
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
    first.unwrap_or_else(|| "No access to a type with a layout.".to_owned())
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
            "No access is attributed to {}: the recording has the type, but not its objects' addresses.",
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
/// and for which causes, and if no layout changes that, the type with a layout that costs most.
/// None if nothing costs anything.
#[must_use]
pub fn costs_headline(document: &CostsDocument) -> Option<String> {
    let costs = &document.costs;
    if let Some(name) = &document.type_name {
        return cost_sentence(document, &Cost::sum(name, &costs.places), "");
    }
    let most = costs.types.iter().find(|row| !is_unnamed(row))?;
    let verb = match costs.types.first().is_some_and(is_unnamed) {
        true => "costs most of the program's memory ",
        false => "costs most ",
    };
    let first = cost_sentence(document, most, verb)?;
    let whole = costs.whole.cycles;
    let other = laid_out(document).next();
    let other = other.filter(|row| row.name != most.name && is_large(row.cycles, whole));
    let verb = "costs most of the types with a layout ";
    let second = other.and_then(|row| cost_sentence(document, row, verb));
    let both: Vec<String> = std::iter::once(first).chain(second).collect();
    Some(both.join(" "))
}

/// What a row costs, where, and for which causes.
fn cost_sentence(document: &CostsDocument, row: &Cost, verb: &str) -> Option<String> {
    let costs = &document.costs;
    let asked = document.type_name.as_deref();
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
        "{} {verb}on {}: {} cycles, {} of all{}{}; {}.",
        shown(&row.name),
        shown(&costs.machine),
        row.cycles,
        percent(share(row.cycles, costs.whole.cycles)),
        most_in(&costs.fields, row),
        hottest.map_or(String::new(), |place| format!(
            ", hottest at {}",
            shown(place.at())
        )),
        match (is_laid_out, of.is_empty()) {
            (true, false) => format!("{} of that is not true sharing: {of}", part(not_true)),
            (true, true) => "all of that is true sharing".to_owned(),
            (false, false) => of,
            (false, true) => "not a type with a layout".to_owned(),
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
        false => format!(", hottest in {}", hot.join(", ")),
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

/// The share of all cost that the estimate of a layout is worth a sentence from: a choice.
const ESTIMATE_MIN: f64 = 0.005;

/// The part of a confirmed gain that an estimate must reach to be mentioned after it, and exceed it
/// by if it is of the same type: a choice.
const ESTIMATE_PART: f64 = 0.1;

/// How many times a confirmed gain an estimate must be to be mentioned first: a choice.
const ESTIMATE_FIRST: f64 = 10.0;

/// What gains most: the remedy that replay confirmed, then the type whose layout is estimated to
/// gain most, if that is clearly more or of another type. Not the larger one first, unless it is
/// far larger: where locks are contended, replay shows a loss for layouts that the fast model
/// likes.
#[must_use]
pub fn survey_headline(survey: &SurveyDocument) -> String {
    let remedies = survey.remedies.remedies.iter();
    let remedies = remedies.filter_map(|remedy| Some((remedy.gain()?, remedy)));
    let remedy = largest(remedies);
    let confirmed_gain = remedy.and_then(Remedy::gain).unwrap_or(0.0);
    let layouts = survey.types.iter().filter_map(|row| {
        let estimate = row.estimate?;
        let mends = |name: &String| remedy.is_some_and(|remedy| remedy.concerns.contains(name));
        let is_mended = mends(&row.name) || row.inside.as_ref().is_some_and(mends);
        let enough = match is_mended {
            true => confirmed_gain * (1.0 + ESTIMATE_PART),
            false => confirmed_gain * ESTIMATE_PART,
        };
        let is_worth_it = estimate.share * row.share >= ESTIMATE_MIN && estimate.gain >= enough;
        is_worth_it.then_some((estimate.gain, (row, estimate.share)))
    });
    let remedy = remedy.and_then(|remedy| confirmed(remedy, survey));
    let layout = largest(layouts);
    let estimate = layout.and_then(|(row, _)| row.estimate);
    let estimate_first = estimate.is_some_and(|e| e.gain >= ESTIMATE_FIRST * confirmed_gain);
    let layout = layout.map(|(row, gain)| estimated(row, gain));
    let mut both: Vec<String> = remedy.into_iter().chain(layout).collect();
    if estimate_first {
        both.reverse();
    }
    match both.is_empty() {
        true => "No gain found: replay confirmed none of the remedies it tried, and no layout is estimated to save 0.5 % of all cost.".to_owned(),
        false => both.join(" "),
    }
}

/// The first of those with the largest gain.
fn largest<T>(all: impl Iterator<Item = (f64, T)>) -> Option<T> {
    let larger = |a: (f64, T), b: (f64, T)| if b.0 > a.0 { b } else { a };
    all.reduce(larger).map(|(_, of)| of)
}

/// The trial of a remedy that gains most.
fn confirmed(remedy: &Remedy, survey: &SurveyDocument) -> Option<String> {
    let trials = remedy.trials.iter();
    let trials = trials.filter_map(|trial| Some((trial.effect.gain()?, &trial.effect)));
    let RemedyEffect::Tried(gain) = largest(trials)? else {
        return None;
    };
    let change = match gain.whole.significant {
        true => format!("{} of all cost", relative(&gain.whole, gain.whole.without)),
        false => format!(
            "{} of the affected types' cost",
            relative(&gain.types, gain.types.without)
        ),
    };
    let of = match survey.recordings.len() > 1 {
        true => " of the first recording",
        false => "",
    };
    Some(format!(
        "{}: {}: {change} on {}, confirmed by replay{of}.",
        capitalised(remedy.kind.name()),
        shown(&remedy.subject),
        shown(&survey.remedies.machine)
    ))
}

fn estimated(row: &SurveyRow, gain: f64) -> String {
    let (what, whose) = match &row.inside {
        Some(inside) => {
            let (inside, outer) = (shown(inside), shown(&row.name));
            (
                format!("{inside}, which is in {outer},"),
                format!("{outer}'s"),
            )
        }
        None => (shown(&row.name).to_string(), "its".to_owned()),
    };
    format!(
        "Not confirmed: reordering {what} is estimated to change {whose} cost by -{}, all cost by -{}.",
        percent(gain),
        percent(gain * row.share)
    )
}

fn capitalised(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
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
