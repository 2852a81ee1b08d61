//! What came out of a case: the model behind results.json (docs/cases.md) and results.md.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::book::Book;
use crate::case::{Case, FoundFigure, PredictedFigure, PredictedOf, Published};
use crate::figures::FigureError;
use crate::plan::{Mode, Plan, StepId};

/// The schema's name and version.
pub const SCHEMA: &str = "linemate.case/2";

/// The JSON that steps left.
pub type Outputs = BTreeMap<StepId, Value>;

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The version of linemate.
    pub tool: String,
    /// The case.
    pub case: String,
    /// What it is about.
    pub summary: String,
    /// `quick` or `full`.
    pub mode: &'static str,
    /// What was recorded.
    pub inputs: Inputs,
    /// By type: what the unmodified kernel shows.
    pub found: Vec<FoundType>,
    /// By edit and machine: what it would change on the unmodified kernel.
    pub predicted: Vec<Predicted>,
    /// By edit with patches and machine: the prediction and the kernel that was built.
    pub rebuilt: Vec<Rebuilt>,
    /// What kernels with patches have stood.
    pub checked: Vec<Checked>,
    /// The published figures and ours.
    pub published: Vec<PublishedRow>,
}

/// What was recorded of the unmodified kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Inputs {
    /// What the recording says about its run.
    pub recording: BTreeMap<String, String>,
    /// Its checksum.
    pub checksum: String,
    /// Its accesses.
    pub accesses: u64,
}

/// A type on the unmodified kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FoundType {
    /// The type.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Accesses to its objects.
    pub accesses: u64,
    /// Its groups of fields, most used first.
    pub groups: Vec<FoundGroup>,
    /// The machine of the costs.
    pub machine: String,
    /// Cycles of its accesses that left their core.
    pub cycles: f64,
    /// The part of them that is true sharing, from 0 to 1: no layout changes it.
    pub true_sharing: f64,
    /// The part of them that is false sharing.
    pub false_sharing: f64,
    /// The fields that cost most.
    pub contended: Vec<Contended>,
}

/// Fields that are used together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FoundGroup {
    /// `atomic`, `read by others` or `own`.
    pub class: String,
    /// The fields, most used first.
    pub fields: Vec<String>,
    /// Of the type's accesses, from 0 to 1.
    pub share: f64,
    /// Absent without stores.
    pub loads_per_store: Option<f64>,
    /// The lines that they lie on.
    pub lines: Vec<u64>,
}

/// A field that costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contended {
    /// The field.
    pub field: String,
    /// Cycles of its accesses that left their core.
    pub cycles: u64,
    /// Loads.
    pub loads: u64,
    /// Stores and atomics.
    pub stores: u64,
    /// Modified lines that came from other cores.
    pub hitm: u64,
    /// Average cycles of a load that left its core, in lines that went between cores.
    pub cycles_per_load: Option<f64>,
}

/// Two sides of a what-if.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Without the edit.
    pub without: f64,
    /// With it.
    pub with: f64,
    /// The mean of the paired differences.
    pub difference: f64,
    /// Half the width of its 95 % confidence interval.
    pub bar: f64,
}

/// What an edit would change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Predicted {
    /// The edit.
    pub edit: String,
    /// The machine.
    pub machine: String,
    /// CPUs replayed.
    pub cpus: u64,
    /// Bytes of a line.
    pub line_bytes: u64,
    /// The edited types with their lines without and with the edit.
    pub sizes: Vec<(String, u64, u64)>,
    /// Cycles of the edited types.
    pub types: Measured,
    /// Cycles of everything.
    pub whole: Measured,
    /// Accesses of kernel code that missed the last-level cache.
    pub misses: Measured,
    /// Cycles by function, for the functions that published figures are about.
    pub functions: BTreeMap<String, Measured>,
    /// Accesses that would not happen.
    pub skipped: u64,
}

/// A figure of several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The smallest.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

/// A prediction beside the kernel that was built, each run the mean over its interleavings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Compared {
    /// The kernel built without patches.
    pub without: Spread,
    /// Predicted from it.
    pub predicted: Spread,
    /// The kernel with the patches.
    pub rerecorded: Spread,
}

/// What became of an edit in the kernel that was built with its patches.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rebuilt {
    /// The edit.
    pub edit: String,
    /// The machine.
    pub machine: String,
    /// The types whose cost is compared.
    pub types: Vec<String>,
    /// How often each of both kernels was recorded.
    pub runs: usize,
    /// Cycles of the types.
    pub cost: Compared,
    /// Cycles of everything.
    pub whole: Compared,
    /// Accesses of kernel code that missed the last-level cache.
    pub misses: Compared,
    /// Cycles by function, for the functions that published figures are about; one that is inlined in either kernel has none.
    pub functions: BTreeMap<String, Compared>,
}

/// A check that a kernel with patches has passed: a case whose check fails has no results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// The edit.
    pub edit: String,
    /// The check.
    pub check: String,
    /// Fragments that were laid over the configuration for it.
    pub config: Vec<String>,
    /// The last line that it said.
    pub said: String,
}

/// A published figure beside ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PublishedRow {
    /// What was measured.
    pub key: String,
    /// The published figure.
    pub published: String,
    /// Where it is from.
    pub source: String,
    /// Ours on the unmodified kernel.
    pub found: Option<String>,
    /// Ours, predicted.
    pub predicted: Option<String>,
    /// Ours, from the rebuilt kernel.
    pub rerecorded: Option<String>,
}

