//! Experiments on a recording: what happens on a machine, and under edits.
//!
//! * [`Scene`](scene::Scene) is what a recording holds of the types that a question is about;
//! * [`Variant`](variant::Variant) is where its accesses go under edits;
//! * [`Experiment`] replays variants under several interleavings: the one road for every question;
//! * [`Under`] says when a function is on a stack;
//! * [`series_counts`] is what a recording brings to a series ([`linemate_growth`]).
//!
//! Nothing here prints.

mod baseline;
pub mod calls;
mod code;
mod conditions;
mod cpus;
mod difference;
mod error;
pub mod follow;
mod groups;
mod known;
mod locks;
mod names;
pub mod order;
mod placed;
pub mod ranges;
pub mod relocate;
mod round_order;
mod run;
mod runner;
pub mod scene;
mod series;
mod sets;
mod setup;
mod supply;
pub mod under;
pub mod variant;
mod watch;

pub use conditions::{Conditions, Groups, INTERLEAVINGS_MIN, Seed, seeds};
pub use cpus::Cpus;
pub use error::{ExperimentError, VariantError};
pub use linemate_replay::Mixing;
pub use placed::{CauseTallies, PlacedCounts};
pub use round_order::{Ordered, RoundOrder};
pub use run::INTERLEAVINGS_AT_ONCE;
pub use series::series_counts;
pub use setup::Experiment;
pub use under::{Under, UnderError};
