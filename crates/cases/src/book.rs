//! Collects figures out of the outputs that steps left. What they mean side by side is for
//! [`crate::results()`].

use std::collections::{BTreeMap, BTreeSet};

use linemate_answers::{
    CaseInputs, Checked, Contended, Costs, EventCount, FoundGroup, FoundType, GroupRow, Measured,
    Predicted, Rebuilt, ReplayedAs, WhatIf,
};

use crate::case::{Case, PredictedFigure, PredictedOf};
use crate::documents::{OutputError, Outputs, StepDocument, TypeReport};
use crate::plan::{Plan, StepId, Work};
use crate::runs::{PairedRun, Runs};

/// The most fields in a ranking; results.md shows fewer.
const CONTENDED_MAX: usize = 200;
/// The most groups of fields that are listed.
const GROUPS_MAX: usize = 100;

/// A case's steps and what they left.
pub(crate) struct Book<'b> {
    case: &'b Case,
    plan: &'b Plan<'b>,
    /// The steps that left JSON, in their order.
    steps: Vec<(&'b Work, StepDocument)>,
}

impl<'b> Book<'b> {
    /// Reads the outputs.
    ///
    /// # Errors
    /// The first that is not what its schema says.
    pub(crate) fn new(
        case: &'b Case,
        plan: &'b Plan<'b>,
        outputs: &Outputs,
    ) -> Result<Book<'b>, OutputError> {
        let mut steps = Vec::new();
        for (number, step) in plan.steps.iter().enumerate() {
            let Some(value) = outputs.get(&StepId(number)) else {
                continue;
            };
            let document = StepDocument::read(&step.work, value).map_err(|reason| OutputError {
                step: step.title.clone(),
                reason,
            })?;
            steps.extend(document.map(|document| (&step.work, document)));
        }
        Ok(Book { case, plan, steps })
    }

    fn reports(&self) -> impl Iterator<Item = (&str, &TypeReport)> {
        self.steps.iter().filter_map(|step| match step {
            (Work::Report { type_name, .. }, StepDocument::Report(report)) => {
                Some((type_name.as_str(), &**report))
            }
            _ => None,
        })
    }

    fn costs_of(&self, wanted: &str) -> Option<&Costs> {
        self.steps.iter().find_map(|step| match step {
            (Work::Costs { type_name, .. }, StepDocument::Costs(costs)) if type_name == wanted => {
                Some(&**costs)
            }
            _ => None,
        })
    }

    /// The first what-if of a step that is wanted, and its recording's events.
    fn what_if(&self, is_wanted: impl Fn(&Work) -> bool) -> Option<(&WhatIf, Option<&EventCount>)> {
        self.steps
            .iter()
            .find_map(|(work, document)| match document {
                StepDocument::WhatIf(result, event) if is_wanted(work) => {
                    Some((&**result, event.as_ref()))
                }
                _ => None,
            })
    }

    pub(crate) fn replay(&self) -> ReplayedAs {
        let replay = &self.plan.replay;
        let default = ReplayedAs::default();
        ReplayedAs {
            cold: replay.cold,
            mechanisms: replay.mechanisms.clone().unwrap_or(default.mechanisms),
            llc_share: self.plan.llc_share(),
            cpus: replay.cpus,
        }
    }

    pub(crate) fn inputs(&self) -> CaseInputs {
        let Some((_, report)) = self.reports().next() else {
            return CaseInputs::default();
        };
        CaseInputs {
            recording: report.inputs.recording.clone(),
            checksum: report.inputs.checksum.clone().unwrap_or_default(),
            accesses: report.ledger.recorded,
        }
    }

    pub(crate) fn found(&self) -> Vec<FoundType> {
        let mut found = Vec::new();
        for (type_name, report) in self.reports() {
            let Some(costs) = self.costs_of(type_name) else {
                continue;
            };
            found.push(FoundType {
                name: type_name.to_owned(),
                bytes: report.of.size,
                accesses: report.of.figures.accesses,
                groups: report
                    .of
                    .groups
                    .iter()
                    .take(GROUPS_MAX)
                    .map(group)
                    .collect(),
                machine: costs.machine.clone(),
                cycles: costs.potential.cost,
                true_sharing: costs.potential.true_sharing,
                false_sharing: costs.potential.false_sharing,
                contended: contended(costs, type_name),
            });
        }
        found
    }

    /// The share of all cycles under a function, on the first machine.
    pub(crate) fn share_under(&self, function: &str) -> Option<f64> {
        let machine = self.case.machines.first()?;
        self.share_of(self.plan.examined, function, machine)
    }

    fn share_of(&self, recorded: StepId, wanted: &str, on: &str) -> Option<f64> {
        self.steps.iter().find_map(|step| match step {
            (
                Work::Under {
                    of,
                    function,
                    machine,
                },
                StepDocument::Costs(costs),
            ) if *of == recorded && function == wanted && machine == on => {
                let under = costs.under.as_ref()?;
                let all = under.all_cycles.sum();
                (all > 0).then(|| under.cycles.sum() as f64 / all as f64)
            }
            _ => None,
        })
    }

    /// The share without an edit, and the one that is predicted with it.
    pub(crate) fn predicted_share(&self, of: &PredictedOf, wanted: &str) -> Option<(f64, f64)> {
        let (result, _) = self.what_if(|work| {
            matches!(work, Work::WhatIfUnder { edit, function, machine, .. }
                if self.edit_name(*edit) == of.edit && function == wanted && *machine == of.machine)
        })?;
        let under = result.under.as_ref()?;
        let (part, all) = (under.cycles, under.all_cycles);
        let share = |part: f64, all: f64| (all > 0.0).then(|| part / all);
        share(part.without, all.without).zip(share(part.with, all.with))
    }

    /// The shares in the runs of the kernel built without patches, and in those of the kernel with
    /// an edit's.
    pub(crate) fn rebuilt_shares(&self, of: &PredictedOf, function: &str) -> Option<[Vec<f64>; 2]> {
        let share = |recorded: &StepId| self.share_of(*recorded, function, &of.machine);
        // A step for a share does not say which edit its recording has; measurements do.
        let mut patched = BTreeSet::new();
        for (work, _) in &self.steps {
            match work {
                Work::Measure {
                    of: recorded, edit, ..
                } if self.edit_name(*edit) == of.edit => {
                    patched.insert(*recorded);
                }
                _ => {}
            }
        }
        let without: Option<Vec<f64>> = self.plan.bases.iter().map(share).collect();
        let with: Option<Vec<f64>> = patched.iter().map(share).collect();
        let sides = [without?, with?];
        (!sides.iter().any(Vec::is_empty)).then_some(sides)
    }

    fn edit_name(&self, edit: usize) -> String {
        let edit = self.case.edits.get(edit);
        edit.map(|edit| edit.name.clone()).unwrap_or_default()
    }

    pub(crate) fn predicted(&self) -> Vec<Predicted> {
        let of_examined = |(work, document): &(&Work, StepDocument)| match (work, document) {
            (Work::WhatIf { of, edit, .. }, StepDocument::WhatIf(result, _))
                if *of == self.plan.examined =>
            {
                Some(self.prediction(*edit, result))
            }
            _ => None,
        };
        self.steps.iter().filter_map(of_examined).collect()
    }

    fn prediction(&self, edit: usize, result: &WhatIf) -> Predicted {
        let wanted: Vec<&str> = self
            .case
            .published
            .iter()
            .filter_map(|row| match &row.predicted.as_ref()?.of {
                PredictedFigure::Function(name) => Some(name.as_str()),
                PredictedFigure::Types
                | PredictedFigure::Misses
                | PredictedFigure::LoadMisses
                | PredictedFigure::ShareUnder(_) => None,
            })
            .collect();
        let functions = result.functions.iter();
        let functions = functions.filter(|row| wanted.contains(&row.name.as_str()));
        let sizes = result.sizes.iter();
        Predicted {
            edit: self.edit_name(edit),
            machine: result.machine.clone(),
            cpus: result.cpus as u64,
            line_bytes: result.line_bytes,
            sizes: sizes
                .map(|size| (size.name.clone(), size.without_lines, size.with_lines))
                .collect(),
            types: result.types.into(),
            whole: result.whole.into(),
            llc_misses: result.llc_misses.kernel.into(),
            llc_load_misses: result.llc_misses.kernel_loads.into(),
            functions: functions
                .map(|row| (row.name.clone(), Measured::from(row.cycles)))
                .collect::<BTreeMap<_, _>>(),
            skipped: result.skipped,
            accesses: result.types_accesses,
        }
    }

    pub(crate) fn rebuilt(&self) -> Vec<Rebuilt> {
        let mut rebuilt = Vec::new();
        for (number, edit) in self.case.edits.iter().enumerate() {
            for machine in &self.case.machines {
                let runs = self.runs(number, machine);
                let Some(first) = runs.0.first() else {
                    continue;
                };
                let names = first.predicted.functions.keys();
                let function = |name: &String| {
                    let figure = |p: &Predicted| p.functions.get(name).copied();
                    Some((name.clone(), runs.figure(figure)?))
                };
                let event = self.case.event.as_ref();
                let accesses = runs.figure(|p| Some(Measured::same(p.accesses as f64)));
                let accesses = accesses.unwrap_or_default();
                let cost = runs.figure(|p| Some(p.types)).unwrap_or_default();
                let cost = match accesses.is_renamed() {
                    true => cost.not_comparable(),
                    false => cost,
                };
                rebuilt.push(Rebuilt {
                    edit: edit.name.clone(),
                    machine: first.predicted.machine.clone(),
                    types: first.predicted.sizes.iter().map(|s| s.0.clone()).collect(),
                    runs: runs.0.len(),
                    event: event.and_then(|event| runs.events(&event.name)),
                    cost,
                    accesses,
                    whole: runs.figure(|p| Some(p.whole)).unwrap_or_default(),
                    llc_misses: runs.figure(|p| Some(p.llc_misses)).unwrap_or_default(),
                    llc_load_misses: runs.figure(|p| Some(p.llc_load_misses)).unwrap_or_default(),
                    functions: names.filter_map(function).collect(),
                });
            }
        }
        rebuilt
    }

    /// The runs of an edit on a machine that were carried out on both kernels.
    fn runs(&self, edit: usize, machine: &str) -> Runs {
        let mut runs = Vec::new();
        for (run, base) in self.plan.bases.iter().enumerate() {
            let predicted = self.what_if(|work| {
                matches!(work, Work::WhatIf { of, edit: e, machine: m } if of == base && *e == edit && m == machine)
            });
            let measured = self.what_if(|work| {
                matches!(work, Work::Measure { of, edit: e, machine: m }
                    if *e == edit && m == machine && self.plan.run(*of) == Some(run))
            });
            if let (Some((predicted, event)), Some((measured, patched_event))) =
                (predicted, measured)
            {
                runs.push(PairedRun {
                    predicted: self.prediction(edit, predicted),
                    measured: self.prediction(edit, measured),
                    event: event.cloned(),
                    patched_event: patched_event.cloned(),
                });
            }
        }
        Runs(runs)
    }

    pub(crate) fn checked(&self) -> Vec<Checked> {
        let mut checked = Vec::new();
        for (work, document) in &self.steps {
            let (Work::Check { edit, check, .. }, StepDocument::Check(output)) = (work, document)
            else {
                continue;
            };
            let Some(about) = self.case.checks.get(*check) else {
                continue;
            };
            checked.push(Checked {
                edit: self.edit_name(*edit),
                check: about.name.clone(),
                config: about.config.clone(),
                said: output.said.clone(),
            });
        }
        checked
    }
}

