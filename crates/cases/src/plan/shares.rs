//! The steps for published shares of all cycles under a function.

use super::{Plan, StepId, Work};
use crate::case::{FoundFigure, PredictedFigure};

impl Plan<'_> {
    /// The shares of the examined kernel: as recorded on the first machine, and with edits.
    pub(super) fn find_shares(&mut self) {
        let (case, of) = (self.case, self.examined);
        for row in &case.published {
            if let Some(FoundFigure::ShareUnder { function }) = &row.found {
                for machine in case.machines.iter().take(1) {
                    self.share(of, function, machine, "");
                }
            }
        }
        for row in &case.published {
            let Some(wanted) = &row.predicted else {
                continue;
            };
            let PredictedFigure::ShareUnder(function) = &wanted.of else {
                continue;
            };
            let Some(edit) = case.edits.iter().position(|edit| edit.name == wanted.edit) else {
                continue;
            };
            let (name, machine) = (&wanted.edit, &wanted.machine);
            let title = format!("predict the share under {function} with {name} on {machine}");
            let work = Work::WhatIfUnder {
                of,
                edit,
                function: function.clone(),
                machine: machine.clone(),
            };
            self.once(title, work);
        }
    }

    /// The shares of the kernel built without patches, and of the one with an edit's.
    pub(super) fn compare_shares(&mut self, edit: usize, records: &[StepId]) {
        let case = self.case;
        let name = case.edits.get(edit).map(|edit| edit.name.as_str());
        for wanted in case
            .published
            .iter()
            .filter_map(|row| row.predicted.as_ref())
        {
            let PredictedFigure::ShareUnder(function) = &wanted.of else {
                continue;
            };
            if name != Some(wanted.edit.as_str()) {
                continue;
            }
            for (run, of) in self.bases.clone().into_iter().enumerate() {
                let kernel = format!(", kernel built without patches{}", self.seed_named(run));
                self.share(of, function, &wanted.machine, &kernel);
            }
            for (run, of) in records.iter().enumerate() {
                let kernel = format!(", kernel with {}{}", wanted.edit, self.seed_named(run));
                self.share(*of, function, &wanted.machine, &kernel);
            }
        }
    }

    fn share(&mut self, of: StepId, function: &str, machine: &str, kernel: &str) {
        let title = format!("find the share under {function} on {machine}{kernel}");
        let work = Work::Under {
            of,
            function: function.to_owned(),
            machine: machine.to_owned(),
        };
        self.once(title, work);
    }

    /// Two published figures may be about one share.
    fn once(&mut self, title: String, work: Work) {
        if !self.steps.iter().any(|step| step.work == work) {
            self.add(title, work);
        }
    }
}
