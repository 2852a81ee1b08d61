//! Which steps must finish before which, as steps run in parallel.

use std::collections::BTreeSet;

use super::{Plan, StepId, Work};
use crate::case::KernelSource;

impl Plan<'_> {
    /// The steps that finish before a step starts. Their numbers are lower than its own.
    #[must_use]
    pub fn before(&self, id: StepId) -> BTreeSet<StepId> {
        let Some(step) = self.steps.get(id.0) else {
            return BTreeSet::new();
        };
        let mut before: BTreeSet<StepId> = step.work.reads().into_iter().collect();
        match &step.work {
            Work::Build { check, .. } => before.extend(self.before_build(id, *check)),
            work if work.is_analysis() => before.extend(self.first_of(id, work)),
            _ => {}
        }
        before
    }

    /// Before a build: predictions of the unmodified kernel, which refuse an event that never
    /// happened before an hour of compiling; and builds of the same source and configuration, which
    /// share a folder.
    fn before_build(&self, id: StepId, check: Option<usize>) -> impl Iterator<Item = StepId> {
        let is_built = self.case.kernel == KernelSource::Built;
        let is_before = move |work: &Work| match work {
            Work::Build { check: other, .. } => *other == check,
            Work::WhatIf { of, .. } => !is_built && *of == self.examined,
            _ => false,
        };
        let steps = self.steps.iter().take(id.0).enumerate();
        steps.filter_map(move |(number, step)| is_before(&step.work).then_some(StepId(number)))
    }

    /// Before an analysis: the first one of its recording, which caches the names of all accesses
    /// for the others.
    fn first_of(&self, id: StepId, work: &Work) -> Option<StepId> {
        let is_same = |other: &Work| other.is_analysis() && other.reads() == work.reads();
        let first = self.steps.iter().position(|step| is_same(&step.work))?;
        (first < id.0).then_some(StepId(first))
    }
}

impl Work {
    /// The step whose output it reads.
    fn reads(&self) -> Option<StepId> {
        match self {
            Work::Build { .. } => None,
            Work::Record { kernel, .. } => *kernel,
            Work::Check { kernel, .. } => Some(*kernel),
            Work::Report { of, .. }
            | Work::Costs { of, .. }
            | Work::WhatIf { of, .. }
            | Work::Measure { of, .. }
            | Work::Under { of, .. }
            | Work::WhatIfUnder { of, .. } => Some(*of),
        }
    }

    fn is_analysis(&self) -> bool {
        !matches!(
            self,
            Work::Build { .. } | Work::Record { .. } | Work::Check { .. }
        )
    }
}
