//! What came out of a case: the model behind results.json (docs/cases.md) and results.md.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::case::{Case, FoundFigure, PredictedOf, Published};
use crate::figures::{FigureError, Output};
use crate::plan::{Mode, Plan, StepId, Work};

/// The schema's name and version.
pub const SCHEMA: &str = "linemate.case/1";
/// The most fields in a ranking; results.md shows fewer.
const CONTENDED_MAX: usize = 200;
/// The most groups of fields that are listed.
const GROUPS_MAX: usize = 100;

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
    /// Cycles by function, for the functions that published figures are about.
    pub functions: BTreeMap<String, Measured>,
    /// Accesses that would not happen.
    pub skipped: u64,
}

/// A prediction beside the kernel that was built.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rebuilt {
    /// The edit.
    pub edit: String,
    /// The machine.
    pub machine: String,
    /// The types whose cost is compared.
    pub types: Vec<String>,
    /// Predicted from the kernel built without patches: its own cost is `without`.
    pub predicted: Measured,
    /// The cost of the same types in the recording of the patched kernel, the mean over the same interleavings.
    pub rerecorded: f64,
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
        let measure = predicted.and_then(|p| match &of.function {
            Some(function) => p.functions.get(function),
            None => Some(&p.types),
        });
        match measure.and_then(Measured::relative) {
            Some((change, bar)) => format!("{change:+.1} ± {bar:.1} %"),
            None => "never left its core".to_owned(),
        }
    }

    /// A function's cost is not compared: the compiler may have inlined it elsewhere in another build.
    fn rerecorded(&self, of: &PredictedOf) -> Option<String> {
        let rebuilt = self
            .rebuilt
            .iter()
            .find(|r| r.edit == of.edit && r.machine == of.machine)?;
        (of.function.is_none() && rebuilt.predicted.without > 0.0).then(|| {
            let change = rebuilt.rerecorded / rebuilt.predicted.without - 1.0;
            format!("{:+.1} %", 100.0 * change)
        })
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

impl Rebuilt {
    /// How far the re-recorded cost is from the predicted one, in per cent of the re-recorded.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        (self.rerecorded > 0.0)
            .then(|| 100.0 * (self.predicted.with - self.rerecorded) / self.rerecorded)
    }
}

pub(crate) fn list(numbers: &[u64]) -> String {
    let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
    words.join(", ")
}

/// A case's steps and what they left.
struct Book<'b> {
    case: &'b Case,
    plan: &'b Plan<'b>,
    outputs: &'b Outputs,
}

impl<'b> Book<'b> {
    /// The steps that left JSON, with it.
    fn steps(&self) -> impl Iterator<Item = (&'b Work, Output<'b>)> {
        let (plan, outputs) = (self.plan, self.outputs);
        plan.steps.iter().enumerate().filter_map(|(number, step)| {
            let value = outputs.get(&StepId(number))?;
            let output = Output {
                step: &step.title,
                value,
            };
            Some((&step.work, output))
        })
    }

    /// The recording of the unmodified kernel is the first step.
    const STOCK: StepId = StepId(0);

    fn inputs(&self) -> Result<Inputs, FigureError> {
        let report = self
            .steps()
            .find(|(work, _)| matches!(work, Work::Report { of, .. } if *of == Self::STOCK));
        let Some((_, report)) = report else {
            return Ok(Inputs::default());
        };
        let mut recording = BTreeMap::new();
        let metadata = report.at("/inputs/recording")?.value.as_object();
        for (name, value) in metadata.into_iter().flatten() {
            recording.insert(name.clone(), value.as_str().unwrap_or_default().to_owned());
        }
        Ok(Inputs {
            recording,
            checksum: report.text("/inputs/checksum")?.to_owned(),
            accesses: report.count("/ledger/recorded")?,
        })
    }

    fn found(&self) -> Result<Vec<FoundType>, FigureError> {
        let mut found = Vec::new();
        for (work, report) in self.steps() {
            let Work::Report { type_name, .. } = work else {
                continue;
            };
            let costs = self.steps().find(|(work, _)| {
                matches!(work, Work::Costs { type_name: name, .. } if name == type_name)
            });
            let Some((_, costs)) = costs else {
                continue;
            };
            let groups = report.items("/type/groups")?.take(GROUPS_MAX);
            found.push(FoundType {
                name: type_name.clone(),
                bytes: report.count("/type/size")?,
                accesses: report.count("/type/figures/accesses")?,
                groups: groups.map(group).collect::<Result<_, _>>()?,
                machine: costs.text("/costs/machine")?.to_owned(),
                cycles: costs.number("/costs/potential/cost")?,
                true_sharing: costs.number("/costs/potential/true_sharing")?,
                false_sharing: costs.number("/costs/potential/false_sharing")?,
                contended: contended(costs, type_name)?,
            });
        }
        Ok(found)
    }