fn group(group: &GroupRow) -> FoundGroup {
    FoundGroup {
        class: group.class.to_string(),
        fields: group.fields.clone(),
        share: group.share,
        loads_per_store: group.loads_per_store,
        lines: group.lines.clone(),
    }
}

fn contended(costs: &Costs, type_name: &str) -> Vec<Contended> {
    let prefix = format!("{type_name}.");
    let row = |row: &linemate_answers::Cost| Contended {
        field: row
            .name
            .strip_prefix(&prefix)
            .unwrap_or(&row.name)
            .to_owned(),
        cycles: row.cycles,
        loads: row.loads,
        stores: row.stores,
        hitm: row.hitm.iter().sum(),
        cycles_per_load: cycles_per_load(costs, &row.name),
    };
    costs.fields.iter().take(CONTENDED_MAX).map(row).collect()
}

/// Over all lines in which the field, called by its whole path, went between cores.
fn cycles_per_load(costs: &Costs, path: &str) -> Option<f64> {
    let (mut loads, mut cycles) = (0.0, 0.0);
    let cells = costs.lines.iter().flat_map(|line| &line.cells);
    for cell in cells.filter(|cell| cell.field == path) {
        let count = cell.loads as f64;
        loads += count;
        cycles += count * cell.cycles_per_load;
    }
    (loads > 0.0).then(|| cycles / loads)
}
