//! Cases: reproducible experiments on a kernel's layouts.
//!
//! * [`parse`] reads a `case.toml` into a [`Case`] that passed its checks;
//! * [`Plan`] says which steps a case takes, what each is made of, and under which content key its
//!   output is kept;
//! * [`more_runs`] says whether a case wants more runs, from the results of those that it has;
//! * [`results()`] collects what came out: found, predicted, re-recorded and published figures side
//!   by side.
//!
//! Nothing here spawns, reads files or prints: steps are carried out by the `case` verb.

mod book;
mod case;
mod compared;
mod documents;
mod error;
mod plan;
mod raw;
mod results;
mod runs;
mod until;

pub use case::{
    Build, Case, CaseEdit, CaseEvent, Check, FoundFigure, Guest, KernelSource, KernelTree,
    NarrowEnough, PredictedFigure, PredictedOf, Published, RunCount, Workload,
};
pub use documents::{CheckDocument, OutputError, Outputs};
pub use error::{CaseError, Reason};
pub use plan::{
    CaseReplay, CaseStep, Digests, GuestRun, Ingredient, Key, Mode, Plan, RecordedRun, StepId, Work,
};
pub use raw::parse;
pub use results::results;
pub use until::{Interval, MoreRuns, more_runs};
