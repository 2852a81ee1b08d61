//! Figures of the steps' outputs next to the published ones.

use linemate_answers::{CaseResults, Contended, FoundGroup, FoundType, Measured, PublishedRow};
use linemate_stats::change_between;

use crate::book::Book;
use crate::case::{Case, FoundFigure, PredictedFigure, PredictedOf, Published};
use crate::documents::{OutputError, Outputs};
use crate::plan::{Mode, Plan};

/// Collects what the steps left.
///
/// # Errors
/// An output that is not what its schema says.
pub fn results(
    tool: &str,
    case: &Case,
    mode: Mode,
    plan: &Plan<'_>,
    outputs: &Outputs,
) -> Result<CaseResults, OutputError> {
    let book = Book::new(case, plan, outputs)?;
    let mut results = CaseResults {
        schema: CaseResults::SCHEMA.into(),
        tool: tool.to_owned(),
        case: case.name.clone(),
        summary: case.summary.clone(),
        mode: mode.name().into(),
        replay: book.replay(),
        inputs: book.inputs(),
        found: book.found(),
        predicted: book.predicted(),
        rebuilt: book.rebuilt(),
        checked: book.checked(),
        published: Vec::new(),
    };
    let ours = Ours {
        results: &results,
        book: &book,
    };
    results.published = case.published.iter().map(|row| ours.row(row)).collect();
    Ok(results)
}

/// Our figures, looked up for the published ones.
struct Ours<'r> {
    results: &'r CaseResults,
    book: &'r Book<'r>,
}

