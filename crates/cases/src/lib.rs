//! Cases: reproducible experiments on a kernel's layouts.
//!
//! * [`parse`] reads a `case.toml` into a [`Case`] that passed its checks;
//! * [`Plan`] says which steps a case takes, what each is made of, and under which content key its output is kept;
//! * [`Results`] is what came out: found, predicted, re-recorded and published figures side by side, as JSON and as [`markdown()`].
//!
//! Nothing here spawns, reads files or prints: steps are carried out by the `case` verb.

mod book;
mod case;
mod error;
mod figures;
mod markdown;
mod plan;
mod raw;
mod results;

pub use case::{
    Build, Case, CaseEdit, Check, FoundFigure, Guest, KernelSource, PredictedFigure, PredictedOf,
    Published, Source, Workload,
};
pub use error::{CaseError, Reason};
pub use figures::FigureError;
pub use markdown::markdown;
pub use plan::{Digests, Ingredient, Key, Mode, Plan, Step, StepId, Work};
pub use raw::parse;
pub use results::{
    Checked, Compared, Contended, FoundGroup, FoundType, Inputs, Measured, Outputs, Predicted,
    PublishedRow, Rebuilt, Results, SCHEMA, Spread,
};
