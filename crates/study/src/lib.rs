//! Experiments on a recording: what it costs on a machine, and what edits change.
//!
//! * [`session`]: [`Session`] is a recording that is asked about, with what earlier questions have worked out;
//! * [`experiment`]: [`Scene`](scene::Scene) is what a recording holds of the types that a question is about;
//! * [`Variant`](variant::Variant) is where its accesses go under edits;
//! * [`Experiment`] replays variants under several interleavings: the one road for every question;
//! * [`fn@compare`] replays edits against the recorded layout and measures what they change;
//! * [`Study`] compares edits with the recorded layout and gives a [`linemate_answers::WhatIf`];
//! * [`growth`] says how accesses per CPU grow with the CPUs, from a series of recordings;
//! * [`mod@costs`] says what costs how much as it is; [`diff`] compares two recordings field by field.
//!
//! Nothing here prints.

pub mod border;
pub mod compare;
pub mod costs;
pub mod diff;
pub mod effect;
mod error;
pub mod experiment;
pub mod growth;
pub mod session;
pub mod sets;
pub mod whatif;

pub use compare::{Effect, compare};
pub use costs::{CostRun, costs};
pub use experiment::under::{Under, UnderError};
pub use experiment::{Conditions, Cpus, Experiment, ExperimentError, Groups, Interleavings};
pub use experiment::{calls, scene, under, variant};
pub use growth::{Factor, Growth};
pub use linemate_replay::Mixing;
pub use session::event::EventError;
pub use session::ownership::majority;
pub use session::shelf::Shelf;
pub use session::{Session, event, progress, shelf};
pub use whatif::{Run, Study, WhatIfError};