impl Ours<'_> {
    fn row(&self, row: &Published) -> PublishedRow {
        PublishedRow {
            key: row.key.clone(),
            published: row.value.clone(),
            source: row.source.clone(),
            found: row.found.as_ref().map(|figure| self.figure(figure)),
            predicted: row.predicted.as_ref().map(|of| self.prediction(of)),
            rerecorded: row.predicted.as_ref().and_then(|of| self.rerecorded(of)),
        }
    }

    fn found_type(&self, name: &str) -> Option<&FoundType> {
        self.results.found.iter().find(|found| found.name == name)
    }

    fn group(&self, type_name: &str, field: &str) -> Option<&FoundGroup> {
        let groups = &self.found_type(type_name)?.groups;
        groups
            .iter()
            .find(|group| group.fields.iter().any(|name| name == field))
    }

    /// Our figure as text; that there is none is one, too.
    fn figure(&self, figure: &FoundFigure) -> String {
        let contended = |type_name: &str, field: &str| {
            let rows = &self.found_type(type_name)?.contended;
            let place = rows.iter().position(|row| is_named(&row.field, field))?;
            rows.get(place).map(|row| (place + 1, row))
        };
        let text = match figure {
            FoundFigure::GroupShare { type_name, field } => self
                .group(type_name, field)
                .map(|group| format!("{:.1} % of accesses", 100.0 * group.share)),
            FoundFigure::GroupLoadsPerStore { type_name, field } => {
                self.group(type_name, field).map(|group| {
                    let ratio = group.loads_per_store;
                    ratio.map_or_else(|| "no stores".to_owned(), |r| format!("{r:.1} : 1"))
                })
            }
            FoundFigure::GroupLines { type_name, field } => self
                .group(type_name, field)
                .map(|group| format!("lines {}", group.line_list())),
            FoundFigure::Rank { type_name, field } => {
                contended(type_name, field).map(|(place, _)| format!("place {place}"))
            }
            FoundFigure::CyclesPerLoad { type_name, field } => contended(type_name, field)
                .and_then(|(_, row)| row.cycles_per_load)
                .map(|cycles| format!("{cycles:.0} cycles")),
            FoundFigure::RankCorrelation { type_name, fields } => {
                self.rank_correlation(type_name, fields)
            }
            FoundFigure::CycleShare { type_name, fields } => self
                .found_type(type_name)
                .filter(|found| found.cycles > 0.0)
                .map(|found| {
                    let cycles: u64 = rows(found, fields).map(|row| row.cycles).sum();
                    format!("{:.1} % of cycles", 100.0 * cycles as f64 / found.cycles)
                }),
            FoundFigure::LoadsPerStore { type_name, fields } => {
                self.found_type(type_name).map(|found| {
                    let loads: u64 = rows(found, fields).map(|row| row.loads).sum();
                    let stores: u64 = rows(found, fields).map(|row| row.stores).sum();
                    match stores {
                        0 => "no stores".to_owned(),
                        stores => format!("{:.1} : 1", loads as f64 / stores as f64),
                    }
                })
            }
            FoundFigure::Accesses { type_name, field } => contended(type_name, field)
                .map(|(_, row)| format!("{} loads, {} stores", row.loads, row.stores)),
            FoundFigure::ShareUnder { function } => self
                .book
                .share_under(function)
                .map(|share| format!("{:.2} % of all cycles", 100.0 * share)),
        };
        text.unwrap_or_else(|| "not among what was found".to_owned())
    }

    fn prediction(&self, of: &PredictedOf) -> String {
        if let PredictedFigure::ShareUnder(function) = &of.of {
            let shares = self.book.predicted_share(of, function);
            let text = shares.map(|(without, with)| share_text(without, with));
            return text.unwrap_or_else(|| "not replayed".to_owned());
        }
        let predicted = self
            .results
            .predicted
            .iter()
            .find(|p| p.edit == of.edit && p.machine == of.machine);
        let Some(predicted) = predicted else {
            return "not replayed".to_owned();
        };
        let measure = match &of.of {
            PredictedFigure::Types => Some(&predicted.types),
            PredictedFigure::Function(name) => predicted.functions.get(name),
            PredictedFigure::Misses => Some(&predicted.llc_misses),
            PredictedFigure::LoadMisses => Some(&predicted.llc_load_misses),
            PredictedFigure::ShareUnder(_) => None,
        };
        match measure.and_then(Measured::relative) {
            Some((change, ci95)) => format!("{change:+.1} ± {ci95:.1} %"),
            None => "never left its core".to_owned(),
        }
    }

    /// Spearman's coefficient over the fields that both rankings have.
    fn rank_correlation(&self, type_name: &str, ranking: &[String]) -> Option<String> {
        let rows = &self.found_type(type_name)?.contended;
        let ours: Vec<&str> = rows
            .iter()
            .filter_map(|row| ranking.iter().find(|name| is_named(&row.field, name)))
            .map(String::as_str)
            .collect();
        let theirs: Vec<&str> = ranking
            .iter()
            .map(String::as_str)
            .filter(|name| ours.contains(name))
            .collect();
        let count = ours.len();
        if count < 2 {
            return None;
        }
        let apart = |(place, field): (usize, &&str)| {
            let other = theirs
                .iter()
                .position(|name| name == field)
                .unwrap_or(place);
            (place as f64 - other as f64).powi(2)
        };
        let squares: f64 = ours.iter().enumerate().map(apart).sum();
        let n = count as f64;
        let rho = 1.0 - 6.0 * squares / (n * (n * n - 1.0));
        Some(format!("{rho:.2} over {count} of {} fields", ranking.len()))
    }

    fn rerecorded(&self, of: &PredictedOf) -> Option<String> {
        if let PredictedFigure::ShareUnder(function) = &of.of {
            let [without, with] = self.book.rebuilt_shares(of, function)?;
            let mean = |shares: &[f64]| shares.iter().sum::<f64>() / shares.len() as f64;
            let text = share_text(mean(&without), mean(&with));
            return Some(match change_between(&without, &with) {
                Some(change) => format!("{text} ({})", change),
                None => text,
            });
        }
        let rebuilt = self
            .results
            .rebuilt
            .iter()
            .find(|r| r.edit == of.edit && r.machine == of.machine)?;
        let figure = match &of.of {
            PredictedFigure::Types => &rebuilt.cost,
            PredictedFigure::Function(name) => rebuilt.functions.get(name)?,
            PredictedFigure::Misses => &rebuilt.llc_misses,
            PredictedFigure::LoadMisses => &rebuilt.llc_load_misses,
            PredictedFigure::ShareUnder(_) => return None,
        };
        figure
            .best()
            .recorded_change
            .map(|change| change.to_string())
    }
}

/// Whether a row is that of a field: members of a union have one row, by all of their names.
fn is_named(row: &str, field: &str) -> bool {
    row == field || row.split(" | ").any(|name| name == field)
}

/// A share of all cycles before and after.
fn share_text(without: f64, with: f64) -> String {
    format!(
        "{:.2} → {:.2} % of all cycles",
        100.0 * without,
        100.0 * with
    )
}

/// The rows of these fields, as far as they cost anything.
fn rows<'f>(found: &'f FoundType, fields: &'f [String]) -> impl Iterator<Item = &'f Contended> {
    let rows = found.contended.iter();
    rows.filter(|row| fields.iter().any(|name| is_named(&row.field, name)))
}