impl Results {
    /// Collects what the steps left.
    ///
    /// # Errors
    /// An output that lacks what its schema promises.
    pub fn new(
        tool: &str,
        case: &Case,
        mode: Mode,
        plan: &Plan<'_>,
        outputs: &Outputs,
    ) -> Result<Results, FigureError> {
        let book = Book {
            case,
            plan,
            outputs,
        };
        let mut results = Results {
            schema: SCHEMA,
            tool: tool.to_owned(),
            case: case.name.clone(),
            summary: case.summary.clone(),
            mode: mode.name(),
            inputs: book.inputs()?,
            found: book.found()?,
            predicted: book.predicted()?,
            rebuilt: book.rebuilt()?,
            checked: book.checked()?,
            published: Vec::new(),
        };
        results.published = case.published.iter().map(|row| results.row(row)).collect();
        Ok(results)
    }

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
        self.found.iter().find(|found| found.name == name)
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
            let place = rows.iter().position(|row| row.field == field)?;
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
                .map(|group| format!("lines {}", list(&group.lines))),
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
                    let cycles: u64 = found.rows(fields).map(|row| row.cycles).sum();
                    format!("{:.1} % of cycles", 100.0 * cycles as f64 / found.cycles)
                }),
            FoundFigure::LoadsPerStore { type_name, fields } => {
                self.found_type(type_name).map(|found| {
                    let loads: u64 = found.rows(fields).map(|row| row.loads).sum();
                    let stores: u64 = found.rows(fields).map(|row| row.stores).sum();
                    match stores {
                        0 => "no stores".to_owned(),
                        stores => format!("{:.1} : 1", loads as f64 / stores as f64),
                    }
                })
            }
            FoundFigure::Accesses { type_name, field } => contended(type_name, field)
                .map(|(_, row)| format!("{} loads, {} stores", row.loads, row.stores)),
        };
        text.unwrap_or_else(|| "not among what was found".to_owned())
    }

    fn prediction(&self, of: &PredictedOf) -> String {
        let predicted = self
            .predicted
            .iter()
            .find(|p| p.edit == of.edit && p.machine == of.machine);
        let measure = predicted.and_then(|p| match &of.of {
            PredictedFigure::Types => Some(&p.types),
            PredictedFigure::Function(name) => p.functions.get(name),
            PredictedFigure::Misses => Some(&p.misses),
        });
        match measure.and_then(Measured::relative) {
            Some((change, bar)) => format!("{change:+.1} ± {bar:.1} %"),
            None => "never left its core".to_owned(),
        }
    }

    /// Spearman's coefficient over the fields that both rankings have.
    fn rank_correlation(&self, type_name: &str, ranking: &[String]) -> Option<String> {
        let rows = &self.found_type(type_name)?.contended;
        let ours: Vec<&str> = rows
            .iter()
            .map(|row| row.field.as_str())
            .filter(|field| ranking.iter().any(|name| name == field))
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
        let rebuilt = self
            .rebuilt
            .iter()
            .find(|r| r.edit == of.edit && r.machine == of.machine)?;
        let compared = match &of.of {
            PredictedFigure::Types => &rebuilt.cost,
            PredictedFigure::Function(name) => rebuilt.functions.get(name)?,
            PredictedFigure::Misses => &rebuilt.misses,
        };
        compared.change().map(|change| format!("{change:+.1} %"))
    }
}

impl Measured {
    /// Difference and bar in per cent of the side without the edit; `None` when that is nothing.
    #[must_use]
    pub fn relative(&self) -> Option<(f64, f64)> {
        let percent = |figure: f64| 100.0 * figure / self.without;
        (self.without > 0.0).then(|| (percent(self.difference), percent(self.bar)))
    }
}

impl FoundType {
    /// The rows of these fields, as far as they cost anything.
    fn rows<'f>(&'f self, fields: &'f [String]) -> impl Iterator<Item = &'f Contended> {
        let rows = self.contended.iter();
        rows.filter(|row| fields.contains(&row.field))
    }
}

impl Spread {
    fn of(figures: &[f64]) -> Spread {
        Spread {
            mean: figures.iter().sum::<f64>() / figures.len().max(1) as f64,
            least: figures.iter().copied().reduce(f64::min).unwrap_or(0.0),
            most: figures.iter().copied().reduce(f64::max).unwrap_or(0.0),
        }
    }
}

impl Compared {
    /// How much less or more the kernel with the patches costs, in per cent.
    #[must_use]
    pub fn change(&self) -> Option<f64> {
        (self.without.mean > 0.0).then(|| 100.0 * (self.rerecorded.mean / self.without.mean - 1.0))
    }

    /// How far the predicted cost is from the re-recorded one, in per cent of the re-recorded.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        let (predicted, rerecorded) = (self.predicted.mean, self.rerecorded.mean);
        (rerecorded > 0.0).then(|| 100.0 * (predicted - rerecorded) / rerecorded)
    }
}

/// One figure of the predictions and measurements of an edit on a machine, run by run.
pub(crate) fn compared(
    runs: &[Run],
    figure: impl Fn(&Predicted) -> Option<Measured>,
) -> Option<Compared> {
    let side = |of: &dyn Fn(&Run) -> Option<f64>| {
        let figures: Option<Vec<f64>> = runs.iter().map(of).collect();
        figures.map(|figures| Spread::of(&figures))
    };
    Some(Compared {
        without: side(&|run| Some(figure(&run.predicted)?.without))?,
        predicted: side(&|run| Some(figure(&run.predicted)?.with))?,
        rerecorded: side(&|run| Some(figure(&run.measured)?.without))?,
    })
}

/// A run on both kernels.
pub(crate) struct Run {
    /// From the kernel without patches.
    pub(crate) predicted: Predicted,
    /// The kernel with them, under edits that change nothing: its cost is the side without.
    pub(crate) measured: Predicted,
}

pub(crate) fn list(numbers: &[u64]) -> String {
    let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
    words.join(", ")
}
