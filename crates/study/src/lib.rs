//! Experiments on a recording: what it costs on a machine, and what edits change.
//!
//! * [`Session`] is a recording that is asked about, with what earlier questions have worked out;
//! * [`Scene`](scene::Scene) is what a recording holds of the types that a question is about;
//! * [`Variant`](variant::Variant) is where its accesses go under edits;
//! * [`Experiment`] replays variants under several interleavings: the one road for every question;
//! * [`Study`] compares edits with the recorded layout and gives a [`linemate_answers::WhatIf`];
//! * [`growth`] says how accesses per CPU grow with the CPUs, from a series of recordings;
//! * [`mod@costs`] says what costs how much as it is; [`diff`] compares two recordings field by field.
//!
//! Nothing here prints.

pub mod border;
pub mod calls;
mod code;
pub mod costs;
mod cpus;
pub mod diff;
pub mod effect;
mod error;
pub mod event;
pub mod experiment;
pub mod follow;
mod groups;
pub mod growth;
mod known;
pub mod order;
mod ownership;
pub mod progress;
pub mod relocate;
mod rounds;
mod runner;
pub mod scene;
pub mod session;
pub mod sets;
pub mod shelf;
pub mod stats;
mod steps;
mod stream;
mod supply;
pub mod under;
pub mod variant;
pub mod whatif;

pub use costs::{CostRun, costs};
pub use event::EventError;
pub use experiment::{Conditions, Cpus, Experiment, ExperimentError};
pub use groups::Groups;
pub use growth::{Factor, Growth};
pub use linemate_replay::Mixing;
pub use ownership::majority;
pub use session::Session;
pub use shelf::Shelf;
pub use under::{Under, UnderError};
pub use whatif::{Run, Study, WhatIfError};