    fn edit_name(&self, edit: usize) -> String {
        let edit = self.case.edits.get(edit);
        edit.map(|edit| edit.name.clone()).unwrap_or_default()
    }

    fn predicted(&self) -> Result<Vec<Predicted>, FigureError> {
        let mut predicted = Vec::new();
        for (work, output) in self.steps() {
            if let Work::WhatIf { of, edit, .. } = work
                && *of == Self::STOCK
            {
                predicted.push(self.prediction(*edit, output)?);
            }
        }
        Ok(predicted)
    }

    fn prediction(&self, edit: usize, output: Output<'b>) -> Result<Predicted, FigureError> {
        let result = output.at("/results/0")?;
        let mut sizes = Vec::new();
        for size in result.items("/sizes")? {
            let name = size.text("/name")?.to_owned();
            let lines = (size.count("/without_lines")?, size.count("/with_lines")?);
            sizes.push((name, lines.0, lines.1));
        }
        let wanted: Vec<&str> = self
            .case
            .published
            .iter()
            .filter_map(|row| row.predicted.as_ref()?.function.as_deref())
            .collect();
        let mut functions = BTreeMap::new();
        for row in result.items("/functions")? {
            let name = row.text("/name")?;
            if wanted.contains(&name) {
                functions.insert(name.to_owned(), row.measured("/cycles")?);
            }
        }
        Ok(Predicted {
            edit: self.edit_name(edit),
            machine: result.text("/machine")?.to_owned(),
            cpus: result.count("/cpus")?,
            line_bytes: result.count("/line_bytes")?,
            sizes,
            types: result.measured("/types")?,
            whole: result.measured("/whole")?,
            functions,
            skipped: result.count("/skipped")?,
        })
    }

    fn rebuilt(&self) -> Result<Vec<Rebuilt>, FigureError> {
        let mut rebuilt = Vec::new();
        for (work, output) in self.steps() {
            let Work::WhatIf { of, edit, machine } = work else {
                continue;
            };
            if *of == Self::STOCK {
                continue;
            }
            let prediction = self.prediction(*edit, output)?;
            let types: Vec<String> = prediction.sizes.iter().map(|s| s.0.clone()).collect();
            if let Some(rerecorded) = self.rerecorded(*edit, machine)? {
                rebuilt.push(Rebuilt {
                    edit: prediction.edit,
                    machine: prediction.machine,
                    types,
                    predicted: prediction.types,
                    rerecorded,
                });
            }
        }
        Ok(rebuilt)
    }

    /// The mean cost of the edit's types in the recording of the kernel with its patches.
    fn rerecorded(&self, edit: usize, machine: &str) -> Result<Option<f64>, FigureError> {
        let measured = self.steps().find(|(work, _)| {
            matches!(work, Work::Measure { edit: e, machine: m, .. } if *e == edit && m == machine)
        });
        let cost = measured.map(|(_, output)| output.number("/results/0/types/without"));
        cost.transpose()
    }
}

fn group(group: Output<'_>) -> Result<FoundGroup, FigureError> {
    Ok(FoundGroup {
        class: group.text("/class")?.to_owned(),
        fields: group.texts("/fields")?,
        share: group.number("/share")?,
        loads_per_store: group.at("/loads_per_store")?.value.as_f64(),
        lines: group.counts("/lines")?,
    })
}

fn contended(costs: Output<'_>, type_name: &str) -> Result<Vec<Contended>, FigureError> {
    let prefix = format!("{type_name}.");
    let mut rows = Vec::new();
    for row in costs.items("/costs/fields")?.take(CONTENDED_MAX) {
        let path = row.text("/name")?;
        rows.push(Contended {
            field: path.strip_prefix(&prefix).unwrap_or(path).to_owned(),
            cycles: row.count("/cycles")?,
            loads: row.count("/loads")?,
            stores: row.count("/stores")?,
            hitm: row.counts("/hitm")?.iter().sum(),
            cycles_per_load: cycles_per_load(costs, path)?,
        });
    }
    Ok(rows)
}

/// Over all lines in which the field, called by its whole path, went between cores.
fn cycles_per_load(costs: Output<'_>, path: &str) -> Result<Option<f64>, FigureError> {
    let (mut loads, mut cycles) = (0.0, 0.0);
    for line in costs.items("/costs/lines")? {
        for cell in line.items("/cells")? {
            if cell.text("/field")? == path {
                let count = cell.number("/loads")?;
                loads += count;
                cycles += count * cell.number("/cycles_per_load")?;
            }
        }
    }
    Ok((loads > 0.0).then(|| cycles / loads))
}
