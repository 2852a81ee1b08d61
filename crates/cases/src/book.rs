//! Collects figures out of the outputs that steps left. What they mean side by side is for [`crate::results`].

use std::collections::BTreeMap;

use crate::case::{Case, PredictedFigure};
use crate::figures::{FigureError, Output};
use crate::plan::{Plan, StepId, Work};
use crate::results::{
    Checked, Contended, FoundGroup, FoundType, Inputs, Outputs, Predicted, Rebuilt, Run, compared,
};

/// The most fields in a ranking; results.md shows fewer.
const CONTENDED_MAX: usize = 200;
/// The most groups of fields that are listed.
const GROUPS_MAX: usize = 100;

/// A case's steps and what they left.
pub(crate) struct Book<'b> {
    pub(crate) case: &'b Case,
    pub(crate) plan: &'b Plan<'b>,
    pub(crate) outputs: &'b Outputs,
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

    pub(crate) fn inputs(&self) -> Result<Inputs, FigureError> {
        let report = self
            .steps()
            .find(|(work, _)| matches!(work, Work::Report { .. }));
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

    pub(crate) fn found(&self) -> Result<Vec<FoundType>, FigureError> {
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

    pub(crate) fn predicted(&self) -> Result<Vec<Predicted>, FigureError> {
        let mut predicted = Vec::new();
        for (work, output) in self.steps() {
            if let Work::WhatIf { of, edit, .. } = work {
                if *of == self.plan.examined {
                    predicted.push(self.prediction(*edit, output)?);
                }
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
            .filter_map(|row| match &row.predicted.as_ref()?.of {
                PredictedFigure::Function(name) => Some(name.as_str()),
                PredictedFigure::Types | PredictedFigure::Misses => None,
            })
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
            misses: result.measured("/misses/kernel")?,
            functions,
            skipped: result.count("/skipped")?,
        })
    }

    pub(crate) fn rebuilt(&self) -> Result<Vec<Rebuilt>, FigureError> {
        let mut rebuilt = Vec::new();
        for (number, edit) in self.case.edits.iter().enumerate() {
            for machine in &self.case.machines {
                let runs = self.runs(number, machine)?;
                let Some(first) = runs.first() else { continue };
                let names = first.predicted.functions.keys();
                let function = |name: &String| {
                    let figure = |p: &Predicted| p.functions.get(name).copied();
                    Some((name.clone(), compared(&runs, figure)?))
                };
                rebuilt.push(Rebuilt {
                    edit: edit.name.clone(),
                    machine: first.predicted.machine.clone(),
                    types: first.predicted.sizes.iter().map(|s| s.0.clone()).collect(),
                    runs: runs.len(),
                    cost: compared(&runs, |p| Some(p.types)).unwrap_or_default(),
                    whole: compared(&runs, |p| Some(p.whole)).unwrap_or_default(),
                    misses: compared(&runs, |p| Some(p.misses)).unwrap_or_default(),
                    functions: names.filter_map(function).collect(),
                });
            }
        }
        Ok(rebuilt)
    }

    /// The runs of an edit on a machine that were carried out on both kernels.
    fn runs(&self, edit: usize, machine: &str) -> Result<Vec<Run>, FigureError> {
        let mut runs = Vec::new();
        for (run, base) in self.plan.bases.iter().enumerate() {
            let predicted = self.steps().find(|(work, _)| {
                matches!(work, Work::WhatIf { of, edit: e, machine: m } if of == base && *e == edit && m == machine)
            });
            let measured = self.steps().find(|(work, _)| {
                matches!(work, Work::Measure { of, edit: e, machine: m }
                    if *e == edit && m == machine && self.plan.run(*of) == Some(run))
            });
            if let (Some((_, predicted)), Some((_, measured))) = (predicted, measured) {
                runs.push(Run {
                    predicted: self.prediction(edit, predicted)?,
                    measured: self.prediction(edit, measured)?,
                });
            }
        }
        Ok(runs)
    }

    pub(crate) fn checked(&self) -> Result<Vec<Checked>, FigureError> {
        let mut checked = Vec::new();
        for (work, output) in self.steps() {
            let Work::Check { edit, check, .. } = work else {
                continue;
            };
            let Some(about) = self.case.checks.get(*check) else {
                continue;
            };
            checked.push(Checked {
                edit: self.edit_name(*edit),
                check: about.name.clone(),
                config: about.config.clone(),
                said: output.text("/said")?.to_owned(),
            });
        }
        Ok(checked)
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
