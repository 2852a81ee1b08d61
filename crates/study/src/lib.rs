//! Questions about a recording: what it costs on a machine, what edits change, how it differs from
//! another.
//!
//! * [`fn@compare`] replays edits against the recorded layout and measures what they change;
//! * [`Study`] compares edits with the recorded layout and gives a [`linemate_answers::WhatIf`];
//! * [`mod@costs`] says what costs how much as recorded; [`diff`] compares two recordings field by
//!   field.
//!
//! Nothing here prints.

pub mod border;
mod closed_queue;
pub mod compare;
pub mod costs;
pub mod coverage;
pub mod diff;
pub mod effect;
pub mod whatif;

pub use compare::{Effect, Interleavings, compare};
pub use costs::{CostRun, costs};
pub use coverage::{CoveredType, FieldUses, field_uses};
pub use linemate_stats::Precision;
pub use whatif::{Run, Study, WhatIfError};
